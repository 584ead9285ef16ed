"""The outer loop: history, stopping, callback, warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .problem import Problem
from .solvers import SOLVERS

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
        The solver's last measure of change.
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
        The fit has converged when the solver's measure of change is below; 0 runs all iterations.
    callback : callable, optional
        Called as ``callback(iteration, objective)`` after each iteration, with the objective before it; a true
        return value stops the fit.

    Returns
    -------
    Fit
    """
    history: list[float] = []
    converged = False
    change = float("inf")
    for step in SOLVERS[solver].iterate(problem, Wt, H, max_iter=max_iter):
        history.append(step.objective)
        change = step.change
        if callback is not None and callback(len(history), step.objective):
            converged = True
            break
        if change < tol or step.objective == 0:
            converged = True
            break
    n_iter = len(history)
    history.append(problem.objective(Wt, H))
    return Fit(n_iter, history, converged, change)


def warn_not_converged(name: str, result: Fit, tol: float) -> None:
    """Issue scikit-learn's ConvergenceWarning with the iterations and the last change."""
    warnings.warn(
        f"{name} stopped after {result.n_iter} iterations with a relative change of {result.change:.2g} "
        f"(tol={tol:.2g}); increase max_iter, or tol if that is near enough.",
        ConvergenceWarning,
        stacklevel=3,
    )
