r"""Online NMF by robust stochastic approximation (OR-NMF): Guan, Tao, Luo & Yuan 2012.

"Robust" refers to the step length, not to the loss. Each batch is encoded by a converged solver. The components then
follow the gradients of single samples, visited cyclically in a random order of a buffer, and the average of the
iterates is the result (Algorithm 2; :mod:`..kernels.stochastic`). Step k has the length

.. math:: r_k = \theta_t D / (M_* \sqrt k), \qquad \theta_t = 0.1 \cos\frac{(t - 1) \pi}{2 T}

with D the diameter of the constraint set and :math:`M_*` the largest gradient norm so far. T is unknown for a stream
that never ends; then :math:`\theta_t = 0.1 / \sqrt t`.

The buffer holds the last `buffer` batches (Algorithm 3, MOR-NMF), or all of them (Algorithm 1, whose memory grows).
Components lie on the simplex unless they have a box (equation 30). They may have an l2 penalty (29), and the codes l1
and l2 penalties (28, 29).

The losses are Frobenius and the Itakura-Saito divergence (31 to 34). The gradient of the latter is unbounded where a
component is 0, and a single such gradient would end all learning. Entries of components therefore stay above a share of
their mean, which goes beyond the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from visionnmf.engine.codes import solve_codes
from visionnmf.engine.kernels.stochastic import robust_approximation
from visionnmf.engine.penalties import L2, SEPARABLE, Box, Penalty, Simplex
from visionnmf.engine.penalties.projections import project_simplex
from visionnmf.engine.problem import Problem

from .record import Method, Options, State, batch_loss

__all__ = ["METHOD", "scaling"]

Array = NDArray[Any]

THETA = 0.1
TOLERANCE = 1e-3  # relative change of the average at which an update stops (equation 9)
STEPS = 10000  # maximum number per update; a few hundred are typical
LEAST = 0.1  # lower bound of component entries relative to their mean, for Itakura-Saito
FLOOR = 1e-4  # model entries below this share of the samples' mean are raised to it, for Itakura-Saito


def start(H: Array) -> State:
    """Return the state before any sample: an empty buffer."""
    n_components, n_features = H.shape
    return {
        "samples": np.empty((0, n_features), H.dtype),
        "codes": np.empty((0, n_components), H.dtype),
        "observed": None,
        "sizes": np.empty(0, np.int64),
        "largest_gradient": 0.0,
        "steps": 0,
    }


def learn(
    problem: Problem,
    H: Array,
    state: State,
    options: Options,
    rng: RandomState,
    sample_weight: Array | None = None,
) -> float:
    """Learn a batch (see :class:`.record.Method`). Weights of samples and entries multiply their part of a gradient."""
    Wt = solve_codes(problem, H)
    loss = batch_loss(problem, Wt, H, sample_weight)
    _remember(problem, Wt, state, options.buffer, sample_weight)
    state["steps"] += 1
    penalty = problem.penalty_H
    on_simplex = "box" not in penalty.kinds
    low, high = penalty.box(H.dtype)
    low = _least(problem, H) if on_simplex else low
    X = state["samples"]
    mean = H.copy()
    state["largest_gradient"], _ = robust_approximation(
        H, mean, X, state["codes"], state["observed"], rng.permutation(len(X)),
        scaling(state["steps"], options.horizon) * _diameter(H, penalty, on_simplex), TOLERANCE, STEPS,
        state["largest_gradient"], float(np.max(penalty.l2)), low, high, on_simplex,
        problem.loss.name == "itakura-saito", H.dtype.type(FLOOR * X.mean(dtype=np.float64)),
    )  # fmt: skip
    H[:] = mean
    return loss


def scaling(step: int, horizon: int | None) -> float:
    """Return ``theta`` of an update, counted from 1; it is 0 beyond the horizon."""
    if horizon is None:
        return THETA / math.sqrt(step)
    return THETA * math.cos((step - 1) * math.pi / (2 * horizon)) if step <= horizon else 0.0


def _diameter(H: Array, penalty: Penalty, on_simplex: bool) -> float:
    """Return the diameter of the constraint set; a missing upper bound is replaced by the largest entry of `H`."""
    if on_simplex:
        return math.sqrt(2 * len(H))
    high = penalty.high if math.isfinite(penalty.high) else float(H.max())
    return math.sqrt(H.size) * max(high - penalty.low, 0.0)


def _remember(problem: Problem, Wt: Array, state: State, length: int | None, sample_weight: Array | None) -> None:
    """Append a batch to the buffer and drop the oldest batches beyond `length`."""
    M = problem.weights
    if sample_weight is not None:
        M = (np.ones_like(problem.X) if M is None else M) * sample_weight[:, None]
    observed = state["observed"]
    if M is not None or observed is not None:
        old = np.ones_like(state["samples"]) if observed is None else observed
        state["observed"] = np.concatenate([old, np.ones_like(problem.X) if M is None else M])
    state["samples"] = np.concatenate([state["samples"], problem.X])
    state["codes"] = np.concatenate([state["codes"], Wt.T])
    state["sizes"] = np.append(state["sizes"], Wt.shape[1])
    if length is not None and len(state["sizes"]) > length:
        first = int(state["sizes"][:-length].sum())
        state["sizes"] = state["sizes"][-length:]
        for name in ("samples", "codes", "observed"):
            if state[name] is not None:
                state[name] = state[name][first:].copy()


def check(state: State, H: Array) -> None:
    """Raise ValueError if the buffer does not fit the components."""
    size = int(state["sizes"].sum())
    for name, width in (("samples", H.shape[1]), ("codes", H.shape[0]), ("observed", H.shape[1])):
        array = state[name]
        if name == "observed" and array is None:
            continue
        if not isinstance(array, np.ndarray) or array.dtype != H.dtype or array.shape != (size, width):
            raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name} is not finite and non-negative")
    if (state["sizes"] < 1).any() or not 0 <= float(state["largest_gradient"]) < math.inf or int(state["steps"]) < 0:
        raise ValueError("sizes, largest_gradient or steps cannot be")


def constrain(H: Array, problem: Problem) -> None:
    """Move initial components onto the simplex, unless they have a box, in place."""
    if "box" in problem.penalty_H.kinds:
        return
    Simplex("rows").feasible(H)
    least = _least(problem, H)
    if least:
        left = 1 - H.shape[1] * least
        H[:] = least + left * project_simplex((H - least) / left)


def _least(problem: Problem, H: Array) -> Any:
    """Return the lower bound of the entries of a component on the simplex."""
    return H.dtype.type(LEAST / H.shape[1] if problem.loss.name == "itakura-saito" else 0)


METHOD = Method(
    name="or-nmf",
    losses=("frobenius", "itakura-saito"),
    start=start,
    learn=learn,
    check=check,
    constrain=constrain,
    batch_size=1,
    codes_terms=(*SEPARABLE, Simplex),
    components_terms=(Box, L2, Simplex),
    sparse=False,
    weights=True,
)
