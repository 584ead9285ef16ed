r"""Robust principal components, without non-negativity: split a matrix into a low-rank and a sparse part.

==============  ====================================================================================================
:func:`rpca`    principal component pursuit, ``min |L|_* + w |S|_1`` with ``X = L + S``, by the inexact augmented
                Lagrangian method (Lin, Chen, Ma 2010, Algorithm 5, with its rule for the penalty)
:func:`godec`   ``min |X - L - S|_F`` with ``rank(L) <= r`` and at most `k` entries in `S` (Zhou, Tao 2011), each
                low-rank step by randomised subspace iteration, warm-started
:func:`lad`     codes of least absolute deviations under orthonormal components, by ADMM
==============  ====================================================================================================
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.stopping import EXACT, Stopping

FIRST_PENALTY, GROWTH = 1.25, 1.5  # as in the authors' code
# The penalty grows when the sparse part moves by less than this: growing always, as that code does, stops short of the
# optimum where recovery is hard, and smaller values take twice as long.
STILL = 0.01
GRAM_COLUMNS = 8192
CODE_PRECISION = 8  # units of the dtype's precision
POWER = 1  # additional power iterations in each low-rank step of GoDec


class Split(NamedTuple):
    """A matrix split into a low-rank and a sparse part, and the right singular vectors of the former."""

    components: Array
    low_rank: Array
    sparse: Array


def rpca(X: Array, weight: float | None = None, *, max_iter: int = 500, tol: float = 1e-6) -> Split:
    """Split `X` by principal component pursuit until ``|X - L - S|_F <= tol |X|_F``; `weight` is that of ``|S|_1``."""
    weight = 1 / math.sqrt(max(X.shape)) if weight is None else weight
    X, scale = _scaled(X)
    with one_blas_thread():
        norm, size = float(np.linalg.norm(X, 2)), float(np.linalg.norm(X))
    if norm == 0:  # no data: one component with singular value 0
        return Split(np.eye(1, X.shape[1], dtype=X.dtype), X, X)
    with one_blas_thread():
        # scaled so that its spectral norm is at most 1 and its entries at most `weight`, as at the optimum
        dual = X / X.dtype.type(max(norm, np.abs(X).max() / weight))
        sparse = np.zeros_like(X)
        penalty = FIRST_PENALTY / norm  # weight of the squared violation of X = L + S
        for _ in range(max_iter):
            low, right = _shrunk_values(X - sparse + dual / X.dtype.type(penalty), 1 / penalty)
            rest, before = X - low, sparse
            sparse = _shrunk(rest + dual / X.dtype.type(penalty), weight / penalty)
            rest -= sparse
            dual += X.dtype.type(penalty) * rest
            if float(np.linalg.norm(rest)) / size <= tol:
                break
            if penalty * norm * float(np.linalg.norm(sparse - before)) < STILL * size:
                penalty *= GROWTH
    return Split(right, low * scale, sparse * scale)


def godec(
    X: Array, n_components: int, share: float = 0.1, *, max_iter: int = 300, tol: float = 1e-3, random_state: int = 0
) -> Split:
    """Split `X` into a part of rank `n_components`, at most a `share` of outliers, and noise; `tol` is that of NMF."""
    X, scale = _scaled(X)
    size = float(np.linalg.norm(X)) or 1.0
    shape = X.shape[1], min(n_components, *X.shape)
    basis = np.random.RandomState(random_state).standard_normal(shape).astype(X.dtype)
    sparse = np.zeros_like(X)
    stopping = Stopping(tol, exact=EXACT**2 if tol > 0 else 0.0)  # an objective of at most `exact` ends the fit
    with one_blas_thread():
        for _ in range(max_iter):
            clean = X - sparse
            for _ in range(1 + POWER):
                left = np.linalg.qr(clean @ basis)[0]
                basis = np.linalg.qr(clean.T @ left)[0]
            low = (clean @ basis) @ basis.T
            rest = X - low
            sparse = _largest(rest, round(share * X.size))
            if stopping.add((float(np.linalg.norm(rest - sparse)) / size) ** 2):
                break
        right = np.linalg.svd(low @ basis, full_matrices=False)[2]
    return Split(right @ basis.T, low * scale, sparse * scale)


def _scaled(X: Array) -> tuple[Array, Any]:
    """Return data divided by their largest entry, because their squares could leave the range of floats, and that."""
    scale = X.dtype.type(np.abs(X).max(initial=0) or 1)
    return X / scale, scale


def lad(X: Array, components: Array, *, max_iter: int, tol: float = 1e-7) -> Array:
    """Return the codes c (n_samples, r) of least absolute deviations, ``min |x - c H|_1``, H orthonormal, by ADMM."""
    tol = max(tol, CODE_PRECISION * float(np.finfo(X.dtype).eps))
    with one_blas_thread():
        codes = X @ components.T
        rest = X - codes @ components
        dual = np.zeros_like(X)
        threshold = np.abs(rest).mean(axis=1, keepdims=True)  # one for each row, from its own scale
        at = np.arange(len(X))  # rows that have not converged; each row stops independently of the others
        for _ in range(max_iter):
            rest += dual
            np.clip(rest, -threshold, threshold, out=dual)
            rest -= dual  # the sparse part: soft-thresholding leaves what lies beyond the threshold
            found = (X - rest + dual) @ components.T
            moves = np.abs(found - codes[at]).max(axis=1, initial=0) > tol * np.abs(found).max(axis=1, initial=0)
            codes[at] = found
            if not moves.any():
                break
            if not moves.all():
                at, X, dual, threshold, found = at[moves], X[moves], dual[moves], threshold[moves], found[moves]
            rest = X - found @ components
    return codes


def _shrunk(A: Array, by: Any) -> Array:
    """Return soft-thresholded entries: each moves towards zero by `by` and stops there."""
    return np.asarray(np.sign(A) * np.maximum(np.abs(A) - np.asarray(by, A.dtype), 0))


def _shrunk_values(A: Array, by: float) -> tuple[Array, Array]:
    """Soft-threshold the singular values of `A` by `by`; return matrix and right vectors."""
    wide = A if A.shape[0] <= A.shape[1] else A.T
    squares, left = np.linalg.eigh(_gram(wide))
    values = np.sqrt(np.maximum(squares[::-1], np.finfo(A.dtype).tiny))
    rank = max(1, int(np.count_nonzero(values > by)))
    left, values = left[:, ::-1][:, :rank].astype(A.dtype), values[:rank]
    scaled = left.T @ wide  # the right singular vectors of `wide`, times their values
    kept = np.maximum(values - by, 0)
    low = (left * (kept / values).astype(A.dtype)) @ scaled
    if wide is A:
        return low, scaled / values.astype(A.dtype)[:, None]
    return low.T, np.ascontiguousarray(left.T)


def _gram(A: Array) -> Array:
    """Return ``A A^T`` in double precision, without copying all of `A`."""
    total = np.zeros((len(A), len(A)))
    for start in range(0, A.shape[1], GRAM_COLUMNS):
        block = A[:, start : start + GRAM_COLUMNS].astype(np.float64, copy=False)
        total += block @ block.T
    return total


def _largest(A: Array, count: int) -> Array:
    """Return `A` with all entries set to 0 except the `count` largest in absolute value."""
    kept = np.zeros_like(A)
    if count:
        size = np.abs(A)
        at = np.argpartition(size.ravel(), A.size - count)[A.size - count :]
        kept.ravel()[at] = A.ravel()[at]
    return kept
