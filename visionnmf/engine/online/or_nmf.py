r"""Online NMF by robust stochastic approximation (OR-NMF): Guan, Tao, Luo & Yuan 2012.

"Robust" is the step length, not the loss. For each batch the codes by a converged solver; then the components descend
along the gradients of single samples, drawn by cycling on a permutation of a buffer, and the average of the iterates is
the result (Algorithm 2; :mod:`..kernels.stochastic`). Step k has the length

.. math:: r_k = \theta_t D / (M_* \sqrt k), \qquad \theta_t = 0.1 \cos\frac{(t - 1) \pi}{2 T}

with D the diameter of the constraint and :math:`M_*` the largest gradient so far. Of a stream that never ends T is
unknown; there :math:`\theta_t = 0.1 / \sqrt t`.

The buffer holds the last `buffer` batches (Algorithm 3, MOR-NMF), or all (Algorithm 1: memory grows). Components
lie on the simplex unless they have a box (equation 30), may pay an l2 penalty (29), and the codes l1 and l2 (28, 29).
Losses: Frobenius, and the Itakura-Saito divergence (31 to 34), whose gradients at entries of 0 know no bound: there the
entries of components stay above a share of the mean one, which the paper does not say; without, one such gradient ends
all learning.
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
TOLERANCE = 1e-3  # of the relative change of the average (equation 9)
STEPS = 10000  # of an update, at most; a few hundred as a rule
LEAST = 0.1  # entry of a component on the simplex, over the mean one, for Itakura-Saito
FLOOR = 1e-4  # of the samples' mean: smaller entries of the model count as this in the gradient of Itakura-Saito


def start(H: Array) -> State:
    """Return an empty buffer."""
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
    """Learn a batch; see :class:`.record.Method`. Weights of samples and entries multiply their part of a gradient."""
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
    """Return ``theta`` of an update, counted from 1; 0 beyond the horizon."""
    if horizon is None:
        return THETA / math.sqrt(step)
    return THETA * math.cos((step - 1) * math.pi / (2 * horizon)) if step <= horizon else 0.0


def _diameter(H: Array, penalty: Penalty, on_simplex: bool) -> float:
    """Return the diameter of the constraint; of a box without an upper bound, that of one that holds all of `H`."""
    if on_simplex:
        return math.sqrt(2 * len(H))
    high = penalty.high if math.isfinite(penalty.high) else float(H.max())
    return math.sqrt(H.size) * max(high - penalty.low, 0.0)


def _remember(problem: Problem, Wt: Array, state: State, length: int | None, sample_weight: Array | None) -> None:
    """Add a batch to the buffer and drop the oldest ones beyond its length."""
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
    """Raise ValueError when a buffer does not fit the components."""
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
    """Move starting components to where they have to lie."""
    if "box" in problem.penalty_H.kinds:
        return
    Simplex("rows").feasible(H)
    least = _least(problem, H)
    if least:
        left = 1 - H.shape[1] * least
        H[:] = least + left * project_simplex((H - least) / left)


def _least(problem: Problem, H: Array) -> Any:
    """Return the least entry of a component on the simplex."""
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
