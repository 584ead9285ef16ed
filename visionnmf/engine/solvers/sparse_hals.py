"""Hierarchical alternating least squares on sparse data: a start from a sample, then part by part.

The start. From a random start two topics often end in one component, and stay there. So the first iteration begins on
an even sample of the samples, where a pass costs little, with twice the components; then those two whose sum is
nearest to rank one are merged, again and again, until as many are left as there should be
(``docs/derivations/merging.md``). If that ends above the given start, as after a warm start, it is taken back.

The passes. With the data given, the problem of the components depends on the codes through ``W.T @ W`` and
``W.T @ X`` only, and both are sums over the samples. So the samples are taken in parts; after the codes of each part
its share of the sums is exchanged and the components are improved. That is block coordinate descent on the full
objective in the order codes of part 1, components, codes of part 2, components, ..., as in incremental EM (Neal &
Hinton 1998): a pass costs little more, and fewer are needed. Extrapolation with restarts (Ang & Gillis 2019) as in
:mod:`.hals`, in smaller steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import sum_of_squares
from visionnmf.engine.blocks import Block, map_blocks, one_blas_thread, row_blocks
from visionnmf.engine.kernels import sparse as _sparse_kernels
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration

from .momentum import Momentum

# Chosen on made topics and counts of other seeds than the benchmark's; docs/decisions/least_squares.md.
MAX_PARTS = 8
PART_ENTRIES = 0.3  # stored entries of a part, at least, in units of the components' size: what their sweep costs
CODES_SWEEPS = 2  # sweeps for each product with the data
FIRST_SWEEPS = 3  # sweeps over codes that are far from their minimum
FIRST_MOMENTUM = 0.5  # see :class:`.momentum.Momentum`
MOMENTUM_GROWTH = 1.05
CEILING_GROWTH = 1.01
MOMENTUM_FLOOR = 0.3
CODES_SHARE, COMPONENTS_SHARE = 0.5, 0.25  # of the momentum; the components move several times a pass
SAMPLE = 16  # the first sample takes one row in this many,
SAMPLE_ROWS = 50  # but at least this many rows for each component
SAMPLE_PASSES, MERGED_PASSES = 6, 1  # before and after merging
SAMPLE_GROWTH = 4  # of the sample, after merging
TINY = 1e-300  # for quotients of zeros


class _Factor:
    """A factor or a part of one, stored point by point: `last` before extrapolation, `extrapolated` after it."""

    def __init__(self, F: Array, penalty: Penalties, share: float = 1.0) -> None:
        self.last = np.array(F.T, order="C")  # (n_points, r)
        self.extrapolated = self.last.copy()  # (n_points, r)
        l1, l2 = penalty.weights(len(F), F.dtype)
        share = F.dtype.type(share)
        self.box_l1_l2 = (*penalty.box(F.dtype), share * l1, share * l2)

    def improve(
        self, X: Any, offset: int, points: Array, gram: Array, totals: Array, step: Any, sweeps: int, work: list[Block]
    ) -> None:
        """Multiply rows of `X`, from `offset` on, by `points`, into `totals` unless empty; sweep, and extrapolate."""

        def rows(block: Block) -> None:
            _sparse_kernels.hals_rows(
                X.data, X.indices, X.indptr, offset, points, gram, totals, self.extrapolated, self.last, step,
                *self.box_l1_l2, sweeps, *block,
            )  # fmt: skip

        map_blocks(rows, work, parallel=len(work) > 1)

    def reset(self, F: Array) -> None:
        """Return to the earlier value `F` (r, n_points): the next step is not extrapolated."""
        self.last[:] = self.extrapolated[:] = F.T


class _SamplePart:
    """A range of the samples: their codes, and their data by columns."""

    def __init__(self, X: Any, Wt: Array, penalty: Penalties, start: int, stop: int) -> None:
        self.rows = slice(start, stop)
        self.codes = _Factor(Wt[:, self.rows], penalty)
        indptr = X.indptr[start : stop + 1]
        inside = slice(indptr[0], indptr[-1])
        # views: slicing the array would copy
        data = sp.csr_array((X.data[inside], X.indices[inside], indptr - indptr[0]), (stop - start, X.shape[1]))
        self.columns = data.T.tocsr()  # (n_features, rows of the part)
        self.blocks, self.column_blocks = row_blocks(data), row_blocks(self.columns)


class _Model:
    """Both factors, and the double-precision sums over the samples, which belong to the extrapolated codes."""

    def __init__(self, problem: Problem, X: Any, Wt: Array, H: Array, *, parts: int, share: float = 1.0) -> None:
        r, n = H.shape
        # size of a part: enough stored entries for the cost of the sweep over the components that follows each part
        entries = max(PART_ENTRIES * r * n, (X.nnz + X.shape[0]) / parts)
        self.X = X
        self.components = _Factor(H, problem.penalty_H, share)
        self.parts = [_SamplePart(X, Wt, problem.penalty_W, *rows) for rows in row_blocks(X, int(entries) + 1)]
        # sums over the samples: X.T @ W (n, r) and W.T @ W (r, r)
        self.totals, self.gram = np.zeros((n, r)), np.zeros((r, r))

    def enter(self) -> None:
        """Take the first pass: improve all codes, which may be far from their minimum, and then the components."""
        for part in self.parts:
            self._improve_codes(part, momentum=0.0, sweeps=FIRST_SWEEPS)
            self.gram += _gram(part.codes.extrapolated)
            # with 0 sweeps it only adds the part's share to `totals`, X.T @ W
            sweeps = 1 if part is self.parts[-1] else 0
            self._improve_components(part, part.codes.extrapolated, momentum=0.0, sweeps=sweeps)

    def improve_all(self, momentum: float) -> None:
        """Improve the codes of each part of the samples in turn, and the components after each part."""
        for part in self.parts:
            old = part.codes.extrapolated.copy()
            self._improve_codes(part, momentum, sweeps=CODES_SWEEPS)
            self.gram += _gram(part.codes.extrapolated) - _gram(old)
            self._improve_components(part, part.codes.extrapolated - old, momentum, sweeps=1)

    def run(self, passes: int) -> None:
        """Go `passes` times through all samples without extrapolation, from codes far from their minimum."""
        self.enter()  # the first pass, which improves the components only once, after all codes
        for _ in range(passes - 1):
            self.improve_all(momentum=0.0)

    def _improve_codes(self, part: _SamplePart, momentum: float, *, sweeps: int) -> None:
        """Run HALS sweeps on a part's codes, and extrapolate them by the share :data:`CODES_SHARE` of `momentum`."""
        H = self.components.extrapolated  # (n, r)
        gram, step = H.T @ H, H.dtype.type(momentum * CODES_SHARE)
        # the sums over parts are for the components; without them the sweeps use the products of this part
        no_totals = np.empty((0, H.shape[1]))
        part.codes.improve(self.X, part.rows.start, H, gram, no_totals, step, sweeps, part.blocks)

    def _improve_components(self, part: _SamplePart, change: Array, momentum: float, *, sweeps: int) -> None:
        """Add what a `change` (rows, r) of a part's codes brings to ``X.T @ W``, and improve the components by HALS."""
        gram, step = self.gram.astype(change.dtype), change.dtype.type(momentum * COMPONENTS_SHARE)
        self.components.improve(part.columns, 0, change, gram, self.totals, step, sweeps, part.column_blocks)

    def keep(self, Wt: Array, H: Array) -> None:
        """Write the factors whose objective was evaluated to the caller's arrays."""
        H[:] = self.components.last.T
        for part in self.parts:
            Wt[:, part.rows] = part.codes.extrapolated.T

    def reset(self, Wt: Array, H: Array) -> None:
        """Go back to the factors in the caller's arrays `Wt` and `H`, and compute the sums of these codes again."""
        self.components.reset(H)
        self.totals[:] = self.gram[:] = 0
        for part in self.parts:
            part.codes.reset(Wt[:, part.rows])
            self.gram += _gram(part.codes.extrapolated)
            self._improve_components(part, part.codes.extrapolated, momentum=0.0, sweeps=0)

    def start_objective(self, problem: Problem, square: float) -> float:
        """Evaluate the objective of the given factors without the sums over the samples, which stay 0."""
        H = self.components.last
        inner, gram = 0.0, np.zeros_like(self.gram)  # <X H.T, W> and W.T W
        right = np.zeros((self.X.shape[0], H.shape[1]))  # X H.T
        unused = np.zeros((H.shape[1],) * 2, H.dtype)
        for part in self.parts:
            codes = part.codes.last
            # without sweeps it only adds the products with the components to `right` and uses no Gram matrix
            still, rows = H.dtype.type(0), part.rows
            part.codes.improve(self.X, rows.start, H, unused, right[rows], still, 0, part.blocks)
            inner += float(np.einsum("ij,ij->", right[part.rows], codes, dtype=np.float64))
            gram += _gram(codes)
        return self._value(problem, (square - 2 * inner + float(np.einsum("ij,ij->", gram, _gram(H)))) / 2, square)

    def objective(self, problem: Problem, square: float) -> float:
        """Evaluate the objective from the sums at hand; `square` is ``|X|^2``."""
        H = self.components.last
        model = float(np.einsum("ij,ij->", self.gram, H.T @ H))
        return self._value(problem, (square - 2 * float(np.einsum("ij,ij->", self.totals, H)) + model) / 2, square)

    def _value(self, problem: Problem, loss: float, square: float) -> float:
        """Return a loss plus the penalties of the factors to which it belongs, those that :meth:`keep` writes."""
        H = self.components.last  # (n, r), point by point
        penalty = problem.penalty_H.value(H.T)
        penalty += sum(problem.penalty_W.value(part.codes.extrapolated.T) for part in self.parts)
        if loss > square * float(np.finfo(H.dtype).eps) ** 0.5:
            return loss + penalty
        Wt, Ht = np.empty((H.shape[1], problem.X.shape[0]), H.dtype), np.empty_like(H.T)
        self.keep(Wt, Ht)  # writes the factors to these arrays
        return problem.loss_value(Wt, Ht) + penalty


