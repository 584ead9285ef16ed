"""Processes that work side by side, one thread each, and end when they are told to or nobody is left to tell them.

An interrupt is for the first process, which ends the others: each removes what it has half written, and begins nothing
of what it was handed before. Where the first process is killed, the others end by themselves.
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

__all__ = ["open_pool"]

GRACE = 5.0  # seconds in which a process that is to end may remove what it has half written

T = TypeVar("T")


@contextmanager
def open_pool(processes: int) -> Iterator[Executor]:
    """Open a pool of processes of one thread each; whatever is raised in the block, an interrupt too, ends them all.

    Parameters
    ----------
    processes : int

    Yields
    ------
    concurrent.futures.Executor

    Raises
    ------
    VisionNMFError
        When one of the processes was killed.
    """
    others = set(active_children())
    # fresh processes of one thread each: forked ones would share the state of thread pools
    with _Pool(processes, get_context("spawn"), _begin) as pool:
        try:
            with _telling_of_lost_processes():
                yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()  # else an interrupt would wait for the jobs that are running
            raise


class _Pool(ProcessPoolExecutor):
    """A pool whose processes take up nothing more once they are to end."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(_work, fn, *args, **kwargs)

    def map(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return _telling(super().map(*args, **kwargs))


def _telling(found: Iterator[T]) -> Iterator[T]:
    with _telling_of_lost_processes():
        yield from found


@contextmanager
def _telling_of_lost_processes() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise VisionNMFError(
            "a process was ended from outside, perhaps because memory ran out; fewer at a time (n_jobs) may fit"
        ) from error


class _Own:
    """What a process of a pool knows of itself."""

    working = False
    ending = False
    wake: Connection


def _work(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function in a process of a pool, unless it is to end: jobs handed to it before cannot be called back."""
    try:
        _Own.working = True  # before the question, so that no signal falls between
        if _Own.ending:
            raise KeyboardInterrupt
        return function(*args, **kwargs)
    finally:
        _Own.working = False


def _begin() -> None:
    """Make a process of a pool one of a single thread, which ends when the first process says so, or has ended."""
    from threadpoolctl import threadpool_limits

    awake, _Own.wake = Pipe(duplex=False)
    threading.Thread(target=_watch, args=(awake,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process has it too, and ends this one ...
    signal.signal(signal.SIGTERM, _end)  # ... by an exception, so that half-written files are removed
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    threadpool_limits(1)


def _end(_number: int, _frame: object) -> None:
    if _Own.ending:  # a second signal would cut off what the first one's exception removes
        return
    _Own.ending = True
    _Own.wake.send_bytes(b".")
    if _Own.working:  # else a result may be half sent, for whose other half the first process would wait
        raise KeyboardInterrupt


def _watch(awake: Connection) -> None:
    """End this process soon after it was told to, whatever it waits for, and where the first one was killed."""
    first = parent_process()
    gone = [] if first is None else [first.sentinel]
    if awake not in wait([awake, *gone]):
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)
