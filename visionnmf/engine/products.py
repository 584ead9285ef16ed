"""Products of the data with a factor, with one interface for dense and sparse data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import sparse
from .blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread
from .problem import Problem

__all__ = ["features_of", "product", "right_sides", "squares"]

Array = NDArray[Any]

COLUMNS = 256  # columns of a dense product that one thread computes at a time


def product(A: Array, B: Array) -> Array:
    """Return ``A @ B``, computed in the package's own threads with one BLAS thread each.

    OpenBLAS's own threads stall when another process occupies a core.
    """
    result = np.empty((A.shape[0], B.shape[1]), A.dtype)

    def columns(block: tuple[int, int]) -> None:
        start, stop = block
        np.matmul(A, B[:, start:stop], out=result[:, start:stop])

    with one_blas_thread():
        map_blocks(columns, blocks(B.shape[1], COLUMNS), parallel=A.size * B.shape[1] > 4 * BLOCK_ELEMENTS)
    return result


def right_sides(X: Any, A: Array) -> Array:
    """Return ``A @ X.T`` (r, n_rows), the right-hand sides of the least-squares problems of the rows of `X`."""
    return sparse.product(X, A) if sp.issparse(X) else product(A, X.T)


def features_of(problem: Problem) -> Any:
    """Return the transposed data: a view of dense data, or a copy of sparse data that each problem makes once."""
    return problem.transposed.X if problem.is_sparse else problem.X.T


def squares(X: Any, sample_weight: Array | None = None) -> float:
    """Return the sum of the squares of the data, in double precision; a row of weight 2 counts twice."""
    values = X.data if sp.issparse(X) else X
    flat = values.reshape(-1)
    if sample_weight is None:
        return float(np.einsum("i,i->", flat, flat, dtype=np.float64))
    weights = np.repeat(sample_weight, np.diff(X.indptr) if sp.issparse(X) else X.shape[1])
    return float(np.einsum("i,i,i->", flat, flat, weights, dtype=np.float64))
