"""Continuation ADMM for the Manhattan loss: the default solver.

The sparse part ``S = X - W H`` is a variable of its own, tied to the factors by a scaled dual ``U`` and a penalty
``rho`` that grows geometrically. One iteration is one pass over the data (:func:`._kernels.admm_manhattan_pass`), which
gives the cleaned data ``V``, and a few sweeps of HALS for each factor on ``||V - W H||^2``. Early on, with a small rho,
outliers pull like in least squares; as rho grows they are clipped harder and harder. That slow change of the problem
is what finds good solutions where coordinate descent stalls, so the number of iterations is the length of the path.

The data are taken in blocks of rows that stay in cache: product, pass, codes and the block's share of the components'
right-hand side. Memory: the data, the dual, and the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import _kernels
from visionnmf.engine._threads import blocks, map_blocks, one_blas_thread
from visionnmf.engine.losses import BLOCK_ELEMENTS, rows_per_block
from visionnmf.engine.penalties import Box

from ._progress import Progress

__all__ = ["codes", "iterate"]

Array = NDArray[Any]

# Chosen on made low-rank data and the L1 problems of benchmarks/; docs/decisions.md has the table.
FIRST_PENALTY = 1.5  # rho at the start, in units of 1 / mean of the data: free of the data's scale
PENALTY_GROWTH = 3e4  # over the whole path
SWEEPS = 3  # of HALS a factor and iteration; they share the products, so they cost little
CODES_ITERATIONS = 200
CODES_GROWTH = 30.0  # of rho, which starts at 1 / mean residual of the row's least-squares fit
CODES_TIE = 0.01  # strength of the tie between the codes and their copy in the box, for components of unit norm
CODES_START_SWEEPS = 30
CODES_POLISH = 30  # sweeps of coordinate descent at most; most rows need two or three
MAX_CHUNKS = 16  # of rows, each with a share of the right-hand side: as many threads can work


def iterate(X: Array, Wt: Array, H: Array, *, box_W: Box, box_H: Box, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place, yielding after each iteration the objective before it.

    Parameters
    ----------
    X : ndarray [shape=(n_samples, n_features), >= 0]
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed; updated.
    H : ndarray [shape=(n_components, n_features)]
        Updated.
    box_W, box_H : Box
    max_iter : int
        Length of the path along which rho grows by :data:`PENALTY_GROWTH`.

    Yields
    ------
    Progress
        The objective, and as the change the primal residual ``||X - WH - S||_1 / ||X||_1`` plus the relative change
        of the objective.
    """
    n_samples, n_features = X.shape
    dtype = X.dtype
    size = rows_per_block(n_features)
    # whole blocks a chunk, whatever the number of threads
    per_chunk = size * max(1, -(-n_samples // (size * MAX_CHUNKS)))
    chunks = blocks(n_samples, per_chunk)
    parallel = X.size * H.shape[0] > 4 * BLOCK_ELEMENTS
    U = np.zeros_like(X)
    losses, residuals = np.empty(n_samples), np.empty(n_samples)
    total = float(X.sum(dtype=np.float64)) or 1.0
    # 1 / rho; where the data are all 0 any number will do
    bounds = np.full(n_samples, X.mean(dtype=np.float64) / FIRST_PENALTY or 1, dtype)
    growth = PENALTY_GROWTH ** (1 / max_iter)
    decay = dtype.type(1)
    limits_W, limits_H = box_W.of(dtype), box_H.of(dtype)
    zero = dtype.type(0)
    previous = np.inf
    for _ in range(max_iter):
        with one_blas_thread():
            gram = H @ H.T

            def rows(chunk: tuple[int, int], gram: Array = gram, decay: Any = decay) -> Array:
                right = np.empty_like(H)
                _kernels.admm_manhattan_rows(
                    X, Wt, H, U, gram, bounds, decay, *limits_W, SWEEPS, size, *chunk, right, losses, residuals
                )
                return right

            parts = map_blocks(rows, chunks, parallel=parallel)
            right = parts[0]
            for part in parts[1:]:
                right += part
            gram = Wt @ Wt.T

            def components(block: tuple[int, int], gram: Array = gram, right: Array = right) -> None:
                _kernels.hals_columns(H, gram, right, 0, *limits_H, zero, SWEEPS, *block)

            map_blocks(components, blocks(n_features, 4 * _kernels.TILE), parallel=parallel)
        np.divide(bounds, dtype.type(growth), out=bounds)
        decay = dtype.type(1 / growth)
        objective = float(losses.sum())
        change = (float(residuals.sum()) + abs(previous - objective)) / total
        previous = objective
        yield Progress(objective, change)


def codes(X: Array, Wt: Array, H: Array, *, box_W: Box) -> None:
    """Solve for the codes of fixed components, in place: a convex problem, row by row.

    Here the box has a copy of the codes of its own (consensus form: Boyd et al. 2011, section 5), so that the step for
    the codes is linear and one inverse serves all rows and iterations; sweeps of HALS in its place are left far from
    the minimum when components are alike. Coordinate descent then finishes: exact near the minimum, though it can stall
    far from it. A row's codes do not depend on the other rows.

    Parameters
    ----------
    X : ndarray [shape=(n_samples, n_features), >= 0]
    Wt : ndarray [shape=(n_components, n_samples)]
        Overwritten; its values do not matter.
    H : ndarray [shape=(n_components, n_features)]
    box_W : Box
    """
    dtype = X.dtype
    scale = np.linalg.norm(H, axis=1, keepdims=True)
    scale[scale == 0] = 1
    unit = H / scale
    with one_blas_thread():
        gram = unit @ unit.T
    tie = np.linalg.inv(gram.astype(np.float64) + CODES_TIE * np.eye(len(H))).astype(dtype)
    low, high = (limit * scale for limit in box_W.of(dtype))
    decay = dtype.type(CODES_GROWTH ** (-1 / CODES_ITERATIONS))
    zero, infinite = dtype.type(0), dtype.type(np.inf)

    def solve(block: tuple[int, int]) -> None:
        start, stop = block
        rows = X[start:stop]
        size = stop - start
        copy = np.zeros((len(H), size), dtype)
        _kernels.hals_columns(copy, gram, unit @ rows.T, 0, zero, infinite, zero, CODES_START_SWEEPS, 0, size)
        copy = np.clip(copy, low, high)
        U, dual = np.zeros_like(rows), np.zeros_like(copy)
        losses, residuals = np.empty(size), np.empty(size)
        V = np.matmul(copy.T, unit)
        bounds = np.abs(rows - V).mean(axis=1)
        bounds[bounds == 0] = 1  # an exact fit already: any number will do
        F = copy
        for iteration in range(CODES_ITERATIONS):
            np.matmul(F.T, unit, out=V)
            shrink = decay if iteration else dtype.type(1)
            _kernels.admm_manhattan_pass(rows, V, U, bounds, shrink, 0, size, losses, residuals)
            F = tie @ (unit @ V.T + dtype.type(CODES_TIE) * (copy - dual))
            dual += F
            copy = np.clip(dual, low, high)
            dual -= copy
            dual *= decay
            bounds *= decay
        found = np.clip(copy / scale, *box_W.of(dtype))
        _kernels.rri_rows(
            rows, found, H, *box_W.of(dtype), 0.0, 0.0, CODES_POLISH, _kernels.sum_rounding(dtype), 0, size, losses
        )
        Wt[:, start:stop] = found

    with one_blas_thread():
        map_blocks(solve, blocks(X.shape[0], rows_per_block(X.shape[1])), parallel=X.size > BLOCK_ELEMENTS)
