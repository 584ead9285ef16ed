"""What a fit of data that are not an array of NumPy begins with, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.random import RandomState

from visionnmf.engine.distributed.rows import Report
from visionnmf.engine.losses import Loss

__all__ = ["Found", "Start"]


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
    components: Any  # (r, n)
    norms: Any  # (r,), what the components were divided by
    n_iter: int
    history: list[float]  # without the objective of the final codes
    report: Report
    optimality: float
    codes: Any  # (n_samples, r), or None if they are not wanted
