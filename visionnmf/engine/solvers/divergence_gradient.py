"""Shared by the solvers of the beta-divergences: the gradient in two non-negative parts, and a check of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import BLOCK_ELEMENTS, map_blocks, one_blas_thread, row_blocks
from visionnmf.engine.divergence import floor_of
from visionnmf.engine.problem import Problem
from visionnmf.exceptions import ParameterError

__all__ = ["check_positive", "gradient_parts"]

Array = NDArray[Any]


def check_positive(problem: Problem) -> None:
    """Raise ParameterError if the data contain zeros and ``beta <= 0``, because the divergence is then infinite."""
    if not problem.loss.needs_positive:
        return
    zeros = problem.X == 0
    if problem.weights is not None:
        zeros &= problem.weights > 0
    count = int(np.count_nonzero(zeros))
    if count:
        raise ParameterError(
            f"X must be > 0 for {problem.loss.label}; got {count} entries that are 0; add a small constant, or mark "
            "them as missing"
        )


def gradient_parts(
    problem: Problem, Ft: Array, A: Array, vanishing: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """Return the loss of each row and the gradient with respect to its codes, as a difference of two parts.

    `Ft` (n_components, n_rows) are the codes, `A` (n_components, n) is fixed; penalties are ignored. Returns `losses`
    (n_rows,), `negative` and `positive`, which are non-negative in the shape of `Ft`, and `units` (n_rows,). The
    gradient is ``(positive - negative) * units**(beta - 1)``: dividing each row by its unit prevents overflow in
    powers. `vanishing`, if given, receives the number of positive entries of each row whose model is almost 0.
    """
    X, M = problem.X, problem.weights
    dtype, beta = X.dtype, problem.loss.beta
    losses, units = np.empty(X.shape[0]), np.empty(X.shape[0])
    negative, positive = np.empty_like(Ft), np.empty_like(Ft)
    least = np.finfo(dtype).tiny / np.finfo(dtype).eps
    floor = floor_of(beta)
    if beta < 0:  # so that the powers below do not overflow
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
