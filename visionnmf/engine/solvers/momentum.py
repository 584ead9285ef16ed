"""Extrapolation between iterations, with restarts (Ang & Gillis 2019, Algorithm 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.penalties import SEPARABLE, Penalty
from visionnmf.engine.problem import Problem

__all__ = ["Momentum", "balance", "extrapolated"]

Array = NDArray[Any]

UNEVEN = 1e12  # quotient of the largest entries of a component's two factors


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


def balance(problem: Problem, codes: list[Array], components: list[Array]) -> None:
    """Keep both factors of each component within the range of their dtype, in place.

    Without penalties only the product of a component's two factors matters, and one of them can grow without bound
    while the other vanishes. Where they are more than :data:`UNEVEN` apart, both are multiplied by powers of two, which
    is exact. The first arrays of the lists decide; all are multiplied.
    """
    if problem.penalty_W.kinds or problem.penalty_H.kinds:
        return
    sizes = [factors[0].max(axis=1, initial=0).astype(np.float64) for factors in (codes, components)]
    used = (sizes[0] > 0) & (sizes[1] > 0)
    distance = np.log2(np.where(used, sizes[0], 1)) - np.log2(np.where(used, sizes[1], 1))
    far = np.abs(distance) > np.log2(UNEVEN)
    if far.any():
        shift = np.where(far, np.round(distance / 2), 0)
        for factors, sign in ((codes, -1), (components, 1)):
            for F in factors:
                F *= np.exp2(sign * shift).astype(F.dtype)[:, None]


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
