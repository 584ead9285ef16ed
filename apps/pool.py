"""A pool of processes of one thread each, which end on request, or by themselves if the first process was killed.

An interrupt goes to the first process, which ends the others. Each of them removes what it has half written and starts
none of the jobs that it had already received. In a block of :func:`.on_cluster` the pool is that cluster.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, active_children, get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from visionnmf.exceptions import VisionNMFError
from visionnmf.io.decoding import decode_apart, decodes_apart

from .cluster import open_workers

GRACE = 5.0  # seconds that a process has for removing half-written files before it is ended

T = TypeVar("T")


@contextmanager
def open_pool(processes: int) -> Iterator[Executor]:
    """Open a pool of processes of one thread each, or that of :func:`.on_cluster`; any exception ends them all."""
    with open_workers() as workers:
        if workers is not None:
            yield workers
            return
    others = set(active_children())  # processes that were there before, and are none of ours
    # Spawned, not forked: a fork would inherit the state of thread pools. `_begin` runs first in each process.
    with _Pool(processes, get_context("spawn"), _begin, (decodes_apart(),)) as pool:
        try:
            with _lost_processes_reported():
                yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()  # otherwise an interrupt would wait for the running jobs
            raise


class _Pool(ProcessPoolExecutor):
    """A pool whose processes start no further job once they were asked to end."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call that is not begun any more once its process was asked to end; `_work` checks that there."""
        return super().submit(_work, fn, *args, **kwargs)

    def map(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield results in order, as `Executor.map` does; the loss of a process is reported with a cure."""
        return _reported(super().map(*args, **kwargs))


def _reported(found: Iterator[T]) -> Iterator[T]:
    """Yield results; report a process that is lost while they are awaited."""
    with _lost_processes_reported():
        yield from found


@contextmanager
def _lost_processes_reported() -> Iterator[None]:
    """Turn the loss of a process into a VisionNMFError with a cure."""
    try:
        yield
    except BrokenProcessPool as error:
        raise VisionNMFError(
            "a process was ended from outside, perhaps because memory ran out; fewer at a time (n_jobs) may fit"
        ) from error


class _Own:
    """The state of this process of a pool."""

    working = False
    ending = False
    wake: Connection


def _work(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function in a process of a pool, unless it was asked to end: queued jobs cannot be withdrawn."""
    try:
        _Own.working = True  # set before the test, so that no signal can fall between the two
        if _Own.ending:
            raise KeyboardInterrupt
        return function(*args, **kwargs)
    finally:
        _Own.working = False


def _begin(apart: bool) -> None:
    """Limit this process to one thread, and let it end on SIGTERM or after the end of the first process."""
    from threadpoolctl import threadpool_limits

    if apart:  # each process has a decoder of its own
        decode_apart()
    awake, _Own.wake = Pipe(duplex=False)
    threading.Thread(target=_watch, args=(awake,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process gets it as well and ends this one ...
    signal.signal(signal.SIGTERM, _end)  # ... by an exception, so that half-written files are removed
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    threadpool_limits(1)


def _end(_number: int, _frame: object) -> None:
    """Handle the signal to end: stop the job of this process, and wake the watching thread by the pipe."""
    if _Own.ending:  # a second signal would interrupt the clean-up that the first one started
        return
    _Own.ending = True
    _Own.wake.send_bytes(b".")
    if _Own.working:  # otherwise a result may be half sent, and the first process would wait for the rest
        raise KeyboardInterrupt


def _watch(awake: Connection) -> None:
    """End this process soon after `_end` has written to the pipe `awake`, or the first process was killed."""
    first = parent_process()
    gone = [] if first is None else [first.sentinel]
    if awake not in wait([awake, *gone]):
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)
