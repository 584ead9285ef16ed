"""Data in chunks: the interface, arrays of any kind, and the checks of every chunk."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf._checks import check_sparse, shown
from visionnmf._text import one_line
from visionnmf.exceptions import ParameterError, UnreadableError, UnsupportedError
from visionnmf.io.inputs import check_bytes, regular_file
from visionnmf.io.npz_files import NUMBERS

Array = NDArray[Any]

BLOCK_BYTES = 16 << 20  # read at a time, unless the caller asks for more


class Chunks(ABC):
    """Samples that come in chunks; a context manager that closes what it has opened.

    Attributes
    ----------
    name : str
        The file, or ``"X"``, for messages.
    n_samples, n_features : int or None
        None if they are not known before the end, or before the first chunk.
    image_shape : tuple of two ints or None
        Height and width if samples are images; None also before the first image has been read.
    repeatable, can_reorder : bool
        Whether the samples can be read a second time, and whether :meth:`reorder` can be called.
    skipped : list of str
        A sentence for each sample that could not be read.
    notes : list of str
        A sentence for each reason to doubt what was read; complete after a pass over all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io.chunks import open_chunks
    >>> type(open_chunks(np.eye(4))).__name__
    'ArrayRows'
    """

    name = "X"
    n_samples: int | None = None
    n_features: int | None = None
    image_shape: tuple[int, int] | None = None
    repeatable = True
    can_reorder = False

    def __init__(self) -> None:
        """Begin with empty lists of sentences; a subclass then opens its source and sets the other attributes."""
        self.skipped: list[str] = []  # a sentence for each sample that could not be read
        # what else is to be said about the samples
        self.notes: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the samples in their order.

        Parameters
        ----------
        size : int
            The number of samples that the caller wants together; chunks may be smaller or larger.
        skip : int, default=0
            The number of samples at the beginning to leave out.

        Yields
        ------
        ndarray or csr_array [shape=(n, n_features)]
            At least one sample.
        """

    def reorder(self, rng: np.random.Generator) -> None:  # noqa: B027  # most sources keep their order
        """Draw a new order of the samples; only if `can_reorder`."""

    def close(self) -> None:  # noqa: B027  # most sources have nothing to close
        """Close what was opened."""


