"""Rank-one residual iteration: coordinate descent by weighted medians (Guan et al. 2012, Algorithm 1).

Each step is the exact minimiser in one variable, so the objective never increases. Cyclic descent on a non-smooth loss
can stall where changing a single variable does not help, so on dense data it is best used to finish the work of another
solver. For sparse data it is the only solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, rows_per_block, sum_rounding
from visionnmf.engine.kernels import manhattan as _kernels

if TYPE_CHECKING:  # a caller of `plain_half` alone does not load them
    from visionnmf.engine.problem import Problem
    from visionnmf.engine.stopping import Iteration


LOSSES = frozenset({"manhattan", "elastic-net"})  # |e| + alpha / 2 e^2
PRECISION, MOST_SWEEPS = 0.1, 1000  # of a factor as printed: the precision below equation 8


def half(problem: Problem, Wt: Array, H: Array, *, sweeps: int, valued: bool = True) -> float:
    """Sweep over the codes in place, each to its exact minimiser, a weighted median; return the loss before if valued.

    Without it, the loss is neither computed nor compiled.
    """
    penalty, dtype = problem.penalty_W, problem.X.dtype
    losses = np.empty(problem.X.shape[0]) if valued else None
    alpha = problem.loss.parameter or None  # of the elastic net; the Manhattan loss has none
    graph = None
    if penalty.graph is not None:
        csr = penalty.graph
        graph = csr.indptr, csr.indices, csr.data.astype(dtype, copy=False), penalty.degrees.astype(dtype)
    terms = _Terms(*penalty.box(dtype), *penalty.weights(len(Wt), dtype), alpha, graph)
    _sweep(problem.X, problem.weights, Wt, H, terms, sweeps, losses)
    return 0.0 if losses is None else float(losses.sum())


def plain_half(X: Array, Wt: Array, H: Array, *, sweeps: int) -> None:
    """Lower the Manhattan loss of dense `X`, without weights and penalties, by sweeps over the codes, in place."""
    _sweep(
        X, None, Wt, H, _no_terms(len(H), X.dtype), sweeps, losses=np.empty(len(X))
    )  # of each row, which nobody reads here


class _Terms(NamedTuple):
    """What is minimised beside the absolute residuals, in the order of the kernel's arguments."""

    low: Any  # bounds of the codes
    high: Any
    l1: Array  # (r,) weights
    l2: Array
    alpha: float | None = None  # of the elastic net; None for the Manhattan loss
    graph: tuple[Array, ...] | None = None  # CSR arrays (indptr, indices, affinities) and node degrees


def _no_terms(n_components: int, dtype: Any) -> _Terms:
    """Return the terms of codes >= 0 without penalties."""
    zeros = np.zeros(n_components, dtype)
    return _Terms(dtype.type(0), dtype.type(np.inf), zeros, zeros)


def _sweep(X: Array, M: Array | None, Wt: Array, H: Array, terms: _Terms, sweeps: int, losses: Array | None) -> None:
    """Sweep over all codes `Wt` (r, n_rows) in place, at most `sweeps` times a row, for fixed components `H` (r, n)."""
    dtype = X.dtype
    rounding = sum_rounding(dtype)

    def sweep(block: tuple[int, int]) -> None:
        # memory of the kernel: the components times the weights `M` of a row's entries, or without weights the
        # components, and three vectors. `terms` are bounds, penalty weights, alpha and a graph. `rounding` is the
        # relative error of a sum, from which the kernel decides which residuals count as 0.
        weighted, scratch = H if M is None else np.empty(H.shape, H.dtype), np.empty((3, X.shape[1]), dtype)
        _kernels.rri_rows(X, M, 1, Wt, H, *terms, sweeps, rounding, *block, losses, weighted, scratch)

    size = max(1, rows_per_block(X.shape[1]) // 4)  # small blocks, because medians take long for each row
    # a graph couples the rows, so they form one block and are updated in order
    work = blocks(X.shape[0], size if terms.graph is None else X.shape[0])
    map_blocks(sweep, work, parallel=X.size > BLOCK_ELEMENTS)


def weighted_half(X: Array, M: Array, Ft: Array, A: Array, *, sweeps: int) -> None:
    """Minimise ``sum m |X - Ft.T @ A|`` over `Ft` >= 0 in place by at most `sweeps` sweeps, in this thread."""
    group = X.shape[0] // M.shape[0] if len(M) else 1  # consecutive rows that share weights
    weighted, scratch = np.empty(A.shape, A.dtype), np.empty((3, X.shape[1]), A.dtype)
    rounding = sum_rounding(A.dtype)
    _kernels.rri_rows(
        X, M, group, Ft, A, *_no_terms(len(A), A.dtype), sweeps, rounding, 0, len(X), None, weighted, scratch
    )


def iterate_as_printed(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run Algorithm 1 for each factor until a sweep changes the objective by at most PRECISION (equation 8)."""
    from visionnmf.engine.stopping import Iteration

    for _ in range(max_iter):
        after = objective = problem.objective(Wt, H)
        for side, F, A in ((problem, Wt, H), (problem.transposed, H, Wt)):
            for _ in range(MOST_SWEEPS):
                before = after
                half(side, F, A, sweeps=1, valued=False)
                after = side.objective(F, A)
                if abs(before - after) <= PRECISION:
                    break
        yield Iteration(objective)


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place by weighted medians, each entry to its minimiser; yield the objective before."""
    # imported here, because callers of `plain_half` alone need neither this nor `sparse_descent`
    from visionnmf.engine.stopping import Iteration

    if problem.is_sparse:
        from . import sparse_descent

        yield from sparse_descent.iterate(problem, Wt, H, sparse_descent.median_half, max_iter=max_iter)
        return
    for _ in range(max_iter):
        objective = problem.penalty_value(Wt, H) + half(problem, Wt, H, sweeps=1)
        half(problem.transposed, H, Wt, sweeps=1)
        yield Iteration(objective)
