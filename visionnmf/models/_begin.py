"""What a fit of :class:`.NMF` begins with: its penalties, weighted samples and starting factors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_sample_weight
from visionnmf.engine.penalties import Penalty as Resolved
from visionnmf.engine.problem import Problem
from visionnmf.engine.starts import STARTS
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_memory

from .penalty import Penalty

__all__ = ["check_room", "given_penalty", "start_factors", "stream_penalties", "with_sample_weight"]

Array = NDArray[Any]


LARGE = 64 << 20  # bytes of a matrix beside which a fit may not have room


def check_room(X: Any, times: float = 1.0) -> None:
    """Refuse dense data beside which there is no room for what a fit takes.

    Parameters
    ----------
    X : ndarray or sparse array
    times : float, default=1.0
        How much it takes, over the size of `X`; ``benchmarks/memory.py`` measures it.

    Raises
    ------
    TooLargeError
        If less is free.
    """
    if not sp.issparse(X) and X.nbytes > LARGE:
        check_memory(f"a fit of {X.shape[0]} samples with {X.shape[1]} features", int(times * X.nbytes))


def given_penalty(penalty: Penalty | None, side: str) -> Penalty:
    """Return the penalty that a user gave for "W" or "H", or one that asks for nothing."""
    if penalty is None:
        return Penalty()
    if not isinstance(penalty, Penalty):
        raise ParameterError(f"penalty_{side} must be a visionnmf.Penalty or None; got {penalty!r}")
    return penalty


def stream_penalties(penalty_W: Penalty | None, penalty_H: Penalty | None, X: Any) -> tuple[Resolved, Resolved]:
    """Return the penalties of codes and components of a stream whose present chunk is `X`."""
    of_codes, of_components = given_penalty(penalty_W, "W"), given_penalty(penalty_H, "H")
    if of_codes.graph is not None or of_codes.groups is not None:
        raise ParameterError(
            "penalty_W must be without graph and groups, whose samples a stream does not know; got some"
        )
    if isinstance(of_components.graph, str):
        raise ParameterError(
            f"graph of penalty_H must be None or a matrix of affinities for a stream; got {of_components.graph!r}"
        )
    return of_codes.resolve("W", None, X.dtype), of_components.resolve("H", X, X.dtype)


def with_sample_weight(problem: Problem, sample_weight: ArrayLike | None) -> tuple[Problem, Array | None]:
    """Return the problem with weighted samples, and what its rows were multiplied by, if they were.

    Where the loss is homogeneous and the codes free to be scaled, weighting a row is scaling it; else the weights go to
    the entries.
    """
    if sample_weight is None:
        return problem, None
    X = problem.X
    s = check_sample_weight(sample_weight, X.shape[0], np.float64)
    degree = problem.loss.record.degree
    if degree and not problem.penalty_W.kinds:
        scale = (s ** (1 / degree)).astype(X.dtype)
        scaled = sp.csr_array(sp.diags_array(scale) @ X) if problem.is_sparse else X * scale[:, None]
        return replace(problem, X=scaled), scale
    if problem.is_sparse:
        raise ParameterError("sample_weight must be None for a sparse X with penalty_W or nuclear; got weights")
    s = s ** (1 / problem.loss.record.weight_degree)
    rows = np.broadcast_to(s.astype(X.dtype)[:, None], X.shape)
    weights = np.array(rows if problem.weights is None else problem.weights * rows)
    return replace(problem, X=np.where(weights > 0, X, X.dtype.type(0)), weights=weights), None


def start_factors(
    problem: Problem,
    n_components: int,
    init: str,
    rng: np.random.RandomState,
    W: Array | None,
    H: Array | None,
    row_scale: Array | None,
) -> tuple[Array, Array]:
    """Return the codes, transposed, and the components to start from: copies of those given, else what `init` draws."""
    X = problem.X
    if problem.weights is not None:  # for the scale and the SVD of a start, a missing entry is an average one
        X = np.where(problem.weights > 0, X, X.sum(dtype=np.float64) / (problem.weights > 0).sum()).astype(X.dtype)
    stored = X.data if problem.is_sparse and problem.zero_weight == 0 else X  # all that counts
    # "custom": both are given, and what is drawn is replaced
    Wt, components = STARTS["random" if init == "custom" else init](X, n_components, rng)
    if stored is not X:
        for F in (Wt, components):  # as if what is missing were of the same size as what is not
            F *= X.dtype.type((X.shape[0] * X.shape[1] / max(1, len(stored))) ** 0.5)
    if W is not None:
        Wt = W.T.copy()
        if row_scale is not None:
            Wt *= row_scale
    if H is not None:
        components = H.copy()
    if (W is None) != (H is None):  # the one that was drawn shall suit the one that was given: as `starts.random`
        drawn = Wt if W is None else components
        size = float(Wt.mean(axis=1, dtype=np.float64) @ components.mean(axis=1, dtype=np.float64))
        drawn *= X.dtype.type(stored.mean(dtype=np.float64) / (4 * size) if size > 0 else 1)
    problem.penalty_W.feasible(Wt)
    problem.penalty_H.feasible(components)
    return Wt, components
