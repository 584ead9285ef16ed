"""Samples of a problem, and how much they count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_sample_weight
from visionnmf.engine.problem import Problem

__all__ = ["counted", "rows_of", "width"]

Array = NDArray[Any]


def counted(sample_weight: ArrayLike | None, n_samples: int, dtype: Any) -> tuple[Array | None, Array]:
    """Return weights of samples, and the indices of the samples whose weight is not 0."""
    if sample_weight is None:
        return None, np.arange(n_samples)
    given = check_sample_weight(sample_weight, n_samples, dtype)
    return given, np.flatnonzero(given)


def rows_of(problem: Problem, rows: slice | Array) -> Problem:
    """Return the same problem with some of the samples."""
    X = sp.csr_array(problem.X[rows]) if problem.is_sparse else np.ascontiguousarray(problem.X[rows])
    weights = None if problem.weights is None else np.ascontiguousarray(problem.weights[rows])
    return replace(problem, X=X, weights=weights)


def width(X: Any) -> int:
    """Return the number of features of data that are not yet checked."""
    shape = getattr(X, "shape", None) or np.asarray(X).shape
    return max(1, int(shape[1])) if len(shape) == 2 else 1
