"""NeNMF: Nesterov's optimal gradient method for each factor in turn (Guan, Tao, Luo & Yuan, IEEE TSP 60(6), 2012).

:func:`iterate` is the form to use. :func:`iterate_as_published` has the projection instead of a prox, one step length
for all components, no restarts of the momentum, and the authors' numbers of steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine import quadratic
from visionnmf.engine.arrays.namespace import sum_of_squares
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product, right_sides
from visionnmf.engine.stopping import Iteration

from .hals import value_from_products

INNER_STEPS = 100  # maximum number of gradient steps for each factor in one iteration
TOLERANCE = 1e-3  # of an update, relative to the projected gradients of both factors at the start, as in the paper
TIGHTENING = 0.1  # of the tolerance of a factor that needs hardly any steps
LEAST_STEPS, MOST_STEPS = 10, 1000  # of an update as published; those of the authors' code


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place, each by accelerated proximal gradient; yield the objective before."""
    square = sum_of_squares(problem.X)
    # for each half: the factor to update, the fixed factor, the data with one row per column of the former, the penalty
    halves = [(Wt, H, problem.X, problem.penalty_W), (H, Wt, problem.features, problem.penalty_H)]
    first = 0.0  # norm of the projected gradients of both factors in the first iteration
    tolerances = [TOLERANCE, TOLERANCE]
    for _ in range(max_iter):
        sizes = [0.0, 0.0]
        objective = 0.0
        for side, (F, A, data, penalty) in enumerate(halves):
            gram, right = product(A, A.T), right_sides(data, A)
            if side == 0:
                objective = value_from_products(problem, Wt, H, gram, right, square, other_factor=Wt)
            steps, sizes[side] = quadratic.accelerate(
                F, gram, right, penalty, steps=INNER_STEPS, tol=tolerances[side] * first
            )
            if steps <= 1:
                tolerances[side] *= TIGHTENING
        first = first or (sizes[0] ** 2 + sizes[1] ** 2) ** 0.5
        yield Iteration(objective)


def iterate_as_published(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run Algorithm 2 of the paper, each half in place by Algorithm 1; yield the objective before each iteration."""
    square = sum_of_squares(problem.X)
    halves = [_Half(Wt, problem.penalty_W), _Half(H, problem.penalty_H)]
    tolerances: list[float] = []
    for _ in range(max_iter):
        gram, right = product(H, H.T), right_sides(problem.X, H)
        objective = value_from_products(problem, Wt, H, gram, right, square, other_factor=Wt)  # the products are H's
        if not tolerances:
            others = product(Wt, Wt.T), right_sides(problem.features, Wt)
            first = np.hypot(halves[0].size(*halves[0].at(gram, right)), halves[1].size(*halves[1].at(*others)))
            tolerances = [TOLERANCE * float(first)] * 2
        for side, half in enumerate(halves):
            if side:
                gram, right = product(Wt, Wt.T), right_sides(problem.features, Wt)
            if half.improve(gram, right, tolerances[side]) <= LEAST_STEPS:
                tolerances[side] *= TIGHTENING
        yield Iteration(objective)


class _Half:
    """One factor `F` (r, n_points) with its penalty, which Algorithm 1 improves while the other factor is fixed."""

    def __init__(self, F: Array, penalty: Penalties) -> None:
        self.F, self.penalty = F, penalty
        self.l1 = penalty.weights(len(F), F.dtype)[0][:, None]
        self.curvature = penalty.curvature()  # of l2 or graph (section III; Proposition 2)

    def at(self, gram: Array, right: Array) -> tuple[Array, Array]:
        """Return the factor and the gradient of ``<F, gram F> / 2 - <right, F>`` and the penalties."""
        gradient = gram @ self.F - right + self.l1
        if self.penalty.smooth:
            gradient += self.penalty.gradient(self.F)
        return self.F, gradient

    @staticmethod
    def size(F: Array, gradient: Array) -> float:
        """Return the norm of the projected gradient: where `F` is 0, only its negative part counts (equation 13)."""
        return float(np.linalg.norm(np.where(F > 0, gradient, np.minimum(gradient, 0))))

    def improve(self, gram: Array, right: Array, tolerance: float) -> int:
        """Run Algorithm 1 until the projected gradient is at most `tolerance`; return the number of steps."""
        largest = float(np.linalg.norm(gram, 2)) + self.curvature  # Lipschitz constant of the gradient (Lemma 2)
        if not largest > 0:
            return 0
        F, gradient = self.at(gram, right)
        # The gradient is affine, so that of the search point Y, the slope, follows from those of the last two factors.
        Y, slope, alpha = F.copy(), gradient, 1.0
        for step in range(1, MOST_STEPS + 1):
            before, old = F.copy(), gradient
            F[:] = np.maximum(Y - slope / F.dtype.type(largest), 0)  # equation 15
            gradient = self.at(gram, right)[1]
            if self.size(F, gradient) <= tolerance:
                return step
            after = (1 + (4 * alpha**2 + 1) ** 0.5) / 2  # equation 16
            share = F.dtype.type((alpha - 1) / after)
            Y, slope, alpha = F + share * (F - before), gradient + share * (gradient - old), after  # equation 17
        return MOST_STEPS
