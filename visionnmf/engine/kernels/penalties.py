"""The numba kernels of the penalties; see :mod:`.medians` for the conventions."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["graph_points", "row_levels", "simplex_columns"]

TILE = 128  # columns at a time


@kernel(reassociate=True, allocates=True)
def graph_points(F, G, B, low, high, l1, l2, starts, ends, affinities, degrees, scale, sweeps):  # type: ignore[no-untyped-def]
    """Coordinate descent on ``<F, F G> / 2 - <B, F> + scale * (l1 . F + l2 . F^2 / 2 + tr(F' L F) / 2)`` in place.

    A point's variables are swept with those of the other points as they are now (Gauss-Seidel), one point after the
    other: the graph couples them, so they cannot be shared among threads. Each step is the exact minimiser
    (MahNMF's equation 37 with a quadratic loss).

    Parameters
    ----------
    F, B : ndarray (n, r)
        Factor and right-hand side, point-major.
    G : ndarray (r, r)
        Symmetric.
    low, high : float
    l1, l2 : ndarray (r,), >= 0
    starts, ends, affinities : ndarray (n + 1,), (n_edges,), (n_edges,)
        The graph's CSR arrays, without a diagonal.
    degrees : ndarray (n,)
        Sums of the graph's rows.
    scale : float
    sweeps : int
    """
    n, r = F.shape
    zero = F.dtype.type(0)
    slope = F[0].copy() if n else F.copy().ravel()
    for _ in range(sweeps):
        for j in range(n):
            f = F[j]
            for k in range(r):
                slope[k] = zero
            for edge in range(starts[j], starts[j + 1]):
                s = affinities[edge]
                other = F[ends[edge]]
                for k in range(r):
                    slope[k] += s * other[k]
            for k in range(r):
                slope[k] = B[j, k] + scale * (slope[k] - l1[k])
            for m in range(r):
                value = f[m]
                if value != zero:
                    g = G[m]
                    for k in range(r):
                        slope[k] -= g[k] * value
            for k in range(r):
                ridge = scale * (l2[k] + degrees[j])
                denominator = G[k, k] + ridge
                if not denominator > zero:
                    continue
                old = f[k]
                new = old + (slope[k] - ridge * old) / denominator
                new = low if new < low else new
                new = high if new > high else new
                if new != old:
                    f[k] = new
                    change = new - old
                    g = G[k]
                    for m in range(r):
                        slope[m] -= g[m] * change


@kernel(reassociate=True)
def row_levels(V, radii, tops, depths):  # type: ignore[no-untyped-def]
    """Find each row's level, ``tops - depths``: what stands above it adds up to the row's radius.

    Michelot (1986): take the level of all entries for the level of those above it, until none is left out any more.
    Measured from the top, entries within the radius of it are small numbers, so that single precision is enough.

    Parameters
    ----------
    V : ndarray (n_rows, n)
    radii : ndarray (n_rows,), >= 0
    tops, depths : ndarray (n_rows,)
        Receive the largest entry and how far below it the level lies.
    """
    zero = V.dtype.type(0)
    n_rows, n = V.shape
    for k in range(n_rows):
        row = V[k]
        top = row[0]
        for i in range(n):
            top = max(top, row[i])
        radius = radii[k]
        depth = np.inf
        count = n + 1
        while True:
            total = np.float64(radius)
            above = 0
            for i in range(n):
                below = min(top - row[i], radius)
                total += below if below < depth else zero
                above += 1 if below < depth else 0
            if above == 0 or above >= count:
                break
            count = above
            depth = total / count
        tops[k] = top
        depths[k] = depth if count <= n else 0.0


@kernel(reassociate=True, allocates=True)
def simplex_columns(F, start, stop):  # type: ignore[no-untyped-def]
    """Project columns ``start:stop`` of `F` onto the simplex, in place; as :func:`row_levels`, for a tile at once.

    Parameters
    ----------
    F : ndarray (r, n)
    start, stop : int
    """
    number = F.dtype.type
    zero, one = number(0), number(1)
    r = F.shape[0]
    # whole tiles of a scratch copy: loops of a fixed length become SIMD code
    tile = np.zeros((r, TILE), F.dtype)
    depth = np.zeros(TILE, F.dtype)
    total = np.zeros(TILE, F.dtype)
    count = np.zeros(TILE, F.dtype)
    for first in range(start, stop, TILE):
        size = min(TILE, stop - first)
        for k in range(r):
            tile[k, :size] = F[k, first : first + size]
        total[:] = tile[0]
        for k in range(1, r):
            for i in range(TILE):
                total[i] = max(total[i], tile[k, i])
        for k in range(r):
            for i in range(TILE):
                tile[k, i] = min(total[i] - tile[k, i], one)
        depth[:] = number(2)
        last = number(r + 1) * TILE
        for _ in range(r + 1):
            total[:] = one
            count[:] = zero
            for k in range(r):
                row = tile[k]
                for i in range(TILE):
                    above = row[i] < depth[i]
                    total[i] += row[i] if above else zero
                    count[i] += one if above else zero
            entries = zero
            for i in range(TILE):
                depth[i] = total[i] / count[i]
                entries += count[i]
            if entries >= last:
                break
            last = entries
        total[:] = zero
        for k in range(r):
            for i in range(TILE):
                value = max(depth[i] - tile[k, i], zero)
                tile[k, i] = value
                total[i] += value
        for i in range(TILE):
            total[i] = one / total[i]
        for k in range(r):
            for i in range(TILE):
                tile[k, i] *= total[i]
            F[k, first : first + size] = tile[k, :size]
