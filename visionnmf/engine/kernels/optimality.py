"""The numba kernel that looks for signs which prove a point of a Manhattan problem stationary."""

from __future__ import annotations

from visionnmf._jit import kernel

from .arithmetic import clipped


@kernel(reassociate=True)
def balance_signs(  # type: ignore[no-untyped-def]
    starts, columns, bounds, A, squares, F, G, low, high, enough, sweeps, signs, distance
):
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
    squares : ndarray (n,)
        Sums of squares of its rows; infinite where a row is 0.
    F, G : ndarray (n_rows, r)
        Codes; gradient without the entries that are 0, updated.
    low, high : float
    enough : float
        A row is left when its distance is below this.
    sweeps : int
        At most so many a row.
    signs : ndarray of 0, as long as `columns`
        Receives the derivatives.
    distance : ndarray (r,)
        Scratch.
    """
    for j in range(F.shape[0]):
        g, f = G[j], F[j]
        left = _move(g, A[0], 0.0, f, low, high, distance)
        for _ in range(sweeps):
            if left <= enough * enough:
                break
            moved = 0.0
            for e in range(starts[j], starts[j + 1]):
                a = A[columns[e]]
                old, bound = signs[e], bounds[e]
                slope = 0.0
                for k in range(a.shape[0]):
                    slope += a[k] * distance[k]
                new = clipped(old - slope / squares[columns[e]], -bound, bound)
                if new != old:
                    signs[e] = new
                    share = abs(new - old) / bound
                    moved = share if share > moved else moved
                    left = _move(g, a, new - old, f, low, high, distance)
            if moved < 1e-6:
                break


@kernel(part=True)
def _move(g, a, change, f, low, high, distance):  # type: ignore[no-untyped-def]
    """Add ``change a`` to a gradient; write what is left when the bounds have taken their share, return its square."""
    total = 0.0
    for k in range(g.shape[0]):
        d = g[k] + change * a[k]
        g[k] = d
        if (f[k] <= low and d > 0.0) or (f[k] >= high and f[k] > low and d < 0.0):
            d = 0.0
        distance[k] = d
        total += d * d
    return total
