r"""Distance of factors from a stationary point, independent of the scale of the data; it is 0 at convergence.

Let ``G`` be the gradient with respect to a factor ``F`` while the other factor ``A`` is fixed. One step of
projected (or proximal) gradient, in which component k has the step length ``1 / (sigma |A_k|^2)``, moves the factor by

.. math:: \Delta_k = F_k - \mathrm{prox}\bigl(F_k - G_k / (\sigma \|A_k\|^2)\bigr),
          \qquad \text{residual} = \sqrt{\textstyle\sum_k \|A_k\|^2 \|\Delta_k\|^2} \,/\, \|X\|_F

so the residual is the change that this step would make to the model, component by component, relative to the data. For
the Frobenius loss ``sigma`` is 1 and the step is Newton's for each variable; for the other losses it turns derivatives
into units of the data: the norm of the loss's derivative at the model 0 (of its positive part ``P^(beta-1)`` at the
present model, for the divergences) over the norm of ``X``. The larger figure of the two factors is taken. It does not
change when `X` (with the penalties' weights), or the entries' weights, are multiplied by a number, nor when a component
of one factor is multiplied and of the other divided by one.

Where the loss has a kink, at a zero residual of the Manhattan and elastic-net losses, the derivative is any number of
an interval. The numbers are chosen, for each factor by itself, so that the residual is small; residuals up to
:data:`.losses.ZERO` of the mean of the data count as 0 (for the l21 loss: rows of residuals, beside the rows of the
data). So a figure of 0 says: for data that differ by at most that in an entry, neither factor alone can be improved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from visionnmf._typing import Array

from .arrays.namespace import inner, sum_of_squares
from .blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, row_blocks, rows_per_block
from .kernels.manhattan import balance_signs
from .kernels.sparse import model_entries
from .losses import ZERO, Loss
from .penalties import Penalties
from .problem import Problem
from .products import floors

ENOUGH = 1e-5  # accuracy of the balancing, relative to the size of a row's derivative
SIGN_SWEEPS = 30  # maximum number of sweeps of the balancing
MAX_CHUNKS = 16  # maximum number of chunks of rows, each with its share of the gradient of the components


def optimality(problem: Problem, Wt: Array, H: Array) -> float:
    """Return how far the factors are from a stationary point; 0 at one."""
    W64, H64 = Wt.astype(np.float64), H.astype(np.float64)
    # the norm of the data, to which changes are relative; of data of zeros, a bound of that of the model
    size = float(np.sqrt(sum_of_squares(problem.X))) or float(np.sum(_norms(W64) * _norms(H64)))
    if not size:
        return 0.0
    with one_blas_thread():
        if problem.loss.record.kink and not problem.is_sparse:
            found = _kinked_gradients(problem, W64, H64)
        else:
            found = gradients(problem, W64, H64)
    # curvature of the loss, which sets the step length: the size of its derivative over that of the data
    sigma = found.scale / size or 1.0  # 1 if the data are all 0
    changes = (
        moved_squares(W64, found.codes, _norms(H64), problem.penalty_W, sigma),
        moved_squares(H64, found.components, _norms(W64), problem.penalty_H, sigma),
    )
    return float(np.sqrt(max(changes))) / size


def projected_gradient(problem: Problem, Wt: Array, H: Array) -> float:
    """Return the norm of the gradient projected at bounds: there only what leads inside counts."""
    found = gradients(problem, Wt.astype(np.float64), H.astype(np.float64))
    total = 0.0
    for F, G, penalty in ((Wt, found.codes, problem.penalty_W), (H, found.components, problem.penalty_H)):
        bounds = penalty.entry_bounds(F.dtype)
        assert bounds is not None  # of any other constraint the projection is not one of each entry
        slope = G + penalty_gradient(penalty, F)
        slope = np.where(F > bounds[0], slope, np.minimum(slope, 0))
        total += sum_of_squares(np.where(F < bounds[1], slope, np.maximum(slope, 0)))
    return float(np.sqrt(total))


def _norms(F: Array) -> Array:
    """Return the Euclidean norm (r,) of each row of a factor (r, n_points)."""
    return np.asarray(np.sqrt(np.sum(F * F, axis=1)))


def penalty_gradient(penalty: Penalties, F: Array) -> Array:
    """Return the gradient of the penalty terms that are smooth on ``F >= 0``: within bounds also linear ones."""
    G = penalty.gradient(F)
    if penalty.entry_bounds(F.dtype) is not None:  # otherwise the prox handles linear terms, such as l1
        for term in penalty.linear:
            G += term.slope(len(F))
    return G


def moved_squares(F: Array, G: Array, norms: Array, penalty: Penalties, sigma: float) -> float:
    """Return the squared norm of the change of the model after one projected gradient step on `F` (r, n_points)."""
    # a component whose other factor is (nearly) 0 does not change the model, whatever step it takes
    used = norms > 1e-30 * np.max(norms)
    if not used.any():
        return 0.0
    G = G + penalty_gradient(penalty, F)
    steps = 1 / (sigma * np.where(used, norms, np.inf)[:, None] ** 2)
    bounds = penalty.entry_bounds(F.dtype)
    if bounds is not None:
        moved = np.clip(F - steps * G, *bounds)
    else:
        step = float(steps[used].min())
        moved = F - step * G
        penalty.prox(moved, step)
    change = norms[:, None] * (F - moved)
    return inner(change, change)


class Gradients(NamedTuple):
    """The gradients of the loss with respect to both factors, without penalties."""

    codes: Array  # (r, n_samples)
    components: Array  # (r, n)
    scale: float  # norm of the derivative at the model 0; for a divergence, of its positive part at this model


def gradients(problem: Problem, Wt: Array, H: Array) -> Gradients:
    """Return the gradients of a smooth loss, or of sparse data, at factors in double precision."""
    if problem.is_sparse:
        return _sparse_gradients(problem, Wt, H)
    X, M = problem.X, problem.weights
    loss = problem.loss
    G_W = np.empty_like(Wt)
    size = rows_per_block(X.shape[1])
    per_chunk = size * max(1, -(-len(X) // (size * MAX_CHUNKS)))  # independent of the number of threads

    def rows(chunk: tuple[int, int]) -> tuple[Array, float]:
        """Fill `G_W` for a chunk of rows; return its share of the gradient of `H` and of the derivative's square."""
        G, derivative_squares = np.zeros_like(H), 0.0
        for first, last in ((a, min(a + size, chunk[1])) for a in range(*chunk, size)):  # blocks that stay in cache
            block = slice(first, last)
            weights = 1.0 if M is None else M[block].astype(np.float64)
            codes = Wt[:, block]
            rows_P = codes.T @ H
            # `D` is the derivative at the model, and `at_zero` its scale, that at the model 0 (of a divergence its
            # positive part); the last argument, up to which residuals count as 0, is for losses with a kink
            D, at_zero = loss.record.derivative(X[block].astype(np.float64), rows_P, weights, loss.parameter, 0.0)
            G_W[:, block] = H @ D.T
            G += codes @ D
            derivative_squares += sum_of_squares(at_zero)
        return G, derivative_squares

    parts = map_blocks(rows, blocks(len(X), per_chunk), parallel=X.size > BLOCK_ELEMENTS)
    shares, squares = zip(*parts, strict=True)
    return Gradients(G_W, np.sum(shares, axis=0), float(np.sqrt(sum(squares))))


