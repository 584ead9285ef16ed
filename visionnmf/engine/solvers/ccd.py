"""Cyclic coordinate descent for the Kullback-Leibler divergence (after Hsieh & Dhillon 2011).

Each variable moves by a Newton step on ``1 / S(f) = 1 / sum(a)`` instead of on ``S(f) = sum(a)``; see
``docs/derivations/kullback_leibler.md``. The start, the extrapolation and the restarts are those of :mod:`.sbcd`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from visionnmf.engine.problem import Problem

from . import sbcd, sparse_descent
from .contract import Progress

__all__ = ["codes", "iterate"]

Array = NDArray[Any]


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Update `Wt`, then `H`, in place by two sweeps each; yield the objective before each iteration."""
    if problem.is_sparse:
        yield from sparse_descent.iterate(problem, Wt, H, sparse_descent.newton_half, max_iter=max_iter)
    else:
        yield from sbcd.iterate(problem, Wt, H, max_iter=max_iter, exact=True)


def codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Solve for the codes of fixed components, a convex problem that separates by row, overwriting `Wt`."""
    if problem.is_sparse:
        sparse_descent.newton_codes(problem, Wt, H)
    else:
        sbcd.codes(problem, Wt, H)
