"""Sparse data in compressed rows (CSR): losses and products. No function makes a dense copy.

The cost is O(nnz r) because, where the data are 0, the loss of a non-negative model ``P`` is ``P`` itself (Manhattan,
Kullback-Leibler) or ``P^2 / 2`` (Frobenius), and the sums of these over all entries follow from the factors alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError

from .blocks import map_blocks, one_blas_thread, row_blocks
from .kernels import sparse as _sparse_kernels
from .losses import LOSSES, Loss

__all__ = ["check_zero_weight", "floors", "loss_value", "product"]

Array = NDArray[Any]

FLOOR = 1e-7  # smallest model in a logarithm or denominator, as a share of the mean of the row


def product(X: Any, A: Array) -> Array:
    """Return ``A @ X.T`` (r, n_rows) for sparse `X` (n_rows, n): the right-hand sides of its rows' least squares."""
    points = np.ascontiguousarray(A.T)
    out = np.empty((X.shape[0], len(A)), A.dtype)

    def rows(block: tuple[int, int]) -> None:
        _sparse_kernels.product_rows(X.data, X.indices, X.indptr, points, *block, out)

    work = row_blocks(X)
    map_blocks(rows, work, parallel=len(work) > 1)
    return np.ascontiguousarray(out.T)


def floors(X: Any) -> Array:
    """Return for each row of sparse `X` a positive level that is negligible compared with its entries."""
    levels = X.sum(axis=1, dtype=np.float64) * (FLOOR / X.shape[1])
    return np.maximum(levels, 1e-30).astype(X.dtype)  # the minimum is for rows of zeros


def loss_value(X: Any, Wt: Array, H: Array, loss: Loss, *, zero_weight: float = 1.0) -> float:
    """Return the loss of sparse `X` in O(nnz r), in double precision; see :func:`.losses.loss_value`.

    `zero_weight` is the weight of the entries that are not stored, 0 if they are missing. Their share is a difference
    of two sums, so the absolute rounding error is that of the loss at ``P = 0``. Raises ParameterError if the loss has
    no sparse form or does not support this `zero_weight`.
    """
    form = loss.record.sparse
    if form is None:
        able = sorted(name for name, record in LOSSES.items() if record.sparse)
        raise ParameterError(f"loss must be one of {able} for a sparse X; got {loss.name!r}; pass X.toarray()")
    check_zero_weight(loss, zero_weight)
    # in double precision, because the optimality measure has already compiled the kernel for it
    codes, points = Wt.T.astype(np.float64, order="C"), H.T.astype(np.float64, order="C")
    levels = floors(X)

    def stored(block: tuple[int, int]) -> tuple[float, float]:
        start, stop = block
        first, last = X.indptr[start], X.indptr[stop]
        p = np.empty(last - first)
        _sparse_kernels.model_entries(X.indices, X.indptr, codes, points, start, stop, p)
        x = X.data[first:last].astype(np.float64)
        floor = np.repeat(levels[start:stop], np.diff(X.indptr[start : stop + 1]))
        return form.value(x, p, floor), float(np.dot(p, p) if form.squared else p.sum())

    work = row_blocks(X)
    with one_blas_thread():
        parts = map_blocks(stored, work, parallel=len(work) > 1)
        everywhere = _model_total(Wt, H, squared=form.squared)
    elsewhere = max(0.0, everywhere - sum(part[1] for part in parts))
    return float(sum(part[0] for part in parts)) + float(zero_weight) * (0.5 if form.squared else 1.0) * elsewhere


def check_zero_weight(loss: Loss, zero_weight: float) -> None:
    """Raise ParameterError if the loss does not support this weight of the entries that are not stored.

    The message names the losses that do.
    """
    if zero_weight in (0, 1) or (loss.record.sparse is not None and loss.record.sparse.weighted):
        return
    able = " and ".join(repr(name) for name, record in LOSSES.items() if record.sparse and record.sparse.weighted)
    raise ParameterError(
        f"zero_weight must be 0 or 1 for losses other than {able}; got {zero_weight!r} with {loss.label}"
    )


def _model_total(Wt: Array, H: Array, *, squared: bool) -> float:
    """Return the sum of the model ``W @ H``, or of its squares, over all entries."""
    if not squared:
        return float(np.dot(Wt.sum(axis=1, dtype=np.float64), H.sum(axis=1, dtype=np.float64)))
    wide = [F.astype(np.float64) for F in (Wt, H)]
    return float(np.einsum("ij,ij->", *(F @ F.T for F in wide)))
