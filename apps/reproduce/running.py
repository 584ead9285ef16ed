"""Running experiments: each result is kept with its pictures, so that a run that was interrupted continues."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf import __version__
from visionnmf._checks import check_count, check_flag, check_matplotlib
from visionnmf._progress import Progress
from visionnmf._text import one_line
from visionnmf.apps.drawing import save_figure
from visionnmf.apps.report import Report
from visionnmf.apps.runner import run_parallel, settings_key
from visionnmf.exceptions import ParameterError, UnreadableError, VisionNMFError
from visionnmf.io import output_file, output_folder, write_image

from . import registry
from .data import data_folder
from .experiments import Experiment, Outcome, Result, Row, Sizes
from .page import check_page, write_page


@dataclass(frozen=True)
class ItemList(Report):
    """The tables and figures, with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    items : list of dict
        For each: ``name``, ``title`` and ``state``: "runs", "nearest data: ...", "no data: ..." or "missing: ...".
    """

    items: list[dict[str, str]]

    def summary(self) -> str:
        """Return a line for each item."""
        width = max(len(item["name"]) for item in self.items)
        return "\n".join(
            f"{item['name']:{width}}  {item['title']}\n{'':{width}}  {item['state']}" for item in self.items
        )


@dataclass(frozen=True)
class Reproduction(Report):
    """What was repeated, with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    items : list of dict
        For each table or figure: ``name``, ``title``, ``state``, ``seconds``, ``cached``, ``error``, and ``rows``,
        whose cells are the claim or figure, the paper, ours, and the difference.
    """

    items: list[dict[str, Any]]

    def summary(self) -> str:
        """Return a line for each item, and one for each row of its comparison."""
        lines = []
        for item in self.items:
            # the error, or the time, or for an item that was not run its state
            how = item["error"] or (
                f"{item['seconds']:.1f} s{', kept from an earlier run' if item['cached'] else ''}"
                if item["seconds"]
                else item["state"]
            )
            lines.append(f"{item['name']}: {item['title']} ({how})")
            for what, paper, ours, difference in item["rows"]:
                lines.append(f"  {what}: paper {paper}; ours {ours}; {difference}".removesuffix("; "))
        return "\n".join([*lines, *self.notes, *(f"wrote {name}" for name in self.outputs)])


def list_items(names: Sequence[str] = (), *, data: str | Path | None = None) -> ItemList:
    """List the tables and figures of the papers, and which of them can be repeated here.

    Parameters
    ----------
    names : sequence of str, default=()
        Papers or items; all by default.
    data : str, Path or None, default=None
        The folder of data; see :func:`reproduce`.

    Returns
    -------
    ItemList

    Raises
    ------
    ParameterError
        For an unknown name.

    Examples
    --------
    >>> from visionnmf.apps.reproduce import list_items
    >>> list_items(["masquerade/fig-2"]).items[0]["title"]
    'ROC curves on SEA'
    """
    with _environment(data):  # the state of an item depends on the files in the folder of data
        found = registry.find(list(names) or list(registry.PAPERS))
        return ItemList(items=[{"name": one.name, "title": one.title, "state": one.state()} for one in found])


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
) -> Reproduction:
    """Repeat tables and figures of the papers, and write a page that compares the results with the papers'.

    The folder `out` gets ``index.html`` and ``index.md``, and a folder for each paper with a JSON file for each item
    and its pictures. A result is used again if the version, the data and `quick` are the same.

    Parameters
    ----------
    names : sequence of str
        Papers ("mahnmf") or items ("mahnmf/fig-5"); :func:`list_items` has all.
    out : str or Path, default="reproduced"
        The folder for the page.
    quick : bool, default=False
        Whether fewer splits, starts or ranks are run. Such figures show that all works, and are not for citing.
    data : str, Path or None, default=None
        The folder of data. By default that of VISIONNMF_DATA.
    n_jobs : int, default=1
        Number of processes. Each experiment has one thread.
    force : bool, default=False
        Whether kept results are run again, and an ``index.html`` that something else wrote is replaced.
    stop_at_error : bool, default=False
        Whether the first error of an experiment is raised. By default it is reported, and the others go on.
    progress : callable or None, default=None
        Called as ``progress("experiments", done, total)``.

    Returns
    -------
    Reproduction
        An experiment that failed has a sentence in `skipped`.

    Raises
    ------
    ParameterError
        For an unknown name, if nothing can be run, or if matplotlib is not installed.
    MediaError
        If the page cannot be written.
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
    check_page(out, force)
    output_folder(out)
    outcomes: dict[str, Outcome] = {}

    def keep(name: str, outcome: Outcome) -> None:
        """Keep what became of an experiment in `outcomes`, and report how many of those `wanted` are done."""
        outcomes[name] = outcome
        if progress is not None:
            progress("experiments", len(outcomes), len(wanted))

    jobs = {one.name: (one.name, Path(out), quick, data, force, stop_at_error) for one in wanted}
    run_parallel(jobs, _run, n_jobs, keep)
    with _environment(data):  # the page says which data sets are in the folder `data`
        command = ["visionnmf reproduce", *names, *(["--quick"] if quick else [])]
        outputs = write_page(out, found, outcomes, command=" ".join(command), quick=quick)
        return Reproduction(
            items=[_item(one, outcomes.get(one.name, Outcome(one.name))) for one in found],
            inputs=list(names),
            outputs=outputs,
            skipped=[f"{name}: {outcome.error}" for name, outcome in outcomes.items() if outcome.error],
        )


def _item(one: Experiment, outcome: Outcome) -> dict[str, Any]:
    """Return the entry of an experiment in a report: its name, title and state, and the seconds and rows of its run."""
    rows = [] if outcome.result is None else [row.cells() for row in outcome.result.rows]
    figures = {"seconds": outcome.seconds, "cached": outcome.cached, "error": outcome.error, "rows": rows}
    return {"name": one.name, "title": one.title, "state": one.state()} | figures


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
    """Run one experiment, or without `force` read its result from an earlier run with the same key.

    The result is kept as ``<name>.json``, beside its pictures. Unless `stop_at_error`, an error becomes the outcome.
    `_key` is a digest of what the result depends on, `_kept` reads a result of the same key, and `_with_files` writes
    the pictures and puts their names in their place.
    """
    with _environment(data), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # papers end fits by a number of iterations, and a model warns of that
        one = registry.EXPERIMENTS[name]
        path = out / f"{name}{'-quick' if quick else ''}.json"
        key = _key(one, quick)
        kept = None if force else _kept(path, key)
        if kept is not None:
            return kept
        start = time.perf_counter()
        try:
            assert one.run is not None
            result = _with_files(one.run(Sizes(quick)), path)
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
    return settings_key({"version": __version__, "quick": quick, "data": sizes, "folder": str(folder)})


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
        file = path.with_name(f"{path.stem}-{number}.png")
        if isinstance(picture, np.ndarray):
            write_image(file, picture, force=True)
        else:
            save_figure(picture, file)
        names[caption] = f"{path.parent.name}/{file.name}"
    return Result(result.rows, names, result.tables, result.notes)
