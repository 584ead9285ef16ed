"""Extrapolated hierarchical alternating least squares for the Frobenius loss.

HALS (Cichocki & Phan 2009, Algorithm 2) with several sweeps a product with the data, and extrapolation between
iterations with restarts (Ang & Gillis 2019, Algorithm 3): a step that raises the objective is taken back, so the
objective never rises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from visionnmf.engine import _kernels
from visionnmf.engine._threads import blocks, map_blocks, one_blas_thread
from visionnmf.engine.losses import BLOCK_ELEMENTS, loss_value, rows_per_block
from visionnmf.engine.penalties import Box

from ._progress import Progress

__all__ = ["codes", "iterate"]

Array = NDArray[Any]

SWEEPS = 4  # share one product with the data
FIRST_MOMENTUM = 0.5
MOMENTUM_GROWTH = 1.05  # after an accepted iteration
CEILING_GROWTH = 1.01  # of the largest momentum, which a restart lowers to the momentum that failed
MOMENTUM_FLOOR = 0.3  # from which it grows again after a restart
CODES_TOLERANCE = 1e-6  # of the largest code in a block of rows
CODES_SWEEPS = 200
KKT_TOLERANCE = 1e-8  # of the largest entry of a row's right-hand side
SOLVE_ELEMENTS = 1 << 20  # of the matrices of the linear solves that are held at once


def _sweep(F: Array, gram: Array, right: Array, *, box: Box, sweeps: int) -> None:
    low, high = box.of(F.dtype)
    zero = F.dtype.type(0)

    def columns(block: tuple[int, int]) -> None:
        _kernels.hals_columns(F, gram, right, 0, low, high, zero, sweeps, *block)

    map_blocks(columns, blocks(F.shape[1], 4 * _kernels.TILE), parallel=F.size * F.shape[0] > 4 * BLOCK_ELEMENTS)


def iterate(X: Array, Wt: Array, H: Array, *, box_W: Box, box_H: Box, max_iter: int) -> Iterator[Progress]:
    """Improve both factors in place, a few sweeps each; see :func:`.admm.iterate`.

    Yields
    ------
    Progress
        The change is the decrease of the objective in the iteration before, relative to the first objective.
    """
    square = float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    Xt = X.T
    first = objective = loss_value(X, Wt, H, "frobenius")
    W_last, H_last = Wt.copy(), H.copy()  # the last accepted factors, before extrapolation
    W_ahead, H_ahead = Wt.copy(), H.copy()  # after it
    momentum, ceiling, safe = FIRST_MOMENTUM, 1.0, False
    for _ in range(max_iter):
        before = objective
        W_new = W_ahead.copy()
        _sweep(W_new, _product(H_ahead, H_ahead.T), _product(H_ahead, Xt), box=box_W, sweeps=SWEEPS)
        W_next = _extrapolated(W_new, W_last, momentum, box_W)
        gram, right = _product(W_next, W_next.T), _product(W_next, X)
        H_new = H_ahead.copy()
        _sweep(H_new, gram, right, box=box_H, sweeps=SWEEPS)
        found = _objective(X, W_next, H_new, gram, right, square)
        if found <= objective or safe:
            # without momentum a rise can only be rounding
            objective = min(found, objective)
            Wt[:], H[:] = W_next, H_new
            W_ahead, H_ahead = W_next, _extrapolated(H_new, H_last, momentum, box_H)
            W_last, H_last = W_new, H_new
            ceiling = min(1.0, CEILING_GROWTH * ceiling)
            momentum = min(ceiling, MOMENTUM_GROWTH * max(momentum, MOMENTUM_FLOOR))
            safe = False
        else:
            ceiling, momentum = momentum, 0.0
            W_ahead, H_ahead = Wt.copy(), H.copy()
            W_last, H_last = Wt.copy(), H.copy()
            safe = True
        yield Progress(before, 1.0 if safe else (before - objective) / first if first > 0 else 0.0)


def _product(A: Array, B: Array) -> Array:
    """Multiply in our threads with one BLAS thread each; OpenBLAS's own stall when another process holds a core."""
    result = np.empty((A.shape[0], B.shape[1]), A.dtype)

    def columns(block: tuple[int, int]) -> None:
        start, stop = block
        np.matmul(A, B[:, start:stop], out=result[:, start:stop])

    with one_blas_thread():
        map_blocks(columns, blocks(B.shape[1], 256), parallel=A.size * B.shape[1] > 4 * BLOCK_ELEMENTS)
    return result


