"""Comparing methods of face recognition on random splits of a data set, in parallel and resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, tiled
from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS, run_jobs, settings_key
from visionnmf.datasets import Faces, corrupt
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outside, output_file

from .methods import METHODS, FaceMethod, FaceSplit, Factorisation
from .reading import open_faces
from .settings import Corruption, FaceEvaluation, FaceReading, check_some_of

__all__ = ["FaceComparisonReport", "compare", "curves_picture", "evaluate", "make_split", "montage_picture"]

COLUMNS = (
    "corruption", "severity", "split", "method", "rank", "rule", "test", "accuracy", "train_error", "test_error",
    "seconds",
)  # fmt: skip
GROUP = ("corruption", "severity", "method", "rank", "rule", "test")  # columns whose splits are averaged
CURVES = "accuracy.png"
PANEL = (3.4, 2.7)  # inches
MONTAGE = 10  # images per row


@dataclass(frozen=True)
class FaceComparisonReport(Report):
    """What :func:`compare` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    rows : list of dict
        One for each corruption, split, method, rank, rule and test set, with the columns of the CSV file.
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
            From (corruption, severity, method, rank, rule, test) to mean and standard deviation, in the order of the
            rows.
        """
        groups: dict[tuple[Any, ...], list[float]] = {}
        for row in self.rows:
            if row[column] is not None:
                groups.setdefault(tuple(row[name] for name in GROUP), []).append(row[column])
        return {key: (float(np.mean(values)), float(np.std(values))) for key, values in groups.items()}

    def _figures(self) -> dict[str, Any]:
        table = [
            dict(zip(GROUP, key, strict=True)) | {"accuracy": round(mean, 2), "deviation": round(deviation, 2)}
            for key, (mean, deviation) in self.means().items()
        ]
        return {"results": table, "files": self.outputs}

    def summary(self) -> str:
        """Return a table of accuracies.

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
        left = max(len(_line_name(*line)) for line in lines)
        text = [" " * left + "".join(f"  {head:>{width}}" for head, width in zip(heads, widths, strict=True))]
        for line in lines:
            cells = []
            for (kind, severity, test), width in zip(columns, widths, strict=True):
                found = means.get((kind, severity, *line, test))
                cells.append(f"  {f'{found[0]:.1f} ± {found[1]:.1f}' if found else '':>{width}}")
            text.append(f"{_line_name(*line):<{left}}" + "".join(cells))
        return "\n".join([*text, *self._ending()])


def _line_name(method: str, rank: int | None, rule: str | None) -> str:
    """Return the name of a line of the table."""
    return method if rank is None else f"{method} {rank}, {rule}"


def make_split(faces: Faces, corruption: Corruption, number: int, evaluation: FaceEvaluation) -> FaceSplit:
    """Split a data set at random, and corrupt its training images and, if asked for, its test images.

    The `number` of the split seeds the choice of images, whatever the corruption, and the corruption.
    """
    rng = np.random.default_rng(evaluation.random_state + number)
    train, test = [], []
    for person in np.unique(faces.labels):
        own = rng.permutation(np.flatnonzero(faces.labels == person))
        if len(own) <= evaluation.per_person:
            name = repr(faces.names[person - 1]) if 0 < person <= len(faces.names) else str(person)
            raise ParameterError(
                f"per_person must leave images to test; got {evaluation.per_person} of the {len(own)} of person {name}"
            )
        train.append(own[: evaluation.per_person])
        test.append(own[evaluation.per_person :][: evaluation.most_test])
    rows, others = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    kind, severity = corruption
    seeds = np.random.default_rng(1000 + evaluation.random_state + number).integers(2**32, size=2)
    tests = {"clean": _as_shares(faces.images[others])}
    if "corrupted" in evaluation.tests:
        tests["corrupted"] = _as_shares(corrupt(faces.images[others], kind, severity, random_state=int(seeds[1])))
    _, people = np.unique(faces.labels, return_inverse=True)
    return FaceSplit(
        train=_as_shares(corrupt(faces.images[rows], kind, severity, random_state=int(seeds[0]))),
        clean=_as_shares(faces.images[rows]),
        people=people[rows],
        tests=tests,
        answers=people[others],
        image_shape=(faces.images.shape[1], faces.images.shape[2]),
        seed=number,
    )


