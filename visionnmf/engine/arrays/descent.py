"""HALS on a device (:mod:`..solvers.hals`): least squares, the end of the Huber loss, and least-squares codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import hals
from visionnmf.engine.solvers.momentum import extrapolated
from visionnmf.engine.stopping import Iteration

from . import factors
from .namespace import chunk_entries, chunks, copied, in_float64, namespace_of, parts_of, sum_of_squares

CODES_SWEEPS = 10  # of HALS over the codes of fixed components between two looks at how far they move,
CODES_ROUNDS = 100  # and the maximum number of these looks
CODES_TOLERANCE = 1e-10  # relative change of a row's codes in such a round that ends them


def iterate(problem: Problem, Wt: Any, H: Any, *, clip: bool = False, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt` (r, n_samples), then `H`, by HALS on least squares or (`clip`) Huber's loss; yield the objective."""
    return hals.descend(DescentOnDevice(problem, Wt, clip), H, problem.penalty_H, max_iter=max_iter)


class DescentOnDevice(hals.DescentInMemory):
    """The rows of a problem on a device, and their codes `Wt` (r, n_samples), for :func:`..solvers.hals.descend`."""

    def __init__(self, problem: Problem, Wt: Any, clip: bool) -> None:
        super().__init__(problem, Wt, updates=None)
        self._clip = clip
        M, xp = problem.weights, namespace_of(Wt)
        self._plain = M is None and not clip  # least squares without weights, whose target are the data themselves
        self._largest = 1.0 if M is None else float(xp.max(M)) or 1.0  # weight, by which all are divided: see `_target`
        self._square = sum_of_squares(problem.X) if self._plain else 0.0  # then the loss follows from products
        # only for the number of sweeps, so its data do not matter
        sweeps = hals.Gram(replace(problem, X=np.zeros((1, 1)), weights=None)).sweeps
        r, (n_samples, n) = Wt.shape[0], problem.X.shape
        self._sweeps_codes = factors.Sweeps(problem.penalty_W, sweeps(r, n))
        self._sweeps_components = factors.Sweeps(problem.penalty_H, sweeps(r, n_samples))

    def improve(self, H: Any, H_new: Any, momentum: float) -> float:
        """Update the codes for fixed `H`, extrapolate them by `momentum`, and update `H_new` in place."""
        problem, codes, xp = self._problem, self._codes, namespace_of(H)
        gram, scale = xp.matmul(H, H.T), 1 / self._largest
        codes.new, codes.new_extrapolated = copied(codes.extrapolated), copied(codes.extrapolated)
        right = xp.zeros_like(H)
        for rows, M in parts_of(problem.weights, chunks(problem.X)):
            V = self._target(H, rows, M)  # of least squares: the data, or what a majorised loss puts there
            new = copied(codes.extrapolated[:, rows])
            self._sweeps_codes(new, gram, xp.matmul(H, V.T), scale)
            ahead = extrapolated(new, codes.last[:, rows], momentum, problem.penalty_W)
            codes.new[:, rows], codes.new_extrapolated[:, rows] = new, ahead
            right = right + xp.matmul(ahead, V)
        gram = xp.matmul(codes.new_extrapolated, codes.new_extrapolated.T)
        self._sweeps_components(H_new, gram, right, scale)
        loss = hals.loss_from_products(H_new, gram, right, self._square) if self._plain else None
        if loss is None:
            return problem.objective(codes.new_extrapolated, H_new)
        return loss + problem.penalty_value(codes.new_extrapolated, H_new)

    def _target(self, H: Any, rows: slice, M: Any) -> Any:
        """Return the target of least squares: the data, or what majorises the loss divided by the largest weight."""
        X = self._problem.X[rows, :]
        if self._plain:
            return X
        P = factors.model_of(self._codes.extrapolated, H, rows)
        delta = self._problem.loss.parameter
        E = namespace_of(H).clip(X - P, -delta, delta) if self._clip else X - P
        return P + (E if M is None else M / self._largest * E)


# --- codes of fixed components ----------------------------------------------------------------------------------------


def codes(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite the least-squares codes `Wt` (r, n_samples) of components `H` by HALS sweeps, in double precision."""
    xp, A, penalty = namespace_of(H), in_float64(H), problem.penalty_W
    gram, sweeps = xp.matmul(A, A.T), factors.Sweeps(penalty, CODES_SWEEPS)
    # with weights, a row has a Gram matrix of its own
    width = 1 if problem.weights is None else max(1, H.shape[0] ** 2 // problem.X.shape[1])
    for rows, M in parts_of(problem.weights, chunks(problem.X, chunk_entries(H) // width)):
        X = in_float64(problem.X[rows, :])
        weights = None if M is None else in_float64(M)
        right = xp.matmul(A, X.T if weights is None else (X * weights).T)
        grams = None if weights is None else _weighted_grams(A, weights)
        F = factors.clipped(penalty, xp.zeros_like(right))
        for _ in range(CODES_ROUNDS):
            before = copied(F)
            if grams is None:
                sweeps(F, gram, right)
            else:
                _weighted_sweeps(F, grams, right, penalty)
            sizes, moves = xp.max(F, axis=0), xp.max(xp.abs(F - before), axis=0)
            if bool(xp.all(moves <= CODES_TOLERANCE * sizes)):
                break
        Wt[:, rows] = xp.asarray(F, dtype=Wt.dtype)


def _weighted_grams(A: Any, M: Any) -> Any:
    """Return the Gram matrices ``(m A) A.T`` (r, r, n_rows) of `A` (r, n) for the weights m of each row of `M`."""
    xp = namespace_of(A)
    # row k of all matrices is one product with the products of component k and the others
    return xp.stack([xp.matmul(A * component, M.T) for component in (A[k : k + 1, :] for k in range(A.shape[0]))])


def _weighted_sweeps(F: Any, grams: Any, right: Any, penalty: Penalties) -> None:
    """Run HALS sweeps on `F` (r, n_rows), in place, for rows with Gram matrices `grams` (r, r, n_rows) of their own."""
    xp = namespace_of(F)
    l1, l2 = factors.penalty_weights(penalty, F)
    for _ in range(CODES_SWEEPS):
        for k in range(F.shape[0]):
            curvature = grams[k, k, :] + l2[k, 0]
            slope = right[k, :] - xp.sum(grams[k, :, :] * F, axis=0) - l1[k, 0] - l2[k, 0] * F[k, :]
            step = slope / xp.where(curvature > 0, curvature, xp.ones_like(curvature))
            F[k, :] = xp.clip(F[k, :] + step, penalty.low, penalty.high)
