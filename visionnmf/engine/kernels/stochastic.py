"""The numba kernel of robust stochastic approximation; :mod:`.medians` describes the conventions."""

from __future__ import annotations

import math

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped
from .simplex import project

__all__ = ["robust_approximation"]


@kernel(reassociate=True, allocates=True)
def robust_approximation(  # type: ignore[no-untyped-def]
    H, mean, X, W, M, order, length, tolerance, most, largest, l2, low, high, on_simplex, is_itakura, floor
):
    """Run stochastic gradient descent on `H` (r, n) with averaged iterates (Guan et al. 2012, Algorithm 2).

    `mean` (r, n) equals `H` on entry and receives the average of the iterates, each weighted by the length of the step
    that leaves it. `X` (size, n) and `W` (size, r) hold the samples and their codes, and `M` (size, n) entry weights or
    None. The samples are visited cyclically in `order` (size,). Step k has the size `length` (theta times the diameter
    D) divided by the largest gradient norm so far, `largest`, and by sqrt(k). It stops after `most` steps, or when the
    relative change of the average is at most `tolerance`. `l2` is the weight of ``|H|^2 / 2``. Entries stay in
    [`low`, `high`]; if `on_simplex`, the entries of each component sum to 1 and are at least `low` < 1 / n. The
    gradient is that of the Itakura-Saito divergence if `is_itakura` (model entries below `floor` count as `floor`),
    else of half the squared distance. Return the largest gradient norm and the number of steps.
    """
    r, n = H.shape
    error = np.empty(n, H.dtype)
    total = 0.0
    for step in range(1, most + 1):
        j = order[(step - 1) % order.shape[0]]
        x, w = X[j], W[j]
        for i in range(n):
            error[i] = 0
        for k in range(r):
            if w[k] != 0:
                for i in range(n):
                    error[i] += w[k] * H[k, i]
        size = 0.0
        for i in range(n):
            p = error[i]
            if is_itakura:
                p = p if p > floor else floor
                error[i] = (p - x[i]) / (p * p)
            else:
                error[i] = p - x[i]
            if M is not None:
                error[i] *= M[j, i]
            size += error[i] * error[i]
        square = 0.0
        for k in range(r):
            square += w[k] * w[k]
        square *= size
        if l2 > 0:
            for k in range(r):
                for i in range(n):
                    square += l2 * H[k, i] * (2 * w[k] * error[i] + l2 * H[k, i])
        norm = math.sqrt(square) if square > 0 else 0.0
        largest = norm if norm > largest else largest
        if largest == 0:
            break  # all gradients so far are zero
        rate = length / (largest * math.sqrt(step))
        total += rate
        share = rate / total
        moved, whole = 0.0, 0.0
        for k in range(r):
            for i in range(n):
                change = share * (H[k, i] - mean[k, i])
                whole += mean[k, i] * mean[k, i]
                moved += change * change
                mean[k, i] += change
            if w[k] != 0 or l2 > 0:
                for i in range(n):
                    H[k, i] -= rate * (w[k] * error[i] + l2 * H[k, i])
                if on_simplex:  # project the part above `low` onto a smaller simplex
                    left = 1 - n * low
                    for i in range(n):
                        H[k, i] = (H[k, i] - low) / left
                    project(H[k])
                    for i in range(n):
                        H[k, i] = low + left * H[k, i]
                else:
                    for i in range(n):
                        H[k, i] = clipped(H[k, i], low, high)
        if step > 1 and moved <= tolerance * tolerance * whole:
            return largest, step
    return largest, most
