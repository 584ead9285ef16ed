r"""Alternating least squares with exact halves, by block principal pivoting (Kim & Park 2008).

.. math:: \min_{W, H \ge 0}\; \tfrac12 \|X - W H\|_F^2 + p_W(W) + p_H(H)

Each half-problem is solved to its minimum, one column at a time. Variables are exchanged between the set at a bound and
the free set until the optimality conditions hold, starting from the sets of the previous iteration. An exact half costs
more than a few HALS sweeps and gains less than another iteration, so HALS is the faster solver.

References
----------
J. Kim, H. Park, "Toward faster nonnegative matrix factorization: A new algorithm and comparisons", ICDM 2008.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import quadratic
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks
from visionnmf.engine.penalties import Penalty
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import features_of, product, right_sides, squares
from visionnmf.engine.solvers.contract import Progress
from visionnmf.engine.solvers.hals import value_from_products

__all__ = ["iterate"]

Array = NDArray[Any]

COLUMNS = 64  # columns that one thread solves at a time
TOLERANCE = 1e-8  # of the derivative, relative to the largest entry of a column's right-hand side; for double precision


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Solve for the codes `Wt`, then for the components `H`, each exactly and in place, with the other factor fixed.

    `Wt` has the shape (n_components, n_samples), `H` (n_components, n_features). Each `Progress` holds the objective
    before the iteration.
    """
    features, square = features_of(problem), squares(problem.X)
    objective = problem.objective(Wt, H)
    for _ in range(max_iter):
        before = objective
        _solve(Wt, product(H, H.T), right_sides(problem.X, H), problem.penalty_W)
        gram, right = product(Wt, Wt.T), right_sides(features, Wt)
        _solve(H, gram, right, problem.penalty_H)
        objective = value_from_products(problem, Wt, H, gram, right, square)
        yield Progress(before)


def _solve(F: Array, gram: Array, right: Array, penalty: Penalty) -> None:
    """Minimise over `F` exactly, given the Gram matrix of the fixed factor and its product `right` with the data.

    A column that pivoting cannot solve because of rounding keeps its previous codes.
    """
    grams = gram.astype(np.float64)[None]
    # products in single precision are only as exact as their rounding
    tolerance = max(TOLERANCE, float(np.finfo(F.dtype).eps))

    def columns(block: tuple[int, int]) -> None:
        part = slice(*block)
        points = F[:, part].T.astype(np.float64, order="C")
        quadratic.solve(points, grams, right[:, part].T, penalty, sweeps=0, tol=tolerance)
        F[:, part] = points.T

    map_blocks(columns, blocks(F.shape[1], COLUMNS), parallel=F.size * len(F) > BLOCK_ELEMENTS)
