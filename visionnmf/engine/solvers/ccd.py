"""Cyclic coordinate descent for the Kullback-Leibler divergence (after Hsieh & Dhillon 2011).

Each variable is moved by Newton's step on ``1 / S(f) = 1 / sum(a)`` instead of on ``S(f) = sum(a)``; see
``docs/derivations/kullback_leibler.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import _kl_kernels
from visionnmf.engine._threads import blocks, map_blocks
from visionnmf.engine.losses import BLOCK_ELEMENTS, rows_per_block
from visionnmf.engine.penalties import Box

from ._progress import Progress

__all__ = ["codes", "half", "iterate"]

Array = NDArray[Any]

SWEEPS = 2  # a half-iteration: the model of a row is built once for all of them
CODES_SWEEPS = 500
CODES_TOLERANCE = 1e-6  # of a row's largest code
FLOOR = 1e-7  # of the model, as a share of the mean of a row of the data


def half(X: Array, Ft: Array, A: Array, *, box: Box, sweeps: int, tol: float) -> float:
    """Sweep over the codes of all rows, in place; return the objective before. See :func:`.rri.half`."""
    dtype = X.dtype
    losses = np.empty(X.shape[0])
    sums = A.sum(axis=1)

    def sweep(block: tuple[int, int]) -> None:
        _kl_kernels.kl_rows(X, Ft, A, sums, *box.of(dtype), sweeps, dtype.type(tol), FLOOR, *block, losses)

    size = max(1, rows_per_block(X.shape[1]) // 4)
    map_blocks(sweep, blocks(X.shape[0], size), parallel=X.size > BLOCK_ELEMENTS)
    return float(losses.sum())


def iterate(X: Array, Wt: Array, H: Array, *, box_W: Box, box_H: Box, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place, two sweeps each; see :func:`.admm.iterate`.

    Yields
    ------
    Progress
        The change is the decrease of the objective in the iteration before, relative to the first objective.
    """
    Xt = np.ascontiguousarray(X.T)
    first = previous = np.inf
    for _ in range(max_iter):
        objective = half(X, Wt, H, box=box_W, sweeps=SWEEPS, tol=0)
        half(Xt, H, Wt, box=box_H, sweeps=SWEEPS, tol=0)
        if np.isinf(first):
            first = objective
        change = abs(previous - objective) / first if first > 0 else 0.0
        previous = objective
        yield Progress(objective, change)


def codes(X: Array, Wt: Array, H: Array, *, box_W: Box) -> None:
    """Solve for the codes of fixed components, a convex problem, row by row; see :func:`.admm.codes`."""
    sums = H.sum(axis=1)
    live = sums > 0
    # each component explains an equal share of the row's sum
    Wt[:] = X.sum(axis=1) / (max(1, int(live.sum())) * np.where(live, sums, 1)[:, None])
    np.clip(Wt, *box_W.of(X.dtype), out=Wt)
    Wt[~live] = box_W.of(X.dtype)[0]
    half(X, Wt, H, box=box_W, sweeps=CODES_SWEEPS, tol=CODES_TOLERANCE)
