"""What an online method is: what it keeps between chunks, how a batch changes that and the components."""

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
"""What a method keeps between batches: arrays and numbers by name, so that a file can hold it."""


@dataclass(frozen=True)
class Options:
    """What a method is told beside the problem.

    Attributes
    ----------
    batch_size : int
        Samples that are learnt together.
    forget_factor : float in (0, 1]
        What the past is multiplied by for each `batch_size` samples.
    buffer : int or None
        Batches that a method that keeps samples remembers; None for all.
    horizon : int or None
        Batches in all, where steps shorten towards the end; None for a stream that does not end.
    volume : float
        Weight of a volume constraint at the start, relative to the mean loss of the model 0.
    """

    batch_size: int
    forget_factor: float
    buffer: int | None = None
    horizon: int | None = None
    volume: float = 0.0

    def forgetting(self, n_samples: int) -> float:
        """Return what the past is multiplied by for a batch.

        Parameters
        ----------
        n_samples : int
            Of the batch.

        Returns
        -------
        float
        """
        return float(self.forget_factor ** (n_samples / self.batch_size))


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method. Nothing else lists methods: names, messages and refusals follow from the records.

    Attributes
    ----------
    name : str
        As the user writes it.
    losses : tuple of str
        What it minimises; the first one unless told otherwise.
    start : callable
        ``start(H)`` returns the :data:`State` before the first sample.
    learn : callable
        ``learn(problem, H, state, options, rng, sample_weight=None)`` improves `H` and `state`, in place, by the batch
        that the problem holds (its penalties are those of all codes, and of the components once a sample), and returns
        the loss of the batch at the components as they were. A sample of weight 2 counts as two; weights are > 0.
    check : callable
        ``check(state, H)`` raises ValueError when a state, which a file may hold, does not fit the components.
    batch_size : int or None
        Unless told otherwise; None for the number of components.
    constrain : callable or None
        ``constrain(H, problem)`` moves a start to where a method wants its components, beyond what their penalty asks.
    codes_terms, components_terms : tuple of type
        The terms of penalties that it honours.
    sparse, weights : bool
        Whether the data may be sparse; whether entries may count more or less, or be missing.
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
        """Say in a clause what keeps this method from a problem.

        Parameters
        ----------
        problem : Problem

        Returns
        -------
        str or None
            None when nothing does.
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
    """Return the loss of a dense batch, in which samples may count more or less."""
    if sample_weight is not None:
        rows = np.broadcast_to(sample_weight[:, None], problem.X.shape)
        problem = replace(problem, weights=np.array(rows if problem.weights is None else problem.weights * rows))
    return problem.loss_value(Wt, H)
