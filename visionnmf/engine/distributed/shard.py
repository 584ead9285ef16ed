"""The blocks of one worker, which answer together."""

from __future__ import annotations

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


class Shard:
    """Some blocks of rows; a message goes to each of them, and their answers are added in double precision."""

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
