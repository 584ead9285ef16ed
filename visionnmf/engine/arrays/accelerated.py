"""Accelerated proximal gradient on a device: NeNMF (:func:`..solvers.baselines.least_squares.nenmf`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.quadratic import separate_curvatures
from visionnmf.engine.solvers.baselines.least_squares import FIRST_TOLERANCE, INNER_STEPS, TIGHTENING
from visionnmf.engine.stopping import Iteration

from . import factors
from .namespace import chunks, copied, in_float64, moved, namespace_of, to_numpy


def iterate(problem: Problem, Wt: Any, H: Any, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt` (r, n_samples), then `H` (r, n), in place; yield the objective before each iteration.

    An update stops when the norm of the projected gradient is below a tolerance, which is relative to the norm in the
    first iteration. The tolerance is multiplied by a constant whenever an update needs no more than one step.
    """
    X, xp = problem.X, namespace_of(H)
    first, tolerances = 0.0, [FIRST_TOLERANCE, FIRST_TOLERANCE]
    for _ in range(max_iter):
        objective, sizes = problem.objective(Wt, H), [0.0, 0.0]
        for side, (F, A, penalty) in enumerate(((Wt, H, problem.penalty_W), (H, Wt, problem.penalty_H))):
            # the right-hand sides: `H X.T` for the codes, and `Wt X` for the components, chunk by chunk
            if side == 0:
                right = xp.matmul(A, X.T)
            else:
                right = xp.zeros_like(F)
                for rows in chunks(X):
                    right = right + xp.matmul(A[:, rows], X[rows, :])
            steps, sizes[side] = accelerate(F, xp.matmul(A, A.T), right, penalty, tolerances[side] * first)
            if steps <= 1:
                tolerances[side] *= TIGHTENING
        first = first or (sizes[0] ** 2 + sizes[1] ** 2) ** 0.5  # of both factors in the first iteration
        yield Iteration(objective)


def accelerate(F: Any, gram: Any, right: Any, penalty: Penalties, tol: float) -> tuple[int, float]:
    """Lower ``<F, gram F> / 2 - <right, F> + penalty(F)`` over `F` (r, n_points), in place.

    This is :func:`..quadratic.accelerate`, for whole arrays and a penalty of a box, l1 and l2. It stops when the norm
    of the projected gradient is at most `tol`. Returns the number of steps, and that norm at the first point.

    Component k moves by ``1 / curvatures[k]`` times its gradient, which does not raise the objective: the diagonal
    matrix of :func:`..quadratic.separate_curvatures` is at least `gram`, and the largest l2 weight is added to all.
    `ahead` is the extrapolated point, `Q` and `Q_ahead` are the gradients at `best` and at `ahead` without their
    constant part, and `t` is Nesterov's sequence; at 1 the next step has no momentum.
    """
    xp = namespace_of(F)
    l1, l2 = factors.penalty_weights(penalty, F)
    curvatures = separate_curvatures(to_numpy(gram)) + float(np.max(penalty.weights(F.shape[0], np.float64)[1]))
    if not curvatures.max(initial=0) > 0:
        return 0, 0.0
    lengths = moved(1 / curvatures[:, None], F)

    def slopes(F: Any) -> Any:
        """Return the gradient of the smooth part, without its constant `right`."""
        return xp.matmul(gram, F) + l2 * F

    best, Q = copied(F), slopes(F)
    ahead, Q_ahead = best, Q
    t, first = 1.0, 0.0
    for step in range(INNER_STEPS):
        new = factors.clipped(penalty, ahead + lengths * (right - Q_ahead) - lengths * l1)
        rows = to_numpy(xp.sum(in_float64(new - ahead) ** 2, axis=1))
        size = float(np.sqrt(rows @ curvatures**2))
        first = size if step == 0 else first
        Q_new, move = slopes(new), new - best
        # the change of a quadratic is the inner product of the move and the mean gradient: no cancellation
        change = float(xp.sum(in_float64(move * ((Q_new + Q) / 2 - right + l1))))
        if change > 0 and t == 1:  # a step without momentum raises the objective only by rounding
            F[:, :] = best
            return step, first
        if change > 0:
            t, ahead, Q_ahead = 1.0, best, Q
            continue
        t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
        momentum = (t - 1) / t_new
        ahead, Q_ahead = new + momentum * move, Q_new + momentum * (Q_new - Q)
        best, Q, t = new, Q_new, t_new
        if size <= tol:
            F[:, :] = best
            return step + 1, first
    F[:, :] = best
    return INNER_STEPS, first
