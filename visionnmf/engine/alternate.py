"""The outer loop of a fit: it records the objective, applies the stopping rule and calls the callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .problem import Problem
from .solvers import SOLVERS
from .stopping import Stopping, exact_objective

Array = NDArray[Any]
Callback = Callable[[int, float], Any]


class Fit(NamedTuple):
    """Result of :func:`fit`: number of iterations, history, whether it converged, and the last predicted change.

    `history` holds the objective before the first iteration and after each one. `change` is the predicted relative
    decrease of the objective if the number of iterations were doubled.
    """

    n_iter: int
    history: list[float]
    converged: bool
    change: float


def fit(
    problem: Problem,
    Wt: Array,
    H: Array,
    *,
    solver: str,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> Fit:
    """Minimise a problem over both factors, in place.

    `Wt` (n_components, n_samples) holds the codes, transposed, `H` (n_components, n_features) the components. `solver`
    is a key of :data:`.solvers.SOLVERS`. The fit has converged when twice the iterations would lower the objective by
    less than the share `tol` (see :mod:`.stopping`); 0 runs all iterations. `callback(iteration, objective)` is called
    after each iteration with the objective before it, and stops the fit by returning a true value.
    """
    stopping = Stopping(tol, exact=exact_objective(problem) if tol > 0 else 0.0)
    converged = False
    for step in SOLVERS[solver].iterate(problem, Wt, H, max_iter=max_iter):
        enough = stopping.add(step.objective, step.residual) or step.done
        asked = callback is not None and callback(len(stopping.history), step.objective)
        if enough or asked:
            converged = True
            break
    return Fit(len(stopping.history), [*stopping.history, problem.objective(Wt, H)], converged, stopping.change)
