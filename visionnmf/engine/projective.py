r"""Projective NMF, ``X ~ X H^T H`` (Yuan & Oja 2005): least squares and Kullback-Leibler divergence.

The gradient of either loss is a difference of two non-negative matrices, ``G = G_plus - G_minus``. With
``A = H X^T X``, ``M = A H^T`` and ``N = H H^T`` it is, for least squares ``1/2 |X - X H^T H|^2``,

.. math:: G_+ = M H + N A, \qquad G_- = 2 A

and for the divergence, with ``Z = X / (X H^T H)`` and the matrix ``1`` of ones,

.. math:: G_+ = H X^T 1 + H 1^T X, \qquad G_- = H X^T Z + H Z^T X

========  ==========================================================================================================
solver
========  ==========================================================================================================
l-bfgs    SciPy's L-BFGS-B (Zhu, Byrd, Lu & Nocedal 1997) on these gradients: never rises, and leaves the saddle
          point near which all components are alike far sooner than the multiplicative update
mu        the paper's ``H <- H * G_minus / G_plus``. Its equation 16 lacks the factor 2 of ``G_minus``, and its
          equation 22 has the quotient inverted. So no stationary point is a fixed point of the former. Each is a fixed
          point of the latter, but an unstable one. For least squares H is then scaled to spectral norm 1. For the
          divergence the square root of the quotient is used, because the full step can oscillate for ever
========  ==========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from visionnmf._typing import Array

from .blocks import BLOCK_ELEMENTS, blocks, map_blocks, n_threads, one_blas_thread, rows_per_block
from .losses import Loss, loss_value
from .stopping import Callback, Fit, Stopping

MEMORY = 10  # number of vector pairs that L-BFGS stores
MAX_CHUNKS = 16  # maximum number of chunks of rows, each with its share of the gradient
ROUNDING = 1e-13  # relative to the scale of the loss: below it, rounding hides whether a fit is exact


class _Slope(NamedTuple):
    """The loss at some components, and its gradient as ``plus - minus`` with two non-negative parts."""

    objective: float
    plus: Array
    minus: Array


class _LeastSquares:
    """The least-squares loss, a function of `H`; it uses the Gram matrix ``X.T @ X`` if smaller than the data."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.square = float(np.einsum("ij,ij->", X, X, dtype=np.float64))  # |X|^2
        self.gram: Array | None = None  # X.T @ X (n_features, n_features); None if the data are smaller
        if X.shape[1] <= X.shape[0]:
            chunks = blocks(len(X), max(1, -(-len(X) // MAX_CHUNKS)))
            self.gram, threads = np.zeros((X.shape[1], X.shape[1])), n_threads()
            # a few at a time, because each result is as large as the Gram matrix
            for first in range(0, len(chunks), threads):
                now = chunks[first : first + threads]
                for part in map_blocks(self._gram, now, parallel=X.size > BLOCK_ELEMENTS):
                    self.gram += part
        # scale of the loss: its value for H = 0
        self.size = self.square / 2

    def _gram(self, chunk: tuple[int, int]) -> Array:
        """Return the Gram matrix ``X.T @ X`` (n_features, n_features) of the rows ``chunk[0]:chunk[1]``, as doubles."""
        rows = self.X[slice(*chunk)].astype(np.float64)
        return np.asarray(rows.T @ rows)

    def __call__(self, H: Array) -> _Slope:
        """Return the loss ``|X - X H^T H|^2 / 2`` and its gradient at `H` (n_components, n_features)."""
        if self.gram is not None:  # X^T X, if it is smaller than the data
            A = H @ self.gram
        else:
            X = self.X
            A = ((H.astype(X.dtype) @ X.T) @ X).astype(np.float64)
        M, N = A @ H.T, H @ H.T
        objective = (self.square - 2 * float(np.trace(M)) + float((M * N).sum())) / 2
        return _Slope(max(0.0, objective), M @ H + N @ A, 2 * A)


class _Divergence:
    """The Kullback-Leibler divergence, a function of `H`, block by block of rows: the model is never held."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.sums = X.sum(axis=0, dtype=np.float64)  # (n_features,)
        # scale of the loss: sum of the data
        self.size = float(self.sums.sum())

    def __call__(self, H: Array) -> _Slope:
        """Return the Kullback-Leibler loss of the model ``X H^T H`` and its gradient at `H`, as plus and minus."""
        X = self.X
        components = H.astype(X.dtype)
        # at most MAX_CHUNKS, because each chunk returns a part of the gradient as large as H
        chunks = blocks(len(X), max(rows_per_block(X.shape[1]), -(-len(X) // MAX_CHUNKS)))
        parts = map_blocks(lambda chunk: self._rows(chunk, components), chunks, parallel=X.size > BLOCK_ELEMENTS)
        losses, shares, sums = zip(*parts, strict=True)
        minus, codes = np.sum(shares, axis=0), np.sum(sums, axis=0)
        return _Slope(float(sum(losses)), codes[:, None] + H.sum(axis=1)[:, None] * self.sums, minus)

    def _rows(self, chunk: tuple[int, int], H: Array) -> tuple[float, Array, Array]:
        """Return a chunk's share of the loss, of ``H X^T Z + H Z^T X`` with ``Z = X / P``, and of the codes' sums."""
        X, objective = self.X, 0.0
        minus, codes = np.zeros(H.shape), np.zeros(len(H))
        size = rows_per_block(X.shape[1])
        for first in range(*chunk, size):
            x = X[first : min(first + size, chunk[1])]
            C = x @ H.T
            # the same floor as in the loss: a model below it counts as 0
            P = np.maximum(C @ H, np.maximum(1e-7 * x.mean(axis=1, keepdims=True), 1e-30)).astype(X.dtype)
            Z = x / P
            logarithm = np.log(np.where(Z > 0, Z, 1))
            objective += float((x * logarithm - x + P).sum(dtype=np.float64))
            minus += C.T @ Z + (H @ Z.T) @ x
            codes += C.sum(axis=0, dtype=np.float64)
        return objective, minus, codes


SLOPES: dict[str, Callable[[Array], Any]] = {"frobenius": _LeastSquares, "kullback-leibler": _Divergence}


def fit(
    X: Array, H: Array, *, loss: str, solver: str, max_iter: int, tol: float, callback: Callback | None = None
) -> Fit:
    """Minimise the loss of ``X - X H^T H`` over ``H >= 0``, from the start `H` and in place."""
    with one_blas_thread():
        slope = SLOPES[loss](X)  # called with components, it returns the loss and the two parts of its gradient
        start = _scaled(H.astype(np.float64))
        log = _Log(slope, tol, callback)
        done = log.add(slope(start).objective)
        H[:] = start if done else SOLVERS[solver](slope, start, log, max_iter)
        Wt = H @ X.T
        # the last objective is evaluated again, because `H` may have been rounded to the dtype of the data
        history = [*log.history[:-1], loss_value(X, Wt, H, Loss(loss))]
    return Fit(len(history) - 1, history, log.converged, log.stopping.change)


class _Log:
    """Records the objective of each iteration, applies the stopping rule and calls the callback."""

    def __init__(self, slope: Any, tol: float, callback: Callback | None) -> None:
        self.stopping, self.callback = Stopping(tol, exact=ROUNDING * slope.size), callback
        # also true after the callback has asked to stop
        self.converged = False

    @property
    def history(self) -> list[float]:
        """The objective before the first iteration and after each one, which the stopping rule keeps."""
        return self.stopping.history

    def add(self, objective: float) -> bool:
        """Record the objective; return whether the stopping rule, or the callback as `converged`, ends the fit."""
        # An objective of at most `exact` counts as 0. It is a share of the loss of a model of zeros, so it is 0 only if
        # all data are 0, and then there is nothing to fit.
        no_data = not self.stopping.exact
        self.converged = self.stopping.add(objective) or no_data
        n_iter = len(self.history) - 1
        if n_iter and self.callback is not None and self.callback(n_iter, objective):
            self.converged = True
        return self.converged


def _scaled(H: Array) -> Array:
    """Return `H` divided by its largest singular value, which gives it the scale of a projection."""
    norm = float(np.linalg.norm(H, 2))
    return H / norm if norm > 0 else H


def _l_bfgs(slope: Any, H: Array, log: _Log, max_iter: int) -> Array:
    """Minimise over ``H >= 0`` by SciPy's L-BFGS-B and return the components; the objective never rises."""
    shape, size = H.shape, slope.size

    def value_and_gradient(h: Array) -> tuple[float, Array]:
        """Return the loss and gradient at the flat vector `h`, divided by the scale `size` of the loss, for SciPy."""
        found = slope(h.reshape(shape))
        return found.objective / size, ((found.plus - found.minus) / size).ravel()

    def after(intermediate_result: Any) -> None:
        """Add the objective of an iteration to `log`, which says whether to stop; StopIteration makes SciPy stop."""
        if log.add(float(intermediate_result.fun) * size):
            raise StopIteration

    result = minimize(
        value_and_gradient,
        H.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(np.zeros(H.size), np.inf),
        callback=after,
        # ftol and gtol are 0, because `log` decides when to stop
        options={"maxiter": max_iter, "maxcor": MEMORY, "ftol": 0, "gtol": 0, "maxfun": 20 * max_iter},
    )
    if len(log.history) <= max_iter:  # L-BFGS-B stopped early: no step decreases the objective by more than rounding
        log.converged = True
    return np.asarray(result.x).reshape(shape)


def _multiplicative(slope: Any, H: Array, log: _Log, max_iter: int) -> Array:
    """Minimise over ``H >= 0`` by multiplicative updates from `H`."""
    least_squares = isinstance(slope, _LeastSquares)
    found = slope(H)
    for _ in range(max_iter):
        # For least squares `H` is scaled to spectral norm 1, that of a projection. With the divergence the full step
        # can oscillate for ever, hence the root.
        quotient = found.minus / np.where(found.plus > 0, found.plus, 1)
        H = _scaled(H * quotient) if least_squares else H * np.sqrt(quotient)
        found = slope(H)
        if log.add(found.objective):  # records it, and says whether to stop
            break
    return H


SOLVERS: dict[str, Callable[[Any, Array, _Log, int], Array]] = {"l-bfgs": _l_bfgs, "mu": _multiplicative}


def optimality(X: Array, H: Array, *, loss: str) -> float:
    """Return how far components are from a stationary point, independent of the scale of the data; 0 at one."""
    components = H.astype(np.float64)
    with one_blas_thread():
        slope = SLOPES[loss](X)(components)
    size, steepness = float(np.linalg.norm(components)), float(np.linalg.norm(slope.plus))
    if size == 0 or steepness == 0:
        return 0.0
    moved = np.maximum(components - size / steepness * (slope.plus - slope.minus), 0)
    return float(np.linalg.norm(components - moved)) / size
