"""What data by chunks are: a contract of two forms, and the checks of what comes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf._checks import check_sparse, shown
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io.inputs import check_bytes

__all__ = ["KINDS", "Chunks", "Indexed", "Iterated", "Sequential", "check_array", "check_whole", "flat"]

Array = NDArray[Any]

KINDS = "biuf"  # of numbers: truth values, integers, floating point


class Chunks(ABC):
    """Samples that come in chunks; a context manager that closes what it has opened.

    Attributes
    ----------
    name : str
        For messages: the file, or ``"X"``.
    n_samples : int or None
        None where it is not known before the end.
    n_features : int or None
        None where it is not known before the first chunk.
    image_shape : tuple of two ints or None
        Height and width where samples are images; None, too, before the first was read.
    repeatable : bool
        Whether the samples can be read once more.
    can_reorder : bool
        Whether they can come in another order.
    skipped : list of str
        A sentence for each sample that could not be read.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io.chunks import open_chunks
    >>> type(open_chunks(np.eye(4))).__name__
    'InMemory'
    """

    name = "X"
    n_samples: int | None = None
    n_features: int | None = None
    image_shape: tuple[int, int] | None = None
    repeatable = True
    can_reorder = False

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def __enter__(self) -> Chunks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the samples from the beginning, in their order.

        Parameters
        ----------
        size : int
            Samples that are wanted together; chunks may be smaller or larger.
        skip : int, default=0
            Samples to leave out at the beginning.

        Yields
        ------
        ndarray or csr_array [shape=(n, n_features)]
            At least one sample.
        """

    def reorder(self, rng: np.random.Generator) -> None:
        """Take the samples in a new order from now on, which `rng` alone decides; only where `can_reorder`.

        Parameters
        ----------
        rng : Generator
        """
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Close what was opened."""


class Indexed(Chunks):
    """Samples that can be read anywhere.

    Attributes
    ----------
    block : int
        Samples that are stored together: reading fewer of them costs as much.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io.chunks import Indexed, open_chunks
    >>> isinstance(open_chunks(np.eye(4)), Indexed)
    True
    """

    n_samples: int
    n_features: int
    block = 1

    def _set_shape(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Take note of what samples are; raises what :func:`check_array` does."""
        self.n_samples, self.n_features = check_array(self.name, shape, dtype)
        self.image_shape = (int(shape[1]), int(shape[2])) if len(shape) == 3 else None

    @abstractmethod
    def at(self, start: int, stop: int) -> Any:
        """Return samples ``start:stop``, which exist.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        ndarray or csr_array [shape=(stop - start, n_features)]
        """

    def take(self, rows: Array) -> Any:
        """Return samples by their numbers, in any order.

        Parameters
        ----------
        rows : ndarray of int

        Returns
        -------
        ndarray or csr_array [shape=(len(rows), n_features)]
        """
        return np.concatenate([self.at(row, row + 1) for row in rows.tolist()])

    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the samples in their order; see :meth:`Chunks.chunks`.

        Parameters
        ----------
        size : int
        skip : int, default=0

        Yields
        ------
        ndarray or csr_array [shape=(n, n_features)]
        """
        step = -(-size // self.block) * self.block
        for start in range(skip, self.n_samples, step):
            yield self.at(start, min(start + step, self.n_samples))


class Sequential(Chunks):
    """Samples that come in their order alone.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io.chunks import Sequential, open_chunks
    >>> isinstance(open_chunks(iter([np.eye(4)])), Sequential)
    True
    """

    @abstractmethod
    def pieces(self, size: int) -> Iterator[Any]:
        """Yield arrays as they come, not checked.

        Parameters
        ----------
        size : int
            Samples that are wanted together.

        Yields
        ------
        array-like or sparse matrix
        """

    def chunks(self, size: int, skip: int = 0) -> Iterator[Any]:
        """Yield the samples in their order; see :meth:`Chunks.chunks`.

        Parameters
        ----------
        size : int
        skip : int, default=0

        Yields
        ------
        ndarray or csr_array [shape=(n, n_features)]

        Raises
        ------
        ParameterError
            If a chunk has another number of features than those before it, or is no array of numbers.
        """
        for number, piece in enumerate(self.pieces(size), start=1):
            chunk = check_chunk(piece, number, self.n_features)
            if not chunk.shape[0]:
                continue
            self.n_features = chunk.shape[1]
            if skip >= chunk.shape[0]:
                skip -= chunk.shape[0]
                continue
            yield chunk[skip:] if skip else chunk
            skip = 0


class Iterated(Sequential):
    """What an iterable yields.

    Parameters
    ----------
    source : iterable of array-like
        Repeatable unless it is an iterator, which can be read but once.
    """

    def __init__(self, source: Iterable[Any]) -> None:
        super().__init__()
        self._source = source
        self.repeatable = not isinstance(source, Iterator)

    def pieces(self, size: int) -> Iterator[Any]:
        """Yield its items; see :meth:`Sequential.pieces`.

        Parameters
        ----------
        size : int
            Ignored: the source decides.

        Yields
        ------
        array-like or sparse matrix
        """
        yield from self._source


def check_chunk(piece: Any, number: int, n_features: int | None) -> Any:
    """Return a chunk as a matrix of numbers, when it has as many features as those before it."""
    if sp.issparse(piece):
        check_sparse(piece, f"chunk {number}")
        chunk: Any = sp.csr_array(piece)
    else:
        check_whole(piece, f"chunk {number}")
        try:
            chunk = np.asarray(piece)
        except ValueError:  # ragged
            chunk = np.empty((), object)
    if chunk.dtype.kind not in KINDS and chunk.size:
        raise ParameterError(f"chunk {number} must be an array of numbers; got {shown(piece)}")
    if chunk.shape[:1] == (0,):
        return np.empty((0, n_features or 0))
    if chunk.ndim < 2:
        raise ParameterError(
            f"chunk {number} must have shape (n_samples, n_features); got {chunk.shape}; one sample is reshape(1, -1)"
        )
    chunk = flat(chunk)
    if n_features is not None and chunk.shape[1] != n_features:
        raise ParameterError(f"chunk {number} must have {n_features} features as those before; got {chunk.shape[1]}")
    return chunk


def check_whole(array: Any, name: str) -> None:
    """Raise ParameterError where entries of an array are masked, which batches do not keep."""
    if np.ma.is_masked(array):
        raise ParameterError(f"{name} must not be a masked array; got masked entries; pass filled(numpy.nan)")


def check_array(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return samples and features of an array that lies outside of memory, when its rows are numbers and bounded.

    Raises
    ------
    UnsupportedError
        If it holds no numbers, or has fewer than two axes, or no sample or no feature.
    TooLargeError
        If a single sample has more than 1 GiB.
    """
    if dtype.kind not in KINDS:
        raise UnsupportedError(f"{name}: holds {dtype}, not numbers")
    if len(shape) < 2:
        raise UnsupportedError(f"{name}: has shape {shape}; rows of samples are needed, (n_samples, n_features)")
    n_samples, n_features = int(shape[0]), math.prod(int(size) for size in shape[1:])
    if n_samples < 1 or n_features < 1:
        raise UnsupportedError(f"{name}: is empty, its shape is {shape}")
    check_bytes(f"{name}: a sample", n_features * dtype.itemsize)
    return n_samples, n_features


def flat(samples: Any) -> Any:
    """Return samples as rows."""
    return samples if samples.ndim == 2 else samples.reshape(len(samples), -1)
