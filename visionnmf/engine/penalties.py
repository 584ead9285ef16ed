"""Constraints and penalties of one factor: non-negativity, box, l1, l2, graph, simplex, groups.

A factor is stored component-major, ``F`` of shape ``(n_components, n_points)``; the points are samples for the codes
and features for the components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from visionnmf.exceptions import ParameterError

from . import projections

__all__ = ["KINDS", "NONNEGATIVE", "Penalty"]

Array = NDArray[Any]

KINDS = ("box", "l1", "l2", "graph", "simplex", "groups")


@dataclass(frozen=True, eq=False)
class Penalty:
    r"""What a factor ``F >= 0`` pays beside the loss, and where it must lie.

    .. math:: \sum_k l_{1,k} \sum_j F_{kj} + \tfrac12 \sum_k l_{2,k} \sum_j F_{kj}^2
              + \tfrac12 \mathrm{tr}(F L F^T) + \eta \sum_g \sum_k \|F_{k,g}\|_p

    Attributes
    ----------
    low, high : float
        Box of every entry, ``0 <= low < high``; `high` may be infinite (MahNMF-BC: Guan et al. 2012, section 4.1).
    l1, l2 : float or ndarray [shape=(n_components,)], >= 0
        One number for all components, or one each.
    graph : scipy.sparse.csr_array [shape=(n_points, n_points), >= 0], optional
        Symmetric affinity ``S`` of the points, times the weight of the penalty, with nothing on the diagonal;
        ``L = D - S`` with ``D`` the sums of its rows (MahNMF-M, section 4.2).
    simplex : {None, "columns", "rows"}
        Each point's entries sum to 1, or each component's.
    groups : tuple of ndarray of int
        Index sets of points, none in two of them, such as the views of the features (MahNMF-GS, section 4.3).
    group_norm : {2, inf}
        ``p``.
    group_l1 : float, >= 0
        ``eta`` of the penalty form.
    group_bounds : tuple of float, optional
        The constraint form instead: ``sum_k |F[k, g]|_p <= bound`` for each group.

    Raises
    ------
    ParameterError
        For a simplex with a box or with groups, and for groups with a box: their projections do not compose.
    """

    low: float = 0.0
    high: float = float("inf")
    l1: float | Array = 0.0
    l2: float | Array = 0.0
    graph: Any = None
    simplex: str | None = None
    groups: tuple[Array, ...] = ()
    group_norm: float = 2
    group_l1: float = 0.0
    group_bounds: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        kinds = self.kinds
        for first, second in (("simplex", "box"), ("simplex", "groups"), ("groups", "box")):
            if {first, second} <= kinds:
                raise ParameterError(f"{first} cannot be combined with {_WORDS[second]}; leave one of them out")

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Which of :data:`KINDS` are in force."""
        used = {
            "box": self.low > 0 or np.isfinite(self.high),
            "l1": np.any(self.l1),
            "l2": np.any(self.l2),
            "graph": self.graph is not None,
            "simplex": self.simplex is not None,
            "groups": bool(self.groups),
        }
        return frozenset(kind for kind, value in used.items() if value)

    @property
    def is_cone(self) -> bool:
        """Whether rows of the factor may be multiplied by any positive number, the penalty's weights following."""
        return self.kinds <= {"l1", "l2"}

    def box(self, dtype: DTypeLike) -> tuple[Any, Any]:
        """Return the box as the kernels want it.

        Parameters
        ----------
        dtype : dtype

        Returns
        -------
        tuple of (number, number)
            `low` and `high` in that dtype.
        """
        number: Any = np.dtype(dtype).type
        return number(self.low), number(self.high)

    def weights(self, n_components: int, dtype: DTypeLike) -> tuple[Array, Array]:
        """Return the weights as the kernels want them.

        Parameters
        ----------
        n_components : int
        dtype : dtype

        Returns
        -------
        tuple of (ndarray, ndarray) [shape=(n_components,), >= 0]
            `l1` and `l2`.
        """
        shape = (n_components,)
        l1 = np.array(np.broadcast_to(self.l1, shape), dtype)
        return l1, np.array(np.broadcast_to(self.l2, shape), dtype)

    def rescaled(self, scale: Array) -> Penalty:
        """Return the same penalty for a factor whose component k has been multiplied by ``scale[k]``.

        Parameters
        ----------
        scale : ndarray [shape=(n_components,)], > 0

        Returns
        -------
        Penalty
        """
        if not self.kinds:
            return self
        return replace(self, l1=self.l1 / scale, l2=self.l2 / scale**2)

    def value(self, F: Array) -> float:
        """Evaluate the penalty; constraints count nothing.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]

        Returns
        -------
        float
        """
        total = self.nonsmooth_value(F)
        if "l2" in self.kinds:
            squares = np.einsum("ij,ij->i", F, F, dtype=np.float64)
            total += float(np.dot(np.broadcast_to(self.l2, len(F)), squares)) / 2
        if "graph" in self.kinds:
            i, j, affinities = self._edges
            for row in F.astype(np.float64):
                total += float(np.dot(affinities, (row[i] - row[j]) ** 2)) / 2
        return total

    # --- the smooth part: l2 and graph --------------------------------------------------------------------------------

    def gradient(self, F: Array) -> Array:
        """Evaluate the gradient of the smooth part, which is linear in `F`: ``l2 F + F L``.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points)]

        Returns
        -------
        ndarray [shape=(n_components, n_points)]
            In the dtype of `F`.
        """
        result = self.weights(len(F), F.dtype)[1][:, None] * F
        if "graph" in self.kinds:
            degrees = self.degrees.astype(F.dtype)
            result += F * degrees
            result -= (self.graph.astype(F.dtype, copy=False) @ np.ascontiguousarray(F.T)).T
        return result

    def lipschitz(self) -> float:
        """Bound the curvature of the smooth part.

        The largest eigenvalue of a Laplacian is at most the largest sum of the degrees of two neighbours (Anderson &
        Morley 1985).

        Returns
        -------
        float
            A Lipschitz constant of :meth:`gradient`.
        """
        result = float(np.max(self.l2))
        if "graph" in self.kinds:
            i, j, _ = self._edges
            result += float((self.degrees[i] + self.degrees[j]).max(initial=0))
        return result

    @cached_property
    def degrees(self) -> Array:
        """Sums of the rows of `graph`, in double precision [shape=(n_points,)]."""
        return np.asarray(self.graph.sum(axis=1, dtype=np.float64)).ravel()

    @cached_property
    def _edges(self) -> tuple[Array, Array, Array]:
        """Return the ends and affinities of the edges, each once."""
        graph = self.graph.tocoo()
        once = (graph.row < graph.col) & (graph.data != 0)
        return graph.row[once], graph.col[once], graph.data[once].astype(np.float64)

    # --- the rest: box, l1, simplex, groups ---------------------------------------------------------------------------

    def nonsmooth_value(self, F: Array) -> float:
        """Evaluate the l1 norm and the norms of groups; the constraints count nothing.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]

        Returns
        -------
        float
        """
        total = 0.0
        if "l1" in self.kinds:
            total += float(np.dot(np.broadcast_to(self.l1, len(F)), F.sum(axis=1, dtype=np.float64)))
        if self.group_l1:
            total += self.group_l1 * sum(float(self._norms(F[:, _columns(group)]).sum()) for group in self.groups)
        return total

    @property
    def couples_components(self) -> bool:
        """Whether the non-smooth part ties the components of a point, or of a group, together."""
        return self.simplex == "columns" or self.group_bounds is not None

    def component(self, k: int) -> Penalty:
        """Single out a component, unless components are coupled.

        Parameters
        ----------
        k : int

        Returns
        -------
        Penalty
            Of a factor of one row.
        """
        if self.couples_components:
            raise ValueError("the components are coupled")
        l1, l2 = (np.asarray(weight) for weight in (self.l1, self.l2))
        return replace(self, l1=float(l1[k] if l1.ndim else l1), l2=float(l2[k] if l2.ndim else l2))

    def prox(self, F: Array, step: float | Array) -> None:
        """Make `F` the minimiser of ``|Y - F|^2 / (2 step) + p(Y)``, p the non-smooth part, in place.

        The parts compose: the l1 norm and the bounds act on entries and come first, then the norms of groups, which
        keep signs and shrink (Jenatton et al. 2011, for nested norms). On a simplex the l1 norm is a linear term.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points)]
            Of any sign; overwritten.
        step : float or ndarray [shape=(n_components,)], > 0
            One for all components, or one each unless :attr:`couples_components`.
        """
        if "l1" in self.kinds:
            F -= np.broadcast_to(step * np.asarray(self.l1), len(F)).astype(F.dtype)[:, None]
        if self.simplex == "columns":
            projections.project_simplex_columns(F)
        elif self.simplex == "rows":
            F[:] = projections.project_simplex(F)
        else:
            np.clip(F, *self.box(F.dtype), out=F)
        shrink = projections.shrink_2 if self.group_norm == 2 else projections.shrink_inf
        ball = projections.project_l1_2_ball if self.group_norm == 2 else projections.project_l1_inf_ball
        for g, group in enumerate(self.groups):
            columns = _columns(group)
            block = F[:, columns]
            if self.group_l1:
                block = shrink(block, step * self.group_l1)
            if self.group_bounds is not None:
                block = ball(block, self.group_bounds[g])
            F[:, columns] = block

    def feasible(self, F: Array) -> None:
        """Move a start into the box, onto the simplex or into the balls, in place.

        Simplex and balls are reached by scaling, since their projections would set most of a start to zero.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]
            Overwritten.
        """
        np.clip(F, *self.box(F.dtype), out=F)
        if self.simplex is not None:
            axis = 0 if self.simplex == "columns" else 1
            sums = F.sum(axis=axis, keepdims=True, dtype=np.float64)
            F /= np.where(sums > 0, sums, 1).astype(F.dtype)
            np.copyto(F, F.dtype.type(1 / F.shape[axis]), where=~(sums > 0))
        if self.group_bounds is not None:
            for group, bound in zip(self.groups, self.group_bounds, strict=True):
                columns = _columns(group)
                size = float(self._norms(F[:, columns]).sum())
                if size > bound:
                    F[:, columns] *= F.dtype.type(bound / size)

    def _norms(self, block: Array) -> Array:
        """Return the p-norm of each row in double precision."""
        if self.group_norm == 2:
            return np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))
        return np.asarray(block.max(axis=1, initial=0), np.float64)


def _columns(group: Array) -> Any:
    """Return a slice where a group is a range of points, since a view costs no copy."""
    first, last = int(group[0]), int(group[-1])
    if last - first + 1 == len(group) and (np.diff(group) == 1).all():
        return slice(first, last + 1)
    return group


_WORDS = {"box": "bounds other than (0, None)", "groups": "groups"}

NONNEGATIVE = Penalty()
