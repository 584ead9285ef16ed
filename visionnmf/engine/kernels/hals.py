"""Coordinate descent on least squares through Gram matrices (HALS); see :mod:`.medians` for the layout."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped

__all__ = ["TILE", "hals_columns"]

TILE = 128  # columns at a time: a tile of both factors stays in the first-level cache
LINE = 16  # numbers, at least, that a line of the cache holds
FEW = 24  # components, of which two at a time are swept as fast as four, or faster
UNROLL = 4  # components whose products are taken together: one load and store of the sum serves them all


def hals_columns(F, G, B, offset, low, high, l1, l2, sweeps, alternate, start, stop):  # type: ignore[no-untyped-def]
    """Coordinate descent (HALS) on ``|V - A.T F|^2 / 2 + l1 . F + l2 . F^2 / 2`` for columns ``start:stop`` of `F`.

    In place. Cichocki & Phan (2009), Algorithm 2, in Gram form. Columns are independent; the inner loops run along
    them.

    Parameters
    ----------
    F : ndarray (r, n)
        In the box.
    G : ndarray (r, r), symmetric
        ``A A.T``.
    B : ndarray (r, >= stop - offset)
        ``A V``; its first column belongs to column `offset` of `F`.
    offset : int
    low, high : float
        Of the dtype of `F`.
    l1, l2 : ndarray (r,), >= 0
    sweeps : int
    alternate : bool
        Whether every second sweep goes backward.
    start, stop : int
    """
    padded = -(-F.shape[0] // UNROLL) * UNROLL
    rows = 2 * padded + UNROLL
    numbers = np.zeros(rows * TILE + LINE, F.dtype)
    shift = -numbers.ctypes.data // F.itemsize & LINE - 1  # rows begin with a line of the cache (a quarter faster)
    scratch = numbers[shift : shift + rows * TILE].reshape((rows, TILE))
    system = np.zeros((padded + 1, padded), F.dtype)
    few, many = (True, None) if F.shape[0] <= FEW else (None, True)  # None leaves that way to sweep out
    _columns(F, G, B, offset, low, high, l1, l2, sweeps, alternate, start, stop, system, scratch, few, many)


@kernel(reassociate=True)
def _columns(  # type: ignore[no-untyped-def]
    F, G, B, offset, low, high, l1, l2, sweeps, alternate, start, stop, system, scratch, few, many
):
    """Do it, for whole groups of components and whole tiles of columns.

    Parameters
    ----------
    system : ndarray of 0 (padded + 1, padded)
        Receives the Gram matrix and below it one over its diagonal.
    scratch : ndarray of 0 (2 padded + UNROLL, TILE)
        Rows of a tile of `F`, of `B`, and of the sums. One function does it all, as parts would not know the width
        (20 % slower).
    """
    r, padded, width = F.shape[0], system.shape[1], scratch.shape[1]
    if width != TILE:  # never; but LLVM knows the width from here, and that rows do not overlap (6 x faster)
        return
    inverse = system[padded]
    for k in range(r):
        for m in range(r):
            system[k, m] = G[k, m]
        system[k, k] += l2[k]
        # 0 for a component that is zero everywhere: its codes do not matter
        if system[k, k] > 0:
            inverse[k] = 1 / system[k, k]
    w0, w1 = scratch[2 * padded], scratch[2 * padded + 1]
    for first in range(start, stop, TILE):
        size = TILE if first + TILE < stop else stop - first
        for k in range(r):
            for i in range(size):
                scratch[k, i] = F[k, first + i]
                scratch[padded + k, i] = B[k, first - offset + i] - l1[k]
        for sweep in range(sweeps):
            backward = alternate and sweep % 2 == 1
            # A variable or a tuple more is dear to compile, so the ways share little but their form.
            if few is not None:  # two by four
                for begin in range(0, padded, 2):
                    k0 = padded - 1 - begin if backward else begin
                    k1 = k0 - 1 if backward else k0 + 1
                    b0 = scratch[padded + k0]
                    b1 = scratch[padded + k1]
                    for i in range(TILE):
                        w0[i] = b0[i]
                        w1[i] = b1[i]
                    g0 = system[k0]
                    g1 = system[k1]
                    for m in range(0, padded, UNROLL):
                        m1 = m + 1
                        m2 = m + 2
                        m3 = m + 3
                        a0 = g0[m]
                        a1 = g0[m1]
                        a2 = g0[m2]
                        a3 = g0[m3]
                        e0 = g1[m]
                        e1 = g1[m1]
                        e2 = g1[m2]
                        e3 = g1[m3]
                        f0 = scratch[m]
                        f1 = scratch[m1]
                        f2 = scratch[m2]
                        f3 = scratch[m3]
                        for i in range(TILE):
                            x0 = f0[i]
                            x1 = f1[i]
                            x2 = f2[i]
                            x3 = f3[i]
                            w0[i] -= a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                            w1[i] -= e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
                    # then one after the other, as ever: the change of each moves the slopes of those after it
                    i0 = inverse[k0]
                    i1 = inverse[k1]
                    e0 = g1[k0]
                    f0 = scratch[k0]
                    f1 = scratch[k1]
                    for i in range(TILE):
                        x0 = f0[i]
                        f0[i] = clipped(x0 + w0[i] * i0, low, high)
                        f1[i] = clipped(f1[i] + (w1[i] - e0 * (f0[i] - x0)) * i1, low, high)
            if many is not None:  # four by four
                w2, w3 = scratch[2 * padded + 2], scratch[2 * padded + 3]
                for begin in range(0, padded, UNROLL):
                    step = -1 if backward else 1
                    k0 = padded - 1 - begin if backward else begin
                    k1, k2, k3 = k0 + step, k0 + step + step, k0 + step + step + step
                    # four by four: a load of a factor serves four sums, one of a sum four factors (twice as fast)
                    b0, b1 = scratch[padded + k0], scratch[padded + k1]
                    b2, b3 = scratch[padded + k2], scratch[padded + k3]
                    for i in range(TILE):
                        w0[i], w1[i], w2[i], w3[i] = b0[i], b1[i], b2[i], b3[i]
                    g0, g1, g2, g3 = system[k0], system[k1], system[k2], system[k3]
                    for m in range(0, padded, UNROLL):
                        a0, a1, a2, a3 = g0[m], g0[m + 1], g0[m + 2], g0[m + 3]
                        e0, e1, e2, e3 = g1[m], g1[m + 1], g1[m + 2], g1[m + 3]
                        c0, c1, c2, c3 = g2[m], g2[m + 1], g2[m + 2], g2[m + 3]
                        d0, d1, d2, d3 = g3[m], g3[m + 1], g3[m + 2], g3[m + 3]
                        f0, f1, f2, f3 = scratch[m], scratch[m + 1], scratch[m + 2], scratch[m + 3]
                        for i in range(TILE):
                            x0, x1, x2, x3 = f0[i], f1[i], f2[i], f3[i]
                            w0[i] -= a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                            w1[i] -= e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
                            w2[i] -= c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                            w3[i] -= d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
                    # then one after the other, as ever: the change of each moves the slopes of those after it
                    i0, i1, i2, i3 = inverse[k0], inverse[k1], inverse[k2], inverse[k3]
                    e0, c0, d0, c1, d1, d2 = g1[k0], g2[k0], g3[k0], g2[k1], g3[k1], g3[k2]
                    f0, f1, f2, f3 = scratch[k0], scratch[k1], scratch[k2], scratch[k3]
                    for i in range(TILE):
                        old = f0[i]
                        new = clipped(old + w0[i] * i0, low, high)
                        x0 = new - old
                        f0[i] = new
                        old = f1[i]
                        new = clipped(old + (w1[i] - e0 * x0) * i1, low, high)
                        x1 = new - old
                        f1[i] = new
                        old = f2[i]
                        new = clipped(old + (w2[i] - c0 * x0 - c1 * x1) * i2, low, high)
                        x2 = new - old
                        f2[i] = new
                        f3[i] = clipped(f3[i] + (w3[i] - d0 * x0 - d1 * x1 - d2 * x2) * i3, low, high)
        for k in range(r):
            for i in range(size):
                F[k, first + i] = scratch[k, i]
