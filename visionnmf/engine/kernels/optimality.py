"""The numba kernel that searches for subgradients proving that a point of a Manhattan problem is stationary."""

from __future__ import annotations

from visionnmf._jit import kernel

from .arithmetic import clipped


@kernel(reassociate=True)
def balance_signs(  # type: ignore[no-untyped-def]
    starts, columns, bounds, A, squares, F, G, low, high, enough, sweeps, signs, distance
):
    """Choose the subgradients at zero residuals so that the gradient of each row nearly vanishes, and update it.

    The subdifferential of ``m |e|`` at 0 is [-m, m]. For each row, projected coordinate descent minimises the distance
    of the gradient to the cone of allowed gradients (0 for codes inside the box, one sign at a bound), which is a
    bounded least-squares problem. Each step decreases it, because the gradient of half the squared distance is
    1-Lipschitz.

    `starts` (n_rows + 1,) marks where each row's zero residuals begin in `columns` (their columns) and `bounds` (their
    weights m > 0). `A` (n, r) >= 0 is the fixed factor, transposed, and `squares` (n,) the squared norms of its rows,
    infinite for zero rows. `F` (n_rows, r) holds the codes, and `G` (n_rows, r) the gradient without the zero
    residuals. A row is done when its distance is below `enough` or after `sweeps` sweeps. `signs`, as long as `columns`
    and zero on entry, receives the subgradients. `distance` (r,) is scratch.
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
    """Add ``change * a`` to the gradient `g` and write to `distance` the part of it that the bounds do not absorb.

    Return the squared norm of that part.
    """
    total = 0.0
    for k in range(g.shape[0]):
        d = g[k] + change * a[k]
        g[k] = d
        if (f[k] <= low and d > 0.0) or (f[k] >= high and f[k] > low and d < 0.0):
            d = 0.0
        distance[k] = d
        total += d * d
    return total
