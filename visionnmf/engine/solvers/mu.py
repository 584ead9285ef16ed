"""Multiplicative updates for every beta-divergence (Lee & Seung 2000; Fevotte & Idier 2011).

The baseline of all packages: simple, never rising, and slow; a code that is zero stays zero. Denominators are kept
above zero (Lin 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import _divergence_kernels
from visionnmf.engine._threads import blocks, map_blocks, one_blas_thread
from visionnmf.engine.losses import BLOCK_ELEMENTS, LOSSES, rows_per_block
from visionnmf.engine.problem import Problem

from ._progress import Progress
from .sbcd import beta_of, check_positive

__all__ = ["exponent", "half", "iterate"]

Array = NDArray[Any]


def exponent(beta: float) -> float:
    """Return the power of the update with which the divergence never rises (Fevotte & Idier 2011, section 4.1)."""
    if beta < 1:
        return 1 / (2 - beta)
    return 1.0 if beta <= 2 else 1 / (beta - 1)


def half(problem: Problem, Ft: Array, A: Array) -> float:
    """Update the codes of all rows, in place; return the loss before, without penalties."""
    X, M, penalty = problem.X, problem.weights, problem.penalty_W
    dtype, beta = X.dtype, beta_of(problem.loss)
    form = LOSSES[problem.loss.name]
    losses = np.empty(X.shape[0])
    l1, l2 = (value[:, None] for value in penalty.weights(len(A), dtype))
    attraction = None if penalty.graph is None else Ft @ penalty.graph
    degrees = np.zeros(X.shape[0]) if penalty.graph is None else penalty.degrees
    tiny = np.finfo(dtype).tiny
    least = tiny / np.finfo(dtype).eps
    power = dtype.type(exponent(beta))
    floor = _divergence_kernels.floor_of(beta)

    def update(block: tuple[int, int]) -> None:
        rows = slice(*block)
        F = Ft[:, rows]
        P = np.matmul(F.T, A)
        form.rows(X, P, M, problem.loss.parameter, *block, losses)
        mean = X[rows].mean(axis=1, keepdims=True)
        unit = np.where(mean > least, mean, 1)  # of each row, so that powers neither overflow nor vanish
        P /= unit
        np.maximum(P, dtype.type(floor), out=P)
        weights = P ** dtype.type(beta - 2)
        if M is not None:
            weights *= M[rows]
        numerator = A @ (X[rows] / unit * weights).T
        denominator = A @ np.multiply(P, weights, out=weights).T
        scale = unit.T ** dtype.type(1 - beta)
        if penalty.kinds:
            denominator += scale * (l1 + (l2 + degrees[rows]) * F)
        if attraction is not None:
            numerator += scale * attraction[:, rows]
        ratio = numerator / np.maximum(denominator, tiny)
        F *= ratio if power == 1 else ratio**power

    with one_blas_thread():
        map_blocks(update, blocks(X.shape[0], rows_per_block(X.shape[1])), parallel=X.size > BLOCK_ELEMENTS)
    return float(losses.sum())


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Update both factors in place; see :func:`.admm.iterate`.

    Yields
    ------
    Progress
        The change is the decrease of the objective in the iteration before, relative to the first objective.

    Raises
    ------
    ParameterError
        When `X` has zeros and beta is not positive.
    """
    check_positive(problem)
    first = previous = np.inf
    for _ in range(max_iter):
        penalties = problem.penalty_value(Wt, H)
        objective = half(problem, Wt, H) + penalties
        half(problem.transposed, H, Wt)
        first = objective if np.isinf(first) else first
        change = abs(previous - objective) / first if first > 0 else 0.0
        previous = objective
        yield Progress(objective, change)
