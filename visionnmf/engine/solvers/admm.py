"""Continuation ADMM: the default solver for the losses that are robust to outliers.

The residual ``S = X - W H`` is a separate variable, coupled to the factors by a scaled dual ``U`` and a penalty ``rho``
that grows geometrically. One iteration is one pass over the data (:mod:`..kernels.admm`), which gives the targets
``V``, the data without most of their outliers, and a few sweeps of HALS for each factor on ``||V - W H||^2``. Only the
prox of the loss is needed. While rho is small, outliers pull as they do in least squares; as rho grows they are clipped
more and more. This slow change of the problem finds good solutions where coordinate descent stalls, so the number of
iterations is the length of the path. Missing entries are filled in by the model.

The data are processed in blocks of rows that stay in cache: the product, the pass, the codes, and the block's share of
the right-hand side for the components. The memory needed is that of the data, the dual and the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from visionnmf._typing import Array
from visionnmf.engine import projections
from visionnmf.engine.arrays import namespace, passes
from visionnmf.engine.arrays.namespace import compiled, in_float64, is_not_numpy, moved, namespace_of, number, to_numpy
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, rows_per_block
from visionnmf.engine.kernels.hals import TILE, hals_columns
from visionnmf.engine.losses import Loss, ProximalForm
from visionnmf.engine.penalties import SEPARABLE, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.quadratic import improve
from visionnmf.engine.stopping import Iteration

from . import hals, rri, sparse_descent

# Chosen on synthetic low-rank data and the L1 problems of benchmarks/; docs/decisions/manhattan.md.
FIRST_PENALTY = 1.5  # rho at the start, in units of the loss's slope at the mean of the data over that mean
PENALTY_GROWTH = 3e4  # factor by which rho grows over the whole path
SLOW_GROWTH = 40.0  # the part of that factor that is applied slowly,
SLOW_SHARE = 0.7  # over this share of the iterations; noisy data converge there, exact data need the rest
SWEEPS = 5  # of HALS for each factor in one iteration; fewer, or an even number, end at a higher objective
PATH = 400  # maximum number of iterations during which rho grows
# The Huber loss is minimised directly once the primal residual, relative to the loss plus SETTLED times the loss of the
# zero model, is below SMOOTH.
SMOOTH = 1e-3
SETTLED = 0.05
BLOCKS = 2  # cache-sized blocks processed together: larger products gain more than the pass loses
LEAST_ROWS = 256  # minimum number of rows in a block
MAX_CHUNKS = 16  # maximum number of chunks of rows that can be processed in parallel
CODES_ITERATIONS = 200
# Codes of a photograph are then 0.1 % of white less exact; docs/decisions/faces.md has the figures.
QUICK_CODES_ITERATIONS = 30
CODES_GROWTH = 30.0  # of rho, which starts at 1 / mean residual of the row's least-squares fit
CODES_TIE = 0.01  # consensus penalty between the codes and their copy in the box, for components of unit norm
SIMPLEX_TIE = 0.1  # the same for the copy on the simplex, where no coordinate descent follows
CODES_START_SWEEPS = 30
CODES_POLISH = 30  # maximum number of final sweeps of coordinate descent; most rows need two or three
# Rows in one product: with more than 8, some BLAS kernels round a row depending on its position. With 4, a row alone
# takes three quarters of the time that it takes with 8, and many rows take the same time.
ROWS = 4


class Totals(NamedTuple):
    """Sums over some rows of a problem that set the scale of the path; those of all rows are the sums of the parts."""

    total: float  # sum of the data
    n_entries: float
    n_observed: float  # number of entries whose weight is not 0
    weight: float  # sum of the weights of the entries
    largest: float  # loss of the zero model; for a divergence, of which it is infinite, 0

    @classmethod
    def of(cls, problem: Problem) -> Totals:
        """Return the sums over the rows of a problem with dense data, of NumPy or of another library."""
        X, M = problem.X, problem.weights
        xp, n_entries = namespace_of(X), float(X.shape[0] * X.shape[1])
        largest = 0.0
        if not problem.loss.record.is_divergence:  # which is infinite at the model 0
            largest = problem.loss_value(xp.zeros_like(X[:, :1].T), xp.zeros_like(X[:1, :]))
        if M is None:
            n_observed = weight = n_entries
        else:
            n_observed, weight = float(xp.count_nonzero(M)), namespace.sum_of(M)
        return cls(namespace.sum_of(X), n_entries, n_observed, weight, largest)

    def scale(self, loss: Loss, n_features: int) -> tuple[float, float]:
        """Return the natural ``1 / rho`` of the data and the loss of the zero model; both are positive."""
        n_observed = self.n_observed or 1.0
        # mean of the observed entries: missing ones are 0; if the data are all 0, any positive number will do
        mean = self.total / n_observed or 1.0
        # a common factor of the weights multiplies the loss by this power of it
        weight = (self.weight / n_observed or 1.0) ** loss.record.weight_degree
        # a divergence from the model 0 is infinite; the mean of the data times that of the weights, for each entry,
        # takes its place
        largest = self.largest if not loss.record.is_divergence else mean * weight * self.n_entries
        return mean / (weight * float(_slope(loss, mean, n_features))), largest or 1.0


class Pass(NamedTuple):
    """What a pass over some rows adds to an iteration; the pass over all rows is the sum of those over the parts."""

    right: Array  # (r, n), ``Wt @ V`` for the new codes and the targets `V` of least squares
    gram: Array  # (r, r), ``Wt @ Wt.T``
    loss: float  # before the pass, as are the next two
    residual: float  # l1 norm of the primal residual
    penalty: float  # of the codes


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run continuation ADMM: update both factors in place, and yield the objective before each iteration."""
    return follow(AdmmInMemory(problem, Wt), H, max_iter=max_iter)


