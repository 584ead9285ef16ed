"""The interface of an online method, and the sums over samples that the least-squares methods keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import namespace_of, norms_of
from visionnmf.engine.penalties import Term
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product, right_sides


@dataclass(frozen=True)
class OnlineOptions:
    """The options of an online method beside the problem.

    `batch_size` samples are learnt together, and `forget_factor` in (0, 1] multiplies the past for each of that many. A
    method that keeps samples remembers `buffer` batches (None: all). `horizon` is the total number of batches if step
    lengths decrease towards the end; None for an endless stream.
    """

    batch_size: int
    forget_factor: float
    buffer: int | None = None
    horizon: int | None = None


class Batch(NamedTuple):
    """Samples to learn, options, a generator, and perhaps their weights > 0: one of 2 counts as two samples."""

    problem: Problem
    options: OnlineOptions
    rng: RandomState
    sample_weight: Array | None = None

    @property
    def forgetting(self) -> float:
        """The factor ``forget_factor ** (n / batch_size)`` of the sums over the past before the batch is added."""
        return float(self.options.forget_factor ** (self.problem.X.shape[0] / self.options.batch_size))

    def loss(self, Wt: Array, H: Array) -> float:
        """Return the loss of a dense batch, with the weights of samples and of entries."""
        problem = self.problem
        if self.sample_weight is not None:  # a sample's weight multiplies those of its entries
            ones = namespace_of(problem.X).ones_like(problem.X)
            weights = ones if problem.weights is None else problem.weights
            problem = replace(problem, weights=weights * self.sample_weight[:, None])
        return problem.loss_value(Wt, H)


@dataclass
class State(ABC):
    """What a method remembers of the samples between batches."""

    @classmethod
    @abstractmethod
    def start(cls, H: Array) -> Self:
        """Return the state before the first sample, for components like `H` (r, n)."""

    @abstractmethod
    def check(self, H: Array) -> None:
        """Raise ValueError if the state, which may come from a file, does not fit the components `H` (r, n)."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One online method. Names, messages and rejected options all derive from these records.

    Attributes
    ----------
    name : str
        The name that users pass.
    losses : tuple of str
        The losses that it minimises; the first is the default.
    state : type
        The subclass of :class:`State` that holds what the method remembers.
    learn : callable
        ``learn(batch, H, state)`` improves `H` and `state` in place, and returns the loss of the batch at the previous
        components. The penalty of the components counts once per sample.
    batch_size : int
        Default batch size.
    constrain : callable or None
        ``constrain(H, problem)`` moves initial components into the set that the method needs, beyond their penalty.
    codes_terms, components_terms : tuple of type
        The penalty terms that it supports.
    sparse, weights, on_device : bool
        Whether it supports sparse data, entry weights including missing entries, and arrays on a device.
    """

    name: str
    losses: tuple[str, ...]
    state: type[State]
    learn: Callable[..., float]
    batch_size: int
    constrain: Callable[[Array, Problem], None] | None = None
    codes_terms: tuple[type[Term], ...] = ()
    components_terms: tuple[type[Term], ...] = ()
    sparse: bool = False
    weights: bool = False
    on_device: bool = False

    def obstacle(self, problem: Problem) -> str | None:
        """Return a clause that says why the method cannot solve `problem`, or None if it can."""
        if problem.loss.name not in self.losses:
            return f"does not minimise {problem.loss.label}"
        sides = (("W", problem.penalty_W, self.codes_terms), ("H", problem.penalty_H, self.components_terms))
        for side, penalty, terms in sides:
            kinds = penalty.beyond(terms)
            if kinds:
                return f"does not take {' and '.join(kinds)} in penalty_{side}"
        if problem.weights is not None and not self.weights:
            return "does not take missing entries or weights of entries"
        if problem.is_sparse and not self.sparse:
            return "does not take sparse X"
        return None


def check_array(array: Any, name: str, shape: tuple[int, ...], H: Array) -> None:
    """Raise ValueError if an array of a state has not this shape and the dtype of `H`, or is not finite and >= 0."""
    if not isinstance(array, np.ndarray) or array.dtype != H.dtype or array.shape != shape:
        raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"{name} is not finite and non-negative")


# --- the state of the least-squares methods ---------------------------------------------------------------------------
#
# The past enters the objective of the components only through the sums A = sum rho_t w_t w_t^T and
# B = sum rho_t w_t x_t (Mairal et al. 2010, section 3.1),
#
#     <H, A H> / 2 - <B, H> + n p_H(H),   n = sum rho_t,
#
# so memory does not grow with the stream. Forgetting multiplies all three.


@dataclass
class Sums(State):
    """Sums over the samples so far, which are all 0 before the first."""

    A: Any  # (r, r), of the products of the codes of a sample
    B: Any  # (r, n), of the products of codes and data
    weight: float = 0.0  # number of samples

    @classmethod
    def start(cls, H: Array) -> Self:
        """Return sums of 0 for components like `H` (r, n)."""
        return cls(np.zeros((len(H), len(H)), H.dtype), np.zeros_like(H))

    def check(self, H: Array) -> None:
        """Raise ValueError if the sums do not fit the components `H` (r, n)."""
        check_array(self.A, "A", (len(H), len(H)), H)
        check_array(self.B, "B", H.shape, H)
        if not 0 <= float(self.weight) < float("inf"):
            raise ValueError("weight is not a number >= 0")

    def add(
        self,
        Wt: Array,
        features: Any,
        forgetting: float,
        sample_weight: Array | None = None,
        largest_weights: Array | None = None,
    ) -> Array:
        """Multiply the sums by `forgetting` and add a batch, in place; return its weighted Gram matrix.

        `features` (n_features, n_samples) are the data, transposed. If the model has filled in entries of less weight
        (:func:`filled`), `largest_weights` (n_samples,) multiply the samples' share of A and B, but not their number.
        """
        n_samples: float = Wt.shape[1]
        weighted = Wt if largest_weights is None else Wt * largest_weights
        if sample_weight is not None:
            xp = namespace_of(Wt)
            weighted, n_samples = weighted * sample_weight, float(xp.sum(sample_weight, dtype=xp.float64))
        gram = product(weighted, Wt.T)
        self.A *= forgetting
        self.A += gram
        self.B *= forgetting
        self.B += right_sides(features, weighted)
        self.weight = forgetting * self.weight + n_samples
        return gram

    def normalise(self, H: Array) -> None:
        """Scale components `H` to unit norm in place, and the sums so that the model of the past is unchanged."""
        norms = norms_of(H)  # by which the codes of the past would be multiplied
        H /= norms[:, None]
        self.A *= norms[:, None] * norms[None, :]
        self.B *= norms[:, None]


def filled(X: Array, P: Array, M: Array) -> tuple[Array, Array]:
    r"""Return unweighted data V that can replace the weighted data, and the largest weight of each sample.

    With :math:`c = \max_j m_j`, the weighted distance of a sample is bounded by the distance to its row v of V,

    .. math:: \sum_j m_j (x_j - q_j)^2 \le c \sum_j (v_j - q_j)^2 + \text{const}, \qquad
              v = \tfrac m c x + (1 - \tfrac m c) p,

    with equality at the model ``q = p``. A missing entry, of weight 0, is thus replaced by the model.
    """
    xp = namespace_of(M)
    largest = xp.max(M, axis=1)
    shares = M / xp.where(largest > 0, largest, xp.ones_like(largest))[:, None]
    return shares * X + (1 - shares) * P, largest
