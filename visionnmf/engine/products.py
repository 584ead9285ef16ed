"""Products of data and factors, for dense arrays of NumPy or of another library on their device, and sparse data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .arrays.namespace import chunk_entries, chunks, in_float64, is_not_numpy, namespace_of, total
from .blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, row_blocks
from .kernels import sparse as _sparse_kernels

Array = NDArray[Any]

COLUMNS = 256  # columns of a dense product that one thread computes at a time
FLOOR = 1e-7  # smallest model in a logarithm or denominator, as a share of the mean of the row


def product(A: Any, B: Any) -> Any:
    """Return ``A @ B``; for NumPy's arrays in our own threads, because OpenBLAS's stall if another process is busy."""
    if is_not_numpy(A):
        return namespace_of(A).matmul(A, B)
    result = np.empty((A.shape[0], B.shape[1]), A.dtype)

    def columns(block: tuple[int, int]) -> None:
        """Compute the columns ``block[0]:block[1]`` of ``A @ B``."""
        start, stop = block
        np.matmul(A, B[:, start:stop], out=result[:, start:stop])

    with one_blas_thread():
        map_blocks(columns, blocks(B.shape[1], COLUMNS), parallel=A.size * B.shape[1] > 4 * BLOCK_ELEMENTS)
    return result


def norms_of(H: Any) -> Any:
    """Return the Euclidean norms (r,) by which components `H` (r, n) are divided; 1 for a component of zeros."""
    if is_not_numpy(H):
        xp = namespace_of(H)
        norms = xp.sqrt(xp.sum(H * H, axis=1))
        return xp.where(norms > 0, norms, xp.ones_like(norms))
    norms = np.linalg.norm(H, axis=1)
    norms[norms == 0] = 1
    return norms


def _sparse_product(X: Any, A: Array) -> Array:
    """Return ``A @ X.T`` (r, n_rows) for sparse `X` (n_rows, n): the right-hand sides of its rows' least squares."""
    points = np.ascontiguousarray(A.T)  # (n, r), so that an entry of the data reads one contiguous row
    out = np.empty((X.shape[0], len(A)), A.dtype)

    def rows(block: tuple[int, int]) -> None:
        """Write the rows ``block[0]:block[1]`` of ``X @ A.T`` to `out` (n_rows, r); `points` is ``A.T``, contiguous."""
        _sparse_kernels.product_rows(X.data, X.indices, X.indptr, points, *block, out)

    work = row_blocks(X)
    map_blocks(rows, work, parallel=len(work) > 1)
    return np.ascontiguousarray(out.T)


def inner(A: Any, B: Any) -> float:
    """Return the sum of the products of the entries of two dense arrays of one shape, in double precision."""
    if is_not_numpy(A):
        A64 = in_float64(A)
        return float(namespace_of(A).sum(A64 * (A64 if B is A else in_float64(B))))
    return float(np.einsum("ij,ij->", A, B, dtype=np.float64))


def sum_of(A: Any) -> float:
    """Return the sum of a dense array; on a device, rows in their dtype, because PyTorch would copy all of it first."""
    return total(A) if is_not_numpy(A) else float(A.sum(dtype=np.float64))


def right_sides(X: Any, A: Any) -> Any:
    """Return ``A @ X.T`` (r, n_rows), the right-hand sides of the least-squares problems of the rows of `X`."""
    return _sparse_product(X, A) if sp.issparse(X) else product(A, X.T)


def sum_of_squares(X: Any, sample_weight: Any = None) -> float:
    """Return the sum of the squares of the data, in double precision; a row of weight 2 counts twice."""
    if is_not_numpy(X):
        squares = 0.0
        for rows in chunks(X, chunk_entries(X) // 4):  # a part and its products in double precision, for a while
            part = X[rows, :]
            squares += inner(part, part if sample_weight is None else part * sample_weight[rows][:, None])
        return squares
    values = X.data if sp.issparse(X) else X
    flat = values.reshape(-1)
    if sample_weight is None:
        return float(np.einsum("i,i->", flat, flat, dtype=np.float64))
    weights = np.repeat(sample_weight, np.diff(X.indptr) if sp.issparse(X) else X.shape[1])
    return float(np.einsum("i,i,i->", flat, flat, weights, dtype=np.float64))


def floors(X: Any) -> Array:
    """Return a positive level, negligible beside its entries, for each row of sparse `X`, to divide by (n_rows,).

    A smaller entry of the model is raised to the level of its row before it is divided by or its logarithm taken.
    """
    levels = X.sum(axis=1, dtype=np.float64) * (FLOOR / X.shape[1])
    # the minimum is for rows of zeros
    return np.maximum(levels, 1e-30).astype(X.dtype)
