"""Damped scalar block coordinate descent (sBCD) for every beta-divergence (after Li, Lebanon & Park 2012).

The divergence of a row is replaced by a weighted least-squares model, whose weights are computed once, and coordinate
descent on it updates the codes without divisions or powers in the inner loops. New in this package are the weights, a
second attempt if the divergence of a row has risen, extrapolation between iterations (Ang & Gillis 2019, Algorithm 3,
as in :mod:`.hals`), and a start on a sample of the data. See ``docs/derivations/sbcd.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import sum_of_squares
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, row_blocks, rows_per_block
from visionnmf.engine.divergence import floor_of
from visionnmf.engine.kernels.divergence_descent import component_by_component
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration, Stopping

from . import hals, newton, sbcd_rows, sparse_descent
from .momentum import Momentum, extrapolated

SWEEPS = 2  # of coordinate descent on each model

FIRST_MOMENTUM = 0.3  # see :class:`.momentum.Momentum`
MOMENTUM_GROWTH = 1.02
CEILING_GROWTH = 1.01
# for Kullback-Leibler, where a step that rises need not restart from 0, and a third sweep pays
COUNTS_SWEEPS, COUNTS_FLOOR, COUNTS_CUT = 3, 0.1, 1.5

# Kullback-Leibler fits of at least this many entries in double precision run in single precision while residuals are
# more than a share of the data, an iteration lowers the objective by more than a share of it, and means of rows and
# columns are in this range.
SINGLE_ENTRIES, COARSE, SINGLE_DECREASE, SINGLE_RANGE = 1 << 18, 1e-2, 1e-7, (1e-12, 1e12)

SQUARES_ITERATIONS = 150  # maximum number of iterations of least squares for a start
SQUARES_TOLERANCE = 0.01  # their tolerance, see :mod:`..stopping`
FEW_SQUARES = 10  # iterations where the squares of the residuals stay above this share of those of the data: then the
NOISY = 1e-3  # minima of least squares and of the divergence are far enough apart that more would be wasted
LIFT = 1e-3  # of a component's mean: a second start of least squares has no entries below

SAMPLE_SIZE = 4  # rows of the sample for each component
SAMPLE_SHARE = 0.25  # maximum share of the rows in the sample
SAMPLE_ITERATIONS = 5
SAMPLE_MOMENTUM = 0.6
SAMPLE_SWEEPS = 4  # over the codes of all rows, which start far from their minimum
SAMPLE_SEED = 0

START_ROUNDS, START_SWEEPS = 10, 4  # of the codes, before Newton's method
START_TOLERANCE = 1e-3  # of a row's largest code
CODES_ROWS = 256  # minimum number of rows processed at a time in double precision


def improve(
    problem: Problem,
    Ft: Array,
    A: Array,
    *,
    exact: bool = False,
    rounds: int = 1,
    sweeps: int = SWEEPS,
    tol: float = 0.0,
    alone: bool = False,
) -> float:
    """Update the codes `Ft` in place for fixed `A`; return the loss after, without penalties.

    Each of `rounds` builds a new least-squares model of every row and takes `sweeps` of coordinate descent on it, or
    with `exact` the steps of :func:`iterate_exact`. A row is finished when a round changes no code by more than the
    share `tol` of its largest one. With `alone`, the codes of a row do not depend on the other rows, not even in the
    last bit.
    """
    X, M, penalty = problem.X, problem.weights, problem.penalty_W
    l1, l2 = penalty.weights(len(A), X.dtype)
    # codes of a component that is zero everywhere change nothing but the penalty, so they go to the lower bound
    Ft[(A.max(axis=1, initial=0) == 0) & (l1 + l2 > 0)] = penalty.low
    losses = np.empty(X.shape[0])
    with one_blas_thread():
        fixed = sbcd_rows.Fixed(
            A, penalty, problem.loss.beta, exact=exact, rounds=rounds, sweeps=sweeps, tol=tol, alone=alone
        )

        def improve(block: tuple[int, int]) -> None:
            """Update the codes of the rows ``block[0]:block[1]`` in place, and write their losses after."""
            rows = slice(*block)
            losses[rows] = sbcd_rows.improve(X[rows], None if M is None else M[rows], Ft[:, rows], fixed)

        map_blocks(improve, row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
    return float(losses.sum())


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int, exact: bool = False) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place by a few sweeps each; yield the objective before each iteration."""
    objective = problem.objective(Wt, H)
    # no momentum at first, because the scale of the start may be far off
    momentum = Momentum(0.0, growth=MOMENTUM_GROWTH, ceiling_growth=CEILING_GROWTH, floor=FIRST_MOMENTUM)
    if problem.loss.beta == 1.0:
        momentum.floor, momentum.cut = COUNTS_FLOOR, COUNTS_CUT
    if _start_nearby(problem, Wt, H, objective):  # whether it has found better factors and written them over these
        momentum.value = FIRST_MOMENTUM
    n_done = 0
    for descent in (_descend_in_single, _descend):
        for step in descent(problem, Wt, H, momentum, max_iter=max_iter - n_done, exact=exact):
            # the better start belongs to the first iteration, so the objective before is that of the given one
            objective = objective if n_done == 0 else min(objective, step.objective)
            yield step._replace(objective=objective)
            n_done += 1


