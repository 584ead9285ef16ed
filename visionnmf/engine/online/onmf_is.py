r"""ONMF-IS: multiplicative updates for the Itakura-Saito divergence from two matrices (Lefevre, Bach & Fevotte 2011).

Each batch is first encoded with the current components, giving codes ``w`` and the model ``p = w H``. Then

.. math:: A \leftarrow \rho A + \big(\textstyle\sum w^T (x / p^2)\big) \circ H^2, \qquad
          B \leftarrow \rho B + \textstyle\sum w^T (1 / p), \qquad H = \sqrt{A / B}.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from visionnmf.engine.codes import solve_codes
from visionnmf.engine.penalties import SEPARABLE
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product

from .record import Method, Options, State, batch_loss

__all__ = ["METHOD"]

Array = NDArray[Any]

FLOOR = 1e-4  # model entries below this share of the samples' mean are raised to it


def start(H: Array) -> State:
    """Return the state before any sample: both sums are zero."""
    return {"A": np.zeros_like(H), "B": np.zeros_like(H)}


def check(state: State, H: Array) -> None:
    """Raise ValueError if the state does not fit the components."""
    for name in ("A", "B"):
        array = state[name]
        if not isinstance(array, np.ndarray) or array.dtype != H.dtype or array.shape != H.shape:
            raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name} is not finite and non-negative")


def learn(
    problem: Problem,
    H: Array,
    state: State,
    options: Options,
    rng: RandomState,
    sample_weight: Array | None = None,
) -> float:
    """Learn a batch (see :class:`.record.Method`). An entry of weight m counts m times in both sums."""
    X, M = problem.X, problem.weights
    Wt = solve_codes(problem, H)
    loss = batch_loss(problem, Wt, H, sample_weight)
    P = product(np.ascontiguousarray(Wt.T), H)
    np.maximum(P, X.dtype.type(FLOOR * X.mean(dtype=np.float64)), out=P)
    forgetting = X.dtype.type(options.forgetting(len(X)))
    A, B = state["A"], state["B"]
    A *= forgetting
    B *= forgetting
    weighted = Wt if sample_weight is None else Wt * sample_weight
    A += product(weighted, X / (P * P) if M is None else M * X / (P * P)) * H * H
    B += product(weighted, 1 / P if M is None else M / P)
    np.copyto(H, np.sqrt(A / np.where(B > 0, B, 1)), where=B > 0)
    norms = np.linalg.norm(H, axis=1)
    norms[norms == 0] = 1
    H /= norms[:, None]
    A /= norms[:, None]
    B *= norms[:, None]
    return loss


METHOD = Method(
    name="onmf-is",
    losses=("itakura-saito",),
    start=start,
    learn=learn,
    check=check,
    batch_size=32,
    codes_terms=SEPARABLE,
    components_terms=(),
    sparse=False,
    weights=True,
)
