"""The solvers for arrays of other libraries on their device, and the codes of fixed components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Callback, Fit, Iteration, exact_objective, run

from . import admm, descent

# for some of the solvers of :data:`..solving.SOLVERS`, the function that does the same on a device
ITERATE: dict[str, Callable[..., Iterator[Iteration]]] = {
    "admm": admm.iterate,
    "hals": descent.iterate,
}


def fit(problem: Problem, Wt: Any, H: Any, *, solver: str, max_iter: int, tol: float, callback: Callback) -> Fit:
    """Minimise a problem over both factors, in place, as :func:`..solving.fit` does, without a look at the gradient."""
    return run(
        ITERATE[solver](problem, Wt, H, max_iter=max_iter),
        problem.loss,
        tol=tol,
        callback=callback,
        objective=lambda: problem.objective(Wt, H),
        optimality=None,
        exact_objective=lambda: exact_objective(problem),
    )


def codes(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite the codes `Wt` (r, n_samples) of fixed components `H` (r, n); the penalty is a box, l1 and l2."""
    same = problem.loss.record.codes_as
    if same is not None and not problem.penalty_W.shrinks:
        problem = replace(problem, loss=Loss(same))
    (descent if problem.loss.name == "frobenius" else admm).codes(problem, Wt, H)
