"""Evaluations that run for hours: a table of jobs, run in parallel, each kept as soon as it is done.

A job is arguments of one function that returns rows; what it needs beside them is bound to the function
(:func:`functools.partial`), which must be one of a module, so that other processes can import it. :func:`run_jobs` runs
what is not kept yet and writes the table; :func:`settings_key` says to what plan and data kept rows belong.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import PASS_FORCE, OutputExistsError, UnreadableError
from visionnmf.io import check_outputs, output_file, output_folder

from .pool import open_pool

__all__ = ["RESULTS", "run_jobs", "run_parallel", "settings_key"]

RESULTS = "results.csv"

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
        raise OutputExistsError(f"{path}: of another plan or other data; {PASS_FORCE}")
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


def _write(path: Path, rows: Rows, columns: tuple[str, ...]) -> None:
    with output_file(path, force=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
