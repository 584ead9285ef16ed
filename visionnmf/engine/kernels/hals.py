"""Coordinate descent on least squares through Gram matrices (HALS); :mod:`.manhattan` describes the layout."""

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped

TILE = 128  # columns per tile, so that a tile of both factors stays in the L1 cache
LINE = 16  # a 64-byte cache line holds at most this many numbers
FEW = 24  # up to this many components, blocks of two are at least as fast as blocks of four
UNROLL = 4  # components combined in one pass, so that each sum is loaded and stored once for all of them


def hals_columns(F, G, B, offset, low, high, l1, l2, sweeps, alternate, start, stop):
    """Run HALS on ``|V - A.T F|^2 / 2 + l1 . F + l2 . F^2 / 2`` for columns ``start:stop`` of `F` (r, n), in place.

    This is Cichocki & Phan (2009), Algorithm 2, in Gram form: `G` is ``A A.T``, and `B` is ``A V``, whose first column
    belongs to column `offset` of `F`. `alternate` runs every second sweep backward.
    """
    padded = -(-F.shape[0] // UNROLL) * UNROLL  # number of components, rounded up to whole blocks
    rows = 2 * padded + UNROLL  # for `F`, `B` and the sums of one block
    numbers = np.zeros(rows * TILE + LINE, F.dtype)
    shift = -numbers.ctypes.data // F.itemsize & LINE - 1  # align rows to cache lines (25 % faster)
    scratch = numbers[shift : shift + rows * TILE].reshape((rows, TILE))
    system = np.zeros((padded + 1, padded), F.dtype)  # the Gram matrix; the last row is for its inverse diagonal
    few, many = (True, None) if F.shape[0] <= FEW else (None, True)  # None removes that branch at compile time
    _columns(F, G, B, offset, low, high, l1, l2, sweeps, alternate, start, stop, system, scratch, few, many)


@kernel(reassociate=True)
def _columns(F, G, B, offset, low, high, l1, l2, sweeps, alternate, start, stop, system, scratch, few, many):
    """Run one HALS pass, blocked over components and columns; the padding has zeros in the Gram matrix.

    `system` and `scratch` are zero on entry. `few` or `many` selects blocks of two or four components; the other is
    None. It is a single function because separate parts would not know the fixed width of a tile (20 % slower). Within
    a block, k0 to k3 are its components, w0 to w3 their negative gradients, and g0 to g3 their rows of the Gram matrix;
    a, e, c and d are Gram entries; f0 to f3 are rows of `F`, and i0 to i3 inverse diagonal entries.
    """
    r, padded, width = F.shape[0], system.shape[1], scratch.shape[1]
    if width != TILE:  # never true, but it tells LLVM the width and that rows do not overlap (6 times faster)
        return
    inverse = system[padded]  # of the diagonal
    for k in range(r):
        for m in range(r):
            system[k, m] = G[k, m]
        system[k, k] += l2[k]
        # stays 0 for a component that is zero everywhere, whose codes are arbitrary
        if system[k, k] > 0:
            inverse[k] = 1 / system[k, k]
    w0, w1 = scratch[2 * padded], scratch[2 * padded + 1]  # after `padded` rows of `F` and as many of `B`
    for first in range(start, stop, TILE):
        size = TILE if first + TILE < stop else stop - first  # the loops run over whole tiles; the rest is ignored
        for k in range(r):
            for i in range(size):
                scratch[k, i] = F[k, first + i]
                scratch[padded + k, i] = B[k, first - offset + i] - l1[k]
        for sweep in range(sweeps):
            backward = alternate and sweep % 2 == 1
            # Each extra variable or tuple is expensive to compile, so the two branches share little code.
            if few is not None:  # blocks of two components against four
                for begin in range(0, padded, 2):
                    k0 = padded - 1 - begin if backward else begin
                    k1 = k0 - 1 if backward else k0 + 1
                    b0 = scratch[padded + k0]
                    b1 = scratch[padded + k1]
                    # w = B - l1 - (G + l2) F, the negative gradients of the block's components
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
                    # Gauss-Seidel within the block: each change corrects the gradients of the components after it
                    i0 = inverse[k0]
                    i1 = inverse[k1]
                    e0 = g1[k0]
                    f0 = scratch[k0]
                    f1 = scratch[k1]
                    for i in range(TILE):
                        x0 = f0[i]
                        f0[i] = clipped(x0 + w0[i] * i0, low, high)
                        f1[i] = clipped(f1[i] + (w1[i] - e0 * (f0[i] - x0)) * i1, low, high)
            if many is not None:  # blocks of four components against four
                w2, w3 = scratch[2 * padded + 2], scratch[2 * padded + 3]
                for begin in range(0, padded, UNROLL):
                    step = -1 if backward else 1
                    k0 = padded - 1 - begin if backward else begin
                    k1, k2, k3 = k0 + step, k0 + step + step, k0 + step + step + step
                    # each load of a factor row serves four sums, each load of a sum four factor rows (twice as fast)
                    b0, b1 = scratch[padded + k0], scratch[padded + k1]
                    b2, b3 = scratch[padded + k2], scratch[padded + k3]
                    # w = B - l1 - (G + l2) F, the negative gradients of the block's components
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
                    # Gauss-Seidel within the block: each change corrects the gradients of the components after it
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
        for k in range(r):  # copy the tile back
            for i in range(size):
                F[k, first + i] = scratch[k, i]
