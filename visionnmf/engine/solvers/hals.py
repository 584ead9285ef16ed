"""Hierarchical alternating least squares for the Frobenius loss (Cichocki & Phan 2009, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import _kernels
from visionnmf.engine._threads import blocks, map_blocks, one_blas_thread
from visionnmf.engine.losses import BLOCK_ELEMENTS, loss_value
from visionnmf.engine.penalties import Box

from ._progress import Progress

__all__ = ["codes", "half", "iterate"]

Array = NDArray[Any]

SWEEPS = 4  # share one product with the data
CODES_TOLERANCE = 1e-6
CODES_SWEEPS = 2000


def half(X: Array, Ft: Array, A: Array, *, box: Box, sweeps: int) -> None:
    """Sweep over the codes of all rows of ``X ~ Ft.T @ A``, in place."""
    _sweep(Ft, A @ A.T, A @ X.T, box=box, sweeps=sweeps)


def _sweep(F: Array, gram: Array, right: Array, *, box: Box, sweeps: int) -> None:
    low, high = box.of(F.dtype)
    zero = F.dtype.type(0)

    def columns(block: tuple[int, int]) -> None:
        _kernels.hals_columns(F, gram, right, 0, low, high, zero, sweeps, *block)

    map_blocks(columns, blocks(F.shape[1], 4 * _kernels.TILE), parallel=F.size * F.shape[0] > 4 * BLOCK_ELEMENTS)


def iterate(X: Array, Wt: Array, H: Array, *, box_W: Box, box_H: Box, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place, a few sweeps each; see :func:`.admm.iterate`.

    Yields
    ------
    Progress
        The change is the decrease of the objective in the iteration before, relative to the first objective.
    """
    first = previous = np.inf
    for _ in range(max_iter):
        with one_blas_thread():
            objective = loss_value(X, Wt, H, "frobenius")
        half(X, Wt, H, box=box_W, sweeps=SWEEPS)
        _sweep(H, Wt @ Wt.T, Wt @ X, box=box_H, sweeps=SWEEPS)
        if np.isinf(first):
            first = objective
        change = max(0.0, (previous - objective) / first) if first > 0 else 0.0
        previous = objective
        yield Progress(objective, change)


def codes(X: Array, Wt: Array, H: Array, *, box_W: Box) -> None:
    """Solve the non-negative least-squares problem of each row by coordinate descent; see :func:`.admm.codes`."""
    dtype = X.dtype
    low, high = box_W.of(dtype)
    zero = dtype.type(0)
    gram = H @ H.T
    right = H @ X.T
    Wt[:] = low

    def solve(block: tuple[int, int]) -> None:
        start, stop = block
        for _ in range(CODES_SWEEPS // 20):
            change = _kernels.hals_columns(Wt, gram, right, 0, low, high, zero, 20, start, stop)
            if change <= max(CODES_TOLERANCE**2, float(np.finfo(dtype).eps)) * float(Wt[:, start:stop].max(initial=0)):
                break

    map_blocks(solve, blocks(Wt.shape[1], _kernels.TILE), parallel=Wt.size * H.shape[0] > 4 * BLOCK_ELEMENTS)
