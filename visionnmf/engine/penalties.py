"""Constraints and penalties of one factor: the terms, and :class:`Penalties` for their combination.

A factor is stored component-major, ``F`` of shape ``(n_components, n_points)``. The points are the samples for codes
and the features for components.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike
from scipy.sparse.linalg import eigsh

from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from . import projections
from .arrays.namespace import in_float64, is_not_numpy, namespace_of, to_numpy
from .kernels import penalties as _kernels

__all__ = ["L1", "L2", "Bounds", "Box", "Graph", "Groups", "Linear", "Proximal", "Simplex", "Smooth", "Term"]


DENSE_POINTS = 500  # maximum number for which all eigenvalues of a graph are computed


# --- the interface of a term ------------------------------------------------------------------------------------------


class Term(ABC):
    """A constraint or penalty of a factor ``F >= 0`` of shape (n_components, n_points).

    A term is :class:`Linear`, :class:`Smooth` or :class:`Proximal`, depending on how it enters a step. Most solvers use
    only this form and what the term couples. Solvers that need more name the classes they support and reject all
    others.

    Attributes
    ----------
    kind : str
        Its name, for messages and tables.
    is_cone : bool
        Whether components may be rescaled by any positive factor, with the weights adapted by :meth:`rescaled`.
    couples_components : bool
        Whether the entries of a point depend on each other.
    of_points : bool
        Whether it refers to the training points, so that codes of new samples leave it out.
    """

    kind: ClassVar[str]
    is_cone: ClassVar[bool] = False
    couples_components: bool = False
    of_points: ClassVar[bool] = False

    @abstractmethod
    def value(self, F: Array) -> float:
        """Evaluate the penalty of `F` (n_components, n_points) in double precision; 0 for a constraint."""

    def component(self, k: int) -> Term:
        """Return the term for component k alone, a factor of one row, if components are not coupled."""
        return self

    def rescaled(self, scale: Array) -> Term:
        """Return the equivalent term for a factor whose component k is multiplied by ``scale[k]`` > 0.

        `scale` (n_components,) is all 1 if the term is not a cone (`is_cone`), that is, if weights cannot make up for
        the scale of a component, as with bounds. The default, for these terms, is therefore the term itself.
        """
        return self


class Linear(Term):
    """A linear function ``<slope, F>``. It shifts a step and composes with every other term."""

    @abstractmethod
    def slope(self, n_components: int) -> Array:
        """Return the derivative of the term with respect to the entries of the factor.

        The term is linear, so its derivative is the same for all factors.

        Returns
        -------
        ndarray, >= 0
            Of the shape (n_components, n_points) of the factor, or one that broadcasts to it: (n_components, 1).
        """


class Smooth(Term):
    """A convex quadratic function, whose gradient is affine. It composes with every other term."""

    @abstractmethod
    def add_gradient(self, F: Array, out: Array) -> None:
        """Add the gradient at `F` to `out`; both have the shape (n_components, n_points) and the same dtype."""

    @abstractmethod
    def lipschitz(self) -> float:
        """Return a Lipschitz constant of the gradient."""


class Proximal(Term):
    """A constraint or norm with a prox, which includes ``F >= 0``.

    A penalty has at most one, because two do not compose.
    """

    def value(self, F: Array) -> float:
        return 0.0  # a constraint costs nothing; norms say what they cost

    @abstractmethod
    def prox(self, F: Array, step: float | Array) -> None:
        """Apply the proximal operator: move `F` to a nearby factor with a smaller penalty, in place.

        That is the minimiser Y of ``|Y - F|^2 / (2 step) + value(Y)`` over all factors ``Y >= 0`` that meet the
        constraint. `F` (n_components, n_points) is where a gradient step of length `step` has led, so its entries may
        be negative. The longer the step, the more the penalty counts; with `step` 0 this is the projection onto the
        constraint. `step` is one number, or an array (n_components,) unless the components are coupled.
        """

    @abstractmethod
    def feasible(self, F: Array) -> None:
        """Move an initial factor ``F >= 0`` into the constraint set, in place, without setting most of it to zero.

        A projection would do that, but zeros are a poor start: multiplicative updates, for example, never leave them.
        """


# --- the terms --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Box(Proximal):
    """``low <= F <= high``, with ``0 <= low < high``; `high` may be infinite (MahNMF-BC: Guan et al. 2012, 4.1)."""

    low: float = 0.0
    high: float = float("inf")

    kind = "box"

    def prox(self, F: Array, step: float | Array) -> None:
        self.feasible(F)

    def feasible(self, F: Array) -> None:
        if is_not_numpy(F):
            F[:, :] = namespace_of(F).clip(F, self.low, self.high)
        else:
            np.clip(F, F.dtype.type(self.low), F.dtype.type(self.high), out=F)


@dataclass(frozen=True, eq=False)
class Bounds(Proximal):
    """``low <= F <= high`` with bounds (n_components, n_points) of each entry (Guan et al. 2012, equation 30)."""

    low: Array
    high: Array
    name: str = "low and high"  # for messages

    kind = "bounds"
    of_points = True

    def component(self, k: int) -> Bounds:
        return Bounds(self.low[k : k + 1], self.high[k : k + 1], self.name)

    def prox(self, F: Array, step: float | Array) -> None:
        self.feasible(F)

    def feasible(self, F: Array) -> None:
        if F.shape != self.low.shape:
            raise ParameterError(f"{self.name} must have the shape of the factor, {F.shape}; got {self.low.shape}")
        np.clip(F, self.low, self.high, out=F)


@dataclass(frozen=True, eq=False)
class _Weighted(Term):
    """A term that multiplies what each component costs by `weight` >= 0: one number, or one per component."""

    weight: float | Array

    is_cone = True
    degree: ClassVar[int]  # of the cost in the component's entries

    def component(self, k: int) -> Self:
        weight = np.asarray(self.weight)
        return type(self)(float(weight[k] if weight.ndim else weight))

    def rescaled(self, scale: Array) -> Self:
        return type(self)(self.weight / scale**self.degree)  # the cost of component k has grown by scale[k]^degree


class L1(_Weighted, Linear):
    """``sum_k weight_k sum_j F_kj``; `weight` >= 0 is one number, or one per component."""

    kind = "l1"
    degree = 1

    def value(self, F: Array) -> float:
        xp = namespace_of(F)
        sums = to_numpy(xp.sum(F, axis=1, dtype=xp.float64))
        return float(np.dot(np.broadcast_to(self.weight, len(sums)), sums))

    def slope(self, n_components: int) -> Array:
        # the derivative of an l1 norm is its weight; a column, because it is the same at all points of a component
        return np.broadcast_to(np.asarray(self.weight), n_components)[:, None]


class L2(_Weighted, Smooth):
    """``sum_k weight_k / 2 sum_j F_kj^2``; `weight` >= 0 is one number, or one per component."""

    kind = "l2"
    degree = 2

    def value(self, F: Array) -> float:
        if is_not_numpy(F):
            squares = to_numpy(namespace_of(F).sum(in_float64(F) ** 2, axis=1))
        else:
            squares = np.einsum("ij,ij->i", F, F, dtype=np.float64)
        return float(np.dot(np.broadcast_to(self.weight, len(squares)), squares)) / 2

    def add_gradient(self, F: Array, out: Array) -> None:
        out += np.array(np.broadcast_to(self.weight, len(F)), F.dtype)[:, None] * F

    def lipschitz(self) -> float:
        return float(np.max(self.weight))  # the largest second derivative


@dataclass(frozen=True, eq=False)
class Graph(Smooth):
    """``tr(F L F^T) / 2``: neighbouring points get similar values (MahNMF-M: Guan et al. 2012, section 4.2).

    `affinity` is a symmetric csr_array ``S`` (n_points, n_points) >= 0, times the weight of the penalty, with a zero
    diagonal. ``L = D - S`` is its Laplacian, where D holds the row sums of S.
    """

    affinity: Any

    kind = "graph"
    of_points = True

    def value(self, F: Array) -> float:
        i, j, affinities = self._edges
        total = 0.0
        for row in F.astype(np.float64):
            total += float(np.dot(affinities, (row[i] - row[j]) ** 2)) / 2
        return total

    def add_gradient(self, F: Array, out: Array) -> None:
        # F L = F D - F S
        out += F * self.degrees.astype(F.dtype)
        out -= (self.affinity.astype(F.dtype, copy=False) @ np.ascontiguousarray(F.T)).T

    def lipschitz(self) -> float:
        # The Lipschitz constant of the gradient F L is the largest eigenvalue of the Laplacian L, which is at most the
        # largest sum of the degrees of two neighbours (Anderson & Morley 1985).
        i, j, _ = self._edges  # the two points of each edge; its affinity is not needed
        return float((self.degrees[i] + self.degrees[j]).max(initial=0))

    @cached_property
    def largest_eigenvalue(self) -> float:
        """The largest eigenvalue of the Laplacian, which :meth:`lipschitz` bounds at far less cost."""
        # exact for small graphs, otherwise by the Lanczos method from a fixed random start
        L = sp.csr_array(sp.diags_array(self.degrees) - self.affinity)
        if L.shape[0] <= DENSE_POINTS:
            return float(np.linalg.eigvalsh(L.toarray())[-1])
        start = np.random.default_rng(0).standard_normal(L.shape[0])
        return float(eigsh(L, 1, which="LA", v0=start, return_eigenvectors=False)[0])

    @cached_property
    def degrees(self) -> Array:
        """The row sums of `affinity` in double precision [shape=(n_points,)]."""
        return np.asarray(self.affinity.sum(axis=1, dtype=np.float64)).ravel()

    @cached_property
    def _edges(self) -> tuple[Array, Array, Array]:
        """The two end points and the affinity of each edge of the graph, listed once, as three arrays (n_edges,)."""
        graph = self.affinity.tocoo()
        once = (graph.row < graph.col) & (graph.data != 0)
        return graph.row[once], graph.col[once], graph.data[once].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Simplex(Proximal):
    """``F >= 0`` where each of its "columns" (points) or each of its "rows" (components) sums to 1."""

    side: str

    kind = "simplex"

    @property
    def couples_components(self) -> bool:  # type: ignore[override]
        """Whether components are tied together: by sums over a point ("columns"), but not over a component ("rows")."""
        return self.side == "columns"

    def prox(self, F: Array, step: float | Array) -> None:
        if self.side == "columns":
            projections.project_simplex_columns(F)
        else:
            F[:] = projections.project_simplex(F)

    def feasible(self, F: Array) -> None:
        # scale columns or rows of F (n_components, n_points) to sums of 1; a projection would set most entries to zero
        np.maximum(F, 0, out=F)
        axis = 0 if self.side == "columns" else 1
        sums = F.sum(axis=axis, keepdims=True, dtype=np.float64)
        F /= np.where(sums > 0, sums, 1).astype(F.dtype)
        np.copyto(F, F.dtype.type(1 / F.shape[axis]), where=~(sums > 0))  # zeros become equal entries


@dataclass(frozen=True, eq=False)
class Groups(Proximal):
    """``sum_g weight_g sum_k |F_{k,g}|_p``, and with bounds also ``sum_k |F_{k,g}|_p <= bound_g``.

    A component uses a whole group, such as a view, or none of it (MahNMF-GS: Guan et al. 2012, section 4.3). `groups`
    are disjoint index sets of points, `norm` is the norm p (2 or inf), `weight` >= 0 is one number for all groups or
    one for each, and `bounds` holds one bound for each group or is None.
    """

    groups: tuple[Array, ...]
    norm: float
    weight: float | tuple[float, ...]
    bounds: tuple[float, ...] | None

    kind = "groups"
    of_points = True

    @property
    def couples_components(self) -> bool:  # type: ignore[override]
        """Whether components are tied together: they share the bound of a group, if there are bounds."""
        return self.bounds is not None

    def value(self, F: Array) -> float:
        return sum(
            weight * float(self._norms(F[:, _columns(group)]).sum())
            for group, weight in zip(self.groups, self._weights(), strict=True)
            if weight
        )

    def prox(self, F: Array, step: float | Array) -> None:
        """Apply the prox group by group, after clipping at 0, as the prox of a norm keeps signs and shrinks entries."""
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
        # scale the groups of points of F (n_components, n_points) that exceed their bound, which sets nothing to zero;
        # the size of a group is the sum over the components of the p-norms of its part
        np.maximum(F, 0, out=F)
        if self.bounds is None:  # then the groups are only a penalty, and everything >= 0 is feasible
            return
        for group, bound in zip(self.groups, self.bounds, strict=True):
            columns = _columns(group)
            size = float(self._norms(F[:, columns]).sum())
            if size > bound:
                F[:, columns] *= F.dtype.type(bound / size)

    def _shorten(self, F: Array, step: float | Array) -> None:
        """Shorten each component's part in each group (p = 2) by step times weight, in place, in one compiled loop."""
        thresholds = np.empty((len(F), len(self.groups)))
        np.multiply(np.reshape(step, (-1, 1)), self._weights(), out=thresholds)
        points, ends = self._members  # the points of all groups, group after group, and where each group ends
        _kernels.shorten_groups(F, points, ends, thresholds)

    @cached_property
    def _members(self) -> tuple[Array, Array]:
        """The points of all groups, group after group [shape=(n_members,)], and the end of each group among them."""
        return np.concatenate(self.groups), np.cumsum([len(group) for group in self.groups])

    def _weights(self) -> tuple[float, ...]:
        """Return one weight for each group; `weight` may be one number for all of them."""
        return self.weight if isinstance(self.weight, tuple) else (self.weight,) * len(self.groups)

    def _norms(self, block: Array) -> Array:
        """Return the p-norm, p = `norm`, of each row of `block` >= 0 (n_components, n) in double precision."""
        if self.norm == 2:
            return np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))
        return np.asarray(block.max(axis=1, initial=0), np.float64)


