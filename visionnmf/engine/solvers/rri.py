"""Rank-one residual iteration: coordinate descent by weighted medians (Guan et al. 2012, Algorithm 1).

Exact in each variable and never increases the objective. Cyclic descent on a non-smooth loss can stall where no single
variable helps, so on dense data it is a good last solver. For sparse data it is the one there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, rows_per_block
from visionnmf.engine.kernels import medians as _kernels
from visionnmf.engine.penalties import Penalty
from visionnmf.engine.problem import Problem

from . import sparse_descent
from .contract import Progress

__all__ = ["LOSSES", "half", "iterate", "polish", "weighted_half"]

Array = NDArray[Any]

LOSSES = frozenset({"manhattan", "elastic-net"})  # |e| + alpha / 2 e^2


def half(problem: Problem, Wt: Array, H: Array, *, sweeps: int) -> float:
    """Sweep over the codes of all rows, in place.

    Parameters
    ----------
    problem : Problem
        Of one of :data:`LOSSES`. For the components of a model, the transposed problem.
    Wt : ndarray [shape=(r, n_rows)]
        The factor to improve.
    H : ndarray [shape=(r, n), >= 0]
        The factor that is fixed.
    sweeps : int
        At most so many a row; a row is left when a sweep changes nothing.

    Returns
    -------
    float
        The loss before.
    """
    losses = np.empty(problem.X.shape[0])
    _sweep(problem, Wt, H, sweeps, losses)
    return float(losses.sum())


def polish(problem: Problem, Wt: Array, H: Array, *, sweeps: int) -> None:
    """Sweep as :func:`half`, without the loss: one kernel less to compile for a fit of another solver."""
    _sweep(problem, Wt, H, sweeps, None)


def _sweep(problem: Problem, Wt: Array, H: Array, sweeps: int, losses: Array | None) -> None:
    X, M, penalty = problem.X, problem.weights, problem.penalty_W
    dtype = X.dtype
    alpha = problem.loss.parameter or None  # of the elastic net; the Manhattan loss has none
    arguments = (*penalty.box(dtype), *penalty.weights(len(Wt), dtype), alpha, _graph(penalty, dtype))
    eps = _kernels.sum_rounding(dtype)

    def sweep(block: tuple[int, int]) -> None:
        weighted, scratch = H if M is None else np.empty(H.shape, H.dtype), np.empty((3, X.shape[1]), dtype)
        _kernels.rri_rows(X, M, Wt, H, *arguments, sweeps, eps, *block, losses, weighted, scratch)

    size = max(1, rows_per_block(X.shape[1]) // 4)
    # with a graph the rows are taken in their order
    work = blocks(X.shape[0], size if penalty.graph is None else X.shape[0])
    map_blocks(sweep, work, parallel=X.size > BLOCK_ELEMENTS)


def _graph(penalty: Penalty, dtype: Any) -> tuple[Array, ...] | None:
    if penalty.graph is None:
        return None
    graph = penalty.graph
    return graph.indptr, graph.indices, graph.data.astype(dtype, copy=False), penalty.degrees.astype(dtype)


def weighted_half(X: Array, M: Array, Ft: Array, A: Array, *, penalty: Penalty, sweeps: int) -> None:
    """Sweep over the codes of all rows with weights that rows share, in place: ``sum m |X - Ft.T @ A|``.

    In the calling thread alone; a caller with many rows splits them (:func:`..blocks.map_blocks`).

    Parameters
    ----------
    X : ndarray [shape=(n_rows, n)]
        Of any dtype, such as uint8.
    M : ndarray [shape=(n_rows / group, n), >= 0]
        Weights, of any dtype; a row of them serves ``group`` successive rows of `X`, such as a pixel's channels.
    Ft : ndarray [shape=(r, n_rows)]
        The factor to improve.
    A : ndarray [shape=(r, n), >= 0]
        The factor that is fixed, of the dtype of `Ft`.
    penalty : Penalty
    sweeps : int
        At most so many a row.
    """
    eps = _kernels.sum_rounding(A.dtype)
    group = X.shape[0] // M.shape[0] if len(M) else 1
    _kernels.rri_weighted_rows(X, M, group, Ft, A, *penalty.box(A.dtype), sweeps, eps, 0, len(M))


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place, one sweep each; see :func:`.admm.iterate`."""
    if problem.is_sparse:
        yield from sparse_descent.iterate(problem, Wt, H, sparse_descent.median_half, max_iter=max_iter)
        return
    for _ in range(max_iter):
        objective = problem.penalty_value(Wt, H) + half(problem, Wt, H, sweeps=1)
        half(problem.transposed, H, Wt, sweeps=1)
        yield Progress(objective)
