"""Coordinate descent on sparse data for "rri", "ccd" and, if unstored entries are missing, "hals".

Rows are updated as for dense data, but only their stored entries are visited. The other entries enter through the sums
of the fixed factor, so a sweep costs O(nnz r). Each row's components are first gathered into a small dense matrix,
which all sweeps share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from visionnmf._typing import Array
from visionnmf.engine.blocks import BLOCK_ELEMENTS, map_blocks, one_blas_thread, row_blocks, sum_rounding
from visionnmf.engine.kernels import manhattan as _kernels, sparse as _sparse_kernels
from visionnmf.engine.penalties import NONNEGATIVE, SEPARABLE
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import floors
from visionnmf.engine.stopping import Iteration
from visionnmf.exceptions import ParameterError

SWEEPS = 2  # sweeps that share one gathering of the components
CODES_SWEEPS = 500
CODES_TOLERANCE = 1e-6  # of a row's largest code
CODES_ITERATIONS = 200  # of ADMM for the Manhattan loss; the constants below have the meaning they have in :mod:`.admm`
CODES_GROWTH = 30.0
CODES_COUPLING = 0.01  # weight of the difference between the codes of ADMM's linear step and their copy in the bounds
CODES_START_SWEEPS = 30  # maximum number of least-squares sweeps that provide the start of ADMM
CODES_POLISH = 30
TRACE = 1e-9  # a component with less than this share of its sum on a row's stored entries counts as absent there
LEAST_SHARE = 1e-100  # the same for its norm there, relative to the largest component and to the code's cost


def refuse_coupled(problem: Problem) -> None:
    """Raise ParameterError if either penalty has other terms than a box, l1 and l2, which couple updates."""
    for name, penalty in (("penalty_W", problem.penalty_W), ("penalty_H", problem.penalty_H)):
        kinds = penalty.beyond(SEPARABLE)
        if kinds:
            raise ParameterError(
                f"{name} must be separable for a sparse X with {problem.loss.label}; got one with "
                f"{' and '.join(kinds)}; pass X.toarray(), or leave it out"
            )


def median_half(problem: Problem, Ft: Array, A: Array, *, sweeps: int) -> float:
    """Update the codes in place by weighted medians (Manhattan loss, sparse `X`); return the loss before."""
    X, penalty = problem.X, problem.penalty_W
    points, sums = np.ascontiguousarray(A.T), A.sum(axis=1, dtype=np.float64)  # (n, r) and (r,)
    box_l1_l2 = (*penalty.box(X.dtype), *penalty.weights(len(A), X.dtype))
    losses = np.empty(X.shape[0])
    rounding, zero_weight = sum_rounding(X.dtype), float(problem.zero_weight)  # relative rounding of sums

    def sweep(block: tuple[int, int]) -> None:
        longest = _longest_row(X.indptr, *block)
        # `points` and `sums` are the components (n, r) and their sums (r,), which serve the entries that are not
        # stored; `rounding` is the relative error of a sum, and the arrays in the last line are scratch
        _kernels.rri_sparse_rows(
            X.data, X.indices, X.indptr, Ft, points, sums, zero_weight, *box_l1_l2, sweeps, rounding, *block, losses,
            np.empty((len(A), longest), X.dtype), np.empty((3, longest), X.dtype), np.empty(len(A)),
        )  # fmt: skip

    work = row_blocks(X)
    map_blocks(sweep, work, parallel=len(work) > 1)
    return float(losses.sum())


def newton_half(problem: Problem, Ft: Array, A: Array, *, sweeps: int, tol: float = 0) -> float:
    """Update the codes by Newton steps on the Kullback-Leibler divergence of sparse data; return the loss before."""
    sums = A.sum(axis=1, dtype=np.float64).astype(problem.X.dtype)
    if problem.zero_weight == 0:
        sums = sums[:0]  # empty: the kernel then sums A over the stored entries of each row instead
    return _descend(problem, Ft, A, sums, floors(problem.X), sweeps, tol)


def residual_half(problem: Problem, Ft: Array, A: Array, *, sweeps: int, tol: float = 0) -> float:
    """Update the codes by least squares on the stored entries only; return the loss before."""
    return _descend(problem, Ft, A, sums=None, model_floors=None, sweeps=sweeps, tol=tol)


def _descend(
    problem: Problem, Ft: Array, A: Array, sums: Array | None, model_floors: Array | None, sweeps: int, tol: float
) -> float:
    """Run :func:`.kernels.sparse.descend_rows` on all rows, in blocks; return the sum of the losses before."""
    X, penalty = problem.X, problem.penalty_W
    points, tolerance, losses = np.ascontiguousarray(A.T), X.dtype.type(tol), np.empty(X.shape[0])
    box_l1_l2 = (*penalty.box(X.dtype), *penalty.weights(len(A), X.dtype))

    def sweep(block: tuple[int, int]) -> None:
        _sparse_kernels.descend_rows(
            X.data, X.indices, X.indptr, Ft, points, sums, *box_l1_l2, sweeps, tolerance, model_floors, *block, losses
        )

    work = row_blocks(X)
    map_blocks(sweep, work, parallel=len(work) > 1)
    return float(losses.sum())


def iterate(problem: Problem, Wt: Array, H: Array, half: Callable[..., float], *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place by two sweeps of ``half(problem, Ft, A, sweeps=...)`` each."""
    # `half` updates codes and points independently, so a penalty must not tie them together
    refuse_coupled(problem)
    for _ in range(max_iter):
        penalties = problem.penalty_value(Wt, H)
        objective = penalties + half(problem, Wt, H, sweeps=SWEEPS)
        half(problem.transposed, H, Wt, sweeps=SWEEPS)  # its loss, that between both updates, is not needed
        yield Iteration(objective)


