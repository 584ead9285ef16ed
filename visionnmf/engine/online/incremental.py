r"""Incremental NMF by multiplicative updates: INMF and INMF-VC.

INMF (Bucak & Gunsel 2009) alternates the updates of Lee & Seung for codes and components on each sample. The past
enters the update of the components through two matrices (:mod:`.statistics`), and the sample through its current codes.
The authors' weights ``beta`` of the past and ``alpha`` of the new sample matter only by their ratio, which is the
forgetting factor.

INMF-VC (Zhou, Yang & Xie 2011) adds a penalty on the volume of the components,

.. math:: \mu_t \tfrac12 \ln\det (H H^T), \qquad \mu_t = \delta e^{-\tau t},

which for square H equals their ``ln |det H|``. Its past is weighted by their amnesic average, ``1 - L / t`` for the
past and ``L / t`` for new samples. The volume assumes components of equal scale, so they are normalised after each
batch.
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

ITERATIONS = 50  # maximum number of updates per batch, as in the paper
TOLERANCE = 1e-4  # relative change of the components at which the updates stop
AMNESIA = 2  # L; the authors try 1 to 4
VOLUME_DECAY = 0.01  # tau


def start(H: Array) -> State:
    """Return the state before any sample."""
    return {**statistics.start(H), "code": np.ones(len(H), H.dtype), "steps": 0, "energy": 0.0}


def check(state: State, H: Array) -> None:
    """Raise ValueError if the state does not fit the components."""
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
    """Learn a batch by multiplicative updates (see :class:`.record.Method`); `constrained` selects INMF-VC."""
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
    code = np.maximum(code, np.finfo(X.dtype).eps * code.max())  # multiplicative updates cannot leave 0
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
    """Return ``above / below``, or 1 where the denominator is practically 0."""
    known = below > np.sqrt(np.finfo(below.dtype).tiny)
    return np.divide(above, below, out=np.ones_like(above), where=known)


def _volume_slope(H: Array) -> Array:
    """Return the gradient of ``ln det(H H.T) / 2``."""
    gram = (H @ H.T).astype(np.float64)
    if not gram.any():
        return np.zeros_like(H)
    gram += np.finfo(H.dtype).eps * np.trace(gram) * np.eye(len(H))  # equal components make it singular
    # the pseudo-inverse, because with one huge entry the ridge is lost to rounding
    return np.asarray(np.linalg.pinv(gram, hermitian=True) @ H).astype(H.dtype)


def _method(name: str, *, constrained: bool) -> Method:
    """Return the record of INMF, or of INMF-VC if `constrained`."""
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
