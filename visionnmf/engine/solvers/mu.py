"""Multiplicative updates of the beta-divergences (Lee & Seung 2000; Fevotte & Idier 2011): simple and slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration

from .spg import gradient_parts

Array = NDArray[Any]


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place; yield the objective before, which never rises. A code of 0 stays 0."""
    for _ in range(max_iter):
        penalties = problem.penalty_value(Wt, H)
        objective = _multiply(problem, Wt, H) + penalties
        _multiply(problem.transposed, H, Wt)
        yield Iteration(objective)


def _multiply(problem: Problem, Ft: Array, A: Array) -> float:
    """Multiply all codes in place by ``(G_minus / G_plus)^power``; return the loss before, without penalties."""
    penalty, dtype, beta = problem.penalty_W, Ft.dtype, problem.loss.beta
    parts = gradient_parts(problem, Ft, A)
    numerator, denominator = parts.negative, parts.positive
    # the parts are in units of each row's mean, so the penalties' gradients are scaled to match
    scale = parts.units.astype(dtype) ** dtype.type(1 - beta)
    if penalty.kinds:
        l1, l2 = (value[:, None] for value in penalty.weights(len(A), dtype))
        # the gradient of a graph penalty is F D - F S, with the affinity S (`graph`) and its row sums D (`degrees`)
        degrees = 0.0 if penalty.graph is None else penalty.degrees
        denominator += scale * (l1 + (l2 + degrees) * Ft)
    if penalty.graph is not None:
        numerator += scale * (Ft @ penalty.graph)
    ratio = numerator / np.maximum(denominator, np.finfo(dtype).tiny)  # above zero (Lin 2007)
    # with this exponent the loss never rises (Fevotte & Idier 2011)
    power = dtype.type(1 / (2 - beta) if beta < 1 else 1 if beta <= 2 else 1 / (beta - 1))
    Ft *= ratio if power == 1 else ratio**power
    return float(parts.losses.sum())
