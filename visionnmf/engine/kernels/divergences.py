"""The numba kernels that evaluate beta-divergences; :mod:`visionnmf.engine.divergence` selects one.

`Y` and the model `P` > 0 are blocks of rows of shape (n_rows, n), `M` holds weights of the entries or is None, and
`out` (n_rows,) receives the divergence of each row.
"""

from __future__ import annotations

from visionnmf._jit import kernel

from .elementary import log

LEAST_RATIO = 1e-30  # smaller ratios are raised to this before the logarithm


@kernel(reassociate=True)
def kullback_leibler(Y, P, M, out):  # type: ignore[no-untyped-def]
    """Write ``sum m (y log(y / p) - y + p)`` of each row to `out`."""
    tiny = Y.dtype.type(LEAST_RATIO)
    for j in range(Y.shape[0]):
        total = 0.0
        for i in range(Y.shape[1]):
            y = Y[j, i]
            p = P[j, i]
            ratio = y / p
            term = y * log(ratio if ratio > tiny else tiny) - y + p
            total += term if M is None else M[j, i] * term
        out[j] = total


@kernel(reassociate=True)
def itakura_saito(Y, P, M, out):  # type: ignore[no-untyped-def]
    """Write ``sum m (y / p - log(y / p) - 1)`` of each row to `out`."""
    number = Y.dtype.type
    tiny = number(LEAST_RATIO)
    for j in range(Y.shape[0]):
        total = 0.0
        for i in range(Y.shape[1]):
            ratio = Y[j, i] / P[j, i]
            term = ratio - log(ratio if ratio > tiny else tiny) - number(1)
            total += term if M is None else M[j, i] * term
        out[j] = total


@kernel(reassociate=True)
def beta_divergence(Y, powers, P, V, M, beta, out):  # type: ignore[no-untyped-def]
    """Write ``sum m (y^b + (b - 1) p^b - b y p^(b - 1)) / (b (b - 1))`` of each row to `out`.

    beta must not be 0 or 1. The caller passes the powers ``Y**beta`` as `powers` and ``P**(beta - 2)`` as `V`, both
    (n_rows, n).
    """
    number = Y.dtype.type
    b = number(beta)
    c = number(beta - 1.0)
    for j in range(Y.shape[0]):
        total = 0.0
        for i in range(Y.shape[1]):
            p = P[j, i]
            term = powers[j, i] + V[j, i] * p * (c * p - b * Y[j, i])
            total += term if M is None else M[j, i] * term
        out[j] = total / (beta * (beta - 1.0))
