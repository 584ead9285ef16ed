"""Jobs on the workers of a Dask cluster, in place of processes of this machine.

Inside :func:`visionnmf.apps.on_cluster` every pool of :mod:`.pool` is one of the cluster, so that what shares its jobs
among processes shares them among workers. Nothing of Dask is imported before a pool is opened.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from visionnmf import __version__
from visionnmf._text import one_line
from visionnmf.apps import cluster_address
from visionnmf.exceptions import VisionNMFError, installed_by

PATIENCE = 10.0  # seconds in which a scheduler must answer and have a worker

T = TypeVar("T")


class LostJobError(VisionNMFError):
    """Several workers were lost, one after the other, while they had this job; other jobs can go on."""


@contextmanager
def open_workers() -> Iterator[Executor | None]:
    """Open the pool of the workers of a block of :func:`.on_cluster`; yield None outside of one.

    An exception in the block withdraws the jobs that have not begun.
    """
    scheduler = cluster_address()
    if scheduler is None:
        yield None
        return
    logs = logging.getLogger("distributed")
    level = logs.level
    logs.setLevel(logging.CRITICAL)  # what is lost is reported by the jobs that are lost with it
    try:
        with _client(scheduler) as client:
            _check_workers(scheduler, client)
            yield _Workers(scheduler, client)
    finally:
        logs.setLevel(level)


def _client(scheduler: str) -> Any:
    """Return a client of a scheduler; raise VisionNMFError if there is none, or no Dask."""
    try:
        from distributed import Client
    except ImportError as error:
        raise VisionNMFError(f"a scheduler needs Dask, which is not installed; {installed_by('dask')}") from error
    try:
        # A client that finds no scheduler leaves threads behind, or waits for ever, so the address is tried first; in a
        # thread, because the loop of a notebook may run in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _greeted(scheduler)).result()
        return Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise VisionNMFError(
            f"scheduler {scheduler}: does not answer ({one_line(error)}); `dask scheduler` starts one"
        ) from error


async def _greeted(scheduler: str) -> None:
    """Ask a scheduler who it is; raise OSError if nobody answers in time, and ValueError if it is no address."""
    from distributed import Security
    from distributed.core import rpc

    async with rpc(scheduler, timeout=PATIENCE, connection_args=Security().get_connection_args("client")) as asked:
        await asyncio.wait_for(asked.identity(), PATIENCE)


def _check_workers(scheduler: str, client: Any) -> None:
    """Wait for a worker, and raise VisionNMFError if none comes, or if one of those that are there does not suit."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise VisionNMFError(
            f"scheduler {scheduler}: has no worker; `dask worker {scheduler}` starts one (with nthreads 1)"
        ) from error
    threads = client.nthreads()
    for worker, found in client.get_versions(packages=["visionnmf"])["workers"].items():
        _check_worker(worker, found["packages"].get("visionnmf"), __version__, threads.get(worker, 1))


def _check_worker(worker: str, version: str | None, needed: str, threads: int) -> None:
    """Raise VisionNMFError if a worker has another version of visionnmf than is `needed`, or several threads.

    Threads share what jobs change for their process: the current folder and the filters of warnings.
    """
    if version != needed:
        has = "no visionnmf" if version is None else f"visionnmf {version}"
        raise VisionNMFError(f"worker {worker}: has {has}; install {needed} there, the version of this command")
    if threads != 1:
        raise VisionNMFError(f"worker {worker}: has {threads} threads; start it with nthreads 1, and more of them")


class _Workers(Executor):
    """The workers of a cluster as a pool."""

    def __init__(self, scheduler: str, client: Any) -> None:
        self._scheduler, self._client = scheduler, client
        self._pool = client.get_executor(pure=False)
        self._place = __version__, os.getcwd(), time.time()  # what `_do` needs to know
        self._sent: dict[int, tuple[partial[Any], Any]] = {}  # by id: partial functions, and those on the cluster

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call. What is bound to a partial function is sent once for all its calls."""
        import dask

        sent: Any = fn
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):  # arguments may be large
            if isinstance(fn, partial):
                if id(fn) not in self._sent:
                    self._sent[id(fn)] = fn, self._client.submit(_itself, fn, pure=False)
                sent = self._sent[id(fn)][1]
            task = self._pool.submit(_do, self._place, sent, args, kwargs)
        found: Future[T] = Future()
        task.add_done_callback(partial(self._hand_on, found))
        return found

    def _hand_on(self, found: Future[T], task: Future[T]) -> None:
        """Give the outcome of a task of Dask to the future that `submit` has returned, with errors of ours."""
        from distributed import KilledWorker

        try:
            found.set_result(task.result())
        except CancelledError:
            found.set_exception(VisionNMFError(f"scheduler {self._scheduler}: was lost; start it and the run again"))
        except KilledWorker:
            sentence = "workers were lost while they had it, perhaps because memory ran out; give them more"
            found.set_exception(LostJobError(sentence))
        except BaseException as error:
            found.set_exception(error)


def _itself(function: T) -> T:
    """Return a function: the result of a task, and so kept by the cluster."""
    return function


def _do(place: tuple[str, str, float], function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """Call a function on a worker, in one thread and in the folder of the process that has submitted it.

    `place` has the version of that process, its folder, and the time at which it began. Files written since then are
    results of this run: perhaps those of a worker that was lost before it could report them, so they are replaced.
    """
    from distributed import get_worker
    from threadpoolctl import threadpool_limits

    from visionnmf.io import replacing_since

    version, folder, began = place
    worker = get_worker()
    _check_worker(worker.address, __version__, version, worker.state.nthreads)
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    before = os.getcwd()
    try:
        os.chdir(folder)
    except OSError as error:
        raise VisionNMFError(
            f"worker {worker.address}: cannot enter {folder} ({error.strerror}); workers need a shared path"
        ) from error
    try:
        with threadpool_limits(1), replacing_since(began):
            return function(*args, **kwargs)
    finally:
        os.chdir(before)
