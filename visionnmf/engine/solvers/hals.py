r"""Extrapolated hierarchical alternating least squares for the Frobenius loss.

.. math:: \min_{W, H \ge 0}\; \tfrac12 \sum_{ij} m_{ij} (X - W H)_{ij}^2 + p_W(W) + p_H(H)

HALS (Cichocki & Phan 2009, Algorithm 2) with several sweeps for each product with the data, and extrapolation between
iterations with restarts (Ang & Gillis 2019, Algorithm 3). A step that raises the objective is undone, so the objective
never rises. The kind of sweep depends on the data:

- without weights, through Gram matrices (:class:`Gram`);
- with weights, entries of small weight are replaced by the model,
  ``V = P + m / max(m) (X - P)``, which majorises the loss, and the sweeps are those of ``V`` (:class:`Filled`);
- if the largest weight is many times the mean weight, those steps would be tiny, and coordinate descent on the weighted
  residuals is used instead (:class:`_Residual`), as for sparse data whose unstored entries are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf._typing import Array
from visionnmf.engine import quadratic
from visionnmf.engine.arrays.namespace import copied, inner, numpy_dtype, sum_of_squares
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, row_blocks, rows_per_block
from visionnmf.engine.kernels import least_squares as kernels
from visionnmf.engine.penalties import SEPARABLE, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product, right_sides
from visionnmf.engine.stopping import Iteration

from . import sparse_descent, sparse_hals
from .momentum import Momentum, balance, extrapolated

# Number of sweeps for each product with the data: as many as cost no more than the product, within these limits. For
# similar components, 40 sweeps need a fifth of the iterations that 6 sweeps need.
LEAST_SWEEPS, MOST_SWEEPS = 6, 40
RESIDUAL_SWEEPS = 2  # fewer, because a sweep over residuals costs as much as a product
SKEW = 3.0  # largest weight over mean weight, above which descent on residuals is faster
FIRST_MOMENTUM = 0.3  # see :class:`.momentum.Momentum`
MOMENTUM_GROWTH = 1.05
MOMENTUM_CUT = 1.5
CEILING_GROWTH = 1.01
MOMENTUM_FLOOR = 0.1
CODES_SWEEPS = 10  # maximum number of sweeps before block pivoting; fewer for
COMPONENTS_A_SWEEP = 5  # few components: one sweep, and another for this many components
SYMMETRIC = 16  # number of components from which BLAS multiplies a matrix by its own transpose faster
CODES_TOLERANCE = 1e-8  # of the derivative, relative to the largest entry of a row's right-hand side
# From this share of the data's squares on, the loss follows from Gram matrices: their rounding is below 1e-5 of it.
SMALL = {4: 5e-3, 8: 1e-10}
CODES_STEPS = 5000  # of accelerated gradient for rows that block pivoting cannot solve


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place by a few HALS sweeps each; yield the objective before each iteration."""
    # sparse data whose unstored entries are zeros, not missing, with a box, l1 and l2 only
    if problem.is_sparse and problem.zero_weight == 1 and separable(problem):
        yield from sparse_hals.iterate(problem, Wt, H, max_iter=max_iter)
        return
    yield from descend(DescentInMemory(problem, Wt, _updates_for(problem)), H, problem.penalty_H, max_iter=max_iter)


def descend(
    rows: Any, H: Array, penalty_H: Penalties, *, max_iter: int, momentum: Momentum | None = None
) -> Iterator[Iteration]:
    """Update the codes of `rows`, and `H` in place, with extrapolation; undo an iteration that raises the objective.

    `rows` is a :class:`DescentInMemory`, or has its methods for data that are kept elsewhere.
    """
    objective = rows.objective(H)
    H_last, H_ahead = copied(H), copied(H)  # the last accepted components, before and after extrapolation
    momentum = momentum or Momentum(
        FIRST_MOMENTUM, growth=MOMENTUM_GROWTH, ceiling_growth=CEILING_GROWTH, floor=MOMENTUM_FLOOR, cut=MOMENTUM_CUT
    )
    for _ in range(max_iter):
        before = objective
        H_new = copied(H_ahead)
        found = rows.improve(H_ahead, H_new, momentum.value)
        kept = found <= objective or (momentum.is_none and bool(np.isfinite(found)))
        if kept:
            # without momentum only rounding can raise the objective
            objective = min(found, objective)
            H[:, :] = H_new
            H_ahead, H_last = extrapolated(H_new, H_last, momentum.value, penalty_H), H_new
            momentum.grow()
            rows.accept([H, H_ahead, H_last])
        else:
            momentum.restart()
            H_ahead, H_last = copied(H), copied(H)
            rows.reject()
        yield Iteration(before, undone=not kept)


