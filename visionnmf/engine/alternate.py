"""The outer loop: history, stopping, callback, warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .problem import Problem
from .solvers import SOLVERS
from .stopping import Stopping, exact_objective, warn_not_converged

__all__ = ["Callback", "Fit", "fit", "warn_not_converged"]

Array = NDArray[Any]
Callback = Callable[[int, float], Any]


class Fit(NamedTuple):
    """What :func:`fit` found out.

    Attributes
    ----------
    n_iter : int
    history : list of float
        The objective before the first iteration and after each one.
    converged : bool
    change : float
        The last estimate of the share of the objective that twice the iterations would gain.
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

    Parameters
    ----------
    problem : Problem
    Wt : ndarray [shape=(n_components, n_samples)]
    H : ndarray [shape=(n_components, n_features)]
    solver : str
        A key of :data:`.solvers.SOLVERS`.
    max_iter : int
    tol : float, >= 0
        The fit has converged when twice the iterations would lower the objective by less than this share of it; see
        :mod:`.stopping`. 0 runs all iterations.
    callback : callable, optional
        Called as ``callback(iteration, objective)`` after each iteration, with the objective before it; a true
        return value stops the fit.

    Returns
    -------
    Fit
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
