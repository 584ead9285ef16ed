"""Starting factors.

========  ===========================================================================================
random    absolute normal numbers, scaled so that ``W @ H`` has a quarter of the mean of the data
nndsvd    non-negative double SVD (Boutsidis & Gallopoulos 2008): deterministic but for the SVD's seed; its zeros
          stay zero under multiplicative updates
nndsvda   the same, zeros replaced by the size of a random start's entries
nndsvdar  the same, zeros replaced by random numbers of a hundredth of that size
========  ===========================================================================================

For symmetric models there are :func:`random_symmetric` and :func:`spread_symmetric`.

Starts have the dtype of the data and are scaled to it, so that a fit of ``c X`` is the fit of ``X`` scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

__all__ = ["STARTS", "nndsvd", "nndsvda", "nndsvdar", "random", "random_symmetric", "spread_symmetric"]

Array = NDArray[Any]


def _absolute_normal(rng: RandomState, shape: tuple[int, int], scale: float, dtype: Any) -> Array:
    values: Array = np.abs(rng.standard_normal(shape)).astype(dtype)
    values *= np.dtype(dtype).type(scale)
    return values


def _scale(X: Any, n_components: int) -> float:
    """Return the standard deviation of a random start.

    ``W @ H`` then has a quarter of the mean of `X`, as |normal| has the mean sqrt(2/pi). Smaller starts change little;
    with the whole mean ADMM ends in poor solutions when outliers dominate the mean (docs/decisions/manhattan.md).
    """
    return 0.5 * float(np.sqrt(X.mean(dtype=np.float64) / n_components * np.pi / 2))


def random(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Draw both factors.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array [shape=(n_samples, n_features), >= 0]
    n_components : int
    rng : RandomState

    Returns
    -------
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    """
    scale = _scale(X, n_components)
    H = _absolute_normal(rng, (n_components, X.shape[1]), scale, X.dtype)
    return _absolute_normal(rng, (n_components, X.shape[0]), scale, X.dtype), H


def nndsvd(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Take the positive parts of the leading singular triples (Boutsidis & Gallopoulos 2008, Figure 1).

    Components beyond the rank of the data, if more are asked for, are random.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array [shape=(n_samples, n_features), >= 0]
    n_components : int
    rng : RandomState

    Returns
    -------
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    """
    Wt, H = random(X, n_components, rng)
    k = min(n_components, *X.shape)
    if not Wt.any():
        return Wt, H
    left, values, right = randomized_svd(X, k, random_state=rng)
    for i in range(k):
        best = (0.0, left[:, i], right[i])
        for sign in (1, -1):
            u, v = np.maximum(sign * left[:, i], 0), np.maximum(sign * right[i], 0)
            size = float(np.linalg.norm(u) * np.linalg.norm(v))
            if size > best[0]:
                best = (size, u / np.linalg.norm(u), v / np.linalg.norm(v))
        size, u, v = best
        weight = np.sqrt(values[i] * size)
        Wt[i], H[i] = weight * u, weight * v
        for F in (Wt[i], H[i]):
            F[F < np.sqrt(np.finfo(F.dtype).eps) * F.max()] = 0  # rounding of the decomposition
    return Wt, H


def nndsvda(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Start as :func:`nndsvd`, with the size of a random start's entries for zeros.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array [shape=(n_samples, n_features), >= 0]
    n_components : int
    rng : RandomState

    Returns
    -------
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    """
    Wt, H = nndsvd(X, n_components, rng)
    fill = X.dtype.type(_scale(X, n_components))
    for F in (Wt, H):
        F[F == 0] = fill
    return Wt, H


def nndsvdar(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Start as :func:`nndsvd`, with random numbers of a hundredth of a random start's size for zeros.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array [shape=(n_samples, n_features), >= 0]
    n_components : int
    rng : RandomState

    Returns
    -------
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    """
    Wt, H = nndsvd(X, n_components, rng)
    scale = _scale(X, n_components) / 100
    for F in (Wt, H):
        F += (F == 0) * _absolute_normal(rng, F.shape, scale, F.dtype)
    return Wt, H


def random_symmetric(S: Array, n_components: int, rng: RandomState) -> Array:
    """Draw the factor of a symmetric model so that ``H.T @ H`` has the mean of `S`.

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0]
    n_components : int
    rng : RandomState

    Returns
    -------
    ndarray [shape=(n_components, n)]
    """
    scale = _scale(S, n_components)
    return _absolute_normal(rng, (n_components, S.shape[0]), scale, S.dtype)


def spread_symmetric(S: Array, c: Array, n_components: int, rng: RandomState | np.random.Generator) -> Array:
    """Start a symmetric model from columns of `S` that differ, chosen as k-means++ chooses its centres.

    A column says which nodes belong with the chosen one, so it is a component already; from random numbers the
    weighted medians end far higher (``docs/decisions/segmentation.md``).

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
        A node with 0 on the diagonal counts as alike to itself as its most alike neighbour.
    c : ndarray [shape=(n,), >= 0]
        Node weights.
    n_components : int
    rng : RandomState or Generator

    Returns
    -------
    ndarray [shape=(n_components, n), >= 0]
        Components beyond those that explain every node are 0.
    """
    own = S.diagonal().astype(np.float64)
    own = np.where(own > 0, own, S.max(axis=1))
    scale = np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))
    start = np.zeros((n_components, len(S)), S.dtype)
    uncovered = np.ones(len(S))
    for component in start:
        chance = c * uncovered**2
        if chance.sum() < 1e-12 * c.sum():
            break
        node = rng.choice(len(S), p=chance / chance.sum())
        column = S[node] / scale[node]
        column[node] = scale[node]
        component[:] = column
        uncovered = np.minimum(uncovered, 1 - np.minimum(column / scale, 1))
    return start


STARTS: dict[str, Callable[[Any, int, RandomState], tuple[Array, Array]]] = {
    "random": random,
    "nndsvd": nndsvd,
    "nndsvda": nndsvda,
    "nndsvdar": nndsvdar,
}
