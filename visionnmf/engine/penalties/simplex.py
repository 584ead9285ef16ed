"""The simplex constraint: the entries of each point, or of each component, sum to 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import projections
from .term import Proximal

__all__ = ["Simplex"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Simplex(Proximal):
    """``F >= 0`` where each of its "columns" (points) or each of its "rows" (components) sums to 1."""

    side: str

    kind = "simplex"

    @property
    def couples_components(self) -> bool:  # type: ignore[override]
        """Whether the entries of a point depend on each other."""
        return self.side == "columns"

    @property
    def couples_points(self) -> bool:  # type: ignore[override]
        """Whether the entries of a component depend on each other."""
        return self.side == "rows"

    def value(self, F: Array) -> float:
        return 0.0

    def prox(self, F: Array, step: float | Array) -> None:
        if self.side == "columns":
            projections.project_simplex_columns(F)
        else:
            F[:] = projections.project_simplex(F)

    def feasible(self, F: Array) -> None:
        np.maximum(F, 0, out=F)
        axis = 0 if self.side == "columns" else 1
        sums = F.sum(axis=axis, keepdims=True, dtype=np.float64)
        F /= np.where(sums > 0, sums, 1).astype(F.dtype)
        np.copyto(F, F.dtype.type(1 / F.shape[axis]), where=~(sums > 0))
