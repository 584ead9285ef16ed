"""Starting factors: given, drawn, or one of each.

========  ===========================================================================================
random    absolute normal numbers, scaled so that ``W @ H`` has a quarter of the mean of the data
nndsvd    non-negative double SVD (Boutsidis & Gallopoulos 2008): deterministic except for the seed of the SVD; its
          zeros stay zero under multiplicative updates
nndsvda   the same, zeros replaced by the size of a random start's entries
nndsvdar  the same, zeros replaced by random numbers of a hundredth of that size
========  ===========================================================================================

For symmetric models there are :func:`random_symmetric` and :func:`spread_symmetric`.

Starts have the dtype of the data and are scaled to it, so that a fit of ``c X`` is the fit of ``X`` scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.utils.extmath import randomized_svd

from visionnmf._typing import Array

from .arrays.namespace import is_not_numpy, moved, namespace_of, numpy_dtype, to_numpy, total
from .problem import Problem


def absolute_normal(rng: RandomState, shape: tuple[int, int], scale: float, dtype: Any) -> Array:
    """Return absolute values of normal numbers, multiplied by `scale`."""
    values: Array = np.abs(rng.standard_normal(shape)).astype(dtype)
    values *= np.dtype(dtype).type(scale)
    return values


def scale_of(mean: float, n_components: int) -> float:
    """Return the standard deviation of a random start, with which ``W @ H`` has a quarter of the mean of the data."""
    # Absolute normal numbers of standard deviation s have the mean ``s sqrt(2 / pi)``, and r products of two such
    # numbers add up to an entry. With the full mean, ADMM ends in poor solutions if outliers dominate it
    # (docs/decisions/manhattan.md).
    return 0.5 * float(np.sqrt(mean / n_components * np.pi / 2))


def random(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Draw ``Wt`` (r, n_samples) and ``H`` (r, n), absolute normal; ``W @ H`` has a quarter of the data's mean."""
    return draw_factors(X.shape, X.dtype, X.mean(dtype=np.float64), n_components, rng)


def draw_factors(
    shape: tuple[int, int], dtype: Any, mean: float, n_components: int, rng: RandomState
) -> tuple[Array, Array]:
    """Draw the factors of :func:`random` for data of this shape, dtype and mean."""
    scale = scale_of(mean, n_components)
    H = absolute_normal(rng, (n_components, shape[1]), scale, dtype)
    return absolute_normal(rng, (n_components, shape[0]), scale, dtype), H


def factor_to_match(mean: float, mean_codes: Array, mean_components: Array) -> float:
    """Return what scales a drawn factor to match a given one: ``W @ H`` gets a quarter of the data's mean."""
    size = float(mean_codes @ mean_components)
    return mean / (4 * size) if size > 0 else 1.0


def nndsvd(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Return the positive parts of the leading singular triples (Boutsidis & Gallopoulos 2008, Figure 1)."""
    Wt, H = random(X, n_components, rng)
    k = min(n_components, *X.shape)
    if not Wt.any():  # the data are all 0, and so is a random start, which has their scale
        return Wt, H
    left, values, right = randomized_svd(X, k, random_state=rng)
    for i in range(k):
        best = (0.0, left[:, i], right[i])  # product of norms, and the two parts of unit norm
        for sign in (1, -1):
            u, v = np.maximum(sign * left[:, i], 0), np.maximum(sign * right[i], 0)
            size = float(np.linalg.norm(u) * np.linalg.norm(v))
            if size > best[0]:
                best = (size, u / np.linalg.norm(u), v / np.linalg.norm(v))
        size, u, v = best
        weight = np.sqrt(values[i] * size)  # shared equally by both factors
        Wt[i], H[i] = weight * u, weight * v
        for F in (Wt[i], H[i]):
            F[F < np.sqrt(np.finfo(F.dtype).eps) * F.max()] = 0  # rounding errors of the decomposition
    return Wt, H


def nndsvda(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Return the factors (r, n_samples) and (r, n) of :func:`nndsvd`, zeros replaced by the size of a random start."""
    Wt, H = nndsvd(X, n_components, rng)
    fill = X.dtype.type(scale_of(X.mean(dtype=np.float64), n_components))
    for F in (Wt, H):
        F[F == 0] = fill
    return Wt, H


def nndsvdar(X: Any, n_components: int, rng: RandomState) -> tuple[Array, Array]:
    """Return the factors of :func:`nndsvd`, zeros replaced by random numbers of a hundredth of a start's size."""
    Wt, H = nndsvd(X, n_components, rng)
    scale = scale_of(X.mean(dtype=np.float64), n_components) / 100
    for F in (Wt, H):
        F += (F == 0) * absolute_normal(rng, F.shape, scale, F.dtype)
    return Wt, H


def random_symmetric(S: Array, n_components: int, rng: RandomState) -> Array:
    """Draw the factor (n_components, n) of a symmetric model at random, with ``H.T @ H`` on the scale of `S` (n, n)."""
    scale = scale_of(S.mean(dtype=np.float64), n_components)
    return absolute_normal(rng, (n_components, S.shape[0]), scale, S.dtype)


def spread_symmetric(S: Array, c: Array, n_components: int, rng: RandomState | np.random.Generator) -> Array:
    """Return a start for a symmetric model: columns of `S` that differ, chosen in the manner of k-means++."""
    own = S.diagonal().astype(np.float64)  # (n,) similarity of a node to itself
    own = np.where(own > 0, own, S.max(axis=1))
    scale = np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))
    start = np.zeros((n_components, len(S)), S.dtype)
    uncovered = np.ones(len(S))  # share of each node that no chosen column explains
    for component in start:
        chance = c * uncovered**2
        if chance.sum() < 1e-12 * c.sum():
            break
        node = rng.choice(len(S), p=chance / chance.sum())
        # the outer product of this component with itself then has the row S[node] at the chosen node
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


