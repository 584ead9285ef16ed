"""The numba kernel of sBCD as published; it calls no other kernel."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel


@kernel(reassociate=True, allocates=True)
def component_by_component(  # type: ignore[no-untyped-def]
    E, B, Wt, H, low_W, high_W, l1_W, l2_W, low_H, high_H, l1_H, l2_H
):
    """Run one round of weighted least squares: for each component, update its row of `H` and then its codes.

    Li, Lebanon & Park (2012), Algorithm 1, lines 6 to 14; an l1 penalty is subtracted from the numerator. The residual
    `E` (n_rows, n) is kept up to date, `B` (n_rows, n) >= 0 holds entry weights, and `Wt` (r, n_rows) and `H` (r, n)
    are updated in place within their bounds. The l1 and l2 weights are (r,) and >= 0.
    """
    number = E.dtype.type
    rows, n = E.shape
    numerators, denominators = np.empty(n, E.dtype), np.empty(n, E.dtype)
    for k in range(H.shape[0]):
        h = H[k]
        for i in range(n):
            numerators[i] = number(0)
            denominators[i] = l2_H[k]
        for j in range(rows):
            w = Wt[k, j]
            e, b = E[j], B[j]
            for i in range(n):
                share = b[i] * w
                numerators[i] += share * e[i]
                denominators[i] += share * w
        for i in range(n):
            step = (numerators[i] - l1_H[k] - l2_H[k] * h[i]) / denominators[i] if denominators[i] > 0 else number(0)
            numerators[i] = min(max(h[i] + step, low_H), high_H) - h[i]
            h[i] += numerators[i]
        for j in range(rows):
            w = Wt[k, j]
            e, b = E[j], B[j]
            total = number(0)
            curvature = number(0)
            for i in range(n):
                e[i] -= w * numerators[i]
                share = b[i] * h[i]
                total += share * e[i]
                curvature += share * h[i]
            curvature += l2_W[k]
            if curvature > number(0):
                new = min(max(w + (total - l1_W[k] - l2_W[k] * w) / curvature, low_W), high_W)
                for i in range(n):
                    e[i] -= (new - w) * h[i]
                Wt[k, j] = new
