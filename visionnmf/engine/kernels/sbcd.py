"""The numba kernels of scalar block coordinate descent: a weighted least-squares model of each row, and sweeps over it.

`E`, `B`, `A` and the scratch arrays may be of lower precision than data and codes. The limits (4, r) of the codes are
their lower and upper ends, l1 and l2; the units (n_rows, 3) are the factors of a row for its ends, l1 and l2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._jit import kernel

LEAST_CURVATURE = 1e-6  # in units of Fisher's; not 0, where a model would have a gradient but no residual
FLAT = 0.01  # of Fisher's curvature


@kernel(reassociate=True, part=True)
def _weigh(y, p, v, m, beta, convex, e, b, start):  # type: ignore[no-untyped-def]
    """Write the entries' curvatures `b` in the model, and residuals `e` that give the gradient with them.

    The gradient is ``-m v (y - p)``, ``v = p^(beta - 2)``. The curvature is Fisher's, ``m v``, or, where the divergence
    is convex, the harmonic mean of Fisher's and Newton's. Returns how many observed entries have less than
    :data:`FLAT` of Fisher's curvature.
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
    """Take the last code's change out of the residual; return ``sum b e a`` and ``sum b a^2``."""
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
    """Replace the divergence of each row by a weighted least-squares model, and improve the codes on it.

    Cyclic coordinate descent on ``sum b (e - (f - codes) A)^2 / 2 + l1 . f + l2 . f^2 / 2`` over the codes f. From the
    second sweep on, codes that stayed at their lower end in the first are left there.

    Parameters
    ----------
    Y, P, V : ndarray (n_rows, n)
        Data, model, ``P**(beta - 2)``.
    M : ndarray (n_rows, n) or None
        Weights of the entries.
    beta : float
    convex : bool
        Whether the divergence is, in its second argument.
    A : ndarray (r, >= n)
        The fixed factor, padded with zeros.
    codes : ndarray (n_rows, r)
        Updated in place.
    limits : ndarray (4, r)
    units : ndarray (n_rows, 3)
    sweeps : int
    floor : float
        Of the model.
    lines : ndarray (3, >= n), stays : ndarray of bool (r,)
        Scratch; the lines are zero beyond n.
    model : ndarray (n_rows, n)
        Receives the model at the new codes.
    flat : ndarray of int (n_rows,)
        Receives how many entries have so little curvature that the model there is inexact.
    """
    e, b, start = lines[0], lines[1], lines[2]
    for j in range(Y.shape[0]):
        m = None if M is None else M[j]
        flat[j] = _weigh(Y[j], P[j], V[j], m, beta, convex, e, b, start)
        change = e.dtype.type(0)
        last: Any = np.int64(0)  # not a literal: typing it would take twice the rounds
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
                elif fall < 0:  # all it explains is 0, where the model is linear
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
