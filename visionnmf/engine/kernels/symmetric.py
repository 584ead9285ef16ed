"""The numba kernel of the symmetric model with the Frobenius loss; :mod:`.medians` has the Manhattan loss."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel


@kernel(allocates=True)
def symmetric_hals_block(S, H, HC, c, G, B, passes, first, last):  # type: ignore[no-untyped-def]
    """Run coordinate descent on ``sum_{i != j} c_i c_j (S_ij - h_i . h_j)^2 / 2``, nodes ``first:last``, H >= 0.

    Without the diagonal, the codes of one node solve a non-negative least-squares problem, so each code minimises a
    parabola; with the diagonal it would be a quartic (Vandaele et al. 2016). `S` (n, n) is symmetric, and `c` (n,) >= 0
    holds node weights. `H` (r, n), `HC` = ``H * c``, `G` = ``HC @ H.T`` (r, r, float64) and `B` =
    ``HC @ S[:, first:last]`` (r, last - first) are updated in place. Each node gets at most `passes` passes over its
    codes.
    """
    r = H.shape[0]
    number = H.dtype.type
    old = np.empty(r)
    h = np.empty(r)
    b = np.empty(r)
    for j in range(first, last):
        weight = np.float64(c[j])
        for k in range(r):
            old[k] = H[k, j]
            h[k] = old[k]
            b[k] = B[k, j - first] - weight * S[j, j] * old[k]
        for k in range(r):
            for m in range(r):
                G[k, m] -= weight * old[k] * old[m]
        for _ in range(passes):
            moved = 0.0
            largest = 0.0
            for k in range(r):
                # the diagonal of an unused component consists of rounding errors only
                if not G[k, k] > 1e-14 * (G[k, k] + weight * old[k] * old[k]):
                    continue
                slope = b[k]
                for m in range(r):
                    slope -= G[k, m] * h[m]
                new = max(0.0, h[k] + slope / G[k, k])
                moved = max(moved, abs(new - h[k]))
                largest = max(largest, new)
                h[k] = new
            if moved <= 1e-6 * largest:
                break
        for k in range(r):
            H[k, j] = number(h[k])
            h[k] = H[k, j]
            HC[k, j] = H[k, j] * c[j]
        for k in range(r):
            for m in range(r):
                G[k, m] += weight * h[k] * h[m]
        for k in range(r):  # later nodes of this block see the new codes
            change = weight * (h[k] - old[k])
            if change != 0.0:
                for i in range(j + 1, last):
                    B[k, i - first] += number(change * S[j, i])
