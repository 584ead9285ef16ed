"""The numba kernel that looks for signs which prove a point of a Manhattan problem stationary."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped, short_dot


@kernel
def balance_signs(starts, columns, bounds, A, F, G, low, high, enough, sweeps):  # type: ignore[no-untyped-def]
    """Choose the derivatives of the residuals that are 0 so that each row's gradient nearly vanishes; update it.

    The derivative of ``m |e|`` at 0 is any number from -m to m. Row by row this minimises the distance of the gradient
    to the cone in which it may lie (0 for codes inside the box, one sign at a bound), a least-squares problem with
    bounds, by projected coordinate steps. Each of them decreases it, as the gradient of half the squared distance has
    the Lipschitz constant 1.

    Parameters
    ----------
    starts : ndarray (n_rows + 1,)
        Where the residuals that are 0 of each row begin in `columns` and `bounds`.
    columns : ndarray of int
        Their columns.
    bounds : ndarray, > 0
        Their weights m.
    A : ndarray (n, r), >= 0
        The fixed factor, transposed.
    F, G : ndarray (n_rows, r)
        Codes; gradient without the entries that are 0, updated.
    low, high : float
    enough : float
        A row is left when its distance is below this.
    sweeps : int
        At most so many a row.
    """
    distance, squares, signs = np.empty(A.shape[1]), np.empty(A.shape[0]), np.empty(columns.shape[0])
    for i in range(A.shape[0]):
        squares[i] = short_dot(A[i], A[i], A.shape[1])
    signs[:] = 0.0
    for j in range(F.shape[0]):
        left = _set_distance(G[j], F[j], low, high, distance)
        for _ in range(sweeps):
            if starts[j] == starts[j + 1] or left <= enough * enough:
                break
            moved = 0.0
            for e in range(starts[j], starts[j + 1]):
                i = columns[e]
                if squares[i] == 0.0:
                    continue
                old = signs[e]
                signs[e] = clipped(old - short_dot(A[i], distance, A.shape[1]) / squares[i], -bounds[e], bounds[e])
                change = signs[e] - old
                if change == 0.0:
                    continue
                share = abs(change) / bounds[e]
                moved = share if share > moved else moved
                for k in range(A.shape[1]):
                    G[j, k] += change * A[i, k]
                left = _set_distance(G[j], F[j], low, high, distance)
            if moved < 1e-6:
                break


@kernel(part=True)
def _set_distance(g, f, low, high, distance):  # type: ignore[no-untyped-def]
    """Write what is left of a gradient when the bounds have taken their share; return the sum of squares."""
    total = 0.0
    for k in range(g.shape[0]):
        d = g[k]
        if (f[k] <= low and d > 0.0) or (f[k] >= high and f[k] > low and d < 0.0):
            d = 0.0
        distance[k] = d
        total += d * d
    return total
