"""NeNMF: Nesterov's optimal gradient method for each factor by turns, with any penalty (Guan et al. 2012).

The factors are improved alternately; each half-problem, quadratic and convex, is solved by accelerated (proximal)
gradient until the projected gradient is small enough, with a tolerance that is tightened tenfold whenever the inner
solver stops at once. Beyond the paper: a prox in place of the projection, so that every penalty works; a step length of
its own for each component; restarts, so that the objective never rises.

References
----------
N. Guan, D. Tao, Z. Luo, B. Yuan, "NeNMF: An optimal gradient method for nonnegative matrix factorization", IEEE
Transactions on Signal Processing 60(6), 2012.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import quadratic
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import features_of, product, right_sides, squares
from visionnmf.engine.solvers.contract import Progress
from visionnmf.engine.solvers.hals import SMALL

__all__ = ["iterate"]

Array = NDArray[Any]

INNER_STEPS = 100  # at most, of each factor and iteration
FIRST_TOLERANCE = 1e-3  # of the inner solver, relative to the first projected gradient; the paper's
TIGHTENING = 0.1


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place; see :func:`.admm.iterate`."""
    square = squares(problem.X)
    # each factor with the other one, the data by its rows, and its penalty
    halves = [
        (Wt, H, problem.X, problem.penalty_W),
        (H, Wt, features_of(problem), problem.penalty_H),
    ]
    first = 0.0
    tolerances = [FIRST_TOLERANCE, FIRST_TOLERANCE]
    for _ in range(max_iter):
        sizes = [0.0, 0.0]
        objective = 0.0
        for side, (F, A, data, penalty) in enumerate(halves):
            gram, right = product(A, A.T), right_sides(data, A)
            if side == 0:
                objective = _objective(problem, Wt, H, gram, right, square)
            steps, sizes[side] = quadratic.accelerate(
                F, gram, right, penalty, steps=INNER_STEPS, tol=tolerances[side] * first
            )
            if steps <= 1:
                tolerances[side] *= TIGHTENING
        size = (sizes[0] ** 2 + sizes[1] ** 2) ** 0.5
        first = first or size
        yield Progress(objective)


def _objective(problem: Problem, Wt: Array, H: Array, gram: Array, right: Array, square: float) -> float:
    """Evaluate the loss from the products at hand, unless it is so small that their rounding would show."""
    inner = float(np.einsum("ij,ij->", right, Wt, dtype=np.float64))
    model = float(np.einsum("ij,ij->", gram, product(Wt, Wt.T), dtype=np.float64))
    loss = (square - 2 * inner + model) / 2
    if loss > square * SMALL[H.dtype.itemsize]:
        return loss + problem.penalty_value(Wt, H)
    with one_blas_thread():
        return problem.objective(Wt, H)
