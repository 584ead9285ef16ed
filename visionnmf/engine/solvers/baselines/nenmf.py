"""NeNMF as printed: Nesterov's optimal gradient method for each factor (Guan et al. 2012, Algorithms 1 and 2).

:func:`.least_squares.nenmf` is the form to use. It differs in four things: a prox for every penalty, a step length for
each component, momentum that restarts, and at most :data:`.least_squares.INNER_STEPS` steps. Here the step is
``1 / |A A^T|_2`` (Lemma 2), plus the curvature of an l2 or graph penalty (section III; Proposition 2), an l1 penalty
adds its weight to the gradient (section III.A), and an update goes on until its projected gradient is small enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.arrays.namespace import sum_of_squares
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product, right_sides
from visionnmf.engine.solvers.hals import value_from_products
from visionnmf.engine.stopping import Iteration

Array = NDArray[Any]

TOLERANCE = 1e-3  # of the first update, relative to the projected gradients of both factors at the start
TIGHTENING = 0.1  # of the tolerance of a factor whose update needs no more than LEAST_STEPS
LEAST_STEPS, MOST_STEPS = 10, 1000  # for each factor in one iteration; those of the authors' code


def nenmf_as_published(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run NeNMF as published (Guan et al. 2012, Algorithm 2): each half in place by Algorithm 1."""
    square = sum_of_squares(problem.X)
    halves = [_Half(Wt, problem.penalty_W), _Half(H, problem.penalty_H)]
    tolerances: list[float] = []
    for _ in range(max_iter):
        gram, right = product(H, H.T), right_sides(problem.X, H)
        objective = value_from_products(problem, Wt, H, gram, right, square, other_factor=Wt)  # the products are H's
        if not tolerances:  # relative to the projected gradients of both factors at the start
            others = product(Wt, Wt.T), right_sides(problem.features, Wt)  # `features` are the transposed data
            # `at` returns the factor and its gradient, and `size` the norm of the projected gradient of these
            first = np.hypot(halves[0].size(*halves[0].at(gram, right)), halves[1].size(*halves[1].at(*others)))
            tolerances = [TOLERANCE * float(first)] * 2
        for side, half in enumerate(halves):
            if side:
                gram, right = product(Wt, Wt.T), right_sides(problem.features, Wt)
            if half.improve(gram, right, tolerances[side]) <= LEAST_STEPS:  # the number of its steps
                tolerances[side] *= TIGHTENING
        yield Iteration(objective)


class _Half:
    """One factor `F` (r, n_points) with its penalty, which Algorithm 1 improves while the other factor is fixed."""

    def __init__(self, F: Array, penalty: Penalties) -> None:
        """Keep the factor, which :meth:`improve` changes in place, and its penalty."""
        self.F, self.penalty = F, penalty
        self.l1 = penalty.weights(len(F), F.dtype)[0][:, None]  # the second item holds the l2 weights
        # the largest one of the smooth penalties, l2 and graph
        self.curvature = penalty.curvature()

    def at(self, gram: Array, right: Array) -> tuple[Array, Array]:
        """Return the factor and the gradient of ``<F, gram F> / 2 - <right, F>`` and the penalties.

        `gram` (r, r) is that of the other factor, and `right` (r, n_points) its product with the data.
        """
        gradient = gram @ self.F - right + self.l1  # `l1` (r, 1) are the weights of the l1 penalty
        if self.penalty.smooth:  # l2 or graph
            gradient += self.penalty.gradient(self.F)
        return self.F, gradient

    @staticmethod
    def size(F: Array, gradient: Array) -> float:
        """Return the norm of the projected gradient: where `F` is 0, only its negative part counts (equation 13)."""
        return float(np.linalg.norm(np.where(F > 0, gradient, np.minimum(gradient, 0))))

    def improve(self, gram: Array, right: Array, tolerance: float) -> int:
        """Run Algorithm 1 until the projected gradient is at most `tolerance`; return the number of steps.

        The gradient is affine, so that of the search point `Y`, called `slope`, follows from those of the last two
        factors. `alpha` and `after` are successive numbers of Nesterov's sequence.
        """
        # Lipschitz constant of the gradient: that of least squares plus that of the smooth penalties
        largest = float(np.linalg.norm(gram, 2)) + self.curvature
        if not largest > 0:
            return 0
        F, gradient = self.at(gram, right)
        Y, slope, alpha = F.copy(), gradient, 1.0
        for step in range(1, MOST_STEPS + 1):
            before, old = F.copy(), gradient
            F[:] = np.maximum(Y - slope / F.dtype.type(largest), 0)  # equation 15
            gradient = self.at(gram, right)[1]  # the first item is the factor itself
            if self.size(F, gradient) <= tolerance:
                return step
            after = (1 + (4 * alpha**2 + 1) ** 0.5) / 2  # equation 16
            share = F.dtype.type((alpha - 1) / after)
            Y, slope, alpha = F + share * (F - before), gradient + share * (gradient - old), after  # equation 17
        return MOST_STEPS