def _as_shares(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return images as rows of shares of white."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def run_split(
    faces: Faces, evaluation: FaceEvaluation, methods: Mapping[str, FaceMethod], corruption: Corruption, number: int
) -> list[dict[str, Any]]:
    """Return the rows of all methods on one split with one corruption."""
    split = make_split(faces, corruption, number, evaluation)
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(evaluation.methods):
        method, most = methods[name], min(split.train.shape)
        ranks = dict.fromkeys(min(rank, most) for rank in evaluation.ranks) if method.ranked else [None]
        for rank in ranks:
            start = time.perf_counter()
            found = method.score(split, rank, evaluation)
            common = {"corruption": corruption[0], "severity": corruption[1], "split": number, "method": name}
            common |= {"rank": rank, "seconds": round(time.perf_counter() - start, 3)}
            rows += [dict.fromkeys(COLUMNS) | common | row for row in found if row["test"] in evaluation.tests]
    return rows


def compare(
    faces: Faces,
    evaluation: FaceEvaluation | None = None,
    *,
    methods: Mapping[str, FaceMethod] | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
    also: Sequence[str] = (),
) -> FaceComparisonReport:
    """Compare methods over corruptions and splits; see :func:`evaluate`.

    `methods` are those that may be named, by default those of :mod:`.methods`. The folder `out` gets ``results.csv``
    and, in ``jobs/``, the rows of each split, which an interrupted run with the same settings and data reuses. `also`
    names other files that the caller will write there; they are protected as ``results.csv`` is.
    """
    evaluation, methods = evaluation or FaceEvaluation(), methods or METHODS
    check_some_of(evaluation.methods, "methods", list(methods))
    if not len(faces.labels) or not faces.labels.any():
        raise ParameterError("faces must have known people; got labels 0; use a folder with one sub-folder per person")
    if len(np.unique(faces.labels)) < 2:
        raise ParameterError("faces must have at least two people; got 1")
    for corruption in evaluation.corruptions:
        make_split(faces, corruption, 0, evaluation)  # raises errors before the long computation
    # each corruption and split has rows of its own, so more of them continue with what is kept
    settings = {name: value for name, value in asdict(evaluation).items() if name not in ("splits", "corruptions")}
    rows = run_jobs(
        {
            f"{_corruption_name(corruption)}-split{number}": (corruption, number)
            for corruption, number in product(evaluation.corruptions, range(evaluation.splits))
        },
        partial(run_split, faces, evaluation, methods),
        COLUMNS,
        key=settings_key(settings, faces.images, faces.labels),
        out=out,
        processes=jobs,
        force=force,
        progress=progress,
        also=also,
    )
    return FaceComparisonReport(rows, outputs=[] if out is None else [str(Path(out) / RESULTS)])