# --- losses with a kink -----------------------------------------------------------------------------------------------


class Derivatives(NamedTuple):
    """The derivative of a kinked loss at the entries of some rows; residuals of at most `tiny` count as 0."""

    X: Array  # (n_rows, n)
    M: Array | None  # weights of the entries
    loss: Loss
    tiny: float

    @classmethod
    def of(cls, problem: Problem, tiny: float) -> Derivatives:
        """Return the derivatives of a problem with dense data; residuals of at most `tiny` count as 0."""
        return cls(problem.X, problem.weights, problem.loss, tiny)

    @property
    def transposed(self) -> Derivatives:
        """The derivatives of the transposed data, with the features as rows."""
        return self._replace(X=self.X.T, M=None if self.M is None else self.M.T)

    def squares_at_zero(self) -> float:
        """Return the squared norm of the derivative of the loss at the model 0, over all entries of the data."""
        total = 0.0
        for first, last in row_blocks(self.X):
            part = self.X[first:last].astype(np.float64)
            weights = 1.0 if self.M is None else self.M[first:last]
            # the second result, the size of the derivative at the model 0, does not depend on the model that is passed
            total += sum_of_squares(self.loss.record.derivative(part, part, weights, self.loss.parameter, self.tiny)[1])
        return total

    def rows(self, part: slice, F: Array, A: Array) -> tuple[Array, Array, Array]:
        """Return the derivative of some rows, 0 at zero residuals, a mask of these, and the bounds of it there."""
        M = self.M
        P = F[:, part].T @ A
        zero = np.abs(P - self.X[part]) <= self.tiny
        weights = 1.0 if M is None else M[part]
        D = self.loss.record.derivative(self.X[part].astype(np.float64), P, weights, self.loss.parameter, self.tiny)[0]
        if M is not None:
            zero &= M[part] > 0
        bounds = np.ones(np.count_nonzero(zero)) if M is None else M[part][zero].astype(np.float64)
        return D, zero, self.loss.record.kink * bounds

    def parts(self, F: Array, A: Array) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Yield a slice of rows, their derivative, the mask of zero residuals and the bounds there, block by block."""
        for block in row_blocks(self.X):
            part = slice(*block)
            yield part, *self.rows(part, F, A)


def _kinked_gradients(problem: Problem, Wt: Array, H: Array) -> Gradients:
    """Return the gradients of a kinked loss with respect to `Wt` and `H`, and the norm of its derivative."""
    tiny = ZERO * float(problem.X.mean(dtype=np.float64))  # residuals up to this count as 0
    derivatives = Derivatives.of(problem, tiny)
    squares = derivatives.squares_at_zero()
    # the accuracy of the choice is relative to `row_squares`, the mean squared derivative of a row or feature
    G_W = kinked_half(derivatives, Wt, H, problem.penalty_W, row_squares=squares / len(problem.X))
    G_H = kinked_half(derivatives.transposed, H, Wt, problem.penalty_H, row_squares=squares / problem.X.shape[1])
    return Gradients(G_W, G_H, float(np.sqrt(squares)))


def kinked_half(derivatives: Derivatives, F: Array, A: Array, penalty: Penalties, row_squares: float) -> Array:
    """Return the gradient of a kinked loss with respect to `F` (r, n_rows) for the model ``F.T @ A`` of some data."""
    G = np.empty_like(F)
    balance = _Balance(F, A, penalty, row_squares)

    def rows(block: tuple[int, int]) -> None:
        part = slice(*block)
        D, zero, bounds = derivatives.rows(part, F, A)
        row_of, columns = np.nonzero(zero)
        starts = np.searchsorted(row_of, np.arange(len(zero) + 1))  # where the zero residuals of each row begin
        G[:, part] = balance(part, A @ D.T, starts, columns, bounds)

    X = derivatives.X
    map_blocks(rows, row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
    return G


def places(penalty: Penalties, F: Array) -> Array:
    """Return where entries lie, for :func:`.balance_signs`: 0 at the lower bound, 1 at the upper one, 0.5 between."""
    low, high = penalty.entry_bounds(F.dtype) or penalty.box(F.dtype)
    return np.where(F <= low, 0.0, np.where(F >= high, 1.0, 0.5))


class _Balance:
    """Chooses the derivative at zero residuals of some rows; works in units in which components of `A` have norm 1."""

    def __init__(self, F: Array, A: Array, penalty: Penalties, row_squares: float) -> None:
        norms = np.linalg.norm(A, axis=1)
        self.norms = np.where(norms > 0, norms, 1)[:, None]  # (r, 1)
        self.unit = np.ascontiguousarray((A / self.norms).T)  # (n, r), components of norm 1
        squares = np.einsum("ij,ij->i", self.unit, self.unit)
        self.squares = np.where(squares > 0, squares, np.inf)  # (n,) squared norms of its rows
        self.places = places(penalty, F)
        self.penalty_gradient = penalty_gradient(penalty, F)  # (r, n_rows)
        self.enough = ENOUGH * float(np.sqrt(row_squares))

    def __call__(self, part: slice, G: Array, starts: Array, columns: Array, bounds: Array) -> Array:
        """Return the gradient `G` of these rows with the best derivatives at the zero residuals in `columns`."""
        total = np.ascontiguousarray(((G + self.penalty_gradient[:, part]) / self.norms).T)
        within = np.ascontiguousarray(self.places[:, part].T)
        # overwrites `total`; the last two arguments are the derivatives to be found and working memory
        balance_signs(
            starts, columns, bounds, self.unit, self.squares, within, total, self.enough,
            SIGN_SWEEPS, np.zeros(len(columns)), np.empty(len(self.places)),
        )  # fmt: skip
        return total.T * self.norms - self.penalty_gradient[:, part]


# --- sparse data: Gram matrices and the stored entries ----------------------------------------------------------------


def _sparse_gradients(problem: Problem, Wt: Array, H: Array) -> Gradients:
    """Return the gradients of the loss of sparse data."""
    X, form = problem.X, problem.loss.record.sparse
    assert form is not None
    # what entries that are not stored add to the squared derivative at the model 0
    not_stored = 0.0 if form.squared else problem.zero_weight**2 * (float(X.shape[0]) * X.shape[1] - X.nnz)
    derivative_squares = sum_of_squares(form.derivative_scale(X.data, problem.loss.parameter)) + not_stored
    G_W, G_H = _sparse_half(problem, Wt, H), _sparse_half(problem.transposed, H, Wt)
    return Gradients(G_W, G_H, float(np.sqrt(derivative_squares)))


def _sparse_half(problem: Problem, F: Array, A: Array) -> Array:
    """Return the gradient with respect to `F`: as if all data were 0, plus the correction at the stored entries."""
    # An entry that is not stored costs ``weight p^2 / 2`` if the sparse form is `squared`, otherwise ``weight p``.
    # Where the loss has a kink and `X` is 0, the derivative is `weight` even if the model is 0, because that can only
    # grow.
    X, loss, weight = problem.X, problem.loss, problem.zero_weight
    form, kink = loss.record.sparse, loss.record.kink
    assert form is not None
    points, levels = np.ascontiguousarray(A.T), floors(X)
    if_zero = weight * (A @ A.T if form.squared else A.sum(axis=1)[:, None])
    tiny = ZERO * float(X.sum(dtype=np.float64)) / (float(X.shape[0]) * X.shape[1])
    # the mean squared derivative of a row: at stored entries the derivative of a loss with a kink is about 1 or -1
    balance = _Balance(F, A, problem.penalty_W, row_squares=X.nnz / X.shape[0]) if kink else None
    result = np.empty_like(F)

    def rows(block: tuple[int, int]) -> None:
        part = slice(*block)
        # `points` (n, r) is the fixed factor; entries of the model below `levels`, one for each row, are raised to it
        stored = X[part].astype(np.float64)
        model, floor = np.empty(stored.nnz), np.repeat(levels[part], np.diff(stored.indptr))
        model_entries(
            stored.indices, stored.indptr, np.ascontiguousarray(F[:, part].T), points, 0, stored.shape[0], model
        )
        zero = np.abs(model - stored.data) <= tiny if kink else np.zeros(len(model), bool)
        # from here `stored` holds derivatives, less those of an entry that is 0; at a zero residual the derivative is 0
        stored.data = form.deviation(stored.data, np.where(zero, stored.data, model), floor, weight, loss.parameter)
        G = (if_zero @ F[:, part] if form.squared else if_zero) + (stored @ points).T
        if balance is not None:
            # where the zero residuals of each row begin, and their columns
            starts, columns = np.concatenate([[0], np.cumsum(zero)])[stored.indptr], stored.indices[zero]
            G = balance(part, G, starts, columns.astype(np.int64), np.full(len(columns), kink))
        result[:, part] = G

    map_blocks(rows, row_blocks(X), parallel=X.nnz > BLOCK_ELEMENTS)
    return result
