"""Compare methods of face recognition on splits of a data set: in parallel, and resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS, run_jobs, settings_key
from visionnmf.datasets import Faces, corrupt
from visionnmf.exceptions import ParameterError

from .methods import (
    CHOSEN,
    RANKLESS,
    Task,
    fit_model,
    score_chosen,
    score_model,
    score_rankless,
)
from .plan import Corruption, Plan, corruption_name

__all__ = ["Comparison", "compare", "make_task"]

COLUMNS = (
    "corruption", "severity", "split", "method", "rank", "rule", "test", "accuracy", "train_error", "test_error",
    "seconds",
)  # fmt: skip
GROUP = ("corruption", "severity", "method", "rank", "rule", "test")  # what the splits are averaged for


@dataclass(frozen=True)
class Comparison(Report):
    """What :func:`compare` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    rows : list of dict
        One for each corruption, split, method, rank, rule and test set; the columns of the CSV file.
    """

    rows: list[dict[str, Any]]

    def means(self, column: str = "accuracy") -> dict[tuple[Any, ...], tuple[float, float]]:
        """Average over the splits.

        Parameters
        ----------
        column : str, default="accuracy"
            Or "train_error", "test_error".

        Returns
        -------
        dict
            (corruption, severity, method, rank, rule, test) to mean and standard deviation, in the order of the rows.
        """
        groups: dict[tuple[Any, ...], list[float]] = {}
        for row in self.rows:
            if row[column] is not None:
                key = tuple(row[name] for name in GROUP)
                groups.setdefault(key, []).append(row[column])
        return {key: (float(np.mean(values)), float(np.std(values))) for key, values in groups.items()}

    def _figures(self) -> dict[str, Any]:
        table = [
            dict(zip(GROUP, key, strict=True)) | {"accuracy": round(mean, 2), "deviation": round(deviation, 2)}
            for key, (mean, deviation) in self.means().items()
        ]
        return {"results": table, "files": self.outputs}

    def summary(self) -> str:
        """Tabulate accuracies.

        Returns
        -------
        str
            A line for each method, rank and rule; a column for each corruption and test set. Then the files.
        """
        means = self.means()
        columns = list(dict.fromkeys((key[0], key[1], key[5]) for key in means))
        lines = list(dict.fromkeys(key[2:5] for key in means))
        heads = [
            kind + (f" {severity:g}" if severity is not None else "") + ("" if test == "clean" else ", both")
            for kind, severity, test in columns
        ]
        widths = [max(12, len(head)) for head in heads]
        left = max(len(_name(*line)) for line in lines)
        text = [" " * left + "".join(f"  {head:>{width}}" for head, width in zip(heads, widths, strict=True))]
        for line in lines:
            cells = []
            for (kind, severity, test), width in zip(columns, widths, strict=True):
                found = means.get((kind, severity, *line, test))
                cells.append(f"  {f'{found[0]:.1f} ± {found[1]:.1f}' if found else '':>{width}}")
            text.append(f"{_name(*line):<{left}}" + "".join(cells))
        return "\n".join([*text, *self._ending()])


def _name(method: str, rank: int | None, rule: str | None) -> str:
    return method if rank is None else f"{method} {rank}, {rule}"


def make_task(faces: Faces, corruption: Corruption, split: int, plan: Plan) -> Task:
    """Split a data set, and corrupt what is to be corrupted.

    Parameters
    ----------
    faces : Faces
    corruption : tuple of (str, float or None)
    split : int
        Seeds the split, whatever the corruption, and the corruption.
    plan : Plan

    Returns
    -------
    Task
    """
    rng = np.random.default_rng(plan.random_state + split)
    train, test = [], []
    for person in np.unique(faces.labels):
        own = rng.permutation(np.flatnonzero(faces.labels == person))
        if len(own) <= plan.per_person:
            raise ParameterError(
                f"per_person must leave images to test; got {plan.per_person} of the {len(own)} of person "
                f"{_person(faces, person)}"
            )
        train.append(own[: plan.per_person])
        test.append(own[plan.per_person :][: plan.most_test])
    rows, others = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    kind, severity = corruption
    seeds = np.random.default_rng(1000 + plan.random_state + split).integers(2**32, size=2)
    tests = {"clean": _as_rows(faces.images[others])}
    if "corrupted" in plan.tests:
        tests["corrupted"] = _as_rows(corrupt(faces.images[others], kind, severity, random_state=int(seeds[1])))
    _, people = np.unique(faces.labels, return_inverse=True)
    return Task(
        train=_as_rows(corrupt(faces.images[rows], kind, severity, random_state=int(seeds[0]))),
        clean=_as_rows(faces.images[rows]),
        people=people[rows],
        tests=tests,
        answers=people[others],
        image_shape=(faces.images.shape[1], faces.images.shape[2]),
    )


def _person(faces: Faces, label: int) -> str:
    return repr(faces.names[label - 1]) if 0 < label <= len(faces.names) else str(label)


def _as_rows(images: NDArray[Any]) -> NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def run_job(faces: Faces, plan: Plan, corruption: Corruption, split: int) -> list[dict[str, Any]]:
    """Run all methods on one split with one corruption.

    Parameters
    ----------
    faces : Faces
    plan : Plan
    corruption : tuple of (str, float or None)
    split : int

    Returns
    -------
    list of dict
        Rows; see :class:`Comparison`.
    """
    task = make_task(faces, corruption, split, plan)
    rows: list[dict[str, Any]] = []
    rules = tuple(dict.fromkeys(plan.rules))
    for method in dict.fromkeys(plan.methods):
        most = min(task.train.shape)
        ranks = [None] if method in RANKLESS else list(dict.fromkeys(min(rank, most) for rank in plan.ranks))
        for rank in ranks:
            start = time.perf_counter()
            if rank is None:
                found = score_rankless(method, task, split)
            elif method in CHOSEN:
                found = score_chosen(method, task, rank, split, plan.iterations, rules)
            else:
                found = score_model(method, fit_model(method, task, rank, split, plan.iterations), task, rules)
            common = {"corruption": corruption[0], "severity": corruption[1], "split": split, "method": method}
            common |= {"rank": rank, "seconds": round(time.perf_counter() - start, 3)}
            empty: dict[str, Any] = dict.fromkeys(COLUMNS)
            rows += [empty | common | row for row in found if row["test"] in plan.tests]
    return rows


def compare(
    faces: Faces,
    plan: Plan | None = None,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
    also: Sequence[str] = (),
) -> Comparison:
    """Compare methods over corruptions and splits.

    Parameters
    ----------
    faces : Faces
        With more than ``plan.per_person`` images of each person.
    plan : Plan, optional
    out : str or Path, optional
        Folder for ``results.csv`` and, in ``jobs/``, what each split gave: those of an interrupted run with the same
        plan and data are not run again.
    jobs : int, default=1
        Processes.
    force : bool, default=False
        Whether results of another plan or data set may be replaced.
    progress : callable, optional
        Called as ``progress(done, total)`` after each split.
    also : sequence of str, default=()
        Names of other files that the caller will write to `out`: refused as ``results.csv`` is.

    Returns
    -------
    Comparison

    Raises
    ------
    ParameterError
        When the plan does not fit the data.
    OutputExistsError
        When `out` holds other results, and `force` is false.

    Examples
    --------
    >>> from visionnmf.apps.faces import Plan, compare, open_faces
    >>> faces, _ = open_faces("people")
    >>> plan = Plan(methods=("raw",), per_person=2, splits=1)
    >>> len(compare(faces, plan).rows) > 0
    True
    """
    plan = plan or Plan()
    plan.check()
    if not len(faces.labels) or not faces.labels.any():
        raise ParameterError("faces must have known people; got labels 0; use a folder with one sub-folder a person")
    if len(np.unique(faces.labels)) < 2:
        raise ParameterError("faces must have two people at least to tell apart; got 1")
    for corruption in plan.corruptions:
        make_task(faces, corruption, 0, plan)  # complains before the work starts
    rows = run_jobs(
        {
            f"{corruption_name(corruption)}-split{split}": (corruption, split)
            for corruption, split in product(plan.corruptions, range(plan.splits))
        },
        partial(run_job, faces, plan),
        COLUMNS,
        key=_key(faces, plan),
        out=out,
        processes=jobs,
        force=force,
        progress=progress,
        also=also,
    )
    return Comparison(rows, outputs=[] if out is None else [str(Path(out) / RESULTS)])


def _key(faces: Faces, plan: Plan) -> str:
    # each corruption and split has rows of its own: more of them go on with what is kept
    settings = {name: value for name, value in asdict(plan).items() if name not in ("splits", "corruptions")}
    settings["seed"] = settings.pop("random_state")  # its name in splits that are kept from before
    if "pseudo-inverse" in settings["rules"]:
        settings["gallery"] = "projected"  # in splits that are kept from before the rule was what is "mixed" now
    return settings_key(settings, faces.images, faces.labels)
