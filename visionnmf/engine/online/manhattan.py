"""Online NMF for the Manhattan loss that is robust to outliers (the default for this loss).

For each batch, a few iterations of :mod:`..solvers.admm` find robust codes for the current components. Entries far from
the model, and missing entries, are then replaced by the model, and the cleaned data enter the sums of
:mod:`.surrogate`. An outlier therefore leaves no trace in the state. An entry with less weight than the others of its
sample is replaced in part.

For sparse data, zeros count like other values, and a tile of rows at a time is made dense.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import chunks, in_float64, is_not_numpy, namespace_of, stacked
from visionnmf.engine.blocks import blocks, map_blocks
from visionnmf.engine.kernels.hals import TILE
from visionnmf.engine.penalties import ANY, SEPARABLE
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product
from visionnmf.engine.quadratic import improve
from visionnmf.engine.solvers.admm import elementwise_pass

from .record import Batch, Method, Sums, filled
from .surrogate import improve_components

START_SWEEPS = 5  # coordinate descent sweeps for the initial least-squares codes
ITERATIONS = 20
SWEEPS = 3  # coordinate descent sweeps per ADMM iteration
GROWTH = 10.0  # total growth of rho, which starts at one over the row's mean residual
FAR = 4.0  # an outlier is further from the model than this many mean residuals of its row


def learn(batch: Batch, H: Array, state: Sums) -> float:
    """Clean a batch, add it to the sums and improve the components; return its loss at the components before."""
    problem, sample_weight = batch.problem, batch.sample_weight
    cleaned = clean(problem, H)
    features = cleaned.data.T.tocsr() if problem.is_sparse else cleaned.data.T
    xp = namespace_of(H)
    # the weights of a sample are in its cleaned data, relative to the largest, by which it counts in the sums
    largest_weights = None if problem.weights is None else xp.max(problem.weights, axis=1)
    state.add(cleaned.codes, features, batch.forgetting, sample_weight, largest_weights)
    improve_components(problem, H, state)
    return float(xp.sum(cleaned.losses if sample_weight is None else cleaned.losses * sample_weight))


class Cleaned(NamedTuple):
    """Samples in which the model has replaced outliers and missing entries."""

    codes: Array  # (r, n_samples), robust but approximate
    data: Any  # (n_samples, n), sparse if the samples were
    losses: Array  # (n_samples,)


def clean(problem: Problem, H: Array) -> Cleaned:
    """Clean the samples of a problem by the components `H` (r, n), in blocks of rows."""
    gram, work, not_numpy = product(H, H.T), blocks(problem.X.shape[0], TILE), is_not_numpy(H)
    # Larger blocks are faster on a device. With a penalty they stay as with NumPy, because all rows of a block share a
    # step, which depends on which rows these are.
    if not_numpy and not problem.penalty_W.shrinks:
        work = [(piece.start, piece.stop) for piece in chunks(problem.X)]
    parts = map_blocks(lambda block: _clean_rows(problem, H, gram, slice(*block)), work, parallel=not not_numpy)
    codes, rows, losses = (list(values) for values in zip(*parts, strict=True))
    data = sp.vstack(rows, format="csr") if problem.is_sparse else stacked(rows)
    return Cleaned(stacked(codes, axis=1), data, stacked(losses))


def _clean_rows(problem: Problem, H: Array, gram: Array, rows: slice) -> Cleaned:
    """Find codes of some rows by a few iterations of ADMM, then replace entries that are far from the model by it."""
    xp, dtype, penalty = namespace_of(H), H.dtype, problem.penalty_W
    X = problem.X[rows].toarray() if problem.is_sparse else problem.X[rows, :]
    M = None if problem.weights is None else problem.weights[rows, :]
    # (n_rows,), in double precision: the mean of the nonzero weights of a row's entries, and the sum of its weights
    mean_weights = xp.ones_like(in_float64(X[:, 0]))
    weight_sums = X.shape[1] * mean_weights
    if M is not None:
        n_observed, weight_sums = xp.sum(in_float64(M > 0), axis=1), xp.sum(M, axis=1, dtype=xp.float64)
        used = weight_sums > 0  # rows without an observed entry have the mean 1 and the sum 1, to divide by
        mean_weights = xp.where(used, weight_sums / xp.where(n_observed > 0, n_observed, mean_weights), mean_weights)
        weight_sums = xp.where(used, weight_sums, xp.ones_like(weight_sums))
    right = H @ X.T
    F = xp.zeros_like(right)
    penalty.feasible(F)
    improve(F, gram, right, penalty, sweeps=START_SWEEPS)
    V = F.T @ H
    # 1 / rho begins at a row's mean residual, over its mean weight so that the scale of weights has no effect
    sums = xp.sum(_residuals(X, V, M), axis=1, dtype=xp.float64)
    inverse_rho = xp.asarray(sums / weight_sums / mean_weights, dtype=dtype)
    decay = GROWTH ** (-1 / ITERATIONS)
    U = xp.zeros_like(X)
    for iteration in range(ITERATIONS):
        # at first rho has not changed
        V = elementwise_pass(problem.loss, X, V, U, M, inverse_rho, decay if iteration else 1.0)
        # The objective is divided by rho, also the penalty of the codes, for which rows share the mean of 1 / rho; any
        # scale will do where all residuals are 0.
        improve(F, gram, H @ V.T, penalty, sweeps=SWEEPS, scale=float(xp.mean(inverse_rho)) or 1.0)
        inverse_rho *= decay
        V = F.T @ H if is_not_numpy(H) else np.matmul(F.T, H, out=V)  # a new array would cost a tenth of the pass
    losses = xp.sum(_residuals(X, V, M), axis=1, dtype=xp.float64)
    mean_residuals = losses / weight_sums
    near = xp.abs(X - V) <= xp.asarray(FAR * mean_residuals, dtype=dtype)[:, None]  # the others are outliers
    cleaned = xp.where(near, X if M is None else filled(X, V, M)[0], V)
    return Cleaned(F, sp.csr_array(cleaned) if problem.is_sparse else cleaned, losses)


def _residuals(X: Any, V: Any, M: Any) -> Any:
    """Return the weighted absolute residuals ``M * |X - V|`` of a model `V`, all (n_rows, n); `M` None is 1."""
    sizes = namespace_of(X).abs(X - V)
    return sizes if M is None else sizes * M


METHOD = Method(
    name="manhattan",
    losses=("manhattan",),
    state=Sums,
    learn=learn,
    batch_size=256,
    codes_terms=SEPARABLE,
    components_terms=ANY,
    sparse=True,
    weights=True,
    on_device=True,
)
