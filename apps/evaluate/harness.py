"""What all evaluations share: the jobs of a study are run, their rows kept, and a table is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from visionnmf._checks import check_matplotlib
from visionnmf._progress import Steps
from visionnmf._text import as_column
from visionnmf.apps.drawing import save_figure
from visionnmf.apps.report import Report
from visionnmf.apps.runner import DEVIATION, RESULTS, Jobs, Rows, run_jobs, score_columns
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import UnreadableError

from .drawing import bar_figure
from .settings import Comparison, check_some_of


@dataclass(frozen=True, kw_only=True)
class Study:
    """Data and methods, as jobs whose rows become a table.

    Attributes
    ----------
    jobs : mapping of str to tuple
        The arguments of `work` by the name of each job.
    work : callable
        Returns the rows of one job: dicts with the keys `columns`.
    columns : tuple of str
        Of the table of all rows, ``results.csv``.
    key : str
        Digest of the settings and data that rows depend on.
    lines : callable
        Makes the lines of the printed table of all rows; :func:`averages` suits most studies.
    heading : str
        What was compared, in one line.
    draw : callable or None
        Returns a figure of all rows, which is written under the name `picture`; None draws bars of the table.
    inputs, skipped, notes : list of str
        As in :class:`~visionnmf.apps.report.Report`.
    """

    jobs: Jobs
    work: Callable[..., Rows]
    columns: tuple[str, ...]
    key: str
    lines: Callable[[Rows], Rows]
    heading: str = ""
    draw: Callable[[Rows], Any] | None = None
    picture: str = "scores.png"
    inputs: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@takes_records
def evaluate(study: Study, comparison: Comparison = Comparison(), *, progress: Steps | None = None) -> Report:
    """Run the jobs of a study that an interrupted run has not finished, and return the table of all.

    Parameters
    ----------
    study : Study
        What is compared, as the function ``study`` of an application's module returns it.
    comparison : Comparison, optional
        The folder for results, the number of processes, and whether plots are drawn and results replaced.
    progress : callable, optional
        Called as ``progress(done, total)`` after each job.

    Returns
    -------
    Report
        Its figures are ``heading``, ``table``, the lines that are printed, such as means over splits with their
        standard deviations, and ``rows``, those of all jobs, as in ``results.csv``. Values that are not known are None.
        A job that fails is one sentence in ``skipped``, and an interrupted run tries it again.

    Raises
    ------
    OutputExistsError
        If the folder holds other results, or pictures of these names without results, and `force` is false.
    UnreadableError
        If all jobs fail.

    Examples
    --------
    >>> from visionnmf.apps.evaluate import Comparison, FaceConditions, evaluate, faces
    >>> comparison = Comparison(methods=("raw",))
    >>> study = faces.study("people", comparison, conditions=FaceConditions(per_person=2))
    >>> evaluate(study, comparison).table[0]["method"]
    'raw'
    """
    if comparison.plots:
        check_matplotlib()
    pictures = [study.picture] if comparison.plots else []
    rows, problems = run_jobs(
        study.jobs,
        study.work,
        study.columns,
        key=study.key,
        out=comparison.out,
        processes=comparison.jobs,
        force=comparison.force,
        progress=progress,
        also=pictures,
    )
    if not rows:
        raise UnreadableError("; ".join([*study.skipped, *dict.fromkeys(problems)]))
    files = []
    table = [{name: _known(value) for name, value in line.items()} for line in study.lines(rows)]
    draw = partial(bar_figure, table) if study.draw is None else partial(study.draw, rows)
    drawings = {"Scores of the methods": draw} if score_columns(table) else {}
    if comparison.out is not None:
        pictures = pictures if drawings else []
        for name in pictures:
            save_figure(draw(), comparison.out / name)
        files = [comparison.out / name for name in (RESULTS, *pictures)]
    return Report(
        figures={"heading": study.heading, "table": table, "rows": rows},
        lines=[*([study.heading] if study.heading else []), *as_text(table)],
        inputs=study.inputs,
        outputs=[str(file) for file in files],
        skipped=[*study.skipped, *dict.fromkeys(problems)],
        notes=study.notes,
        shown={"drawings": drawings},
    )


def chosen_methods(comparison: Comparison, known: Sequence[str], default: Sequence[str]) -> tuple[str, ...]:
    """Return the methods to compare, each once: those of `comparison`, all that are `known`, or the `default`."""
    if comparison.methods is None:
        return tuple(default)
    if comparison.methods == ("all",):
        return tuple(known)
    check_some_of(comparison.methods, "methods", known)
    return tuple(dict.fromkeys(comparison.methods))


def grouped(rows: Rows, by: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    """Return the rows with equal values in the columns `by`, by these values, in the order of their first rows."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return groups


def averages(rows: Rows, by: Sequence[str], scores: Sequence[str]) -> Rows:
    """Return means and deviations of scores over rows with equal values in the columns `by`; None without a value."""
    lines = []
    for group, members in grouped(rows, by).items():
        line: dict[str, Any] = dict(zip(by, group, strict=True))
        for score in scores:
            values = [row[score] for row in members if _known(row[score]) is not None]
            line[score] = float(np.mean(values)) if values else None
            if len(values) > 1:
                line[score + DEVIATION] = float(np.std(values))
        lines.append(line)
    return lines


def _known(value: Any) -> Any:
    """Return a value, or None for a number that is not finite."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def as_text(lines: Rows) -> list[str]:
    """Return lines as aligned text under the names of their columns; columns without any value are left out."""
    names = [name for name in dict.fromkeys(name for line in lines for name in line) if not name.endswith(DEVIATION)]
    cells = {
        name: as_column([line.get(name) for line in lines], [line.get(name + DEVIATION) for line in lines])
        for name in names
    }
    shown = {name: column for name, column in cells.items() if any(column)}
    widths = {name: max(map(len, [name, *column])) for name, column in shown.items()}
    text = {name for name in shown if any(isinstance(line.get(name), str) for line in lines)}

    def aligned(values: Mapping[str, str]) -> str:
        """Return one line of the table: texts begin at the left of their column, numbers end at its right."""
        parts = [f"{values[name]:{'<' if name in text else '>'}{width}}" for name, width in widths.items()]
        return "  ".join(parts).rstrip()

    heads = {name: name.replace("_", " ") for name in shown}
    return [aligned(heads), *(aligned({name: shown[name][i] for name in shown}) for i in range(len(lines)))]
