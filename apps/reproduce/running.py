"""Running experiments: each result is kept with its pictures, so that a run that was interrupted continues."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from visionnmf import __version__
from visionnmf._checks import check_count, check_flag, check_matplotlib
from visionnmf._progress import Progress
from visionnmf._text import one_line
from visionnmf.apps.drawing import save_figure
from visionnmf.apps.report import Report
from visionnmf.apps.runner import run_parallel, settings_key
from visionnmf.exceptions import ParameterError, UnreadableError, VisionNMFError
from visionnmf.io import check_parents, output_file, output_folder, write_image

from . import registry
from .data import data_folder
from .experiments import Experiment, Outcome, Result, Row, Sizes


def list_items(names: Sequence[str] = (), *, data: str | Path | None = None) -> list[Report]:
    """List the tables and figures of the papers, and which of them can be repeated here.

    Parameters
    ----------
    names : sequence of str, default=()
        Papers or items; all by default.
    data : str, Path or None, default=None
        The folder of data; see :func:`reproduce`.

    Returns
    -------
    list of Report
        One for each item, with the figures ``name``, ``title`` and ``available``: "runs", "nearest data: ...",
        "no data: ..." or "missing: ...". Packages that are not installed are named as well.

    Raises
    ------
    ParameterError
        For an unknown name.

    Examples
    --------
    >>> from visionnmf.apps.reproduce import list_items
    >>> list_items(["masquerade/fig-2"])[0].title
    'ROC curves on SEA'
    """
    with _environment(data):  # the state of an item depends on the files in the folder of data
        found = registry.find(list(names) or list(registry.PAPERS))
        items = [{"name": one.name, "title": one.title, "available": one.state()} for one in found]
    width = max(len(item["name"]) for item in items)
    return [
        Report(figures=each, lines=[f"{each['name']:{width}}  {each['title']}", f"{'':{width}}  {each['available']}"])
        for each in items
    ]


def reproduce(
    names: Sequence[str],
    *,
    out: str | Path = "reproduced",
    quick: bool = False,
    data: str | Path | None = None,
    n_jobs: int = 1,
    force: bool = False,
    stop_at_error: bool = False,
    progress: Progress | None = None,
) -> list[Report]:
    """Repeat tables and figures of the papers, and compare the results with the papers'.

    The folder `out` gets a folder for each paper with a JSON file for each item and its pictures. A result is used
    again if the version, the data and `quick` are the same.

    Parameters
    ----------
    names : sequence of str
        Papers ("mahnmf") or items ("mahnmf/fig-5"); :func:`list_items` has all.
    out : str or Path, default="reproduced"
        The folder for the results.
    quick : bool, default=False
        Whether fewer splits, starts or ranks are run. Such figures show that all works, and are not for citing.
    data : str, Path or None, default=None
        The folder of data. By default that of VISIONNMF_DATA.
    n_jobs : int, default=1
        Number of processes. Each experiment has one thread.
    force : bool, default=False
        Whether kept results are run again.
    stop_at_error : bool, default=False
        Whether the first error of an experiment is raised. By default it is reported, and the others go on.
    progress : callable or None, default=None
        Called as ``progress("experiments", done, total)``.

    Returns
    -------
    list of Report
        One for each table or figure, with the figures ``name``, ``title``, ``paper``, ``available``, ``seconds`` (None
        if it was not run, or failed), ``cached``, ``rows`` (the claim or figure, the paper, ours, and the difference),
        ``tables``, ``pictures``, and what is said about the item.

    Raises
    ------
    ParameterError
        For an unknown name, if nothing can be run, or if matplotlib is not installed.
    MediaError
        If a result cannot be written.
    """
    check_count(n_jobs, "n_jobs")
    for flag, name in ((quick, "quick"), (force, "force"), (stop_at_error, "stop_at_error")):
        check_flag(flag, name)
    found = registry.find(names)
    wanted = [one for one in found if one.run is not None]
    if not wanted:
        reasons = "; ".join(f"{one.name}: {one.missing}" for one in found) or "none"
        raise ParameterError(f"names must have an item that can be run; got {reasons}")
    check_matplotlib()
    check_parents([_path(one.name, Path(out), quick) for one in wanted], created=True)
    outcomes: dict[str, Outcome] = {}

    def keep(name: str, outcome: Outcome) -> None:
        """Keep what became of an experiment in `outcomes`, and report how many of those `wanted` are done."""
        outcomes[name] = outcome
        if progress is not None:
            progress("experiments", len(outcomes), len(wanted))

    jobs = {one.name: (one.name, Path(out), quick, data, force, stop_at_error) for one in wanted}
    run_parallel(jobs, _run, n_jobs, keep)
    with _environment(data):  # reports say which data sets are in the folder `data`
        return [_report(one, outcomes.get(one.name, Outcome(one.name)), Path(out), quick) for one in found]


def _report(one: Experiment, outcome: Outcome, out: Path, quick: bool) -> Report:
    """Return the report of an experiment, whose pictures are in the folder `out`."""
    result = outcome.result or Result([])
    rows = [row.cells() for row in result.rows]
    about = {name: getattr(one, name) for name in ("claim", "data", "replaced", "protocol", "missing")}
    figures = {
        "name": one.name,
        "title": one.title,
        "paper": registry.PAPERS[one.paper].title,
        "available": one.state(),
        "seconds": None if outcome.result is None else outcome.seconds,
        "cached": outcome.cached,
        "quick": quick,
        "rows": rows,
        "tables": result.tables,
        "pictures": result.pictures,
    }
    kept = ", kept from an earlier run" if outcome.cached else ""
    how = one.state() if outcome.result is None else f"{outcome.seconds:.1f} s{kept}"
    lines = [f"{one.name}: {one.title} ({how})"]
    for what, paper, ours, other in rows:
        parts = f"paper {paper}" * bool(paper), f"ours {ours}", other
        lines.append(f"  {what}: {'; '.join(filter(None, parts))}")
    return Report(
        figures=figures | about,
        lines=lines,
        outputs=[str(out / file) for file in result.pictures.values()],
        notes=result.notes,
        state="failed" if outcome.error else "done",
        error=f"{one.name}: {outcome.error}" if outcome.error else "",
    )


@contextmanager
def _environment(data: str | Path | None) -> Iterator[None]:
    """Let the block read data from this folder, if given, and use one thread; raise UnreadableError without it."""
    # Both are set as environment variables, which are restored at the end.
    from threadpoolctl import threadpool_limits

    if data is not None and not Path(data).is_dir():
        raise UnreadableError(f"{data} is not a folder; give the one that holds the data sets")
    named = {"VISIONNMF_NUM_THREADS": "1"} | ({} if data is None else {"VISIONNMF_DATA": str(data)})
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    try:
        with threadpool_limits(1):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _run(name: str, out: Path, quick: bool, data: str | Path | None, force: bool, stop_at_error: bool) -> Outcome:
    """Run one experiment, or without `force` read its result from an earlier run with the same key."""
    with _environment(data), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # papers end fits by a number of iterations, and a model warns of that
        one = registry.EXPERIMENTS[name]
        path, key = _path(name, out, quick), _key(one, quick)
        kept = None if force else _kept(path, key)
        if kept is not None:
            return kept
        start = time.perf_counter()
        try:
            assert one.run is not None
            result = _with_files(one.run(Sizes(quick)), path)
            if quick:  # a whole run could judge the claims otherwise
                result = replace(result, rows=[replace(row, verdict="") for row in result.rows])
        except Exception as error:
            if stop_at_error:
                raise
            # errors that are meant for users explain themselves
            kind = "" if isinstance(error, VisionNMFError | OSError) else f"{type(error).__name__}: "
            return Outcome(name, error=f"failed ({kind}{one_line(error)})")
        outcome = Outcome(name, result, time.perf_counter() - start)
        with output_file(path, force=True) as temporary:
            content = {"key": key, "seconds": outcome.seconds, "result": asdict(result)}
            temporary.write_text(json.dumps(content, indent=1), "utf-8")
        return outcome


def _key(one: Experiment, quick: bool) -> str:
    """Return a digest of the version, the folder and sizes of the data, and whether the run is quick."""
    folder = data_folder()
    files = [path for name in one.files if folder is not None and (path := folder / name).exists()]
    sizes = {path.name: path.stat().st_size for path in files}
    without = one.uninstalled()
    return settings_key(
        {"version": __version__, "quick": quick, "data": sizes, "folder": str(folder), "without": without}
    )


def _path(name: str, out: Path, quick: bool) -> Path:
    """Return the JSON file of the result of an item."""
    return out / f"{name}{'-quick' if quick else ''}.json"


def _kept(path: Path, key: str) -> Outcome | None:
    """Return the result of an earlier run from its JSON file; None if it has another key, or a picture is missing."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["key"] != key:
            return None
        fields = content["result"]
        result = Result(**fields | {"rows": [Row(**row) for row in fields["rows"]]})
        # the name of the experiment: the folder is that of the paper, and the file that of the item
        name = f"{path.parent.name}/{path.stem.removesuffix('-quick')}"
        whole = all((path.parent.parent / file).is_file() for file in result.pictures.values())
        return Outcome(name, result, float(content["seconds"]), cached=True) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a damaged file is run again
        return None


def _with_files(result: Result, path: Path) -> Result:
    """Write the pictures beside the file of the result, and return the result with their names in place of them."""
    output_folder(path.parent)
    names = {}
    for number, (caption, picture) in enumerate(result.pictures.items(), 1):
        drawn = not isinstance(picture, np.ndarray)
        file = path.with_name(f"{path.stem}-{number}.{'svg' if drawn else 'png'}")
        if not drawn:
            write_image(file, picture, force=True)
        else:
            save_figure(picture, file)
        names[caption] = f"{path.parent.name}/{file.name}"
    return Result(result.rows, names, result.tables, result.notes)