def _columns(group: Array) -> Any:
    """Return an index of the points of a group: a slice if they are contiguous, because a view avoids a copy."""
    first, last = int(group[0]), int(group[-1])
    if last - first + 1 == len(group) and (np.diff(group) == 1).all():
        return slice(first, last + 1)
    return group


# --- their combination ------------------------------------------------------------------------------------------------


TERMS: dict[str, type[Term]] = {term.kind: term for term in (Box, Bounds, L1, L2, Graph, Simplex, Groups)}
SEPARABLE: tuple[type[Term], ...] = (Box, L1, L2)  # supported by coordinate descent
ANY: tuple[type[Term], ...] = (Linear, Smooth, Proximal)  # all forms that a proximal gradient step supports


@dataclass(frozen=True, eq=False)
class Penalties:
    r"""The penalties and constraints of a factor ``F >= 0``.

    .. math:: \sum_k l_{1,k} \sum_j F_{kj} + \tfrac12 \sum_k l_{2,k} \sum_j F_{kj}^2
              + \tfrac12 \mathrm{tr}(F L F^T) + \sum_g \eta_g \sum_k \|F_{k,g}\|_p

    The fields are those of :class:`Box` (`low`, `high`), :class:`L1`, :class:`L2`, :class:`Graph`, :class:`Simplex`
    and :class:`Groups`; `terms` are additional terms, which may be of other classes. At most one of the terms may be
    :class:`Proximal`, because projections do not compose; otherwise the constructor raises ParameterError.
    """

    low: float = 0.0
    high: float = float("inf")
    l1: float | Array = 0.0
    l2: float | Array = 0.0
    graph: Any = None
    simplex: str | None = None
    groups: tuple[Array, ...] = ()
    group_norm: float = 2
    group_l1: float | tuple[float, ...] = 0.0
    group_bounds: tuple[float, ...] | None = None
    terms: tuple[Term, ...] = ()

    def __post_init__(self) -> None:
        """Raise ParameterError if more than one term is proximal (a box, simplex or groups): these do not compose."""
        proximal = [term for term in self.active_terms if isinstance(term, Proximal)]
        for first, second in pairwise(proximal):  # there is a pair if there are two, and the first one is reported
            words = _WORDS.get(second.kind, second.kind)
            raise ParameterError(f"{first.kind} must stand without {words}; got both; leave one of them out")

    @cached_property
    def active_terms(self) -> tuple[Term, ...]:
        """All active terms: one for each field that is set, in a fixed order, then the additional `terms`."""
        # whether the term is used, its class, and the arguments of the class
        own: list[tuple[Any, type[Term], tuple[Any, ...]]] = [
            (np.any(self.l1), L1, (self.l1,)),
            (self.simplex is not None, Simplex, (self.simplex,)),
            (bool(self.groups), Groups, (self.groups, self.group_norm, self.group_l1, self.group_bounds)),
            (self.low > 0 or np.isfinite(self.high), Box, (self.low, self.high)),
            (np.any(self.l2), L2, (self.l2,)),
            (self.graph is not None, Graph, (self.graph,)),
        ]
        return (*(term(*arguments) for used, term, arguments in own if used), *self.terms)

    @cached_property
    def linear(self) -> tuple[Linear, ...]:
        """The active terms that are linear in the factor, such as l1: their constant gradient shifts a step."""
        return tuple(term for term in self.active_terms if isinstance(term, Linear))

    @cached_property
    def smooth(self) -> tuple[Smooth, ...]:
        """The active terms with a gradient."""
        return tuple(term for term in self.active_terms if isinstance(term, Smooth))

    @cached_property
    def constraint(self) -> Proximal:
        """The active term with a prox; without one, the box, which includes ``F >= 0``."""
        return next((term for term in self.active_terms if isinstance(term, Proximal)), Box(self.low, self.high))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of the active terms."""
        return frozenset(term.kind for term in self.active_terms)

    @property
    def escapes(self) -> list[str]:
        """The sorted kinds of active terms that become small when this factor is scaled down and the other one up."""
        low = getattr(self.constraint, "low", 0.0)  # of a box or of each entry; a component with one > 0 keeps its size
        if isinstance(self.constraint, Simplex) or np.atleast_2d(low).any(axis=1).all():
            return []
        return sorted(self.kinds & {"l1", "l2", "graph", "groups"})

    @property
    def holds(self) -> bool:
        """Whether a term keeps the factor from growing."""
        high = getattr(self.constraint, "high", 0.0)
        return bool(self.kinds - {"box", "bounds"} or np.isfinite(high).all())

    @property
    def shrinks(self) -> bool:
        """Whether there is an l1 or l2 penalty, which makes the entries of the factor smaller."""
        return bool(self.kinds & {"l1", "l2"})

    def with_ridge(self, ridge: float) -> Penalties:
        """Return the same penalty with a further l2 weight, of all components."""
        return replace(self, l2=self.l2 + ridge)

    def beyond(self, known: tuple[type[Term], ...]) -> list[str]:
        """Return the sorted kinds of active terms that are not among the classes `known`, for solvers to refuse."""
        return sorted(term.kind for term in self.active_terms if not isinstance(term, known))

    @property
    def is_cone(self) -> bool:
        """Whether components may be rescaled by any positive factor if :meth:`rescaled` adapts the weights."""
        return all(term.is_cone for term in self.active_terms)

    @property
    def of_points(self) -> list[str]:
        """The sorted kinds of active terms that refer to the training points."""
        return sorted(term.kind for term in self.active_terms if term.of_points)

    @property
    def couples_components(self) -> bool:
        """Whether a term ties components together, so that they cannot be updated one after the other."""
        return any(term.couples_components for term in self.active_terms)

    @property
    def degrees(self) -> Array:
        """The row sums of the affinities `graph`, which must be set, in double precision [shape=(n_points,)]."""
        return next(term for term in self.active_terms if isinstance(term, Graph)).degrees

    def box(self, dtype: DTypeLike) -> tuple[Any, Any]:
        """Return `low` and `high` in the given dtype."""
        number: Any = np.dtype(dtype).type
        return number(self.low), number(self.high)

    def entry_bounds(self, dtype: DTypeLike) -> tuple[Any, Any] | None:
        """Return the bounds of the entries in the given dtype, numbers or arrays; None with any other constraint."""
        if not isinstance(self.constraint, Box | Bounds):
            return None
        return np.asarray(self.constraint.low, dtype), np.asarray(self.constraint.high, dtype)

    def weights(self, n_components: int, dtype: DTypeLike) -> tuple[Array, Array]:
        """Return `l1` and `l2`, each one number or one per component, as arrays of shape (n_components,)."""
        l1, l2 = (np.array(np.broadcast_to(weight, n_components), dtype) for weight in (self.l1, self.l2))
        return l1, l2

    def rescaled(self, scale: Array) -> Penalties:
        """Return the equivalent penalty once component k is multiplied by ``scale[k]`` > 0, all 1 unless `is_cone`."""
        if not self.active_terms:
            return self  # without terms there are no weights to adapt
        terms = tuple(term.rescaled(scale) for term in self.terms)
        return replace(self, l1=self.l1 / scale, l2=self.l2 / scale**2, terms=terms)

    def value(self, F: Array) -> float:
        """Evaluate the penalty of `F` (n_components, n_points); constraints contribute 0."""
        return sum((term.value(F) for term in self.smooth), self.nonsmooth_value(F))

    # --- the smooth part ----------------------------------------------------------------------------------------------

    def gradient(self, F: Array) -> Array:
        """Return the gradient of the smooth terms, of the shape and dtype of `F`; it is affine in `F`."""
        result = np.zeros_like(F)
        for term in self.smooth:
            term.add_gradient(F, result)
        return result

    def lipschitz(self) -> float:
        """Return a Lipschitz constant of :meth:`gradient`: the sum of those of the smooth terms."""
        return sum((term.lipschitz() for term in self.smooth), 0.0)

    def curvature(self) -> float:
        """Return :meth:`lipschitz` with the largest eigenvalue of a graph in place of its bound, as papers print it."""
        terms = (term.largest_eigenvalue if isinstance(term, Graph) else term.lipschitz() for term in self.smooth)
        return sum(terms, 0.0)

    # --- the other terms ----------------------------------------------------------------------------------------------

    def nonsmooth_value(self, F: Array) -> float:
        """Evaluate the terms that are not smooth; constraints contribute 0."""
        return sum((term.value(F) for term in self.active_terms if not isinstance(term, Smooth)), 0.0)

    def component(self, k: int) -> Penalties:
        """Return the penalty of row k alone; raise ValueError if components are coupled."""
        if self.couples_components:
            raise ValueError("the components are coupled")
        l1, l2 = (np.asarray(weight) for weight in (self.l1, self.l2))  # each one number, or one per component
        terms = tuple(term.component(k) for term in self.terms)
        if not l1.ndim and not l2.ndim and all(map(operator.is_, terms, self.terms)):
            return self  # all components have the same penalty, whose properties are then found once
        return replace(self, l1=float(l1[k] if l1.ndim else l1), l2=float(l2[k] if l2.ndim else l2), terms=terms)

    def prox(self, F: Array, step: float | Array) -> None:
        """Replace `F` by the minimiser Y of ``|Y - F|^2 / (2 step) + p(Y)``, p the sum of the non-smooth terms."""
        for term in self.linear:
            F -= (np.reshape(step, (-1, 1)) * term.slope(len(F))).astype(F.dtype)
        self.constraint.prox(F, step)

    def feasible(self, F: Array) -> None:
        """Move an initial factor `F` >= 0 (n_components, n_points) into the constraint set, in place."""
        self.constraint.feasible(F)


_WORDS = {"box": "bounds other than (0, None)", "groups": "groups"}

NONNEGATIVE = Penalties()
