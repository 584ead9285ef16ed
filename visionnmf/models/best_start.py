"""Several fits of the same data from different starts, of which the best is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from visionnmf.engine.solving import Fit, PrintedProgress
from visionnmf.engine.stopping import warn_not_converged
from visionnmf.exceptions import ParameterError

__all__ = ["fit_best"]

Factors = TypeVar("Factors")


def fit_best(
    model: Any, solver: str, fit_once: Callable[[], tuple[Fit, Factors]], report: PrintedProgress
) -> tuple[Fit, Factors]:
    """Return what the best of `n_init` calls of ``fit_once()`` returned, the fit of lowest objective and factors.

    Raises ParameterError if the best fit diverged, and warns if it did not converge. `report` is the callback of the
    fits, which prints their progress.
    """
    best: tuple[Fit, Factors] | None = None
    for _ in range(model.n_init):
        found = fit_once()
        report.finish()
        # a start whose objective became NaN has diverged, so any other one replaces it
        if best is None or found[0].history[-1] < best[0].history[-1] or math.isnan(best[0].history[-1]):
            best = found
    assert best is not None
    result = best[0]
    if not math.isfinite(result.history[-1]):
        raise ParameterError(
            f"solver must be one that converges on these data; got {solver!r}, which diverged; 'auto' takes another"
        )
    if not result.converged and model.tol > 0:
        warn_not_converged(type(model).__name__, result, model.tol, stacklevel=4)
    return best
