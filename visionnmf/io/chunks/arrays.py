"""Arrays of any kind, read a range of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf._checks import check_sparse
from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.archive import check_npy
from visionnmf.io.inputs import check_bytes, regular_file

from .base import Indexed, check_whole, flat

__all__ = ["DaskRows", "InMemory", "NpyRows", "Stored", "listed", "only_dataset", "readable"]

Array = NDArray[Any]

BLOCK_BYTES = 16 << 20  # read at a time, unless the caller asks for more
CHUNKS_OF_A_ROW = 10_000  # a library that reads more at once takes kilobytes for each
NAMES = 10  # of datasets that a message lists


class InMemory(Indexed):
    """An array of NumPy, a memory map, a sparse matrix or a table."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        check_sparse(source, self.name)
        check_whole(source, self.name)
        self._rows: Any = sp.csr_array(source) if sp.issparse(source) else np.asanyarray(source)
        self._set_shape(self._rows.shape, self._rows.dtype)

    def at(self, start: int, stop: int) -> Any:
        """Return the samples ``start:stop``."""
        return flat(self._rows[start:stop])

    def take(self, rows: Array) -> Any:
        """Return samples by their numbers."""
        return flat(self._rows[rows])


class NpyRows(Indexed):
    """The rows of a ``.npy`` file.

    The file is mapped again for each chunk and the chunk is copied, so that its pages do not stay in memory.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = regular_file(path, "array")
        self.name = str(path)
        array = self._mapped()
        self._set_shape(array.shape, array.dtype)
        self._shape = array.shape

    def _mapped(self) -> Array:
        with readable(self.path):  # refuses objects, and a file that is shorter than its header says
            with self.path.open("rb") as file:
                check_npy(file)
            return np.lib.format.open_memmap(self.path, mode="r")

    def at(self, start: int, stop: int) -> Array:
        """Return the samples ``start:stop``."""
        return self.take(slice(start, stop))

    def take(self, rows: Any) -> Array:
        """Return samples by their numbers."""
        array = self._mapped()
        if array.shape != self._shape:
            raise UnreadableError(f"{self.path}: it has changed while it was read")
        return np.array(flat(array[rows]))


class _InBlocks(Indexed):
    def _bounded(self, block: int, dtype: Any) -> int:
        """Return the samples that are read together: a block, or fewer where a block is large."""
        return min(int(block), max(1, BLOCK_BYTES // (self.n_features * dtype.itemsize)))


class Stored(_InBlocks):
    """An array that a file stores in chunks: a dataset of h5py or an array of zarr."""

    def __init__(self, source: Any, name: str = "X") -> None:
        super().__init__()
        self.name = name
        self._source = source
        self._set_shape(source.shape, source.dtype)
        self.chunks_per_row, self._together = 1, self.n_samples
        if source.chunks is None:
            return
        if min(source.chunks) < 1:
            raise UnreadableError(f"{name}: cannot be read (its chunks have the shape {source.chunks})")
        check_bytes(f"{name}: a chunk", math.prod(source.chunks) * source.dtype.itemsize)
        sides = zip(source.shape[1:], source.chunks[1:], strict=True)
        self.chunks_per_row = math.prod(-(-length // chunk) for length, chunk in sides)
        if self.chunks_per_row > CHUNKS_OF_A_ROW:
            raise TooLargeError(
                f"{name}: a sample lies in {self.chunks_per_row} chunks, more than {CHUNKS_OF_A_ROW}; "
                "store it in larger ones"
            )
        self._together = max(1, CHUNKS_OF_A_ROW // self.chunks_per_row) * source.chunks[0]
        self.block = self._bounded(source.chunks[0], source.dtype)

    def at(self, start: int, stop: int) -> Any:
        """Return the samples ``start:stop``."""
        if stop - start <= self._together:
            return self.read(start, stop)
        starts = range(start, stop, self._together)
        return np.concatenate([self.read(first, min(first + self._together, stop)) for first in starts])

    def read(self, start: int, stop: int) -> Any:
        """Return rows that do not touch too many chunks."""
        return flat(np.asarray(self._source[start:stop]))


class DaskRows(_InBlocks):
    """An array of Dask, computed a range of rows at a time."""

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
        """Return the samples ``start:stop``."""
        rows = self._source[start:stop].compute()
        return sp.csr_array(rows) if sp.issparse(rows) else flat(np.asarray(rows))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into an UnreadableError of one line."""
    try:
        yield
    except MediaError:
        raise
    except Exception as error:
        raise UnreadableError(f"{path}: cannot be read ({one_line(error):.200})") from error


def only_dataset(path: Path, names: list[str]) -> str:
    """Return the only one of the names of a file's datasets."""
    if not names:
        raise UnreadableError(f"{path}: holds no rows of numbers")
    if len(names) > 1:
        raise UnsupportedError(f"{path}: holds {listed(names)}; name the dataset")
    return names[0]


def listed(names: list[str]) -> str:
    """Return some of the names of a file's datasets, shortened, for a message."""
    shown = ", ".join(repr(name[:40]) for name in sorted(names)[:NAMES]) or "none"
    return f"{shown}, and {len(names) - NAMES} more" if len(names) > NAMES else shown
