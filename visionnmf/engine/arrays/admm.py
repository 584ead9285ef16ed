"""Continuation ADMM on a device (:mod:`..solvers.admm`), and codes of fixed components by ADMM in consensus form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from visionnmf.engine.penalties import NONNEGATIVE, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import admm
from visionnmf.engine.stopping import Iteration

from . import descent, factors, passes
from .namespace import chunks, compiled, copied, moved, namespace_of, number, parts_of, to_numpy, total

CODES_ITERATIONS = 500  # the objective is then within 1e-3 of that of exact codes; with 200, as in memory, within 4e-3


def iterate(problem: Problem, Wt: Any, H: Any, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt` (r, n_samples) and `H` (r, n) in place by continuation ADMM; yield the objective before each."""
    return admm.follow(AdmmOnDevice(problem, Wt), H, max_iter=max_iter)


class AdmmOnDevice:
    """The rows of a problem on a device, and their codes `Wt` (r, n_samples), for :func:`..solvers.admm.follow`."""

    def __init__(self, problem: Problem, Wt: Any) -> None:
        self.loss, alternate = problem.loss, admm.back_and_forth(problem)
        self._codes = factors.Sweeps(problem.penalty_W, admm.SWEEPS, alternate=alternate)
        self._components = factors.Sweeps(problem.penalty_H, admm.SWEEPS, alternate=alternate)
        self._problem, self._Wt = problem, Wt
        self._U = namespace_of(Wt).zeros_like(problem.X)

    def totals(self) -> admm.Totals:
        """Return the sums of the data and of their weights over all rows, which set the scale of rho."""
        return admm.Totals.of(self._problem)

    def step(self, H: Any, inverse_rho: float, decay: float) -> admm.Pass:
        """Update the codes in place for fixed components `H` (r, n), and return what the components need next."""
        problem, Wt, U, xp = self._problem, self._Wt, self._U, namespace_of(H)
        loss = problem.loss
        assert loss.record.proximal is not None
        penalty = problem.penalty_W.value(Wt)
        value = 0.0 if loss.record.proximal.valued else problem.loss_value(Wt, H)
        one_pass = compiled(passes.pass_of(loss), H)
        numbers = number(inverse_rho, H), number(decay, H)
        gram, right = xp.matmul(H, H.T), xp.zeros_like(H)
        sums = []
        for rows, M in parts_of(problem.weights, chunks(problem.X)):
            P = factors.model_of(Wt, H, rows)
            # updates the dual in place; `losses` and `primal` (n_rows,) are the loss and the primal residual before
            V, losses, primal = one_pass(problem.X[rows, :], P, U[rows, :], M, *numbers)
            sums += [(losses, primal)]
            codes = copied(Wt[:, rows])
            self._codes(codes, gram, xp.matmul(H, V.T), inverse_rho)
            Wt[:, rows] = codes
            right = right + xp.matmul(codes, V)
        value += sum(total(losses) for losses, _ in sums)
        residual = sum(total(primal) for _, primal in sums)
        return admm.Pass(right, xp.matmul(Wt, Wt.T), value, residual, penalty)

    def improve_components(self, H: Any, sums: admm.Pass, inverse_rho: float) -> float:
        """Run HALS sweeps on the components `H` (r, n), in place; return their penalty before."""
        penalty = self._problem.penalty_H.value(H)
        self._components(H, sums.gram, sums.right, inverse_rho)
        return penalty

    def polish(self, H: Any, max_iter: int) -> Iterator[Iteration]:
        """Minimise the Huber loss over the codes and `H` (r, n), in place, by at most `max_iter` iterations of HALS."""
        return descent.iterate(self._problem, self._Wt, H, clip=True, max_iter=max_iter)


# --- codes of fixed components ----------------------------------------------------------------------------------------


def codes(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite the codes `Wt` (r, n_samples) of components `H` by ADMM."""
    system = _FixedOnDevice(problem.penalty_W, H)
    # an iteration of a chunk needs several arrays as large as its rows
    for rows, M in parts_of(problem.weights, chunks(problem.X)):
        # `system` works with components of norm 1, so its codes are divided by their norms, `scale`
        found = system.iterate(problem.loss, problem.X[rows, :], M) / system.scaled.scale
        Wt[:, rows] = factors.clipped(problem.penalty_W, found.T)


class _FixedOnDevice(admm.FixedComponents):
    """ADMM for the codes of fixed components, with all arrays on a device; the penalty is a box, l1 and l2."""

    def __init__(self, penalty: Penalties, H: Any) -> None:
        """Scale and decompose the components `H` (r, n) by NumPy, and move the results to their device."""
        super().__init__(penalty, to_numpy(H), iterations=CODES_ITERATIONS)
        self.scaled = admm.ScaledComponents(*(None if array is None else moved(array, H) for array in self.scaled))

    def _start(self, X: Any) -> Any:
        """Return starting codes (n_rows, r): HALS sweeps from 0 on the rows, projected onto the box."""
        right = self._product(self.scaled.unit, X.T)
        F = namespace_of(X).zeros_like(right)
        factors.Sweeps(NONNEGATIVE, admm.CODES_START_SWEEPS)(F, self.scaled.gram, right)
        return self._project(F.T)

    def _product(self, F: Any, A: Any, out: Any = None) -> Any:
        """Return ``F @ A`` in a new array."""
        return namespace_of(F).matmul(F, A)