class ExtrapolatedCodes:
    """The codes (r, n_rows) of some rows during a descent with extrapolation, in arrays of any library.

    `best` is the given array, which always holds the best codes so far. `last` and `extrapolated` are the last accepted
    codes before and after extrapolation. A :meth:`step` computes `new` and their extrapolation `new_extrapolated`.
    """

    def __init__(self, Wt: Any, penalty: Penalties) -> None:
        self.best, self.penalty = Wt, penalty  # the best codes so far, written to the given array
        self.last, self.extrapolated = copied(Wt), copied(Wt)  # the last accepted ones, before and after extrapolation
        self.new, self.new_extrapolated = self.last, self.extrapolated  # of the present step, not yet accepted

    def step(self, updates: Any, H: Array, momentum: float) -> None:
        """Update the extrapolated codes of the last step for components `H`, and extrapolate the result again."""
        self.new = copied(self.extrapolated)
        updates.improve_codes(self.new, H)
        self.new_extrapolated = extrapolated(self.new, self.last, momentum, self.penalty)

    def accept(self) -> None:
        """Keep the codes of the last step: the extrapolated ones have lowered the objective and are now the best."""
        self.best[:, :] = self.new_extrapolated
        self.extrapolated, self.last = self.new_extrapolated, self.new

    def reject(self) -> None:
        """Discard the last step: the next one starts from the best codes without extrapolation."""
        self.last, self.extrapolated = copied(self.best), copied(self.best)

    @property
    def versions(self) -> list[Any]:
        """The best codes so far, and the last accepted ones after and before extrapolation."""
        return [self.best, self.extrapolated, self.last]


class DescentInMemory:
    """The rows of a problem and their codes, which change in place by the `updates` that suit the problem."""

    def __init__(self, problem: Problem, Wt: Array, updates: Any) -> None:
        self._problem, self._updates = problem, updates
        self._codes = ExtrapolatedCodes(Wt, problem.penalty_W)

    def objective(self, H: Array) -> float:
        """Return the objective of the best codes and of components `H`."""
        return self._problem.objective(self._codes.best, H)

    def improve(self, H: Array, H_new: Array, momentum: float) -> float:
        """Update the codes for `H`, extrapolate them, then update `H_new` in place; return the objective of both."""
        self._codes.step(self._updates, H, momentum)
        codes = self._codes.new_extrapolated
        self._updates.improve_components(H_new, codes)
        return float(self._updates.objective(codes, H_new))

    def accept(self, components: list[Array]) -> None:
        """Keep the extrapolated codes; rescale components of which one factor is huge and the other tiny."""
        self._codes.accept()
        balance(self._problem, self._codes.versions, components)

    def reject(self) -> None:
        """Discard the last update: the next one starts from the best codes so far, without extrapolation."""
        self._codes.reject()


def separable(problem: Problem) -> bool:
    """Return whether both penalties consist of a box, l1 and l2 only."""
    return not problem.penalty_W.beyond(SEPARABLE) and not problem.penalty_H.beyond(SEPARABLE)


def _updates_for(problem: Problem) -> Gram | _Residual:
    """Return the object whose updates suit the weights and the sparsity of the data."""
    weights = problem.weights
    if problem.is_sparse and problem.zero_weight == 0:
        sparse_descent.refuse_coupled(problem)
        return _Residual(problem, partial(sparse_descent.residual_half, sweeps=RESIDUAL_SWEEPS))
    if weights is None or not weights.any():  # where all weights are 0, so are the data, and the largest is no divisor
        return Gram(problem)
    skew = float(weights.max()) / float(weights.mean(dtype=np.float64))
    if skew > SKEW and separable(problem):
        return _Residual(problem, _descend_weighted)
    return Filled(problem, weights)


