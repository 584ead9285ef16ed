"""Jobs on the workers of a Dask cluster, in place of processes of this machine.

Inside :func:`visionnmf.apps.on_cluster` every pool of :mod:`.pool` is one of the cluster, so that what shares its jobs
among processes shares them among workers. Nothing of Dask is imported before a pool is opened.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar

from visionnmf import __version__
from visionnmf._text import one_line
from visionnmf.apps import ClusterError, cluster_address
from visionnmf.exceptions import VisionNMFError, installed_by
from visionnmf.io.decoding import decode_apart, decodes_apart

PATIENCE = 10.0  # seconds in which a scheduler must answer and have a worker

T = TypeVar("T")


class LostJobError(VisionNMFError):
    """A job was lost with several workers, one after the other, or its files are gone; others can go on."""


class UnseenError(ClusterError):
    """A worker (the first argument) does not see a file or folder of the command (the second)."""

    def __str__(self) -> str:
        """Return the message."""
        return f"worker {self.args[0]}: does not see {self.args[1]}; workers need a shared folder"


@contextmanager
def open_workers() -> Iterator[Executor | None]:
    """Open the pool of the workers of a block of :func:`.on_cluster`; yield None outside of one."""
    # An exception in the block withdraws the jobs that have not begun.
    scheduler = cluster_address()
    if scheduler is None:
        yield None
        return
    try:
        import distributed  # noqa: F401  (sets the levels of its logs, so it comes before `_quiet`)
    except ImportError as error:
        raise VisionNMFError(f"a scheduler needs Dask, which is not installed; {installed_by('dask')}") from error
    with _quiet(), _client(scheduler) as client:
        _check_workers(scheduler, client)
        yield _Workers(scheduler, client)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging: what is lost is reported by the jobs that are lost with it."""
    names = "distributed", "distributed.client"  # those with levels of their own
    logs = [logging.getLogger(name) for name in names]
    levels = [each.level for each in logs]
    try:
        for each in logs:
            each.setLevel(logging.CRITICAL)
        yield
    finally:
        for each, level in zip(logs, levels, strict=True):
            each.setLevel(level)


def _client(scheduler: str) -> Any:
    """Return a client of a scheduler; raise VisionNMFError if there is none."""
    from distributed import Client

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

    # `Security` has the encryption that Dask's configuration asks for
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
    """Raise VisionNMFError if a worker has another version of visionnmf than is `needed`, or several threads."""
    # Threads would share what jobs change for their process: the current folder and the filters of warnings.
    if version != needed:
        has = "no visionnmf" if version is None else f"visionnmf {version}"
        raise VisionNMFError(f"worker {worker}: has {has}; install {needed} there, the version of this command")
    if threads != 1:
        raise VisionNMFError(f"worker {worker}: has {threads} threads; start it with nthreads 1, and more of them")


