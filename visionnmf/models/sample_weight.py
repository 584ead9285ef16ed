"""Weights of samples, and problems with only some of the samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_sample_weight
from visionnmf.engine.problem import Problem
from visionnmf.exceptions import ParameterError

__all__ = ["select_samples", "weighted_samples", "with_sample_weight"]

Array = NDArray[Any]


def weighted_samples(sample_weight: ArrayLike | None, n_samples: int, dtype: Any) -> tuple[Array | None, Array]:
    """Return the checked weights of samples, and the indices of the samples whose weight is not 0."""
    if sample_weight is None:
        return None, np.arange(n_samples)
    checked = check_sample_weight(sample_weight, n_samples, dtype)
    return checked, np.flatnonzero(checked)


def select_samples(problem: Problem, rows: slice | Array) -> Problem:
    """Return the same problem with only some of the samples."""
    X = sp.csr_array(problem.X[rows]) if problem.is_sparse else np.ascontiguousarray(problem.X[rows])
    weights = None if problem.weights is None else np.ascontiguousarray(problem.weights[rows])
    return replace(problem, X=X, weights=weights)


def with_sample_weight(problem: Problem, sample_weight: ArrayLike | None) -> tuple[Problem, Array | None]:
    """Return the problem with weighted samples, and what its rows were multiplied by, if they were.

    If the loss is homogeneous and the codes may have any scale, a row is weighted by scaling it. Otherwise the weight
    of a sample goes to its entries.
    """
    if sample_weight is None:
        return problem, None
    X = problem.X
    s = check_sample_weight(sample_weight, X.shape[0], np.float64)
    degree = problem.loss.record.degree
    if degree and not problem.penalty_W.kinds:
        scale = (s ** (1 / degree)).astype(X.dtype)
        scaled = sp.csr_array(sp.diags_array(scale) @ X) if problem.is_sparse else X * scale[:, None]
        return replace(problem, X=scaled), scale
    if problem.is_sparse:
        raise ParameterError("sample_weight must be None for a sparse X with penalty_W or nuclear; got weights")
    s = s ** (1 / problem.loss.record.weight_degree)
    rows = np.broadcast_to(s.astype(X.dtype)[:, None], X.shape)
    weights = np.array(rows if problem.weights is None else problem.weights * rows)
    return replace(problem, X=np.where(weights > 0, X, X.dtype.type(0)), weights=weights), None
