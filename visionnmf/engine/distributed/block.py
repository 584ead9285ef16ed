"""One block of rows with its codes, and what it answers to the messages of a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import sum_of_squares
from visionnmf.engine.kernels.manhattan import balance_signs
from visionnmf.engine.optimality import Derivatives, gradients, kinked_half, moved_squares
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import admm, hals
from visionnmf.engine.solvers.momentum import rescale
from visionnmf.engine.solving import solve_codes
from visionnmf.engine.starts import absolute_normal
from visionnmf.engine.stopping import exact_objective

from .storage import ArrayFile, Mapped, stored_fields, zeros

BALANCE_SWEEPS = 3  # of coordinate descent over the derivatives at kinks, for each round of all blocks


class Largest:
    """A number, or array, of each block; what is added up over the blocks is the largest, entry by entry."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.value, other.value))


class BlockData(NamedTuple):
    """The checked data of a block: what a worker reads, or computes again if another worker was lost.

    Matrices are arrays, or files (:class:`.ArrayFile`) in a `directory` of this machine, where the dual then lies, too.
    `X` (n_rows, n), an array or a csr_array, and the weights of its entries, or None, are the data as they were given.
    With weights of samples,
    `fitted` and `entries` take their place in the fit, and the rows of `fitted` were multiplied by `row_scale`
    (n_rows,) if that is not None. `codes` (n_rows, r) are given codes to start from, or None.
    """

    X: Any
    weights: Array | None = None
    fitted: Any = None
    entries: Array | None = None
    row_scale: Array | None = None
    codes: Array | None = None
    directory: str | None = None

    def in_files(self, directory: str) -> BlockData:
        """Return the same data with all matrices in files of a directory, in which ADMM then also keeps its dual."""
        stored: dict[str, Any] = stored_fields(self._asdict(), directory)
        return self._replace(**stored, directory=directory)


class Sums(NamedTuple):
    """What is known of the data before the loss: sums over the entries, and their largest weight."""

    total: float  # of the data as they enter the fit
    n_entries: float
    n_observed: float  # number of entries whose weight is not 0
    observed: float  # sum of the given data, without weights of samples
    n_given: float  # number of their observed entries
    squares: float
    n_weighted: float  # number of blocks with weights
    largest_weight: Largest  # of an entry; 1 without weights


class CodesUpdate(NamedTuple):
    """What an update of the codes of some rows tells the update of the components; of several blocks, the sums."""

    gram: Array  # (r, r), of the extrapolated codes
    right: Array  # (r, n), their product with the data
    penalty: float
    largest: Largest  # (r,) largest code of each component


class ReportSums(NamedTuple):
    """Figures of the final codes of some rows; of several blocks, the sums."""

    loss: float
    penalty: float  # of the codes
    used: Array  # (r,) how many blocks use each component
    n_nonzero: float  # samples that are not 0,
    n_lost: float  # and those of them whose codes are all 0
    n_entries: float  # entries that are not 0


