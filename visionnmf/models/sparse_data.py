"""How :class:`.NMF` fits data of many zeros by default: sparse ones as a dense copy, or from two kinds of starts.

Solvers of sparse data visit stored entries only. From random starts they often end above those of dense data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.exceptions import EfficiencyWarning

from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.sparse_descent import refuse_coupled
from visionnmf.engine.solving import fit
from visionnmf.engine.stopping import exact_objective

from .data_checks import is_doubtful

# Chosen on made data of the seeds 1 to 51; `python benchmarks/convergence.py sparse` has others.
MOST_ENTRIES = 1 << 26  # of a dense copy, 512 MiB in double precision; ADMM needs as much again
FEW_ENTRIES = 1 << 22  # up to which a dense fit takes seconds
SHARE = 0.15  # of stored entries, above which dense data are as fast
STARTS = 2
TOL = 1e-3  # of least squares where the rule of a paper gives the tolerance of a model another unit
APART = 0.01  # relative difference of objectives


def dense_if_small(problem: Problem) -> Problem:
    """Return a problem of sparse data with a dense copy of them, unless that is too large or takes too long."""
    record, n_entries = problem.loss.record, problem.X.shape[0] * problem.X.shape[1]
    if record.sparse is None or not is_doubtful(problem):
        return problem
    if record.beta != 2:
        refuse_coupled(problem)  # whatever its size; codes of sparse data could not be found
    # medians, the sparse solver of a loss with a kink, end far higher than ADMM
    better = record.kink > 0 or n_entries <= FEW_ENTRIES or problem.X.nnz > SHARE * n_entries
    return problem.in_dense() if better and n_entries <= MOST_ENTRIES else problem


def warn_dense(problem: Problem, stacklevel: int) -> None:
    """Warn of a dense copy of sparse data that takes a loss with a kink long, where other losses need none."""
    (n_samples, n_features), n_stored = problem.X.shape, problem.X.nnz
    if FEW_ENTRIES < n_samples * n_features and n_stored <= SHARE * n_samples * n_features:
        warnings.warn(
            f'loss="{problem.loss.record.name}" fits a dense copy of X, {n_samples} x {n_features} entries, of which '
            f'{n_stored} are stored, which may take minutes; "frobenius" or "kullback-leibler" needs no copy of such '
            "data and is better for words of texts",
            EfficiencyWarning,
            stacklevel=stacklevel,
        )


def start_from_least_squares(problem: Problem, Wt: Any, H: Any, *, max_iter: int, tol: float) -> None:
    """Move the starting factors of a problem, in place, to those of a least-squares fit without penalties."""
    if problem.loss.record.beta != 2:
        missing = float(problem.zero_weight > 0)
        squares = replace(
            problem, loss=Loss("frobenius"), penalty_W=NONNEGATIVE, penalty_H=NONNEGATIVE, zero_weight=missing
        )
        fit(squares, Wt, H, solver="hals", max_iter=max_iter, tol=tol)
        problem.penalty_W.feasible(Wt)
        problem.penalty_H.feasible(H)


def apart(problem: Problem, objectives: Sequence[float]) -> float:
    """Return by which share of the lowest of several objectives the next one is higher; 0 if the lowest is exact.

    Infinite if there is no other finite one.
    """
    lowest, *others = sorted(filter(math.isfinite, objectives)) or [math.inf]
    if lowest <= exact_objective(problem):
        return 0.0
    return others[0] / lowest - 1 if others else math.inf


def warn_apart(share: float, stacklevel: int) -> None:
    """Warn if the best two starts of a large sparse `X` ended with different objectives, by the share of the lower."""
    if share > APART:
        warnings.warn(
            f"NMF found a second best objective of {1 + share:.3g} times the best one, from several starts of a large "
            "sparse X, so there may be a lower one; increase n_init, or pass X.toarray() if the memory allows",
            stacklevel=stacklevel,
        )
