r"""The truncated singular value decomposition: the trivial baseline, without non-negativity.

.. math:: \min_{W, H}\; \tfrac12 \|X - W H\|_F^2, \qquad X \approx U S V^T,\; W = U S,\; H = V^T

No factorisation with the same number of components has a smaller loss (Eckart & Young 1936), so it is a lower bound for
every other solver. The factors have both signs. They are not parts of the data, and methods that need non-negative
factors cannot use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import svd_flip

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import right_sides
from visionnmf.engine.solvers.contract import Progress

__all__ = ["codes", "iterate"]

Array = NDArray[Any]


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Overwrite both factors by the truncated decomposition, in a single iteration.

    Components have unit norm and are ordered by decreasing singular value. Components beyond the rank that the shape of
    `X` allows are zero. Signs are chosen so that the largest entry of each component is positive.
    """
    if max_iter < 1:
        return
    X = problem.X
    before = problem.objective(Wt, H)
    Wt[:], H[:] = 0, 0
    if X.sum() > 0:
        count = min(len(H), *X.shape)
        with one_blas_thread():
            size = X.dtype.type(X.max())
            left, values, right = _decomposition(X / size, count)  # squares of tiny numbers underflow
            values = values * size
        left, right = svd_flip(left, right, u_based_decision=False)
        Wt[:count], H[:count] = (left * values).T, right
    yield Progress(before, done=True)


def _decomposition(X: Any, count: int) -> tuple[Array, Array, Array]:
    """Return the leading `count` left singular vectors, values and right singular vectors, in descending order."""
    smaller = min(X.shape)
    if 2 * count > smaller:  # as fast as ARPACK, which cannot find all singular values
        dense = X.toarray() if count == smaller and not isinstance(X, np.ndarray) else X
        if isinstance(dense, np.ndarray):
            left, values, right = np.linalg.svd(dense, full_matrices=False)
            return left[:, :count], values[:count], right[:count]
    start = np.random.default_rng(0).standard_normal(smaller).astype(X.dtype)
    left, values, right = svds(X, count, v0=start)
    return left[:, ::-1], values[::-1], right[::-1]


def codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Overwrite `Wt` by the projection of the rows of the data on the components `H`, which have unit norm."""
    with one_blas_thread():
        Wt[:] = right_sides(problem.X, H)
