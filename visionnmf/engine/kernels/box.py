"""The numba kernel of coordinate descent on quadratic models over boxes, a row at a time."""

from __future__ import annotations

from visionnmf._jit import kernel


@kernel(reassociate=True)
def descend_rows(G, s, below, above, d, sweeps):  # type: ignore[no-untyped-def]
    """Lower ``s . d + d G d / 2`` of each row over ``below <= d <= above``, one variable at a time.

    Parameters
    ----------
    G : ndarray (n_rows, r, r)
        With a positive diagonal.
    s : ndarray (n_rows, r)
        The gradients at `d`; kept up to date.
    below, above : ndarray (n_rows, r)
    d : ndarray (n_rows, r)
        Updated in place.
    sweeps : int
    """
    r = d.shape[1]
    for j in range(d.shape[0]):
        for turn in range(sweeps * r):
            k = turn % r
            goal = d[j, k] - s[j, k] / G[j, k, k]
            goal = below[j, k] if goal < below[j, k] else goal if goal < above[j, k] else above[j, k]
            change = goal - d[j, k]
            if change != 0.0:
                d[j, k] = goal
                for m in range(r):
                    s[j, m] += change * G[j, k, m]
