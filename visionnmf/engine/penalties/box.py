"""The box constraint: bounds of every entry (MahNMF-BC: Guan et al. 2012, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .term import Proximal

__all__ = ["Box"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Box(Proximal):
    """``low <= F <= high``, with ``0 <= low < high``; `high` may be infinite."""

    low: float = 0.0
    high: float = float("inf")

    kind = "box"

    def value(self, F: Array) -> float:
        return 0.0

    def prox(self, F: Array, step: float | Array) -> None:
        self.feasible(F)

    def feasible(self, F: Array) -> None:
        np.clip(F, F.dtype.type(self.low), F.dtype.type(self.high), out=F)
