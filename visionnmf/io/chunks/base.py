"""The two forms of data in chunks, and the checks of every chunk."""

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

__all__ = ["KINDS", "Chunks", "Indexed", "Iterated", "Sequential", "check_whole", "flat"]

Array = NDArray[Any]

KINDS = "biuf"  # kinds of dtypes that are numbers: truth values, integers, floating point


class Chunks(ABC):
    """Samples that come in chunks; a context manager that closes what it has opened.

    Attributes
    ----------
    name : str
        The file, or ``"X"``, for messages.
    n_samples : int or None
        None if it is not known before the end.
    n_features : int or None
        None if it is not known before the first chunk.
    image_shape : tuple of two ints or None
        Height and width if samples are images; None also before the first image has been read.
    repeatable : bool
        Whether the samples can be read a second time.
    can_reorder : bool
        Whether :meth:`reorder` can be called.
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

        Raises
        ------
        ParameterError
            If a chunk is not an array of numbers, or has another number of features than the chunks before it.
        """

    def reorder(self, rng: np.random.Generator) -> None:
        """Draw a new order of the samples; only if `can_reorder`.

        Parameters
        ----------
        rng : Generator
        """
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027  # most sources have nothing to close
        """Close what was opened."""


class Indexed(Chunks):
    """Samples that can be read at any position.

    Attributes
    ----------
    block : int
        The number of samples that are stored together: reading fewer of them takes as long.

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
        """Set the attributes that follow from the shape, when the rows are numbers and not too large."""
        if dtype.kind not in KINDS:
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
        """Return the samples ``start:stop``, which exist.

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
    """Samples that can only be read in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io.chunks import Sequential, open_chunks
    >>> isinstance(open_chunks(iter([np.eye(4)])), Sequential)
    True
    """

    @abstractmethod
    def pieces(self, size: int) -> Iterator[Any]:
        """Yield the samples as they come, unchecked.

        Parameters
        ----------
        size : int
            The number of samples that the caller wants together.

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
        """
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
        super().__init__()
        self._source = source
        self.repeatable = not isinstance(source, Iterator)

    def pieces(self, size: int) -> Iterator[Any]:
        """Yield samples as they come."""
        yield from self._source


def _checked(piece: Any, number: int, n_features: int | None) -> Any:
    """Return chunk `number` of a source as a matrix of numbers, one row for each sample.

    Raises ParameterError if it is not one, or has another number of features than the chunks before it.
    """
    if sp.issparse(piece):
        check_sparse(piece, f"chunk {number}")
        chunk: Any = sp.csr_array(piece)
    else:
        check_whole(piece, f"chunk {number}")
        try:
            chunk = np.asarray(piece)
        except ValueError:  # lists of different lengths
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
        raise ParameterError(
            f"chunk {number} must have {n_features} features as the chunks before it; got {chunk.shape[1]}"
        )
    return chunk


def check_whole(array: Any, name: str) -> None:
    """Raise ParameterError where entries of an array are masked, as NumPy would silently use them."""
    if np.ma.is_masked(array):
        raise ParameterError(f"{name} must not be a masked array; got masked entries; pass filled(numpy.nan)")


def flat(samples: Any) -> Any:
    """Return samples of any number of axes as rows."""
    return samples if samples.ndim == 2 else samples.reshape(len(samples), -1)
