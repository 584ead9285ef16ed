"""The numba kernels of the Kullback-Leibler divergence; they call none of those in :mod:`._kernels`."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel


@kernel(reassociate=True)
def kl_rows(X, Ft, A, sums, low, high, sweeps, tol, eps, start, stop, losses):  # type: ignore[no-untyped-def]
    """Coordinate descent on ``sum x log(x / p) - x + p``, ``p = Ft[:, j] @ A``, for rows ``start:stop``.

    As in Hsieh & Dhillon (2011), one variable at a time, but with a better step than Newton's. The derivative is
    ``sum(a) - S(f)`` with ``S = sum a x / p``, a sum of hyperbolas; the step is Newton's on ``1 / S = 1 / sum(a)``,
    which is exact for a single hyperbola (``docs/derivations/kullback_leibler.md``).

    Parameters
    ----------
    X : ndarray (n_rows, n), >= 0
    Ft : ndarray (r, n_rows)
        Codes, one column a row of `X`; updated in place.
    A : ndarray (r, n), >= 0
    sums : ndarray (r,)
        Row sums of `A`.
    low, high : float
    sweeps : int
    tol : float
        A row is left when a sweep changes no code by more than this share of its largest code.
    eps : float
        The model is kept above `eps` times the row's mean.
    start, stop : int
    losses : ndarray (n_rows,)
        Receives each row's loss at the start of the call.
    """
    number = X.dtype.type
    one = number(1)
    zero = number(0)
    n = X.shape[1]
    p = np.empty(n, X.dtype)
    for j in range(start, stop):
        x = X[j]
        floor = _kl_floor(x, eps)
        p[:] = floor
        for k in range(A.shape[0]):
            f = Ft[k, j]
            a = A[k]
            for i in range(n):
                p[i] += f * a[i]
        losses[j] = _kl_divergence(x, p, floor)
        for _ in range(sweeps):
            largest = zero
            moved = zero
            for k in range(A.shape[0]):
                if not sums[k] > zero:
                    continue  # a component that is zero everywhere: its codes do not matter
                a = A[k]
                f = Ft[k, j]
                total = zero
                slope = zero
                for i in range(n):
                    inverse = one / p[i]
                    term = x[i] * inverse * a[i]
                    total += term
                    slope += term * inverse * a[i]
                new = f + (total / slope) * (total / sums[k] - one) if slope > zero else low
                new = low if new < low else new
                new = high if new > high else new
                change = new - f
                if change != zero:
                    for i in range(n):
                        p[i] += change * a[i]
                    for i in range(n):
                        p[i] = floor if p[i] < floor else p[i]  # rounding
                    Ft[k, j] = new
                largest = max(largest, abs(new))
                moved = max(moved, abs(change))
            if moved <= tol * largest:
                break


@kernel(reassociate=True)
def _kl_floor(x, eps):  # type: ignore[no-untyped-def]
    """Return a level that is as good as 0 beside the entries of `x`, but positive."""
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        total += x[i]
    floor = total * x.dtype.type(eps) / x.dtype.type(x.shape[0])
    return max(floor, x.dtype.type(1e-30))  # also of a row of zeros


@kernel(reassociate=True)
def _kl_divergence(x, p, floor):  # type: ignore[no-untyped-def]
    """Evaluate ``sum x log(x / p) - x + p`` with 0 log 0 = 0 and p at least `floor` under the logarithm."""
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0:
            total += x[i] * np.log(x[i] / max(p[i], floor))
        total += p[i] - x[i]
    return total


@kernel
def kullback_leibler_rows(X, P, start, stop, losses):  # type: ignore[no-untyped-def]
    """Write the divergence of each row; `P` has rows ``start:stop`` only."""
    for j in range(start, stop):
        losses[j] = _kl_divergence(X[j], P[j - start], _kl_floor(X[j], 1e-7))
