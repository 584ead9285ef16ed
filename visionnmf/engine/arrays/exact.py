"""Exact codes of fixed components on a device: least squares by active sets, divergences by Newton's method.

All rows of a chunk are solved at once, each by its own linear system, in double precision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from visionnmf.engine.divergence import EMPTY_FLOOR, exponent, floor_of
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.quadratic import RIDGE
from visionnmf.engine.solvers.hals import CODES_TOLERANCE

from . import factors
from .medians import spread
from .namespace import chunk_entries, chunks, copied, in_float64, moved, namespace_of, parts_of

SMALLEST = float(np.finfo(np.float64).tiny)
ROUNDS = 200  # maximum number of exchanges of active sets; most rows need fewer than ten
PATIENCE = 3  # exchanges of all wrong variables that may fail to lower their number, before single ones
START_SWEEPS = 10  # of HALS
START_UPDATES = 100  # multiplicative updates before Newton's method,
UPDATES = 10  # and in place of a step of it that fails
NEWTON_ROUNDS = 50  # maximum number of Newton steps for a divergence
HALVINGS = 30  # maximum number of times that such a step is shortened
STILL = 1e-10  # relative change of the codes of a row that ends them
ROUNDING = 1e-15  # of the objective of a row


def least_squares(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite `Wt` (r, n_samples) with the exact least-squares codes of fixed components `H` (r, n), in a box."""
    xp, A = namespace_of(H), in_float64(H)
    gram = xp.matmul(A, A.T)
    width = max(problem.X.shape[1], H.shape[0] ** 2)  # a row needs its data and, with weights, its own Gram matrix
    entries = chunk_entries(H) * problem.X.shape[1] // width
    for rows, M in parts_of(problem.weights, chunks(problem.X, entries)):
        X = in_float64(problem.X[rows, :])
        right = xp.matmul(X if M is None else X * in_float64(M), A.T)
        grams = gram[None, :, :] if M is None else weighted_grams(A, in_float64(M))
        F = box_squares(grams, right, problem.penalty_W)
        Wt[:, rows] = xp.asarray(F.T, dtype=Wt.dtype)


