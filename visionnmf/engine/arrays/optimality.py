"""Distance of factors on a device from a stationary point; :mod:`..optimality` has the definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf.engine.losses import ZERO
from visionnmf.engine.optimality import ENOUGH, Gradients, distance, penalty_gradient, size_of
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem

from . import factors
from .namespace import chunk_entries, chunks, in_float64, namespace_of, parts_of, to_numpy, total

STEPS = 200  # maximum number of accelerated gradient steps that balance the derivatives at residuals of 0


def optimality(problem: Problem, Wt: Any, H: Any) -> float:
    """Return how far the codes `Wt` (r, n_samples) and components `H` (r, n) are from a stationary point; 0 at one.

    It is the larger change of the model by one projected gradient step on either factor, relative to the data. Where a
    loss has a kink, the derivatives at residuals of 0 are chosen by accelerated gradient steps, which may end a little
    farther from the best choice than the descent of :func:`..optimality.optimality`.
    """
    X, xp = problem.X, namespace_of(H)
    W64, H64 = in_float64(Wt), in_float64(H)
    size = size_of(problem, W64, H64)
    if not size:
        return 0.0
    tiny = ZERO * total(X) / float(X.shape[0] * X.shape[1]) if problem.loss.record.kink else 0.0
    G_W, G_H, derivative_squares = xp.zeros_like(W64), xp.zeros_like(H64), 0.0
    for rows, M in parts_of(problem.weights, chunks(X, _entries(X))):
        # `at_zero`, the derivative at the model 0 (of a divergence its positive part), is the scale of derivatives
        D, at_zero = factors.derivatives(problem, W64, H64, rows, M, tiny)
        derivative_squares += total(at_zero * at_zero)
        G_W[:, rows] = xp.matmul(H64, D.T)
        G_H += xp.matmul(W64[:, rows], D)
    if problem.loss.record.kink:  # add the derivatives at residuals of 0, within `bounds`, that make gradients small
        balance_W = _Balance(H64, problem.penalty_W, derivative_squares / X.shape[0])
        for rows in chunks(X, _entries(X)):
            bounds = _bounds(problem, W64[:, rows], H64, (rows, slice(None)), tiny)
            G_W[:, rows] = balance_W(G_W[:, rows], W64[:, rows], bounds)
        balance_H = _Balance(W64, problem.penalty_H, derivative_squares / X.shape[1])
        for columns in chunks(X.T, _entries(X)):
            bounds = _bounds(problem, W64, H64[:, columns], (slice(None), columns), tiny)
            G_H[:, columns] = balance_H(G_H[:, columns], H64[:, columns], bounds.T)
    return distance(problem, W64, H64, Gradients(G_W, G_H, derivative_squares**0.5), size)


def _bounds(problem: Problem, W: Any, H: Any, part: tuple[slice, slice], tiny: float) -> Any:
    """Return the largest derivative at each entry of a `part` of the data: 0 where its residual is above `tiny`.

    At a residual of 0 the derivative may be any number between minus and plus the loss's `kink` times the weight. `W`
    and `H` are the codes and components of that part, (r, n_rows) and (r, n_columns).
    """
    xp = namespace_of(H)
    zero = xp.abs(xp.matmul(W.T, H) - in_float64(problem.X[part])) <= tiny
    weights = xp.ones_like(in_float64(zero)) if problem.weights is None else in_float64(problem.weights[part])
    return problem.loss.record.kink * xp.where(zero, weights, xp.zeros_like(weights))


class _Balance:
    """Chooses the derivatives at residuals of 0 of some rows so that their gradients are small."""

    def __init__(self, A: Any, penalty: Penalties, row_squares: float) -> None:
        """Take the fixed factor `A` (r, n), and the penalty of the other one.

        A gradient is small enough when its norm is a small share of the root of `row_squares`, the mean squared
        derivative of a row.
        """
        xp = namespace_of(A)
        norms = xp.sqrt(xp.sum(A * A, axis=1))
        self.norms = xp.where(norms > 0, norms, xp.ones_like(norms))[:, None]
        self.unit, self.penalty = A / self.norms, penalty
        self.enough = ENOUGH * row_squares**0.5
        # one over the curvature, the largest eigenvalue
        self.step = 1 / (float(np.linalg.eigvalsh(to_numpy(xp.matmul(self.unit, self.unit.T)))[-1]) or 1.0)

    def __call__(self, G: Any, F: Any, bounds: Any) -> Any:
        """Return the gradient `G` (r, n_rows) of the codes `F` (r, n_rows) with the best derivatives at residuals of 0.

        There the loss has a kink, and its derivative may be any number between minus and plus the entry of `bounds`
        (n_rows, n), which is 0 elsewhere. Accelerated gradient steps find `signs` (n_rows, n) that make the gradient
        smallest, with the penalty, which is subtracted again at the end. Gradients that the bounds of the codes absorb
        count as 0. `unit` are the components of norm 1, `norms` (r, 1) their norms before, and `step` is the length of
        a step.
        """
        xp, unit, penalty = namespace_of(G), self.unit, self.penalty
        slope = penalty_gradient(penalty, F)
        fixed = (G + slope) / self.norms
        at_low, at_high = F <= penalty.low, F >= penalty.high
        signs = ahead = xp.zeros_like(bounds)
        t = 1.0
        for _ in range(STEPS):
            gap = fixed + xp.matmul(unit, ahead.T)
            gap = xp.where((at_low & (gap > 0)) | (at_high & (gap < 0)), xp.zeros_like(gap), gap)
            if float(xp.max(xp.sum(gap * gap, axis=0))) <= self.enough**2:
                signs = ahead
                break
            new = ahead - self.step * xp.matmul(gap.T, unit)
            new = xp.minimum(xp.maximum(new, -bounds), bounds)
            t, before = (1 + (1 + 4 * t * t) ** 0.5) / 2, t
            signs, ahead = new, new + (before - 1) / t * (new - signs)
            ahead = xp.minimum(xp.maximum(ahead, -bounds), bounds)
        return (fixed + xp.matmul(unit, signs.T)) * self.norms - slope


def _entries(X: Any) -> int:
    """Return how many entries are worked on at a time: fewer than elsewhere, because this is in double precision."""
    return chunk_entries(X) // 4
