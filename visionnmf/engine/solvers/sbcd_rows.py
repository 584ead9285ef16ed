"""Damped scalar block coordinate descent for the rows of one factor; see :mod:`.sbcd` and ``docs/derivations/sbcd.md``.

It works in units in which the mean of each row and the maximum of each component are 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from visionnmf._typing import Array
from visionnmf.engine.divergence import EMPTY_FLOOR, curvatures, floor_of, powers_of, row_means, values
from visionnmf.engine.kernels import divergence_descent as _kernels
from visionnmf.engine.penalties import Penalties

ALIGNMENT = 64  # bytes: a SIMD register, a cache line
REFITS = 3  # maximum number of new models for a row whose divergence rose
HALVINGS = 12  # maximum number of times that a step is shortened
ROUNDING = 4.0  # of a sum over a row, in units of its mean and the dtype's precision
LEAST_SHARE = 1e-18  # of the largest entry of all components
STEP_DTYPE = np.float32  # low precision is enough for the change of the codes, not for the codes


def aligned_zeros(shape: tuple[int, int], dtype: DTypeLike = STEP_DTYPE) -> Array:
    """Return zeros in which every row starts on a cache line, and may be wider than asked for."""
    size = np.dtype(dtype).itemsize
    columns = -(-shape[1] * size // ALIGNMENT) * ALIGNMENT // size
    buffer = np.zeros(shape[0] * columns * size + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + shape[0] * columns * size].view(dtype).reshape(shape[0], columns)


class Fixed:
    """What all rows of a half-problem share: the fixed factor, penalty, divergence and the options of improve."""

    def __init__(
        self,
        A: Array,
        penalty: Penalties,
        beta: float,
        *,
        exact: bool,
        rounds: int,
        sweeps: int,
        tol: float,
        alone: bool,
    ) -> None:
        """Divide every component by its maximum, `scale`, and the bounds and penalties of its codes to match."""
        largest = A.max(axis=1, initial=0)
        # components that are almost zero compared with the others are left out, because their codes would overflow
        self.live = largest > LEAST_SHARE * largest.max(initial=0)  # (r,) bool
        self.scale = np.where(self.live, largest, 1)  # (r,) maximum of each component
        self.components = A / self.scale[:, None]  # (r, n), of maximum 1
        self.components32 = aligned_zeros(A.shape)  # the same in single precision, padded with zeros: for the sweeps
        self.components32[:, : A.shape[1]] = self.components
        self.low, self.high = penalty.box(A.dtype)
        l1, l2 = penalty.weights(len(A), A.dtype)
        scale = self.scale
        # (4, r): lower bounds, upper bounds, l1 and l2 weights of codes of components of maximum 1
        self.limits = np.stack([self.low * scale, self.high * scale, l1 / scale, l2 / scale / scale])
        self.penalised = bool((l1 + l2 > 0).any())
        # `convex`: whether the divergence is convex in the model; `floor`: smallest value of the model (row mean 1)
        self.beta, self.convex, self.floor = beta, 1.0 <= beta <= 2.0, A.dtype.type(floor_of(beta))
        # rise of a row's objective that counts as rounding; 1e-7 and 2e-16 are the precisions of float32 and float64
        self.slack = ROUNDING * A.shape[1] * (1e-7 if A.itemsize == 4 else 2e-16)
        self.exact, self.rounds, self.sweeps, self.tol, self.alone = exact, rounds, sweeps, tol, alone

    def times(self, F: Array, A: Array) -> Array:
        """Return ``F @ A``, row by row if rows must not depend on each other (`alone`), not even by rounding."""
        return np.matmul(F[:, None], A)[:, 0] if self.alone else np.matmul(F, A)

    def slope(self, rows: _DescendedRows, codes: Array) -> Array:
        """Return the derivative ``l1 + l2 f`` of the penalty at the codes f (n_rows, r), in the rows' units."""
        # rows 2 and 3 of `limits` are l1 and l2, and columns 1 and 2 of `units` convert them to the units of each row
        return self.limits[2] * rows.units[:, 1:2] + self.limits[3] * (rows.units[:, 2:] * codes)

    def penalty(self, rows: _DescendedRows, codes: Array) -> Array:
        """Return ``l1 . f + l2 . f^2 / 2`` for codes f in units of the `rows`: f times the derivative at ``f / 2``."""
        values: Array = np.asarray(np.sum(codes * self.slope(rows, codes / 2), axis=1, dtype=np.float64))
        return values

    def model(self, codes: Array) -> Array:
        """Return the model (n_rows, n) of the codes (n_rows, r), bounded below by the floor."""
        P = self.times(codes, self.components)  # (r, n) components of maximum 1
        return np.maximum(P, self.floor, out=P)


