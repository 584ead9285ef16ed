"""Multiplicative updates for every beta-divergence (Lee & Seung 2000; Fevotte & Idier 2011).

The baseline of all packages: simple, never rising, and slow; a code that is zero stays zero. Denominators are kept
above zero (Lin 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import BLOCK_ELEMENTS, map_blocks, one_blas_thread, row_blocks
from visionnmf.engine.divergence import floor_of
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers._progress import Progress
from visionnmf.engine.solvers.sbcd import check_positive

__all__ = ["exponent", "half", "iterate", "parts"]

Array = NDArray[Any]


def exponent(beta: float) -> float:
    """Return the power of the update with which the divergence never rises (Fevotte & Idier 2011, section 4.1)."""
    if beta < 1:
        return 1 / (2 - beta)
    return 1.0 if beta <= 2 else 1 / (beta - 1)


def parts(problem: Problem, Ft: Array, A: Array, vanishing: Array | None = None) -> tuple[Array, Array, Array, Array]:
    """Evaluate the loss of each row and the gradient with respect to its codes, as a difference.

    Parameters
    ----------
    problem : Problem
        Its penalties do not matter.
    Ft, A : ndarray
        Codes, transposed, and components.
    vanishing : ndarray of int [shape=(n_samples,)], optional
        Receives how many entries above 0 of each row have a model that is as good as 0.

    Returns
    -------
    losses : ndarray [shape=(n_samples,)]
        Without penalties.
    negative, positive : ndarray [shape=(n_components, n_samples), >= 0]
        The gradient is ``(positive - negative) * units**(beta - 1)``.
    units : ndarray [shape=(n_samples,), > 0]
        Of each row, so that powers neither overflow nor vanish.
    """
    X, M = problem.X, problem.weights
    dtype, beta = X.dtype, problem.loss.beta
    losses, units = np.empty(X.shape[0]), np.empty(X.shape[0])
    negative, positive = np.empty_like(Ft), np.empty_like(Ft)
    least = np.finfo(dtype).tiny / np.finfo(dtype).eps
    floor = floor_of(beta)
    if beta < 0:  # its powers must not overflow
        floor = max(floor, float(np.finfo(dtype).max) ** (0.5 / (beta - 2)))

    def evaluate(block: tuple[int, int]) -> None:
        rows = slice(*block)
        P = np.matmul(Ft[:, rows].T, A)
        problem.loss.record.rows(X, P, M, problem.loss.parameter, *block, losses)
        mean = X[rows].mean(axis=1, keepdims=True)
        unit = np.where(mean > least, mean, 1)
        units[rows] = unit[:, 0]
        P /= unit
        if vanishing is not None:
            vanishing[rows] = np.count_nonzero((P < floor) & (X[rows] > 0), axis=1)
        np.maximum(P, dtype.type(floor), out=P)
        weights = P ** dtype.type(beta - 2)
        if M is not None:
            weights *= M[rows]
        negative[:, rows] = A @ (X[rows] / unit * weights).T
        positive[:, rows] = A @ np.multiply(P, weights, out=weights).T

    with one_blas_thread():
        map_blocks(evaluate, row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
    return losses, negative, positive, units


def half(problem: Problem, Ft: Array, A: Array) -> float:
    """Update the codes of all rows, in place; return the loss before, without penalties."""
    penalty, dtype, beta = problem.penalty_W, Ft.dtype, problem.loss.beta
    losses, numerator, denominator, units = parts(problem, Ft, A)
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
