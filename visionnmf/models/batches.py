"""The samples that an :class:`~visionnmf.OnlineNMF` learns: in memory, in a memory map, or in blocks of a Dask array.

What is not in memory is read while the model learns, and checked batch by batch.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.random import RandomState

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import is_not_numpy, numpy_dtype
from visionnmf.engine.problem import Problem
from visionnmf.exceptions import ParameterError

from .blocks import DaskBlocks
from .chunks import joined
from .data_checks import is_dask

Batch = Problem | tuple[Any, Any]  # checked, or data and weights of the entries as they were given


def in_parts(X: Any) -> bool:
    """Return whether the samples of `X` are read and checked batch by batch: a Dask array or a memory map."""
    return is_dask(X) or (isinstance(X, np.memmap) and X.ndim == 2 and X.size > 0)


class Samples(ABC):
    """Samples that are read in batches, in any order."""

    shape: tuple[int, int]
    dtype: Any

    def order(self, kept: Array, rng: RandomState | None) -> Array:
        """Return the numbers `kept` of samples, which ascend, in an order for a pass: a random one with `rng`."""
        return kept if rng is None else rng.permutation(kept)

    @abstractmethod
    def read(self, order: Array, work: list[tuple[int, int]]) -> Iterator[Batch]:
        """Yield the samples ``order[start:stop]`` for each (start, stop) in `work`; `order` has numbers of samples."""


class CheckedSamples(Samples):
    """The samples of a problem that is in memory and was checked as a whole."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        X = problem.X
        self.shape, self.dtype = (int(X.shape[0]), int(X.shape[1])), numpy_dtype(X) if is_not_numpy(X) else X.dtype

    def read(self, order: Array, work: list[tuple[int, int]]) -> Iterator[Batch]:
        """Yield the problem of each batch: `work` has the places in `order` where it begins and ends."""
        for block in work:
            yield self.problem.samples(_rows(order, block))


class MappedSamples(Samples):
    """The samples of a memory map, and the weights of their entries or None; none of them are checked."""

    def __init__(self, X: np.memmap, weights: Any) -> None:
        self._X, self._weights = X, None
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)  # in which it is learnt
        if weights is not None:
            weights = np.asanyarray(weights)
            try:
                self._weights = np.broadcast_to(weights, X.shape)
            except ValueError:
                raise ParameterError(f"weights must have the shape of X, {X.shape}; got {weights.shape}") from None

    def read(self, order: Array, work: list[tuple[int, int]]) -> Iterator[Batch]:
        """Yield the data and the weights of each batch, read from the file."""
        for block in work:
            rows = _rows(order, block)  # a slice, which is read faster, if the samples follow each other in the file
            yield self._X[rows], None if self._weights is None else self._weights[rows]


class BlockSamples(Samples):
    """The samples of a Dask array: the client or Dask reads a block while the one before it is learnt."""

    def __init__(self, model: Any, X: Any, weights: Any, *, reset: bool) -> None:
        data = DaskBlocks(model, X, weights, reset=reset)
        self.shape, self.dtype = (int(X.shape[0]), int(X.shape[1])), data.dtype
        self._X, self._weights = data.X, data.weights
        self._ends = np.cumsum(data.sizes)  # the first row after each block
        # blocks that were read, or are being read, by their numbers
        self._held: dict[int, Future[Any]] = {}

    def order(self, kept: Array, rng: RandomState | None) -> Array:
        """Return the samples in their order, or the blocks in random order and the samples of each shuffled."""
        if rng is None:
            return kept
        parts = np.split(kept, np.searchsorted(kept, self._ends[:-1]))  # the samples of each block
        return np.concatenate([rng.permutation(parts[number]) for number in rng.permutation(len(parts))])

    def read(self, order: Array, work: list[tuple[int, int]]) -> Iterator[Batch]:
        """Yield the data and the weights of each batch; the samples of a block must follow each other in `order`."""
        of_row = np.searchsorted(self._ends, order[: work[-1][1]], side="right")  # block of a sample
        numbers = of_row[np.flatnonzero(np.diff(of_row, prepend=-1))].tolist()
        reading = self._blocks(numbers)  # yields for each block its data and, if there are any, its weights
        number = -1
        arrays: tuple[Any, ...] = ()  # the present block
        for start, stop in work:
            batch: list[list[Any]] = []
            for wanted in dict.fromkeys(of_row[start:stop].tolist()):
                if wanted != number:
                    number, arrays = wanted, ()  # the block before may go now
                    arrays = next(reading)
                first = self._ends[number - 1] if number else 0
                rows = order[start:stop][of_row[start:stop] == number] - first
                batch.append([array[rows] for array in arrays])
            X, *weights = (joined(list(parts)) for parts in zip(*batch, strict=True))
            yield X, weights[0] if weights else None

    def _blocks(self, numbers: list[int]) -> Iterator[tuple[Any, ...]]:
        """Yield the blocks of these numbers, data and weights if there are any, and read one ahead."""
        import dask

        arrays = [array for array in (self._X, self._weights) if array is not None]
        with ThreadPoolExecutor(1) as reader:
            for i, number in enumerate(numbers):
                held = self._held
                # this block and the next one; what is at hand is kept, and all other blocks are given up
                self._held = {
                    k: held[k] if k in held else reader.submit(dask.compute, *(array.blocks[k] for array in arrays))
                    for k in numbers[i : i + 2]
                }
                del held
                yield self._held[number].result()


def _rows(order: Array, block: tuple[int, int]) -> slice | Array:
    """Return the numbers ``order[start:stop]`` of samples, as a slice if each follows the one before."""
    rows = order[slice(*block)]
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


@contextmanager
def as_before(model: Any) -> Iterator[None]:
    """Give a model its fitted attributes back if an error is raised in this context."""
    before = {name: copy.deepcopy(value) for name, value in vars(model).items() if name.endswith("_")}
    try:
        yield
    except BaseException:
        for name in [name for name in vars(model) if name.endswith("_")]:
            delattr(model, name)
        vars(model).update(before)
        raise
