"""The factors that a fit starts from: given, drawn, or one of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.problem import Problem
from visionnmf.engine.starts import STARTS

__all__ = ["start_factors"]

Array = NDArray[Any]


def start_factors(
    problem: Problem,
    n_components: int,
    init: str,
    rng: np.random.RandomState,
    W: Array | None,
    H: Array | None,
    row_scale: Array | None,
) -> tuple[Array, Array]:
    """Return transposed codes and components to start from: copies of those given, otherwise drawn by `init`.

    `row_scale` (n_samples,) has multiplied the rows of the problem's data, to give samples weights, or is None.
    """
    X = problem.X
    if problem.weights is not None:  # the mean stands in for missing entries, so that scale and SVD are sensible
        observed = problem.weights > 0
        X = np.where(observed, X, X.dtype.type(X.sum(dtype=np.float64) / observed.sum()))
    stored = (
        X.data if problem.is_sparse and problem.zero_weight == 0 else X
    )  # the entries that count: the stored ones if the others are missing
    # With "custom" both factors are given, so what is drawn here is replaced below.
    Wt, components = STARTS["random" if init == "custom" else init](X, n_components, rng)
    # The factors were made as if the entries that are not stored were 0.
    if stored is not X:  # scale the factors as if the missing entries were as large as the stored ones
        for F in (Wt, components):
            F *= X.dtype.type((X.shape[0] * X.shape[1] / max(1, len(stored))) ** 0.5)
    if W is not None:
        Wt = W.T.copy()
        if row_scale is not None:
            Wt *= row_scale
    if H is not None:
        components = H.copy()
    # Scale the random factor to match the given one, so that the product has a quarter of the mean of the data, as that
    # of two random factors (`starts.random`).
    if (W is None) != (H is None):
        drawn = Wt if W is None else components
        size = float(Wt.mean(axis=1, dtype=np.float64) @ components.mean(axis=1, dtype=np.float64))
        drawn *= X.dtype.type(stored.mean(dtype=np.float64) / (4 * size) if size > 0 else 1)
    # move both factors, in place, into the constraints of their penalties
    problem.penalty_W.feasible(Wt)
    problem.penalty_H.feasible(components)
    return Wt, components
