"""Continuation ADMM on a device (:mod:`..solvers.admm`), and codes of fixed components by ADMM in consensus form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import admm, rri
from visionnmf.engine.stopping import Iteration

from . import descent, factors, medians, passes
from .namespace import chunks, compiled, copied, moved, namespace_of, number, parts_of, to_numpy, total


class AdmmOnDevice:
    """The rows of a problem on a device, and their codes `Wt` (r, n_samples), for :func:`..solvers.admm.follow`."""

    def __init__(self, problem: Problem, Wt: Any) -> None:
        """Take the problem and its codes, which change in place, and make room for the dual, as large as the data."""
        self.loss, alternate = problem.loss, admm.back_and_forth(problem)
        # HALS sweeps over either factor
        self._codes = factors.Sweeps(problem.penalty_W, admm.SWEEPS, alternate=alternate)
        self._components = factors.Sweeps(problem.penalty_H, admm.SWEEPS, alternate=alternate)
        self._problem, self._Wt = problem, Wt
        self._U = namespace_of(Wt).zeros_like(problem.X)

    def totals(self) -> admm.Totals:
        """Return the sums of the data and of their weights over all rows, which set the scale of rho."""
        return totals(self._problem)

    def step(self, H: Any, bound: float, decay: float) -> admm.Pass:
        """Update the codes in place for fixed components `H` (r, n), and return what the components need next.

        `bound` is ``1 / rho``, and `decay` the factor of its last change, by which the scaled dual `_U` is multiplied.
        `V` is the target of least squares of some rows. A loss that `one_pass` does not evaluate (not `valued`) is
        computed before.
        """
        problem, Wt, U, xp = self._problem, self._Wt, self._U, namespace_of(H)
        loss = problem.loss
        assert loss.record.proximal is not None
        penalty = factors.penalty_value(problem.penalty_W, Wt)
        value = 0.0 if loss.record.proximal.valued else factors.loss_value(problem, Wt, H)
        one_pass = compiled(passes.pass_of(loss), H)
        numbers = number(bound, H), number(decay, H)
        gram, right = xp.matmul(H, H.T), xp.zeros_like(H)
        sums = []
        for rows, M in parts_of(problem.weights, chunks(problem.X)):
            P = factors.model_of(Wt, H, rows)
            V, losses, primal = one_pass(problem.X[rows, :], P, U[rows, :], M, *numbers)
            sums += [(losses, primal)]
            codes = copied(Wt[:, rows])
            self._codes(codes, gram, xp.matmul(H, V.T), bound)
            Wt[:, rows] = codes
            right = right + xp.matmul(codes, V)
        value += sum(total(losses[None, :]) for losses, _ in sums)
        residual = sum(total(primal[None, :]) for _, primal in sums)
        return admm.Pass(right, xp.matmul(Wt, Wt.T), value, residual, penalty)

    def improve_components(self, H: Any, found: admm.Pass, bound: float) -> float:
        """Run HALS sweeps on the components `H` (r, n), in place; return their penalty before.

        `found` has the Gram matrix of the codes and their product with the target. The penalty is multiplied by
        `bound`, because least squares is the objective divided by rho.
        """
        penalty = factors.penalty_value(self._problem.penalty_H, H)
        self._components(H, found.gram, found.right, bound)
        return penalty

    def polish(self, H: Any, max_iter: int) -> Iterator[Iteration]:
        """Minimise the Huber loss over the codes and `H` (r, n), in place, by at most `max_iter` iterations of HALS."""
        return descent.iterate(self._problem, self._Wt, H, clip=True, max_iter=max_iter)


def totals(problem: Problem) -> admm.Totals:
    """Return the sums over all rows of a problem on a device that set the scale of ADMM's path."""
    X, M, loss = problem.X, problem.weights, problem.loss
    xp = namespace_of(X)
    size = float(X.shape[0] * X.shape[1])
    largest = 0.0
    if loss.record.beta is None:  # not a divergence, which is infinite at the model 0
        for rows, part in parts_of(M, chunks(X)):
            values = loss.record.values(X[rows, :], xp.zeros_like(X[rows, :]), part, loss.parameter)
            largest += total(values[None, :])
    n_observed = size if M is None else float(xp.sum(xp.asarray(M != 0, dtype=xp.float64)))
    weight = n_observed if M is None else total(M)
    return admm.Totals(total(X), size, n_observed, weight, largest)


# --- codes of fixed components ----------------------------------------------------------------------------------------


