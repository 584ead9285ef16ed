r"""Alternating projected gradient (Lin 2007): a baseline.

.. math:: \min_{W, H \ge 0}\; \tfrac12 \|X - W H\|_F^2 + p_W(W) + p_H(H)

A few steps ``F - t gradient``, projected onto the box, on each factor by turns; the length ``t`` of a step is the one
before, multiplied or divided by ten until it is the longest that gives a sufficient decrease (Lin's Algorithm 4).

References
----------
C.-J. Lin, "Projected gradient methods for nonnegative matrix factorization", Neural Computation 19(10), 2007.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.penalties import Penalty
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import features_of, product, right_sides, squares
from visionnmf.engine.solvers.contract import Progress
from visionnmf.engine.solvers.hals import value_from_products

__all__ = ["iterate"]

Array = NDArray[Any]

STEPS = 10  # of each factor an iteration
TRIALS = 20  # of the length of a step
FACTOR = 0.1  # between two lengths; Lin's beta
DECREASE = 0.01  # that is sufficient, as a share of the first-order decrease; Lin's sigma


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place; see :func:`.admm.iterate`."""
    features, square = features_of(problem), squares(problem.X)
    objective = problem.objective(Wt, H)
    lengths = [1.0, 1.0]  # in units of one over the largest curvature
    for _ in range(max_iter):
        before = objective
        lengths[0] = _improve(Wt, product(H, H.T), right_sides(problem.X, H), problem.penalty_W, lengths[0])
        gram, right = product(Wt, Wt.T), right_sides(features, Wt)
        lengths[1] = _improve(H, gram, right, problem.penalty_H, lengths[1])
        objective = value_from_products(problem, Wt, H, gram, right, square)
        yield Progress(before)


def _improve(F: Array, gram: Array, right: Array, penalty: Penalty, length: float) -> float:
    """Take :data:`STEPS` projected steps in place; return the last length."""
    l1, l2 = penalty.weights(len(F), F.dtype)
    system = gram + np.diag(l2)
    unit = float(np.abs(system).sum(axis=1).max(initial=0))  # at least the largest eigenvalue
    if not unit > 0:
        return length
    with one_blas_thread():
        for _ in range(STEPS):
            gradient = system @ F
            gradient -= right
            gradient += l1[:, None]
            move, enough = _move(F, gradient, system, penalty, length / unit)
            growing = enough
            for _ in range(TRIALS):
                trial = length / FACTOR if growing else length * FACTOR
                tried, accepted = _move(F, gradient, system, penalty, trial / unit)
                if growing and (not accepted or np.array_equal(tried, move)):
                    break
                length, move, enough = trial, tried, accepted
                if not growing and accepted:
                    break
            if not enough:
                break  # only rounding is left
            F += move
            np.clip(F, *penalty.box(F.dtype), out=F)
    return length


def _move(F: Array, gradient: Array, system: Array, penalty: Penalty, length: float) -> tuple[Array, bool]:
    """Return the projected step of a length, and whether it decreases the objective enough (Lin's equation 17)."""
    move = np.clip(F - F.dtype.type(length) * gradient, *penalty.box(F.dtype))
    move -= F
    slope = float(np.vdot(gradient, move))
    return move, (1 - DECREASE) * slope + float(np.vdot(move, system @ move)) / 2 <= 0
