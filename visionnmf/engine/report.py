"""What is known of the final factors of a fit: their loss and penalty, and the samples that have codes of 0."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .arrays.namespace import chunks, namespace_of
from .problem import Problem


class Lost(NamedTuple):
    """How many samples are not 0, how many of those have codes of 0, and the share of the entries that are not 0."""

    n_nonzero: int
    n_lost: int
    share: float

    @classmethod
    def of(cls, problem: Problem, Wt: Any) -> Lost:
        """Count the samples that are not 0, those of them whose codes are all 0, and the share of entries not 0.

        The data of `problem` may be sparse or of any library; `Wt` (r, n_samples) are the codes.
        """
        X, xp = problem.X, namespace_of(Wt)
        if problem.is_sparse:
            nonzero, n_entries = X.sum(axis=1, dtype=np.float64) > 0, int(np.count_nonzero(X.data))
        else:
            nonzero = xp.max(X, axis=1) > 0  # a sum in double precision would copy the data on a device
            n_entries = sum(int(xp.count_nonzero(X[rows, :])) for rows in chunks(X))
        lost = nonzero & ~xp.any(Wt != 0, axis=0)
        return cls(int(xp.count_nonzero(nonzero)), int(xp.count_nonzero(lost)), n_entries / (X.shape[0] * X.shape[1]))


class Report(NamedTuple):
    """The figures of final codes and components."""

    loss: float
    penalty: float
    is_zero: bool  # whether the model is 0 everywhere although the data are not
    lost: Lost

    @classmethod
    def of(cls, problem: Problem, Wt: Any, H: Any) -> Report:
        """Evaluate codes `Wt` (r, n_samples) and components `H` (r, n) in memory, of NumPy or of another library."""
        # `lost` counts the samples that are not 0, and those of them with codes of 0
        xp, lost = namespace_of(H), Lost.of(problem, Wt)
        used = xp.any(Wt != 0, axis=1) & xp.any(H != 0, axis=1)
        is_zero = lost.n_nonzero > 0 and not bool(xp.any(used))
        return cls(problem.loss_value(Wt, H), problem.penalty_value(Wt, H), is_zero, lost)
