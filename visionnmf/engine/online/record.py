"""The interface of an online method: its state between batches, and how a batch updates state and components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.penalties import Term
from visionnmf.engine.problem import Problem

__all__ = ["Method", "Options", "State", "batch_loss"]

Array = NDArray[Any]

State = dict[str, Any]
"""The state of a method between batches: named arrays and numbers, which can be saved to a file."""


@dataclass(frozen=True)
class Options:
    """The options of an online method beside the problem.

    Attributes
    ----------
    batch_size : int
        Number of samples learnt together.
    forget_factor : float in (0, 1]
        Factor by which the past is multiplied for each `batch_size` samples.
    buffer : int or None
        Number of batches remembered by a method that keeps samples; None for all.
    horizon : int or None
        Total number of batches, if step lengths decrease towards the end; None for an endless stream.
    volume : float
        Initial weight of a volume penalty, relative to the mean loss of a model of zeros.
    """

    batch_size: int
    forget_factor: float
    buffer: int | None = None
    horizon: int | None = None
    volume: float = 0.0

    def forgetting(self, n_samples: int) -> float:
        """Return the factor by which a batch of `n_samples` samples multiplies the past.

        Returns
        -------
        float
        """
        return float(self.forget_factor ** (n_samples / self.batch_size))


@dataclass(frozen=True, kw_only=True)
class Method:
    """One online method. Names, messages and rejected options all derive from these records.

    Attributes
    ----------
    name : str
        The name that users pass.
    losses : tuple of str
        The losses that it minimises; the first is the default.
    start : callable
        ``start(H)`` returns the :data:`State` before the first sample.
    learn : callable
        ``learn(problem, H, state, options, rng, sample_weight=None)`` improves `H` and `state` in place with the batch
        that `problem` holds, and returns the loss of the batch at the previous components. The penalty of the
        components counts once per sample. Sample weights are > 0, and a sample of weight 2 counts as two samples.
    check : callable
        ``check(state, H)`` raises ValueError if a state, which may come from a file, does not fit the components.
    batch_size : int or None
        Default batch size; None for the number of components.
    constrain : callable or None
        ``constrain(H, problem)`` moves initial components into the set that the method needs, beyond their penalty.
    codes_terms, components_terms : tuple of type
        The penalty terms that it supports.
    sparse, weights : bool
        Whether it supports sparse data, and entry weights including missing entries.
    """

    name: str
    losses: tuple[str, ...]
    start: Callable[[Array], State]
    learn: Callable[..., float]
    check: Callable[[State, Array], None]
    batch_size: int | None
    constrain: Callable[[Array, Problem], None] | None = None
    codes_terms: tuple[type[Term], ...]
    components_terms: tuple[type[Term], ...]
    sparse: bool
    weights: bool

    def obstacle(self, problem: Problem) -> str | None:
        """Return a clause that says why the method cannot solve `problem`, or None if it can.

        Returns
        -------
        str or None
        """
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


def batch_loss(problem: Problem, Wt: Array, H: Array, sample_weight: Array | None) -> float:
    """Return the loss of a dense batch with optional sample weights."""
    if sample_weight is not None:
        rows = np.broadcast_to(sample_weight[:, None], problem.X.shape)
        problem = replace(problem, weights=np.array(rows if problem.weights is None else problem.weights * rows))
    return problem.loss_value(Wt, H)
