"""Multiplicative updates of the beta-divergences on a device (:func:`..solvers.baselines.divergences.mu`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from visionnmf.engine.divergence import exponent, floor_of
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration

from . import factors
from .namespace import chunks, namespace_of, numpy_dtype, parts_of, total


def iterate(problem: Problem, Wt: Any, H: Any, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt` (r, n_samples), then `H` (r, n), by quotients, in place; yield the objective before an iteration."""
    X, loss, xp = problem.X, problem.loss, namespace_of(H)
    update = _Update(problem, H)
    # Data and model are divided by their mean, of a row for the codes and of a feature for the components, so that
    # their powers in the gradient stay in range; the factor that is left out cancels in the quotient. `update.units`
    # returns these means, and 1 in place of a mean of almost 0; `columns` (n,) are those of the features.
    columns = update.units(xp.sum(X, axis=0) / X.shape[0])
    for _ in range(max_iter):
        value = problem.penalty_value(Wt, H)
        negative, positive = xp.zeros_like(H), xp.zeros_like(H)  # parts of the gradient by `H`
        for rows, M in parts_of(problem.weights, chunks(X)):
            part = X[rows, :]
            P = factors.model_of(Wt, H, rows)
            value += total(loss.record.values(part, P, M, loss.parameter))
            units = update.units(xp.sum(part, axis=1) / X.shape[1])
            minus, plus = update.parts(part, P, M, units[:, None])
            Wt[:, rows] = update(Wt[:, rows], xp.matmul(H, minus.T), xp.matmul(H, plus.T), problem.penalty_W, units)
            minus, plus = update.parts(part, factors.model_of(Wt, H, rows), M, columns)
            negative, positive = (
                negative + xp.matmul(Wt[:, rows], minus), positive + xp.matmul(Wt[:, rows], plus)
            )  # fmt: skip
        H[:, :] = update(H, negative, positive, problem.penalty_H, columns)
        yield Iteration(value)


class _Update:
    """The update of one factor by the quotient of the two parts of its gradient, in units of means of the data."""

    def __init__(self, problem: Problem, like: Any) -> None:
        """Take the exponent of the divergence, and from the dtype of the array `like` the smallest values.

        A divisor is at least `smallest`. Rows and columns of the data are divided by their means, so that powers stay
        in range; a mean of at most `least` counts as 0, and the model after the division is at least `floor`.
        """
        limits = np.finfo(numpy_dtype(like))
        self.beta, self.smallest = problem.loss.beta, float(limits.tiny)
        self.least = self.smallest / float(limits.eps)
        self.floor = floor_of(self.beta)
        if self.beta < 0:  # so that P**(beta - 2) is at most the root of the largest number
            self.floor = max(self.floor, float(limits.max) ** (0.5 / (self.beta - 2)))

    def units(self, means: Any) -> Any:
        """Return means of rows or columns by which these are divided; 1 in place of a mean of almost 0."""
        xp = namespace_of(means)
        return xp.where(means > self.least, means, xp.ones_like(means))

    def parts(self, X: Any, P: Any, M: Any, units: Any) -> tuple[Any, Any]:
        """Return the negative and the positive part of the derivative at each entry, divided by powers of the units.

        `X` are the data, `P` their model, `M` the weights or None, all (n_rows, n). `units`, the means of the rows or
        columns of the data, broadcast to them; they are divided out so that powers stay in range, and both parts lack
        the factor ``units ** (beta - 1)``. The model is at least `floor` times the units.
        """
        P = namespace_of(P).clip(P / units, self.floor, None)
        weights = P ** (self.beta - 2)
        if M is not None:
            weights = weights * M
        return X / units * weights, P * weights

    def __call__(self, F: Any, negative: Any, positive: Any, penalty: Penalties, units: Any) -> Any:
        """Return the factor `F` (r, n_points) times the quotient of the `negative` and `positive` part of its gradient.

        As returned by :meth:`parts`, both are the true ones times ``units ** (1 - beta)``, where `units` (n_points,)
        are what the data of each point were divided by. The gradient of the penalties is multiplied by the same.
        """
        xp = namespace_of(F)
        if penalty.shrinks:
            l1, l2 = factors.penalty_weights(penalty, F)
            positive = positive + units ** (1 - self.beta) * (l1 + l2 * F)
        return F * (negative / xp.clip(positive, self.smallest, None)) ** exponent(self.beta)
