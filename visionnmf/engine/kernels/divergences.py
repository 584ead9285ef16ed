"""The numba kernels of the beta-divergences of rows; :mod:`visionnmf.engine.divergence` chooses.

All take blocks of rows: `Y` and the model `P` [shape=(n_rows, n)], `P` > 0, and `M`, weights of the entries, or None.
"""

from __future__ import annotations

from visionnmf._jit import kernel

from .elementary import log

LEAST_RATIO = 1e-30  # of which a logarithm is taken


@kernel(reassociate=True)
def kullback_leibler(Y, P, M, out):  # type: ignore[no-untyped-def]
    """Write ``sum m (y log(y / p) - y + p)`` of each row."""
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
    """Write ``sum m (y / p - log(y / p) - 1)`` of each row."""
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
    """Write ``sum m (y^b + (b - 1) p^b - b y p^(b - 1)) / (b (b - 1))``.

    Parameters
    ----------
    Y, powers, P, V : ndarray (n_rows, n)
        Data, ``Y**beta``, model, ``P**(beta - 2)``.
    M : ndarray (n_rows, n) or None
    beta : float
        Neither 0 nor 1.
    out : ndarray (n_rows,)
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
