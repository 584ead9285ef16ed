"""The half-problem: codes for fixed components. The loss says what finds them, whatever solver found the components.

The problem is convex for all losses but some beta-divergences, and a row's codes do not depend on the other rows. So
codes of a graph or of groups are not solved for here: those couple the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError

from .penalties import SEPARABLE, Simplex, Term
from .problem import Problem
from .solvers import admm, ccd, hals, sbcd, spg
from .solvers.contract import Codes

__all__ = ["CODES", "CodesSolver", "check_codes", "solve_codes"]

Array = NDArray[Any]


class CodesSolver(NamedTuple):
    """One function for codes, and what it can do. Each takes weights, and sparse data of losses that have such a form.

    Attributes
    ----------
    codes : callable
        See :class:`.solvers.contract.Codes`.
    terms : tuple of type
        The terms of penalties that it honours.
    """

    codes: Codes
    terms: tuple[type[Term], ...] = (*SEPARABLE, Simplex)


def _or_simplex(codes: Codes) -> Codes:
    """Extend codes of a divergence to the simplex, which coordinate descent cannot stay on."""

    def either(problem: Problem, Wt: Array, H: Array) -> None:
        (spg.codes if "simplex" in problem.penalty_W.kinds else codes)(problem, Wt, H)

    return either


CODES: dict[str, CodesSolver] = {
    "admm": CodesSolver(admm.codes),
    "hals": CodesSolver(hals.codes),
    "ccd": CodesSolver(_or_simplex(ccd.codes)),
    "sbcd": CodesSolver(_or_simplex(sbcd.codes)),
}


def check_codes(problem: Problem) -> None:
    """Raise ParameterError when the codes of a problem cannot be solved for: for calls before a long fit.

    Parameters
    ----------
    problem : Problem
        Its `penalty_H` does not matter.

    Raises
    ------
    ParameterError
        When the loss cannot be combined with the penalty or sparse data.
    """
    kinds = problem.penalty_W.beyond(CODES[problem.loss.record.codes].terms)
    if kinds:
        listed = " and ".join(kinds)
        raise ParameterError(f"penalty_W must be without {listed} for codes of {problem.loss.label}; got one with it")
    if problem.is_sparse and problem.loss.record.sparse is None:
        raise ParameterError(f"X must be dense for codes of {problem.loss.label}; got a sparse one; pass X.toarray()")


def solve_codes(problem: Problem, H: Array) -> Array:
    """Find the codes of each row of the data for fixed components.

    Parameters
    ----------
    problem : Problem
        Its `penalty_H` does not matter.
    H : ndarray [shape=(n_components, n_features), >= 0]

    Returns
    -------
    ndarray [shape=(n_components, n_samples)]
        ``Wt``, in the dtype of the data.

    Raises
    ------
    ParameterError
        When the loss cannot be combined with the penalty or sparse data.
    """
    check_codes(problem)
    Wt = np.empty((H.shape[0], problem.X.shape[0]), problem.X.dtype)
    CODES[problem.loss.record.codes].codes(problem, Wt, H)
    return Wt
