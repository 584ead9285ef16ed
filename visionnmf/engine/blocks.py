"""Blocks of work in ordinary Python threads.

The kernels and BLAS release the interpreter lock, so a block may consist of a matrix product (on one BLAS thread), a
kernel and another product, without a second thread pool. Alternating between the pools of OpenBLAS and numba would cost
milliseconds in each iteration, because both spin. The result of a block does not depend on the number of threads, and
sums over blocks are computed in a fixed order, so results are the same for any number of threads.
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

T = TypeVar("T")
Block = tuple[int, int]
_Work = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]

BLOCK_ELEMENTS = 1 << 16  # a block of X, U and P in single precision (3 * 256 KiB) stays in a second-level cache


def n_threads() -> int:
    """Return the number of threads: VISIONNMF_NUM_THREADS, else OMP_NUM_THREADS, else the available processors."""
    for variable in ("VISIONNMF_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(pid: int, size: int) -> ThreadPoolExecutor:
    """Return the pool of threads of process `pid`, the key of the cache: threads do not survive a fork."""
    return ThreadPoolExecutor(size, thread_name_prefix="visionnmf", initializer=_mark_worker)


_here = threading.local()


def _mark_worker() -> None:
    """Mark the current thread as a worker of the pool: :func:`map_blocks` then runs nested work in it alone."""
    _here.is_worker = True


class _Keeper:
    """A thread that runs the functions passed to :meth:`call`, one after the other, and returns their results."""

    # An executor would not do: if a signal arrives while it starts its thread, that thread is never ended, and the
    # process waits for it for ever when it exits.

    def __init__(self) -> None:
        """Create neither the thread nor its queue: the first :meth:`call` does, because many processes never call."""
        # entries are (future that receives the result, function, its arguments); None until the thread has started
        self.work: SimpleQueue[_Work] | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``function(*arguments)`` in this object's only thread; return its result, or raise its exception."""
        if self.work is None:
            work: SimpleQueue[_Work] = SimpleQueue()
            threading.Thread(target=_serve, args=(work,), name="visionnmf-blas", daemon=True).start()
            self.work = work
        future: Future[Any] = Future()
        self.work.put((future, function, arguments))
        return future.result()


def _serve(work: SimpleQueue[_Work]) -> None:
    """Run the functions that arrive in the queue `work`, as (future, function, arguments), one after the other."""
    while True:
        future, function, arguments = work.get()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)


class _BlasLimit:
    """The number of callers that hold BLAS to one thread, and the limit that the first of them set."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # protects `depth` and `limits`
        self.depth = 0  # number of callers inside `one_blas_thread`
        self.limits: threadpool_limits | None = None  # set by the first caller; the last one lifts it
        # threadpoolctl lets only the thread that set a limit lift it, and callers may leave in any order
        self.keeper = _Keeper()


_blas_limits: dict[int, _BlasLimit] = {}  # by process id


def _blas_limit(pid: int) -> _BlasLimit:
    """Return the :class:`_BlasLimit` that all threads of process `pid` share."""
    # a forked process needs its own, because a thread of its parent may have held the lock
    return _blas_limits.get(pid) or _blas_limits.setdefault(pid, _BlasLimit())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Restrict BLAS to one thread inside the context, because the blocks already run in parallel."""
    limit = _blas_limit(os.getpid())
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
    """Restrict BLAS to one thread and return the object whose exit restores the previous number."""
    limits = _controller(os.getpid()).limit(limits=1, user_api="blas")
    limits.__enter__()
    return limits


@cache
def _controller(pid: int) -> ThreadpoolController:
    """Return threadpoolctl's controller of BLAS in process `pid`, the key of the cache: a fork needs one of its own."""
    import scipy.linalg.blas  # noqa: F401  # numba's products use SciPy's BLAS: it must be loaded to be limited

    # looks through all loaded libraries, which takes a millisecond
    return ThreadpoolController()


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Let the calling thread use at most this number of threads in :func:`map_blocks`, inside the context."""
    before = getattr(_here, "limit", None)  # thread-local
    _here.limit = threads
    try:
        yield
    finally:
        if before is None:
            del _here.limit
        else:
            _here.limit = before


def blocks(n: int, size: int) -> list[Block]:
    """Split ``range(n)`` into ranges of at most `size`."""
    return [(start, min(n, start + size)) for start in range(0, n, size)]


def rows_per_block(n_features: int) -> int:
    """Return how many rows of the data make a block that stays in cache."""
    return max(1, BLOCK_ELEMENTS // max(1, n_features))


def sum_rounding(dtype: Any) -> float:
    """Return the relative rounding error of a sum over a row in this dtype: 8 units, as chunks are summed."""
    return 8 * float(np.finfo(dtype).eps)


def row_blocks(X: Any, size: int = BLOCK_ELEMENTS) -> list[Block]:
    """Split rows into ranges of about `size` entries, stored ones if sparse, whatever the number of threads."""
    if not sp.issparse(X):
        return blocks(X.shape[0], max(1, size // max(1, X.shape[1])))
    # cost of all rows before each row: their stored entries, plus 1 a row because even an empty row takes time
    work = X.indptr + np.arange(X.shape[0] + 1, dtype=np.int64)
    cuts = np.searchsorted(work, np.arange(size, work[-1], size))
    return [(start, stop) for start, stop in pairwise([0, *cuts.tolist(), X.shape[0]]) if start < stop]


def map_blocks(function: Callable[[Block], T], work: Sequence[Block], *, parallel: bool = True) -> list[T]:
    """Apply `function` to every block ``(start, stop)``, in threads if `parallel`, and return the results in order."""
    nested = getattr(_here, "is_worker", False)  # a worker that waits for other workers could deadlock
    threads = min(n_threads(), getattr(_here, "limit", n_threads()))  # `at_most` sets the limit of this thread
    if threads == 1 or len(work) == 1 or nested or not parallel:
        return [function(block) for block in work]
    try:
        return list(_pool(os.getpid(), threads).map(function, work))
    except BaseException:
        # If a signal arrives while the pool starts a thread, the pool does not know that thread, and the process would
        # wait for it on exit. Dropping the last reference to the pool wakes it.
        _pool.cache_clear()
        raise