@dataclass
class _DescendedRows:
    """Some rows of the data, each divided by its mean, and the state of their descent."""

    data: Array  # (n_rows, n)
    weights: Array | None  # (n_rows, n), of the entries
    data_powers: Array | None  # data ** beta, where the divergence needs it
    model: Array  # (n_rows, n), product of codes and components
    curvatures: Array  # (n_rows, n), model ** (beta - 2): Fisher's, those of the divergence at a perfect fit
    codes: Array  # (n_rows, r)
    units: Array  # (n_rows, 3) factors of `Fixed.limits`, for bounds, l1 and l2
    losses: Array  # (n_rows,) divergence at the codes, without penalties
    n_flat: Array  # (n_rows,) number of entries of so little curvature that the residual does not determine the model

    def take(self, index: Array) -> _DescendedRows:
        """Return a copy of the rows that `index`, numbers or a mask, selects; None stays None."""
        return _DescendedRows(*(None if value is None else value[index] for value in vars(self).values()))  # type: ignore[arg-type]


def improve(X: Array, M: Array | None, Ft: Array, fixed: Fixed) -> Array:
    """Update the codes in place; return the loss of each row, without penalties."""
    number, beta = X.dtype.type, fixed.beta
    means = row_means(X, M)
    full = means > 0  # rows with positive data
    if not full.all():
        Ft[np.ix_(fixed.live, ~full)] = fixed.low
        means[~full] = 1
    # bounds are divided by the row's mean, and l1 and l2 become those of a divergence that is divided by mean^beta
    units = np.stack([1 / means, means ** (1 - beta), means ** (2 - beta)], axis=1).astype(X.dtype)
    codes = (Ft * fixed.scale[:, None]).T * units[:, :1]
    Y = X / means.astype(X.dtype)[:, None]
    P = fixed.model(codes)  # product with the components, raised to a floor
    if not full.all():  # a row of zeros has no mean, so its model gets an absolute floor
        Y[~full] = 0
        P[~full] = np.maximum(codes[~full] @ fixed.components, number(EMPTY_FLOOR))
    V, powers = curvatures(P, beta), powers_of(Y, beta)
    losses = values(Y, powers, P, M, beta, V)
    rows = _DescendedRows(Y, M, powers, P, V, codes, units, losses, np.zeros(len(X), np.int64))
    index = np.flatnonzero(full)  # numbers of the rows that still move; `part` holds these rows
    part = rows if len(index) == len(X) else rows.take(index)
    for turn in range(fixed.rounds if index.size else 0):
        if turn > 0:  # `_step` has left the model of the new codes there
            part.curvatures = curvatures(part.model, beta)
        before = part.codes
        _step(part, fixed)  # new codes and losses in `part`; `before` is not overwritten
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
    # the divergence of the data is that of the rows divided by their means, times this power
    return rows.losses * means**beta


def _step(rows: _DescendedRows, fixed: Fixed) -> None:
    """Improve the codes of each row once; no row's objective rises, except by rounding."""
    if fixed.exact:  # chosen for the Kullback-Leibler divergence only
        _polish(rows, fixed)
        if fixed.rounds > 1:
            rows.model = fixed.model(rows.codes)  # further rounds start from it
        return
    # new codes (n_rows, r), their divergences (n_rows,) and their product with the components (n_rows, n)
    new, reached, model = _solve(rows, rows.data, rows.curvatures, fixed, newton=fixed.convex)
    risen = ~_fallen(rows, new, reached, fixed)
    if risen.any():  # the minimum of the quadratic model was too far: exact coordinate steps, or larger curvatures
        part = rows.take(risen)
        if fixed.beta == 1.0:  # only Kullback-Leibler has exact steps
            _polish(part, fixed)
        else:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where powers leave their range
                part.codes, part.losses = _refit(part, model[risen], fixed)
        new[risen], reached[risen] = part.codes, part.losses
        if fixed.rounds > 1:  # further rounds start from it
            model[risen] = fixed.model(part.codes)
    rows.codes, rows.losses, rows.model = new, reached, model


def _polish(rows: _DescendedRows, fixed: Fixed) -> None:
    """Update the codes and losses of `rows` by exact coordinate steps, for the Kullback-Leibler divergence."""
    rows.codes = rows.codes.copy()
    _kernels.ccd_rows(
        rows.data, rows.model, rows.weights, rows.codes, fixed.components, fixed.limits, rows.units, fixed.floor,
        fixed.sweeps,
    )  # fmt: skip
    rows.losses = values(rows.data, rows.data_powers, rows.model, rows.weights, fixed.beta)