class Gram:
    """Updates through Gram matrices."""

    def __init__(self, problem: Problem) -> None:
        """Take the data and the penalties of `problem`; :class:`Filled` replaces `data` and `scale` afterwards."""
        self.problem = problem
        # the target of least squares (n_samples, n), and its transpose
        self.data, self.transposed = problem.X, problem.features
        self.scale = 1.0  # factor of the penalties; below 1 where the loss is divided by the largest weight
        self.separable = separable(problem)  # whether penalties act on each entry alone
        # Gram matrix of the codes (r, r) and their product with the data (r, n), set by `improve_components`
        self.products: tuple[Array, Array]

    @cached_property
    def square(self) -> float:
        """The sum of the squares of the data, which only :meth:`objective` of unweighted data in memory needs."""
        return sum_of_squares(self.problem.X)

    def improve_codes(self, Wt: Array, H: Array) -> None:
        """Run HALS sweeps on the codes, in place."""
        gram, right = product(H, H.T), right_sides(self.data, H)
        sweeps = self.sweeps(*H.shape)  # as many as one product with the data should serve
        quadratic.improve(Wt, gram, right, self.problem.penalty_W, sweeps=sweeps, scale=self.scale)

    def improve_components(self, H: Array, Wt: Array) -> None:
        """Run HALS sweeps on the components, in place, and keep `products` of the codes for :meth:`objective`."""
        self.products = self.statistics(Wt)  # the Gram matrix of the codes, and their product with the data
        sweeps = self.sweeps(*Wt.shape)
        quadratic.improve(H, *self.products, self.problem.penalty_H, sweeps=sweeps, scale=self.scale)

    def statistics(self, Wt: Array) -> tuple[Array, Array]:
        """Return the Gram matrix (r, r) of the codes `Wt` (r, n_samples) and their product with the data (r, n)."""
        return product(Wt, Wt.T), right_sides(self.transposed, Wt)

    def sweeps(self, r: int, n: int) -> int:
        """Return how many sweeps one product with a fixed factor (r, n) should serve."""
        share = n // r if self.separable and not self.problem.is_sparse else 0
        return min(max(LEAST_SWEEPS, share), MOST_SWEEPS)

    def objective(self, Wt: Array, H: Array) -> float:
        """Evaluate the objective from `products`: Gram matrix of the codes `Wt`, and their product with the data."""
        gram, right = self.products
        return value_from_products(self.problem, Wt, H, gram, right, self.square, other_factor=H)


