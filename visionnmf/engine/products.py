"""Products of data and factors, for dense arrays of NumPy or of another library on their device, and sparse data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf._typing import Array

from .arrays.namespace import is_not_numpy, namespace_of
from .blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, row_blocks
from .kernels import sparse as _sparse_kernels

COLUMNS = 256  # columns of a dense product that one thread computes at a time
FLOOR = 1e-7  # smallest model in a logarithm or denominator, as a share of the mean of the row


def product(A: Any, B: Any) -> Any:
    """Return ``A @ B``; for NumPy's arrays in our own threads, because OpenBLAS's stall if another process is busy."""
    if is_not_numpy(A):
        return namespace_of(A).matmul(A, B)
    result = np.empty((A.shape[0], B.shape[1]), A.dtype)

    def columns(block: tuple[int, int]) -> None:
        start, stop = block
        np.matmul(A, B[:, start:stop], out=result[:, start:stop])

    with one_blas_thread():
        map_blocks(columns, blocks(B.shape[1], COLUMNS), parallel=A.size * B.shape[1] > 4 * BLOCK_ELEMENTS)
    return result


def _sparse_product(X: Any, A: Array) -> Array:
    """Return ``A @ X.T`` (r, n_rows) for sparse `X` (n_rows, n): the right-hand sides of its rows' least squares."""
    points = np.ascontiguousarray(A.T)  # (n, r), so that an entry of the data reads one contiguous row
    out = np.empty((X.shape[0], len(A)), A.dtype)

    def rows(block: tuple[int, int]) -> None:
        _sparse_kernels.product_rows(X.data, X.indices, X.indptr, points, *block, out)

    work = row_blocks(X)
    map_blocks(rows, work, parallel=len(work) > 1)
    return np.ascontiguousarray(out.T)


def right_sides(X: Any, A: Any) -> Any:
    """Return ``A @ X.T`` (r, n_rows), the right-hand sides of the least-squares problems of the rows of `X`."""
    return _sparse_product(X, A) if sp.issparse(X) else product(A, X.T)


def floors(X: Any) -> Array:
    """Return a positive level, negligible beside its entries, for each row of sparse `X`, to divide by (n_rows,)."""
    levels = X.sum(axis=1, dtype=np.float64) * (FLOOR / X.shape[1])
    # the minimum is for rows of zeros
    return np.maximum(levels, 1e-30).astype(X.dtype)
