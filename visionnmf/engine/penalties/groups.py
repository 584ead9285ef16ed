"""Group sparsity: a component uses a whole view or none of it (MahNMF-GS: Guan et al. 2012, section 4.3)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import projections
from .term import Proximal

__all__ = ["Groups"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Groups(Proximal):
    """``sum_g weight_g sum_k |F_{k,g}|_p``, and with bounds also ``sum_k |F_{k,g}|_p <= bound_g``.

    Attributes
    ----------
    groups : tuple of ndarray of int
        Disjoint index sets of points.
    norm : {2, inf}
        The norm ``p``.
    weight : float or tuple of float, >= 0
        One for all groups, or one for each.
    bounds : tuple of float, optional
        One bound for each group.
    """

    groups: tuple[Array, ...]
    norm: float
    weight: float | tuple[float, ...]
    bounds: tuple[float, ...] | None

    kind = "groups"
    couples_points = True
    of_points = True

    @property
    def couples_components(self) -> bool:  # type: ignore[override]
        """Whether components share a bound."""
        return self.bounds is not None

    def value(self, F: Array) -> float:
        return sum(
            weight * float(self._norms(F[:, _columns(group)]).sum())
            for group, weight in zip(self.groups, self._weights(), strict=True)
            if weight
        )

    def prox(self, F: Array, step: float | Array) -> None:
        """Apply the prox group by group, after clipping at 0.

        The order is valid because the prox of a norm keeps signs and shrinks entries (Jenatton et al. 2011, for nested
        norms).
        """
        np.maximum(F, 0, out=F)
        if self.norm == 2 and self.bounds is None:
            self._shorten(F, step)
            return
        shrink = projections.shrink_2 if self.norm == 2 else projections.shrink_inf
        ball = projections.project_l1_2_ball if self.norm == 2 else projections.project_l1_inf_ball
        for g, (group, weight) in enumerate(zip(self.groups, self._weights(), strict=True)):
            columns = _columns(group)
            block = F[:, columns]
            if weight:
                block = shrink(block, step * weight)
            if self.bounds is not None:
                block = ball(block, self.bounds[g])
            F[:, columns] = block

    def feasible(self, F: Array) -> None:
        np.maximum(F, 0, out=F)
        if self.bounds is None:
            return
        for group, bound in zip(self.groups, self.bounds, strict=True):
            columns = _columns(group)
            size = float(self._norms(F[:, columns]).sum())
            if size > bound:
                F[:, columns] *= F.dtype.type(bound / size)

    def _shorten(self, F: Array, step: float | Array) -> None:
        """Apply :func:`.projections.shrink_2` to all groups at once, because one call per small group would be slow."""
        points, groups = self._members
        thresholds = np.reshape(step, (-1, 1)) * np.asarray(self._weights())
        for row, threshold in zip(F, np.broadcast_to(thresholds, (len(F), len(self.groups))), strict=True):
            own = row[points]
            norms = np.sqrt(np.bincount(groups, np.square(own, dtype=np.float64), len(threshold)))
            scales = np.maximum(1 - threshold / np.where(norms > 0, norms, np.inf), 0)
            row[points] = own * scales.astype(F.dtype)[groups]

    @functools.cached_property
    def _members(self) -> tuple[Array, Array]:
        """The points of all groups, and the group index of each."""
        sizes = [len(group) for group in self.groups]
        return np.concatenate(self.groups), np.repeat(np.arange(len(sizes)), sizes)

    def _weights(self) -> tuple[float, ...]:
        """Return one weight for each group."""
        return self.weight if isinstance(self.weight, tuple) else (self.weight,) * len(self.groups)

    def _norms(self, block: Array) -> Array:
        """Return the p-norm of each row in double precision."""
        if self.norm == 2:
            return np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))
        return np.asarray(block.max(axis=1, initial=0), np.float64)


def _columns(group: Array) -> Any:
    """Return a slice if the group is a contiguous range of points, because a view avoids a copy."""
    first, last = int(group[0]), int(group[-1])
    if last - first + 1 == len(group) and (np.diff(group) == 1).all():
        return slice(first, last + 1)
    return group
