"""The numba kernel for codes on the simplex; :mod:`.medians` describes the conventions."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["project", "simplex_codes"]

DECREASE = 1e-4  # required decrease, as a share of the first-order prediction (Armijo condition)
MEMORY = 10  # the next value must be below the largest of this many; monotone descent spoils spectral steps
SHORTEN, LENGTHEN = 0.25, 10.0  # factor after a rejected step; maximum growth of a step


@kernel(allocates=True)
def project(f):  # type: ignore[no-untyped-def]
    """Project the vector `f` onto the unit simplex, in place (Michelot 1986)."""
    top = f.max()
    for k in range(f.shape[0]):
        f[k] -= top  # so that rounding is relative to differences from the largest entry
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
    """Return a row's beta-divergence plus penalties, and how many positive entries have a model below `floor`.

    The gradient with respect to the codes `f` (r,) is written to `slope` (r,); `p` (n,) is scratch.
    """
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
            ratio = y[j] / q if weight > 0 else 1.0  # missing entries are stored as 0
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
    """Find the codes of each row on the simplex by projected gradient with spectral step lengths.

    Birgin, Martinez & Raydan (2000). Each row is solved separately, so its codes do not depend on the others. The
    objective may increase between steps; the best codes are kept. `X` (m, n) holds the data, `M` (m, n) the weights or
    None, `A` (r, n) the components in float64, and `Ft` (r, m) receives the codes. `beta` is the exponent of the
    divergence. Model entries below `floor`, in units of the row's mean, count as `floor`. `l1` and `l2` are (r,). A row
    is done after `most` steps, or when a step is shorter than `tol` (steps are at most sqrt(2) long).
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
