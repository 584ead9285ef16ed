"""The graph: neighbouring points get similar values (MahNMF-M: Guan et al. 2012, section 4.2)."""

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
    """``tr(F L F^T) / 2`` with ``L = D - S``, D the sums of the rows of S.

    Attributes
    ----------
    affinity : scipy.sparse.csr_array [shape=(n_points, n_points), >= 0]
        ``S``, symmetric, times the weight of the penalty, with nothing on the diagonal.
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
        """Bound the curvature.

        The largest eigenvalue of a Laplacian is at most the largest sum of the degrees of two neighbours (Anderson &
        Morley 1985).

        Returns
        -------
        float
        """
        i, j, _ = self._edges
        return float((self.degrees[i] + self.degrees[j]).max(initial=0))

    @cached_property
    def degrees(self) -> Array:
        """Sums of the rows of `affinity`, in double precision [shape=(n_points,)]."""
        return np.asarray(self.affinity.sum(axis=1, dtype=np.float64)).ravel()

    @cached_property
    def _edges(self) -> tuple[Array, Array, Array]:
        """Return the ends and affinities of the edges, each once."""
        graph = self.affinity.tocoo()
        once = (graph.row < graph.col) & (graph.data != 0)
        return graph.row[once], graph.col[once], graph.data[once].astype(np.float64)
