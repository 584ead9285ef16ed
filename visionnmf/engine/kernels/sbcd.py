"""The numba kernels of scalar block coordinate descent: weighted least-squares models of rows, and sweeps over them.

`E`, `B`, `A` and the scratch arrays may have lower precision than data and codes. The rows of `limits` (4, r) are lower
bounds, upper bounds, l1 and l2 weights of the codes; `units` (n_rows, 3) holds each row's factors for bounds, l1 and
l2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._jit import kernel

LEAST_CURVATURE = 1e-6  # as a share of Fisher's; with 0 an entry would have a gradient but no finite residual
FLAT = 0.01  # share of Fisher's curvature below which an entry counts as flat


@kernel(reassociate=True, part=True)
def _weigh(y, p, v, m, beta, convex, e, b, start):  # type: ignore[no-untyped-def]
    """Write the curvatures `b` of a row's quadratic model, and the residuals `e` for which ``-b e`` is the gradient.

    The gradient is ``-m v (y - p)`` with ``v = p^(beta - 2)``. The curvature is Fisher's, ``m v``, or the harmonic mean
    of Fisher's and Newton's if the divergence is convex. `start` receives a copy of `e`. Return how many observed
    entries have less than :data:`FLAT` of Fisher's curvature.
    """
    number = y.dtype.type
    one = number(1)
    flat = 0
    for i in range(y.shape[0]):
        newton = one
        if convex:
            newton = number(beta - 1.0) + number(2.0 - beta) * y[i] / p[i]
            newton = newton if newton > number(LEAST_CURVATURE) else number(LEAST_CURVATURE)
        share = (newton + newton) / (newton + one)
        weight = v[i] if m is None else v[i] * m[i]
        flat += newton < number(FLAT) and weight > 0
        e[i] = start[i] = (y[i] - p[i]) / share
        b[i] = weight * share
    return flat


@kernel(reassociate=True, part=True)
def _pass(e, b, change, before, a):  # type: ignore[no-untyped-def]
    """Subtract ``change * before``, the effect of the previous code's change, from the residual `e`.

    Return ``sum b e a`` and ``sum b a^2`` for the next code's component `a`.
    """
    numerator = e.dtype.type(0)
    denominator = e.dtype.type(0)
    for i in range(e.shape[0]):
        v = e[i] - change * before[i]
        e[i] = v
        share = b[i] * a[i]
        numerator += v * share
        denominator += share * a[i]
    return numerator, denominator


@kernel(reassociate=True)
def improve_rows(  # type: ignore[no-untyped-def]
    Y, P, V, M, beta, convex, A, codes, limits, units, sweeps, floor, lines, stays, model, flat
):
    """Replace the divergence of each row by a weighted least-squares model and improve the codes on it.

    This is cyclic coordinate descent on ``sum b (e - (f - codes) A)^2 / 2 + l1 . f + l2 . f^2 / 2`` over the codes f.
    Codes that stayed at their lower bound in the first sweep are skipped in later ones.

    `Y`, the model `P` and `V` = ``P**(beta - 2)`` are (n_rows, n), and `M` (n_rows, n) holds entry weights or is None.
    `convex` tells whether the divergence is convex in the model. The fixed factor `A` (r, >= n) is padded with zeros.
    `codes` (n_rows, r) are updated in place. `lines` (3, >= n), zero beyond n, and `stays` (r,) are scratch. `model`
    (n_rows, n) receives the model at the new codes, at least `floor`. `flat` (n_rows,) receives how many entries have
    so little curvature that the quadratic model is inexact there.
    """
    e, b, start = lines[0], lines[1], lines[2]
    for j in range(Y.shape[0]):
        m = None if M is None else M[j]
        flat[j] = _weigh(Y[j], P[j], V[j], m, beta, convex, e, b, start)
        change = e.dtype.type(0)
        last: Any = np.int64(0)  # a literal 0 would double numba's type inference
        for sweep in range(sweeps):
            for k in range(A.shape[0]):
                if sweep > 0 and stays[k]:
                    continue
                numerator, curvature = _pass(e, b, change, A[last], A[k])
                last = k
                old = codes[j, k]
                ridge = limits[3, k] * units[j, 2]
                fall = numerator - limits[2, k] * units[j, 1] - ridge * old
                low = limits[0, k] * units[j, 0]
                new = old
                if curvature + ridge > 0:
                    new = old + fall / (curvature + ridge)
                    new = low if new < low else new
                    new = new if new < limits[1, k] * units[j, 0] else limits[1, k] * units[j, 0]
                elif fall < 0:  # without curvature the model is linear, so its minimum is at the bound
                    new = low
                codes[j, k] = new
                change = e.dtype.type(codes[j, k] - old)
                if sweep == 0:
                    stays[k] = codes[j, k] == low and change == 0
        _pass(e, b, change, A[last], A[last])
        p = P[j]
        for i in range(p.shape[0]):
            after = p[i] + (start[i] - e[i])
            model[j, i] = after if after > floor else floor
