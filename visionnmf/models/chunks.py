"""Samples in chunks, from arrays of any library and from iterables, and the checks of every chunk."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from itertools import tee
from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf._checks import check_sparse, shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io.npz_files import NUMBERS

from .data_checks import feature_names, other_names

SOME_ROWS = 16  # first samples of an iterable, by which it is known again
BLOCK_BYTES = 16 << 20  # read at a time, unless the caller asks for more


class ArrayRows:
    """Rows of an array that can be read at any position: of NumPy, SciPy or pandas, or a memory map."""

    repeatable = True
    block = 1  # samples that are stored together; reading fewer takes as long
    names: list[str] | None = None  # those of the features, of a data frame

    def __init__(self, source: Any) -> None:
        check_sparse(source, "X")
        _refuse_masked(source, "X")
        self.names = feature_names(source)
        # Sparse matrices of any format become CSR, whose rows can be read by their numbers.
        self._rows: Any = sp.csr_array(source) if sp.issparse(source) else np.asanyarray(source)
        self._set_shape(self._rows.shape, self._rows.dtype)

    def _set_shape(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Set the sizes from the shape of all data, one row a sample; raise if it is not numeric or empty."""
        if dtype.kind not in NUMBERS:
            raise UnsupportedError(f"X: holds {dtype}, not numbers")
        if len(shape) < 2:
            raise UnsupportedError(f"X: has shape {shape}; rows of samples are needed, (n_samples, n_features)")
        self.n_samples = int(shape[0])
        self.n_features = math.prod(int(size) for size in shape[1:])  # images (n_samples, height, width) become rows
        if not self.n_samples or not self.n_features:
            raise UnsupportedError(f"X: is empty, its shape is {shape}")

    def at(self, start: int, stop: int) -> Any:
        """Return the samples ``start:stop``, which exist, as rows (stop - start, n_features)."""
        return _flat(self._rows[start:stop])

    def take(self, rows: Array) -> Any:
        """Return the samples of these numbers as rows (len(rows), n_features)."""
        return _flat(self._rows[rows])

    def some(self) -> tuple[Any, list[str] | None]:
        """Return the first sample, the middle one and the last, and names, which tell these data from others."""
        rows = sorted({0, self.n_samples // 2, self.n_samples - 1})
        return joined([self.at(row, row + 1) for row in rows]), self.names

    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the samples in their order, about `size` at a time, in whole stored blocks, without `skip`."""
        step = -(-size // self.block) * self.block  # `size` rounded up to whole blocks
        for start in range(skip, self.n_samples, step):
            yield self.at(start, min(start + step, self.n_samples))


class SlicedRows(ArrayRows):
    """Anything with a shape whose slices are arrays, such as a dataset of h5py or an array of zarr or Dask."""

    def __init__(self, source: Any) -> None:
        """Take an array of samples along the first axis; `block` is its largest chunk, 16 MiB at most."""
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

    def take(self, rows: Array) -> Any:
        """Return the samples of these numbers, in this order, by one reading for each."""
        return joined([self.at(row, row + 1) for row in rows.tolist()])


class Iterated:
    """The items of an iterable; an iterator can be read once, any other iterable as often as needed."""

    n_samples = None  # not known before the end

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = source
        self.repeatable = not isinstance(source, Iterator)
        self._n_features: int | None = None  # known from the first chunk on, as are the names, if there are any
        self.names: list[str] | None = None

    def some(self) -> tuple[Any, list[str] | None]:
        """Return the first samples, which come again, or None, and the names of the features."""
        source = self._source
        if isinstance(source, Iterator):
            self._source, source = tee(source)
        ahead, parts, missing = Iterated(source), list[Any](), SOME_ROWS
        for chunk in ahead.chunks(1):
            parts.append(chunk[:missing])
            missing -= parts[-1].shape[0]
            if not missing:
                break
        return joined(parts) if parts else None, ahead.names

    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the items as checked matrices of any number of rows, whatever `size` is wanted, without `skip` rows."""
        for number, piece in enumerate(self._source, start=1):
            chunk = _checked(piece, number, self._n_features)
            if not chunk.shape[0]:
                continue
            names = feature_names(piece)
            if self._n_features is None:
                self._n_features, self.names = chunk.shape[1], names
            elif names != self.names:
                got = (
                    other_names(names, self.names) if names and self.names else "names of features in only one of them"
                )
                raise ParameterError(
                    f"chunk {number} must have the columns of the chunks before it, in their order; got {got}"
                )
            if skip < chunk.shape[0]:
                yield chunk[skip:] if skip else chunk
            skip = max(0, skip - chunk.shape[0])


def open_chunks(source: Any) -> ArrayRows | Iterated:
    """Return the samples of an array or an iterable of arrays, to be read in chunks."""
    if sp.issparse(source) or isinstance(source, np.ndarray):
        return ArrayRows(source)
    # Tables of pandas, whose slices go by their index, have no `dtype`; tensors of PyTorch have one of their own.
    if hasattr(source, "shape") and isinstance(getattr(source, "dtype", None), np.dtype):
        return SlicedRows(source)
    if hasattr(source, "__array__"):
        return ArrayRows(source)
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | os.PathLike):
        return Iterated(source)
    raise ParameterError(
        f"source must be an array or an iterable of arrays; got {shown(source)}; of a file pass "
        'numpy.load(path, mmap_mode="r") or pandas.read_csv(path, chunksize=1000), with header=None if it has no names'
    )


def joined(parts: list[Any]) -> Any:
    """Return the rows of several matrices in one, which is sparse if any of them is."""
    if len(parts) == 1:
        return parts[0]
    if any(map(sp.issparse, parts)):
        return sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))
    return np.concatenate(parts)


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
