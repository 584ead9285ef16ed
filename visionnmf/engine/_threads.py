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

from threadpoolctl import ThreadpoolController

__all__ = ["blocks", "map_blocks", "n_threads", "one_blas_thread"]

T = TypeVar("T")
Block = tuple[int, int]


def n_threads() -> int:
    """Return how many threads may be used: VISIONNMF_NUM_THREADS, else OMP_NUM_THREADS, else the processors we have."""
    for variable in ("VISIONNMF_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "")
        if value.isdigit() and int(value) > 0:
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


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the BLAS to one thread; the blocks are the parallelism."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


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
    threads = min(n_threads(), len(work)) if parallel and not nested else 1
    if threads == 1:
        return [function(block) for block in work]
    return list(_pool(os.getpid(), threads).map(function, work))
