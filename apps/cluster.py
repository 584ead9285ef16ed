"""Jobs on the workers of a Dask cluster, in place of processes of this machine.

Inside :func:`visionnmf.apps.on_cluster` every pool of :mod:`.pool` is one of the cluster, so that what shares its jobs
among processes shares them among workers. Nothing of Dask is imported before a pool is opened.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from visionnmf import __version__
from visionnmf._text import one_line
from visionnmf.apps import ClusterError, cluster_address, files_travel
from visionnmf.exceptions import MediaError, VisionNMFError, installed_by

from . import upload

PATIENCE = 10.0  # seconds in which a scheduler must answer and have a worker
BRIEFLY = 1.0  # seconds in which it must answer a question whose former answer is as good
AHEAD = 2  # jobs for each worker whose files are under way at a time

T = TypeVar("T")


class LostJobError(VisionNMFError):
    """A job was lost with several workers, one after the other, or its files did not travel; others can go on."""


class UnseenError(ClusterError):
    """A worker (the first argument) does not see a file or folder of the command (the second)."""

    def __str__(self) -> str:
        """Return the message."""
        return f"worker {self.args[0]}: does not see {self.args[1]}; workers need a shared path, or upload=True"


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
        # Workers that do not see the files of this machine are sent them, if the caller has asked for that.
        with closing(_Uploads(scheduler, client) if files_travel() else _Workers(scheduler, client)) as workers:
            yield workers


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
        self._process = _Process(__version__, os.getcwd(), time.time())
        # by the id of a partial function: it, kept so that no other gets this id, and the task that has it on a worker
        self._sent: dict[int, tuple[partial[Any], Any]] = {}

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call. What is bound to a partial function is sent once for all its calls, by `_start`."""
        # The worker must see the files and folders that the arguments name; otherwise it does not share this disk.
        needed: list[str] = []
        if upload.takes_files(fn):
            names = upload.names_of(fn, args, kwargs)
            needed = [name for name in (*names.inputs, *names.outs) if os.path.lexists(name)]
        future: Future[T] = Future()
        # `_process` tells the worker about this process: the version, the working folder, and here the `needed` paths.
        # The worker calls `_do`, which calls `fn` there; `_hand_on` gives the outcome to the future.
        self._start(future, self._hand_on, _do, replace(self._process, needed=needed), fn, args, kwargs)
        return future

    def close(self) -> None:
        """Give up what the pool holds besides its client."""

    def _start(
        self,
        future: Future[Any],
        hand_on: Callable[[Future[Any], Future[Any]], None],
        do: Callable[..., Any],
        process: _Process,
        fn: Callable[..., Any],
        *more: Any,
    ) -> None:
        """Let a worker call ``do(process, fn, *more)``, then ``hand_on(future, outcome)`` here with its outcome."""
        # `do` prepares the worker and calls `fn` there. The outcome is awaited on the loop of Dask's client. Dask would
        # send a partial function with each call, so `_sent` keeps, by its id, the task that has it on the cluster, and
        # the function, so that no other gets this id. `pure=False` keeps Dask from taking equal calls for one.
        import dask

        sent: Any = fn
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):  # arguments may be large
            if isinstance(fn, partial):
                if id(fn) not in self._sent:
                    self._sent[id(fn)] = fn, self._client.submit(_itself, fn, pure=False)
                sent = self._sent[id(fn)][1]
            task = self._client.submit(do, process, sent, *more, pure=False)
        outcome = asyncio.run_coroutine_threadsafe(self._outcome(task), self._client.loop.asyncio_loop)
        outcome.add_done_callback(partial(hand_on, future))

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


class _Gate:
    """Lets a limited number of jobs be under way, so that not all of their files are held at once."""

    def __init__(self) -> None:
        """Begin with room for no job: they wait until :meth:`open` says how many may be under way."""
        self._change = threading.Condition()  # guards the attributes below, and wakes those that wait
        self._under_way, self._most = 0, 0  # jobs that have entered and not left, and how many there may be
        self._limit = 0.0  # bytes of a job
        self._closed = False

    def open(self, most: int, limit: float) -> None:
        """Set how many jobs may be under way, and how many bytes the files of each, and its results, may have."""
        with self._change:
            self._most, self._limit = most, limit
            self._change.notify()

    def enter(self) -> float:
        """Wait until a job may enter, and return its limit of bytes; raise CancelledError once the gate is closed."""
        with self._change:
            self._change.wait_for(lambda: self._closed or self._under_way < self._most)
            if self._closed:
                raise CancelledError
            self._under_way += 1
            return self._limit

    def leave(self, _job: object) -> None:
        """Count a job that is not under way any more."""
        with self._change:
            self._under_way -= 1
            self._change.notify()

    def close(self) -> None:
        """Let no job enter any more."""
        with self._change:
            self._closed = True
            self._change.notify()


