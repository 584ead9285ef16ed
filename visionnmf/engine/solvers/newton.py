"""Codes of fixed components for the beta-divergences by Newton's method, for all rows of a block at once.

It works in double precision, and the order of summation in a row does not depend on the other rows, so the codes of a
row are the same to the last bit whatever the other rows are. See ``docs/derivations/sbcd.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.divergence import curvatures, floor_of, powers_of, row_means, values
from visionnmf.engine.kernels import divergence_descent as _kernels
from visionnmf.engine.problem import Problem

Array = NDArray[Any]

STEPS = 100  # maximum number of Newton steps
HALVINGS = 30  # maximum number of halvings of a step
ARMIJO = 1e-4  # share of the first-order decrease that a step must reach
RIDGE = 1e-11  # of the largest curvature: where components are alike, one solution of many is taken
ROUNDING = 1e-15  # of a sum over a row, in units of its length
LEAST_DECREASE = 1e-12  # in the same units: a smaller prediction ends (quadratic convergence)
STILL = 1e-9  # relative to the largest code: a smaller change counts as none


@dataclass
class _ScaledRows:
    """Some rows, in units in which the mean of each row and the maximum of each component are 1."""

    data: Array  # (n_rows, n)
    data_powers: Array | None  # data ** beta, where the divergence needs it
    weights: Array | None  # (n_rows, n), of the entries
    total_weight: Array  # (n_rows,) sum of the weights of a row: its length if there are none
    codes: Array  # (n_rows, r), as are the bounds and the penalty weights below
    low: Array
    high: Array
    l1: Array
    l2: Array

    def take(self, index: Array) -> _ScaledRows:
        """Return a copy of the rows that `index`, numbers or a mask, selects; None stays None."""
        return _ScaledRows(*(None if value is None else value[index] for value in vars(self).values()))  # type: ignore[arg-type]

    def penalty(self, codes: Array) -> Array:
        """Return ``l1 . f + l2 . f^2 / 2`` (n_rows,) for the codes f (n_rows, r); `l1` and `l2` have their shape."""
        return np.einsum("ij,ij->i", codes, self.l1 + self.l2 * codes / 2)


def improve(problem: Problem, Ft: Array, A: Array) -> None:
    """Move codes `Ft` to the minimum, or a stationary point if the problem is not convex, in place."""
    X, M, beta = problem.X, problem.weights, problem.loss.beta
    low, high = problem.penalty_W.box(np.float64)
    l1, l2 = problem.penalty_W.weights(len(A), np.float64)
    means, scale = row_means(X, M), A.max(axis=1, initial=0)
    live, index = scale > 0, np.flatnonzero(means > 0)  # components, and rows, that are not all zero; others stay
    units = A / np.where(live, scale, 1)[:, None]
    means = means[index, None]
    # Codes are multiplied by `unit` (n_rows, r). The divergence is divided by means**beta, so the penalty weights are
    # divided by `degree` (l1), and once more by `unit` (l2).
    unit = np.where(live, scale, means) / means
    degree = means**beta * unit
    Y, M = X[index] / means, None if M is None else M[index]
    weight = np.full(len(Y), float(X.shape[1])) if M is None else M.sum(axis=1)
    # data, their powers, entry weights and the sum of these; starting codes, their bounds, and their penalty weights
    rows = _ScaledRows(
        Y, powers_of(Y, beta), M, weight, Ft[:, index].T * unit, low * unit, high * unit, l1 / degree,
        l2 / (degree * unit),
    )  # fmt: skip
    codes = _minimise(rows, units, beta)
    found = np.clip(codes / unit, low, high).T
    Ft[np.ix_(live, index)] = found[live]


def _minimise(rows: _ScaledRows, A: Array, beta: float) -> Array:
    """Return the codes (n_rows, r) after Newton's method with line search; converged rows are dropped on the way."""
    # `index`: numbers of the rows that have not converged, which `rows` holds
    codes, index, floor = rows.codes.copy(), np.arange(len(rows.codes)), floor_of(beta)
    P = np.maximum(_times(rows.codes, A), floor)
    for _ in range(STEPS):
        # the second derivative of an entry is ``fisher * (beta - 1 + (2 - beta) y / p)``; Fisher's is that at a perfect
        # fit
        fisher = curvatures(P, beta)
        value = values(rows.data, rows.data_powers, P, rows.weights, beta, fisher) + rows.penalty(rows.codes)
        if rows.weights is not None:
            fisher *= rows.weights
        slope, newton = P - rows.data, rows.data / P
        slope *= fisher
        newton *= 2 - beta
        newton += beta - 1
        newton *= fisher
        gradient = _times(slope, A.T) + rows.l1 + rows.l2 * rows.codes
        step, decrease = _newton_step(rows, A, newton, gradient)  # the decrease that the step predicts
        flat = np.flatnonzero(~(decrease > 0))  # rows where Newton's curvature gives no descent use Fisher's
        if flat.size:
            step[flat], decrease[flat] = _newton_step(rows.take(flat), A, fisher[flat], gradient[flat])
        # the share of its step that each row takes
        share = _search(rows, P, value, _times(step, A), step, np.where(decrease > 0, decrease, 0), beta)
        new = np.clip(rows.codes + share[:, None] * step, rows.low, rows.high)
        # A row goes on if its step was shortened, or if neither the predicted decrease nor the codes have settled. A
        # small prediction of Fisher's curvature proves nothing, because its convergence is not quadratic.
        moved, largest = np.abs(new - rows.codes).max(axis=1), new.max(axis=1)
        last = decrease <= LEAST_DECREASE * rows.total_weight
        last[flat] = False
        going = (decrease > 0) & (share > 0) & ((share < 1) | ~(last | (moved <= STILL * largest)))
        codes[index] = rows.codes = new
        if not going.any():
            break
        if not going.all():
            index, rows = index[going], rows.take(going)
        P = _times(rows.codes, A)
        np.maximum(P, floor, out=P)
    return codes


