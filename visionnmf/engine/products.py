"""Products of the data with a factor, the same call for dense and for sparse data."""

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

COLUMNS = 256  # of a dense product that one thread takes at a time


def product(A: Array, B: Array) -> Array:
    """Multiply in our threads with one BLAS thread each; OpenBLAS's own stall when another process holds a core.

    Parameters
    ----------
    A : ndarray [shape=(r, m)]
    B : ndarray [shape=(m, n)]

    Returns
    -------
    ndarray [shape=(r, n)]
    """
    result = np.empty((A.shape[0], B.shape[1]), A.dtype)

    def columns(block: tuple[int, int]) -> None:
        start, stop = block
        np.matmul(A, B[:, start:stop], out=result[:, start:stop])

    with one_blas_thread():
        map_blocks(columns, blocks(B.shape[1], COLUMNS), parallel=A.size * B.shape[1] > 4 * BLOCK_ELEMENTS)
    return result


def right_sides(X: Any, A: Array) -> Array:
    """Multiply ``A @ X.T``: the right-hand sides of the least-squares problems of the rows of the data.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array [shape=(n_rows, n)]
    A : ndarray [shape=(r, n)]

    Returns
    -------
    ndarray [shape=(r, n_rows)]
    """
    return sparse.product(X, A) if sp.issparse(X) else product(A, X.T)


def features_of(problem: Problem) -> Any:
    """Return the transposed data: a view of dense data, a copy of sparse data, made once a problem."""
    return problem.transposed.X if problem.is_sparse else problem.X.T


def squares(X: Any, sample_weight: Array | None = None) -> float:
    """Return the sum of the squares of the data, in double precision; a row of weight 2 counts twice."""
    values = X.data if sp.issparse(X) else X
    flat = values.reshape(-1)
    if sample_weight is None:
        return float(np.einsum("i,i->", flat, flat, dtype=np.float64))
    weights = np.repeat(sample_weight, np.diff(X.indptr) if sp.issparse(X) else X.shape[1])
    return float(np.einsum("i,i,i->", flat, flat, weights, dtype=np.float64))
