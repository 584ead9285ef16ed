"""Starting factors.

========  =============================================================================
random    absolute normal numbers, scaled so that ``W @ H`` has the mean of the data
nndsvd    non-negative double SVD (Boutsidis & Gallopoulos 2008), zeros filled with the
          mean of the data over 100: deterministic but for the randomised SVD's seed
========  =============================================================================

Starts have the dtype of the data and are scaled to it, so that a fit of ``c X`` is the fit of ``X`` scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

__all__ = ["STARTS", "nndsvd", "random", "random_symmetric"]

Array = NDArray[Any]


def _absolute_normal(rng: RandomState, shape: tuple[int, int], scale: float, dtype: Any) -> Array:
    values: Array = np.abs(rng.standard_normal(shape)).astype(dtype)
    values *= np.dtype(dtype).type(scale)
    return values


def random(X: Array, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Draw both factors.

    Parameters
    ----------
    X : ndarray [shape=(n_samples, n_features), >= 0]
    n_components : int
    rng : RandomState

    Returns
    -------
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    """
    # the mean of |normal| is sqrt(2/pi); only the size matters
    scale = float(np.sqrt(X.mean(dtype=np.float64) / n_components))
    H = _absolute_normal(rng, (n_components, X.shape[1]), scale, X.dtype)
    return _absolute_normal(rng, (n_components, X.shape[0]), scale, X.dtype), H


def nndsvd(X: Array, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Take the positive parts of the leading singular triples (Boutsidis & Gallopoulos 2008, Figure 1).

    Components beyond the rank of the data, if more are asked for, are random.

    Parameters
    ----------
    X : ndarray [shape=(n_samples, n_features), >= 0]
    n_components : int
    rng : RandomState

    Returns
    -------
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    """
    Wt, H = random(X, n_components, rng)
    mean = X.dtype.type(X.mean(dtype=np.float64))
    k = min(n_components, *X.shape)
    if mean == 0 or k == 0:
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
        Wt[i] = np.where(u > 0, weight * u, mean / 100)
        H[i] = np.where(v > 0, weight * v, mean / 100)
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
    scale = float(np.sqrt(S.mean(dtype=np.float64) / n_components * np.pi / 2))
    return _absolute_normal(rng, (n_components, S.shape[0]), scale, S.dtype)


STARTS: dict[str, Callable[[Array, int, RandomState], tuple[Array, Array]]] = {"random": random, "nndsvd": nndsvd}
