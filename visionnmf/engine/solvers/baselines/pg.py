r"""Alternating projected gradient (Lin 2007): a baseline.

.. math:: \min_{W, H \ge 0}\; \tfrac12 \|X - W H\|_F^2 + p_W(W) + p_H(H)

The two factors are updated in turn. Each update takes a few steps ``F - t gradient``, projected onto the box. The
search for the step length ``t`` starts from the previous one and multiplies or divides it by ten until it is the
longest that gives a sufficient decrease (Lin's Algorithm 4).

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

STEPS = 10  # gradient steps for each factor in one iteration
TRIALS = 20  # maximum number of step lengths tried in one line search
FACTOR = 0.1  # ratio of two successive trial step lengths (Lin's beta)
DECREASE = 0.01  # sufficient decrease, as a share of the first-order decrease (Lin's sigma)


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Alternating projected gradient (Lin 2007): update `Wt`, then `H`, in place, with the other factor fixed.

    `Wt` has the shape (n_components, n_samples), `H` (n_components, n_features). Each update needs only the Gram matrix
    ``A A^T`` of the fixed factor ``A`` and its product with the data. After each iteration the generator yields a
    `Progress` with the objective before that iteration.
    """
    features, square = features_of(problem), squares(problem.X)
    objective = problem.objective(Wt, H)
    lengths = [1.0, 1.0]  # step lengths for Wt and H, in units of 1 / (largest curvature)
    for _ in range(max_iter):
        before = objective
        lengths[0] = _improve(Wt, product(H, H.T), right_sides(problem.X, H), problem.penalty_W, lengths[0])
        gram, right = product(Wt, Wt.T), right_sides(features, Wt)
        lengths[1] = _improve(H, gram, right, problem.penalty_H, lengths[1])
        objective = value_from_products(problem, Wt, H, gram, right, square)
        yield Progress(before)


def _improve(F: Array, gram: Array, right: Array, penalty: Penalty, length: float) -> float:
    """Take up to :data:`STEPS` projected gradient steps on `F` in place; return the last step length.

    The steps decrease ``<F, gram F> / 2 - <right, F> + penalty(F)``. `length` is the initial step length in units of
    ``1 / L``, where ``L`` bounds the curvature; the line search multiplies or divides it by ten (Lin's Algorithm 4).
    """
    l1, l2 = penalty.weights(len(F), F.dtype)
    system = gram + np.diag(l2)
    unit = float(np.abs(system).sum(axis=1).max(initial=0))  # row-sum norm: an upper bound of the largest eigenvalue
    if not unit > 0:
        return length
    with one_blas_thread():
        for _ in range(STEPS):
            gradient = system @ F
            gradient -= right
            gradient += l1[:, None]
            move, enough = _move(F, gradient, system, penalty, length / unit)
            growing = enough  # lengthen the step while it is accepted, otherwise shorten it until it is
            for _ in range(TRIALS):
                trial = length / FACTOR if growing else length * FACTOR
                tried, accepted = _move(F, gradient, system, penalty, trial / unit)
                if growing and (not accepted or np.array_equal(tried, move)):
                    break
                length, move, enough = trial, tried, accepted
                if not growing and accepted:
                    break
            if not enough:
                break  # no trial length decreases the objective: only rounding errors are left
            F += move
            np.clip(F, *penalty.box(F.dtype), out=F)
    return length


def _move(F: Array, gradient: Array, system: Array, penalty: Penalty, length: float) -> tuple[Array, bool]:
    """Return the projected step ``P(F - length * gradient) - F``, and whether it satisfies Lin's equation 17.

    That equation demands a sufficient decrease: at least the share :data:`DECREASE` of the first-order prediction.
    """
    move = np.clip(F - F.dtype.type(length) * gradient, *penalty.box(F.dtype))
    move -= F
    slope = float(np.vdot(gradient, move))
    return move, (1 - DECREASE) * slope + float(np.vdot(move, system @ move)) / 2 <= 0