class Indexed(Chunks):
    """Samples that can be read at any position; reading fewer than the `block` stored together takes as long."""

    n_samples: int
    n_features: int
    block = 1

    def _set_shape(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Set the sizes from the shape of all data, one row a sample; raise if not numeric or a row exceeds 1 GiB."""
        if dtype.kind not in NUMBERS:
            raise UnsupportedError(f"{self.name}: holds {dtype}, not numbers")
        if len(shape) < 2:
            raise UnsupportedError(
                f"{self.name}: has shape {shape}; rows of samples are needed, (n_samples, n_features)"
            )
        self.n_samples, self.n_features = int(shape[0]), math.prod(int(size) for size in shape[1:])
        if self.n_samples < 1 or self.n_features < 1:
            raise UnsupportedError(f"{self.name}: is empty, its shape is {shape}")
        check_bytes(f"{self.name}: a sample", self.n_features * dtype.itemsize)
        self.image_shape = (int(shape[1]), int(shape[2])) if len(shape) == 3 else None

    @abstractmethod
    def at(self, start: int, stop: int) -> Any:
        """Return the samples ``start:stop``, which exist, as an array or a sparse matrix (stop - start, n_features)."""

    def take(self, rows: Array) -> Any:
        """Return the samples of these numbers, in this order, by one reading for each; subclasses do better."""
        return np.concatenate([self.at(row, row + 1) for row in rows.tolist()])

    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the samples in their order, about `size` at a time, in whole stored blocks, without `skip`."""
        step = -(-size // self.block) * self.block  # `size` rounded up to whole blocks
        for start in range(skip, self.n_samples, step):
            yield self.at(start, min(start + step, self.n_samples))


class Sequential(Chunks):
    """Samples that can only be read in their order."""

    @abstractmethod
    def pieces(self, size: int) -> Iterator[Any]:
        """Yield the samples as they come, in unchecked pieces of any number; `size` together are wanted."""

    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the samples in their order as checked matrices, as they come, without the first `skip`."""
        # `skip` counts down the samples that are still to be left out.
        for number, piece in enumerate(self.pieces(size), start=1):
            chunk = _checked(piece, number, self.n_features)
            if not chunk.shape[0]:
                continue
            self.n_features = chunk.shape[1]
            if skip >= chunk.shape[0]:
                skip -= chunk.shape[0]
                continue
            yield chunk[skip:] if skip else chunk
            skip = 0


class Iterated(Sequential):
    """The items of an iterable; an iterator can be read once, any other iterable as often as needed."""

    def __init__(self, source: Iterable[Any]) -> None:
        """Keep an iterable of arrays or sparse matrices; an iterator is not `repeatable`."""
        super().__init__()
        self._source = source  # yields arrays or sparse matrices
        self.repeatable = not isinstance(source, Iterator)

    def pieces(self, size: int) -> Iterator[Any]:
        """Yield the pieces of the caller's iterable, each with any number of samples, whatever the `size` wanted."""
        yield from self._source


class ArrayRows(Indexed):
    """An array of NumPy, a memory map, a sparse matrix or a table."""

    def __init__(self, source: Any) -> None:
        """Take an array, sparse matrix or table whose rows, or images along the first axis, are the samples."""
        # Sparse matrices of any format become CSR, whose rows can be read by their numbers.
        super().__init__()
        check_sparse(source, self.name)
        _refuse_masked(source, self.name)
        # All samples; images stay (n_samples, height, width), and are made rows when they are read.
        self._rows: Any = sp.csr_array(source) if sp.issparse(source) else np.asanyarray(source)
        self._set_shape(self._rows.shape, self._rows.dtype)

    def at(self, start: int, stop: int) -> Any:
        """Return the samples ``start:stop`` as rows (stop - start, n_features); `_rows` are all samples."""
        return _flat(self._rows[start:stop])

    def take(self, rows: Array) -> Any:
        """Return the samples of these numbers as rows (len(rows), n_features); `_rows` are all samples."""
        return _flat(self._rows[rows])


class NpyRows(Indexed):
    """The rows of a ``.npy`` file, mapped again and copied for each chunk, so that pages leave the memory."""

    def __init__(self, path: str | Path) -> None:
        """Check the header of the file, which gives the numbers of samples and features; no sample is read."""
        super().__init__()
        self.path = regular_file(path, "array")
        self.name = str(path)
        array = self._mapped()
        self._set_shape(array.shape, array.dtype)
        # as it was when the file was opened, to notice that it has changed
        self._shape = array.shape

    def _mapped(self) -> Array:
        """Return the array of the file as a new memory map."""
        try:  # NumPy refuses objects, and a file that is shorter than its header says
            return np.lib.format.open_memmap(self.path, mode="r")
        except Exception as error:  # it raises nearly anything on damaged files
            raise UnreadableError(f"{self.path}: cannot be read ({one_line(error):.200})") from error

    def at(self, start: int, stop: int) -> Array:
        """Return the samples ``start:stop`` of the file as rows (stop - start, n_features)."""
        return self.take(slice(start, stop))

    def take(self, rows: Any) -> Array:
        """Return the samples of these numbers, or of a slice, as rows (n, n_features)."""
        array = self._mapped()  # a new map each time: an old one would keep what was read in memory
        if array.shape != self._shape:  # that of the file when it was opened
            raise UnreadableError(f"{self.path}: it has changed while it was read")
        return np.array(_flat(array[rows]))


class SlicedRows(Indexed):
    """Anything with a shape whose slices are arrays, such as a dataset of h5py or an array of zarr or Dask."""

    def __init__(self, source: Any) -> None:
        """Take an array of samples along the first axis; `block` is its largest chunk, 16 MiB at most."""
        super().__init__()
        if any(size != size for size in source.shape):  # Dask gives sizes that it does not know as NaN
            raise ParameterError(
                f"X must have chunks of known sizes; got shape {source.shape}; call X.compute_chunk_sizes()"
            )
        self._source = source
        dtype = np.dtype(source.dtype)
        self._set_shape(tuple(source.shape), dtype)
        # `chunks` are sides of a chunk, or of Dask a tuple of the sides along each axis; absent or None without chunks.
        stored = np.max((getattr(source, "chunks", None) or (1,))[0])
        self.block = int(min(stored, max(1, BLOCK_BYTES // (self.n_features * dtype.itemsize))))

    def at(self, start: int, stop: int) -> Any:
        """Read the samples ``start:stop``; return rows (stop - start, n_features)."""
        rows = self._source[start:stop]
        rows = rows.compute() if hasattr(rows, "compute") else rows
        return sp.csr_array(rows) if sp.issparse(rows) else _flat(np.asarray(rows))


def _checked(piece: Any, number: int, n_features: int | None) -> Any:
    """Return chunk `number` of a source as a matrix of numbers with `n_features` columns (None: any), or refuse it."""
    if sp.issparse(piece):
        check_sparse(piece, f"chunk {number}")
        chunk: Any = sp.csr_array(piece)
    else:
        _refuse_masked(piece, f"chunk {number}")
        try:
            chunk = np.asarray(piece)
        except ValueError:  # lists of different lengths
            chunk = np.empty((), object)  # so that the next check refuses it
    if chunk.dtype.kind not in NUMBERS and chunk.size:
        raise ParameterError(f"chunk {number} must be an array of numbers; got {shown(piece)}")
    if chunk.shape[:1] == (0,):
        return np.empty((0, n_features or 0))
    if chunk.ndim < 2:
        raise ParameterError(
            f"chunk {number} must have shape (n_samples, n_features); got {chunk.shape}; one sample is reshape(1, -1)"
        )
    chunk = _flat(chunk)
    if n_features is not None and chunk.shape[1] != n_features:
        raise ParameterError(
            f"chunk {number} must have {n_features} features as the chunks before it; got {chunk.shape[1]}"
        )
    return chunk


def _refuse_masked(array: Any, name: str) -> None:
    """Raise ParameterError where entries of an array are masked, as NumPy would silently use them."""
    if np.ma.is_masked(array):
        raise ParameterError(f"{name} must not be a masked array; got masked entries; pass filled(numpy.nan)")


def _flat(samples: Any) -> Any:
    """Return samples (n_samples, ...) as rows (n_samples, n_features)."""
    return samples if samples.ndim == 2 else samples.reshape(len(samples), -1)
