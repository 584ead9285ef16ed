r"""OR-NMF: robust stochastic approximation (Guan, Tao, Luo & Yuan 2012).

"Robust" refers to the step length, not to the loss. Each batch is encoded by a converged solver. The components then
follow the gradients of single samples, visited cyclically in a random order of a buffer, and the average of the
iterates is the result (Algorithm 2; :mod:`..kernels.online`). Step k has the length

.. math:: r_k = \theta_t D / (M_* \sqrt k), \qquad \theta_t = 0.1 \cos\frac{(t - 1) \pi}{2 T}

with D the diameter of the constraint set and :math:`M_*` the largest gradient norm so far. T is unknown for a stream
that never ends; then :math:`\theta_t = 0.1 / \sqrt t`.

The buffer holds the last `buffer` batches (Algorithm 3, MOR-NMF), or all of them (Algorithm 1, whose memory grows).
Components lie on the simplex unless they have a box, or bounds of each entry (equation 30).

The gradient of the Itakura-Saito divergence (31 to 34) is unbounded where a component is 0, and a single such gradient
would end all learning. Entries of components therefore stay above a share of their mean, and the model above a share of
the data's, which goes beyond the paper. "or-nmf-is" is the method as printed, without these floors; where it divides by
zero, it is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.kernels.online import robust_approximation
from visionnmf.engine.penalties import L2, SEPARABLE, Bounds, Box, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.projections import project_simplex
from visionnmf.engine.solving import solve_codes
from visionnmf.exceptions import ParameterError

from .record import Batch, Method, State, check_array

FLOOR = 1e-4  # for Itakura-Saito: model entries below this share of the samples' mean are raised to it
THETA = 0.1  # of the first batch; see `scaling`
SETTLED = 1e-3  # relative change of the average at which an update stops (equation 9)
STEPS = 10000  # maximum number per update; a few hundred are typical
BOXES = frozenset({"box", "bounds"})  # kinds of constraints in place of the simplex
LEAST = 0.1  # lower bound of component entries relative to their mean, for Itakura-Saito


@dataclass
class _Buffer(State):
    """The last samples, with their codes, and how far the gradient steps have come."""

    samples: Array  # (n_samples, n)
    codes: Array  # (n_samples, r)
    observed: Array | None  # (n_samples, n) weights of entries times those of samples; None until a batch has weights
    sizes: Array  # number of samples of each batch
    largest_gradient: float = 0.0  # largest norm of a gradient so far
    steps: int = 0  # number of batches

    @classmethod
    def start(cls, H: Array) -> Self:
        n_components, n_features = H.shape
        samples, codes = np.empty((0, n_features), H.dtype), np.empty((0, n_components), H.dtype)
        return cls(samples, codes, None, np.empty(0, np.int64))

    def check(self, H: Array) -> None:
        (n_components, n_features), n_samples = H.shape, int(self.sizes.sum())
        check_array(self.samples, "samples", (n_samples, n_features), H)
        check_array(self.codes, "codes", (n_samples, n_components), H)
        if self.observed is not None:
            check_array(self.observed, "observed", (n_samples, n_features), H)
        if (self.sizes < 1).any() or not 0 <= float(self.largest_gradient) < math.inf or int(self.steps) < 0:
            raise ValueError("sizes, largest_gradient or steps cannot be")

    def append(self, X: Array, codes: Array, M: Array | None, length: int | None) -> None:
        """Add a batch with weights of all entries or None, and keep the last `length` batches only; None keeps all."""
        if M is not None or self.observed is not None:  # earlier samples get the weight 1
            old = np.ones_like(self.samples) if self.observed is None else self.observed
            self.observed = np.concatenate([old, np.ones_like(X) if M is None else M])
        self.samples = np.concatenate([self.samples, X])
        self.codes = np.concatenate([self.codes, codes])
        self.sizes = np.append(self.sizes, len(X))
        if length is None or len(self.sizes) <= length:
            return
        n_dropped = int(self.sizes[:-length].sum())
        self.sizes = self.sizes[-length:]
        self.samples, self.codes = self.samples[n_dropped:].copy(), self.codes[n_dropped:].copy()
        if self.observed is not None:
            self.observed = self.observed[n_dropped:].copy()


def _learn(batch: Batch, H: Array, state: _Buffer, *, least: float = LEAST, floor: float = FLOOR) -> float:
    """Add a batch to the buffer, then follow gradients of single samples of it; return the loss before.

    With the Itakura-Saito loss `least` bounds the entries of components from below, as a share of their mean, and
    `floor` those of the model, as a share of the data's mean.
    """
    problem, options, sample_weight = batch.problem, batch.options, batch.sample_weight
    before = vars(state).copy()  # to be put back where the method fails
    Wt = solve_codes(problem, H)
    loss = batch.loss(Wt, H)
    M = problem.weights
    if sample_weight is not None:
        M = (np.ones_like(problem.X) if M is None else M) * sample_weight[:, None]
    state.append(problem.X, Wt.T, M, options.buffer)
    state.steps += 1
    theta = scaling(state.steps, options.horizon)
    if theta == 0:
        return loss
    penalty = problem.penalty_H
    on_simplex = not penalty.kinds & BOXES
    limits = penalty.constraint if isinstance(penalty.constraint, Bounds) else penalty
    low, high = (np.full(H.shape, bound, H.dtype) for bound in (limits.low, limits.high))
    if on_simplex:
        low[:] = _least(problem, H, least)
        diameter = math.sqrt(2 * len(H))  # of the constraint set: r simplices of diameter sqrt(2)
    else:
        # a box without an upper bound is taken as high as the largest entry at present
        top = np.where(np.isfinite(high), high, H.max())
        diameter = float(np.linalg.norm(np.maximum(top - low, 0)))
    X = state.samples
    iterate, mean = H.copy(), H.copy()
    l2 = float(np.max(penalty.l2))
    largest, _ = robust_approximation(
        iterate, mean, X, state.codes, state.observed, batch.rng.permutation(len(X)), theta * diameter, SETTLED, STEPS,
        state.largest_gradient, l2, low, high, on_simplex,
        problem.loss.name == "itakura-saito", H.dtype.type(floor * X.mean(dtype=np.float64)),
    )  # fmt: skip
    if not np.isfinite(mean).all():
        vars(state).update(before)
        raise ParameterError(
            "method must be one that can learn this; got 'or-nmf-is', whose gradient is infinite where the model is 0; "
            "take method='or-nmf' with loss='itakura-saito'"
        )
    state.largest_gradient = largest
    H[:] = mean
    return loss


def scaling(step: int, horizon: int | None) -> float:
    """Return theta of the `step`-th batch: a quarter of a cosine until `horizon`, or one over its root without one."""
    if horizon is None:
        return THETA / math.sqrt(step)
    return THETA * math.cos((step - 1) * math.pi / (2 * horizon)) if step <= horizon else 0.0


def _onto_simplex(H: Array, problem: Problem, *, share: float = LEAST) -> None:
    """Move initial components onto the simplex, in place, unless they have a box; `share` is as for :func:`_least`."""
    if problem.penalty_H.kinds & BOXES:
        return
    Simplex("rows").feasible(H)
    least = _least(problem, H, share)
    if least:
        left = 1 - H.shape[1] * least  # what is left of a component's sum, 1, once each entry has got `least`
        H[:] = least + left * project_simplex((H - least) / left)


def _least(problem: Problem, H: Array, share: float) -> Any:
    """Return the lower bound of components on the simplex: for Itakura-Saito a `share` of their mean, else 0."""
    return H.dtype.type(share / H.shape[1] if problem.loss.name == "itakura-saito" else 0)


OR_NMF = Method(
    name="or-nmf",
    losses=("frobenius", "itakura-saito"),
    state=_Buffer,
    learn=_learn,
    constrain=_onto_simplex,
    batch_size=1,
    codes_terms=(*SEPARABLE, Simplex),
    components_terms=(Bounds, Box, L2, Simplex),
    weights=True,
)

OR_NMF_IS = replace(
    OR_NMF,
    name="or-nmf-is",
    losses=("itakura-saito",),
    learn=partial(_learn, least=0.0, floor=0.0),
    constrain=partial(_onto_simplex, share=0.0),
)

METHODS = (OR_NMF, OR_NMF_IS)