class _Workers(Executor):
    """The workers of a cluster as a pool."""

    def __init__(self, scheduler: str, client: Any) -> None:
        """Take the address of a scheduler and Dask's client for it, and note what workers must know of this process."""
        self._scheduler, self._client = scheduler, client
        self._process = _Process(__version__, os.getcwd(), time.time(), decodes_apart())
        # by the id of a partial function: it, kept so that no other gets this id, and the task that has it on a worker
        self._sent: dict[int, tuple[partial[Any], Any]] = {}

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call, which the worker makes by `_do`. What is bound to a partial function is sent only once."""
        # The outcome is awaited on the loop of Dask's client. Dask would send a partial function with each call, so
        # `_sent` keeps, by its id, the task that has it on the cluster, and the function, so that no other gets this
        # id. `pure=False` keeps Dask from taking equal calls for one.
        import dask

        # A worker that does not see the files and folders that the arguments name does not share this disk.
        process = replace(self._process, needed=_files_of(fn, args, kwargs))
        sent: Any = fn
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):  # arguments may be large
            if isinstance(fn, partial):
                if id(fn) not in self._sent:
                    self._sent[id(fn)] = fn, self._client.submit(_itself, fn, pure=False)
                sent = self._sent[id(fn)][1]
            task = self._client.submit(_do, process, sent, args, kwargs, pure=False)
        future: Future[T] = Future()
        outcome = asyncio.run_coroutine_threadsafe(self._outcome(task), self._client.loop.asyncio_loop)
        outcome.add_done_callback(partial(self._hand_on, future))
        return future

    async def _outcome(self, task: Any) -> Any:
        """Return the result of a task of Dask, or raise its error, or ClusterError if the scheduler is lost.

        The executor of Dask waits for ever if that happens while the result is on its way.
        """
        try:
            return await task._result()
        except (Exception, asyncio.CancelledError) as error:
            if task.status == "error":
                raise
            raise self._lost() from error

    def _lost(self) -> ClusterError:
        """Return the error of a scheduler that is gone."""
        return ClusterError(f"scheduler {self._scheduler}: was lost; start it and the run again")

    def _hand_on(self, future: Future[T], outcome: Future[T]) -> None:
        """Give the outcome of a task to the future that `submit` returned, with our own errors in place of Dask's."""
        try:
            future.set_result(self._result(outcome))
        except BaseException as error:
            future.set_exception(error)

    def _result(self, outcome: Future[T]) -> T:
        """Return the result of a task of Dask, or raise one of our own errors in place of Dask's."""
        # UnseenError says that a worker does not see a file; if the file is gone here too, only this job is lost.
        from distributed import KilledWorker

        try:
            return outcome.result()
        except CancelledError as error:
            raise self._lost() from error  # the scheduler is gone
        except KilledWorker:
            sentence = "workers were lost while they had it, perhaps because memory ran out; give them more"
            raise LostJobError(sentence) from None
        except UnseenError as error:
            if os.path.lexists(error.args[1]):
                raise
            raise LostJobError(f"{error.args[1]}: was removed before its turn came") from None


def _files_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return the files and folders that exist here among the arguments of a function of `io.takes_files`."""
    # a partial function calls its `func`, and that of a runner of jobs calls the first bound argument
    called = [getattr(function, "func", function), *getattr(function, "args", ())[:1]]
    takes_files = any(getattr(one, "takes_files", False) for one in called)
    return list(filter(os.path.lexists, _texts([args, kwargs]))) if takes_files else []


def _texts(value: Any) -> Iterator[str]:
    """Yield each text and path in a value, also in lists, tuples, mappings, records and partial functions."""
    if isinstance(value, str | PurePath):
        yield str(value)
        return
    if isinstance(value, partial):
        value = [value.args, value.keywords]
    if isinstance(value, Mapping):
        value = list(value.values())
    elif is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _itself(function: T) -> T:
    """Return a function, which the cluster keeps as the result of a task, so that it is sent only once."""
    return function


@dataclass(frozen=True)
class _Process:
    """What a worker needs to know about the process that has submitted a job."""

    version: str
    folder: str
    began: float  # files written since are replaced, perhaps those of a worker that was lost before it reported them
    apart: bool  # whether files are decoded in a process of their own
    needed: Sequence[str] = ()  # files that the worker must see


def _do(process: _Process, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """Call a function on a worker, in one thread and in the folder of the process that has submitted it."""
    from distributed import get_worker
    from threadpoolctl import threadpool_limits

    from visionnmf.io import replacing_since

    worker = get_worker()
    _check_worker(worker.address, __version__, process.version, worker.state.nthreads)
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    if process.apart:
        decode_apart()
    before = os.getcwd()
    try:
        os.chdir(process.folder)
    except OSError as error:
        raise UnseenError(worker.address, process.folder) from error
    try:
        for name in process.needed:
            if not os.path.lexists(name):
                raise UnseenError(worker.address, name)
        with threadpool_limits(1), replacing_since(process.began):
            return function(*args, **kwargs)
    finally:
        os.chdir(before)
