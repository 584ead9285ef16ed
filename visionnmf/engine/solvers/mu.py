"""Multiplicative updates of the beta-divergences (Lee & Seung 2000; Fevotte & Idier 2011): simple and slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.kernels.sparse import model_entries
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import floors, right_sides
from visionnmf.engine.stopping import Iteration

from .spg import GradientParts, gradient_parts

Array = NDArray[Any]


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place; yield the objective before, which never rises. A code of 0 stays 0."""
    for _ in range(max_iter):
        # for sparse data the loss is not a by-product of an update
        objective = problem.objective(Wt, H) if problem.is_sparse else problem.penalty_value(Wt, H)
        objective += _multiply(problem, Wt, H)
        _multiply(problem.transposed, H, Wt)
        yield Iteration(objective)


def _multiply(problem: Problem, Ft: Array, A: Array) -> float:
    """Multiply all codes in place by ``(G_minus / G_plus)^power``; return the loss of dense data before."""
    penalty, dtype, beta = problem.penalty_W, Ft.dtype, problem.loss.beta
    parts = _sparse_parts(problem, Ft, A) if problem.is_sparse else gradient_parts(problem, Ft, A)
    numerator, denominator = parts.negative, parts.positive
    # the parts are in units of each row's mean, so the penalties' gradients are scaled to match
    scale = parts.units.astype(dtype) ** dtype.type(1 - beta)
    if penalty.kinds:
        l1, l2 = (value[:, None] for value in penalty.weights(len(A), dtype))
        # the gradient of a graph penalty is F D - F S, with the affinity S (`graph`) and its row sums D (`degrees`)
        degrees = 0.0 if penalty.graph is None else penalty.degrees
        denominator += scale * (l1 + (l2 + degrees) * Ft)
    if penalty.graph is not None:
        numerator += scale * (Ft @ penalty.graph)
    ratio = numerator / np.maximum(denominator, np.finfo(dtype).tiny)  # above zero (Lin 2007)
    # with this exponent the loss never rises (Fevotte & Idier 2011)
    power = dtype.type(1 / (2 - beta) if beta < 1 else 1 if beta <= 2 else 1 / (beta - 1))
    Ft *= ratio if power == 1 else ratio**power
    return float(parts.losses.sum())


def _sparse_parts(problem: Problem, Ft: Array, A: Array) -> GradientParts:
    """Return the gradient of the codes by its signs for sparse data, in the units of the data, and losses of 0."""
    X, points, of_counts = problem.X, np.ascontiguousarray(A.T), problem.loss.beta == 1
    P = X.astype(X.dtype)  # the model where entries are stored
    found = np.empty(X.nnz)
    model_entries(X.indices, X.indptr, np.ascontiguousarray(Ft.T), points, 0, X.shape[0], found)
    P.data = np.maximum(found, np.repeat(floors(X), np.diff(X.indptr))).astype(X.dtype)
    ratio = X.astype(X.dtype)
    if of_counts:  # by the derivative 1 - x / p of the Kullback-Leibler divergence, else by p - x
        ratio.data = X.data / P.data
        P.data = np.ones_like(P.data)
    negative = right_sides(ratio, A)
    if problem.zero_weight == 0:  # entries that are not stored are missing
        positive = right_sides(P, A)
    else:
        positive = np.repeat(A.sum(axis=1)[:, None], len(Ft.T), axis=1) if of_counts else A @ A.T @ Ft
    return GradientParts(np.zeros(1), negative, positive, np.ones(X.shape[0]))
