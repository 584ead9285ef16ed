"""Coordinate descent on least squares through Gram matrices (HALS); see :mod:`.medians` for the layout."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped

__all__ = ["TILE", "hals_columns"]

TILE = 128  # columns at a time: a tile of both factors stays in the first-level cache
LINE = 16  # numbers, at least, that a line of the cache holds
UNROLL = 4  # components whose products are taken together: one load and store of the sum serves them all


@kernel(reassociate=True)
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
    # Whole tiles of scratch copies, made here with a width that is known: loops of a fixed length over their rows
    # become SIMD code without checks (6 x faster). One function, as parts would not know the width (20 % slower).
    padded = -(-F.shape[0] // UNROLL) * UNROLL
    gram, inverse = np.empty((padded, padded), F.dtype), np.empty(padded, F.dtype)
    _pad(G, l2, gram, inverse)
    rows = 2 * padded + UNROLL
    numbers = np.empty(rows * TILE + LINE, F.dtype)
    numbers[:] = 0
    shift = -numbers.ctypes.data // F.itemsize & LINE - 1  # rows begin with a line of the cache (a quarter faster)
    scratch = numbers[shift : shift + rows * TILE].reshape((rows, TILE))
    tile, right = scratch[:padded], scratch[padded : 2 * padded]
    w0, w1, w2, w3 = scratch[rows - 4], scratch[rows - 3], scratch[rows - 2], scratch[rows - 1]
    last = gram.shape[0] - UNROLL
    for first in range(start, stop, TILE):
        size = TILE if first + TILE < stop else stop - first
        _load(F, B, offset, l1, first, size, tile, right)
        for sweep in range(sweeps):
            backward = alternate and sweep % 2 == 1
            for begin in range(0, gram.shape[0], UNROLL):
                k = last - begin if backward else begin
                k0, k1, k2, k3 = (k + 3, k + 2, k + 1, k) if backward else (k, k + 1, k + 2, k + 3)
                # four by four: a load of a factor serves four sums, one of a sum four factors (twice as fast)
                b0, b1, b2, b3 = right[k0], right[k1], right[k2], right[k3]
                for i in range(TILE):
                    w0[i], w1[i], w2[i], w3[i] = b0[i], b1[i], b2[i], b3[i]
                g0, g1, g2, g3 = gram[k0], gram[k1], gram[k2], gram[k3]
                for m in range(0, gram.shape[0], UNROLL):
                    a0, a1, a2, a3 = g0[m], g0[m + 1], g0[m + 2], g0[m + 3]
                    e0, e1, e2, e3 = g1[m], g1[m + 1], g1[m + 2], g1[m + 3]
                    c0, c1, c2, c3 = g2[m], g2[m + 1], g2[m + 2], g2[m + 3]
                    d0, d1, d2, d3 = g3[m], g3[m + 1], g3[m + 2], g3[m + 3]
                    f0, f1, f2, f3 = tile[m], tile[m + 1], tile[m + 2], tile[m + 3]
                    for i in range(TILE):
                        x0, x1, x2, x3 = f0[i], f1[i], f2[i], f3[i]
                        w0[i] -= a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                        w1[i] -= e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
                        w2[i] -= c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                        w3[i] -= d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
                # then one after the other, as ever: the change of each moves the slopes of those after it
                i0, i1, i2, i3 = inverse[k0], inverse[k1], inverse[k2], inverse[k3]
                e0, c0, d0, c1, d1, d2 = g1[k0], g2[k0], g3[k0], g2[k1], g3[k1], g3[k2]
                f0, f1, f2, f3 = tile[k0], tile[k1], tile[k2], tile[k3]
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
        _store(tile, first, size, F)


@kernel(part=True)
def _pad(G, l2, gram, inverse):  # type: ignore[no-untyped-def]
    """Write the system for whole groups of components, and one over its diagonal.

    That stays 0 for a component that is zero everywhere: its codes do not matter.
    """
    gram[:] = 0
    inverse[:] = 0
    for k in range(G.shape[0]):
        for m in range(G.shape[0]):
            gram[k, m] = G[k, m]
        gram[k, k] += l2[k]
        if gram[k, k] > 0:
            inverse[k] = G.dtype.type(1) / gram[k, k]


@kernel(part=True)
def _load(F, B, offset, l1, first, size, tile, right):  # type: ignore[no-untyped-def]
    for k in range(F.shape[0]):
        for i in range(size):
            tile[k, i] = F[k, first + i]
            right[k, i] = B[k, first - offset + i] - l1[k]


@kernel(part=True)
def _store(tile, first, size, F):  # type: ignore[no-untyped-def]
    for k in range(F.shape[0]):
        for i in range(size):
            F[k, first + i] = tile[k, i]
