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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController, threadpool_limits

__all__ = ["BLOCK_ELEMENTS", "blocks", "map_blocks", "n_threads", "one_blas_thread", "row_blocks", "rows_per_block"]

T = TypeVar("T")
Block = tuple[int, int]
_Work = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]

BLOCK_ELEMENTS = 1 << 16  # a block of X, U and P in single precision (3 * 256 KiB) stays in a second-level cache


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


class _Keeper:
    """A thread that calls what it is given, one after the other; :meth:`call` by one caller at a time.

    Not an executor: a signal that comes while one starts its thread leaves a thread that nobody ends, and for which the
    process waits at its end, for ever.
    """

    def __init__(self) -> None:
        self.work: SimpleQueue[_Work] | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.work is None:
            work: SimpleQueue[_Work] = SimpleQueue()
            threading.Thread(target=_serve, args=(work,), name="visionnmf-blas", daemon=True).start()
            self.work = work
        future: Future[Any] = Future()
        self.work.put((future, function, arguments))
        return future.result()


def _serve(work: SimpleQueue[_Work]) -> None:
    while True:
        future, function, arguments = work.get()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)


class _Limit:
    """How many callers hold BLAS to one thread, and what the first of them set."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.limits: threadpool_limits | None = None
        # threadpoolctl lets only the thread that set a limit lift it, and callers may leave in any order
        self.keeper = _Keeper()


_limit_of: dict[int, _Limit] = {}


def _limit(pid: int) -> _Limit:
    """Return that of a process, the same to all threads; after a fork a new one: the lock may be held for ever."""
    return _limit_of.get(pid) or _limit_of.setdefault(pid, _Limit())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the BLAS to one thread; the blocks are the parallelism.

    The limit belongs to the process, so it is set when the first of several callers enters and lifted when the last
    one leaves. A limit that the user has set with threadpoolctl stays as it is.
    """
    limit = _limit(os.getpid())
    with limit.lock:
        if limit.depth == 0:
            limit.limits = limit.keeper.call(_hold_blas)
        limit.depth += 1
    try:
        yield
    finally:
        with limit.lock:
            limit.depth -= 1
            if limit.depth == 0 and limit.limits is not None:
                limit.keeper.call(limit.limits.__exit__, None, None, None)


def _hold_blas() -> threadpool_limits:
    limits = _controller(os.getpid()).limit(limits=1, user_api="blas")
    limits.__enter__()
    return limits


@cache
def _controller(pid: int) -> ThreadpoolController:
    import scipy.linalg.blas  # noqa: F401  # numba's products use SciPy's BLAS: it must be loaded to be held

    return ThreadpoolController()  # looks through all loaded libraries, which takes a millisecond


def blocks(n: int, size: int) -> list[Block]:
    """Split ``range(n)`` into ranges of at most `size`."""
    return [(start, min(n, start + size)) for start in range(0, n, size)]


def rows_per_block(n_features: int) -> int:
    """Return how many rows of the data make a block that stays in cache."""
    return max(1, BLOCK_ELEMENTS // max(1, n_features))


def row_blocks(X: Any, size: int = BLOCK_ELEMENTS) -> list[Block]:
    """Split the rows of the data into ranges of about `size` entries: all of a dense array, the stored of a sparse one.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array [shape=(n_rows, n)]
    size : int
        The default stays in cache.

    Returns
    -------
    list of (int, int)
        The same for any number of threads; a row is never split.
    """
    if not sp.issparse(X):
        return blocks(X.shape[0], max(1, size // max(1, X.shape[1])))
    work = X.indptr + np.arange(X.shape[0] + 1, dtype=np.int64)  # an empty row is work too
    cuts = np.searchsorted(work, np.arange(size, work[-1], size))
    return [(start, stop) for start, stop in pairwise([0, *cuts.tolist(), X.shape[0]]) if start < stop]


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
    try:
        return list(_pool(os.getpid(), threads).map(function, work))
    except BaseException:
        # a signal that comes while the pool starts a thread leaves one it does not know, for which the process would
        # wait at its end: only a pool that nobody holds wakes it
        _pool.cache_clear()
        raise
