"""The numba kernels of the penalties; :mod:`.medians` describes the conventions."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["graph_points", "row_levels", "simplex_columns"]

TILE = 128  # columns processed together


@kernel(reassociate=True, allocates=True)
def graph_points(F, G, B, low, high, l1, l2, starts, ends, affinities, degrees, scale, sweeps):  # type: ignore[no-untyped-def]
    """Run coordinate descent on ``<F, F G> / 2 - <B, F> + scale * (l1 . F + l2 . F^2 / 2 + tr(F' L F) / 2)`` in place.

    Points are updated one after the other with the current values of their neighbours (Gauss-Seidel). The graph couples
    them, so they cannot be distributed over threads. Each step is the exact minimiser in one variable (MahNMF's
    equation 37 with a quadratic loss). `F` and `B` are (n, r), point-major; `G` (r, r) is symmetric; `l1` and `l2` (r,)
    are >= 0. `starts` (n + 1,), `ends` and `affinities` (n_edges,) are the graph's CSR arrays without a diagonal, and
    `degrees` (n,) its row sums.
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
    """Find the level of each row of `V` (n_rows, n): the number t with ``sum max(v - t, 0) = radius``.

    Michelot (1986): compute the level from all entries, then repeatedly from those above it, until none drops out.
    `tops` and `depths` (n_rows,) receive the largest entry and its distance to the level, so that the level is
    ``tops - depths``. Distances from the top are small numbers, so single precision is enough. `radii` (n_rows,) is >=
    0.
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
    """Project columns ``start:stop`` of `F` (r, n) onto the unit simplex, in place.

    The algorithm is that of :func:`row_levels`, for a tile of columns at once.
    """
    number = F.dtype.type
    zero, one = number(0), number(1)
    r = F.shape[0]
    # copy to full tiles, because LLVM vectorises loops of fixed length
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