def _solve(
    rows: _DescendedRows, targets: Array, curvatures: Array, fixed: Fixed, *, newton: bool
) -> tuple[Array, Array, Array]:
    """Minimise a quadratic approximation of the divergence of each row, by coordinate descent."""
    codes, model = rows.codes.copy(), np.empty_like(rows.model)
    lines, stays = aligned_zeros((3, targets.shape[1])), np.empty(codes.shape[1], bool)  # scratch of the kernel
    # it updates `codes`, and writes `model` and how many entries of each row have almost no curvature (`n_flat`)
    _kernels.improve_rows(
        targets, rows.model, curvatures, rows.weights, fixed.beta, newton, fixed.components32, codes, fixed.limits,
        rows.units, fixed.sweeps, fixed.floor, lines, stays, model, rows.n_flat,
    )  # fmt: skip
    # The kernel's product is a by-product of single-precision residuals. If further quadratic models can follow
    # (`fixed.rounds` is their maximum), they start from this product, and its error would grow from one to the next.
    if fixed.rounds > 1:
        model = fixed.model(codes)
    elif rows.n_flat.any():  # and where the curvature is nearly 0, the residual does not determine it
        flat = rows.n_flat > 0
        model[flat] = fixed.model(codes[flat])
    return codes, values(rows.data, rows.data_powers, model, rows.weights, fixed.beta), model


def _fallen(rows: _DescendedRows, new: Array, reached: Array, fixed: Fixed) -> Array:
    """Return for each row whether its objective has not risen by more than rounding, which is `fixed.slack`."""
    rise = reached - rows.losses
    if fixed.penalised:
        rise += fixed.penalty(rows, new) - fixed.penalty(rows, rows.codes)
    return rise <= fixed.slack


def _refit(rows: _DescendedRows, model: Array, fixed: Fixed) -> tuple[Array, Array]:
    """Retry rows whose objective has risen, with larger curvatures and then with shorter steps."""
    codes, losses, beta = rows.codes.copy(), rows.losses.copy(), fixed.beta
    left = np.arange(len(codes))  # numbers of the rows that have not fallen yet
    # Newton's curvature over Fisher's; B begins as the curvature of the failed step, the harmonic mean of both
    ratio = np.maximum(beta - 1 + (2 - beta) * rows.data / rows.model, _kernels.LEAST_CURVATURE)
    B = rows.curvatures * (2 * ratio / (ratio + 1)) if fixed.convex else rows.curvatures
    for _ in range(REFITS):
        # the divergence's greatest curvature between both models, but not below a tenth of the first
        nearest = np.minimum(rows.model, np.maximum(model, rows.model / 10))
        B = np.maximum(B, curvatures(nearest, beta) * (beta - 1 + (2 - beta) * rows.data / nearest))
        # with these targets and the curvatures B, the gradient is the same
        targets = rows.model + rows.curvatures * (rows.data - rows.model) / B
        new, reached, model = _solve(rows, targets, B, fixed, newton=False)  # B itself, without a mean
        fallen = _fallen(rows, new, reached, fixed)  # whose objective has not risen
        codes[left[fallen]], losses[left[fallen]] = new[fallen], reached[fallen]
        risen = ~fallen
        left, rows = left[risen], rows.take(risen)
        new, reached, model, B = new[risen], reached[risen], model[risen], B[risen]
        if not left.size:
            break
    else:  # these rows still rise after all refits
        codes[left], losses[left] = _damped(rows, new, reached, model, fixed)
    return codes, losses


def _damped(rows: _DescendedRows, new: Array, reached: Array, model: Array, fixed: Fixed) -> tuple[Array, Array]:
    """Shorten the step of each row until its objective does not rise; return codes and divergences."""
    before = rows.losses + fixed.penalty(rows, rows.codes)
    objective = reached + fixed.penalty(rows, new)
    # `fall` is minus the derivative ``m p^(beta - 2) (p - y)`` of the divergence with respect to the model p
    fall = rows.curvatures * (rows.data - rows.model) * (1 if rows.weights is None else rows.weights)
    # derivative of each row's objective along its step
    slope = -np.einsum("ij,ij->i", fall, model - rows.model, dtype=np.float64)
    slope += (fixed.slope(rows, rows.codes) * (new - rows.codes)).sum(axis=1)
    codes, losses = rows.codes.copy(), rows.losses.copy()
    share, left = np.ones(len(codes)), np.ones(len(codes), bool)
    for _ in range(HALVINGS):
        # the minimum of the parabola with the slope at 0 and the last value, from a tenth to half of the length before
        rise = objective - before - slope * share
        best = np.where(rise > 0, -slope * share * share / np.where(rise > 0, 2 * rise, 1), 0)
        share = np.clip(best, 0.1 * share, 0.5 * share)
        part = share.astype(codes.dtype)[:, None]
        step, trial = rows.codes + part * (new - rows.codes), rows.model + part * (model - rows.model)
        reached = values(rows.data, rows.data_powers, trial, rows.weights, fixed.beta)
        objective = reached + fixed.penalty(rows, step)
        fallen = left & (objective <= before)
        codes[fallen], losses[fallen] = step[fallen], reached[fallen]
        left &= ~fallen
        if not left.any():
            break
    return codes, losses
