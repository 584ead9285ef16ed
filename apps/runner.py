"""Evaluations that run for hours: a table of jobs, run in parallel, each kept as soon as it is done.

A job is arguments of one function that returns rows; what it needs beside them is bound to the function
(:func:`functools.partial`), which must be one of a module, so that other processes can import it. :func:`run_jobs` runs
what is not kept yet and writes the table; :func:`settings_key` says to what plan and data kept rows belong.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, active_children, get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import OutputExistsError, UnreadableError, VisionNMFError
from visionnmf.io import check_outputs, output_file, output_folder

__all__ = ["RESULTS", "open_pool", "run_jobs", "run_parallel", "settings_key"]

RESULTS = "results.csv"
GRACE = 5.0  # seconds in which a process that is to end may remove what it has half written

T = TypeVar("T")
Rows = list[dict[str, Any]]
Jobs = Mapping[str, tuple[Any, ...]]


def settings_key(settings: Mapping[str, Any], *arrays: NDArray[Any]) -> str:
    """Return a digest of everything that the rows of a job depend on, its own arguments excepted.

    Parameters
    ----------
    settings : mapping of str to what JSON knows
    *arrays : ndarray
        The data.

    Returns
    -------
    str
        Sixteen hexadecimal digits.
    """
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return digest.hexdigest()


def run_jobs(
    jobs: Jobs,
    work: Callable[..., Rows],
    columns: tuple[str, ...],
    *,
    key: str = "",
    out: str | Path | None = None,
    processes: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
    also: Sequence[str] = (),
) -> Rows:
    """Run jobs, those that an interrupted run has finished excepted.

    Parameters
    ----------
    jobs : mapping of str to tuple
        The name of each job, fit for a file, and its arguments.
    work : callable
        Called as ``work(*arguments)``; returns rows, dicts with `columns`.
    columns : tuple of str
        Of the rows, in their order in the table.
    key : str, default=""
        Of the plan and the data: rows that were kept under another one are not taken. See :func:`settings_key`.
    out : str or Path, optional
        Folder for the table, ``results.csv``, and the rows of each job, ``jobs/NAME.json``; made if missing.
    processes : int, default=1
        More than one run jobs at the same time, each with one thread.
    force : bool, default=False
        Whether other results may be replaced, and kept rows that are damaged.
    progress : callable, optional
        Called as ``progress(done, total)`` after each job.
    also : sequence of str, default=()
        Names of other files that the caller will write to `out`, refused as the table is.

    Returns
    -------
    list of dict
        The rows of all jobs, in the order of `jobs`.

    Raises
    ------
    OutputExistsError
        When `out` holds rows with another key, or a table or a file of `also` and no rows, and `force` is false.
    UnreadableError
        When kept rows are damaged, and `force` is false.
    """
    folder = None if out is None else Path(out) / "jobs"
    found = {} if folder is None else _all_kept(folder, jobs, key, columns, force, also)

    def keep(name: str, rows: Rows) -> None:
        found[name] = rows
        if folder is not None:
            with output_file(folder / f"{name}.json", force=True) as temporary:
                temporary.write_text(json.dumps({"key": key, "rows": rows}))
        if progress is not None:
            progress(len(found), len(jobs))

    left = {name: arguments for name, arguments in jobs.items() if name not in found}
    if processes == 1 or len(left) < 2:
        for name, arguments in left.items():
            keep(name, work(*arguments))
    else:
        run_parallel(left, work, processes, keep)
    rows = [row for name in jobs for row in found[name]]
    if out is not None:
        _write(Path(out) / RESULTS, rows, columns)
    return rows


def _all_kept(
    folder: Path, jobs: Jobs, key: str, columns: tuple[str, ...], force: bool, also: Sequence[str]
) -> dict[str, Rows]:
    """Return the rows of the jobs that are done."""
    output_folder(folder)
    read = {name: _kept(folder / f"{name}.json", key, columns, force) for name in jobs}
    found = {name: rows for name, rows in read.items() if rows is not None}
    if not found:
        check_outputs([folder.parent / name for name in (RESULTS, *also)], force)  # somebody else's
    return found


def _kept(path: Path, key: str, columns: tuple[str, ...], force: bool) -> Rows | None:
    """Return the rows of a job that is done; None where it is to be run."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
        if content["key"] == key:
            return [{column: row[column] for column in columns} for row in content["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if not force:
            raise UnreadableError(f"{path}: damaged; remove it, and this job is run again ({error})") from error
    if not force:
        raise OutputExistsError(f"{path}: of another plan or other data; pass force=True to replace it")
    return None


def run_parallel(jobs: Jobs, work: Callable[..., T], processes: int, keep: Callable[[str, T], None]) -> None:
    """Run jobs in processes of one thread each.

    Parameters
    ----------
    jobs : mapping of str to tuple
        The name of each job and its arguments.
    work : callable
        Called as ``work(*arguments)``, elsewhere.
    processes : int
        At a time.
    keep : callable
        Called here as ``keep(name, what work returned)`` as jobs end.
    """
    with open_pool(min(processes, len(jobs))) as pool:
        futures = {pool.submit(work, *arguments): name for name, arguments in jobs.items()}
        for future in as_completed(futures):
            keep(futures[future], future.result())


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


def _write(path: Path, rows: Rows, columns: tuple[str, ...]) -> None:
    with output_file(path, force=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
