"""Evaluations that run for hours, as a table of jobs that run in parallel and whose rows are kept as they end.

A job is the arguments of one function that returns rows. The function must belong to a module, so that other processes
can import it; what all jobs share is bound to it with :func:`functools.partial`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from visionnmf._progress import Steps
from visionnmf.exceptions import PASS_FORCE, MediaError, OutputExistsError, UnreadableError, VisionNMFError
from visionnmf.io import check_outputs, output_file, output_folder, write_csv
from visionnmf.io.inputs import read_text

from . import is_shared
from .cluster import LostJobError
from .pool import open_pool

RESULTS = "results.csv"
DEVIATION = "_deviation"  # how the columns end that hold standard deviations over splits
SETTINGS = ("scale",)  # columns of floats that are settings, not scores
# What a job's data or method may cause; other errors are faults of ours and end the run.
FAILURES = (VisionNMFError, OSError, MemoryError, ValueError, ArithmeticError)

T = TypeVar("T")
Rows = list[dict[str, Any]]
Jobs = Mapping[str, tuple[Any, ...]]


def score_columns(rows: Rows) -> list[str]:
    """Return the names of the columns with scores, in their order, without those of deviations."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, float))
    return [name for name in names if not name.endswith(DEVIATION) and name not in SETTINGS]


def settings_key(settings: Mapping[str, Any], *arrays: NDArray[Any]) -> str:
    """Return a digest of all that the rows of every job depend on: sixteen hexadecimal digits."""
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
    progress: Steps | None = None,
    also: Sequence[str] = (),
) -> tuple[Rows, list[str]]:
    """Run the jobs that an interrupted run has not finished; return the rows of all, and a sentence for each failure.

    Rows and sentences stand in the order of `jobs`, and a job that fails has no rows. ``work(*arguments)`` returns
    rows, dicts with the keys `columns`. The folder `out` gets the table, ``results.csv``, and the rows of each job,
    ``jobs/NAME.json``; `also` names further files that the caller will write there. Rows of an earlier run are used
    if their `key` is the same. Without `force`, rows with another key, and a table or file of `also` without rows,
    raise OutputExistsError, and damaged rows raise UnreadableError. `jobs` has the arguments of each job by its
    name.
    """
    folder = None if out is None else Path(out) / "jobs"
    found = {} if folder is None else _all_kept(folder, jobs, key, columns, force, also)
    failed: dict[str, str] = {}  # a sentence for each job that failed

    def keep(name: str, result: Rows | str) -> None:
        """Keep the rows of a job that has ended, also with the `key` in its file, or the sentence why it failed."""
        if isinstance(result, str):
            failed[name] = result
        else:
            found[name] = result
            if folder is not None:
                with output_file(folder / f"{name}.json", force=True) as temporary:
                    temporary.write_text(json.dumps({"key": key, "rows": result}), "utf-8")
        if progress is not None:
            progress(len(found) + len(failed), len(jobs))

    left = {name: arguments for name, arguments in jobs.items() if name not in found}
    run_parallel(left, partial(_attempt, work), processes, keep, lost=str)
    rows = [row for name in jobs for row in found.get(name, ())]
    if out is not None:
        table = [columns, *([row[column] for column in columns] for row in rows)]
        write_csv(Path(out) / RESULTS, table, force=True)
    return rows, [failed[name] for name in jobs if name in failed]


def _attempt(work: Callable[..., Rows], *arguments: Any) -> Rows | str:
    """Return the rows of a job, or a sentence that says why its data or its method failed."""
    try:
        return work(*arguments)
    except FAILURES as error:
        return str(error) if isinstance(error, VisionNMFError) else f"{type(error).__name__}: {error}"


def _all_kept(
    folder: Path, jobs: Jobs, key: str, columns: tuple[str, ...], force: bool, also: Sequence[str]
) -> dict[str, Rows]:
    """Return the rows of jobs that an earlier run has finished, by name; make the `folder` with a file for each."""
    output_folder(folder)
    read = {name: _kept(folder / f"{name}.json", key, columns, force) for name in jobs}
    found = {name: rows for name, rows in read.items() if rows is not None}
    if not found:  # results without rows of ours are from something else, and must not be replaced unasked
        check_outputs([folder.parent / name for name in (RESULTS, *also)], force)
    return found


def _kept(path: Path, key: str, columns: tuple[str, ...], force: bool) -> Rows | None:
    """Return a finished job's rows, or None if it must be run; without `force` a wrong file raises an error."""
    if not path.is_file():
        return None
    try:
        content = json.loads(read_text(path, "file of rows"))
        if content["key"] == key:
            return [{column: row[column] for column in columns} for row in content["rows"]]
    except (MediaError, ValueError, KeyError, TypeError, RecursionError) as error:
        if not force:
            raise UnreadableError(f"{path}: damaged; remove it to run this job again ({error})") from error
    if not force:
        raise OutputExistsError(f"{path}: belongs to other settings or data; {PASS_FORCE}")
    return None


def run_parallel(
    jobs: Jobs,
    work: Callable[..., T],
    processes: int,
    keep: Callable[[str, T], None],
    *,
    lost: Callable[[Exception], T] | None = None,
) -> None:
    """Call ``work(*arguments)`` for each job in processes of one thread each, or here if one process is enough.

    As each job ends, ``keep(name, result)`` is called here. In a block of :func:`.on_cluster` all jobs go to its
    workers. ``lost(error)`` is the result of a job that has ended several workers there; by default the error is
    raised.
    """
    if not is_shared(processes, len(jobs)):
        for name, arguments in jobs.items():
            keep(name, work(*arguments))
        return
    with open_pool(min(processes, len(jobs))) as pool:
        futures = {pool.submit(work, *arguments): name for name, arguments in jobs.items()}
        for future in as_completed(futures):
            try:
                result = future.result()
            except LostJobError as error:
                if lost is None:
                    raise
                result = lost(error)
            keep(futures[future], result)
