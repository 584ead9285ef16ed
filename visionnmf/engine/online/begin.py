"""The components that learning starts from: a factorisation of the first samples.

A stream that starts from random components spends its first thousands of samples on what a batch solver finds in the
first hundreds, and a robust method takes what poor components do not explain for outliers, for good
(docs/decisions/online.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from visionnmf.engine.alternate import fit
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import choose
from visionnmf.engine.starts import STARTS

__all__ = ["ITERATIONS", "SAMPLES_A_COMPONENT", "components"]

Array = NDArray[Any]

ITERATIONS = 100
SAMPLES_A_COMPONENT = 4  # that the factorisation wants, where the first chunk has them


def components(problem: Problem, n_components: int, init: str, rng: RandomState) -> Array:
    """Find components of the first samples.

    Parameters
    ----------
    problem : Problem
        The first samples; of its penalties only the constraints of the components matter.
    n_components : int
    init : str
        "batch", or a key of :data:`..starts.STARTS`.
    rng : RandomState

    Returns
    -------
    ndarray [shape=(n_components, n_features), >= 0]
        Of unit norm before the constraints.
    """
    plain = replace(problem, penalty_W=NONNEGATIVE, penalty_H=NONNEGATIVE)
    X = problem.X
    if problem.weights is not None:  # for the scale of a start a missing entry is an average one
        X = np.where(problem.weights > 0, X, X.sum(dtype=np.float64) / (problem.weights > 0).sum()).astype(X.dtype)
    Wt, H = STARTS["random" if init == "batch" else init](X, n_components, rng)
    if init == "batch" and X.mean() > 0:
        fit(plain, Wt, H, solver=choose("auto", plain), max_iter=ITERATIONS, tol=0)
    norms = np.linalg.norm(H, axis=1)
    empty = ~(norms > 0)  # what the first samples have no use for
    H[empty] = np.abs(rng.standard_normal((int(empty.sum()), H.shape[1])))
    norms[empty] = np.linalg.norm(H[empty], axis=1)
    H /= norms[:, None]
    problem.penalty_H.feasible(H)
    return H
