"""Scalar block coordinate descent as published (Li, Lebanon & Park 2012), for comparison with :mod:`.sbcd`.

In each iteration every entry is given a weight, and the components are updated one after the other on the weighted
least-squares model. The steps are not damped, so the objective may rise.

==========  ================================  ====================
solver      weight of an entry x, model p     paper
==========  ================================  ====================
sbcd-plain  ``p^(beta - 2)``                  Algorithm 1
al-a        ``x^(beta - 2)``                  section 4.3, sBCD_AL_A
al-b        1                                 section 4.3, sBCD_AL_B
==========  ================================  ====================

Weights are divided by the weight at the mean of the data, and the penalties are multiplied by ``mean(X)^(2 - beta)`` to
match. This changes nothing for the first two solvers. The weights of AL-B are 1 in the paper, so only its l1 and l2 are
multiplied; otherwise the penalties would not keep their size relative to the loss that AL-B approximates.

The paper adds an l1 penalty to the denominator of the update, but the derivative does not vanish there. Here it is
subtracted from the numerator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.divergence import floor_of
from visionnmf.engine.kernels import sbcd_paper as _sbcd_paper_kernels
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.contract import Progress
from visionnmf.engine.solvers.divergence_gradient import check_positive

__all__ = ["iterate_data", "iterate_model", "iterate_unit"]

Array = NDArray[Any]


def iterate_model(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Update both factors in place with weights computed from the model (Algorithm 1)."""
    return _iterate(problem, Wt, H, "model", max_iter)


def iterate_data(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Update both factors in place with weights computed from the data (AL-A)."""
    return _iterate(problem, Wt, H, "data", max_iter)


def iterate_unit(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Progress]:
    """Update both factors in place without weights (AL-B)."""
    return _iterate(problem, Wt, H, "one", max_iter)


def _iterate(problem: Problem, Wt: Array, H: Array, source: str, max_iter: int) -> Iterator[Progress]:
    """Update each component of `Wt` and `H` in turn, in place, on the weighted least-squares model of the divergence.

    `source` selects the weights ("model", "data" or "one"). Each `Progress` holds the objective before the iteration.
    """
    check_positive(problem)
    X, M = problem.X, problem.weights
    dtype, beta = X.dtype, problem.loss.beta
    unit = float(X.mean(dtype=np.float64)) or 1.0
    floor = floor_of(beta)  # keeps the base of the power positive

    def limits(penalty: Any, count: int) -> tuple[Any, ...]:
        """Return the bounds and the rescaled l1 and l2 weights of a penalty."""
        l1, l2 = (value * dtype.type(unit ** (2 - beta)) for value in penalty.weights(count, dtype))
        return (*penalty.box(dtype), l1, l2)

    for _ in range(max_iter):
        P = np.matmul(Wt.T, H)
        objective = problem.objective(Wt, H)
        if source == "one":
            B = np.ones_like(X)
        else:
            B = np.maximum((P if source == "model" else X) / dtype.type(unit), dtype.type(floor))
            np.power(B, dtype.type(beta - 2), out=B)
        if M is not None:
            B *= M
        _sbcd_paper_kernels.component_by_component(
            X - P, B, Wt, H, *limits(problem.penalty_W, len(H)), *limits(problem.penalty_H, len(H))
        )
        yield Progress(objective)