def weighted_grams(A: Any, M: Any) -> Any:
    """Return the Gram matrices ``(m A) A.T`` (n_rows, r, r) of `A` (r, n) for the weights m of each row, `M`."""
    xp = namespace_of(A)
    # each row makes a product ``m A`` as large as `A`, so only as many rows as fit into a chunk are taken at a time
    grams = [xp.matmul(A * M[rows, :][:, None, :], A.T) for rows in chunks(M, chunk_entries(A) // A.shape[0])]
    return xp.concat(grams)


def box_squares(grams: Any, right: Any, penalty: Penalties, start: Any = None) -> Any:
    """Return the minimisers F (n_rows, r) of ``f G f / 2 - b f + penalty(f)``, one for each row, in a box.

    `grams` (n_rows or 1, r, r) are the matrices G and `right` (n_rows, r) the vectors b, in double precision. Variables
    are low, high or free. All that are wrong change sides; once this no longer helps, only the last of them does
    (Júdice & Pires 1994). `start` are feasible codes to begin from; by default HALS sweeps find some, or, if rows have
    matrices of their own, all variables begin at the low bound. Rows for which rounding prevents the end keep the
    minimiser of their last sets, clipped.
    """
    xp = namespace_of(right)
    r = right.shape[1]
    l1, l2 = (moved(weights, right) for weights in penalty.weights(r, np.float64))
    B = right - l1
    grams = grams + xp.eye(r, dtype=right.dtype, device=right.device) * l2
    largest = xp.clip(xp.max(xp.linalg.diagonal(grams), axis=1), SMALLEST, None)
    # a tiny ridge picks one of many solutions if components are alike
    grams = grams + (RIDGE * largest)[:, None, None] * xp.eye(r, dtype=right.dtype, device=right.device)
    low, high = float(penalty.low), float(penalty.high)
    if start is None:
        start = low + xp.zeros_like(B)
        if grams.shape[0] == 1:
            F = copied(start.T)
            factors.Sweeps(replace(penalty, l1=0.0, l2=0.0), START_SWEEPS)(F, grams[0, :, :], copied(B.T))
            start = F.T
    return _exchange(_Box(grams, B, low, high), start)


class _Box:
    """Least-squares problems in a box, one a row: matrices (n_rows or 1, r, r), right sides (n_rows, r) and bounds."""

    def __init__(self, grams: Any, B: Any, low: float, high: float) -> None:
        """Keep the problems ``f G f / 2 - b f``: matrices G (n_rows or 1, r, r), vectors b (n_rows, r), and bounds."""
        self.grams, self.B, self.low, self.high = grams, B, low, high

    def part(self, places: Any) -> _Box:
        """Return the problems of the rows at these places only."""
        xp = namespace_of(self.B)
        grams = self.grams if self.grams.shape[0] == 1 else xp.take(self.grams, places, axis=0)
        return _Box(grams, xp.take(self.B, places, axis=0), self.low, self.high)

    def solve(self, sides: Any) -> Any:
        """Return each row's minimiser (r,) whose variables are at the low or high bound on the `sides` -1 and 1.

        Variables on the side 0 are free. They solve ``G f = B - G fixed``, with identity rows in place of the fixed
        ones, so that all systems have the same size.
        """
        xp = namespace_of(self.B)
        free = sides == 0
        zero, top = xp.zeros_like(self.B), self.high if np.isfinite(self.high) else 0.0
        fixed = xp.where(free, zero, xp.where(sides < 0, self.low + zero, top + zero))
        right = self.B - xp.matmul(self.grams, fixed[:, :, None])[:, :, 0]
        both = free[:, :, None] & free[:, None, :]
        identity = xp.eye(sides.shape[1], dtype=self.B.dtype, device=self.B.device)
        system = xp.where(both, self.grams, identity)
        solution = xp.linalg.solve(system, xp.where(free, right, zero)[:, :, None])[:, :, 0]
        return xp.where(free, solution, fixed)

    def slopes(self, F: Any) -> Any:
        """Return the derivative of each row's problem at `F` (n_rows, r)."""
        return namespace_of(F).matmul(self.grams, F[:, :, None])[:, :, 0] - self.B


def _exchange(box: _Box, start: Any) -> Any:
    """Return the minimisers (n_rows, r) of the problems of a box, from feasible codes `start` (n_rows, r).

    The problem of a row is ``f G f / 2 - b f`` with its row b of `box.B` and its matrix G; `part.solve` minimises it
    over the free variables. A row that is not solved after :data:`ROUNDS` keeps the last of these minima, clipped.
    `sides` says for each variable whether it is at the low (-1) or high (1) bound or free (0). A free variable outside
    the box is `wrong`, and so is one at a bound from which the objective falls into the box.
    """
    xp = namespace_of(start)
    result = copied(start)
    active = start[:, 0] == start[:, 0]  # rows that are not solved: all
    minus, plus = -xp.ones_like(start), xp.ones_like(start)
    zero = xp.zeros_like(start)
    sides = xp.where(start <= box.low, minus, xp.where(start >= box.high, plus, zero))
    fewest = xp.sum(plus, axis=1) + 1  # the smallest number of wrong variables so far, and failures to lower it
    failures = xp.zeros_like(fewest)
    part, mine = box, active
    for _ in range(ROUNDS):
        F = part.solve(sides)
        slopes = part.slopes(F)  # at a bound, a slope that points into the box frees the variable
        tolerance = CODES_TOLERANCE * xp.max(xp.abs(part.B), axis=1, keepdims=True)
        # how far a free variable may lie outside the box, by rounding
        room = 1e-12 * xp.max(xp.abs(F), axis=1, keepdims=True)
        below, above = (sides == 0) & (F < part.low - room), (sides == 0) & (F > part.high + room)
        freed = ((sides < 0) & (slopes < -tolerance)) | ((sides > 0) & (slopes > tolerance))
        wrong = below | above | freed
        count = xp.sum(xp.asarray(wrong, dtype=F.dtype), axis=1)
        result = xp.where(mine[:, None], spread(xp.clip(F, part.low, part.high), mine), result)
        better = count < fewest
        failures = xp.where(better, xp.zeros_like(failures), failures + 1)
        fewest = xp.minimum(fewest, count)
        # all wrong variables of a row change sides, or only the last one if that has failed too often
        numbers = xp.cumulative_sum(xp.ones_like(F), axis=1)
        last = numbers == xp.max(xp.where(wrong, numbers, xp.zeros_like(F)), axis=1, keepdims=True)
        change = wrong & ((failures <= PATIENCE)[:, None] | last)
        new = xp.where(below, -xp.ones_like(F), xp.where(above, xp.ones_like(F), xp.zeros_like(F)))
        sides = xp.where(change, new, sides)
        going = count > 0
        places = xp.nonzero(going)[0]
        if not places.shape[0]:
            break
        if places.shape[0] < going.shape[0]:  # go on with the rows that are not solved
            mine = mine & spread(going, mine)  # `mine` marks the rows of `part` among all rows
            part = part.part(places)
            sides, fewest, failures = (xp.take(A, places, axis=0) for A in (sides, fewest, failures))
    return result


def divergence(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite `Wt` (r, n_samples) with the codes of fixed components `H` (r, n) for a beta-divergence, in a box.

    Multiplicative updates come near, and Newton's method ends it: each step is a least-squares problem in the box,
    shortened until the loss falls. The codes are the minimum for 1 <= beta <= 2, where the problem is convex, and
    otherwise a stationary point.
    """
    xp, A = namespace_of(H), in_float64(H)
    sums = xp.sum(A, axis=1)
    n_live = max(1, int(xp.sum(xp.asarray(sums > 0, dtype=xp.int64))))
    shares = n_live * xp.where(sums > 0, sums, xp.ones_like(sums))
    penalty = problem.penalty_W
    # a step needs arrays as large as the data times the components; the constant leaves room for eight components
    entries = chunk_entries(H) // max(1, H.shape[0] // 8)
    for rows, M in parts_of(problem.weights, chunks(problem.X, entries)):
        X = in_float64(problem.X[rows, :])
        part = replace(problem, X=X, weights=None if M is None else in_float64(M))
        # equal shares of a row's sum
        F = xp.where(sums > 0, xp.sum(X, axis=1, keepdims=True) / shares, xp.zeros_like(sums))
        F = _multiplied(part, xp.clip(F, penalty.low, penalty.high), A, START_UPDATES)
        Wt[:, rows] = xp.asarray(_newton(part, F, A).T, dtype=Wt.dtype)


def _model(problem: Problem, F: Any, A: Any) -> tuple[Any, Any, Any]:
    """Return the model of codes `F` (n_rows, r) and components `A` (r, n), kept above 0, the weights, and ``X / P``."""
    xp, X = namespace_of(A), problem.X
    M = xp.ones_like(X) if problem.weights is None else problem.weights
    floor = xp.clip(floor_of(problem.loss.beta) * xp.mean(X, axis=1, keepdims=True), EMPTY_FLOOR, None)
    P = xp.maximum(xp.matmul(F, A), floor)
    return P, M, X / P


def _multiplied(problem: Problem, F: Any, A: Any, updates: int) -> Any:
    """Return codes `F` (n_rows, r) after multiplicative updates for the components `A` (r, n), clipped to the box."""
    xp, penalty, beta = namespace_of(A), problem.penalty_W, problem.loss.beta
    l1, l2 = (moved(weights, A) for weights in penalty.weights(A.shape[0], np.float64))
    for _ in range(updates):
        P, M, ratio = _model(problem, F, A)  # the model, the weights, and X / P
        powers = M * P ** (beta - 1)
        under = xp.matmul(powers, A.T) + l1 + l2 * F
        quotient = xp.matmul(powers * ratio, A.T) / xp.clip(under, SMALLEST, None)
        F = xp.clip(F * quotient ** exponent(beta), penalty.low, penalty.high)
    return F


def _newton(problem: Problem, F: Any, A: Any) -> Any:
    """Return the codes (n_rows, r) by Newton's method in the box from `F`, or multiplicative updates where it fails."""
    xp, penalty, beta = namespace_of(A), problem.penalty_W, problem.loss.beta
    value = _row_objective(problem, F, A)
    active = value == value  # rows whose codes still change: at first all
    for _ in range(NEWTON_ROUNDS):
        places = xp.nonzero(active)[0]
        if not places.shape[0]:
            break
        f, old, x = (xp.take(B, places, axis=0) for B in (F, value, problem.X))
        weights = None if problem.weights is None else xp.take(problem.weights, places, axis=0)
        part = replace(problem, X=x, weights=weights)
        P, M, ratio = _model(part, f, A)  # the model, the weights, and the data over the model
        fisher = M * P ** (beta - 2)  # the curvature of the divergence at a perfect fit
        slopes = xp.matmul(fisher * P * (1 - ratio), A.T)
        bend = fisher * ((beta - 1) - (beta - 2) * ratio)
        grams = weighted_grams(A, xp.where(bend > 0, bend, fisher))  # Fisher's where Newton's is not convex
        # the quadratic model around the codes f, in the form ``g G g / 2 - b g`` that is minimised over the new codes g
        right = xp.matmul(grams, f[:, :, None])[:, :, 0] - slopes
        # halves the step of rows whose objective would rise; `lowest` is infinite for those that no step lowers
        new, lowest = _shortened(part, f, box_squares(grams, right, penalty, start=f), old, A)
        stuck = ~(lowest <= old)
        if bool(xp.any(stuck)):
            other = _multiplied(part, f, A, UPDATES)
            below = _row_objective(part, other, A)
            new, lowest = xp.where(stuck[:, None], other, new), xp.where(stuck, below, lowest)
        new = xp.where((lowest <= old)[:, None], new, f)
        still = xp.max(xp.abs(new - f), axis=1) <= STILL * xp.max(xp.abs(new), axis=1)
        F = xp.where(active[:, None], spread(new, active), F)  # `spread` puts the rows of `new` back in their places
        value = xp.where(active, spread(xp.minimum(lowest, old), active), value)
        active = active & spread(~still, active)
    return F


def _shortened(problem: Problem, f: Any, goal: Any, old: Any, A: Any) -> tuple[Any, Any]:
    """Return codes on the way from `f` to `goal` (n_rows, r) that lower each row's objective, and the objectives.

    `old` (n_rows,) is the objective at `f`, where a row stays, with infinity for its objective, if no step lowers it. A
    rise of the full step that is within rounding does not shorten it, so that the last steps of Newton's method are
    taken.
    """
    xp = namespace_of(f)
    step, best, lowest = 1.0, f, old + np.inf
    limit = old + ROUNDING * xp.abs(old)
    for _ in range(HALVINGS):
        new = f + step * (goal - f)
        value = _row_objective(problem, new, A)
        take = (value <= limit) & ~(lowest < np.inf)
        best, lowest = xp.where(take[:, None], new, best), xp.where(take, xp.minimum(value, old), lowest)
        if bool(xp.all(lowest < np.inf)):
            break
        step, limit = step / 2, old
    return best, lowest


def _row_objective(problem: Problem, F: Any, A: Any) -> Any:
    """Return the loss and the penalties of each row (n_rows,) for codes `F` (n_rows, r) and components `A` (r, n)."""
    xp = namespace_of(A)
    l1, l2 = (moved(weights, A) for weights in problem.penalty_W.weights(A.shape[0], np.float64))
    losses = problem.loss.record.values(problem.X, xp.matmul(F, A), problem.weights, problem.loss.parameter)
    return losses + xp.sum(F * (l1 + l2 * F / 2), axis=1)