def evaluate(
    source: str | Path,
    evaluation: FaceEvaluation,
    *,
    reading: FaceReading = FaceReading(),
    out: str | Path | None = None,
    jobs: int = 1,
    plots: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FaceComparisonReport:
    """Read a data set, compare methods on it (:func:`compare`), and draw what they reach.

    Parameters
    ----------
    source : str or Path
        See :func:`open_faces`.
    evaluation : FaceEvaluation
        What is compared.
    reading : FaceReading
        How the images are read.
    out : str or Path, optional
        Folder for ``results.csv``, the pictures, and what an interrupted run needs to continue.
    jobs : int, default=1
        Number of processes.
    plots : bool, default=False
        Whether to draw ``accuracy.png``, accuracy against rank, and for each corruption the ``components`` and
        ``reconstructions`` of the models with the largest rank, on the first split. It needs matplotlib and `out`.
    force : bool, default=False
        Whether results of other settings or data, and pictures of a folder without results, may be replaced.
    progress : callable, optional
        Called as ``progress(done, total)`` after each split.

    Returns
    -------
    FaceComparisonReport

    Raises
    ------
    ParameterError
        If the settings do not fit the data, plots would be written among the faces, or matplotlib is missing.
    OutputExistsError
        If `out` holds other results, or pictures of these names without results, and `force` is false.

    Examples
    --------
    >>> from visionnmf.apps.faces import FaceEvaluation, evaluate
    >>> evaluation = FaceEvaluation(methods=("raw",), per_person=2, splits=1)
    >>> len(evaluate("people", evaluation).rows) > 0
    True
    """
    if plots:
        if out is None:
            raise ParameterError("out must be given with plots; got None")
        check_outside(out, source)
        _figure(1, 1)  # raises an error before the long computation if matplotlib is missing
    faces, skipped = open_faces(source, reading=reading)
    pictures = _picture_names(evaluation) if plots else []
    found = compare(faces, evaluation, out=out, jobs=jobs, force=force, progress=progress, also=pictures)
    outputs = list(found.outputs)
    if plots and out is not None:
        curves_picture(found, Path(out) / CURVES, force=True)
        for corruption in evaluation.corruptions if _models(evaluation) else ():
            split = make_split(faces, corruption, 0, evaluation)
            _draw_models(_models(evaluation), split, evaluation, [Path(out) / name for name in _sheets(corruption)])
        outputs += [str(Path(out) / name) for name in pictures]
    return replace(found, inputs=[str(source)], outputs=outputs, skipped=skipped)


def _models(evaluation: FaceEvaluation) -> dict[str, Factorisation]:
    """Return the methods whose components can be drawn."""
    chosen = {name: METHODS[name] for name in evaluation.methods if name in METHODS}
    return {name: method for name, method in chosen.items() if isinstance(method, Factorisation)}


def _picture_names(evaluation: FaceEvaluation) -> list[str]:
    """Return the names of all files that plots write."""
    sheets = [name for corruption in evaluation.corruptions for name in _sheets(corruption)]
    return [CURVES, *sheets] if _models(evaluation) else [CURVES]


def _sheets(corruption: Corruption) -> tuple[str, str]:
    """Return the file names of the components and reconstructions for a corruption."""
    kind = _corruption_name(corruption)
    return f"components-{kind}.png", f"reconstructions-{kind}.png"


def _corruption_name(corruption: Corruption) -> str:
    """Return a corruption as part of a file name."""
    kind, severity = corruption
    return kind if severity is None else f"{kind}-{severity}"


# --- plots ------------------------------------------------------------------------------------------------------------


def curves_picture(found: FaceComparisonReport, path: str | Path, *, force: bool = False) -> None:
    """Draw accuracy against rank to a PNG: a panel for each corruption, rule and test set, a curve for each method."""
    means = found.means()
    rules = list(dict.fromkeys((key[4], key[5]) for key in means if key[4] is not None)) or [(None, "clean")]
    kinds = list(dict.fromkeys(key[:2] for key in means))
    across = 3 * len(kinds) if len(kinds) > 1 else 2  # names below the panels
    lines = -(-len({key[2] for key in means}) // across)
    figure = _figure(PANEL[0] * max(len(kinds), 1.5), PANEL[1] * len(rules) + 0.3 + 0.25 * lines)
    axes = figure.subplots(len(rules), len(kinds), squeeze=False, sharex=True, sharey=True)
    for i, (rule, test) in enumerate(rules):
        for j, (kind, severity) in enumerate(kinds):
            _panel(axes[i, j], means, (kind, severity, rule, test))
            level = "" if severity is None else f" {severity:g}"
            axes[i, j].set_title(f"{kind}{level}", fontsize="medium")
        axes[i, 0].set_ylabel(f"{rule}, {test} test images\naccuracy (%)" if rule else "accuracy (%)", fontsize="small")
    for axis in axes[-1]:
        axis.set_xlabel("rank")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=across, frameon=False, fontsize="small")
    with output_file(path, force=force) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


def _draw_models(
    models: dict[str, Factorisation], split: FaceSplit, evaluation: FaceEvaluation, paths: Sequence[Path]
) -> None:
    """Draw the components of models with the largest rank, and their reconstructions of training images, to two files.

    Existing files are replaced.
    """
    rank = min(max(evaluation.ranks), *split.train.shape)
    shown = np.linspace(0, len(split.train) - 1, min(MONTAGE, len(split.train))).astype(int)
    components, reconstructions = {}, {"clean": split.clean[shown], "as trained on": split.train[shown]}
    for name, method in models.items():
        fitted = method.fit(split, rank, evaluation.iterations)
        reconstructions[name] = fitted.model.inverse_transform(fitted.codes[shown])
        H = fitted.model.components_
        rows = H[np.argsort(-H.std(axis=1), kind="stable")[:MONTAGE]]
        low = np.minimum(rows.min(axis=1, keepdims=True), 0)  # eigenfaces are partly negative
        peaks = (rows - low).max(axis=1, keepdims=True)
        components[name] = (rows - low) / np.where(peaks > 0, peaks, 1)
    for path, sheet in zip(paths, (components, reconstructions), strict=True):
        title = f"{path.stem.replace('-', ', ', 1)}, rank {rank}"
        montage_picture(sheet, split.image_shape, path, title=title, force=True)


def montage_picture(
    rows: dict[str, NDArray[Any]], image_shape: tuple[int, int], path: str | Path, *, title: str = "",
    force: bool = False,
) -> None:  # fmt: skip
    """Draw images in [0, 1] as rows with names, the same number in each row, to a PNG file."""
    strips = [tiled([list(grey_pictures(255 * images, image_shape))]) for images in rows.values()]
    height, width = strips[0].shape[:2]
    figure = _figure(2 + width / 100, 0.4 + len(rows) * (height / 100 + 0.05))
    axes = figure.subplots(len(rows), 1, squeeze=False)
    for axis, name, strip in zip(axes[:, 0], rows, strips, strict=True):
        axis.imshow(strip, interpolation="nearest")
        axis.set_axis_off()
        axis.text(-5, height / 2, name, ha="right", va="center", fontsize="small")
    figure.suptitle(title, fontsize="medium")
    with output_file(path, force=force) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


def _figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches, which needs no window system."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError(
            "matplotlib must be installed for plots; got none; pip install 'visionnmf[plots]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _panel(axis: Any, means: dict[tuple[Any, ...], tuple[float, float]], panel: tuple[Any, ...]) -> None:
    """Draw the curves of one corruption, rule and test set, and methods without a rank as horizontal lines."""
    kind, severity, rule, test = panel
    curves: dict[str, list[tuple[int, float, float]]] = {}
    for (*place, method, rank, of_rule, of_test), (mean, deviation) in means.items():
        if tuple(place) != (kind, severity) or of_test != test:
            continue
        if rank is None:
            number = len(axis.lines)  # horizontal lines are drawn before the curves
            dashes = (2 * number, (3, 5) if number < 4 else (1, 3))  # shifted, so that equal accuracies both show
            axis.axhline(mean, label=method, linestyle=dashes, linewidth=1.3, color=f"C{9 - number % 4}")
        elif of_rule == rule:
            curves.setdefault(method, []).append((rank, mean, deviation))
    for number, (method, points) in enumerate(curves.items()):
        ranks, values, deviations = zip(*sorted(points), strict=True)
        axis.errorbar(ranks, values, deviations, label=method, capsize=2, linewidth=1.2, color=f"C{number}", marker=".")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylim(0, 100)
