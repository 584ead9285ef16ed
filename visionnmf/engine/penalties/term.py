"""What a constraint or penalty of one factor is: one class a file, in one of three forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

__all__ = ["Linear", "Proximal", "Smooth", "Term"]

Array = NDArray[Any]


class Term(ABC):
    """A constraint or penalty of a factor ``F >= 0`` of shape (n_components, n_points).

    A term is :class:`Linear`, :class:`Smooth` or :class:`Proximal`: how it enters a step. Solvers ask for that, and for
    what it couples; those that need more name the classes they know, and refuse the others.

    Attributes
    ----------
    kind : str
        Its name, for messages and tables.
    is_cone : bool
        Whether components may be multiplied by any positive number, the weights following: :meth:`rescaled`.
    couples_components, couples_points : bool
        Whether the entries of a point, or of a component, depend on each other.
    of_points : bool
        Whether its data are of the training points, so that codes of new samples leave it out.
    """

    kind: ClassVar[str]
    is_cone: ClassVar[bool] = False
    couples_components: bool = False
    couples_points: bool = False
    of_points: ClassVar[bool] = False

    @abstractmethod
    def value(self, F: Array) -> float:
        """Evaluate what the factor pays.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]

        Returns
        -------
        float
            Summed in double precision; 0 of a constraint.
        """

    def component(self, k: int) -> Term:
        """Single out a component, where components are not coupled.

        Parameters
        ----------
        k : int

        Returns
        -------
        Term
            Of a factor of one row.
        """
        return self

    def rescaled(self, scale: Array) -> Term:
        """Return the same term for a factor whose component k has been multiplied by ``scale[k]``.

        Parameters
        ----------
        scale : ndarray [shape=(n_components,)], > 0
            All 1 where the term is no cone.

        Returns
        -------
        Term
        """
        return self


class Linear(Term):
    """``<slope, F>``: it shifts a step, and composes with every other term."""

    @abstractmethod
    def slope(self, n_components: int) -> Array:
        """Return the derivative.

        Parameters
        ----------
        n_components : int

        Returns
        -------
        ndarray, >= 0
            Broadcasts to the factor.
        """


class Smooth(Term):
    """A quadratic function, convex: its gradient is affine. It composes with every other term."""

    @abstractmethod
    def add_gradient(self, F: Array, out: Array) -> None:
        """Add the gradient.

        Parameters
        ----------
        F, out : ndarray [shape=(n_components, n_points)]
            Where it is taken; what it is added to, in the dtype of `F`.
        """

    @abstractmethod
    def lipschitz(self) -> float:
        """Bound the curvature.

        Returns
        -------
        float
            A Lipschitz constant of the gradient.
        """


class Proximal(Term):
    """A constraint or a norm with a prox, ``F >= 0`` included; at most one in a penalty, since two do not compose."""

    @abstractmethod
    def prox(self, F: Array, step: float | Array) -> None:
        """Make `F` the minimiser of ``|Y - F|^2 / (2 step) + value(Y)``, in place.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points)]
            Of any sign; overwritten.
        step : float or ndarray [shape=(n_components,)], >= 0
            One for all components, or one each unless they are coupled; 0 gives the projection.
        """

    @abstractmethod
    def feasible(self, F: Array) -> None:
        """Move a start to where it may lie, in place, without setting most of it to zero.

        Parameters
        ----------
        F : ndarray [shape=(n_components, n_points), >= 0]
            Overwritten.
        """
