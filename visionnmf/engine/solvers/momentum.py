"""Extrapolation between iterations, with restarts (Ang & Gillis 2019, Algorithm 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.arrays.factors import clipped
from visionnmf.engine.arrays.namespace import moved, namespace_of, to_numpy
from visionnmf.engine.penalties import SEPARABLE, Penalties
from visionnmf.engine.problem import Problem

UNEVEN = 1e12  # largest allowed quotient of the maxima of a component's two factors


class Momentum:
    """The extrapolation factor: it grows after each step that lowered the objective, and shrinks after a rise.

    `value` is the share of the last change of a factor that is added once more; it starts at `first`, 0 if the scale of
    the start may be far off. An accepted iteration multiplies it by `growth`, up to `ceiling`, which itself grows by
    `ceiling_growth` up to 1. After a rise, `ceiling` becomes the value that failed, and `value` is divided by `cut`
    (infinite: restart from 0). A value below `floor` is replaced by 0 for one step, and then grows from `floor`.
    """

    def __init__(
        self, first: float, *, growth: float, ceiling_growth: float, floor: float, cut: float = float("inf")
    ) -> None:
        self.value, self.ceiling = first, 1.0
        self.growth, self.ceiling_growth, self.floor, self.cut = growth, ceiling_growth, floor, cut

    @property
    def is_none(self) -> bool:
        """Whether the momentum is 0; then only rounding can raise the objective."""
        return self.value == 0

    def grow(self) -> None:
        """Increase the momentum after an accepted iteration, up to the ceiling, which recovers up to 1."""
        self.ceiling = min(1.0, self.ceiling_growth * self.ceiling)
        self.value = min(self.ceiling, self.growth * max(self.value, self.floor))

    def restart(self) -> None:
        """Reduce the momentum after a rise that was undone: `value` becomes the ceiling, and is divided by `cut`."""
        self.ceiling, self.value = self.value, self.value / self.cut
        if self.value < self.floor:
            self.value = 0.0


def balance(problem: Problem, codes: list[Any], components: list[Any]) -> None:
    """Rescale components so that both of their factors stay within the range of their dtype, in place."""
    # Without penalties one factor can grow without bound while the other vanishes. Powers of two round nothing. Each
    # list holds several versions of one factor; the first determines the powers.
    if problem.penalty_W.kinds or problem.penalty_H.kinds:
        return
    xp = namespace_of(codes[0])
    exponents = imbalance(*(to_numpy(xp.max(factors[0], axis=1)) for factors in (codes, components)))
    if exponents is not None:
        rescale(codes, -exponents)
        rescale(components, exponents)


def imbalance(codes: Array, components: Array) -> Array | None:
    """Return by which powers of two components must grow and codes shrink, (r,); None if both are near enough."""
    sizes = [maxima.astype(np.float64) for maxima in (codes, components)]
    used = (sizes[0] > 0) & (sizes[1] > 0)
    # the logarithm of their quotient, or 0 for a component that is zero in either factor
    distance = np.log2(np.where(used, sizes[0], 1)) - np.log2(np.where(used, sizes[1], 1))
    far = np.abs(distance) > np.log2(UNEVEN)
    return np.where(far, np.round(distance / 2), 0) if far.any() else None


def rescale(factors: list[Any], exponents: Array) -> None:
    """Multiply component k, a row, of all factors (r, n_points) by ``2 ** exponents[k]``, in place."""
    for F in factors:
        F *= moved(np.exp2(exponents), F)[:, None]


def extrapolated(new: Array, old: Array, momentum: float, penalty: Penalties) -> Array:
    """Return ``new + momentum (new - old)``, of any library's arrays, projected onto the constraint."""
    if not isinstance(new, np.ndarray):  # of arrays elsewhere, solvers take no constraint but a box
        return clipped(penalty, new + momentum * (new - old))
    ahead = new - old
    ahead *= new.dtype.type(momentum)
    ahead += new
    if not penalty.beyond(SEPARABLE):  # no terms but a box, l1 and l2: only the box is a constraint
        return np.clip(ahead, *penalty.box(new.dtype), out=ahead)
    penalty.prox(ahead, 0.0)  # the prox of step length 0 is the projection
    return ahead
