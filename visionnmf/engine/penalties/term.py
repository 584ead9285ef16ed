"""The interface of a constraint or penalty term, which has one of three forms: linear, smooth or proximal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

__all__ = ["Linear", "Proximal", "Smooth", "Term"]

Array = NDArray[Any]


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
    couples_components, couples_points : bool
        Whether the entries of a point, or of a component, depend on each other.
    of_points : bool
        Whether it refers to the training points, so that codes of new samples leave it out.
    """

    kind: ClassVar[str]
    is_cone: ClassVar[bool] = False
    couples_components: bool = False
    couples_points: bool = False
    of_points: ClassVar[bool] = False

    @abstractmethod
    def value(self, F: Array) -> float:
        """Evaluate the penalty.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]

        Returns
        -------
        float
            The value, summed in double precision; 0 for a constraint.
        """

    def component(self, k: int) -> Term:
        """Return the term for component k alone, if components are not coupled.

        Parameters
        ----------
        k : int

        Returns
        -------
        Term
            A term for a factor of one row.
        """
        return self

    def rescaled(self, scale: Array) -> Term:
        """Return the equivalent term for a factor whose component k is multiplied by ``scale[k]``.

        Parameters
        ----------
        scale : ndarray [shape=(n_components,)], > 0
            All 1 if the term is not a cone.

        Returns
        -------
        Term
        """
        return self


class Linear(Term):
    """A linear function ``<slope, F>``. It shifts a step and composes with every other term."""

    @abstractmethod
    def slope(self, n_components: int) -> Array:
        """Return the derivative.

        Parameters
        ----------
        n_components : int

        Returns
        -------
        ndarray, >= 0
            Broadcasts to the shape of the factor.
        """


class Smooth(Term):
    """A convex quadratic function, whose gradient is affine. It composes with every other term."""

    @abstractmethod
    def add_gradient(self, F: Array, out: Array) -> None:
        """Add the gradient at `F` to `out`.

        Parameters
        ----------
        F, out : ndarray [shape=(n_components, n_points)]
            Both have the same dtype.
        """

    @abstractmethod
    def lipschitz(self) -> float:
        """Return a Lipschitz constant of the gradient.

        Returns
        -------
        float
        """


class Proximal(Term):
    """A constraint or norm with a prox, which includes ``F >= 0``.

    A penalty has at most one, because two do not compose.
    """

    @abstractmethod
    def prox(self, F: Array, step: float | Array) -> None:
        """Replace `F` by the minimiser Y of ``|Y - F|^2 / (2 step) + value(Y)``, in place.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points)]
            Of any sign; overwritten.
        step : float or ndarray [shape=(n_components,)], >= 0
            One number, or one per component unless they are coupled; 0 gives the projection.
        """

    @abstractmethod
    def feasible(self, F: Array) -> None:
        """Move an initial factor into the constraint set, in place, without setting most of it to zero.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]
            Overwritten.
        """
