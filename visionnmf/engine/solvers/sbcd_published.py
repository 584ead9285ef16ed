"""Scalar block coordinate descent (sBCD) as published, and its variants AL-A and AL-B (Li, Lebanon & Park 2012).

Each iteration gives every entry a weight, and updates the components one after the other on the weighted least-squares
model. The steps are not damped, so the objective may rise; :mod:`.sbcd` is the form to use. The weight of an entry x,
with the model p, is ``p^(beta - 2)`` in Algorithm 1, ``x^(beta - 2)`` in AL-A and 1 in AL-B (section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.divergence import floor_of
from visionnmf.engine.kernels.divergence_descent import component_by_component
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration


def iterate(
    problem: Problem, Wt: Array, H: Array, *, max_iter: int, weights_from: str = "model"
) -> Iterator[Iteration]:
    """Update both factors in place, with weights from the "model", the "data", or "nothing" (1); yield as all solvers.

    The paper adds an l1 penalty to the denominator of the update, where the derivative does not vanish. Here it is
    subtracted from the numerator; the printed rule, ``h = [sum b a w]_+ / (alpha + sum b w^2)``, is an l2 penalty.
    """
    X, M = problem.X, problem.weights
    dtype, beta = X.dtype, problem.loss.beta
    # Weights are divided by that at the mean of the data, `unit`, and so are penalties, which changes nothing. Those of
    # AL-B are 1, so only its penalties are, to keep their size relative to the loss.
    unit = float(X.mean(dtype=np.float64)) or 1.0
    limits = []
    for penalty in (problem.penalty_W, problem.penalty_H):
        l1, l2 = (value * dtype.type(unit ** (2 - beta)) for value in penalty.weights(len(H), dtype))
        limits += [*penalty.box(dtype), l1, l2]
    for _ in range(max_iter):
        P = np.matmul(Wt.T, H)
        objective = problem.objective(Wt, H)
        if weights_from == "nothing":
            B = np.ones_like(X)
        else:
            B = np.maximum((P if weights_from == "model" else X) / dtype.type(unit), dtype.type(floor_of(beta)))
            np.power(B, dtype.type(beta - 2), out=B)
        if M is not None:
            B *= M
        component_by_component(X - P, B, Wt, H, *limits)
        yield Iteration(objective)
