"""Multiplicative updates for every beta-divergence (Lee & Seung 2000; Fevotte & Idier 2011).

This is the baseline of all packages. It is simple and slow, the objective never rises, and a code that is zero stays
zero. Denominators are kept above zero (Lin 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.contract import Progress
from visionnmf.engine.solvers.divergence_gradient import check_positive, gradient_parts

__all__ = ["exponent", "half", "iterate"]

Array = NDArray[Any]


def exponent(beta: float) -> float:
    """Return the exponent of the update for which the divergence never rises (Fevotte & Idier 2011, section 4.1)."""
    if beta < 1:
        return 1 / (2 - beta)
    return 1.0 if beta <= 2 else 1 / (beta - 1)


def half(problem: Problem, Ft: Array, A: Array) -> float:
    """Update all codes `Ft` in place with the factor `A` fixed; return the loss before, without penalties.

    `Ft` has the shape (n_components, n_rows), `A` (n_components, n). A code is multiplied by ``(G_minus /
    G_plus)^power``, where ``G_plus - G_minus`` is the gradient split into non-negative parts. Rows are in units of
    their means.
    """
    penalty, dtype, beta = problem.penalty_W, Ft.dtype, problem.loss.beta
    losses, numerator, denominator, units = gradient_parts(problem, Ft, A)
    # the gradient parts are in units of each row's mean, so the penalties' gradients are scaled to match
    scale = units.astype(dtype) ** dtype.type(1 - beta)
    if penalty.kinds:
        l1, l2 = (value[:, None] for value in penalty.weights(len(A), dtype))
        degrees = 0.0 if penalty.graph is None else penalty.degrees
        denominator += scale * (l1 + (l2 + degrees) * Ft)
    if penalty.graph is not None:
        numerator += scale * (Ft @ penalty.graph)
    ratio = numerator / np.maximum(denominator, np.finfo(dtype).tiny)
    power = dtype.type(exponent(beta))
    Ft *= ratio if power == 1 else ratio**power
    return float(losses.sum())


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Update `Wt`, then `H`, multiplicatively and in place; each `Progress` holds the objective before the iteration.

    Raises ParameterError if `X` has zeros and beta is not positive, because the divergence is then infinite.
    """
    check_positive(problem)
    for _ in range(max_iter):
        penalties = problem.penalty_value(Wt, H)
        objective = half(problem, Wt, H) + penalties
        half(problem.transposed, H, Wt)
        yield Progress(objective)