def newton_codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve for the codes of fixed components under the Kullback-Leibler divergence, row by row, overwriting `Wt`."""
    refuse_coupled(replace(problem, penalty_H=NONNEGATIVE))  # H is fixed, so its penalty does not matter
    X = problem.X
    low, high = problem.penalty_W.box(X.dtype)
    sums = H.sum(axis=1, dtype=np.float64)
    live = sums > 0
    # `totals` (n_rows,): the row's sum; `shares` (r, 1) or (r, n_rows): what a code of 1 adds to it
    totals, shares = X.sum(axis=1, dtype=np.float64), np.where(live, sums, 1)[:, None]
    if problem.zero_weight == 0:  # sums over the stored entries only, because the others are missing
        stored = sp.csr_array((np.ones_like(X.data), X.indices, X.indptr), X.shape)
        counted = np.asarray(stored @ H.T).T
        shares = np.where(counted > 0, counted, np.inf)  # infinite: the code of an absent component becomes 0
    Wt[:] = totals / (max(1, int(live.sum())) * shares)
    np.clip(Wt, low, high, out=Wt)
    Wt[~live] = low
    newton_half(problem, Wt, H, sweeps=CODES_SWEEPS, tol=CODES_TOLERANCE)


def residual_codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve for the codes by least squares on the stored entries, from the lower bounds, in double precision."""
    refuse_coupled(replace(problem, penalty_H=NONNEGATIVE))
    wide = replace(problem, X=problem.X.astype(np.float64))
    codes = np.full(Wt.shape, problem.penalty_W.box(np.float64)[0])  # the lower bound of codes
    residual_half(wide, codes, H.astype(np.float64), sweeps=CODES_SWEEPS, tol=CODES_TOLERANCE)
    Wt[:] = codes


def median_codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve for the codes of fixed components under the Manhattan loss, row by row, overwriting `Wt`."""
    refuse_coupled(replace(problem, penalty_H=NONNEGATIVE))  # H is fixed, so its penalty does not matter
    X = problem.X
    points = np.ascontiguousarray(H.T)
    decay = CODES_GROWTH ** (-1 / CODES_ITERATIONS)  # of 1 / rho: rho grows by CODES_GROWTH over all iterations

    def solve(block: tuple[int, int]) -> None:
        start, stop = block
        # (n_rows, 5, r): lower bound, upper bound, cost, ridge and scale of each code
        terms = _terms(problem, points, start, stop)
        codes, (low, scales) = np.empty((stop - start, len(H))), (terms[:, 0], terms[:, 4])
        r, longest = len(H), _longest_row(X.indptr, start, stop)
        # CODES_COUPLING is the weight of the difference between the codes of the linear step and their copy in the
        # bounds, and `decay` the factor of 1 / rho in each iteration
        _sparse_kernels.manhattan_codes_rows(
            X.data, X.indices, X.indptr, codes, points, terms,
            CODES_START_SWEEPS, CODES_COUPLING, decay, CODES_ITERATIONS, start, stop,
            np.empty((r + 1, longest)), np.empty((2, longest)), np.empty((r + 1, r + 1)), np.empty((3, r)),  # scratch
        )  # fmt: skip
        empty = np.diff(X.indptr[start : stop + 1]) == 0  # without data, only costs pull at the codes, to the bound
        codes[empty] = low[empty]
        Wt[:, start:stop] = (codes / scales).T

    work = row_blocks(X, BLOCK_ELEMENTS // 16)  # small blocks, because each entry takes many iterations
    with one_blas_thread():
        map_blocks(solve, work, parallel=len(work) > 1)
    np.clip(Wt, *problem.penalty_W.box(X.dtype), out=Wt)
    median_half(problem, Wt, H, sweeps=CODES_POLISH)


def _longest_row(indptr: Array, start: int, stop: int) -> int:
    """Return the largest number of stored entries in a row of ``start:stop``; `indptr` is that of a CSR array."""
    return int(np.diff(indptr[start : stop + 1]).max(initial=0))


def _terms(problem: Problem, points: Array, start: int, stop: int) -> Array:
    """Return lower bound, upper bound, cost, ridge and scale of the codes of rows ``start:stop``, (n_rows, 5, r)."""
    X, penalty = problem.X, problem.penalty_W
    indptr = X.indptr[start : stop + 1]
    support = X.indices[indptr[0] : indptr[-1]]
    stored = sp.csr_array((np.ones(len(support)), support, indptr - indptr[0]), (stop - start, X.shape[1]))
    exact = points.astype(np.float64)
    sums, totals = exact.sum(axis=0), stored @ exact
    tops = exact.max(axis=0, initial=0)
    tops[tops == 0] = 1  # scaled by the maximum, because the squares of a vanishing component underflow
    norms = tops * np.sqrt(stored @ (exact / tops) ** 2)
    low, high = penalty.box(np.float64)
    l1, l2 = penalty.weights(len(sums), np.float64)
    cost = float(problem.zero_weight) * np.maximum(sums - totals, 0.0) + l1
    # A component that is zero on the stored entries of a row, apart from rounding, must not get an enormous code. One
    # whose cost far exceeds any possible gain, which is in proportion to its norm there, is left out as well: its code
    # ends at the lower bound.
    used = (totals > TRACE * sums) & (norms > LEAST_SHARE * float(tops.max(initial=0)))
    used &= (norms > LEAST_SHARE * cost) & (norms > LEAST_SHARE * np.sqrt(l2))
    scales = np.where(used, norms, 1.0)
    terms: Array = np.stack([low * scales, high * scales, cost / scales, l2 / scales / scales, scales], axis=1)
    return terms
