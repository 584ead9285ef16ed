"""Blocks of work in ordinary Python threads.

The kernels and the BLAS release the interpreter lock, so a block may hold a matrix product (on one BLAS thread), a
kernel, and another product, without a second pool of threads: alternating OpenBLAS's pool with numba's costs
milliseconds an iteration, because both spin. What a block computes does not depend on how many threads there are, and
sums over blocks are taken in their order, so results are the same for any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["blocks", "map_blocks", "n_threads", "one_library_thread"]

T = TypeVar("T")
Block = tuple[int, int]


def n_threads() -> int:
    """Return how many threads may be used: VISIONNMF_NUM_THREADS, else OMP_NUM_THREADS, else the processors we have."""
    for variable in ("VISIONNMF_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(pid: int, size: int) -> ThreadPoolExecutor:
    # keyed on the process: threads do not survive a fork, as joblib's workers may do one
    return ThreadPoolExecutor(size, thread_name_prefix="visionnmf", initializer=_mark_worker)


_here = threading.local()


def _mark_worker() -> None:
    _here.is_worker = True


class _Limit:
    """How many callers hold the libraries to one thread, and what the first of them found."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.depth = 0
        self.restore: Callable[[], None] | None = None


_limit = _Limit()


@contextmanager
def one_library_thread() -> Iterator[None]:
    """Hold BLAS and OpenMP to one thread each; the blocks are the parallelism.

    The limit belongs to the process, so it is set when the first of several callers enters and lifted when the last
    one leaves.
    """
    global _limit
    if _limit.pid != os.getpid():  # after a fork the lock may be held by a thread that is not here
        _limit = _Limit()
    limit = _limit
    with limit.lock:
        if limit.depth == 0:
            limit.restore = threadpool_limits(1).restore_original_limits
        limit.depth += 1
    try:
        yield
    finally:
        with limit.lock:
            limit.depth -= 1
            if limit.depth == 0 and limit.restore is not None:
                limit.restore()


def blocks(n: int, size: int) -> list[Block]:
    """Split ``range(n)`` into ranges of at most `size`."""
    return [(start, min(n, start + size)) for start in range(0, n, size)]


def map_blocks(function: Callable[[Block], T], work: Sequence[Block], *, parallel: bool = True) -> list[T]:
    """Apply `function` to every block, in threads where that helps, and return the results in the blocks' order.

    Parameters
    ----------
    function : callable
        Takes ``(start, stop)``.
    work : sequence of (int, int)
    parallel : bool, default=True
        False for work too small to be handed to another thread (some 50 microseconds).

    Returns
    -------
    list
    """
    nested = getattr(_here, "is_worker", False)  # a worker that waited for workers would wait for ever
    threads = n_threads()
    if threads == 1 or len(work) == 1 or nested or not parallel:
        return [function(block) for block in work]
    return list(_pool(os.getpid(), threads).map(function, work))
