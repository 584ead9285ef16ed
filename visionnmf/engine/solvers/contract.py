"""The interfaces of solvers, of updates of one factor, and of functions that find codes.

Codes are transposed, ``Wt`` of shape ``(n_components, n_samples)``, components ``H`` of ``(n_components, n_features)``.
Factors are updated in place and stay in the dtype of the data. A function that updates the codes of a problem also
updates its components, when it is given the transposed problem.
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

    `objective` is the objective before the iteration, which is a by-product of it. `residual` measures how far a method
    with a split variable is from satisfying the model, relative to the objective (see :mod:`..stopping`); it is None
    for other methods. `done` is true if the solver has found the minimum in closed form.
    """

    objective: float
    residual: float | None = None
    done: bool = False


class Iterate(Protocol):
    """A solver: updates both factors in place, and yields after each of at most `max_iter` iterations."""

    def __call__(self, problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
        """Iterate."""
        ...


class Half(Protocol):
    """An update of one factor: improves `Ft` in place for a fixed `A`, in some sweeps.

    A function called `half` returns the loss *before* the update, without penalties, because it is a by-product of
    computing the residuals. Updates that need the loss afterwards have another name (:func:`.sbcd.improve`).
    """

    def __call__(self, problem: Problem, Ft: Array, A: Array, *, sweeps: int) -> float:
        """Sweep over the codes of all rows."""
        ...


class Codes(Protocol):
    """Overwrites `Wt` with the codes of fixed components; the codes of a row do not depend on the other rows."""

    def __call__(self, problem: Problem, Wt: Array, H: Array) -> None:
        """Solve for the codes."""
        ...
