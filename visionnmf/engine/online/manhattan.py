"""Online NMF for the Manhattan loss that is robust to outliers (the default for this loss).

For each batch, a few iterations of :mod:`..solvers.admm` find robust codes for the current components. Entries far from
the model, and missing entries, are then replaced by the model, and the cleaned data enter the sums of
:mod:`.surrogate`. An outlier therefore leaves no trace in the state. An entry with less weight than the others of its
sample is replaced in part.

For sparse data, zeros count like other values, and a tile of rows at a time is made dense.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf.engine.blocks import blocks, map_blocks
from visionnmf.engine.kernels.admm import manhattan_pass
from visionnmf.engine.kernels.hals import TILE
from visionnmf.engine.penalties import ANY, SEPARABLE
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product
from visionnmf.engine.quadratic import improve

from .record import Batch, Method, State, add_to_sums, check_sums, filled, no_sums, normalise
from .surrogate import COMPONENTS_SWEEPS, is_free

Array = NDArray[Any]

START_SWEEPS = 5  # coordinate descent sweeps for the initial least-squares codes
ITERATIONS = 20
SWEEPS = 3  # coordinate descent sweeps per ADMM iteration
GROWTH = 10.0  # total growth of rho, which starts at one over the row's mean residual
FAR = 4.0  # an outlier is further from the model than this many mean residuals of its row


def learn(batch: Batch, H: Array, state: State) -> float:
    """Learn a batch: clean it, add it to the sums and improve the components (see :class:`.record.Method`).

    `state` holds the sums over all samples so far: `A` (r, r) of products of codes, `B` (r, n) of codes and data, and
    `weight`, the number of samples. The codes `Wt` are (r, n_samples), the cleaned data `V` (n_samples, n). `counts` is
    the largest weight in each sample; entries of less weight have been replaced in part by the model.
    """
    problem, sample_weight = batch.problem, batch.sample_weight
    Wt, V, losses = cleaned_codes(problem, H)
    features = V.T.tocsr() if problem.is_sparse else V.T
    counts = None if problem.weights is None else problem.weights.max(axis=1)
    add_to_sums(state, Wt, features, batch.forgetting, sample_weight, counts)
    improve(H, state["A"], state["B"], problem.penalty_H, sweeps=COMPONENTS_SWEEPS, scale=state["weight"])
    if is_free(problem):
        normalise(H, state)
    return float(losses.sum() if sample_weight is None else losses @ sample_weight)


def cleaned_codes(problem: Problem, H: Array) -> tuple[Array, Any, Array]:
    """Return robust codes (n_components, n_samples), cleaned data (n_samples, n_features) and the loss of each sample.

    The codes are approximate. In the cleaned data, which are sparse if the data are, the model replaces outliers and
    missing entries. `H` is (n_components, n_features).
    """
    n_samples, dtype = problem.X.shape[0], problem.X.dtype
    gram = product(H, H.T)
    Wt, losses = np.empty((len(H), n_samples), dtype), np.empty(n_samples)
    work = blocks(n_samples, TILE)
    parts = map_blocks(lambda block: _clean(problem, H, gram, block, Wt, losses), work)
    return Wt, (sp.vstack(parts, format="csr") if problem.is_sparse else np.concatenate(parts)), losses


def _clean(problem: Problem, H: Array, gram: Array, block: tuple[int, int], Wt: Array, losses: Array) -> Any:
    """Write the codes and losses of a block of rows to `Wt` and `losses`; return the cleaned rows.

    A few iterations of ADMM for the Manhattan loss find the codes `F` (r, n_rows). `V` (n_rows, n) is the model, which
    a pass replaces by the target of the next least-squares step. `U` is the scaled dual, `bounds` (n_rows,) is
    ``1 / rho`` and starts at the mean residual of each row. Entries further than :data:`FAR` mean residuals from the
    model are then replaced by it. `H` (r, n) is fixed, `gram` is ``H @ H.T``.
    """
    rows = slice(*block)
    X = problem.X[rows].toarray() if problem.is_sparse else problem.X[rows]
    M = None if problem.weights is None else problem.weights[rows]
    penalty, dtype = problem.penalty_W, X.dtype
    counts, means = np.full(len(X), X.shape[1]), np.ones(len(X))
    if M is not None:  # for each row, the sum of its weights and the mean of the nonzero ones
        observed, counts = np.maximum(np.count_nonzero(M, axis=1), 1), M.sum(axis=1, dtype=np.float64)
        means = counts / observed
        counts, means = (np.where(counts > 0, numbers, 1) for numbers in (counts, means))
    F = np.zeros((len(H), len(X)), dtype)
    penalty.feasible(F)
    improve(F, gram, H @ X.T, penalty, sweeps=START_SWEEPS)
    V = F.T @ H
    bounds = (_residuals(X, V, M).sum(axis=1, dtype=np.float64) / counts / means).astype(dtype)
    decay = dtype.type(GROWTH ** (-1 / ITERATIONS))
    # `unused` receives losses and residuals of the pass
    U, unused = np.zeros_like(X), np.empty((2, len(X)))
    for iteration in range(ITERATIONS):
        manhattan_pass(X, V, U, M, 0.0, bounds, decay if iteration else dtype.type(1), 0, len(X), *unused)
        improve(F, gram, H @ V.T, penalty, sweeps=SWEEPS, scale=float(bounds.mean()) or 1.0)
        bounds *= decay
        np.matmul(F.T, H, out=V)
    totals = _residuals(X, V, M).sum(axis=1, dtype=np.float64)
    near = np.abs(X - V) <= (FAR * totals / counts).astype(dtype)[:, None]
    Wt[:, rows], losses[rows] = F, totals
    cleaned = np.where(near, X if M is None else filled(X, V, M)[0], V)
    return sp.csr_array(cleaned) if problem.is_sparse else cleaned


def _residuals(X: Array, V: Array, M: Array | None) -> Array:
    """Return the weighted absolute residuals ``M * |X - V|`` of a model `V`, all (n_rows, n); `M` None is 1."""
    sizes = np.abs(X - V)
    if M is not None:
        sizes *= M
    return sizes


METHOD = Method(
    name="manhattan",
    losses=("manhattan",),
    start=no_sums,
    learn=learn,
    check=check_sums,
    batch_size=256,
    codes_terms=SEPARABLE,
    components_terms=ANY,
    sparse=True,
    weights=True,
)
