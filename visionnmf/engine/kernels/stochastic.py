"""The numba kernel of robust stochastic approximation; see :mod:`.medians` for the conventions."""

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
    """Descend along gradients of single samples, and average the way (Guan et al. 2012, Algorithm 2).

    Parameters
    ----------
    H : ndarray (r, n)
        Where the way begins; where it ends, afterwards.
    mean : ndarray (r, n)
        The same; receives the average of the iterates, each with the length of the step that leads away from it.
    X, W : ndarray (size, n), (size, r)
        Samples and their codes.
    M : ndarray (size, n) or None
        Weights of the entries.
    order : ndarray of int (size,)
        In which the samples are taken, again and again.
    length : float
        ``theta D``: a step is this over the largest gradient so far and the root of the step's number.
    tolerance : float
        Change of the average by a step, relative to it, at which the way ends; the first step does not change it.
    most : int
        Steps.
    largest : float
        Norm of the largest gradient so far.
    l2 : float
        Weight of ``|H|^2 / 2``.
    low, high : float
        The box; on the simplex `low` alone, below one over n.
    on_simplex : bool
        Whether the entries of each component add up to 1.
    is_itakura : bool
        Itakura-Saito divergence; else half the squared distance.
    floor : float
        Below which an entry of the model counts as this, for Itakura-Saito.

    Returns
    -------
    largest : float
    steps : int
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
            break  # the samples say nothing
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
                if on_simplex:  # what is above `low` on a smaller one
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
