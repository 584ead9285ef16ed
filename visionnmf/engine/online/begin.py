"""The components that online learning starts from: a factorisation of the first samples.

With random components, a stream would spend thousands of samples on what a batch solver finds from a few hundred. A
robust method would also treat whatever poor components do not explain as outliers, permanently
(docs/decisions/online.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import RandomState

from visionnmf._typing import Array
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import choose, fit
from visionnmf.engine.starts import STARTS

ITERATIONS = 100
SAMPLES_A_COMPONENT = 4  # samples per component used for the factorisation, if the first chunk has them


def components(problem: Problem, n_components: int, init: str, rng: RandomState) -> Array:
    """Return feasible initial components (n_components, n_features) of unit norm, from the samples of `problem`.

    `init` is "batch" for a short batch factorisation, or a key of :data:`..starts.STARTS`. Of the penalties only the
    constraints on the components count.
    """
    plain = replace(problem.in_dense(), penalty_W=NONNEGATIVE, penalty_H=NONNEGATIVE)
    X = plain.X
    if problem.weights is not None:  # missing entries count as average for the scale of the start
        X = np.where(problem.weights > 0, X, X.sum(dtype=np.float64) / (problem.weights > 0).sum()).astype(X.dtype)
    Wt, H = STARTS["random" if init == "batch" else init](X, n_components, rng)
    if init == "batch" and X.mean() > 0:  # samples of zeros teach nothing
        fit(plain, Wt, H, solver=choose("auto", plain), max_iter=ITERATIONS, tol=0)
    norms = np.linalg.norm(H, axis=1)
    empty = ~(norms > 0)  # components that the first samples do not use become random
    H[empty] = np.abs(rng.standard_normal((int(empty.sum()), H.shape[1])))
    norms[empty] = np.linalg.norm(H[empty], axis=1)
    H /= norms[:, None]
    problem.penalty_H.feasible(H)
    return H
