"""Extrapolation between iterations, with restarts (Ang & Gillis 2019, Algorithm 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.penalties import SEPARABLE, Penalty

__all__ = ["Momentum", "extrapolated"]

Array = NDArray[Any]


class Momentum:
    """How far to go beyond each step: further after each that lowered the objective, less after one that raised it.

    Attributes
    ----------
    value : float, >= 0
        Share of the change of a factor that is added to it once more.
    ceiling : float
        The largest, which a rise of the objective lowers to the momentum that failed.

    Parameters
    ----------
    first : float
        Momentum of the first step; 0 for none from a start whose scale may be far off.
    growth, ceiling_growth : float, > 1
        Of both after an accepted iteration.
    floor : float
        Below it none is used, once; from it it grows again.
    cut : float, > 1, default=inf
        What it is divided by after an iteration that raised the objective; infinite restarts without any.
    """

    def __init__(
        self, first: float, *, growth: float, ceiling_growth: float, floor: float, cut: float = float("inf")
    ) -> None:
        self.value, self.ceiling = first, 1.0
        self.growth, self.ceiling_growth, self.floor, self.cut = growth, ceiling_growth, floor, cut

    @property
    def is_none(self) -> bool:
        """Whether the next step is a plain one, which can raise the objective by rounding alone."""
        return self.value == 0

    def grow(self) -> None:
        """Note that the iteration was accepted."""
        self.ceiling = min(1.0, self.ceiling_growth * self.ceiling)
        self.value = min(self.ceiling, self.growth * max(self.value, self.floor))

    def restart(self) -> None:
        """Note that the iteration raised the objective, and was taken back."""
        self.ceiling, self.value = self.value, self.value / self.cut
        if self.value < self.floor:
            self.value = 0.0


def extrapolated(new: Array, old: Array, momentum: float, penalty: Penalty) -> Array:
    """Return ``new + momentum (new - old)``, moved to where a penalty allows it.

    Parameters
    ----------
    new, old : ndarray [shape=(n_components, n_points)]
    momentum : float, >= 0
    penalty : Penalty

    Returns
    -------
    ndarray [shape=(n_components, n_points)]
    """
    ahead = new - old
    ahead *= new.dtype.type(momentum)
    ahead += new
    if not penalty.beyond(SEPARABLE):
        return np.clip(ahead, *penalty.box(new.dtype), out=ahead)
    penalty.prox(ahead, 0.0)  # a step of no length is the projection
    return ahead