def codes(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite the codes `Wt` (r, n_samples) of components `H` by ADMM; weighted medians end the Manhattan losses."""
    system = _System(problem, H)
    # an iteration of a chunk needs several arrays as large as its rows
    for rows, M in parts_of(problem.weights, chunks(problem.X)):
        part = replace(problem, X=problem.X[rows, :], weights=M)
        # `system` works with components of norm 1, so its codes are divided by their norms, `scale`
        found = factors.clipped(problem.penalty_W, (system.iterate(part) / system.scale).T)
        if problem.loss.name in rri.LOSSES:
            found = copied(found)
            medians.polish(part, found, H, sweeps=admm.CODES_POLISH)
        Wt[:, rows] = found


class _System:
    """The linear system of ADMM in consensus form that all rows and iterations share; see `.FixedComponents`."""

    def __init__(self, problem: Problem, H: Any) -> None:
        """Scale the components `H` (r, n) to norm 1, and decompose their Gram matrix, in NumPy and double precision."""
        components = to_numpy(H)
        norms = np.linalg.norm(components, axis=1)
        scale = np.where(norms > 0, norms, components.dtype.type(1))
        unit = components / scale[:, None]
        l1, l2 = problem.penalty_W.weights(len(unit), np.float64)
        ridge = l2 / scale.astype(np.float64) ** 2
        gram = unit @ unit.T
        system = gram.astype(np.float64) + admm.CODES_TIE * np.eye(len(unit))
        # with these, the inverse of ``system + b diag(ridge)`` is ``V / (1 + b values) V.T`` for any b (`_linear`)
        values, vectors = eigh(np.diag(ridge), system)
        self.scale, self.unit, self.gram = moved(scale, H), moved(unit, H), moved(gram, H)
        self.lean, self.values, self.vectors = moved(l1 / scale, H), moved(values, H), moved(vectors, H)
        self.inverse = moved(np.linalg.inv(system), H) if not ridge.any() else None

    def iterate(self, problem: Problem) -> Any:
        """Return the feasible copy of the codes (n_rows, r), in units in which components have norm 1."""
        X, M, loss, unit = problem.X, problem.weights, problem.loss, self.unit
        xp = namespace_of(X)
        copy = self._start(problem)
        U, dual = xp.zeros_like(X), xp.zeros_like(copy)  # scaled duals of ``X = model + residual`` and of ``F = copy``
        # codes shrunk by l1 or l2 leave residuals as large as the data, and no medians correct them
        shrunk = problem.penalty_W.kinds & {"l1", "l2"} and loss.name not in rri.LOSSES
        model = xp.matmul(copy, unit)
        bounds = _row_scales(problem, xp.zeros_like(model) if shrunk else model)
        decay = admm.CODES_GROWTH ** (-1 / admm.CODES_ITERATIONS)
        one_pass = compiled(passes.pass_of(loss), X)
        F = copy
        for iteration in range(admm.CODES_ITERATIONS):
            shrink = number(decay if iteration else 1.0, X)
            V, _, _ = one_pass(X, xp.matmul(F, unit), U, M, bounds, shrink)
            F = self._linear(xp.matmul(V, unit.T) + admm.CODES_TIE * (copy - dual), bounds)
            dual = dual + F
            copy = self._project(problem, dual)
            dual = (dual - copy) * decay  # rho grows, and the scaled dual shrinks with 1 / rho
            bounds = bounds * decay
        return copy

    def _start(self, problem: Problem) -> Any:
        """Return starting codes (n_rows, r): HALS sweeps from 0 on the rows, projected onto the box."""
        xp = namespace_of(self.unit)
        right = xp.matmul(self.unit, problem.X.T)
        F = xp.zeros_like(right)
        plain = replace(problem.penalty_W, low=0.0, high=float("inf"), l1=0.0, l2=0.0)
        factors.Sweeps(plain, admm.CODES_START_SWEEPS)(F, self.gram, right)
        return self._project(problem, F.T)

    def _linear(self, right: Any, bounds: Any) -> Any:
        """Solve ``(G + tie + b ridge) f = right - b l1`` for each row's scaled codes; `bounds` are ``b = 1 / rho``.

        The codes are multiplied by the norms of the components, so the weights of l1 are divided by these norms, and
        the weights of l2, in `ridge`, by their squares.
        """
        xp = namespace_of(right)
        right = right - self.lean * bounds
        if self.inverse is not None:
            return xp.matmul(right, self.inverse)
        return xp.matmul(xp.matmul(right, self.vectors) / (1 + self.values * bounds), self.vectors.T)

    def _project(self, problem: Problem, F: Any) -> Any:
        """Project scaled codes `F` (n_rows, r), which are multiplied by the norms of the components, onto the box."""
        penalty = problem.penalty_W
        return namespace_of(F).clip(F, penalty.low * self.scale, penalty.high * self.scale)


def _row_scales(problem: Problem, V: Any) -> Any:
    """Return the first ``1 / rho`` of each row (n_rows, 1): its mean residual over the derivative of the loss there.

    `V` (n_rows, n) is the model. In this unit ADMM does not depend on the scale of the data or of the weights.
    """
    X, M, loss = problem.X, problem.weights, problem.loss
    assert loss.record.proximal is not None
    xp = namespace_of(X)
    sizes = xp.abs(X - V)
    weights = np.ones(X.shape[0])
    if M is None:
        means = to_numpy(xp.mean(xp.asarray(sizes, dtype=xp.float64), axis=1)).copy()
    else:
        observed = xp.asarray(M > 0, dtype=xp.float64)
        n_observed = np.maximum(to_numpy(xp.sum(observed, axis=1)), 1)
        weights = to_numpy(xp.sum(M, axis=1, dtype=xp.float64)) / n_observed
        weights = np.where(weights == 0, 1, weights)  # rows without observed entries
        means = to_numpy(xp.sum(sizes * observed, axis=1)) / n_observed
    means = np.where(means == 0, 1, means)  # the fit is already exact, so any positive number will do
    weights = weights**loss.record.weight_degree
    slopes = loss.record.proximal.slope(means, X.shape[1], loss.parameter)
    return moved((means / (weights * slopes))[:, None], X)