def _extrapolated(new: Array, old: Array, momentum: float, box: Box) -> Array:
    ahead = new - old
    ahead *= new.dtype.type(momentum)
    ahead += new
    return np.clip(ahead, *box.of(new.dtype), out=ahead)


def _objective(X: Array, Wt: Array, H: Array, gram: Array, right: Array, square: float) -> float:
    """Evaluate the loss from the products at hand, unless it is so small that their rounding would show."""
    inner = float(np.einsum("ij,ij->", right, H, dtype=np.float64))
    model = float(np.einsum("ij,ij->", gram, _product(H, H.T), dtype=np.float64))
    loss = (square - 2 * inner + model) / 2
    if loss > square * float(np.finfo(X.dtype).eps) ** 0.5:
        return loss
    with one_blas_thread():
        return loss_value(X, Wt, H, "frobenius")


def codes(X: Array, Wt: Array, H: Array, *, box_W: Box) -> None:
    """Solve the non-negative least-squares problem of each row; see :func:`.admm.codes`.

    Coordinate descent finds which codes are at a bound, one linear solve a row the others (an active-set step). Rows
    for which the two do not settle it, as where components are alike, go to SciPy's solvers. In double precision.
    """
    A = H.astype(np.float64)
    gram = _product(A, A.T)
    low, high = box_W.of(np.float64)

    def solve(block: tuple[int, int]) -> None:
        start, stop = block
        right = A @ X[start:stop].T.astype(np.float64)
        F = np.full((len(A), stop - start), low)
        for _ in range(CODES_SWEEPS // 10):
            change = _kernels.hals_columns(F, gram, right, 0, low, high, 0.0, 10, 0, stop - start)
            if change <= CODES_TOLERANCE * float(F.max(initial=0)):
                break
        for first, last in blocks(stop - start, max(1, SOLVE_ELEMENTS // len(A) ** 2)):
            _settle(F[:, first:last], gram, right[:, first:last], low, high)
        Wt[:, start:stop] = F

    with one_blas_thread():
        map_blocks(solve, blocks(X.shape[0], rows_per_block(X.shape[1])), parallel=X.size > BLOCK_ELEMENTS)


def _settle(F: Array, gram: Array, right: Array, low: float, high: float) -> None:
    """Make columns of `F` the exact minimisers of ``f G f / 2 - b f`` in the box, in place."""
    f, b = F.T, right.T
    free = (f > low) & (f < high)
    # a bound code keeps its value: its equation becomes the identity
    system = gram * (free[:, :, None] & free[:, None, :]) + np.eye(len(gram)) * ~free[:, :, None]
    system += np.eye(len(gram)) * (np.finfo(np.float64).eps * gram.diagonal().max(initial=0))
    fixed = np.where(free, 0.0, f)
    exact = np.linalg.solve(system, np.where(free, b - fixed @ gram, f)[..., None])[..., 0]
    slack = KKT_TOLERANCE * np.abs(b).max(axis=1, keepdims=True)

    def optimal(codes: Array) -> Array:
        gradient = codes @ gram - b
        inside = ((codes >= low) & (codes <= high)).all(axis=1)
        stationary = (gradient >= -slack) | (codes >= high)
        stationary &= (gradient <= slack) | (codes <= low)
        return np.asarray(inside & stationary.all(axis=1))

    settled = optimal(exact)
    F[:, settled] = exact[settled].T
    for j in np.flatnonzero(~settled & ~optimal(F.T)):
        F[:, j] = _scipy_codes(gram, b[j], low, high)


def _scipy_codes(gram: Array, b: Array, low: float, high: float) -> Array:
    values, vectors = np.linalg.eigh(gram)
    kept = values > np.finfo(np.float64).eps * len(gram) * values.max(initial=0)
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T  # root.T @ root = gram
    target = (vectors[:, kept].T @ b) / np.sqrt(values[kept])
    if not len(root):
        return np.full(len(gram), low)
    return np.asarray(lsq_linear(root, target, (low, high), method="bvls", tol=1e-12).x)
