"""The combined penalty of a factor, which solvers receive; it is made of terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from visionnmf.exceptions import ParameterError

from .box import Box
from .graph import Graph
from .groups import Groups
from .l1 import L1
from .l2 import L2
from .simplex import Simplex
from .term import Linear, Proximal, Smooth, Term

__all__ = ["NONNEGATIVE", "Penalty"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Penalty:
    r"""The penalties and constraints of a factor ``F >= 0``.

    .. math:: \sum_k l_{1,k} \sum_j F_{kj} + \tfrac12 \sum_k l_{2,k} \sum_j F_{kj}^2
              + \tfrac12 \mathrm{tr}(F L F^T) + \sum_g \eta_g \sum_k \|F_{k,g}\|_p

    Attributes
    ----------
    low, high : float
        Bounds of every entry, ``0 <= low < high``; `high` may be infinite (MahNMF-BC: Guan et al. 2012, section 4.1).
    l1, l2 : float or ndarray [shape=(n_components,)], >= 0
        One weight for all components, or one for each.
    graph : scipy.sparse.csr_array [shape=(n_points, n_points), >= 0], optional
        Symmetric affinity ``S`` of the points times the weight of the penalty, with a zero diagonal. ``L = D - S`` is
        its Laplacian, where ``D`` holds the row sums (MahNMF-M, section 4.2).
    simplex : {None, "columns", "rows"}
        Whether the entries of each point ("columns") or of each component ("rows") sum to 1.
    groups : tuple of ndarray of int
        Disjoint index sets of points, such as the views of the features (MahNMF-GS, section 4.3).
    group_norm : {2, inf}
        The norm ``p``.
    group_l1 : float or tuple of float, >= 0
        The weights ``eta``: one for all groups, or one for each.
    group_bounds : tuple of float, optional
        Constraints instead of penalties: ``sum_k |F[k, g]|_p <= bound`` for each group.
    terms : tuple of Term
        Additional terms, which may be of other classes.

    Raises
    ------
    ParameterError
        If a simplex is combined with a box or groups, or groups with a box, because their projections do not compose.
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
        proximal = [term for term in self.parts if isinstance(term, Proximal)]
        for first, second in pairwise(proximal):
            words = _WORDS.get(second.kind, second.kind)
            raise ParameterError(f"{first.kind} must stand without {words}; got both; leave one of them out")

    @cached_property
    def parts(self) -> tuple[Term, ...]:
        """All active terms."""
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
        """The active linear terms, which shift a step."""
        return tuple(term for term in self.parts if isinstance(term, Linear))

    @cached_property
    def smooth(self) -> tuple[Smooth, ...]:
        """The active terms with a gradient."""
        return tuple(term for term in self.parts if isinstance(term, Smooth))

    @cached_property
    def constraint(self) -> Proximal:
        """The active term with a prox; without one, the box, which includes ``F >= 0``."""
        return next((term for term in self.parts if isinstance(term, Proximal)), Box(self.low, self.high))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of the active terms."""
        return frozenset(term.kind for term in self.parts)

    def beyond(self, known: tuple[type[Term], ...]) -> list[str]:
        """Return the sorted kinds of active terms that are not among the classes `known`.

        Returns
        -------
        list of str
        """
        return sorted(term.kind for term in self.parts if not isinstance(term, known))

    @property
    def is_cone(self) -> bool:
        """Whether components may be rescaled by any positive factor if :meth:`rescaled` adapts the weights."""
        return all(term.is_cone for term in self.parts)

    @property
    def of_points(self) -> list[str]:
        """The sorted kinds of active terms that refer to the training points."""
        return sorted(term.kind for term in self.parts if term.of_points)

    @property
    def couples_components(self) -> bool:
        """Whether a term couples the components of a point or of a group."""
        return any(term.couples_components for term in self.parts)

    @property
    def degrees(self) -> Array:
        """The row sums of `graph` in double precision [shape=(n_points,)]."""
        return next(term for term in self.parts if isinstance(term, Graph)).degrees

    def box(self, dtype: DTypeLike) -> tuple[Any, Any]:
        """Return `low` and `high` in the given dtype.

        Returns
        -------
        tuple of (number, number)
        """
        number: Any = np.dtype(dtype).type
        return number(self.low), number(self.high)

    def weights(self, n_components: int, dtype: DTypeLike) -> tuple[Array, Array]:
        """Return `l1` and `l2` as arrays of shape (n_components,).

        Returns
        -------
        tuple of (ndarray, ndarray)
        """
        shape = (n_components,)
        l1 = np.array(np.broadcast_to(self.l1, shape), dtype)
        return l1, np.array(np.broadcast_to(self.l2, shape), dtype)

    def rescaled(self, scale: Array) -> Penalty:
        """Return the equivalent penalty for a factor whose component k is multiplied by ``scale[k]`` > 0.

        Returns
        -------
        Penalty
        """
        if not self.parts:
            return self
        terms = tuple(term.rescaled(scale) for term in self.terms)
        return replace(self, l1=self.l1 / scale, l2=self.l2 / scale**2, terms=terms)

    def value(self, F: Array) -> float:
        """Evaluate the penalty of `F` (n_components, n_points); constraints contribute 0.

        Returns
        -------
        float
        """
        return sum((term.value(F) for term in self.smooth), self.nonsmooth_value(F))

    # --- the smooth part ----------------------------------------------------------------------------------------------

    def gradient(self, F: Array) -> Array:
        """Return the gradient of the smooth terms, of the shape and dtype of `F`; it is affine in `F`.

        Returns
        -------
        ndarray [shape=(n_components, n_points)]
        """
        result = np.zeros_like(F)
        for term in self.smooth:
            term.add_gradient(F, result)
        return result

    def lipschitz(self) -> float:
        """Return a Lipschitz constant of :meth:`gradient`.

        Returns
        -------
        float
        """
        return sum((term.lipschitz() for term in self.smooth), 0.0)

    # --- the other terms ----------------------------------------------------------------------------------------------

    def nonsmooth_value(self, F: Array) -> float:
        """Evaluate the terms that are not smooth; constraints contribute 0.

        Returns
        -------
        float
        """
        return sum((term.value(F) for term in self.parts if not isinstance(term, Smooth)), 0.0)

    def component(self, k: int) -> Penalty:
        """Return the penalty of row k alone; raise ValueError if components are coupled.

        Returns
        -------
        Penalty
        """
        if self.couples_components:
            raise ValueError("the components are coupled")
        l1, l2 = (np.asarray(weight) for weight in (self.l1, self.l2))
        return replace(
            self,
            l1=float(l1[k] if l1.ndim else l1),
            l2=float(l2[k] if l2.ndim else l2),
            terms=tuple(term.component(k) for term in self.terms),
        )

    def prox(self, F: Array, step: float | Array) -> None:
        """Replace `F` by the minimiser Y of ``|Y - F|^2 / (2 step) + p(Y)``, p the sum of the non-smooth terms.

        A linear term only shifts `F` before the prox of the constraint, so the terms compose. `F`
        (n_components, n_points) may have any sign. `step` is one number, or one per component unless
        :attr:`couples_components`.
        """
        for term in self.linear:
            F -= (np.reshape(step, (-1, 1)) * term.slope(len(F))).astype(F.dtype)
        self.constraint.prox(F, step)

    def feasible(self, F: Array) -> None:
        """Move an initial factor `F` (n_components, n_points) into the constraint set, in place."""
        self.constraint.feasible(F)


_WORDS = {"box": "bounds other than (0, None)", "groups": "groups"}

NONNEGATIVE = Penalty()