def _times(F: Array, A: Array) -> Array:
    """Return ``F @ A`` computed row by row, so that no row's result depends on the others."""
    return np.matmul(F[:, None], A)[:, 0]


def _search(
    rows: _ScaledRows, P: Array, value: Array, ahead: Array, step: Array, decrease: Array, beta: float
) -> Array:
    """Return for each row the share 1, 1/2, 1/4, ... of its step that decreases the objective enough (Armijo), or 0."""
    slack = ROUNDING * (rows.total_weight + np.abs(value))
    # `left`: numbers of the rows still searched; `going`: which of them go on
    shares, left, going, share = np.zeros(len(P)), np.arange(len(P)), decrease > 0, 1.0
    for _ in range(HALVINGS):
        if not going.all():
            rows, left = rows.take(going), left[going]
            P, value, ahead, step, decrease, slack = (a[going] for a in (P, value, ahead, step, decrease, slack))
        if not left.size:
            break
        trial = share * ahead
        trial += P
        np.maximum(trial, floor_of(beta), out=trial)
        new = np.clip(rows.codes + share * step, rows.low, rows.high)
        after = values(rows.data, rows.data_powers, trial, rows.weights, beta) + rows.penalty(new)
        enough = after <= value - ARMIJO * share * decrease + slack
        shares[left[enough]] = share
        going, share = ~enough, share / 2
    return shares


def _newton_step(rows: _ScaledRows, A: Array, curvature: Array, gradient: Array) -> tuple[Array, Array]:
    """Return the Newton step (n_rows, r) of the codes and the decrease (n_rows,) that it predicts to first order."""
    free = ((rows.codes > rows.low) | (gradient < 0)) & ((rows.codes < rows.high) | (gradient > 0))
    order = np.argsort(~free, axis=1, kind="stable")  # codes that may move come first
    diagonal = _times(curvature, (A * A).T) + rows.l2  # of the Hessian, (n_rows, r)
    largest = np.max(diagonal, axis=1, where=free, initial=0)
    convex = ~((diagonal < 0) & free).any(axis=1)
    r, n = A.shape
    step = np.zeros_like(gradient)
    # A small ridge on the diagonal picks one of many solutions if components are alike.
    # The kernel writes `step`, within the distances of the codes from their bounds; the arrays before it are scratch.
    # Three more columns of `order`, because it takes variables in fours; a row that is not convex gets count 0.
    _kernels.newton_steps(
        A, curvature, diagonal + np.where(largest > 0, RIDGE * largest, 1)[:, None], gradient.copy(),
        rows.low - rows.codes, rows.high - rows.codes, np.concatenate([order, order[:, [0, 0, 0]]], axis=1),
        np.where(convex, np.count_nonzero(free, axis=1), 0), np.empty(r, np.int64), np.empty((4, n)), np.zeros((r, r)),
        np.empty((r, r)), np.empty(r), step,
    )  # fmt: skip
    decrease = -np.einsum("ij,ij->i", gradient, step)
    step[~(decrease > 0)] = 0
    return step, decrease
