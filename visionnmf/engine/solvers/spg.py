r"""Spectral proximal gradient for the divergences, with penalties that the other solvers do not support.

.. math:: \min_{W, H \ge 0}\; D_\beta(X \| W H) + p_W(W) + p_H(H)

Steps ``prox(F - t gradient)`` on each factor by turns, ``t`` the inverse of the curvature along the step before
(Barzilai & Borwein 1988), shortened until the objective falls enough and, for ``beta <= 1``, no further entry of the
model vanishes where the data do not: these divergences are infinite there, and a gradient says nothing any more. Where
a penalty treats each point by itself, each point has a ``t`` of its own; where a graph joins them, one in proportion to
the inverse of its curvature, which follows from the size of its data.

References
----------
E. Birgin, J. Martinez, M. Raydan, "Nonmonotone spectral projected gradient methods on convex sets", SIAM J. Optim. 10,
2000.
S. Wright, R. Nowak, M. Figueiredo, "Sparse reconstruction by separable approximation", IEEE Trans. Signal Proc. 2009.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, row_blocks, rows_per_block
from visionnmf.engine.divergence import floor_of
from visionnmf.engine.kernels import penalties as _simplex_kernels
from visionnmf.engine.penalties import SEPARABLE, Graph, Penalties, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration

from . import sbcd

STEPS = 4  # for each factor in one iteration
START = 10  # iterations of coordinate descent
DECREASE, SHORTEN, LENGTHEN = (getattr(_simplex_kernels, name) for name in ("DECREASE", "SHORTEN", "LENGTHEN"))
LONGEST = 1e6  # maximum length of a step, relative to the first
LEAST_MEAN = 1e-12  # of all data, for a row whose steps follow its mean
LEAST_SIZE = 1e-6  # of the largest point, for the first step of a point that is zero
CODES_STEPS = 5000
CODES_TOLERANCE = 1e-8


class _Side:
    """One factor of a problem: the codes `F` of its rows, their step lengths and their objective."""

    def __init__(self, problem: Problem, F: Array) -> None:
        """Prepare the codes `F`, updated in place, of a problem; for components, pass the transposed one."""
        penalty = problem.penalty_W
        self.problem, self.F = problem, F
        # Whether the penalty treats each point by itself, so that each point may have its own step length: it has no
        # terms beyond these, and no simplex of "rows", which is a sum over the points of a component.
        self.independent = not penalty.beyond((*SEPARABLE, Simplex)) and penalty.simplex != "rows"
        self.l1, self.l2 = penalty.weights(len(F), np.float64)
        self.beta = problem.loss.beta
        mean = float(problem.X.mean(dtype=np.float64)) or 1.0
        # gradients are divided by what a model of that mean makes them, so that they do not underflow
        self.gradient_unit = mean ** (self.beta - 1)
        # whether the l1 norm, linear on F >= 0, goes with the gradient: then the prox is a projection, which has no
        # step length, so steps may differ between points; a graph is smooth, and leaves only a box to the prox
        self.linear = self.independent or not penalty.beyond((*SEPARABLE, Graph))
        self.projection = replace(penalty, l1=0.0)  # the penalty without the part that goes with the gradient
        self.relative_lengths = np.ones(1)  # of the points' steps: (n_points,), or (1,) if all are equal
        if self.linear and not self.independent:  # a graph couples the points, so their step lengths have fixed ratios
            means = problem.X.mean(axis=1, dtype=np.float64)
            # the inverse of the curvature of a divergence, p^(beta - 2), at the mean of a row
            self.relative_lengths = (np.where(means > LEAST_MEAN * mean, means, mean) / mean) ** (2 - self.beta)
        # step lengths, one per point if `independent`, else (1,); None before the first
        self.lengths: Array | None = None
        # upper limits of the step lengths, set with the first of them
        self.longest: Array = np.ones(1)

    def improve(self, A: Array) -> float:
        """Take a few steps on `F` for fixed `A` (r, n), in place; return the loss plus the penalty of this factor."""
        # Objectives (`values`), step lengths and tests have one value for each point if points are `independent`,
        # otherwise one in total. The next length is that of Barzilai & Borwein: the squared move over its product with
        # the change of the gradient. A rejected step is shortened. At the trial point `new` they are `found`, `lost`
        # and `slope_new`.
        F, penalty = self.F, self.problem.penalty_W
        values, vanishing, slope = self._evaluate(F, A)
        lengths = self.lengths
        if lengths is None:  # the first step is about as long as the factor itself
            steepness = np.sqrt(self._sum(slope.astype(np.float64) ** 2 * self.relative_lengths))
            size = np.sqrt(self._sum(F.astype(np.float64) ** 2 / self.relative_lengths))
            size = np.maximum(size, LEAST_SIZE * (float(size.max(initial=0)) or 1.0))
            lengths = size / np.where(steepness > 0, steepness, 1)
            self.longest = LONGEST * lengths
        for _ in range(STEPS):
            new = F - (lengths * self.relative_lengths).astype(F.dtype) * slope
            if self.linear:
                self.projection.prox(new, 1.0)  # only a constraint is left, and a projection has no step length
            else:
                # all points have one step length, and the slope is the gradient divided by its unit
                penalty.prox(new, float(lengths[0]) / self.gradient_unit)
            found, lost, slope_new = self._evaluate(new, A)
            move = (new - F).astype(np.float64)
            square = self._sum(move**2 / self.relative_lengths)
            # `relative_lengths` changes the length of a step point by point, so norms of steps are measured accordingly
            divisors = np.maximum(lengths, np.finfo(float).tiny)
            enough = found <= values - DECREASE * self.gradient_unit * square / divisors
            if self.beta <= 1:  # infinite where the model vanishes and the data do not
                enough &= lost <= vanishing
            bend = self._sum(move * (slope_new - slope))
            longest = np.minimum(LENGTHEN * lengths, self.longest)
            longer = np.where(bend > 0, np.minimum(square / np.where(bend > 0, bend, 1), longest), longest)
            lengths = np.where(enough, longer, SHORTEN * lengths)
            np.copyto(F, new, where=enough)
            np.copyto(slope, slope_new, where=enough)
            values, vanishing = np.where(enough, found, values), np.where(enough, lost, vanishing)
        self.lengths = lengths
        return float(values.sum())

    def _sum(self, numbers: Array) -> Array:
        """Sum `numbers` (r, n_points) over components, and also over points unless these are `independent`."""
        return numbers.sum(axis=0) if self.independent else numbers.sum(keepdims=True).ravel()

    def _evaluate(self, F: Array, A: Array) -> tuple[Array, Array, Array]:
        """Return the objective, the number of vanishing entries, and the gradient of the smooth part."""
        penalty = self.problem.penalty_W
        vanishing = np.empty(F.shape[1], np.intp)
        parts = gradient_parts(self.problem, F, A, vanishing)
        slope = parts.positive
        slope -= parts.negative
        slope *= (parts.units ** (self.beta - 1) / self.gradient_unit).astype(F.dtype)
        if penalty.smooth:
            slope += (penalty.gradient(F) / self.gradient_unit).astype(F.dtype)
        if self.linear:  # the l1 norm counts as smooth, because it is linear on F >= 0
            slope += (self.l1 / self.gradient_unit).astype(F.dtype)[:, None]
        # independent points have no other penalties than l1 and l2, which add up point by point
        if not self.independent:
            return np.array([parts.losses.sum() + penalty.value(F)]), self._sum(vanishing), slope
        return parts.losses + self.l1 @ F + self.l2 @ F.astype(np.float64) ** 2 / 2, vanishing, slope


class GradientParts(NamedTuple):
    """The loss of each row, and the gradient ``(positive - negative) * units**(beta - 1)`` of its codes."""

    losses: Array  # (n_rows,)
    negative: Array  # (r, n_rows)
    positive: Array  # (r, n_rows)
    units: Array  # (n_rows,), by which rows were divided: their means


def gradient_parts(problem: Problem, Ft: Array, A: Array, vanishing: Array | None = None) -> GradientParts:
    """Return losses and gradients for the codes `Ft` (r, n_rows) and fixed `A` (r, n), without penalties."""
    X, M = problem.X, problem.weights
    dtype, beta = X.dtype, problem.loss.beta
    losses, units = np.empty(X.shape[0]), np.empty(X.shape[0])
    negative, positive = np.empty_like(Ft), np.empty_like(Ft)
    least_mean = np.finfo(dtype).tiny / np.finfo(dtype).eps  # rows with a smaller mean are not divided by it
    floor = floor_of(beta)  # smallest entry of the model, in units of its row's mean
    if beta < 0:  # so that the powers below do not overflow
        floor = max(floor, float(np.finfo(dtype).max) ** (0.5 / (beta - 2)))

    def evaluate(block: tuple[int, int]) -> None:
        """Fill `negative` and `positive` for some rows, with data and model divided by the mean of the row's data."""
        rows = slice(*block)
        P = np.matmul(Ft[:, rows].T, A)
        losses[rows] = problem.loss.record.values(X[rows], P, None if M is None else M[rows], problem.loss.parameter)
        mean = X[rows].mean(axis=1, keepdims=True)
        unit = np.where(mean > least_mean, mean, 1)
        units[rows] = unit[:, 0]
        P /= unit
        if vanishing is not None:  # entries whose model is almost 0 although the data are not
            vanishing[rows] = np.count_nonzero((P < floor) & (X[rows] > 0), axis=1)
        np.maximum(P, dtype.type(floor), out=P)
        weights = P ** dtype.type(beta - 2)
        if M is not None:
            weights *= M[rows]
        negative[:, rows] = A @ (X[rows] / unit * weights).T
        positive[:, rows] = A @ np.multiply(P, weights, out=weights).T

    with one_blas_thread():
        map_blocks(evaluate, row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
    return GradientParts(losses, negative, positive, units)


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update both factors in place by a few proximal gradient steps each; yield the objective before."""
    sides = _Side(problem, Wt), _Side(problem.transposed, H)
    objective = problem.objective(Wt, H)
    for iteration in range(max_iter):
        before = objective
        with one_blas_thread():
            if iteration == 0:
                # it may replace the factors by better ones; `objective` stays that of the given start
                _start_by_coordinate_descent(problem, Wt, H, objective)
            sides[0].improve(H)  # takes steps on the codes for fixed `H`
            objective = sides[1].improve(Wt) + problem.penalty_W.value(Wt)
        yield Iteration(before)


def _start_by_coordinate_descent(problem: Problem, Wt: Array, H: Array, objective: float) -> None:
    """Start from a short :mod:`.sbcd` fit without the penalties that it lacks, in place, if that is better."""
    easy = [Penalties(p.low, p.high, p.l1, p.l2) for p in (problem.penalty_W, problem.penalty_H)]
    W_new, H_new = Wt.copy(), H.copy()
    for _ in sbcd.iterate(replace(problem, penalty_W=easy[0], penalty_H=easy[1]), W_new, H_new, max_iter=START):
        pass
    problem.penalty_W.feasible(W_new)
    problem.penalty_H.feasible(H_new)
    if problem.objective(W_new, H_new) < objective:
        Wt[:], H[:] = W_new, H_new


def codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve for codes on the simplex under a beta-divergence, row by row, by spectral projected gradient."""
    beta, A = problem.loss.beta, H.astype(np.float64)
    l1, l2 = problem.penalty_W.weights(len(H), np.float64)

    X, weights = problem.X, problem.weights

    def rows(block: tuple[int, int]) -> None:
        part = slice(*block)
        _simplex_kernels.simplex_codes(
            X[part].toarray() if problem.is_sparse else X[part], None if weights is None else weights[part], A,
            Wt[:, part], beta, floor_of(beta), l1, l2, CODES_STEPS, CODES_TOLERANCE,
        )  # fmt: skip

    n_samples, n_features = X.shape
    work = n_samples * n_features
    map_blocks(rows, blocks(n_samples, rows_per_block(n_features)), parallel=work > BLOCK_ELEMENTS)
