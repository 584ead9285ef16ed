r"""The stopping rule of all fits, and the loop of most: stop when more iterations would hardly lower the objective.

:func:`run` takes the steps of a solver until the rule ends them, and :func:`fit_best` keeps the best of several starts.
:class:`PrintedProgress` prints iterations, and :func:`warn_zero_codes` warns of samples whose codes are all 0.

After ``t`` iterations the rule looks back over the last quarter of them (at least :data:`LEAST_WINDOW`), in two halves
of ``h`` iterations, and asks how far the objective would fall during ``t`` more iterations if its decreases went on
shrinking as from the older half to the newer one:

.. math:: d_1 = f_{t-2h} - f_{t-h}, \quad d_2 = f_{t-h} - f_t, \quad q = d_2 / d_1, \quad
          \text{change} = \max\bigl(d_1 + d_2,\; d_2 (q + q^2 + \dots + q^{t/h})\bigr) / f_t

The fit has converged when this is below the tolerance. So ``tol=1e-3`` predicts: *doubling the number of iterations
would lower the objective by about 0.1 % at most*, as long as progress does not speed up again. It does so now and then:
of 464 fits of random problems that ended without a warning, 4.7 % gained 0.1 % or more by it and the most 0.53 %,
and of 112 others 2.7 % and the most 0.78 % (``python benchmarks convergence.promise 20000 500`` and ``40000 120``).
Because the window and the look ahead grow with ``t``, slow convergence is not mistaken for the end: of an
objective that falls like ``1/t`` or like ``0.99^t`` the rule predicts the rest. Ten times the iterations are a little
over three doublings, each of which gains less than the one before. The measure is free of the scale of the data, of the
start and of the solver.

Four details:

- Near a saddle point an objective hardly falls, and then falls faster and faster. So the rule also asks that the newer
  half of the window did not gain more than the older half, unless both are below what rounding can do.
- A plateau can be as flat as the end. Only the gradient tells them apart, so a fit by a divergence, whose plateaus are
  the longest, asks for :func:`.optimality.optimality` when the rule begins to hold. Up to :data:`STATIONARY` it stops.
  Above, the prediction is tried: the fit goes on to twice as many iterations and stops if the rule has held all the
  while.
- An objective can go to 0. A fit whose objective is at most that of residuals of a hundred-thousandth of the data is
  *exact*, and stops: see :func:`exact_objective`.
- A solver that follows a path (ADMM with a growing penalty) nears the minimum at the pace of its path, and reports how
  far its iterates are from satisfying the model (:attr:`Iteration.residual`). Its change is ten
  times that residual plus the relative decrease over the last ten iterations.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from visionnmf.exceptions import ParameterError

from .arrays.namespace import chunk_entries, in_float64, namespace_of, total
from .blocks import row_blocks

if TYPE_CHECKING:
    from .losses import Loss
    from .penalties import Penalties
    from .problem import Lost, Problem

Factors = TypeVar("Factors")
Callback = Callable[[int, float], Any]
StopAfter = Callable[[float], bool]  # of the objective before an iteration: whether to stop after it

LEAST_WINDOW = 10  # iterations
STATIONARY = 5e-4  # optimality up to which a fit that hardly moves is at its end and not on a plateau
WINDOW_SHARE = 4  # the window is one part in this many of all iterations
EXACT = 1e-5  # relative residual below which a model counts as exact
# On a path the loss is within the tolerance long before the factors are: with outliers, the error of the reconstruction
# is about the residual. The weight costs four fifths more iterations and makes the recovery six times as accurate.
RESIDUAL_WEIGHT = 10.0
INTERVAL = 10  # iterations between two lines that a fit prints with verbose=1


class Iteration(NamedTuple):
    """What a solver yields after each iteration.

    `objective` is the objective before the iteration, which is a by-product of it. `residual` measures how far a method
    with a split variable is from satisfying the model, relative to the objective; it is None for other methods. `done`
    is true if the solver has found the minimum in closed form, and `undone` if the iteration has left the factors as
    they were, because its step would have raised the objective.
    """

    objective: float
    residual: float | None = None
    done: bool = False
    undone: bool = False


class Stopping:
    """The history of an objective, and whether the fit has converged by the rule at the top of this module.

    With `tol` 0 only an exact fit stops: an objective of at most `exact`. Relative decreases below `rounding` over half
    a window count as rounding. `change` is the predicted relative decrease, infinite before the first window is full.
    `optimality()`, if given, returns how far the present factors are from a stationary point. `converged` says whether
    the rule holds now; :meth:`add` returns whether to stop, which may be later if that measure is large.
    """

    def __init__(
        self,
        tol: float,
        *,
        exact: float = 0.0,
        rounding: float = 1e-12,
        optimality: Callable[[], float] | None = None,
    ) -> None:
        """Keep the limits of the rule, which predicts the decrease of the objective if as many iterations again ran."""
        self.tol, self.exact, self.rounding, self.optimality = tol, exact, rounding, optimality
        self.confirmed_at: float | None = None  # iteration at which the fit may stop; None while the rule does not hold
        self.history: list[float] = []  # objective at the start and after each iteration
        self.change, self.converged = float("inf"), False

    def add(self, objective: float, residual: float | None = None) -> bool:
        """Record the objective after one more iteration (the first call: of the start); return whether to stop."""
        self.history.append(objective)
        n_iter = len(self.history) - 1
        if objective <= self.exact:
            self.converged, self.change = True, 0.0
            return True
        window = max(LEAST_WINDOW, n_iter // WINDOW_SHARE)
        if residual is not None:
            self._judge_path(objective, residual)
        elif n_iter >= window and objective > 0:
            self._look_ahead(objective, window // 2)
        elif n_iter and objective > 0:
            self.change = max(0.0, self.history[0] - objective) / objective  # too early to predict
        return self.converged and self._is_confirmed(n_iter)

    def _judge_path(self, objective: float, residual: float) -> None:
        """Set `change` to the weighted residual of a path plus the relative decrease over the last iterations."""
        decrease = 0.0
        if objective > 0:
            n_iter = len(self.history) - 1
            before = self.history[-1 - min(n_iter, LEAST_WINDOW)] if n_iter else float("inf")
            decrease = max(0.0, before - objective) / objective
        self.change = RESIDUAL_WEIGHT * residual + decrease
        self.converged = self.change < self.tol

    def _look_ahead(self, objective: float, half: int) -> None:
        """Set `change` by the decreases over the last two times `half` iterations: formula at the top of the module."""
        history = self.history
        older, newer = history[-1 - 2 * half] - history[-1 - half], history[-1 - half] - objective
        # the quotient q of the formula; 1 if the decreases grow, 0 if there was none
        ratio = max(0.0, newer) / older if older > 0 else 0.0
        if newer >= older:
            ratio = 1.0
        n_terms = (len(history) - 1) / half  # half windows in as many iterations again
        series = ratio * n_terms  # q + q^2 + ... of that many terms, for q = 0 or 1
        if 0 < ratio < 1:
            series = ratio * (1 - ratio**n_terms) / (1 - ratio)
        # never predict less than the window has gained, in case progress has only paused
        self.change = max(older + newer, newer * series, 0.0) / objective
        # near a saddle point decreases are small but growing, which is no convergence
        slowing = newer <= max(older, self.rounding * objective)
        self.converged = self.change < self.tol and slowing
        if not self.converged:  # `_is_confirmed` sets it again when the rule holds again
            self.confirmed_at = None

    def _is_confirmed(self, n_iter: int) -> bool:
        """Return whether a fit for which the rule holds after `n_iter` iterations is at its end, not on a plateau."""
        if self.confirmed_at is None:
            plateau = self.optimality is not None and self.optimality() > STATIONARY
            self.confirmed_at = 2 * n_iter if plateau else n_iter
        return n_iter >= self.confirmed_at


def exact_objective(problem: Problem) -> float:
    """Return the loss of a model whose residuals are the share :data:`EXACT` of the data: below, a fit is exact."""
    X, M = problem.X, problem.weights
    if problem.is_sparse:
        X = X.data[:, None]  # the stored entries, one in a row; sparse data have no weights, so M is None
    result = 0.0
    for start, stop in row_blocks(X, chunk_entries(X)):
        weights = None if M is None else in_float64(M[start:stop, :])
        result += _loss_of_small_residuals(in_float64(X[start:stop, :]), weights, problem.loss)
    return result


def _loss_of_small_residuals(X: Any, M: Any, loss: Loss) -> float:
    """Return the loss of some rows, with the entry weights `M` or None, for residuals of ``EXACT * X``."""
    xp = namespace_of(X)
    if not loss.record.is_divergence:
        return total(loss.record.values(X * EXACT, xp.zeros_like(X), M, loss.parameter))
    # to second order a beta-divergence is a sum of squares, weighted by x^(beta - 2)
    positive = X > 0
    squares = xp.where(positive, xp.where(positive, X, xp.ones_like(X)) ** loss.beta, xp.zeros_like(X))
    return EXACT**2 / 2 * total(squares if M is None else M * squares)


# --- fits by the rule -------------------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """Result of :func:`run`; `change` is the relative decrease predicted for twice the number of iterations."""

    n_iter: int
    history: list[float]
    converged: bool
    change: float


NO_FIT = Fit(0, [], True, 0.0)  # of components that are given and do not change


def run(
    steps: Iterator[Iteration],
    loss: Loss,
    *,
    tol: float,
    callback: Callback | None,
    objective: Callable[[], float],
    optimality: Callable[[], float] | None,
    exact_objective: Callable[[], float],
    rule: StopAfter | None = None,
) -> Fit:
    """Take the steps of a solver until the stopping rule, or in its place `rule`, or the callback ends them."""
    # the objective of a divergence has long plateaus, so the rule asks for the gradient as well
    has_plateaus = loss.record.beta not in (2.0, None)
    stopping = Stopping(
        tol if rule is None else 0.0,
        exact=exact_objective() if tol > 0 and rule is None else 0.0,
        optimality=optimality if has_plateaus else None,
    )
    converged = False
    for step in steps:
        enough = stopping.add(step.objective, step.residual) or step.done
        enough = enough or (rule is not None and not step.undone and rule(step.objective))
        asked = callback is not None and callback(len(stopping.history), step.objective)
        if enough or asked:
            converged = True  # also if the callback has stopped the fit, because no warning is due
            break
    # At `max_iter` the rule may hold without the confirmation, by the optimality of the factors, that `add` waits for.
    converged = converged or stopping.converged
    change = stopping.change if rule is None else math.nan
    return Fit(len(stopping.history), [*stopping.history, objective()], converged, change)


class PrintedProgress:
    """The callback of a fit: it prints every tenth iteration, or all (`verbose` 2), and calls the user's."""

    def __init__(self, callback: Callback | None, verbose: int) -> None:
        """Keep the user's callback or None, and the number of iterations between two lines; 0 prints nothing."""
        self.callback, self.interval = callback, (0, INTERVAL, 1)[min(int(verbose), 2)]
        self.stopped = False  # whether the user's callback has stopped a fit
        # line of the last iteration if its number is no multiple of `interval`; `finish` prints it
        self.held = ""

    def __call__(self, iteration: int, objective: float) -> Any:
        """Print or hold the line of an iteration; a true result, that of the user's callback, stops the fit."""
        self.held = f"iteration {iteration}: objective {objective:.6g}" if self.interval else ""
        if self.interval and iteration % self.interval == 0:
            self.finish()
        asked = self.callback is not None and bool(self.callback(iteration, objective))
        self.stopped |= asked
        return asked

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


