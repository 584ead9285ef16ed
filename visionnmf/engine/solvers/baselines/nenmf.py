"""NeNMF: Nesterov's optimal gradient method for each factor in turn, with any penalty (Guan et al. 2012).

The factors are updated alternately. Each half-problem is quadratic and convex, and is solved by accelerated (proximal)
gradient until the projected gradient is small enough. The tolerance is divided by ten whenever the inner solver stops
at once. Three things differ from the paper: a prox replaces the projection, so that every penalty works; each component
has its own step length; and the momentum is restarted, so that the objective never rises.

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

INNER_STEPS = 100  # maximum number of gradient steps for each factor in one iteration
FIRST_TOLERANCE = 1e-3  # of the inner solver, relative to the first projected gradient, as in the paper
TIGHTENING = 0.1


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """NeNMF (Guan et al. 2012): update `Wt`, then `H`, in place, each by accelerated proximal gradient.

    `Wt` has the shape (n_components, n_samples), `H` (n_components, n_features). An update stops when the norm of the
    projected gradient is below a tolerance, which is relative to the norm in the first iteration. The tolerance is
    multiplied by :data:`TIGHTENING` whenever an update needs no more than one step. Each `Progress` holds the objective
    before the iteration.
    """
    square = squares(problem.X)
    # for each half: the factor to update, the fixed factor, the data with one row per column of the former, the penalty
    halves = [
        (Wt, H, problem.X, problem.penalty_W),
        (H, Wt, features_of(problem), problem.penalty_H),
    ]
    first = 0.0  # norm of the projected gradients of both factors in the first iteration
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
    """Return the objective of least squares from the Gram matrix and the right-hand side, ``O(r^2 n)`` operations.

    `square` is ``|X|^2``. If the loss is so small that cancellation would show, it is computed from the residuals
    instead.
    """
    inner = float(np.einsum("ij,ij->", right, Wt, dtype=np.float64))
    model = float(np.einsum("ij,ij->", gram, product(Wt, Wt.T), dtype=np.float64))
    loss = (square - 2 * inner + model) / 2
    if loss > square * SMALL[H.dtype.itemsize]:
        return loss + problem.penalty_value(Wt, H)
    with one_blas_thread():
        return problem.objective(Wt, H)
