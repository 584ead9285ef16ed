"""What a factor pays in all: the penalty that solvers get, made of terms."""

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
    r"""What a factor ``F >= 0`` pays beside the loss, and where it must lie.

    .. math:: \sum_k l_{1,k} \sum_j F_{kj} + \tfrac12 \sum_k l_{2,k} \sum_j F_{kj}^2
              + \tfrac12 \mathrm{tr}(F L F^T) + \sum_g \eta_g \sum_k \|F_{k,g}\|_p

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
    group_l1 : float or tuple of float, >= 0
        ``eta`` of the penalty form: one number for all groups, or one each.
    group_bounds : tuple of float, optional
        The constraint form instead: ``sum_k |F[k, g]|_p <= bound`` for each group.
    terms : tuple of Term
        Further ones, of classes that need not be known here.

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
        """All terms in force."""
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
        """The terms that shift a step."""
        return tuple(term for term in self.parts if isinstance(term, Linear))

    @cached_property
    def smooth(self) -> tuple[Smooth, ...]:
        """The terms with a gradient."""
        return tuple(term for term in self.parts if isinstance(term, Smooth))

    @cached_property
    def constraint(self) -> Proximal:
        """The term with a prox; the box where no other is in force, which is ``F >= 0`` at least."""
        return next((term for term in self.parts if isinstance(term, Proximal)), Box(self.low, self.high))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of the terms in force."""
        return frozenset(term.kind for term in self.parts)

    def beyond(self, known: tuple[type[Term], ...]) -> list[str]:
        """List the kinds in force that a solver does not take.

        Parameters
        ----------
        known : tuple of type
            The classes of terms that it takes.

        Returns
        -------
        list of str
            Sorted; empty when it takes all.
        """
        return sorted(term.kind for term in self.parts if not isinstance(term, known))

    @property
    def is_cone(self) -> bool:
        """Whether rows of the factor may be multiplied by any positive number, the penalty's weights following."""
        return all(term.is_cone for term in self.parts)

    @property
    def of_points(self) -> list[str]:
        """The kinds in force whose data are of the training points, sorted."""
        return sorted(term.kind for term in self.parts if term.of_points)

    @property
    def couples_components(self) -> bool:
        """Whether a term ties the components of a point, or of a group, together."""
        return any(term.couples_components for term in self.parts)

    @property
    def degrees(self) -> Array:
        """Sums of the rows of `graph`, in double precision [shape=(n_points,)]."""
        return next(term for term in self.parts if isinstance(term, Graph)).degrees

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
        if not self.parts:
            return self
        terms = tuple(term.rescaled(scale) for term in self.terms)
        return replace(self, l1=self.l1 / scale, l2=self.l2 / scale**2, terms=terms)

    def value(self, F: Array) -> float:
        """Evaluate the penalty; constraints count nothing.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]

        Returns
        -------
        float
        """
        return sum((term.value(F) for term in self.smooth), self.nonsmooth_value(F))

    # --- the smooth part ----------------------------------------------------------------------------------------------

    def gradient(self, F: Array) -> Array:
        """Evaluate the gradient of the smooth terms, which is affine in `F`.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points)]

        Returns
        -------
        ndarray [shape=(n_components, n_points)]
            In the dtype of `F`.
        """
        result = np.zeros_like(F)
        for term in self.smooth:
            term.add_gradient(F, result)
        return result

    def lipschitz(self) -> float:
        """Bound the curvature of the smooth terms.

        Returns
        -------
        float
            A Lipschitz constant of :meth:`gradient`.
        """
        return sum((term.lipschitz() for term in self.smooth), 0.0)

    # --- the rest -----------------------------------------------------------------------------------------------------

    def nonsmooth_value(self, F: Array) -> float:
        """Evaluate the terms that are not smooth; the constraints count nothing.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]

        Returns
        -------
        float
        """
        return sum((term.value(F) for term in self.parts if not isinstance(term, Smooth)), 0.0)

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
        return replace(
            self,
            l1=float(l1[k] if l1.ndim else l1),
            l2=float(l2[k] if l2.ndim else l2),
            terms=tuple(term.component(k) for term in self.terms),
        )

    def prox(self, F: Array, step: float | Array) -> None:
        """Make `F` the minimiser of ``|Y - F|^2 / (2 step) + p(Y)``, p the terms that are not smooth, in place.

        They compose: a linear term is a shift of `F` before the prox of the constraint.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points)]
            Of any sign; overwritten.
        step : float or ndarray [shape=(n_components,)], >= 0
            One for all components, or one each unless :attr:`couples_components`.
        """
        for term in self.linear:
            F -= (np.reshape(step, (-1, 1)) * term.slope(len(F))).astype(F.dtype)
        self.constraint.prox(F, step)

    def feasible(self, F: Array) -> None:
        """Move a start into the box, onto the simplex or into the balls, in place.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]
            Overwritten.
        """
        self.constraint.feasible(F)


_WORDS = {"box": "bounds other than (0, None)", "groups": "groups"}

NONNEGATIVE = Penalty()