def fit_best(
    n_init: int, solver: str, fit_once: Callable[[], tuple[Fit, Factors]], report: PrintedProgress
) -> tuple[Fit, Factors]:
    """Return what the best of `n_init` calls of ``fit_once()`` returned, the fit of lowest objective and factors."""
    best: tuple[Fit, Factors] | None = None
    for _ in range(n_init):
        found = fit_once()
        report.finish()
        # a start whose objective became NaN has diverged, so any other one replaces it
        if best is None or found[0].history[-1] < best[0].history[-1] or math.isnan(best[0].history[-1]):
            best = found
        if report.stopped:  # by the user, who wants no other start either
            break
    assert best is not None
    result = best[0]
    if not math.isfinite(result.history[-1]):
        raise ParameterError(
            f"solver must be one that converges on these data; got {solver!r}, which diverged; 'auto' takes another"
        )
    return best


# --- warnings at the end of a fit -------------------------------------------------------------------------------------


def warn_not_converged(
    name: str, result: Any, tol: float, *, cure: str = "increase max_iter", stacklevel: int = 3
) -> None:
    """Issue scikit-learn's ConvergenceWarning, with the :class:`Fit` as `result` and words on the rest as `gain`."""
    gain = f"twice as many would lower the objective by a share of about {result.change:.2g}"
    if 0.5 < result.change < np.inf:  # the prediction is no longer a share that makes sense
        gain = "the objective is still falling fast, or the iterates are far from satisfying the model"
    elif math.isnan(result.change):
        gain = "the rule that was asked for does not hold yet"
    elif not tol <= result.change < np.inf:  # less than tol is not the prediction but the decrease so far
        gain = "they are too few to predict how far the objective would still fall"
    warning = ConvergenceWarning(
        f"{name} stopped after {result.n_iter} iterations before it had converged: {gain} (tol={tol:.2g}); "
        f"{cure}, or tol if that is near enough."
    )
    warning.result, warning.gain = result, gain
    warnings.warn(warning, stacklevel=stacklevel)