class Block:
    """The rows of one block, their codes `Wt` (r, n_rows), and the state of a solver, which :meth:`begin` resets."""

    def __init__(self, data: BlockData) -> None:
        """Take the data of the block, and map files into memory; :meth:`begin` is the first message of a fit."""
        self._mapped = Mapped()  # the arrays in files
        stored = {name: value for name, value in data._asdict().items() if isinstance(value, ArrayFile)}
        opened: dict[str, Any] = {name: self._mapped.open(value) for name, value in stored.items()}
        self.data = data._replace(**opened)
        self.problem: Problem  # with the weights of samples; set by `begin`
        self.given: Problem  # without them
        self.Wt: Array  # codes of `problem`
        self._written: Array | None = None  # array as large as the data that each pass writes to, as the dual
        self._rows: admm.AdmmInMemory  # the pass of ADMM, with its dual
        self._halves: Any  # updates of least squares: `hals.Gram`, `hals.Filled` or `hals.Clipped`
        self._codes: hals.ExtrapolatedCodes  # the codes before and after extrapolation
        self._gradient: Array  # (r, n_rows) of the loss with respect to the codes
        self._zero_residuals: _ZeroResiduals  # entries of some features with a residual of 0, set by `find_kinks`

    def release(self) -> None:
        """Give the memory of the arrays that lie in files back to the system, until the next message needs them."""
        self._mapped.release()

    def sums(self) -> Sums:
        """Return the :class:`Sums` over the data that enter the fit and, for the mean, over those that were given."""
        data = self.data
        X = data.X if data.fitted is None else data.fitted
        weights = data.weights if data.fitted is None else data.entries
        n_entries = X.shape[0] * X.shape[1]  # also those that sparse data do not store
        given = n_entries if data.weights is None else np.count_nonzero(data.weights)
        largest = 1.0 if weights is None else float(weights.max(initial=0))
        n_observed = n_entries if weights is None else np.count_nonzero(weights)
        return Sums(
            float(X.sum(dtype=np.float64)), float(n_entries), float(n_observed), float(data.X.sum(dtype=np.float64)),
            float(given), sum_of_squares(X), float(weights is not None), Largest(largest),
        )  # fmt: skip

    # --- the start ----------------------------------------------------------------------------------------------------

    def begin(self, problem: Problem) -> None:
        """Take loss and penalties from a problem without data; its weights are None if no block has any."""
        data, weights = self.data, self.data.weights
        if problem.weights is not None and weights is None:
            weights = np.ones_like(data.X)
        self.given = replace(problem, X=data.X, weights=weights)
        self.problem = self.given
        if data.fitted is not None:
            weights = weights if data.entries is None else data.entries
            self.problem = replace(problem, X=data.fitted, weights=weights)

    def empty_codes(self, n_components: int) -> None:
        """Make room for the codes `Wt` (n_components, n_rows) of this block, without setting them."""
        self.Wt = np.empty((n_components, self.data.X.shape[0]), self.data.X.dtype)

    def draw_codes(self, seed: int, scale: float) -> None:
        """Draw the codes from a seed of this block, as absolute normal numbers of standard deviation `scale`."""
        self.Wt[:] = absolute_normal(RandomState(seed), self.Wt.shape, scale, self.Wt.dtype)

    def take_codes(self) -> None:
        """Take the given codes, each row times the number by which the fit multiplies that row of data."""
        assert self.data.codes is not None
        self.Wt[:] = self.data.codes.T
        if self.data.row_scale is not None:
            self.Wt *= self.data.row_scale

    def code_sums(self) -> tuple[Array]:
        """Return the sums of the codes of each component (r,), in a tuple because the crew adds up tuples."""
        return (self.Wt.sum(axis=1, dtype=np.float64),)

    def start(self, factor: float) -> None:
        """Multiply the codes by a number, with which they match given components, and make them feasible."""
        self.Wt *= self.Wt.dtype.type(factor)
        self.problem.penalty_W.feasible(self.Wt)

    def exact_objective(self) -> tuple[float]:
        """Return the objective up to which a fit counts as exact, for the rows of this block."""
        return (exact_objective(self.problem),)

    # --- the solvers --------------------------------------------------------------------------------------------------

    def totals(self) -> admm.Totals:
        """Return the sums of this block that set the scale of rho, which grows along a path; prepare a pass of ADMM."""
        self._rows = admm.AdmmInMemory(self.problem, self.Wt, self._large_zeros())
        return admm.Totals.of(self.problem)

    def _large_zeros(self) -> Array:
        """Return zeros in the shape and dtype of the data, in a mapped file if the data are in one."""
        X, directory = self.problem.X, self.data.directory
        self._written = np.zeros_like(X) if directory is None else self._mapped.open(zeros(X.shape, X.dtype, directory))
        return self._written

    def admm_step(self, H: Array, inverse_rho: float, decay: float) -> admm.Pass:
        """Update the codes by one pass of ADMM for components `H` (r, n); return the sums that their update needs."""
        self._mapped.load(self._written)  # the pages of the dual in one call; the pass would map them one by one
        return self._rows.step(H, inverse_rho, decay)

    def prepare_descent(self, kind: str, largest: float) -> None:
        """Choose the updates: "gram" without weights, "filled" with weights, "clipped" for the Huber loss."""
        # the pass of ADMM is over, and its dual as large as the data
        self._rows = None  # type: ignore[assignment]
        if kind == "gram":
            self._halves = hals.Gram(self.problem)
        elif kind == "filled":
            assert self.problem.weights is not None
            self._halves = hals.Filled(self.problem, self.problem.weights, largest, self._large_zeros())
        else:
            largest_weight = largest if self.problem.weights is not None else None
            self._halves = hals.Clipped(self.problem, largest_weight, self._large_zeros())
        self._codes = hals.ExtrapolatedCodes(self.Wt, self.problem.penalty_W)

    def improve_codes(self, H: Array, momentum: float) -> CodesUpdate:
        """Update the codes by sweeps of HALS for fixed components `H` (r, n), and extrapolate them by `momentum`."""
        self._mapped.load(self._written)  # the pages of an array that the step writes, in one call and not one by one
        self._codes.step(self._halves, H, momentum)
        new = self._codes.new_extrapolated
        penalty = self.problem.penalty_W.value(new)
        gram, right = self._halves.statistics(new)
        return CodesUpdate(gram, right, penalty, Largest(new.max(axis=1, initial=0)))

    def next_loss(self, H: Array) -> tuple[float]:
        """Return the loss of `H` (r, n) and the extrapolated codes of the last update, which is not yet accepted."""
        return (self.problem.loss_value(self._codes.new_extrapolated, H),)

    def accept(self, exponents: Array | None) -> None:
        """Keep the last update of the codes, and multiply those of component k by ``2 ** exponents[k]``."""
        self._codes.accept()
        if exponents is not None:
            rescale(self._codes.versions, exponents)  # all versions of the codes that outlast an iteration

    def reject(self) -> None:
        """Drop the last update of the codes, and go on from the best codes so far without extrapolation."""
        self._codes.reject()

    def objective(self, H: Array) -> tuple[float, float]:
        """Return the loss for components `H` (r, n), and the penalty of the codes, both for the rows of this block."""
        return self.problem.loss_value(self.Wt, H), self.problem.penalty_W.value(self.Wt)

    # --- the report ---------------------------------------------------------------------------------------------------

    def finish(self, H: Array, penalty: Any) -> None:
        """Find the codes `found` (r, n_rows) of the final components for the given data; drop the solver's state."""
        self._rows = self._halves = self._codes = None  # type: ignore[assignment]
        self.found = solve_codes(replace(self.given, penalty_W=penalty), H)
        scale = self.data.row_scale
        self.Wt = self.found if scale is None else self.found * scale
        self.problem = replace(self.problem, penalty_W=penalty)

    def report(self, H: Array) -> ReportSums:
        """Return what the report of a fit adds up over the blocks, for the final codes and components `H` (r, n)."""
        X = self.problem.X
        nonzero = X.sum(axis=1, dtype=np.float64) > 0
        lost = nonzero & ~self.Wt.any(axis=0)
        n_entries = np.count_nonzero(X.data if self.problem.is_sparse else X)
        used = np.asarray(self.Wt.any(axis=1), np.float64)
        return ReportSums(*self.objective(H), used, float(nonzero.sum()), float(lost.sum()), float(n_entries))

    def code_squares(self) -> tuple[Array, float]:
        """Return the squared norms of the codes (r,), and that of a kinked loss's derivative at the model 0, or 0."""
        W = self.Wt.astype(np.float64)
        squares = Derivatives.of(self.problem, tiny=0.0).squares_at_zero() if self.problem.loss.record.kink else 0.0
        return np.einsum("ij,ij->i", W, W), squares

    def gradients(self, H: Array, tiny: float, row_squares: float) -> tuple[Array, float]:
        """Keep the gradient of the codes; return that of `H`, and the squared derivative at 0 (0 with a kink)."""
        problem, W, H = self.problem, self.Wt.astype(np.float64), H.astype(np.float64)
        if not problem.loss.record.kink:
            found = gradients(problem, W, H)
            self._gradient = found.codes
            return found.components, found.scale**2
        derivatives = Derivatives.of(problem, tiny)
        self._gradient = kinked_half(derivatives, W, H, problem.penalty_W, row_squares)
        G_H = np.zeros_like(H)
        for rows, D, _, _ in derivatives.parts(W, H):
            G_H += W[:, rows] @ D
        return G_H, 0.0

    def find_kinks(self, H: Array, first: int, last: int, tiny: float) -> None:
        """Keep the entries of the features ``first:last`` whose residual is at most `tiny`, for :meth:`balance`."""
        problem, features = self.problem, slice(first, last)
        weights = None if problem.weights is None else problem.weights[:, features]
        part = Derivatives(problem.X[:, features], weights, problem.loss, tiny)
        self._zero_residuals = _ZeroResiduals(part, self.Wt.astype(np.float64), H[:, features].astype(np.float64))

    def balance(self, total: Array, within: Array, norms: Array, enough: float) -> tuple[Array]:
        """Find derivatives at the kinks as if this block were alone; return the change of the components' gradient."""
        unit = np.ascontiguousarray((self.Wt.astype(np.float64) / norms[:, None]).T)
        return (self._zero_residuals.balance(unit, total, within, enough),)

    def move(self, shares: Array) -> None:
        """Move the derivatives at the kinks of feature j by ``shares[j]`` towards those of :meth:`balance`."""
        self._zero_residuals.move(shares)

    def moved(self, norms: Array, sigma: float) -> tuple[float]:
        """Return the squared change of the model by a gradient step on the codes."""
        W = self.Wt.astype(np.float64)
        return (moved_squares(W, self._gradient, norms, self.problem.penalty_W, sigma),)