def follow(rows: Any, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run continuation ADMM: update the codes of `rows`, and `H`, in place; yield the objective before each iteration.

    `rows` is an :class:`AdmmInMemory`, or has its attribute `loss` and its methods for data that are kept elsewhere.
    `Iteration.residual` is the primal residual ``||X - WH - S||_1 / ||X||_1``, S the split residual, divided by the
    current loss relative to the loss of the zero model.
    """
    totals = rows.totals()  # sums of the data and weights, which set the scale of rho
    size, largest = totals.scale(rows.loss, H.shape[1])  # unit of 1 / rho, and the loss of the zero model
    inverse_rho = size / FIRST_PENALTY  # 1 / rho
    decay = 1.0  # factor of the last change of 1 / rho, by which the scaled dual is multiplied as well
    path = min(max_iter, PATH)
    total = totals.total or 1.0
    for iteration in range(max_iter):
        sums = rows.step(H, inverse_rho, decay)  # updates the codes; the loss is that before
        penalty = rows.improve_components(H, sums, inverse_rho)
        loss = sums.loss
        residual = sums.residual / total * largest / max(loss, np.finfo(float).tiny)
        yield Iteration(loss + (sums.penalty + penalty), residual)
        # `residual` relative to the loss plus a share of the zero model's: near an exact fit the loss alone goes to 0
        settled = residual * loss / (SETTLED * largest + loss) < SMOOTH
        if _form(rows.loss).clipped and (settled or iteration >= SLOW_SHARE * path):
            # descent converges on a smooth loss; rho, which grows fast after SLOW_SHARE, would only freeze the factors
            yield from rows.polish(H, max_iter - iteration - 1)
            return
        decay = 1 / _growth(iteration, path)
        inverse_rho *= decay


def _growth(iteration: int, path: int) -> float:
    """Return the factor by which rho grows after an iteration of a path of that length."""
    slow = SLOW_SHARE * path
    if iteration >= path:
        return 1.0
    if iteration + 1 <= slow:
        return float(SLOW_GROWTH ** (1 / slow))
    return float((PENALTY_GROWTH / SLOW_GROWTH) ** (1 / (path - slow)))


def _form(loss: Loss) -> ProximalForm:
    """Return the proximal form of a loss."""
    form = loss.record.proximal
    assert form is not None, "choose() asks for it"  # ADMM is chosen only for losses that have one
    return form


def _slope(loss: Loss, size: Any, n_features: int) -> Any:
    """Return the derivative of a loss with respect to an entry if all residuals of its row have the size `size` > 0."""
    return _form(loss).slope(size, n_features, loss.parameter)


def improve_components(problem: Problem, H: Array, sums: Pass, inverse_rho: float) -> float:
    """Run HALS sweeps on the components `H` (r, n), in place; return their penalty before."""
    penalty = problem.penalty_H.value(H)
    with one_blas_thread():
        improve(
            H, sums.gram, sums.right, problem.penalty_H,
            sweeps=SWEEPS, scale=inverse_rho, alternate=back_and_forth(problem),
        )  # fmt: skip
    return penalty


def back_and_forth(problem: Problem) -> bool:
    """Return whether every second HALS sweep should run backward, which damps the oscillation of ADMM's iterates."""
    return not ("l2" in problem.penalty_W.kinds and "l2" in problem.penalty_H.kinds)


class AdmmInMemory:
    """The rows of a problem whose data are in memory, and their codes `Wt` (r, n_samples), which change in place."""

    def __init__(self, problem: Problem, Wt: Array, dual: Array | None = None) -> None:
        """Choose blocks, which stay in cache, and chunks of them, one a thread; `dual` are zeros or None."""
        X = problem.X
        n_samples, n_features = X.shape
        self.problem, self.loss, self.Wt = problem, problem.loss, Wt
        # at least half of the rows, so that two threads have work
        least = min(LEAST_ROWS, -(-n_samples // (2 * TILE)) * TILE)
        size = max(least, BLOCKS * rows_per_block(n_features))
        self.size = size // TILE * TILE  # rows in a block: whole tiles of HALS
        # each chunk is a whole number of blocks, and does not depend on the number of threads
        self.chunks = blocks(n_samples, self.size * max(1, -(-n_samples // (self.size * MAX_CHUNKS))))
        self.parallel = X.size * len(Wt) > 4 * BLOCK_ELEMENTS  # whether the work is worth threads
        self.back_and_forth = back_and_forth(problem)  # whether every second sweep of HALS runs backward
        self.U = np.zeros_like(X) if dual is None else dual  # scaled dual
        # written by each pass: the loss and the l1 norm of the primal residual of each row, before the update
        self.losses, self.residuals = np.empty(n_samples), np.empty(n_samples)
        # a penalty that couples the codes of samples needs the targets of all rows at once
        self.targets = np.empty_like(X) if problem.penalty_W.beyond(SEPARABLE) else None

    def totals(self) -> Totals:
        """Return the sums of the data and of their weights over all rows, which set the scale of rho."""
        return Totals.of(self.problem)

    def improve_components(self, H: Array, sums: Pass, inverse_rho: float) -> float:
        """Update `H` by `sums`, products of the codes with themselves and the targets; return its penalty before."""
        return improve_components(self.problem, H, sums, inverse_rho)

    def polish(self, H: Array, max_iter: int) -> Iterator[Iteration]:
        """Minimise the Huber loss in place by at most `max_iter` iterations of HALS, from near the minimum."""
        rows = hals.DescentInMemory(self.problem, self.Wt, hals.Clipped(self.problem))
        return hals.descend(rows, H, self.problem.penalty_H, max_iter=max_iter)

    def step(self, H: Array, inverse_rho: float, decay: float) -> Pass:
        """Update the codes in place for fixed `H`; return the sums over these rows that an iteration needs."""
        problem, Wt = self.problem, self.Wt
        penalty, loss = problem.penalty_W.value(Wt), 0.0
        if not _form(problem.loss).valued:  # the pass does not compute this loss and reports 0
            loss = problem.loss_value(Wt, H)
        with one_blas_thread():
            right = self._update_codes(H, inverse_rho, decay)
            gram = Wt @ Wt.T
        return Pass(right, gram, loss + float(self.losses.sum()), float(self.residuals.sum()), penalty)

    def _update_codes(self, H: Array, inverse_rho: float, decay: float) -> Array:
        """Update the codes in place; return ``Wt @ V`` (r, n) for the targets V of least squares."""
        Wt = self.Wt
        step = _Step(H, H @ H.T, np.full(len(self.losses), inverse_rho, H.dtype), H.dtype.type(decay))
        if self.targets is None:
            return self._sum(lambda chunk: self._update_separable(chunk, step))
        targets, right = self.targets, np.empty_like(Wt)

        def gather(chunk: tuple[int, int]) -> None:
            """Write the least-squares targets V of the rows of a chunk to `targets`, and ``H @ V.T`` to `right`."""
            for start, stop in self._blocks(chunk):
                right[:, start:stop] = self._write_targets(start, stop, step, targets[start:stop])

        map_blocks(gather, self.chunks, parallel=self.parallel)
        # the objective divided by rho is least squares plus the penalty over rho
        improve(
            Wt, step.gram, right, self.problem.penalty_W,
            sweeps=SWEEPS, scale=inverse_rho, alternate=self.back_and_forth,
        )  # fmt: skip
        return self._sum(lambda chunk: Wt[:, slice(*chunk)] @ targets[slice(*chunk)])

    def _blocks(self, chunk: tuple[int, int]) -> list[tuple[int, int]]:
        """Split a chunk ``(start, stop)`` of rows into blocks of `size` rows, which stay in cache."""
        return [(chunk[0] + start, chunk[0] + stop) for start, stop in blocks(chunk[1] - chunk[0], self.size)]

    def _sum(self, function: Callable[[tuple[int, int]], Array]) -> Array:
        """Apply a function to all chunks in threads and add up the results in a fixed order."""
        first, *others = map_blocks(function, self.chunks, parallel=self.parallel)
        for other in others:
            first += other
        return first

    def _write_targets(self, start: int, stop: int, step: _Step, V: Array) -> Array:
        """Write the targets of least squares of rows ``start:stop`` to `V`, and return ``H @ V.T``."""
        problem = self.problem
        np.matmul(self.Wt[:, start:stop].T, step.H, out=V)
        # the elementwise pass replaces the model in V, and these rows of the dual, of `losses` and of `residuals`
        _form(problem.loss).rows(
            problem.X, V, self.U, problem.weights, problem.loss.parameter, step.inverse_rho, step.decay, start, stop,
            self.losses, self.residuals,
        )  # fmt: skip
        return np.asarray(step.H @ V.T)

    def _update_separable(self, chunk: tuple[int, int], step: _Step) -> Array:
        """Update the codes of a chunk block by block while it is in cache; return its share of ``Wt @ V``."""
        penalty, Wt, dtype = self.problem.penalty_W, self.Wt, self.Wt.dtype
        box = penalty.box(dtype)
        # times 1 / rho, because the least-squares problem is the objective divided by rho
        l1, l2 = (step.inverse_rho[0] * weights for weights in penalty.weights(len(Wt), dtype))
        right = np.zeros_like(step.H)  # sum of the blocks' shares
        product = np.empty((min(self.size, chunk[1] - chunk[0]), step.H.shape[1]), dtype)
        for start, stop in self._blocks(chunk):
            V = product[: stop - start]
            B = self._write_targets(start, stop, step, V)  # writes V, and returns H @ V.T
            # HALS on columns start:stop of `Wt`, to the first of which column 0 of `B` belongs; with `back_and_forth`
            # every second sweep runs backward
            hals_columns(Wt, step.gram, B, start, *box, l1, l2, SWEEPS, self.back_and_forth, start, stop)
            right += Wt[:, start:stop] @ V
        return right


class _Step(NamedTuple):
    """The inputs of one iteration that all blocks of rows share."""

    H: Array  # (r, n) components
    gram: Array  # (r, r), H @ H.T
    inverse_rho: Array  # (n_samples,), 1 / rho of each row; here all are equal
    decay: Any  # old rho over new rho, by which the scaled dual is multiplied


def codes(problem: Problem, Wt: Array, H: Array, *, iterations: int = CODES_ITERATIONS) -> None:
    """Solve for the codes `Wt` of fixed components `H`, in place: a convex problem that separates by row."""
    if problem.is_sparse:  # of the losses that come here, only the Manhattan loss takes sparse data
        sparse_descent.median_codes(problem, Wt, H)
        return
    FixedComponents(problem.penalty_W, H, iterations=iterations).codes(problem, Wt)


class FixedComponents:
    """ADMM in consensus form for the codes of rows, here of shape (n_rows, r), of components that do not change.

    The constraint acts on a copy of the codes, so that one decomposition serves all rows and iterations (Boyd et al.
    2011, section 5). HALS sweeps instead would end far from the minimum if components are alike. The codes of a row
    must not depend on the other rows, not even in the last bit. The rounding of a BLAS product depends on its shape and
    on the position of a row, so every product has exactly :data:`ROWS` rows, and the last ones are padded.
    """

    def __init__(self, penalty: Penalties, H: Array, *, iterations: int = CODES_ITERATIONS) -> None:
        """Scale the components to norm 1, on the simplex by one number, and decompose the linear system."""
        self.penalty, self.H, self.iterations = penalty, H, iterations
        norms = np.linalg.norm(H, axis=1)
        self.tie = CODES_TIE  # weight of the difference between the codes and their feasible copy
        if "simplex" in penalty.kinds:
            norms[:] = norms.mean()  # the sum of scaled codes is then the scale
            self.tie = SIMPLEX_TIE
        scale = np.where(norms > 0, norms, H.dtype.type(1))  # (r,)
        unit = H / scale[:, None]  # (r, n), components of norm 1
        gram = unit @ unit.T
        l1, l2 = penalty.weights(len(H), np.float64)
        low, high = penalty.box(H.dtype)
        ridge = l2 / scale.astype(np.float64) ** 2
        system = gram.astype(np.float64) + self.tie * np.eye(len(H))  # S, without the ridge of the l2 penalty
        # The matrices S = gram + tie and diag(ridge) are diagonalised together: with V.T S V = 1 and
        # V.T diag(ridge) V = diag(values), the inverse of S + b diag(ridge) is V / (1 + b values) V.T for any b, here
        # 1 / rho. Without a ridge it is the inverse of S.
        values, vectors = eigh(np.diag(ridge), system)
        inverse = np.linalg.inv(system).astype(H.dtype) if not ridge.any() else None
        self.scaled = ScaledComponents(
            scale, unit, gram, (l1 / scale).astype(H.dtype), low * scale, high * scale,
            values.astype(H.dtype), vectors.astype(H.dtype), inverse,
        )  # fmt: skip

    def codes(self, problem: Problem, Wt: Array) -> None:
        """Overwrite the codes `Wt` (r, n_samples) of a problem whose `penalty_W` is that given to the constructor."""
        # Blocks are whole groups of ROWS rows. A product takes one group at a time, so that a row is rounded in the
        # same way whatever block it is in.
        work = blocks(len(problem.X), max(ROWS, rows_per_block(problem.X.shape[1]) // ROWS * ROWS))
        with one_blas_thread():
            map_blocks(lambda block: self._of_block(problem, block, Wt), work, parallel=problem.X.size > BLOCK_ELEMENTS)

    def _of_block(self, problem: Problem, block: tuple[int, int], Wt: Array) -> None:
        """Overwrite the codes of rows ``block[0]:block[1]``."""
        rows = slice(*block)
        X = _padded(problem.X[rows])
        M = None if problem.weights is None else _padded(problem.weights[rows])
        # (r, padded rows); they come for components of norm 1, so the norms `scale` (r,) divide them
        found = np.ascontiguousarray((self.iterate(problem.loss, X, M) / self.scaled.scale).T)
        penalty, dtype = self.penalty, X.dtype
        if "simplex" not in penalty.kinds:  # clipping or polishing would change the sum of codes on the simplex
            np.clip(found, *penalty.box(dtype), out=found)
            if (
                problem.loss.name in rri.LOSSES
            ):  # coordinate descent is exact near the minimum, but can stall far from it
                rri.half(replace(problem, X=X, weights=M), found, self.H, sweeps=CODES_POLISH, valued=False)
        Wt[:, rows] = found[:, : block[1] - block[0]]

    def iterate(self, loss: Loss, X: Any, M: Any) -> Any:
        """Run ADMM for rows `X` with weights `M`; return the feasible copy of the codes (n_rows, r)."""
        xp, unit = namespace_of(X), self.scaled.unit
        copy = self._start(X)
        U, dual = xp.zeros_like(X), xp.zeros_like(copy)
        model = self._product(copy, unit)
        # Codes shrunk by l1 or l2 leave residuals as large as the data. rho then starts from the residuals of a model
        # of 0, unless coordinate descent finishes the codes, as it does for `rri.LOSSES`.
        shrunk = self.penalty.shrinks and loss.name not in rri.LOSSES
        inverse_rho = _row_scales(loss, X, xp.zeros_like(model) if shrunk else model, M)
        decay = CODES_GROWTH ** (-1 / self.iterations)
        F = copy
        for iteration in range(self.iterations):
            model = self._product(F, unit, out=model)
            # U shrinks here with 1 / rho, which has not changed before the first iteration
            V = elementwise_pass(loss, X, model, U, M, inverse_rho, decay if iteration else 1.0)
            F = self._solve(self._product(V, unit.T) + self.tie * (copy - dual), inverse_rho[:, None])
            dual += F
            copy = self._project(dual)
            dual -= copy
            dual *= decay  # rho grows, and the scaled dual shrinks with 1 / rho
            inverse_rho *= decay
        return copy

    def _start(self, X: Array) -> Array:
        """Return starting codes (n_rows, r): a few HALS sweeps for least squares, projected onto the constraint."""
        F = np.zeros((len(self.H), len(X)), X.dtype)
        low, high = X.dtype.type(0), X.dtype.type(np.inf)
        l1 = l2 = np.zeros(len(F), X.dtype)
        right = np.ascontiguousarray(self._product(X, self.scaled.unit.T).T)
        offset, alternate = 0, False  # for all rows of X, with forward sweeps only
        hals_columns(F, self.scaled.gram, right, offset, low, high, l1, l2, CODES_START_SWEEPS, alternate, 0, len(X))
        return self._project(np.ascontiguousarray(F.T))

    def _solve(self, right: Any, inverse_rho: Any) -> Any:
        """Return the codes f of each row, the solution of ``(G + tie I + b ridge) f = right - b l1``."""
        scaled = self.scaled
        right -= scaled.l1 * inverse_rho
        if scaled.inverse is not None:  # no l2 penalty; else V.T (G + tie I) V = I, V.T ridge V = diag(values)
            return self._product(right, scaled.inverse)
        return self._product(self._product(right, scaled.vectors) / (1 + scaled.values * inverse_rho), scaled.vectors.T)

    def _project(self, F: Any) -> Any:
        """Project scaled codes (n_rows, r) onto the box or the simplex."""
        if "simplex" in self.penalty.kinds:
            # the scale is one number, and the sum of scaled codes
            return projections.project_simplex(F, float(self.scaled.scale[0]))
        xp = namespace_of(F)
        return xp.minimum(xp.maximum(F, self.scaled.low), self.scaled.high)

    def _product(self, F: Any, A: Any, out: Any = None) -> Any:
        """Return ``F @ A``, computed :data:`ROWS` rows at a time."""
        if len(F) == ROWS:  # a single product, without the cost of its preparation
            return np.matmul(F, A, out=out)
        if out is None:
            out = np.empty((len(F), A.shape[1]), F.dtype)
        np.matmul(F.reshape(-1, ROWS, F.shape[1]), A, out=out.reshape(-1, ROWS, A.shape[1]))
        return out


class ScaledComponents(NamedTuple):
    """Components of norm 1, and what the codes of such components are found with; see :class:`FixedComponents`."""

    scale: Any  # (r,), what the components were divided by, and codes are multiplied by
    unit: Any  # (r, n) components of norm 1
    gram: Any  # (r, r), unit @ unit.T
    l1: Any  # (r,) weights of the l1 penalty of scaled codes
    low: Any  # (r,) bounds of scaled codes
    high: Any
    values: Any  # (r,) and (r, r): the decomposition of the linear system
    vectors: Any
    inverse: Any  # (r, r), None with an l2 penalty


def elementwise_pass(loss: Loss, X: Any, V: Any, U: Any, M: Any, inverse_rho: Any, decay: float) -> Any:
    """Return the target of ADMM's next least-squares step from the model `V`; the dual `U` changes in place."""
    if is_not_numpy(X):
        target, _, _ = compiled(passes.pass_of(loss), X)(X, V, U, M, inverse_rho[:, None], number(decay, X))
        return target
    unused = np.empty((2, len(X)))  # receives losses and residuals of the rows
    _form(loss).rows(X, V, U, M, loss.parameter, inverse_rho, X.dtype.type(decay), 0, len(X), *unused)
    return V


def _padded(rows: Array) -> Array:
    """Append rows of zeros up to a multiple of :data:`ROWS`."""
    missing = -len(rows) % ROWS
    return np.pad(rows, ((0, missing), (0, 0))) if missing else rows


def _row_scales(loss: Loss, X: Any, V: Any, M: Any) -> Any:
    """Return the first ``1 / rho`` of each row (n_rows,): its mean residual over the derivative of the loss there."""
    xp = namespace_of(X)
    sizes = in_float64(xp.abs(X - V))
    weights = np.ones(X.shape[0])
    if M is None:
        means = to_numpy(xp.mean(sizes, axis=1))
    else:
        observed = in_float64(M > 0)
        n_observed = np.maximum(to_numpy(xp.sum(observed, axis=1)), 1)
        weights = to_numpy(xp.sum(in_float64(M), axis=1)) / n_observed
        weights = np.where(weights == 0, 1, weights)  # rows without observed entries
        means = to_numpy(xp.sum(sizes * observed, axis=1)) / n_observed
    means = np.where(means == 0, 1, means)  # the fit is already exact, so any positive number will do
    weights = weights**loss.record.weight_degree  # a common factor of the weights multiplies the loss by this power
    return moved(means / (weights * _slope(loss, means, X.shape[1])), X)
