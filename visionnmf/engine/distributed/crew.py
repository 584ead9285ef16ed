"""Crews: all blocks of a fit, which get the same messages and whose answers are added up, shard by shard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import RandomState

from visionnmf._typing import Array
from visionnmf.engine.blocks import at_most, map_blocks, n_threads, one_blas_thread

from .block import Block, BlockData

Message = tuple[str, tuple[Any, ...]]
Answer = tuple[Any, ...]


class Crew(ABC):
    """All blocks of a fit. `sizes` are their numbers of rows."""

    def __init__(self, sizes: Sequence[int]) -> None:
        """Keep the numbers of rows of the blocks; `_waiting` has messages without answers, sent with the next one."""
        self.sizes = list(sizes)
        # messages without an answer, which travel with the next one
        self._waiting: list[Message] = []

    @property
    def starts(self) -> list[int]:
        """The number of the first row of each block."""
        return [sum(self.sizes[:number]) for number in range(len(self.sizes))]

    def tell(self, method: str, *arguments: Any) -> None:
        """Have a method of all blocks, without an answer, called before the next method whose answers are summed."""
        self._waiting.append((method, arguments))

    def update_and_sum(self, method: str, *arguments: Any) -> Answer:
        """Call a method of all blocks by its name, after waiting messages; return the sums of the answers' items."""
        # the method changes the blocks, so it is not among the last `n_reads` messages, which only read
        return self._send([*self._take_waiting(), (method, arguments)], n_reads=0)

    def sum_of(self, method: str, *arguments: Any) -> Answer:
        """Call a method that changes no block for all of them; return the sums of the items of their answers."""
        return self._send([*self._take_waiting(), (method, arguments)], n_reads=1)

    def _take_waiting(self) -> list[Message]:
        """Return the messages of :meth:`tell` that wait for the next question, and forget them."""
        waiting, self._waiting = self._waiting, []
        return waiting

    @abstractmethod
    def _send(self, messages: list[Message], n_reads: int) -> Answer:
        """Pass messages on, of which the last `n_reads` change no block; return the answer to the last one."""

    @abstractmethod
    def codes(self) -> list[Any]:
        """Return the final codes (n_rows, r) of each block: arrays, or futures that hold them."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all blocks."""


class LocalCrew(Crew):
    """A crew whose blocks are in this process and share its threads."""

    def __init__(self, data: Sequence[BlockData], sizes: Sequence[int]) -> None:
        super().__init__(sizes)
        # the numbers of the blocks, here all of them, and that of the first row of each among all rows
        self._shard = Shard(data, range(len(data)), self.starts)

    def _send(self, messages: list[Message], n_reads: int) -> Answer:
        return self._shard.run(messages)

    def codes(self) -> list[Array]:
        """Return the final codes (n_rows, r) of each block; `_shard` holds all blocks."""
        return [self._shard.codes(number) for number in range(len(self.sizes))]

    def close(self) -> None:
        """Let go of all blocks."""
        del self._shard


class Shard:
    """The blocks of one worker; a message goes to each of them, and their answers are added in double precision."""

    def __init__(
        self, data: Sequence[BlockData], numbers: Sequence[int], starts: Sequence[int], threads: int | None = None
    ) -> None:
        """Open blocks, with their `numbers`, and first rows, among all; `threads` None is as many as there are."""
        self.blocks = [Block(item) for item in data]
        self.numbers, self.starts = list(numbers), list(starts)
        self.threads = threads or n_threads()

    def run(self, messages: Sequence[Message]) -> Answer:
        """Pass messages (method, arguments) to this object, or each block; return the last answer, added up."""
        answer: Answer = ()
        with at_most(self.threads), one_blas_thread():
            for method, arguments in messages:
                own = getattr(self, method, None)  # a method of this class sees all blocks together
                answer = self._ask(method, arguments) if own is None else own(*arguments)
        return answer

    def codes(self, number: int) -> Array:
        """Return the final codes (n_rows, r) of the block with this number among all blocks; "finish" found them."""
        return np.ascontiguousarray(self.blocks[self.numbers.index(number)].found.T)

    def draw(self, state: Any, n_samples: int, scale: float) -> tuple[Any]:
        """Draw starting codes as a fit in memory does, and return the state of the generator afterwards."""
        rng = RandomState()
        rng.set_state(state)
        for k in range(len(self.blocks[0].Wt)):
            row = np.abs(rng.standard_normal(n_samples))
            for block, start in zip(self.blocks, self.starts, strict=True):
                Wt = block.Wt
                Wt[k] = row[start : start + Wt.shape[1]].astype(Wt.dtype) * Wt.dtype.type(scale)
        # answers are tuples, which the crew adds up by item; the sum of these states is any one of them
        return (GeneratorState(rng.get_state()),)

    def draw_each(self, seeds: Sequence[int], scale: float) -> Answer:
        """Draw starting codes, of standard deviation `scale`, for each block from its own of the `seeds`."""
        for block, number in zip(self.blocks, self.numbers, strict=True):
            block.draw_codes(seeds[number], scale)
        return ()

    def _ask(self, method: str, arguments: tuple[Any, ...]) -> Answer:
        """Call a method of all blocks, by threads with a range of blocks each, and add up the answers by item."""
        count = min(len(self.blocks), self.threads)
        bounds = np.linspace(0, len(self.blocks), count + 1).astype(int).tolist()

        def several(part: tuple[int, int]) -> Answer:
            """Ask the blocks of one thread, and add up their answers, tuples or None, in double precision."""
            total: Answer | None = None
            for block in self.blocks[slice(*part)]:
                answer = getattr(block, method)(*arguments) or ()
                block.release()  # gives back the memory of mapped files
                total = tuple(map(widened, answer)) if total is None else added(total, answer)
            return total or ()

        return reduce(added, map_blocks(several, list(pairwise(bounds))))


class GeneratorState:
    """The state of a generator of random numbers, which is the same for all shards."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __add__(self, other: GeneratorState) -> GeneratorState:
        return self


def added(first: Answer, second: Answer) -> Answer:
    """Return the sum of two answers, item by item; an item may define its own sum, such as the larger of two."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def widened(value: Any) -> Any:
    """Return an array in double precision; other values as they are."""
    return value.astype(np.float64) if isinstance(value, np.ndarray) else value
