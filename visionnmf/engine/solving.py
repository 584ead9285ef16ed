"""Solving a problem: fitting both factors with the stopping rule, or finding the codes of fixed components.

The loss determines the method for codes, whichever solver found the components. That problem is convex for all losses
except some beta-divergences, and it separates by row. Graph and group penalties couple the rows, and are therefore not
supported there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError

from .arrays import fitting
from .arrays.namespace import is_not_numpy, namespace_of
from .arrays.optimality import optimality as optimality_on_device
from .losses import Loss
from .optimality import optimality
from .penalties import SEPARABLE, Simplex, Term
from .problem import Problem
from .solvers import SOLVERS, admm, hals, sbcd, spg
from .solvers.table import FindCodes
from .stopping import Iteration, Stopping, exact_objective

Array = NDArray[Any]
Callback = Callable[[int, float], Any]

INTERVAL = 10  # iterations between two lines that a fit prints with verbose=1


class Fit(NamedTuple):
    """Result of :func:`fit`; `change` is the relative decrease predicted for twice the number of iterations.

    `history` holds the objective before the first iteration and after each one.
    """

    n_iter: int
    history: list[float]
    converged: bool
    change: float


def fit(
    problem: Problem,
    Wt: Any,
    H: Any,
    *,
    solver: str,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> Fit:
    """Minimise a problem over both factors, in place, by a solver of :data:`.solvers.SOLVERS`.

    The fit has converged when twice the iterations would lower the objective by less than the share `tol` (see
    :mod:`.stopping`); 0 runs all iterations. `callback(iteration, objective)` is called after each iteration with the
    objective before it, and stops the fit by returning a true value.
    """
    on_device = is_not_numpy(problem.X)
    iterate = fitting.ITERATE[solver] if on_device else SOLVERS[solver].iterate
    distance = optimality_on_device if on_device else optimality
    return run(
        iterate(problem, Wt, H, max_iter=max_iter),
        problem.loss,
        tol=tol,
        callback=callback,
        objective=lambda: problem.objective(Wt, H),
        optimality=lambda: distance(problem, Wt, H),
        exact_objective=lambda: exact_objective(problem),
    )


def run(
    steps: Iterator[Iteration],
    loss: Loss,
    *,
    tol: float,
    callback: Callback | None,
    objective: Callable[[], float],
    optimality: Callable[[], float],
    exact_objective: Callable[[], float],
) -> Fit:
    """Take the steps of a solver until the stopping rule or the callback ends them.

    A solver yields a :class:`.stopping.Iteration` after each iteration, with the objective before it. ADMM, whose split
    variables satisfy the model only in the limit, also yields how far they are from that (`residual`). ``objective()``
    evaluates the factors after the last iteration. ``optimality()`` says how far the factors are from a stationary
    point, and an objective of at most ``exact_objective()`` counts as an exact fit.

    Returns
    -------
    Fit
    """
    # the objective of a divergence has long plateaus, so the rule asks for the gradient as well
    has_plateaus = loss.record.beta not in (2.0, None)
    stopping = Stopping(
        tol, exact=exact_objective() if tol > 0 else 0.0, optimality=optimality if has_plateaus else None
    )
    converged = False
    for step in steps:
        enough = stopping.add(step.objective, step.residual) or step.done
        asked = callback is not None and callback(len(stopping.history), step.objective)
        if enough or asked:
            converged = True  # also if the callback has stopped the fit, because no warning is due
            break
    # At `max_iter` the rule may hold without the confirmation, by the optimality of the factors, that `add` waits for.
    converged = converged or stopping.converged
    return Fit(len(stopping.history), [*stopping.history, objective()], converged, stopping.change)


class PrintedProgress:
    """The callback of a fit: it prints every tenth iteration, or all (`verbose` 2), and calls the user's."""

    def __init__(self, callback: Callback | None, verbose: int) -> None:
        """Keep the user's callback or None, and the number of iterations between two lines; 0 prints nothing."""
        self.callback, self.interval = callback, (0, INTERVAL, 1)[min(int(verbose), 2)]
        # line of the last iteration if its number is no multiple of `interval`; `finish` prints it
        self.held = ""

    def __call__(self, iteration: int, objective: float) -> Any:
        """Print or hold the line of an iteration; a true result, that of the user's callback, stops the fit."""
        self.held = f"iteration {iteration}: objective {objective:.6g}" if self.interval else ""
        if self.interval and iteration % self.interval == 0:
            self.finish()
        return self.callback(iteration, objective) if self.callback is not None else None

    def begin(self, step: str) -> None:
        """Print that another step of the fit begins, after the line of the last iteration of the one before."""
        self.finish()
        if self.interval:
            print(f"{step}:")

    def finish(self) -> None:
        """Print the line of the last iteration, `held`, unless it has been printed (it is then empty)."""
        if self.held:
            print(self.held)
        self.held = ""


# --- codes of fixed components ----------------------------------------------------------------------------------------


class CodesSolver(NamedTuple):
    """A function that finds codes, with weights or sparse data, and the penalty terms that it supports."""

    codes: FindCodes
    terms: tuple[type[Term], ...] = (*SEPARABLE, Simplex)


def _or_simplex(codes: FindCodes) -> FindCodes:
    """Return `codes`, a function for codes under a divergence, extended to the simplex by projected gradient."""

    def either(problem: Problem, Wt: Array, H: Array) -> None:
        """Overwrite the codes `Wt`: by projected gradient (`spg`) on the simplex, else by the given method `codes`."""
        (spg.codes if "simplex" in problem.penalty_W.kinds else codes)(problem, Wt, H)

    return either


CODES: dict[str, CodesSolver] = {
    "admm": CodesSolver(admm.codes),
    "hals": CodesSolver(hals.codes),
    "ccd": CodesSolver(_or_simplex(sbcd.exact_codes)),
    "sbcd": CodesSolver(_or_simplex(sbcd.codes)),
}


def check_codes(problem: Problem) -> None:
    """Raise ParameterError if no codes can be found for the loss with the penalty of the codes or sparse data."""
    unsupported = problem.penalty_W.beyond(CODES[problem.loss.record.codes].terms)
    if unsupported:
        listed = " and ".join(unsupported)
        raise ParameterError(f"penalty_W must be without {listed} for codes of {problem.loss.label}; got one with it")
    if problem.is_sparse and not problem.loss.record.takes_sparse(problem.zero_weight):
        raise ParameterError(f"X must be dense for codes of {problem.loss.label}; got a sparse one; pass X.toarray()")


def solve_codes(problem: Problem, H: Any) -> Any:
    """Return the codes (r, n_samples) of the data for fixed components; raise ParameterError as :func:`check_codes`."""
    check_codes(problem)
    shape = (H.shape[0], problem.X.shape[0])
    if is_not_numpy(problem.X):
        Wt = namespace_of(H).zeros(shape, dtype=H.dtype, device=H.device)
        fitting.codes(problem, Wt, H)
    else:
        Wt = np.empty(shape, problem.X.dtype)
        solver = CODES[problem.loss.record.codes]  # the loss names the method for its codes, such as "hals"
        solver.codes(problem, Wt, H)
    return Wt