# --- the start of a fit, in which factors may be given ----------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """How a fit begins: given components or None, whether codes are given, and the generator for what is not."""

    n_components: int
    components: Any
    with_codes: bool
    rng: RandomState


def start_factors(problem: Problem, start: Start, codes: Any, row_scale: Any, init: str = "random") -> tuple[Any, Any]:
    """Return transposed codes and components to start from: copies of those given, otherwise drawn by `init`."""
    if is_not_numpy(problem.X):  # here other starts were refused before; `mean` is that of the data
        Wt, H, mean = _drawn_elsewhere(problem, start)
    else:
        # with "custom" both factors are given, so what is drawn here is replaced below
        Wt, H, mean = _drawn(problem, start, "random" if init == "custom" else init)
    if codes is not None:
        Wt[:, :] = codes.T if row_scale is None else codes.T * row_scale
    if start.components is not None:
        H[:, :] = start.components
    if (codes is None) != (start.components is None):  # scale the drawn factor to match the given one
        drawn = Wt if codes is None else H
        drawn *= factor_to_match(mean, _row_means(Wt), _row_means(H))
    problem.penalty_W.feasible(Wt)
    problem.penalty_H.feasible(H)
    return Wt, H


def _drawn(problem: Problem, start: Start, init: str) -> tuple[Array, Array, float]:
    """Return both factors as the start `init` makes them from data of NumPy, and the mean of the data."""
    X = problem.X
    if problem.weights is not None:  # the mean stands in for missing entries, so that scale and SVD are sensible
        observed = problem.weights > 0
        X = np.where(observed, X, X.dtype.type(X.sum(dtype=np.float64) / observed.sum()))
    Wt, H = STARTS[init](X, start.n_components, start.rng)
    if not (problem.is_sparse and problem.zero_weight == 0):
        return Wt, H, X.mean(dtype=np.float64)
    # The factors were made as if the missing entries were 0; scale them as if they were as large as the stored ones.
    stored = X.data
    for F in (Wt, H):
        F *= X.dtype.type((X.shape[0] * X.shape[1] / max(1, len(stored))) ** 0.5)
    return Wt, H, stored.mean(dtype=np.float64)


def _drawn_elsewhere(problem: Problem, start: Start) -> tuple[Any, Any, float]:
    """Return the random factors that a fit in memory starts from, beside the data, and the mean of the data."""
    X, weights = problem.X, problem.weights
    n_observed = X.shape[0] * X.shape[1] if weights is None else float(namespace_of(X).count_nonzero(weights))
    mean = total(X) / (n_observed or 1.0)
    Wt, H = draw_factors(X.shape, numpy_dtype(X), mean, start.n_components, start.rng)
    return moved(Wt, X), moved(H, X), mean


def _row_means(F: Any) -> Array:
    """Return the mean of each row of a factor (r, n_points), as an array of NumPy in double precision."""
    xp = namespace_of(F)
    means: Array = to_numpy(xp.sum(F, axis=1, dtype=xp.float64)) / F.shape[1]
    return means
