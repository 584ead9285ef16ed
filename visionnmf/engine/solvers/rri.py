"""Rank-one residual iteration: coordinate descent by weighted medians (Guan et al. 2012, Algorithm 1).

Each step is the exact minimiser in one variable, so the objective never increases. Cyclic descent on a non-smooth loss
can stall where changing a single variable does not help, so on dense data it is best used to finish the work of another
solver. For sparse data it is the only solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, rows_per_block
from visionnmf.engine.kernels import manhattan as _kernels
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Progress

Array = NDArray[Any]

LOSSES = frozenset({"manhattan", "elastic-net"})  # |e| + alpha / 2 e^2


def half(problem: Problem, Wt: Array, H: Array, *, sweeps: int) -> float:
    """Sweep over the codes `Wt` (r, n_rows) in place, with `H` (r, n) fixed; return the loss before.

    The loss is one of :data:`LOSSES`. To update the components of a model, pass the transposed problem. A row gets at
    most `sweeps` sweeps and is finished when a sweep changes nothing.
    """
    losses = np.empty(problem.X.shape[0])
    _sweep(problem, Wt, H, sweeps, losses)
    return float(losses.sum())


def polish(problem: Problem, Wt: Array, H: Array, *, sweeps: int) -> None:
    """Sweep as :func:`half` does, but without computing the loss, which saves compiling a second kernel."""
    _sweep(problem, Wt, H, sweeps, None)


def _sweep(problem: Problem, Wt: Array, H: Array, sweeps: int, losses: Array | None) -> None:
    """Sweep over all rows in place, and write the loss of each row before to `losses` (n_rows,) unless it is None.

    `Wt` (r, n_rows) are the codes and `H` (r, n) is fixed. A row gets at most `sweeps` sweeps.
    """
    X, M, penalty = problem.X, problem.weights, problem.penalty_W
    dtype = X.dtype
    alpha = problem.loss.parameter or None  # of the elastic net; the Manhattan loss has none
    arguments = (*penalty.box(dtype), *penalty.weights(len(Wt), dtype), alpha, _graph(penalty, dtype))
    eps = _kernels.sum_rounding(dtype)

    def sweep(block: tuple[int, int]) -> None:
        """Update the codes of one block of rows; `weighted` (components times entry weights) and `scratch` are work."""
        weighted, scratch = H if M is None else np.empty(H.shape, H.dtype), np.empty((3, X.shape[1]), dtype)
        _kernels.rri_rows(X, M, Wt, H, *arguments, sweeps, eps, *block, losses, weighted, scratch)

    size = max(1, rows_per_block(X.shape[1]) // 4)  # small blocks, because medians take long for each row
    # a graph couples the rows, so they form one block and are updated in order
    work = blocks(X.shape[0], size if penalty.graph is None else X.shape[0])
    map_blocks(sweep, work, parallel=X.size > BLOCK_ELEMENTS)


def _graph(penalty: Penalties, dtype: Any) -> tuple[Array, ...] | None:
    """Return the CSR arrays (indptr, indices, affinities) and node degrees of the penalty's graph, or None."""
    if penalty.graph is None:
        return None
    graph = penalty.graph
    return graph.indptr, graph.indices, graph.data.astype(dtype, copy=False), penalty.degrees.astype(dtype)


def weighted_half(X: Array, M: Array, Ft: Array, A: Array, *, penalty: Penalties, sweeps: int) -> None:
    """Minimise ``sum m |X - Ft.T @ A|`` over `Ft` (r, n_rows) in place by at most `sweeps` sweeps, in this thread.

    `X` (n_rows, n) may have any dtype, such as uint8. Each row of the weights `M` (n_rows / group, n) serves ``group``
    successive rows of `X`, such as the channels of a pixel. `A` (r, n) is fixed, in the dtype of `Ft`. A caller with
    many rows can split them with :func:`..blocks.map_blocks`.
    """
    eps = _kernels.sum_rounding(A.dtype)
    group = X.shape[0] // M.shape[0] if len(M) else 1
    _kernels.rri_weighted_rows(X, M, group, Ft, A, *penalty.box(A.dtype), sweeps, eps, 0, len(M))


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Update `Wt`, then `H`, in place by one sweep each; yield the objective before each iteration.

    Sparse data get two sweeps each, which share the work of gathering the stored entries.
    """
    if problem.is_sparse:
        from . import sparse_descent

        yield from sparse_descent.iterate(problem, Wt, H, sparse_descent.median_half, max_iter=max_iter)
        return
    for _ in range(max_iter):
        objective = problem.penalty_value(Wt, H) + half(problem, Wt, H, sweeps=1)
        half(problem.transposed, H, Wt, sweeps=1)
        yield Progress(objective)