class _ZeroResiduals:
    """The entries of a block whose residual is 0, where the loss has a kink, and the derivative chosen at each."""

    def __init__(self, derivatives: Derivatives, W: Array, H: Array) -> None:
        """Find the zero residuals of codes and components; their derivatives `signs`, within `bounds`, begin as 0."""
        parts = []
        for _, _, zero, limits in derivatives.parts(W, H):  # the rows and their other derivatives are not needed
            part = sp.csr_array(zero, dtype=np.float64)  # (rows of the part, n_features); stores the zero residuals
            part.data = limits
            parts.append(part)
        self.bounds = sp.csc_array(sp.vstack(parts))  # the largest derivatives at the kinks
        self.signs = np.zeros(self.bounds.nnz)  # derivatives, one feature after the other
        self.goal = self.signs  # those that this block would choose if it were alone, towards which `move` goes

    def balance(self, unit: Array, total: Array, within: Array, enough: float) -> Array:
        """Choose derivatives by coordinate descent as the `goal`; return the change of the gradient `total` (r, n)."""
        bounds = self.bounds
        squares = np.einsum("ij,ij->i", unit, unit)
        G = np.ascontiguousarray(total.T)
        self.goal = self.signs.copy()
        balance_signs(
            bounds.indptr.astype(np.int64), bounds.indices.astype(np.int64), bounds.data, unit,
            np.where(squares > 0, squares, np.inf), np.ascontiguousarray(within.T), G, enough,
            BALANCE_SWEEPS, self.goal, np.empty(len(total)),
        )  # fmt: skip
        return np.asarray(G.T - total)

    def move(self, shares: Array) -> None:
        """Move the derivatives of feature j by the share ``shares[j]`` towards the `goal`."""
        self.signs += np.repeat(shares, np.diff(self.bounds.indptr)) * (self.goal - self.signs)
