"""The graph penalty: neighbouring points get similar values (MahNMF-M: Guan et al. 2012, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .term import Smooth

__all__ = ["Graph"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Graph(Smooth):
    """``tr(F L F^T) / 2`` with the Laplacian ``L = D - S``, where D holds the row sums of S.

    Attributes
    ----------
    affinity : scipy.sparse.csr_array [shape=(n_points, n_points), >= 0]
        The symmetric matrix ``S`` times the weight of the penalty, with a zero diagonal.
    """

    affinity: Any

    kind = "graph"
    couples_points = True
    of_points = True

    def value(self, F: Array) -> float:
        i, j, affinities = self._edges
        total = 0.0
        for row in F.astype(np.float64):
            total += float(np.dot(affinities, (row[i] - row[j]) ** 2)) / 2
        return total

    def add_gradient(self, F: Array, out: Array) -> None:
        out += F * self.degrees.astype(F.dtype)
        out -= (self.affinity.astype(F.dtype, copy=False) @ np.ascontiguousarray(F.T)).T

    def lipschitz(self) -> float:
        """Return a bound of the largest eigenvalue of the Laplacian.

        It is at most the largest sum of the degrees of two neighbours (Anderson & Morley 1985).

        Returns
        -------
        float
        """
        i, j, _ = self._edges
        return float((self.degrees[i] + self.degrees[j]).max(initial=0))

    @cached_property
    def degrees(self) -> Array:
        """The row sums of `affinity` in double precision [shape=(n_points,)]."""
        return np.asarray(self.affinity.sum(axis=1, dtype=np.float64)).ravel()

    @cached_property
    def _edges(self) -> tuple[Array, Array, Array]:
        """The two end points and the affinity of each edge, listed once."""
        graph = self.affinity.tocoo()
        once = (graph.row < graph.col) & (graph.data != 0)
        return graph.row[once], graph.col[once], graph.data[once].astype(np.float64)