class _Uploads(_Workers):
    """Workers of a cluster that see no files of ours: a job's files travel with it, and its results back.

    One thread reads and sends them, for a few jobs ahead of the workers, and another one writes what comes back.
    """

    def __init__(self, scheduler: str, client: Any) -> None:
        """Take the address of a scheduler and Dask's client for it; jobs are sent to its workers with their files."""
        if os.name == "nt":  # names with drives cannot lie below another folder
            raise VisionNMFError("upload=True is not possible on Windows; use a shared path")
        super().__init__(scheduler, client)
        self._process = replace(self._process, folder=None)  # jobs work in private folders
        # two threads: one reads the files of jobs and sends them, the other writes the files that come back
        self._reader, self._writer = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._gate = _Gate()
        # by the name of an input: None once a first job has used it, from the second on the task that keeps it there
        self._contents: dict[str, Any] = {}
        # opens the gate for as many jobs as the workers can hold
        self._fit_gate(PATIENCE)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call; the files that its arguments name are read and sent when its turn has nearly come."""
        # One thread sends all calls in turn, and `_send` waits until few enough are under way.
        future: Future[T] = Future()
        self._reader.submit(self._send, future, fn, args, kwargs)
        return future

    def close(self) -> None:
        """Send and write nothing more; a job whose results are being written is completed.

        `_reader` and `_writer` are pools of one thread, which send jobs and write results; shutting them down waits for
        what they are doing. A job that waits at the `_gate` for its turn is refused, so the reader does not hang.
        """
        self._gate.close()
        self._reader.shutdown(cancel_futures=True)
        self._writer.shutdown(cancel_futures=True)

    def _send(self, future: Future[T], fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Send a call and its files once the gate lets it through; `future` gets its outcome, or the error."""
        # A function says by the attribute `takes_files` that its arguments name files. `_hand_on` gives an outcome to
        # the future, and `_hand_on_later` first writes the files that came back. `_do` or `_do_uploaded` calls `fn` on
        # the worker, to which `_process` names the version and the start of this process.
        try:
            limit = self._gate.enter()  # bytes that the files of a job may have
            future.add_done_callback(self._gate.leave)
            if not upload.takes_files(fn):
                self._start(future, self._hand_on, _do, self._process, fn, args, kwargs)
                return
            try:
                names = upload.names_of(fn, args, kwargs)
                upload.check_size(names.inputs, limit)
                contents = [self._content(name) for name in names.inputs]
                sent = upload.parcel(names, args, kwargs, limit)
            except (MediaError, OSError) as error:
                raise LostJobError(one_line(error)) from error
            self._start(future, self._hand_on_later, _do_uploaded, self._process, fn, sent, *contents)
        except BaseException as error:
            future.set_exception(error)

    def _fit_gate(self, patience: float) -> None:
        """Set how many jobs may be under way; OSError if the scheduler does not answer in `patience` seconds.

        The gate lets AHEAD jobs through for each worker that is there now. The files of each may take a part of the
        memory that the smallest worker has.
        """
        found = self._client.sync(self._client.scheduler.identity, callback_timeout=patience)
        workers = found["workers"].values()
        memory = min((each["memory_limit"] or math.inf for each in workers), default=math.inf)
        self._gate.open(AHEAD * max(1, len(workers)), memory / upload.PARTS_OF_MEMORY)

    def _content(self, name: str) -> Any:
        """Return the content of an input, or the task that keeps it on the cluster from the second job on."""
        if self._contents.get(name) is not None:
            return self._contents[name]
        content = upload.content_of(name)
        if name in self._contents:
            content = self._contents[name] = self._client.submit(_itself, content, pure=False)
        else:
            self._contents[name] = None  # an input of a single job need not be kept
        return content

    def _hand_on_later(self, future: Future[Any], outcome: Future[Any]) -> None:
        """Let another thread write the files that a task has sent back: this one is the client's, which must not wait.

        `future` is the caller's, and `outcome` that of Dask's task, which has just ended.
        """
        with suppress(RuntimeError):  # after `close` nobody waits for it
            self._writer.submit(self._take_back, future, outcome)

    def _take_back(self, future: Future[Any], outcome: Future[Any]) -> None:
        """Write the files of a task of Dask, and give its outcome to the future that `submit` has returned."""
        try:
            returned = self._result(outcome)
            with suppress(OSError):  # of a scheduler that was lost meanwhile
                # workers may have come or gone: set again how many jobs may be under way
                self._fit_gate(BRIEFLY)
            try:
                result, error = upload.take_back(returned)
            except (MediaError, OSError) as problem:
                raise LostJobError(one_line(problem)) from problem
            if error is not None:
                raise error
            future.set_result(result)
        except BaseException as error:
            future.set_exception(error)


def _itself(function: T) -> T:
    """Return the argument, a function or the content of a file.

    A task that does this has the argument for a result, which the cluster keeps, so that it is sent only once.
    """
    return function


@dataclass(frozen=True)
class _Process:
    """What a worker needs to know about the process that has submitted a job.

    Files written since `began` are results of this run: perhaps those of a worker that was lost before it could report
    them, so they are replaced. The folder is None if files travel. The worker must see the files `needed`.
    """

    version: str
    folder: str | None
    began: float
    needed: Sequence[str] = ()


def _do(process: _Process, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """Call a function on a worker, in one thread and in the folder of the process that has submitted it."""
    # Files that `process.needed` names exist where the job was submitted. A job may replace those written since
    # `began`: results of this run, perhaps of a worker that was lost before it could report them.
    from distributed import get_worker
    from threadpoolctl import threadpool_limits

    from visionnmf.io import replacing_since

    worker = get_worker()
    _check_worker(worker.address, __version__, process.version, worker.state.nthreads)
    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    before = os.getcwd()
    try:
        os.chdir(process.folder or before)
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


def _do_uploaded(
    process: _Process, function: Callable[..., Any], sent: upload.Parcel, *contents: dict[str, bytes]
) -> upload.Returned:
    """Call a function on a worker, on files that were sent to it; return what it has returned and written."""
    # `sent` has the packed arguments and what else the job needs, `contents` the content of each input by file name.
    # `work_in_private` lays the files into a private folder, and `_do` restricts threads, as for all jobs.
    from distributed import get_worker

    work = partial(upload.work_in_private, function, sent, contents, get_worker().local_directory)
    return _do(process, work, (), {})
