r"""Incremental NMF by multiplicative updates: INMF and INMF-VC.

INMF (Bucak & Gunsel 2009): for each sample, codes and components in turn by the updates of Lee & Seung, the components
against the past in two matrices (:mod:`.statistics`) and the sample with the codes as they are by now. Their weights of
the past and of the new sample, ``beta`` and ``alpha``, matter by their ratio alone, the forgetting factor.

INMF-VC (Zhou, Yang & Xie 2011): the components also pay a volume,

.. math:: \mu_t \tfrac12 \ln\det (H H^T), \qquad \mu_t = \delta e^{-\tau t},

which is theirs, ``ln |det H|``, for square H, and the past counts by their amnesic average,
``(1 - L / t)`` for it and ``L / t`` for what is new. The volume is meant for components of one scale, which they are
given after each batch.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from visionnmf.engine.problem import Problem
from visionnmf.engine.products import squares

from . import statistics
from .record import Method, Options, State, batch_loss

__all__ = ["METHODS"]

Array = NDArray[Any]

ITERATIONS = 50  # of the updates of both factors for a batch, at most: the authors' number
TOLERANCE = 1e-4  # relative change of the components at which they end
AMNESIA = 2  # L; the authors try 1 to 4
VOLUME_DECAY = 0.01  # tau


def start(H: Array) -> State:
    """Return statistics of no samples."""
    return {**statistics.start(H), "code": np.ones(len(H), H.dtype), "steps": 0, "energy": 0.0}


def check(state: State, H: Array) -> None:
    """Raise ValueError when the state does not fit the components."""
    statistics.check(state, H)
    code = state["code"]
    if not isinstance(code, np.ndarray) or code.dtype != H.dtype or code.shape != (len(H),):
        raise ValueError(f"code does not fit components_ of shape {H.shape}")
    if not np.isfinite(code).all() or (code < 0).any() or int(state["steps"]) < 0 or not float(state["energy"]) >= 0:
        raise ValueError("code, steps or energy cannot be")


def learn(
    problem: Problem,
    H: Array,
    state: State,
    options: Options,
    rng: RandomState,
    sample_weight: Array | None = None,
    *,
    constrained: bool,
) -> float:
    """Learn a batch; see :class:`.record.Method`."""
    X = problem.X
    n_samples: float = len(X)
    counts = X.dtype.type(1) if sample_weight is None else sample_weight
    state["steps"] += 1
    forgetting, volume = options.forgetting(len(X)), 0.0
    if sample_weight is not None:
        n_samples = float(sample_weight.sum(dtype=np.float64))
    if constrained:
        share = min(1.0, AMNESIA / state["steps"])
        forgetting = (1 - share) / share * n_samples / state["weight"] if state["weight"] else 0.0
        state["energy"] += (squares(X, sample_weight) / (2 * n_samples) - state["energy"]) / state["steps"]
        volume = options.volume * math.exp(-VOLUME_DECAY * state["steps"]) * state["energy"]
    A, B = (state[name] * X.dtype.type(forgetting) for name in ("A", "B"))
    weight = forgetting * state["weight"] + n_samples
    code = state["code"] if state["code"].any() else np.ones_like(state["code"])
    code = np.maximum(code, np.finfo(X.dtype).eps * code.max())  # what is 0 would stay 0
    codes = np.repeat(code[:, None], len(X), axis=1)
    loss = None
    for _ in range(ITERATIONS):
        codes *= _ratio(H @ X.T, H @ H.T @ codes)
        if loss is None:
            loss = batch_loss(problem, codes, H, sample_weight)
        above = B + (counts * codes) @ X
        below = (A + (counts * codes) @ codes.T) @ H
        if volume:
            slope = X.dtype.type(weight * volume) * _volume_slope(H)
            above += np.maximum(-slope, 0)
            below += np.maximum(slope, 0)
        before = H.copy()
        H *= _ratio(above, below)
        if np.linalg.norm(H - before) <= TOLERANCE * np.linalg.norm(before):
            break
    statistics.add(state, codes, X.T, forgetting, sample_weight)
    state["code"] = codes.mean(axis=1)
    norms = np.linalg.norm(H, axis=1)
    state["code"] *= np.where(norms > 0, norms, 1)
    statistics.normalise(H, state)
    assert loss is not None
    return loss


def _ratio(above: Array, below: Array) -> Array:
    """Return ``above / below``, and 1 where nothing is known."""
    known = below > np.sqrt(np.finfo(below.dtype).tiny)
    return np.divide(above, below, out=np.ones_like(above), where=known)


def _volume_slope(H: Array) -> Array:
    """Return the gradient of ``ln det(H H.T) / 2``."""
    gram = (H @ H.T).astype(np.float64)
    if not gram.any():
        return np.zeros_like(H)
    gram += np.finfo(H.dtype).eps * np.trace(gram) * np.eye(len(H))  # components that are alike have no volume
    # the pseudo-inverse, because with one huge entry the ridge is lost to rounding
    return np.asarray(np.linalg.pinv(gram, hermitian=True) @ H).astype(H.dtype)


def _method(name: str, *, constrained: bool) -> Method:
    return Method(
        name=name,
        losses=("frobenius",),
        start=start,
        learn=partial(learn, constrained=constrained),
        check=check,
        batch_size=1,
        codes_terms=(),
        components_terms=(),
        sparse=False,
        weights=False,
    )


METHODS = (_method("incremental", constrained=False), _method("incremental-volume", constrained=True))
