"""Models that are 0 where the data are not: a minimum of some losses, and of no use."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.problem import Problem

__all__ = ["is_zero", "warn_zero_codes"]

Array = NDArray[Any]


def is_zero(problem: Problem, Wt: Array, H: Array) -> bool:
    """Return whether a model is 0 everywhere, and the data are not."""
    used = Wt.any(axis=1) & H.any(axis=1)
    return not used.any() and bool(problem.X.sum(dtype=np.float64))


def warn_zero_codes(problem: Problem, Wt: Array, name: str) -> None:
    """Issue a UserWarning when most samples that are not 0 have codes that are, with what to do about it."""
    data: Array = np.asarray(problem.X.sum(axis=1, dtype=np.float64)) > 0
    lost = int((data & ~np.asarray(Wt.any(axis=0))).sum())
    if 2 * lost <= data.sum():
        return
    loss = problem.loss
    if loss.record.kink:  # the best constant is the median, which is 0 where less than half of the entries are not
        share = np.count_nonzero(problem.X.data if problem.is_sparse else problem.X) / np.prod(problem.X.shape)
        why = f"{loss.label} takes zeros for the truth and what is not 0 ({share:.2g} of the entries) for outliers"
        weighted = loss.record.sparse is not None and loss.record.sparse.weighted
        cure = 'loss="kullback-leibler" or "frobenius"' + (", or zero_weight < 1 with a sparse X" if weighted else "")
    else:
        why = f"for {loss.label} and these penalties that is a minimum"
        cure = 'smaller penalties, or loss="kullback-leibler"'
    warnings.warn(
        f"{name} found codes 0 for {lost} of {int(data.sum())} samples that are not 0: {why}; use {cure}",
        UserWarning,
        stacklevel=6,
    )
