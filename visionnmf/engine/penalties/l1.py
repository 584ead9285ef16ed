"""The l1 norm, which favours sparse factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .term import Linear

__all__ = ["L1"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class L1(Linear):
    """``sum_k weight_k sum_j F_kj``; `weight` >= 0 is one number, or one per component."""

    weight: float | Array

    kind = "l1"
    is_cone = True

    def value(self, F: Array) -> float:
        return float(np.dot(np.broadcast_to(self.weight, len(F)), F.sum(axis=1, dtype=np.float64)))

    def slope(self, n_components: int) -> Array:
        return np.broadcast_to(np.asarray(self.weight), n_components)[:, None]

    def component(self, k: int) -> L1:
        weight = np.asarray(self.weight)
        return L1(float(weight[k] if weight.ndim else weight))

    def rescaled(self, scale: Array) -> L1:
        return L1(self.weight / scale)
