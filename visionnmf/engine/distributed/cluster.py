"""A crew on the workers of a Dask cluster, which replaces workers that are lost.

One actor on each worker holds all blocks of that worker, so an iteration costs one call for each worker, whatever the
number of blocks. The crew remembers all messages that changed blocks. The blocks of a worker that is lost are read
again by the workers that are left, or by its replacement, and all messages are repeated for them: they end in the same
state, and the fit goes on as if nothing had happened. What has to be kept for this is as large as the components times
the number of iterations, and no state of a block ever leaves its worker.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from visionnmf._typing import Array
from visionnmf.exceptions import VisionNMFError

from .crew import Answer, Crew, Message, Shard, added

PATIENCE = 1.0  # seconds between two looks at whether a worker is still there
REPLACEMENT = 10.0  # seconds to wait for the replacement of a worker that was lost
NO_WORKER = 120.0  # seconds after which a fit without any worker fails
ATTEMPTS = 10  # times that workers may be lost before the fit fails


class _Member(NamedTuple):
    """The actor of a worker, and the numbers of its blocks."""

    future: Any  # of the actor
    actor: Any
    address: str
    numbers: list[int]


class WorkerLostError(Exception):
    """A worker was lost during a call; the crew catches it."""


class ClusterCrew(Crew):
    """A crew on the workers of `client`, with the numbers of rows of the blocks that `recipes` compute."""

    def __init__(self, client: Any, recipes: Sequence[Any], sizes: Sequence[int], *, in_files: bool = False) -> None:
        """Place blocks on the workers of the Dask `client`; each member is the actor of one worker with its blocks."""
        super().__init__(sizes)
        self._in_files = in_files
        self._client, self._recipes = client, list(recipes)
        self._log: list[Message] = []
        self._losses = 0  # how many workers have been lost
        self._n_workers = len(self._workers())
        self._members: list[_Member] = []
        self._fill(list(range(len(self._recipes))))

    def _workers(self) -> dict[str, int]:
        """Return the addresses of the workers with their numbers of threads; wait for the first worker if need be."""
        limit = time.monotonic() + NO_WORKER
        while True:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            if workers:
                return {address: worker["nthreads"] for address, worker in workers.items()}
            if time.monotonic() > limit:
                raise VisionNMFError(f"the Dask cluster has had no worker for {NO_WORKER:.0f} s; start one")
            time.sleep(0.2)

    def _send(self, messages: list[Message], n_reads: int) -> Answer:
        """Pass messages to the blocks of all workers; return the sum of their answers to the last one."""
        answers: dict[int, Answer] = {}  # by the number of the first block
        while True:
            asked = [member for member in self._members if member.numbers[0] not in answers]
            calls = [(member, self._call(member, "run", messages)) for member in asked]
            lost = []
            for member, call in calls:
                try:
                    answers[member.numbers[0]] = self._result(member, call)
                except WorkerLostError:
                    lost.append(member)
            if not lost:
                break
            self._replace(lost)
        self._log += [_copied(message) for message in messages[: len(messages) - n_reads]]
        first, *others = (answers[key] for key in sorted(answers))
        for other in others:
            first = added(first, other)
        return first

    def _call(self, member: _Member, method: str, *arguments: Any) -> Any:
        """Begin a call of a method of a member's actor, and return its future; None if its worker is already lost."""
        try:
            return getattr(member.actor, method)(*arguments)
        except (OSError, RuntimeError):
            return None

    def _result(self, member: _Member, call: Any) -> Any:
        """Wait for the result of a call that :meth:`_call` has begun; raise WorkerLostError if its worker is lost."""
        while call is not None:
            try:
                return call.result(timeout=PATIENCE)
            except TimeoutError:
                if self._is_lost(member):
                    break
            except Exception:
                time.sleep(0.1)  # the scheduler may not yet have noticed
                if self._is_lost(member):
                    break
                raise
        raise WorkerLostError(member.address)

    def _is_lost(self, member: _Member) -> bool:
        """Return whether a member's worker has gone, by its actor's state or the list of workers."""
        return member.future.status not in ("finished", "pending") or member.address not in self._workers()

    def _replace(self, lost: list[_Member]) -> None:
        """Read the blocks of lost members, the workers of a crew, again on others, and repeat all messages for them."""
        self._losses += len(lost)
        if self._losses > ATTEMPTS:
            raise VisionNMFError(
                f"the Dask cluster has lost workers {self._losses} times during the fit; give its workers more memory, "
                "or X more and smaller blocks"
            )
        self._members = [member for member in self._members if member not in lost]
        self._client.cancel([member.future for member in lost], force=True)
        limit = time.monotonic() + REPLACEMENT
        while len(self._workers()) < self._n_workers and time.monotonic() < limit:
            time.sleep(0.2)
        self._fill(sorted(number for member in lost for number in member.numbers))

    def _fill(self, numbers: list[int]) -> None:
        """Compute the blocks of these numbers by their recipes, and give them to the workers that hold the fewest."""
        while numbers:
            # reading is tied to no worker, because a task that is tied to one that is lost would wait for ever
            data = dict(zip(numbers, self._client.compute([self._recipes[number] for number in numbers]), strict=True))
            for future in data.values():
                self._until_done(future)
            workers = self._workers()
            parts = self._parts(data, workers)
            numbers = self._build(parts, data, workers)
            if numbers and self._in_files:  # what was written on a worker that is lost must be read again
                self._client.cancel([data[number] for number in numbers], force=True)

    def _until_done(self, future: Any) -> None:
        """Wait for a task that any worker may run, and raise what it has raised."""
        while not future.done():
            time.sleep(0.01)
        if future.status == "error":
            future.result()

    def _parts(self, data: dict[int, Any], workers: dict[str, int]) -> dict[str, list[int]]:
        """Return the numbers of the blocks that each worker (address) gets."""
        load = {address: 0 for address in workers}
        for member in self._members:
            load[member.address] = load.get(member.address, 0) + len(member.numbers)
        room = {address: 0 for address in workers}  # how many of these blocks each worker should get
        for _ in data:
            address = min(workers, key=lambda name: (load[name] + 1) / workers[name])
            load[address] += 1
            room[address] += 1
        # prefer a worker that has read the block already; the blocks without such a worker fill what room is left
        places = self._client.who_has(list(data.values()))
        parts: dict[str, list[int]] = {address: [] for address in workers}
        left = []
        for number, future in data.items():
            near = [
                address
                for address in places.get(future.key, ())
                if address in parts and (self._in_files or len(parts[address]) < room[address])
            ]
            if near:
                parts[near[0]].append(number)
            else:
                left.append(number)
        for address, part in parts.items():
            while left and len(part) < room[address]:
                part.append(left.pop(0))
        return {address: sorted(part) for address, part in parts.items() if part}

    def _build(self, parts: dict[str, list[int]], data: dict[int, Any], workers: dict[str, int]) -> list[int]:
        """Make an actor on each worker for its blocks; return the blocks of workers that were lost meanwhile."""
        starts, begun = self.starts, []
        for address, numbers in parts.items():
            future = self._client.submit(
                Shard, [data[number] for number in numbers], numbers, [starts[number] for number in numbers],
                workers[address], actor=True, pure=False, workers=[address], allow_other_workers=False,
            )  # fmt: skip
            begun.append((address, numbers, future))
        failed: list[int] = []
        for address, numbers, future in begun:
            if not self._settled(address, future):
                failed += numbers
                continue
            member = _Member(future, future.result(), address, numbers)
            try:
                if self._log:
                    self._result(member, self._call(member, "run", self._log))
            except WorkerLostError:
                failed += numbers
            else:
                self._members.append(member)
        return failed

    def _settled(self, address: str, future: Any) -> bool:
        """Wait for an actor's `future`; return False if the worker `address` is lost meanwhile, raise its errors."""
        while not future.done():
            time.sleep(0.01)
            if address not in self._workers():
                future.cancel(force=True)
                return False
        if future.status == "error" and address in self._workers():
            future.result()
        return bool(future.status == "finished")

    def codes(self) -> list[Any]:
        """Return futures of the final codes of each block, in order, computed on the workers that hold them."""
        found = {}
        for member in self._members:  # the actor of a worker, with the numbers of its blocks
            for number in member.numbers:
                found[number] = self._client.submit(
                    _codes_of, member.future, number, workers=[member.address], pure=False
                )
        return [found[number] for number in range(len(self.sizes))]

    def close(self) -> None:
        """Let go of all blocks: releasing the futures of the actors lets Dask remove them from the workers."""
        for member in self._members:
            member.future.release()
        self._members = []


def _copied(message: Message) -> Message:
    """Return a message (name of a method, its arguments) with copies of its arrays: solvers change them in place."""
    method, arguments = message
    return method, tuple(value.copy() if isinstance(value, np.ndarray) else value for value in arguments)


def _codes_of(actor: Any, number: int) -> Array:
    """Return the final codes (n_rows, r) of the block `number`; a task that Dask runs on the worker of the `actor`."""
    return np.asarray(actor.codes(number).result())