def _gram(points: Array) -> Array:
    """Return ``points.T @ points``, computed in the precision of `points`, as float64 for sums over parts."""
    return np.asarray(points.T @ points, dtype=np.float64)


def _components_of_samples(problem: Problem, Wt: Array, H: Array) -> Array | None:
    """Return components (r, n) found on a sample of the rows, or None if that is not worthwhile."""
    X, r = problem.X, len(H)
    step = min(SAMPLE, X.shape[0] // (SAMPLE_ROWS * r))  # the sample takes one row in `step`
    weights = (weight for p in (problem.penalty_W, problem.penalty_H) for weight in (p.l1, p.l2))
    if step < SAMPLE_GROWTH or r == 1 or any(np.ndim(weight) for weight in weights):
        return None
    codes = Wt[:, ::step]
    rolled = np.roll(H, H.shape[1] // 2, axis=1)  # as many other components, with the values of the given ones
    # a sample in one part, whose share of all rows scales the penalty of the components
    model = _Model(problem, X[::step], np.vstack([codes, codes]), np.vstack([H, rolled]), parts=1, share=1 / step)
    model.run(SAMPLE_PASSES)  # HALS passes over the sample, without extrapolation
    many = model.components.last  # (n, 2 r) components
    sums = _merging(_gram(model.parts[0].codes.last), _gram(many), r)  # (2 r, r): which are added, with what weight
    found: Array = np.clip((many @ sums.astype(H.dtype)).T, *problem.penalty_H.box(H.dtype))
    step //= SAMPLE_GROWTH  # improve the merged components on a larger sample, unless that would be all rows
    if step > 1:
        model = _Model(problem, X[::step], Wt[:, ::step], found, parts=1, share=1 / step)
        model.run(MERGED_PASSES)
        found = model.components.last.T
    return found


def _merging(codes: Array, components: Array, rank: int) -> Array:
    """Return weights (q, rank) that merge q components into `rank` sums (docs/derivations/merging.md)."""
    # Each step merges the two components whose joint contribution is nearest to rank one; what is lost is the square of
    # its smaller singular value. A and B are the Gram matrices of the components that are left, [A] and [B] their 2 x 2
    # blocks for a pair.
    # Scaled to maximum 1 because of the powers below; the weights do not depend on the scale
    A, B = (gram / max(float(gram.max()), TINY) for gram in (codes, components))
    sums = np.eye(len(codes))
    while len(A) > rank:
        a, b = A.diagonal(), B.diagonal()
        # trace and determinant of [A] [B] of each pair: sum and product of its two squared singular values
        trace = a * b + (a * b)[:, None] + 2 * A * B
        determinant = np.maximum(np.outer(a, a) - A**2, 0) * np.maximum(np.outer(b, b) - B**2, 0)
        root = np.sqrt(np.maximum(trace**2 - 4 * determinant, 0))
        lost = 2 * determinant / np.maximum(trace + root, TINY)  # the smaller one
        np.fill_diagonal(lost, np.inf)
        pair = np.array(np.unravel_index(np.argmin(lost), lost.shape))
        k, other = pair  # `other` is merged into k
        inner = B[np.ix_(pair, pair)]
        (p, q), (s, t) = A[np.ix_(pair, pair)] @ inner  # [A] [B] of this pair
        larger = (trace[k, other] + root[k, other]) / 2  # its larger eigenvalue, and the eigenvector of that
        weights = np.array([larger - t, s] if p >= t else [q, larger - p])
        weights = weights / weights.max() if weights.max() > 0 else np.array([1.0, 0.0])
        # the merged component is the sum of both times `weights`; its codes are the projection of both contributions
        shares = inner @ weights
        add, share = np.eye(len(A)), np.eye(len(A))
        add[pair, k], share[pair, k] = weights, shares / max(float(weights @ shares), TINY)
        add, share = np.delete(add, other, axis=1), np.delete(share, other, axis=1)
        A, B, sums = share.T @ A @ share, add.T @ B @ add, sums @ add
    return sums


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run HALS with extrapolation on sparse data, in place; yield the objective before each iteration."""
    if problem.X.shape[0] < problem.X.shape[1]:
        problem, Wt, H = problem.transposed, H, Wt  # the longer side is split into parts
    square = sum_of_squares(problem.X)  # |X|^2
    with one_blas_thread():
        found = _components_of_samples(problem, Wt, H)
        model = _Model(problem, problem.X, Wt, H, parts=MAX_PARTS)
        if found is None:
            model.reset(Wt, H)
            objective = model.objective(problem, square)
        else:  # the given factors count as the start; the components of the sample replace H in the first iteration
            objective = model.start_objective(problem, square)
            model.components.reset(found)
    momentum = Momentum(FIRST_MOMENTUM, growth=MOMENTUM_GROWTH, ceiling_growth=CEILING_GROWTH, floor=MOMENTUM_FLOOR)
    for iteration in range(max_iter):
        before = objective
        with one_blas_thread():
            if iteration == 0 and found is not None:
                model.enter()  # the first pass, from codes far from their minimum
            else:
                model.improve_all(momentum.value)
            value = model.objective(problem, square)
            kept = value <= objective or momentum.is_none
            if kept:
                objective = min(value, objective)  # without momentum only rounding can raise it
                model.keep(Wt, H)  # writes its factors there
                momentum.grow()
            else:
                momentum.restart()
                model.reset(Wt, H)
        yield Iteration(before, undone=not kept)