def _descend(
    problem: Problem, Wt: Array, H: Array, momentum: Momentum, *, max_iter: int, exact: bool
) -> Iterator[Iteration]:
    """Update both factors in place, in the precision of the data, and yield as :func:`iterate`."""
    rows = hals.DescentInMemory(problem, Wt, _DivergenceUpdates(problem, exact))
    return hals.descend(rows, H, problem.penalty_H, max_iter=max_iter, momentum=momentum)


def _descend_in_single(
    problem: Problem, Wt: Array, H: Array, momentum: Momentum, *, max_iter: int, exact: bool
) -> Iterator[Iteration]:
    """Yield the iterations for many counts in double precision that single precision is good enough for."""
    X, M = problem.X, problem.weights
    if problem.loss.beta != 1.0 or X.dtype == np.float32 or X.size < SINGLE_ENTRIES:
        return
    sums = np.concatenate([X.sum(axis=axis) / X.shape[axis] for axis in (0, 1)])
    if not SINGLE_RANGE[0] < sums[sums > 0].min(initial=1) <= X.max() < SINGLE_RANGE[1]:
        return
    # the divergence of residuals that are the share COARSE of the data
    coarse = COARSE**2 / 2 * float(X.sum() if M is None else np.vdot(X, M))
    single = replace(problem, X=X.astype(np.float32), weights=None if M is None else M.astype(np.float32))
    factors = Wt.astype(np.float32), H.astype(np.float32)
    last, plain = math.inf, False  # the objective before the last iteration, infinite if that was undone
    for step in _descend(single, *factors, momentum, max_iter=max_iter, exact=exact):
        for F, found, penalty in zip((Wt, H), factors, (problem.penalty_W, problem.penalty_H), strict=True):
            np.clip(found, *penalty.box(F.dtype), out=F)
        yield step
        # the next iterations need double precision if residuals are small, or if only rounding is left
        stuck = plain if step.undone else last - step.objective < SINGLE_DECREASE * step.objective
        if step.objective < coarse or stuck:
            return
        last, plain = math.inf if step.undone else step.objective, momentum.is_none


class _DivergenceUpdates:
    """The updates of both factors by :func:`improve`, for :class:`.hals.DescentInMemory`."""

    def __init__(self, problem: Problem, exact: bool) -> None:
        """Take the problem, and whether codes move by the exact steps of :func:`iterate_exact`."""
        self.problem, self.exact = problem, exact
        self.sweeps = COUNTS_SWEEPS if problem.loss.beta == 1.0 and not exact else SWEEPS
        self.loss = 0.0  # after the last update of the components

    def improve_codes(self, Wt: Array, H: Array) -> None:
        """Update the codes in place; `exact` is whether by steps on the divergence itself, not on a quadratic model."""
        improve(self.problem, Wt, H, exact=self.exact, sweeps=self.sweeps)

    def improve_components(self, H: Array, Wt: Array) -> None:
        """Update the components in place, as the codes of the transposed problem."""
        self.loss = improve(self.problem.transposed, H, Wt, exact=self.exact, sweeps=self.sweeps)

    def objective(self, Wt: Array, H: Array) -> float:
        """Return the loss, which is a by-product of the last update, plus penalties."""
        return self.loss + self.problem.penalty_value(Wt, H)


