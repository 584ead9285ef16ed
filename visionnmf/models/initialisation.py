"""The factors that a fit starts from: given, drawn, or one of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.arrays.namespace import is_not_numpy, moved, namespace_of, numpy_dtype, to_numpy, total
from visionnmf.engine.problem import Problem
from visionnmf.engine.starts import STARTS, draw_factors, factor_to_match

from .fits import Start

__all__ = ["start_factors"]

Array = NDArray[Any]


def start_factors(problem: Problem, start: Start, codes: Any, row_scale: Any, init: str = "random") -> tuple[Any, Any]:
    """Return transposed codes and components to start from: copies of those given, otherwise drawn by `init`.

    The components of `start` and `codes` (n_samples, r) are given or None. `row_scale` (n_samples,) has multiplied the
    rows of the problem's data, to give samples weights, or is None. All arrays are of the library of the data.
    """
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
