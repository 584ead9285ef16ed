"""Hierarchical alternating least squares on sparse data, the components improved several times a pass.

With the data given, the problem of the components depends on the codes through ``W.T @ W`` and ``W.T @ X`` only, and
both are sums over the samples. So the samples are taken in parts; after the codes of each part its share of the
sums is exchanged and the components are improved. That is block coordinate descent on the full objective in the order
codes of part 1, components, codes of part 2, components, ..., as in incremental EM (Neal & Hinton 1998): a pass costs
little more, and fewer are needed. Extrapolation with restarts (Ang & Gillis 2019) as in :mod:`.hals`, in smaller steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf.engine import _sparse_kernels, sparse
from visionnmf.engine._threads import map_blocks, one_blas_thread
from visionnmf.engine.penalties import Penalty
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import squares

from ._progress import Progress

__all__ = ["iterate"]

Array = NDArray[Any]

# Chosen on made topics and counts of other seeds than the benchmark's; docs/decisions.md.
MAX_PARTS = 16
PART_ENTRIES = 0.3  # stored entries of a part, at least, in units of the components' size: what their sweep costs
CODES_SWEEPS = 2  # share one product with the data
FIRST_MOMENTUM, MOMENTUM_GROWTH, CEILING_GROWTH, MOMENTUM_FLOOR = 0.5, 1.05, 1.01, 0.3  # see :mod:`.hals`
CODES_SHARE, COMPONENTS_SHARE = 0.5, 0.25  # of the momentum; the components move several times a pass


class _Factor:
    """A factor, or a range of one, point-major: the last descent's result, and the extrapolated values."""

    def __init__(self, F: Array, penalty: Penalty) -> None:
        self.last = np.array(F.T, order="C")
        self.ahead = self.last.copy()
        self.limits = (*penalty.box(F.dtype), *penalty.weights(len(F), F.dtype))

    def reset(self, F: Array) -> None:
        """Go back to an earlier value, and forget the change."""
        self.last[:] = self.ahead[:] = F.T


class _Part:
    """A range of the samples: their codes, and their data by columns."""

    def __init__(self, X: Any, Wt: Array, penalty: Penalty, start: int, stop: int) -> None:
        self.rows = slice(start, stop)
        self.codes = _Factor(Wt[:, self.rows], penalty)
        indptr = X.indptr[start : stop + 1]
        inside = slice(indptr[0], indptr[-1])
        # views: slicing the array would copy
        data = sp.csr_array((X.data[inside], X.indices[inside], indptr - indptr[0]), (stop - start, X.shape[1]))
        self.columns = data.T.tocsr()
        self.blocks, self.column_blocks = sparse.row_blocks(data), sparse.row_blocks(self.columns)


class _Model:
    """Both factors, and the sums over the samples, which are in double precision."""

    def __init__(self, problem: Problem, Wt: Array, H: Array) -> None:
        X = problem.X
        r, n = H.shape
        entries = max(PART_ENTRIES * r * n, (X.nnz + X.shape[0]) / MAX_PARTS)
        self.X = X
        self.H = _Factor(H, problem.penalty_H)
        self.parts = [_Part(X, Wt, problem.penalty_W, *rows) for rows in sparse.row_blocks(X, int(entries) + 1)]
        self.totals, self.gram = np.zeros((n, r)), np.zeros((r, r))
        self._sum_up()

    def _sum_up(self) -> None:
        self.totals[:] = self.gram[:] = 0
        for part in self.parts:
            self.gram += _gram(part.codes.ahead)
            self._improve_components(part, part.codes.ahead, 0, sweeps=0)

    def improve(self, part: _Part, momentum: float) -> None:
        """Improve the codes of a part, and with them the components."""
        codes, X, points = part.codes, self.X, self.H.ahead
        gram, old = points.T @ points, codes.ahead.copy()
        step = points.dtype.type(momentum * CODES_SHARE)

        def rows(block: tuple[int, int]) -> None:
            _sparse_kernels.hals_rows(
                X.data, X.indices, X.indptr, part.rows.start, points, gram, None, codes.ahead, codes.last,
                step, *codes.limits, CODES_SWEEPS, *block,
            )  # fmt: skip

        map_blocks(rows, part.blocks, parallel=len(part.blocks) > 1)
        self.gram += _gram(codes.ahead) - _gram(old)
        self._improve_components(part, codes.ahead - old, momentum, sweeps=1)

    def _improve_components(self, part: _Part, change: Array, momentum: float, *, sweeps: int) -> None:
        """Add what a change of codes brings to the sums, and improve the components."""
        H, X = self.H, part.columns
        gram, step = self.gram.astype(change.dtype), change.dtype.type(momentum * COMPONENTS_SHARE)

        def columns(block: tuple[int, int]) -> None:
            _sparse_kernels.hals_rows(
                X.data, X.indices, X.indptr, 0, change, gram, self.totals, H.ahead, H.last,
                step, *H.limits, sweeps, *block,
            )  # fmt: skip

        map_blocks(columns, part.column_blocks, parallel=len(part.column_blocks) > 1)

    def keep(self, Wt: Array, H: Array) -> None:
        """Write the factors to the caller's arrays."""
        H[:] = self.H.last.T
        for part in self.parts:
            Wt[:, part.rows] = part.codes.ahead.T

    def reset(self, Wt: Array, H: Array) -> None:
        """Go back to the caller's arrays."""
        self.H.reset(H)
        for part in self.parts:
            part.codes.reset(Wt[:, part.rows])
        self._sum_up()

    def objective(self, problem: Problem, square: float) -> float:
        """Evaluate the objective from the sums at hand, unless it is so small that their rounding would show."""
        H = self.H.last
        model = float(np.einsum("ij,ij->", self.gram, H.T @ H))
        loss = (square - 2 * float(np.einsum("ij,ij->", self.totals, H)) + model) / 2
        penalty = problem.penalty_H.value(H.T) + sum(problem.penalty_W.value(part.codes.ahead.T) for part in self.parts)
        if loss > square * float(np.finfo(H.dtype).eps) ** 0.5:
            return loss + penalty
        Wt, Ht = np.empty((H.shape[1], problem.X.shape[0]), H.dtype), np.empty_like(H.T)
        self.keep(Wt, Ht)
        return problem.loss_value(Wt, Ht) + penalty


def _gram(points: Array) -> Array:
    return np.asarray(points.T @ points, dtype=np.float64)


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place; see :func:`.hals.iterate`.

    Yields
    ------
    Progress
        The change is the decrease of the objective in the iteration before, relative to the first objective.
    """
    if problem.X.shape[0] < problem.X.shape[1]:
        problem, Wt, H = problem.transposed, H, Wt  # the longer side is taken in parts
    square = squares(problem.X)
    with one_blas_thread():
        model = _Model(problem, Wt, H)
        first = objective = model.objective(problem, square)
    momentum, ceiling, safe = FIRST_MOMENTUM, 1.0, False
    for _ in range(max_iter):
        before = objective
        with one_blas_thread():
            for part in model.parts:
                model.improve(part, momentum)
            found = model.objective(problem, square)
            if found <= objective or safe:
                # without momentum a rise can only be rounding
                objective, safe = min(found, objective), False
                model.keep(Wt, H)
                ceiling = min(1.0, CEILING_GROWTH * ceiling)
                momentum = min(ceiling, MOMENTUM_GROWTH * max(momentum, MOMENTUM_FLOOR))
            else:
                ceiling, momentum, safe = momentum, 0.0, True
                model.reset(Wt, H)
        yield Progress(before, 1.0 if safe else (before - objective) / first if first > 0 else 0.0)
