"""The beta-divergences of blocks of rows, each computed by the kernel for its exponent.

For ``beta = 1`` the divergence is that of Kullback and Leibler, for 0 that of Itakura and Saito, and for 2 half the
squared distance. Rows are divided by their means, so that no number leaves the range of single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._typing import Array

from .arrays.namespace import namespace_of
from .kernels import divergences as kernels

EMPTY_FLOOR = 1e-30  # smallest value of the model of a row of zeros
LEAST_VALUE = 1e-30  # smallest base of a power
LEAST_MEAN = {4: 1e-30, 8: 1e-290}  # smallest mean of a row to divide by, for each item size in bytes


def floor_of(beta: float) -> float:
    """Return the smallest value of a model entry, as a share of its row's mean: safe in quotients and logarithms."""
    return 1e-7 if beta >= 1.0 else 1e-10


def row_means(X: Array, M: Array | None) -> Array:
    """Return the mean of the observed entries (`M` > 0; None: all) of each row of `X`; 0 if too small to divide by."""
    if M is None:
        means = np.einsum("ij->i", X) / X.shape[1]
    else:
        observed = M > 0
        means = X.sum(axis=1, where=observed) / np.maximum(np.count_nonzero(observed, axis=1), 1)
    return np.where(means > LEAST_MEAN[X.itemsize], means, 0).astype(np.float64)


def _raised(values: Array, exponent: float) -> Array:
    """Return ``values ** exponent`` by a compiled kernel, which is several times as fast as NumPy's power."""
    out = np.empty_like(values)
    power = kernels.power_single if values.dtype == np.float32 else kernels.power_double
    power(values.reshape(-1), exponent, out.reshape(-1))
    return out


def powers_of(Y: Array, beta: float) -> Array | None:
    """Return ``Y ** beta`` if :func:`values` needs it for this beta, otherwise None."""
    if beta in (0.0, 1.0, 2.0):
        return None
    if Y.size and Y.min() >= LEAST_VALUE:
        return _raised(Y, beta)
    # zeros cannot be raised to a negative power, so 0 is written in place of their powers
    powers = _raised(np.maximum(Y, Y.dtype.type(LEAST_VALUE)), beta)
    np.copyto(powers, Y, where=Y <= 0)
    return powers


def curvatures(P: Array, beta: float) -> Array:
    """Return ``P ** (beta - 2)``, the second derivative (Fisher information) at a perfect fit, for `P` > 0."""
    if beta == 2.0:
        return np.ones_like(P)
    if beta == 1.0:
        return np.reciprocal(P)
    if beta == 0.0:
        inverse = np.reciprocal(P)
        return np.multiply(inverse, inverse, out=inverse)
    return _raised(P, beta - 2.0)


def values(Y: Array, powers: Array | None, P: Array, M: Array | None, beta: float, V: Array | None = None) -> Array:
    """Return the weighted divergence ``sum m d(y | p)`` of each row, in double precision."""
    out = np.empty(len(Y))
    if beta == 1.0:
        kernels.kullback_leibler(Y, P, M, out)
    elif beta == 0.0:
        kernels.itakura_saito(Y, P, M, out)
    elif beta == 2.0:
        squares = (Y - P) ** 2
        np.sum(squares if M is None else np.multiply(squares, M, out=squares), axis=1, out=out, dtype=np.float64)
        out /= 2
    else:
        kernels.beta_divergence(Y, powers, P, curvatures(P, beta) if V is None else V, M, beta, out)
    return out


def row_values(X: Any, P: Any, M: Any, beta: float) -> Any:
    """Return the beta-divergence of each row (n_rows,), in double precision; see :class:`.losses.LossRecord`."""
    beta = float(beta)
    if not isinstance(X, np.ndarray):
        return _row_values_elsewhere(X, P, M)  # only this divergence is minimised there
    X, P = X.astype(np.float64, copy=False), P.astype(np.float64, copy=False)
    M = None if M is None else M.astype(np.float64, copy=False)
    means = row_means(X, M)
    # a row of zeros keeps its unit, 1
    units = np.where(means > 0, means, 1)
    floors = np.where(means > 0, floor_of(beta), EMPTY_FLOOR)
    if beta in (0.0, 1.0):  # these need no powers, which could overflow
        return values(X, None, np.maximum(P, (floors * units)[:, None]), M, beta)
    # the divergence of the scaled row is that of the row divided by units**beta
    X, P = X / units[:, None], P / units[:, None]
    np.maximum(P, floors[:, None], out=P)
    return values(X, powers_of(X, beta), P, M, beta) * units**beta


def _row_values_elsewhere(X: Any, P: Any, M: Any) -> Any:
    """Return the Kullback-Leibler divergence of each row (n_rows,) for arrays of other libraries, without kernels."""
    xp = namespace_of(X)
    X, P = xp.asarray(X, dtype=xp.float64), xp.asarray(P, dtype=xp.float64)
    M = 1 + 0 * X if M is None else xp.asarray(M, dtype=xp.float64)
    observed = xp.asarray(M > 0, dtype=xp.float64)
    n_observed = xp.clip(xp.sum(observed, axis=1, keepdims=True), 1.0, None)
    means = xp.sum(X * observed, axis=1, keepdims=True) / n_observed
    P = xp.maximum(P, xp.where(means > LEAST_MEAN[8], means * floor_of(1.0), 0 * means + EMPTY_FLOOR))
    ratio = xp.where(X > 0, X / P, 1 + 0 * X)  # 0 log 0 = 0
    return xp.sum(M * (X * xp.log(ratio) - X + P), axis=1)