class ScaleWarning(UserWarning):
    """The warning about a penalty that a factor can escape."""


def warn_of_scale(codes: Penalties, components: Penalties, stacklevel: int) -> None:
    """Warn if a factor can escape its penalty, because nothing keeps the other one from growing in its place."""
    for side, other, penalty, held in (("W", "H", codes, components), ("H", "W", components, codes)):
        if penalty.escapes and not held.holds:
            warnings.warn(
                f"the {' and '.join(penalty.escapes)} of penalty_{side} can be escaped: {side} may shrink while "
                f"{other} grows. Set l2, high or simplex in penalty_{other}.",
                ScaleWarning,
                stacklevel=stacklevel,
            )


class ZeroCodesWarning(UserWarning):
    """The warning about samples with codes of 0; `loss` and `lost` are what it was made from."""

    loss: Loss
    lost: Lost


def warn_zero_codes(
    loss: Loss,
    lost: Lost,
    stacklevel: int,
    *,
    name: str = "NMF",
    has_zero_weight: bool = True,
    penalty: str | None = None,
) -> None:
    """Warn, with `loss` and `lost`, if most of the samples that are not 0 have codes of 0, and name a cure."""
    if 2 * lost.n_lost <= lost.n_nonzero:
        return
    if penalty is not None:
        why, cure = f"{penalty} is stronger than the data", f"a weaker {penalty}"
    elif loss.record.kink:  # the best constant is the median, which is 0 if fewer than half of the entries are not
        why = f"{loss.label} treats the entries that are not 0 ({lost.share:.2g} of all) as outliers"
        # whether the loss can give the entries that a sparse X does not store a smaller weight
        weighted = has_zero_weight and loss.record.sparse is not None and loss.record.sparse.weighted
        cure = 'loss="kullback-leibler" or "frobenius"' + (", or zero_weight < 1 with a sparse X" if weighted else "")
    else:
        why = f"for {loss.label} and these penalties that is a minimum"
        cure = 'smaller penalties, or loss="kullback-leibler"'
    warning = ZeroCodesWarning(
        f"{name} found codes 0 for {lost.n_lost} of {lost.n_nonzero} samples that are not 0: {why}; use {cure}"
    )
    warning.loss, warning.lost = loss, lost
    warnings.warn(warning, stacklevel=stacklevel)
