"""Rank-one residual iteration: coordinate descent by weighted medians (Guan et al. 2012, Algorithm 1).

Exact in each variable and never increases the objective. Cyclic descent on a non-smooth loss can stall where no single
variable helps, so on dense data it is a good last solver; for a single component it is the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import _kernels
from visionnmf.engine._threads import blocks, map_blocks
from visionnmf.engine.losses import BLOCK_ELEMENTS, rows_per_block
from visionnmf.engine.penalties import Box

from ._progress import Progress

__all__ = ["half", "iterate", "weighted_half"]

Array = NDArray[Any]


def half(X: Array, Ft: Array, A: Array, *, box: Box, sweeps: int) -> float:
    """Sweep over the codes of all rows, in place.

    Parameters
    ----------
    X : ndarray [shape=(n_rows, n)]
        For the components of a model, the transposed data.
    Ft : ndarray [shape=(r, n_rows)]
        The factor to improve.
    A : ndarray [shape=(r, n), >= 0]
        The factor that is fixed.
    box : Box
    sweeps : int
        At most so many a row; a row is left when a sweep changes nothing.

    Returns
    -------
    float
        The objective before.
    """
    low, high = box.of(X.dtype)
    losses = np.empty(X.shape[0])
    eps = _kernels.sum_rounding(X.dtype)

    def sweep(block: tuple[int, int]) -> None:
        _kernels.rri_rows(X, Ft, A, low, high, 0.0, 0.0, sweeps, eps, *block, losses)

    size = max(1, rows_per_block(X.shape[1]) // 4)
    map_blocks(sweep, blocks(X.shape[0], size), parallel=X.size > BLOCK_ELEMENTS)
    return float(losses.sum())


def weighted_half(X: Array, M: Array, Ft: Array, A: Array, *, box: Box, sweeps: int) -> None:
    """Sweep over the codes of all rows with weights, in place: ``sum m |X - Ft.T @ A|``.

    In the calling thread alone; a caller with many rows splits them (:func:`.._threads.map_blocks`).

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
    box : Box
    sweeps : int
        At most so many a row.
    """
    eps = _kernels.sum_rounding(A.dtype)
    group = X.shape[0] // M.shape[0] if len(M) else 1
    _kernels.rri_weighted_rows(X, M, group, Ft, A, *box.of(A.dtype), sweeps, eps, 0, len(M))


def iterate(X: Array, Wt: Array, H: Array, *, box_W: Box, box_H: Box, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place, one sweep each; see :func:`.admm.iterate`.

    Yields
    ------
    Progress
        The change is the relative decrease of the objective in the iteration before.
    """
    Xt = np.ascontiguousarray(X.T)
    previous = np.inf
    for _ in range(max_iter):
        objective = half(X, Wt, H, box=box_W, sweeps=1)
        half(Xt, H, Wt, box=box_H, sweeps=1)
        change = max(0.0, (previous - objective) / objective) if objective > 0 else 0.0
        previous = objective
        yield Progress(objective, change)
