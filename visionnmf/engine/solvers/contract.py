"""The contracts: what a solver is, what its halves return, and what finds codes.

Codes are transposed, ``Wt`` of shape ``(n_components, n_samples)``, components ``H`` of ``(n_components, n_features)``.
Factors are improved in place and stay in the dtype of the data; a half that works on the codes of a problem works on
the components of its transposed problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from visionnmf.engine.problem import Problem

__all__ = ["Codes", "Half", "Iterate", "Progress"]

Array = NDArray[Any]


class Progress(NamedTuple):
    """Progress of one iteration.

    Attributes
    ----------
    objective : float
        The objective of the factors before the iteration, which is known at no cost when the iteration ends.
    residual : float or None, default=None
        How far the iterates of a method with a split variable still are from satisfying the model, relative to the
        objective; None for a method without one. See :mod:`..stopping`.
    done : bool, default=False
        Whether the solver has found the minimum in closed form.
    """

    objective: float
    residual: float | None = None
    done: bool = False


class Iterate(Protocol):
    """A solver: improves both factors in place, and yields after each of at most `max_iter` iterations."""

    def __call__(self, problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
        """Iterate."""
        ...


class Half(Protocol):
    """One factor's turn: improves `Ft` in place for a fixed `A`, in some sweeps.

    What is called a half returns the loss *before*, without penalties: it falls off while the residuals are at hand.
    Steps that have to know where they led are no halves (:func:`.sbcd.improve` returns the loss afterwards).
    """

    def __call__(self, problem: Problem, Ft: Array, A: Array, *, sweeps: int) -> float:
        """Sweep over the codes of all rows."""
        ...


class Codes(Protocol):
    """Overwrites `Wt` with the codes of fixed components; a row's codes do not depend on the other rows."""

    def __call__(self, problem: Problem, Wt: Array, H: Array) -> None:
        """Solve for the codes."""
        ...