class Filled(Gram):
    """Updates of weighted least squares: the model fills in the part of each entry that its weight leaves.

    Least squares without weights on the filled data, ``P + m / max(m) (X - P)`` for the model P, majorises the weighted
    loss divided by the largest weight. So penalties are divided by it too.
    """

    def __init__(
        self, problem: Problem, weights: Array, largest: float | None = None, out: Array | None = None
    ) -> None:
        """Allocate the filled data, or take `out`; `largest` is the largest weight of all rows if these are some."""
        super().__init__(problem)
        self.weights = weights
        self.data = np.empty_like(problem.X) if out is None else out
        self.transposed = self.data.T  # a view
        # the penalties are multiplied by it, because filling divides the loss by the largest weight
        self.scale = 1 / (largest or float(weights.max()))

    def improve_codes(self, Wt: Array, H: Array) -> None:
        """Fill the data, then run HALS sweeps on the codes, in place."""
        X = self.problem.X
        with one_blas_thread():
            map_blocks(lambda block: self._fill(slice(*block), Wt, H), row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
        super().improve_codes(Wt, H)

    def _fill(self, rows: slice, Wt: Array, H: Array) -> None:
        """Write ``P + m / max(m) (X - P)`` to some rows of the filled data, P their model."""
        X = self.problem.X
        np.matmul(Wt[:, rows].T, H, out=self.data[rows])  # the model, which the kernel replaces
        kernels.impute_rows(X, self.weights, X.dtype.type(self.scale), self.data, rows.start, rows.stop)

    def objective(self, Wt: Array, H: Array) -> float:
        """Evaluate the objective from the residuals."""
        with one_blas_thread():
            return self.problem.objective(Wt, H)


class Clipped(Filled):
    """Updates on the model plus clipped residuals, refreshed before each iteration; they majorise the Huber loss."""

    def __init__(self, problem: Problem, largest: float | None = None, out: Array | None = None) -> None:
        # without weights the largest one, which is all that the base class takes from them, is 1
        weights = np.ones((1, 1), problem.X.dtype) if problem.weights is None else problem.weights
        super().__init__(problem, weights, largest, out)

    def _fill(self, rows: slice, Wt: Array, H: Array) -> None:
        """Write ``P + m / max(m) clip(X - P, -delta, delta)`` to some rows of the filled data, P their model."""
        X, M, delta = self.problem.X, self.problem.weights, self.problem.loss.parameter
        P = Wt[:, rows].T @ H
        E = np.clip(X[rows] - P, -delta, delta, dtype=X.dtype)
        if M is not None:
            E *= X.dtype.type(self.scale) * M[rows]  # the scale is 1 / max(m)
        np.add(P, E, out=self.data[rows])


class _Residual:
    """Updates by coordinate descent on the residuals of weighted, or of stored, entries."""

    def __init__(self, problem: Problem, descend: Callable[[Problem, Array, Array], Any]) -> None:
        """Keep ``descend(problem, Ft, A)``, which improves `Ft` in place; for components the problem is transposed."""
        self.problem, self.descend = problem, descend

    def improve_codes(self, Wt: Array, H: Array) -> None:
        """Update the codes in place."""
        self.descend(self.problem, Wt, H)

    def improve_components(self, H: Array, Wt: Array) -> None:
        """Update the components in place, as the codes of the transposed problem."""
        self.descend(self.problem.transposed, H, Wt)

    def objective(self, Wt: Array, H: Array) -> float:
        """Evaluate the objective from the residuals."""
        with one_blas_thread():
            return self.problem.objective(Wt, H)


def _descend_weighted(problem: Problem, Ft: Array, A: Array) -> None:
    """Run coordinate descent on the weighted residuals for codes `Ft` (r, n_rows), in place; `A` (r, n) is fixed."""
    X, penalty = problem.X, problem.penalty_W
    low, high = penalty.box(X.dtype)
    l1, l2 = penalty.weights(len(Ft), X.dtype)

    def rows(block: tuple[int, int]) -> None:
        kernels.weighted_hals_rows(X, problem.weights, Ft, A, low, high, l1, l2, RESIDUAL_SWEEPS, *block)

    size = max(1, rows_per_block(X.shape[1]) // 4)  # small blocks, because each row takes several sweeps
    map_blocks(rows, blocks(X.shape[0], size), parallel=X.size > BLOCK_ELEMENTS)


def value_from_products(
    problem: Problem, Wt: Array, H: Array, gram: Array, right: Array, square: float, *, other_factor: Array
) -> float:
    """Return the objective of least squares without weights from known products, in ``O(r^2 n)`` operations."""
    loss = loss_from_products(other_factor, gram, right, square)
    if loss is not None:
        return loss + problem.penalty_value(Wt, H)
    with one_blas_thread():
        return problem.objective(Wt, H)


def loss_from_products(F: Any, gram: Any, right: Any, square: float) -> float | None:
    """Return ``(|X|^2 - 2 <right, F> + <gram, F F^T>) / 2``, or None if it is too inexact: below :data:`SMALL`."""
    loss = (square - 2 * inner(right, F) + inner(gram, product(F, F.T))) / 2
    return loss if loss > square * SMALL[numpy_dtype(F).itemsize] else None


def codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve the least-squares problem of each row exactly, in the box or on the simplex, overwriting `Wt`."""
    if problem.is_sparse and problem.zero_weight == 0:  # entries that are not stored are missing
        sparse_descent.residual_codes(problem, Wt, H)
        return
    X, M, penalty = problem.X, problem.weights, problem.penalty_W
    A = H.astype(np.float64)
    gram = product(A, A.T)[None]
    low = penalty.box(np.float64)[0]
    sweeps = min(CODES_SWEEPS, 1 + len(A) // COMPONENTS_A_SWEEP)

    def solve(block: tuple[int, int]) -> None:
        """Write the codes of one block of rows; `grams` is (n_rows, r, r), or (1, r, r) if all rows share it."""
        start, stop = block
        grams = gram if M is None else _weighted_grams(A, M[start:stop])
        right = _right_rows(X[start:stop], None if M is None else M[start:stop], A)
        F = np.full(right.shape, low)  # all codes start at their lower bound
        settled = quadratic.solve(F, grams, right, penalty, sweeps=sweeps, tol=CODES_TOLERANCE)
        for j in np.flatnonzero(~settled):  # rounding kept block pivoting from ending: gradient steps instead
            column = F[j][:, None].copy()
            penalty.feasible(column)
            quadratic.accelerate(column, grams[j % len(grams)], right[j][:, None], penalty, steps=CODES_STEPS)
            F[j] = column[:, 0]
        Wt[:, start:stop] = F.T

    # with weights the Gram matrices of a block, one for each row, must fit into the cache as well
    work = row_blocks(X) if M is None else blocks(X.shape[0], max(1, BLOCK_ELEMENTS // max(X.shape[1], gram.size)))
    with one_blas_thread():
        map_blocks(solve, work, parallel=X.size > BLOCK_ELEMENTS)


def _weighted_grams(A: Array, weights: Array) -> Array:
    """Return ``(m A) A.T`` for each row's weights m, in double precision, (n_rows, r, r)."""
    symmetric = len(A) >= SYMMETRIC
    scales = (np.sqrt(weights, dtype=np.float64) if symmetric else weights.astype(np.float64))[:, None, :]
    grams = np.empty((len(weights), len(A), len(A)))
    for start, stop in blocks(len(weights), max(1, BLOCK_ELEMENTS // A.size)):
        scaled = A * scales[start:stop]
        np.matmul(scaled, scaled.transpose(0, 2, 1) if symmetric else A.T, out=grams[start:stop])
    return grams


def _right_rows(X: Any, weights: Array | None, A: Array) -> Array:
    """Return ``A @ (m x)`` (n_rows, r), so that the result of a row does not depend on the others to the last bit."""
    rows = X.astype(np.float64)
    if sp.issparse(X):  # has no weights, and its products are summed row by row anyway
        return np.asarray(rows @ A.T)
    if weights is not None:
        rows *= weights
    return np.matmul(A, rows[:, :, None])[:, :, 0]