def iterate_exact(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Minimise the Kullback-Leibler divergence by cyclic coordinate descent (after Hsieh & Dhillon 2011), in place."""
    if problem.is_sparse:
        yield from sparse_descent.iterate(problem, Wt, H, sparse_descent.newton_half, max_iter=max_iter)
    else:
        yield from iterate(problem, Wt, H, max_iter=max_iter, exact=True)


def exact_codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve for codes under the Kullback-Leibler divergence, overwriting `Wt`."""
    (sparse_descent.newton_codes if problem.is_sparse else codes)(problem, Wt, H)


def _start_nearby(problem: Problem, Wt: Array, H: Array, objective: float) -> bool:
    """Look for a better start at about the cost of one iteration, and write it over the factors; return success."""
    # For data with little noise, least squares ends next to the minimum of every divergence; for noisy data the factors
    # of a sample of the data can be better.
    best = Wt.copy(), H.copy()
    found = _start_on_sample(problem, *best, objective)
    value = problem.objective(*best) if found else objective
    for other in _least_squares(problem, Wt, H):
        candidate = problem.objective(*other)
        if candidate < value:
            best, value, found = other, candidate, True
    Wt[:], H[:] = best
    return found


def _least_squares(problem: Problem, Wt: Array, H: Array) -> list[tuple[Array, Array]]:
    """Return two starts found by least squares: with its zeros, and with small values instead."""
    boxes = [Penalties(low=p.low, high=p.high) for p in (problem.penalty_W, problem.penalty_H)]
    easy = replace(problem, loss=Loss("frobenius"), penalty_W=boxes[0], penalty_H=boxes[1])
    W_new, H_new = Wt.copy(), H.copy()
    stopping, noisy = Stopping(SQUARES_TOLERANCE), NOISY / 2 * sum_of_squares(problem.X)  # the loss is half the squares
    for n_iter, step in enumerate(hals.iterate(easy, W_new, H_new, max_iter=SQUARES_ITERATIONS), 1):
        # it has settled, as the stopping rule of all fits says, or it is clear that the residuals stay large
        if stopping.add(step.objective) or (n_iter >= FEW_SQUARES and step.objective > noisy):
            break
    # where the model is 0 and the data are not, a divergence is huge or infinite: lift the zeros of both factors
    lifted = [np.maximum(F, F.dtype.type(LIFT) * F.mean(axis=1, keepdims=True)) for F in (W_new, H_new)]
    for F, box in zip(lifted, boxes, strict=True):
        np.clip(F, *box.box(F.dtype), out=F)
    return [(W_new, H_new), (lifted[0], lifted[1])]


def _lengthened(new: Array, old: Array, penalty: Penalties) -> Array:
    """Return `new` plus a share of its change from `old`; no entry is more than halved, so the model stays positive."""
    ahead = extrapolated(new, old, SAMPLE_MOMENTUM, penalty)
    return np.maximum(ahead, new / 2, out=ahead)


def _start_on_sample(problem: Problem, Wt: Array, H: Array, objective: float) -> bool:
    """Find a better start from a sample of the rows or columns and write it over the factors; return success."""
    if problem.X.shape[0] < problem.X.shape[1]:
        return _start_on_sample(problem.transposed, H, Wt, objective)
    n, size = problem.X.shape[0], SAMPLE_SIZE * len(H)
    if size > SAMPLE_SHARE * n:
        return False
    chosen = np.zeros(n, bool)
    chosen[np.random.default_rng(SAMPLE_SEED).permutation(n)[:size]] = True
    share = size / n
    few = replace(
        problem.samples(chosen),
        # the loss of the sample is smaller than that of all rows, so the penalty of the components must be as well
        penalty_H=replace(problem.penalty_H, l1=problem.penalty_H.l1 * share, l2=problem.penalty_H.l2 * share),
    )
    sample, found = np.ascontiguousarray(Wt[:, chosen]), H.copy()
    for turn in range(SAMPLE_ITERATIONS):
        before = sample.copy()
        improve(few, sample, found)
        if turn > 0:  # the first step is long enough, because it corrects the scale
            sample = _lengthened(sample, before, few.penalty_W)
        before = found.copy()
        improve(few.transposed, found, sample)
        if 0 < turn < SAMPLE_ITERATIONS - 1:
            found = _lengthened(found, before, few.penalty_H)
    # the other rows start from the mean codes of the sample, in proportion to their sums
    sums = problem.X.sum(axis=1)
    total = sums[chosen].sum()
    codes = np.empty_like(Wt)
    codes[:] = sample.sum(axis=1, keepdims=True) * (sums / total if total > 0 else share)
    codes[:, chosen] = sample
    np.clip(codes, *problem.penalty_W.box(codes.dtype), out=codes)
    loss = improve(problem, codes, found, sweeps=SAMPLE_SWEEPS)
    if not loss + problem.penalty_value(codes, found) < objective:
        return False
    Wt[:], H[:] = codes, found
    return True


def codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve for the codes of fixed components under a beta-divergence, row by row, overwriting `Wt`."""
    box = problem.penalty_W.box(np.float64)
    sums = H.sum(axis=1, dtype=np.float64)
    live = sums > 0
    shares = np.where(live, sums, 1)[:, None] * max(1, int(live.sum()))  # (r, 1) component sums times their number
    # in parts, which bounds the memory of the copies in double precision
    for start, stop in blocks(problem.X.shape[0], max(CODES_ROWS, rows_per_block(problem.X.shape[1]))):
        rows = slice(start, stop)
        part = problem.samples(rows)
        # each component explains an equal share of the row's sum
        F = np.clip(part.X.sum(axis=1, dtype=np.float64) / shares, *box)
        F[~live] = box[0]
        F = F.astype(problem.X.dtype, order="C")
        # the codes of a row must not depend on the rows beside it in a block, hence `alone`
        improve(part, F, H, rounds=START_ROUNDS, sweeps=START_SWEEPS, tol=START_TOLERANCE, alone=True)
        Wt[:, rows] = _newton(part, F, H)


def _newton(problem: Problem, Ft: Array, A: Array) -> Array:
    """Return the codes (r, n_rows) after Newton's method in double precision, from the start `Ft`."""
    weights = None if problem.weights is None else problem.weights.astype(np.float64)
    problem = replace(problem, X=problem.X.astype(np.float64), weights=weights)
    codes, A = Ft.astype(np.float64), A.astype(np.float64)

    def improve(block: tuple[int, int]) -> None:
        rows = slice(*block)
        newton.improve(problem.samples(rows), codes[:, rows], A)

    with one_blas_thread():
        map_blocks(improve, row_blocks(problem.X), parallel=problem.X.size > BLOCK_ELEMENTS)
    return codes


def iterate_as_published(
    problem: Problem, Wt: Array, H: Array, *, max_iter: int, weights_from: str = "model"
) -> Iterator[Iteration]:
    """Update both factors in place as published; yield as all solvers. The steps are not damped, so the loss may rise.

    Each iteration gives every entry a weight, and updates the components one after the other on the weighted
    least-squares model. The weight of an entry x, with the model p, is ``p^(beta - 2)`` by the "model" (Algorithm 1),
    ``x^(beta - 2)`` by the "data" (AL-A of section 4.3), and 1 by "nothing" (AL-B).

    The paper adds an l1 penalty to the denominator of the update, where the derivative does not vanish. Here it is
    subtracted from the numerator; the printed rule, ``h = [sum b a w]_+ / (alpha + sum b w^2)``, is an l2 penalty.
    """
    X, M = problem.X, problem.weights
    dtype, beta = X.dtype, problem.loss.beta
    # Weights are divided by that at the mean of the data, `unit`, and so are penalties, which changes nothing. Those of
    # AL-B are 1, so only its penalties are, to keep their size relative to the loss.
    unit = float(X.mean(dtype=np.float64)) or 1.0
    limits = []
    for penalty in (problem.penalty_W, problem.penalty_H):
        l1, l2 = (value * dtype.type(unit ** (2 - beta)) for value in penalty.weights(len(H), dtype))
        limits += [*penalty.box(dtype), l1, l2]
    for _ in range(max_iter):
        P = np.matmul(Wt.T, H)
        objective = problem.objective(Wt, H)
        if weights_from == "nothing":
            B = np.ones_like(X)
        else:
            B = np.maximum((P if weights_from == "model" else X) / dtype.type(unit), dtype.type(floor_of(beta)))
            np.power(B, dtype.type(beta - 2), out=B)
        if M is not None:
            B *= M
        component_by_component(X - P, B, Wt, H, *limits)
        yield Iteration(objective)
