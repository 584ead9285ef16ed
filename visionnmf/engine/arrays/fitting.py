"""The solvers for arrays of other libraries on their device, and the codes of fixed components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration

from . import accelerated, admm, descent, exact, multiplicative

# for some of the solvers of :data:`..solving.SOLVERS`, the function that does the same on a device
ITERATE: dict[str, Callable[..., Iterator[Iteration]]] = {
    "admm": admm.iterate,
    "hals": descent.iterate,
    "mu": multiplicative.iterate,
    "nenmf": accelerated.iterate,
}


def codes(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite the codes `Wt` (r, n_samples) of fixed components `H` (r, n); the penalty is a box, l1 and l2."""
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
