"""Damped scalar block coordinate descent for the rows of one factor; see :mod:`.sbcd` and ``docs/derivations/sbcd.md``.

It works in units in which the mean of each row and the maximum of each component are 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from visionnmf.engine.divergence import EMPTY_FLOOR, curvatures, floor_of, powers_of, row_means, values
from visionnmf.engine.kernels import divergence_descent as _kernels
from visionnmf.engine.penalties import Penalty

Array = NDArray[Any]

ALIGNMENT = 64  # bytes: a SIMD register, a cache line
REFITS = 3  # maximum number of new models for a row whose divergence rose
HALVINGS = 12  # maximum number of times that a step is shortened
ROUNDING = 4.0  # of a sum over a row, in units of its mean and the dtype's precision
LEAST_SHARE = 1e-18  # of the largest entry of all components
STEPS = np.float32  # low precision is enough for the change of the codes, not for the codes


def padded(shape: tuple[int, int], dtype: DTypeLike = STEPS) -> Array:
    """Return zeros in which every row starts on a cache line; unaligned rows would be a third slower."""
    size = np.dtype(dtype).itemsize
    columns = -(-shape[1] * size // ALIGNMENT) * ALIGNMENT // size
    buffer = np.zeros(shape[0] * columns * size + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + shape[0] * columns * size].view(dtype).reshape(shape[0], columns)


class Fixed:
    """The inputs that all rows of a half-problem share: the fixed factor `A` (n_components, n), penalty and divergence.

    The other parameters are those of :func:`.sbcd.improve`.
    """

    def __init__(
        self, A: Array, penalty: Penalty, beta: float, *, exact: bool, rounds: int, sweeps: int, tol: float, alone: bool
    ) -> None:
        largest = A.max(axis=1, initial=0)
        # components that are almost zero compared with the others are left out, because their codes would overflow
        self.live = largest > LEAST_SHARE * largest.max(initial=0)
        self.scale = np.where(self.live, largest, 1)
        self.units = A / self.scale[:, None]
        self.rough = padded(A.shape)
        self.rough[:, : A.shape[1]] = self.units
        self.low, self.high = penalty.box(A.dtype)
        l1, l2 = penalty.weights(len(A), A.dtype)
        scale = self.scale
        self.limits = np.stack([self.low * scale, self.high * scale, l1 / scale, l2 / scale / scale])
        self.penalised = bool((l1 + l2 > 0).any())
        self.beta, self.convex, self.floor = beta, 1.0 <= beta <= 2.0, A.dtype.type(floor_of(beta))
        self.slack = ROUNDING * A.shape[1] * (1e-7 if A.itemsize == 4 else 2e-16)
        self.exact, self.rounds, self.sweeps, self.tol, self.alone = exact, rounds, sweeps, tol, alone

    def times(self, F: Array, A: Array) -> Array:
        """Return ``F @ A``, computed row by row if rows must not depend on each other."""
        return np.matmul(F[:, None], A)[:, 0] if self.alone else np.matmul(F, A)

    def slope(self, rows: _Rows, codes: Array) -> Array:
        """Return the derivative of the penalty at the codes of some rows."""
        return self.limits[2] * rows.units[:, 1:2] + self.limits[3] * (rows.units[:, 2:] * codes)

    def penalty(self, rows: _Rows, codes: Array) -> Array:
        """Return ``l1 . f + l2 . f^2 / 2`` of each row."""
        values: Array = np.asarray(np.sum(codes * self.slope(rows, codes / 2), axis=1, dtype=np.float64))
        return values

    def model(self, codes: Array) -> Array:
        """Return the model of the codes, bounded below by the floor."""
        P = self.times(codes, self.units)
        return np.maximum(P, self.floor, out=P)


@dataclass
class _Rows:
    """Rows in their own units: data, weights, powers of the data, model, its curvatures, codes and losses.

    `units` [shape=(n_rows, 3)] are factors of :attr:`Fixed.limits`, for bounds, l1 and l2; `flat` counts entries that
    keep a model from being recovered from the residual.
    """

    Y: Array
    M: Array | None
    powers: Array | None
    P: Array
    V: Array
    codes: Array
    units: Array
    losses: Array
    flat: Array

    def take(self, index: Array) -> _Rows:
        """Return a copy of some of the rows."""
        return _Rows(*(None if value is None else value[index] for value in vars(self).values()))  # type: ignore[arg-type]


def improve(X: Array, M: Array | None, Ft: Array, fixed: Fixed) -> Array:
    """Update the codes `Ft` (n_components, n_rows) in place; return the loss of each row, without penalties.

    `X` (n_rows, n) are the data, `M` their weights or None.
    """
    number, beta = X.dtype.type, fixed.beta
    means = row_means(X, M)
    full = means > 0
    if not full.all():
        Ft[np.ix_(fixed.live, ~full)] = fixed.low
        means[~full] = 1
    units = np.stack([1 / means, means ** (1 - beta), means ** (2 - beta)], axis=1).astype(X.dtype)
    codes = (Ft * fixed.scale[:, None]).T * units[:, :1]
    Y = X / means.astype(X.dtype)[:, None]
    P = fixed.model(codes)
    if not full.all():
        Y[~full] = 0
        P[~full] = np.maximum(codes[~full] @ fixed.units, number(EMPTY_FLOOR))
    V, powers = curvatures(P, beta), powers_of(Y, beta)
    losses = values(Y, powers, P, M, beta, V)
    rows = _Rows(Y, M, powers, P, V, codes, units, losses, np.zeros(len(X), np.int64))
    index = np.flatnonzero(full)
    part = rows if len(index) == len(X) else rows.take(index)
    for turn in range(fixed.rounds if index.size else 0):
        if turn > 0:
            part.V = curvatures(part.P, beta)
        before = part.codes
        _step(part, fixed)
        rows.codes[index], rows.losses[index] = part.codes, part.losses
        if fixed.rounds > 1:
            moved = np.abs(part.codes - before).max(axis=1, initial=0)
            going = moved > fixed.tol * part.codes.max(axis=1, initial=0)
            if not going.all():
                index, part = index[going], part.take(going)
        if not index.size:
            break
    found = rows.codes.T * (means.astype(X.dtype) / fixed.scale[:, None])
    np.clip(found, fixed.low, fixed.high, out=found)
    np.copyto(Ft, found, where=fixed.live[:, None] & full)
    return rows.losses * means**beta


def _step(rows: _Rows, fixed: Fixed) -> None:
    """Build and minimise one quadratic model of the divergence of each row; no objective rises, except by rounding.

    `rows.Y` are the data, `rows.P` the product of codes and components, `rows.V` its curvatures ``P^(beta - 2)`` and
    `rows.M` the entry weights. If further rounds follow, `rows.P` is that of the new codes afterwards.
    """
    if fixed.exact:
        _polish(rows, fixed)
        if fixed.rounds > 1:
            rows.P = fixed.model(rows.codes)
        return
    new, reached, model = _solve(rows, rows.Y, rows.V, rows.M, fixed.convex, fixed)
    risen = ~_fallen(rows, new, reached, fixed)
    if risen.any():  # the minimum of the quadratic model was too far: exact coordinate steps, or larger curvatures
        part = rows.take(risen)
        if fixed.beta == 1.0:
            _polish(part, fixed)
        else:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where powers leave their range
                part.codes, part.losses = _refit(part, model[risen], fixed)
        new[risen], reached[risen] = part.codes, part.losses
        if fixed.rounds > 1:
            model[risen] = fixed.model(part.codes)
    rows.codes, rows.losses, rows.P = new, reached, model


def _polish(rows: _Rows, fixed: Fixed) -> None:
    """Update the codes by exact coordinate steps, for the Kullback-Leibler divergence."""
    rows.codes = rows.codes.copy()
    _kernels.ccd_rows(
        rows.Y, rows.P, rows.M, rows.codes, fixed.units, fixed.limits, rows.units, fixed.floor, fixed.sweeps
    )
    rows.losses = values(rows.Y, rows.powers, rows.P, rows.M, fixed.beta)


def _solve(rows: _Rows, Y: Array, V: Array, M: Array | None, convex: bool, fixed: Fixed) -> tuple[Array, Array, Array]:
    """Minimise the least-squares models of rows; return new codes, their divergences and their model of the data.

    `Y`, `V`, `M` and `convex` define the models; see :func:`.kernels.divergence_descent.improve_rows`.
    """
    codes, model = rows.codes.copy(), np.empty_like(rows.P)
    _kernels.improve_rows(
        Y, rows.P, V, M, fixed.beta, convex, fixed.rough, codes, fixed.limits, rows.units, fixed.sweeps, fixed.floor,
        padded((3, Y.shape[1])), np.empty(codes.shape[1], bool), model, rows.flat,
    )  # fmt: skip
    if fixed.rounds > 1:
        model = fixed.model(codes)
    elif rows.flat.any():
        flat = rows.flat > 0
        model[flat] = fixed.model(codes[flat])
    return codes, values(rows.Y, rows.powers, model, rows.M, fixed.beta), model


def _fallen(rows: _Rows, new: Array, reached: Array, fixed: Fixed) -> Array:
    """Return for each row whether its objective has not risen, except by rounding."""
    rise = reached - rows.losses
    if fixed.penalised:
        rise += fixed.penalty(rows, new) - fixed.penalty(rows, rows.codes)
    return rise <= fixed.slack


def _refit(rows: _Rows, model: Array, fixed: Fixed) -> tuple[Array, Array]:
    """Retry rows that have risen to `model` with larger curvatures, then shorter steps; return codes and losses."""
    codes, losses, beta = rows.codes.copy(), rows.losses.copy(), fixed.beta
    left = np.arange(len(codes))
    ratio = np.maximum(beta - 1 + (2 - beta) * rows.Y / rows.P, _kernels.LEAST_CURVATURE)
    B = rows.V * (2 * ratio / (ratio + 1)) if fixed.convex else rows.V
    for _ in range(REFITS):
        # the divergence's greatest curvature between both models, but not below a tenth of the first
        nearest = np.minimum(rows.P, np.maximum(model, rows.P / 10))
        B = np.maximum(B, curvatures(nearest, beta) * (beta - 1 + (2 - beta) * rows.Y / nearest))
        goal = rows.P + rows.V * (rows.Y - rows.P) / B  # with these curvatures the gradient is the same
        new, reached, model = _solve(rows, goal, B, rows.M, False, fixed)
        fallen = _fallen(rows, new, reached, fixed)
        codes[left[fallen]], losses[left[fallen]] = new[fallen], reached[fallen]
        risen = ~fallen
        left, rows = left[risen], rows.take(risen)
        new, reached, model, B = new[risen], reached[risen], model[risen], B[risen]
        if not left.size:
            break
    else:
        codes[left], losses[left] = _damped(rows, new, reached, model, fixed)
    return codes, losses


def _damped(rows: _Rows, new: Array, reached: Array, model: Array, fixed: Fixed) -> tuple[Array, Array]:
    """Shorten the step of each row until its objective does not rise; return codes and divergences.

    Each trial length minimises the parabola through the last two values.
    """
    before = rows.losses + fixed.penalty(rows, rows.codes)
    objective = reached + fixed.penalty(rows, new)
    fall = rows.V * (rows.Y - rows.P) * (1 if rows.M is None else rows.M)
    slope = -np.einsum("ij,ij->i", fall, model - rows.P, dtype=np.float64)
    slope += (fixed.slope(rows, rows.codes) * (new - rows.codes)).sum(axis=1)
    codes, losses = rows.codes.copy(), rows.losses.copy()
    share, left = np.ones(len(codes)), np.ones(len(codes), bool)
    for _ in range(HALVINGS):
        rise = objective - before - slope * share
        best = np.where(rise > 0, -slope * share * share / np.where(rise > 0, 2 * rise, 1), 0)
        share = np.clip(best, 0.1 * share, 0.5 * share)
        part = share.astype(codes.dtype)[:, None]
        step, trial = rows.codes + part * (new - rows.codes), rows.P + part * (model - rows.P)
        reached = values(rows.Y, rows.powers, trial, rows.M, fixed.beta)
        objective = reached + fixed.penalty(rows, step)
        fallen = left & (objective <= before)
        codes[fallen], losses[fallen] = step[fallen], reached[fallen]
        left &= ~fallen
        if not left.any():
            break
    return codes, losses
