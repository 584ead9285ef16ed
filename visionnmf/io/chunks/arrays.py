"""Arrays of any kind, read a range of rows at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf._checks import check_sparse
from visionnmf.exceptions import ParameterError
from visionnmf.io.inputs import check_bytes

from .base import Indexed, check_whole, flat

__all__ = ["DaskRows", "InMemory", "Stored", "kind_of"]

Array = NDArray[Any]

BLOCK_BYTES = 16 << 20  # that are read at a time, at most, unless more was asked for


def kind_of(source: Any) -> str:
    """Return the library that an object's class is from, without importing it."""
    return type(source).__module__.partition(".")[0]


class InMemory(Indexed):
    """An array of NumPy, a memory map, a sparse matrix or a table.

    Parameters
    ----------
    source : array-like or sparse matrix [shape=(n_samples, ...)]
    """

    def __init__(self, source: Any) -> None:
        super().__init__()
        check_sparse(source, self.name)
        check_whole(source, self.name)
        self._rows: Any = sp.csr_array(source) if sp.issparse(source) else np.asanyarray(source)
        self._set_shape(self._rows.shape, self._rows.dtype)

    def at(self, start: int, stop: int) -> Any:
        """Return a range of rows; see :meth:`Indexed.at`.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        ndarray or csr_array
        """
        return flat(self._rows[start:stop])

    def take(self, rows: Array) -> Any:
        """Return rows by their numbers; see :meth:`Indexed.take`.

        Parameters
        ----------
        rows : ndarray of int

        Returns
        -------
        ndarray or csr_array
        """
        return flat(self._rows[rows])


class _InBlocks(Indexed):
    def _bounded(self, block: int, dtype: Any) -> int:
        """Return the samples of a block, or as many as may be read at a time."""
        return min(int(block), max(1, BLOCK_BYTES // (self.n_features * dtype.itemsize)))


class Stored(_InBlocks):
    """What can be sliced like an array and lies in a file in blocks: a dataset of h5py, an array of zarr.

    Parameters
    ----------
    source : h5py.Dataset or zarr.Array
    name : str, default="X"
    """

    def __init__(self, source: Any, name: str = "X") -> None:
        super().__init__()
        self.name = name
        self._source = source
        self._set_shape(source.shape, source.dtype)
        if source.chunks:
            check_bytes(f"{name}: a block", math.prod(source.chunks) * source.dtype.itemsize)
            self.block = self._bounded(source.chunks[0], source.dtype)

    def at(self, start: int, stop: int) -> Any:
        """Return a range of rows; see :meth:`Indexed.at`.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        ndarray
        """
        return flat(np.asarray(self._source[start:stop]))


class DaskRows(_InBlocks):
    """An array of Dask, computed a range of rows at a time.

    Parameters
    ----------
    source : dask.array.Array
    """

    def __init__(self, source: Any) -> None:
        super().__init__()
        if any(size != size for size in source.shape):
            raise ParameterError(
                f"X must have chunks of known sizes; got shape {source.shape}; call X.compute_chunk_sizes()"
            )
        self._source = source
        self._set_shape(source.shape, source.dtype)
        self.block = self._bounded(max(source.chunks[0]), source.dtype)

    def at(self, start: int, stop: int) -> Any:
        """Compute a range of rows; see :meth:`Indexed.at`.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        ndarray or csr_array
        """
        rows = self._source[start:stop].compute()
        return sp.csr_array(rows) if sp.issparse(rows) else flat(np.asarray(rows))
