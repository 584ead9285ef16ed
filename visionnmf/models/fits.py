"""How the fits of :class:`~visionnmf.NMF` begin and end, wherever the data lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.random import RandomState

from visionnmf.engine.arrays.namespace import namespace_of
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import norms_of
from visionnmf.engine.report import Report
from visionnmf.engine.solving import Fit

__all__ = ["NO_FIT", "Found", "Start", "normalise"]

NO_FIT = Fit(0, [], True, 0.0)  # of components that are given and do not change


@dataclass(frozen=True)
class Start:
    """How a fit begins: given components or None, whether codes are given, and the generator for what is not."""

    n_components: int
    components: Any
    with_codes: bool
    rng: RandomState


class Found(NamedTuple):
    """What a fit finds; its arrays belong to the library of the data."""

    solver: str
    loss: Loss
    fit: Fit  # its last objective is evaluated again for the final codes, in the report
    components: Any  # (r, n)
    norms: Any  # (r,), what the components were divided by
    codes: Any  # (n_samples, r), or None if they are not wanted
    report: Report
    optimality: float


def normalise(problem: Problem, H: Any) -> Any:
    """Divide components `H` (r, n) by their norms, in place, unless a constraint depends on their scale.

    Return what they were divided by (r,).
    """
    if not problem.is_scale_free:
        return namespace_of(H).ones_like(H[:, 0])
    norms = norms_of(H)
    H /= norms[:, None]
    return norms
