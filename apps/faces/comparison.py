"""Compare methods of face recognition on splits of a data set: in parallel, and resumable."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from itertools import product
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.datasets import CORRUPTIONS, Faces, corrupt
from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError
from visionnmf.io.inputs import check_outputs, output_file

from .methods import (
    CHOSEN,
    MODELS,
    RANKLESS,
    RULES,
    Task,
    fit_model,
    score_chosen,
    score_model,
    score_rankless,
)

__all__ = [
    "Comparison",
    "Corruption",
    "Plan",
    "compare",
    "corruption_name",
    "make_task",
    "parse_corruption",
    "parse_ranks",
]

COLUMNS = (
    "corruption", "severity", "split", "method", "rank", "rule", "test", "accuracy", "train_error", "test_error",
    "seconds",
)  # fmt: skip
MOST_RANKS = 1000
TESTS = ("clean", "corrupted")

Corruption = tuple[str, float | None]


@dataclass(frozen=True)
class Plan:
    """What to compare, and on what.

    Attributes
    ----------
    corruptions : tuple of (str, float or None)
        Kinds of :func:`visionnmf.datasets.corrupt` and severities, in grey levels; None is the kind's default.
    methods : tuple of str
        Of :mod:`~visionnmf.apps.faces.methods`.
    ranks : tuple of int
        Ranks above the number of training images or pixels are taken down to it.
    rules : tuple of str
        "pseudo-inverse" and "codes", the rules of the paper for models; "whitened", the second with whitened codes.
    tests : tuple of str
        "clean", and "corrupted" for test images with the same corruption.
    splits : int
        Random splits.
    per_person : int
        Training images a person; the others are for testing.
    most_test : int or None
        At most so many test images a person.
    random_state : int
        Of the first split.
    iterations : int
        Of the models.
    """

    corruptions: tuple[Corruption, ...] = (("none", None),)
    methods: tuple[str, ...] = ("manhattan", "frobenius", "kullback-leibler", "pca", "recognizer", "raw", "lda", "crc")
    ranks: tuple[int, ...] = (100,)
    rules: tuple[str, ...] = RULES
    tests: tuple[str, ...] = ("clean",)
    splits: int = 10
    per_person: int = 7
    most_test: int | None = None
    random_state: int = 0
    iterations: int = 100

    def check(self) -> None:
        """Raise ParameterError where a value is not allowed."""
        allowed: tuple[tuple[str, Iterable[str], tuple[str, ...]], ...] = (
            ("corruption", [kind for kind, _ in self.corruptions], tuple(CORRUPTIONS)),
            ("methods", self.methods, (*MODELS, *CHOSEN, *RANKLESS)),
            ("rules", self.rules, RULES),
            ("tests", self.tests, TESTS),
        )
        for name, values, choices in allowed:
            wrong = [value for value in values if value not in choices]
            if wrong or not values:
                raise ParameterError(f"{name} must be some of {list(choices)}; got {wrong[0] if wrong else 'none'!r}")
        for name in ("splits", "per_person", "iterations"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1; got {getattr(self, name)}")
        if not self.ranks or min(self.ranks) < 1:
            raise ParameterError(f"ranks must be whole numbers from 1; got {list(self.ranks)}")


def parse_corruption(text: str) -> Corruption:
    """Read ``kind`` or ``kind:severity``.

    Parameters
    ----------
    text : str
        For instance ``salt_and_pepper:0.3``.

    Returns
    -------
    tuple of (str, float or None)

    Raises
    ------
    ParameterError
        When the severity is no number; the kind is checked by :meth:`Plan.check`.
    """
    kind, _, severity = text.partition(":")
    try:
        number = float(severity or 0)
        whole = int(number)  # fails where it is not finite
    except (ValueError, OverflowError):
        raise ParameterError(f"--corruption must be KIND or KIND:SEVERITY; got {text!r}") from None
    if not severity:
        return kind, None
    return kind, whole if whole == number else number  # sides of blocks must be ints


def parse_ranks(text: str) -> tuple[int, ...]:
    """Read ``100``, ``10,50,100`` or ``10-150/10`` (from, to, step).

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple of int

    Raises
    ------
    ParameterError
        When it is something else, or more than 1000 ranks.
    """
    ranks: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?:/(\d{1,6}))?)?", part.strip())
        if found is None or (found[3] is not None and int(found[3]) == 0):
            raise ParameterError(f"--ranks must be like 100, 10,50,100 or 10-150/10; got {text!r}")
        first = int(found[1])
        ranks += range(first, int(found[2] or first) + 1, int(found[3] or 1))
    if not 1 <= len(ranks) <= MOST_RANKS:
        raise ParameterError(f"--ranks must be 1 to {MOST_RANKS} numbers; got {text!r}")
    return tuple(dict.fromkeys(ranks))


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Attributes
    ----------
    rows : list of dict
        One for each corruption, split, method, rank, rule and test set; the columns of the CSV file.
    files : list of str
        What was written.
    skipped : list of str
        A sentence for each picture that was left out.
    """

    rows: list[dict[str, Any]]
    files: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

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
                key = tuple(row[name] for name in ("corruption", "severity", "method", "rank", "rule", "test"))
                groups.setdefault(key, []).append(row[column])
        return {key: (float(np.mean(values)), float(np.std(values))) for key, values in groups.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON report has.

        Returns
        -------
        dict
            Means and standard deviations of the accuracy, the files, and what was left out.
        """
        names = ("corruption", "severity", "method", "rank", "rule", "test")
        table = [
            dict(zip(names, key, strict=True)) | {"accuracy": round(mean, 2), "deviation": round(deviation, 2)}
            for key, (mean, deviation) in self.means().items()
        ]
        return {"results": table, "files": self.files, "skipped": self.skipped}

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
        text += [f"wrote {name}" for name in self.files] + [f"left out: {sentence}" for sentence in self.skipped]
        return "\n".join(text)


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
                f"person {_person(faces, person)} has {len(own)} images; {plan.per_person} to train leave none to test"
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


def run_job(faces: Faces, corruption: Corruption, split: int, plan: Plan) -> list[dict[str, Any]]:
    """Run all methods on one split with one corruption.

    Parameters
    ----------
    faces : Faces
    corruption : tuple of (str, float or None)
    split : int
    plan : Plan

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

    Returns
    -------
    Comparison

    Raises
    ------
    ParameterError
        When the plan does not fit the data.
    OutputExistsError
        When `out` holds other results, and `force` is false.
    """
    plan = plan or Plan()
    plan.check()
    if not len(faces.labels) or not faces.labels.any():
        raise ParameterError("the people must be known; use a folder with one sub-folder a person")
    if len(np.unique(faces.labels)) < 2:
        raise ParameterError("there must be two people at least to tell apart; got 1")
    work = list(product(dict.fromkeys(plan.corruptions), range(plan.splits)))
    for corruption in plan.corruptions:
        make_task(faces, corruption, 0, plan)  # complains before the work starts
    found: dict[tuple[Corruption, int], list[dict[str, Any]]] = {}
    key = _key(faces, plan)
    folder = None if out is None else Path(out) / "jobs"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for job in work:
            kept = _kept(folder, job, key, force)
            if kept is not None:
                found[job] = kept
        if not found:
            check_outputs([folder.parent / "results.csv"], force)
    left = [job for job in work if job not in found]

    def keep(job: tuple[Corruption, int], rows: list[dict[str, Any]]) -> None:
        found[job] = rows
        if folder is not None:
            with output_file(_file(folder, job), force=True) as temporary:
                temporary.write_text(json.dumps({"key": key, "rows": rows}))
        if progress is not None:
            progress(len(found), len(work))

    _run(faces, left, plan, jobs, keep)
    rows = [row for job in work for row in found[job]]
    files = []
    if out is not None:
        path = Path(out) / "results.csv"
        with output_file(path, force=True) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        files.append(str(path))
    return Comparison(rows, files)


def _run(
    faces: Faces,
    work: Sequence[tuple[Corruption, int]],
    plan: Plan,
    jobs: int,
    keep: Callable[[tuple[Corruption, int], list[dict[str, Any]]], None],
) -> None:
    if jobs == 1 or len(work) < 2:
        for corruption, split in work:
            keep((corruption, split), run_job(faces, corruption, split, plan))
        return
    others = set(active_children())
    # fresh processes of one thread each: forked ones would share the state of thread pools
    with ProcessPoolExecutor(min(jobs, len(work)), get_context("spawn"), _one_thread) as pool:
        futures = {pool.submit(run_job, faces, *job, plan): job for job in work}
        try:
            for future in as_completed(futures):
                keep(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()  # else an interrupt would wait for the splits that are running
            raise


def _one_thread() -> None:
    from threadpoolctl import threadpool_limits

    os.environ["VISIONNMF_NUM_THREADS"] = "1"
    threadpool_limits(1)


def _key(faces: Faces, plan: Plan) -> str:
    digest = hashlib.blake2b(faces.images.tobytes(), digest_size=8)
    digest.update(np.ascontiguousarray(faces.labels).tobytes())
    settings = {name: value for name, value in asdict(plan).items() if name not in ("splits", "corruptions")}
    settings["seed"] = settings.pop("random_state")  # its name in splits that are kept from before
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return digest.hexdigest()


def _file(folder: Path, job: tuple[Corruption, int]) -> Path:
    corruption, split = job
    return folder / f"{corruption_name(corruption)}-split{split}.json"


def corruption_name(corruption: Corruption) -> str:
    """Return what files are named by."""
    kind, severity = corruption
    return kind if severity is None else f"{kind}-{severity}"


def _kept(folder: Path, job: tuple[Corruption, int], key: str, force: bool) -> list[dict[str, Any]] | None:
    """Return the rows of a split that is done; None where it is to be run."""
    path = _file(folder, job)
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
        if content["key"] == key:
            return [{column: row[column] for column in COLUMNS} for row in content["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if not force:
            raise UnreadableError(f"{path}: damaged; remove it, and this split is run again ({error})") from error
    if not force:
        raise OutputExistsError(f"{path}: of other options or images; give another --out, or --force to replace it")
    return None
