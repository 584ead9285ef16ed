r"""Online methods of the papers, to compare with: OR-NMF, INMF, INMF-VC, ONMF and ONMF-IS.

OR-NMF: robust stochastic approximation (Guan, Tao, Luo & Yuan 2012)
--------------------------------------------------------------------
"Robust" refers to the step length, not to the loss. Each batch is encoded by a converged solver. The components then
follow the gradients of single samples, visited cyclically in a random order of a buffer, and the average of the
iterates is the result (Algorithm 2; :mod:`..kernels.online`). Step k has the length

.. math:: r_k = \theta_t D / (M_* \sqrt k), \qquad \theta_t = 0.1 \cos\frac{(t - 1) \pi}{2 T}

with D the diameter of the constraint set and :math:`M_*` the largest gradient norm so far. T is unknown for a stream
that never ends; then :math:`\theta_t = 0.1 / \sqrt t`.

The buffer holds the last `buffer` batches (Algorithm 3, MOR-NMF), or all of them (Algorithm 1, whose memory grows).
Components lie on the simplex unless they have a box (equation 30). They may have an l2 penalty (29), and the codes l1
and l2 penalties (28, 29).

The losses are Frobenius and the Itakura-Saito divergence (31 to 34). The gradient of the latter is unbounded where a
component is 0, and a single such gradient would end all learning. Entries of components therefore stay above a share of
their mean, and the model above a share of the data's, which goes beyond the paper. "or-nmf-is" is the method as
printed, without these floors; where it divides by zero, it is refused.

INMF and INMF-VC: multiplicative updates
----------------------------------------
INMF (Bucak & Gunsel 2009) alternates the updates of Lee & Seung for codes and components on each sample. The past
enters the update of the components through two matrices (:mod:`.record`), and the sample through its current codes.
The authors' weights ``beta`` of the past and ``alpha`` of the new sample matter only by their ratio, which is the
forgetting factor.

INMF-VC (Zhou, Yang & Xie 2011) adds a penalty on the volume of the components,

.. math:: \mu_t \tfrac12 \ln\det (H H^T), \qquad \mu_t = \delta e^{-\tau t},

which for square H equals their ``ln |det H|``. Its past is weighted by their amnesic average, ``1 - L / t`` for the
past and ``L / t`` for new samples. The volume assumes components of equal scale, so they are normalised after each
batch, and ``delta`` is relative to the mean energy of the samples. "inmf-vc" is the method as printed, which does
neither.

ONMF: each chunk is factorised together with the components so far (Cao, Shen, Sun, Yang & Chen 2007)
-----------------------------------------------------------------------------------------------------
The past is represented by ``W_old H_old``. Its components, each scaled by the norm of its codes, are stacked on the
chunk U:

.. math:: \begin{bmatrix} \Lambda H_{old} \\ U \end{bmatrix} \approx \begin{bmatrix} C_1 \\ C_2 \end{bmatrix} H,
          \qquad \Lambda_{kk} = \|w_{old, k}\|.

The codes of the past become :math:`W_{old} \Lambda^{-1} C_1`. The authors keep all codes. Their norms require only the
matrix :math:`W_{old}^T W_{old}`, which is what the state holds.

ONMF-IS: multiplicative updates for the Itakura-Saito divergence from two matrices (Lefevre, Bach & Fevotte 2011)
-----------------------------------------------------------------------------------------------------------------
Each batch is first encoded with the current components, giving codes ``w`` and the model ``p = w H``. Then

.. math:: A \leftarrow \rho A + \big(\textstyle\sum w^T (x / p^2)\big) \circ H^2, \qquad
          B \leftarrow \rho B + \textstyle\sum w^T (1 / p), \qquad H = \sqrt{A / B}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.arrays.namespace import norms_of, sum_of_squares
from visionnmf.engine.kernels.online import robust_approximation
from visionnmf.engine.penalties import L2, SEPARABLE, Box, Penalties, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product
from visionnmf.engine.projections import project_simplex
from visionnmf.engine.solving import fit, solve_codes
from visionnmf.exceptions import ParameterError

from .record import Batch, Method, State, Sums, check_array

Array = NDArray[Any]

FLOOR = 1e-4  # for Itakura-Saito: model entries below this share of the samples' mean are raised to it


# --- OR-NMF -----------------------------------------------------------------------------------------------------------

THETA = 0.1  # of the first batch; see `scaling`
SETTLED = 1e-3  # relative change of the average at which an update stops (equation 9)
STEPS = 10000  # maximum number per update; a few hundred are typical
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
        # An empty buffer for components `H` (r, n): no samples, no codes, no weights of entries and no batches.
        n_components, n_features = H.shape
        samples, codes = np.empty((0, n_features), H.dtype), np.empty((0, n_components), H.dtype)
        return cls(samples, codes, None, np.empty(0, np.int64))

    def check(self, H: Array) -> None:
        # Raise ValueError if a state, as one read from a file, does not fit the components. Arrays need the dtype of H.
        # The buffer has a row for each sample, and `sizes` are the numbers of samples of its batches. `steps` counts
        # batches, and `largest_gradient` is the largest norm of a gradient so far.
        (n_components, n_features), n_samples = H.shape, int(self.sizes.sum())
        check_array(self.samples, "samples", (n_samples, n_features), H)
        check_array(self.codes, "codes", (n_samples, n_components), H)
        if self.observed is not None:
            check_array(self.observed, "observed", (n_samples, n_features), H)
        if (self.sizes < 1).any() or not 0 <= float(self.largest_gradient) < math.inf or int(self.steps) < 0:
            raise ValueError("sizes, largest_gradient or steps cannot be")

    def append(self, X: Array, codes: Array, M: Array | None) -> None:
        """Add a batch: samples (n_samples, n), their codes (n_samples, r), and weights of all entries or None.

        Earlier samples get the weight 1 when the first batch has weights.
        """
        if M is not None or self.observed is not None:
            old = np.ones_like(self.samples) if self.observed is None else self.observed
            self.observed = np.concatenate([old, np.ones_like(X) if M is None else M])
        self.samples = np.concatenate([self.samples, X])
        self.codes = np.concatenate([self.codes, codes])
        self.sizes = np.append(self.sizes, len(X))

    def drop_oldest(self, length: int | None) -> None:
        """Keep the samples of the last `length` batches only; None keeps all."""
        if length is None or len(self.sizes) <= length:
            return
        n_dropped = int(self.sizes[:-length].sum())  # `sizes` are the numbers of samples of the batches
        self.sizes = self.sizes[-length:]
        self.samples, self.codes = self.samples[n_dropped:].copy(), self.codes[n_dropped:].copy()
        if self.observed is not None:
            self.observed = self.observed[n_dropped:].copy()


def _or_nmf_learn(batch: Batch, H: Array, state: _Buffer, *, least: float = LEAST, floor: float = FLOOR) -> float:
    """Learn a batch of OR-NMF: add it to the buffer, then follow gradients of single samples of the buffer.

    Weights multiply a sample's or entry's share of a gradient. The average `mean` of the iterates becomes the
    components `H` (r, n), which lie on the simplex unless they have a box. With the Itakura-Saito loss `least` bounds
    their entries from below, as a share of their mean, and `floor` the model's, as a share of the data's mean. `state`
    is changed in place, and the loss of the batch at the components before is returned.
    """
    problem, options, sample_weight = batch.problem, batch.options, batch.sample_weight
    before = vars(state).copy()  # to be put back where the method fails
    Wt = solve_codes(problem, H)
    loss = batch.loss(Wt, H)
    M = problem.weights
    if sample_weight is not None:
        M = (np.ones_like(problem.X) if M is None else M) * sample_weight[:, None]
    state.append(problem.X, Wt.T, M)
    state.drop_oldest(options.buffer)
    state.steps += 1
    penalty = problem.penalty_H
    on_simplex = "box" not in penalty.kinds
    low, high = penalty.box(H.dtype)
    low = _least(problem, H, least) if on_simplex else low
    X = state.samples
    iterate, mean = H.copy(), H.copy()
    # the length of step k times sqrt(k) and the largest gradient norm; `horizon` is the number of batches after which
    # it is 0, or None
    length = scaling(state.steps, options.horizon) * _diameter(H, penalty, on_simplex)
    l2 = float(np.max(penalty.l2))  # ridge of the components
    # changes `iterate` and `mean`; returns the largest gradient norm so far, and the number of steps, which is not used
    largest, _ = robust_approximation(
        iterate, mean, X, state.codes, state.observed, batch.rng.permutation(len(X)), length, SETTLED, STEPS,
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
    """Return theta, the length of steps as a share of the diameter of the constraint set over the largest gradient.

    In batch `step` >= 1 it is :data:`THETA` times a quarter of a cosine, which is 0 after `horizon` batches, or times
    ``1 / sqrt(step)`` if that is None.
    """
    if horizon is None:
        return THETA / math.sqrt(step)
    return THETA * math.cos((step - 1) * math.pi / (2 * horizon)) if step <= horizon else 0.0


def _diameter(H: Array, penalty: Penalties, on_simplex: bool) -> float:
    """Return the diameter of the constraint set of components `H` (r, n), by which steps are scaled.

    Each of the r components lies on a simplex, of diameter sqrt(2), if `on_simplex`, which is sqrt(2 r) for all
    together; else all entries lie in the box of `penalty`.
    """
    if on_simplex:
        return math.sqrt(2 * len(H))
    # a box without an upper bound is taken as high as the largest entry at present
    high = penalty.high if math.isfinite(penalty.high) else float(H.max())
    return math.sqrt(H.size) * max(high - penalty.low, 0.0)


def _onto_simplex(H: Array, problem: Problem, *, share: float = LEAST) -> None:
    """Move initial components `H` (r, n) onto the simplex, unless they have a box, in place.

    With the Itakura-Saito loss no entry is below `share` of the mean of a component, 1 / n.
    """
    if "box" in problem.penalty_H.kinds:
        return
    Simplex("rows").feasible(H)
    least = _least(problem, H, share)
    if least:
        left = 1 - H.shape[1] * least  # what is left of a component's sum, 1, once each entry has got `least`
        H[:] = least + left * project_simplex((H - least) / left)


def _least(problem: Problem, H: Array, share: float) -> Any:
    """Return the lower bound of components on the simplex, against infinite Itakura-Saito gradients; 0 for squares.

    It is a `share` of the mean of a component's n entries, which is 1 / n because they sum to 1.
    """
    return H.dtype.type(share / H.shape[1] if problem.loss.name == "itakura-saito" else 0)


OR_NMF = Method(
    name="or-nmf",
    losses=("frobenius", "itakura-saito"),
    state=_Buffer,
    learn=_or_nmf_learn,
    constrain=_onto_simplex,
    batch_size=1,
    codes_terms=(*SEPARABLE, Simplex),
    components_terms=(Box, L2, Simplex),
    weights=True,
)

OR_NMF_IS = replace(
    OR_NMF,
    name="or-nmf-is",
    losses=("itakura-saito",),
    learn=partial(_or_nmf_learn, least=0.0, floor=0.0),
    constrain=partial(_onto_simplex, share=0.0),
)


# --- INMF and INMF-VC -------------------------------------------------------------------------------------------------

UPDATES = 50  # maximum number of updates per batch, as in the paper
STILL = 1e-4  # relative change of the components at which the updates stop
AMNESIA = 2  # L; the authors try 1 to 4
VOLUME_DECAY = 0.01  # tau


@dataclass
class _InmfState(Sums):
    """The sums over the past, and what the multiplicative updates start from."""

    code: Any = None  # (r,) mean codes of the batch before, from which those of the next batch start
    steps: int = 0  # number of batches
    energy: float = 0.0  # mean of half the squared norm of samples, for INMF-VC

    @classmethod
    def start(cls, H: Array) -> Self:
        # Sums of no samples, and mean codes of 1 (r,), from which the codes of the first batch start.
        return replace(super().start(H), code=np.ones(len(H), H.dtype))

    def check(self, H: Array) -> None:
        # Raise ValueError if a state, as one read from a file, does not fit the components `H` (r, n): `code` (r,) are
        # mean codes, `steps` counts batches, and `energy` is half the mean squared norm of samples.
        super().check(H)
        check_array(self.code, "code", (len(H),), H)
        if int(self.steps) < 0 or not float(self.energy) >= 0:
            raise ValueError("steps or energy cannot be")


def _inmf_learn(batch: Batch, H: Array, state: _InmfState, *, constrained: bool, printed: bool = False) -> float:
    """Learn a batch by multiplicative updates; `constrained` selects INMF-VC.

    INMF-VC has a penalty on the volume of the components, and weights the past by an average in place of the forgetting
    factor. The weight of the penalty is relative to `state.energy`, the mean loss of a model of zeros, so that it does
    not depend on the scale of the data, and components have norm 1; as `printed` in the paper, the weight is in the
    units of the loss, and components keep their scale. An update multiplies a factor by the negative part of its
    gradient over the positive part. `state` has the sums of products of codes, `A`, and of codes and data, `B`, the
    number of samples, `weight`, and the mean `code` of the batch before. It and the components `H` (r, n) change in
    place; the loss of the batch at the components before is returned.
    """
    problem, options, sample_weight = batch.problem, batch.options, batch.sample_weight
    X = problem.X
    n_samples: float = len(X)
    weights = X.dtype.type(1) if sample_weight is None else sample_weight
    state.steps += 1
    forgetting, volume = batch.forgetting, 0.0  # factor of the past, and weight of the volume penalty
    if sample_weight is not None:
        n_samples = float(sample_weight.sum(dtype=np.float64))
    if constrained:
        share = min(1.0, AMNESIA / state.steps)  # of the new samples in the average; `forgetting` scales the past
        forgetting = (1 - share) / share * n_samples / state.weight if state.weight else 0.0
        state.energy += (sum_of_squares(X, sample_weight) / (2 * n_samples) - state.energy) / state.steps
        decay = math.exp(-VOLUME_DECAY * options.batch_size * state.steps)  # the paper's batches are single samples
        volume = options.volume * decay * (1.0 if printed else state.energy)
    A, B = (total * X.dtype.type(forgetting) for total in (state.A, state.B))
    weight = forgetting * state.weight + n_samples
    # the mean codes of the batch before, from which all samples start
    code = state.code if state.code.any() else np.ones_like(state.code)
    code = np.maximum(code, np.finfo(X.dtype).eps * code.max())  # multiplicative updates cannot leave 0
    codes = np.repeat(code[:, None], len(X), axis=1)
    loss = None
    for _ in range(UPDATES):
        codes *= _ratio(H @ X.T, H @ H.T @ codes)
        if loss is None:  # the first round, before the components change
            loss = batch.loss(codes, H)
        # the negative and the positive part of the gradient of the components, over the past and the batch
        above = B + (weights * codes) @ X
        below = (A + (weights * codes) @ codes.T) @ H
        if volume:
            slope = X.dtype.type(weight * volume) * _volume_slope(H)
            above += np.maximum(-slope, 0)
            below += np.maximum(slope, 0)
        before = H.copy()
        H *= _ratio(above, below)
        if np.linalg.norm(H - before) <= STILL * np.linalg.norm(before):
            break
    state.add(codes, X.T, forgetting, sample_weight)
    state.code = codes.mean(axis=1)
    if not printed:  # `normalise` divides the components by their norms, so codes are multiplied by them
        norms = np.linalg.norm(H, axis=1)
        state.code *= np.where(norms > 0, norms, 1)
        state.normalise(H)
    assert loss is not None
    return loss


def _ratio(above: Array, below: Array) -> Array:
    """Return ``above / below``, the factor of a multiplicative update; 1 where the denominator is practically 0."""
    known = below > np.sqrt(np.finfo(below.dtype).tiny)
    return np.divide(above, below, out=np.ones_like(above), where=known)


def _volume_slope(H: Array) -> Array:
    """Return the gradient ``(H H.T)^-1 H`` of the volume term ``ln det(H H.T) / 2`` at `H` (r, n)."""
    gram = (H @ H.T).astype(np.float64)
    if not gram.any():
        return np.zeros_like(H)
    gram += np.finfo(H.dtype).eps * np.trace(gram) * np.eye(len(H))  # equal components make it singular
    # the pseudo-inverse, because with one huge entry the ridge is lost to rounding
    return np.asarray(np.linalg.pinv(gram, hermitian=True) @ H).astype(H.dtype)


def _inmf(name: str, *, constrained: bool) -> Method:
    """Return the record of INMF (incremental NMF, Bucak & Gunsel 2009), in batches of 256 samples.

    If `constrained`, it is INMF-VC, with a penalty on the volume of the components (Zhou, Yang & Xie 2011). The paper's
    single samples take 40 times as long and end at a higher loss.
    """
    return Method(
        name=name,
        losses=("frobenius",),
        state=_InmfState,
        learn=partial(_inmf_learn, constrained=constrained),
        batch_size=256,
    )


INMF = (_inmf("incremental", constrained=False), _inmf("incremental-volume", constrained=True))
INMF_VC = replace(INMF[1], name="inmf-vc", batch_size=1, learn=partial(_inmf_learn, constrained=True, printed=True))


# --- ONMF -------------------------------------------------------------------------------------------------------------

CHUNK_ITERATIONS = 100  # maximum number for the factorisation of a chunk
CHUNK_TOLERANCE = 1e-5


@dataclass
class _CodesGram(State):
    """The Gram matrix of the codes of all samples so far."""

    gram: Array  # (r, r), W.T @ W

    @classmethod
    def start(cls, H: Array) -> Self:
        return cls(np.zeros((len(H), len(H)), H.dtype))

    def check(self, H: Array) -> None:
        check_array(self.gram, "gram", (len(H), len(H)), H)


def _onmf_learn(batch: Batch, H: Array, state: _CodesGram) -> float:
    """Learn a chunk by factorising it together with the old components.

    The old components, each times the norm of its past codes (`sizes`), stand above the samples in the data. Their new
    codes, the first r columns of `Wt`, then say how the past codes change (`turn`): new codes are ``turn`` times old
    ones. ``state.gram`` (r, r) is the sum of products of past codes. It and `H` (r, n) change in place; the loss at
    the components before is returned.
    """
    r, problem, sample_weight = len(H), batch.problem, batch.sample_weight
    if sample_weight is not None:  # the loss is quadratic, so weight w is a factor sqrt(w) on the sample
        problem = replace(problem, X=problem.X * np.sqrt(sample_weight)[:, None])
    gram = state.gram * H.dtype.type(batch.forgetting)
    sizes = np.sqrt(gram.diagonal())
    codes = solve_codes(problem, H)
    loss = problem.loss_value(codes, H)
    # before the fit, an old component's code is its size for itself, and 0 for the others
    stacked = replace(problem, X=np.concatenate([sizes[:, None] * H, problem.X]))
    Wt = np.concatenate([np.diag(sizes), codes], axis=1)
    fit(stacked, Wt, H, solver="hals", max_iter=CHUNK_ITERATIONS, tol=CHUNK_TOLERANCE)
    turn = Wt[:, :r] / np.where(sizes > 0, sizes, 1)
    gram = turn @ gram @ turn.T + product(Wt[:, r:], Wt[:, r:].T)
    norms = norms_of(H)
    H /= norms[:, None]  # to norm 1, so all codes are multiplied by the norms
    state.gram = gram * np.outer(norms, norms)
    return loss


ONMF = Method(
    name="onmf",
    losses=("frobenius",),
    state=_CodesGram,
    learn=_onmf_learn,
    batch_size=None,
)


# --- ONMF-IS ----------------------------------------------------------------------------------------------------------


@dataclass
class _GradientSums(State):
    """The two sums of which ``H = sqrt(A / B)`` follows."""

    A: Array  # (r, n)
    B: Array  # (r, n)

    @classmethod
    def start(cls, H: Array) -> Self:
        return cls(np.zeros_like(H), np.zeros_like(H))

    def check(self, H: Array) -> None:
        # Raise ValueError unless both sums, the numerator `A` and the denominator `B` of ``H^2``, are arrays with the
        # shape and dtype of H that are finite and >= 0.
        check_array(self.A, "A", H.shape, H)
        check_array(self.B, "B", H.shape, H)


def _onmf_is_learn(batch: Batch, H: Array, state: _GradientSums) -> float:
    """Learn a batch by the update of ONMF-IS.

    With codes w and the model ``p = w H``, `A` collects ``w^T (x / p^2) * H^2`` and `B` ``w^T (1 / p)``, both with
    forgetting, and ``H = sqrt(A / B)``. Components are then scaled to norm 1, and their codes would be multiplied by
    it, hence the scaling of the sums. They are in `state`, which changes in place like `H`; all are (r, n). The loss of
    the batch at the components before is returned.
    """
    problem, sample_weight = batch.problem, batch.sample_weight
    X, M = problem.X, problem.weights  # data, and weights of the entries or None
    Wt = solve_codes(problem, H)
    loss = batch.loss(Wt, H)
    P = product(np.ascontiguousarray(Wt.T), H)
    np.maximum(P, X.dtype.type(FLOOR * X.mean(dtype=np.float64)), out=P)  # from below, because P divides
    forgetting = X.dtype.type(batch.forgetting)
    A, B = state.A, state.B
    A *= forgetting
    B *= forgetting
    weighted = Wt if sample_weight is None else Wt * sample_weight
    A += product(weighted, X / (P * P) if M is None else M * X / (P * P)) * H * H
    B += product(weighted, 1 / P if M is None else M / P)
    np.copyto(H, np.sqrt(A / np.where(B > 0, B, 1)), where=B > 0)
    norms = norms_of(H)
    H /= norms[:, None]
    A /= norms[:, None]
    B *= norms[:, None]
    return loss


ONMF_IS = Method(
    name="onmf-is",
    losses=("itakura-saito",),
    state=_GradientSums,
    learn=_onmf_is_learn,
    batch_size=32,
    codes_terms=SEPARABLE,
    weights=True,
)


METHODS = (OR_NMF, OR_NMF_IS, *INMF, INMF_VC, ONMF, ONMF_IS)
