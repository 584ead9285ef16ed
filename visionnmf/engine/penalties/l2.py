"""The squared Frobenius norm, which limits the scale of a factor if the other one is penalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .term import Smooth

__all__ = ["L2"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class L2(Smooth):
    """``sum_k weight_k / 2 sum_j F_kj^2``; `weight` >= 0 is one number, or one per component."""

    weight: float | Array

    kind = "l2"
    is_cone = True

    def value(self, F: Array) -> float:
        squares = np.einsum("ij,ij->i", F, F, dtype=np.float64)
        return float(np.dot(np.broadcast_to(self.weight, len(F)), squares)) / 2

    def add_gradient(self, F: Array, out: Array) -> None:
        out += np.array(np.broadcast_to(self.weight, len(F)), F.dtype)[:, None] * F

    def lipschitz(self) -> float:
        return float(np.max(self.weight))

    def component(self, k: int) -> L2:
        weight = np.asarray(self.weight)
        return L2(float(weight[k] if weight.ndim else weight))

    def rescaled(self, scale: Array) -> L2:
        return L2(self.weight / scale**2)
