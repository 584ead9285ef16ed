r"""ONMF: each chunk is factorised together with the components so far (Cao, Shen, Sun, Yang & Chen 2007).

The past is represented by ``W_old H_old``. Its components, each scaled by the norm of its codes, are stacked on the
chunk U:

.. math:: \begin{bmatrix} \Lambda H_{old} \\ U \end{bmatrix} \approx \begin{bmatrix} C_1 \\ C_2 \end{bmatrix} H,
          \qquad \Lambda_{kk} = \|w_{old, k}\|.

The codes of the past become :math:`W_{old} \Lambda^{-1} C_1`. The authors keep all codes. Their norms require only the
matrix :math:`W_{old}^T W_{old}`, which is what the state holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from visionnmf.engine.alternate import fit
from visionnmf.engine.codes import solve_codes
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product

from .record import Method, Options, State

__all__ = ["METHOD"]

Array = NDArray[Any]

ITERATIONS = 100  # maximum number for the factorisation of a chunk
TOLERANCE = 1e-5


def start(H: Array) -> State:
    """Return the state before any sample."""
    return {"gram": np.zeros((len(H), len(H)), H.dtype)}


def check(state: State, H: Array) -> None:
    """Raise ValueError if the state does not fit the components."""
    gram = state["gram"]
    if not isinstance(gram, np.ndarray) or gram.dtype != H.dtype or gram.shape != (len(H), len(H)):
        raise ValueError(f"gram does not fit components_ of shape {H.shape}")
    if not np.isfinite(gram).all() or (gram < 0).any():
        raise ValueError("gram is not finite and non-negative")


def learn(
    problem: Problem,
    H: Array,
    state: State,
    options: Options,
    rng: RandomState,
    sample_weight: Array | None = None,
) -> float:
    """Learn a chunk by factorising it with the stacked components (see :class:`.record.Method`)."""
    r = len(H)
    if sample_weight is not None:  # the loss is quadratic, so weight w is a factor sqrt(w) on the sample
        problem = replace(problem, X=problem.X * np.sqrt(sample_weight)[:, None])
    gram = state["gram"] * H.dtype.type(options.forgetting(len(problem.X)))
    sizes = np.sqrt(gram.diagonal())
    codes = solve_codes(problem, H)
    loss = problem.loss_value(codes, H)
    stacked = replace(problem, X=np.concatenate([sizes[:, None] * H, problem.X]))
    Wt = np.concatenate([np.diag(sizes), codes], axis=1)
    fit(stacked, Wt, H, solver="hals", max_iter=ITERATIONS, tol=TOLERANCE)
    turn = Wt[:, :r] / np.where(sizes > 0, sizes, 1)
    gram = turn @ gram @ turn.T + product(Wt[:, r:], Wt[:, r:].T)
    norms = np.linalg.norm(H, axis=1)
    norms[norms == 0] = 1
    H /= norms[:, None]
    state["gram"] = gram * np.outer(norms, norms)
    return loss


METHOD = Method(
    name="onmf",
    losses=("frobenius",),
    start=start,
    learn=learn,
    check=check,
    batch_size=None,
    codes_terms=(),
    components_terms=(),
    sparse=False,
    weights=False,
)
