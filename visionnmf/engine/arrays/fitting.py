"""Fits on a device, and the codes of fixed components: which of the other modules belongs to a problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.admm import follow
from visionnmf.engine.solving import Callback, Fit, run
from visionnmf.engine.stopping import exact_objective

from . import accelerated, admm, descent, exact, multiplicative
from .namespace import namespace_of
from .optimality import optimality


def fit(
    problem: Problem, Wt: Any, H: Any, *, solver: str, max_iter: int, tol: float, callback: Callback | None = None
) -> Fit:
    """Minimise a problem over both factors, in place, by "admm", "hals", "nenmf" or "mu"; as :func:`..solving.fit`."""
    if solver == "admm":
        steps = follow(admm.AdmmOnDevice(problem, Wt), H, max_iter=max_iter)
    else:
        module = {"hals": descent, "mu": multiplicative, "nenmf": accelerated}[solver]
        steps = module.iterate(problem, Wt, H, max_iter=max_iter)
    return run(
        steps,
        problem.loss,
        tol=tol,
        callback=callback,
        objective=lambda: problem.objective(Wt, H),
        optimality=lambda: optimality(problem, Wt, H),
        exact_objective=lambda: exact_objective(problem),
    )


def solve_codes(problem: Problem, H: Any) -> Any:
    """Return the codes (r, n_samples) of the data for fixed components `H` (r, n); penalties are a box, l1 and l2."""
    xp = namespace_of(H)
    Wt = xp.zeros((H.shape[0], problem.X.shape[0]), dtype=H.dtype, device=H.device)
    # a loss with the same minimiser that is easier to minimise (least squares for L21); not with l1 or l2
    same = problem.loss.record.codes_as
    if same is not None and not problem.penalty_W.shrinks:
        problem = replace(problem, loss=Loss(same))
    if problem.loss.name == "frobenius":
        exact.least_squares(problem, Wt, H)
    elif problem.loss.record.is_divergence:
        exact.divergence(problem, Wt, H)
    else:
        admm.codes(problem, Wt, H)
    return Wt
