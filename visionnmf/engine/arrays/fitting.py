"""The solvers for arrays of other libraries on their device, and the codes of fixed components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import Iteration

from . import admm, descent

# for some of the solvers of :data:`..solving.SOLVERS`, the function that does the same on a device
ITERATE: dict[str, Callable[..., Iterator[Iteration]]] = {
    "admm": admm.iterate,
    "hals": descent.iterate,
}


def codes(problem: Problem, Wt: Any, H: Any) -> None:
    """Overwrite the codes `Wt` (r, n_samples) of fixed components `H` (r, n); the penalty is a box, l1 and l2."""
    # L21 without l1 and l2 has the codes of least squares
    same = problem.loss.record.codes_as
    if same is not None and not problem.penalty_W.shrinks:
        problem = replace(problem, loss=Loss(same))
    (descent if problem.loss.name == "frobenius" else admm).codes(problem, Wt, H)
