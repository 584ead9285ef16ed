"""The numba kernel of codes on the simplex; see :mod:`.medians` for the conventions."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["project", "simplex_codes"]

DECREASE = 1e-4  # of the objective that is enough, as a share of the first-order decrease
MEMORY = 10  # values, of which the largest is what the next one must be below: steps are spoilt by the least curvature
SHORTEN, LENGTHEN = 0.25, 10.0  # a step that did not decrease it enough; the most that a step may grow


@kernel(allocates=True)
def project(f):  # type: ignore[no-untyped-def]
    """Project `f` onto the simplex, in place (Michelot 1986)."""
    top = f.max()
    for k in range(f.shape[0]):
        f[k] -= top  # rounding is then that of numbers within 1 of the largest
    level, count = -np.inf, f.shape[0] + 1
    while True:
        total, above = -1.0, 0
        for k in range(f.shape[0]):
            if f[k] > level:
                total += f[k]
                above += 1
        if above == 0 or above >= count:
            break
        count = above
        level = total / above
    for k in range(f.shape[0]):
        f[k] = max(f[k] - level, 0.0)


@kernel(reassociate=True)
def _evaluate(y, m, A, f, beta, floor, l1, l2, p, slope):  # type: ignore[no-untyped-def]
    """Return divergence and penalties of a row, and how many entries vanish; write the gradient to `slope`."""
    n = y.shape[0]
    p[:] = 0.0
    for k in range(f.shape[0]):
        if f[k] != 0:
            for j in range(n):
                p[j] += f[k] * A[k, j]
    total = 0.0
    vanishing = 0
    for j in range(n):
        q = max(p[j], floor)
        weight = 1.0 if m is None else m[j]
        vanishing += 1 if p[j] < floor and y[j] > 0 else 0
        if beta == 1:
            total += weight * (q - y[j] + (y[j] * np.log(y[j] / q) if y[j] > 0 else 0.0))
            p[j] = weight * (1 - y[j] / q)
        elif beta == 0:
            ratio = y[j] / q if weight > 0 else 1.0  # what is missing is 0
            total += weight * (ratio - np.log(ratio) - 1)
            p[j] = weight * (1 - ratio) / q
        else:
            power = q ** (beta - 1)
            own = y[j] ** beta if weight > 0 else 0.0
            total += weight * ((own - beta * y[j] * power) / (beta * (beta - 1)) + q * power / beta)
            p[j] = weight * power * (1 - y[j] / q)
    for k in range(f.shape[0]):
        inner = 0.0
        for j in range(n):
            inner += A[k, j] * p[j]
        slope[k] = inner + l1[k] + l2[k] * f[k]
        total += (l1[k] + l2[k] * f[k] / 2) * f[k]
    return total, vanishing


@kernel(allocates=True)
def simplex_codes(X, M, A, Ft, beta, floor, l1, l2, most, tol):  # type: ignore[no-untyped-def]
    """Find the codes of rows on the simplex by projected gradient with spectral step lengths.

    Birgin, Martinez & Raydan (2000), each row by itself: its codes do not depend on the others. The objective may
    rise in between; the best codes are kept.

    Parameters
    ----------
    X : ndarray (m, n)
    M : ndarray (m, n) or None
        Weights.
    A : ndarray (r, n), float64
        Components.
    Ft : ndarray (r, m)
        Receives the codes.
    beta : float
        Of the divergence.
    floor : float
        Level, in units of the row's mean, below which an entry of the model counts as this.
    l1, l2 : ndarray (r,), float64
    most : int
        Steps.
    tol : float
        Length of a step, of at most 2, at which a row is done.
    """
    r, n = A.shape
    y, p = np.empty(n), np.empty(n)
    f, slope, new, slope_new = np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    units, best, memory = np.empty((r, n)), np.empty(r), np.empty(MEMORY)
    for i in range(X.shape[0]):
        total, count = 0.0, 0
        for j in range(n):
            if M is None or M[i, j] > 0:
                total += X[i, j]
                count += 1
        unit = total / count if total > 0 else 1.0
        scale = unit ** (-beta)
        for j in range(n):
            y[j] = X[i, j] / unit
        for k in range(r):
            for j in range(n):
                units[k, j] = A[k, j] / unit
            f[k] = 1 / r
        m = None if M is None else M[i]
        value, vanishing = _evaluate(y, m, units, f, beta, floor, scale * l1, scale * l2, p, slope)
        length = 1 / max(np.abs(slope).max(), 1e-300)
        for k in range(r):
            best[k] = f[k]
        least = value
        memory[:] = value
        for step in range(most):
            for k in range(r):
                new[k] = f[k] - length * slope[k]
            project(new)
            square, product = 0.0, 0.0
            for k in range(r):
                square += (new[k] - f[k]) ** 2
                product += (new[k] - f[k]) * slope[k]
            if square <= tol * tol:
                break
            found, lost = _evaluate(y, m, units, new, beta, floor, scale * l1, scale * l2, p, slope_new)
            if (lost > vanishing and beta <= 1) or not found <= memory.max() + DECREASE * product:
                length *= SHORTEN
                continue
            bend = 0.0
            for k in range(r):
                bend += (new[k] - f[k]) * (slope_new[k] - slope[k])
                f[k], slope[k] = new[k], slope_new[k]
            memory[step % MEMORY], vanishing = found, lost
            if found < least:
                least = found
                for k in range(r):
                    best[k] = f[k]
            length = min(square / bend, LENGTHEN * length) if bend > 0 else LENGTHEN * length
        for k in range(r):
            Ft[k, i] = best[k]
