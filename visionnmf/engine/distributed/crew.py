"""Crews: all blocks of a fit, which get the same messages and whose answers are added up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from visionnmf._typing import Array

from .block import BlockData
from .shard import Answer, Message, Shard


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
