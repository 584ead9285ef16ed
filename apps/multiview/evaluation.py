"""Methods compared on random splits of labelled samples: scores, report, table and plot."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import average_precision_score, normalized_mutual_info_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import Normalizer

from visionnmf._checks import check_matplotlib
from visionnmf._progress import Steps
from visionnmf.apps.drawing import new_figure, save_figure
from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS, run_jobs, settings_key
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs
from visionnmf.metrics import clustering_accuracy

from .classification import ViewClassifier, fit_classifier
from .compared_methods import METHODS, LearntFeatures
from .inputs import read_files, read_labels, read_views
from .settings import Comparison, Labels
from .view_model import Preparation, default_loss, observed

Array = NDArray[Any]
Row = Mapping[str, Any]
ViewArrays = Mapping[str, Array]

COLUMNS = (
    *("condition", "method", "rank", "split", "missing", "accuracy", "inner"),
    *("cluster_accuracy", "nmi", "average_precision", "seconds"),
)
SCORES = ("accuracy", "cluster_accuracy", "nmi", "average_precision")
NO_SCORES = dict.fromkeys(SCORES, float("nan"))
FIGURE = "scores.png"

SALT_AND_PEPPER = 0.2  # share of the training entries
CORRUPTED = 1 / 3  # share of the training samples of which one view is replaced by noise
MISSING = 0.3  # share of the views of training samples


@dataclass(frozen=True, kw_only=True)
class EvaluationReport(Report):
    """What :func:`evaluate_files` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    `plan` has the fields of :class:`.Comparison`, and `scores` are those of :func:`.summarise`. For JSON, scores that
    there are not are None.
    """

    samples: int
    views: int
    classes: int
    plan: dict[str, Any]
    scores: list[dict[str, Any]]

    def _figures(self) -> dict[str, Any]:
        """Return the fields for JSON, with None for scores that there are not."""
        figures = super()._figures()
        for row in figures["scores"]:  # JSON has no NaN
            row |= {name: None for name, value in row.items() if isinstance(value, float) and np.isnan(value)}
        return figures

    def summary(self) -> str:
        """Return one line for the samples, then one for each method and condition.

        The first score has its standard deviation over the splits, if there are several. ``self.scores`` has a row for
        each line, and ``self.plan`` the fields of :class:`.Comparison`. The last lines are the notes, the
        files written, and what was left out.
        """
        sizes = {"sample": self.samples, "view": self.views, "class": self.classes, "split": self.plan["n_splits"]}
        endings = {"class": "es"}
        lines = [", ".join(f"{n} {word}{'' if n == 1 else endings.get(word, 's')}" for word, n in sizes.items())]
        heads = [(row["condition"], row["missing"], row["method"]) for row in self.scores]
        words = ("accuracy", "clustering", "NMI", "mean average precision")
        for row, head in zip(self.scores, heads, strict=True):
            missing = row["missing"]
            if row["condition"] == "view-missing" and not missing:  # the row of this condition with all views
                if "clean" in self.plan["conditions"]:  # the same samples, so the same figures
                    continue
                missing = "none"
            what = row["condition"] + (f" ({missing})" if missing else "")
            figures = [
                f"{word} {100 * row[name]:.1f}"
                for name, word in zip(SCORES, words, strict=True)
                if np.isfinite(row[name])
            ]
            if np.isfinite(row["deviation"]):
                figures[0] += f" ± {100 * row['deviation']:.1f}"
            # a line says its rank only where each rank has a line of its own
            rank = f", rank {row['rank']:.0f}" if heads.count(head) > 1 else ""
            lines.append(f"  {what}, {row['method']}{rank}: {', '.join(f'{figure} %' for figure in figures)}")
        return "\n".join([*lines, *(f"  {line}" for line in self._notes_and_outputs())])


def evaluate_files(
    sources: Sequence[str | Path],
    comparison: Comparison,
    *,
    labels: Labels = Labels(),
    key: str | None = None,
    out: str | Path = ".",
    jobs: int = 1,
    plot: bool = False,
    force: bool = False,
    begin: Callable[[], None] | None = None,
    progress: Steps | None = None,
) -> EvaluationReport:
    """Compare methods on the views of files; an interrupted run continues where it was.

    Parameters
    ----------
    sources : sequence of str or path
        See :func:`.read_views`.
    comparison : Comparison
    labels : Labels
    key : str or None, default=None
        The column by which rows are matched; None matches them by position.
    out : str or Path, default="."
        Folder for ``results.csv``, the rows of each job, and the plot.
    jobs : int, default=1
        Number of processes.
    plot : bool, default=False
        Draw the scores against the rank (as figure 20 of Guan et al. 2012), which needs matplotlib.
    force : bool, default=False
        Whether results of another comparison in `out` may be replaced.
    begin : callable, optional
        Called once when the views and the labels have been read, before the first job.
    progress : callable, optional
        Called with the number of finished jobs and of all.

    Returns
    -------
    EvaluationReport

    Raises
    ------
    MediaError
        If views or labels cannot be read, or `out` holds other results.
    ParameterError
        If a class has a single sample.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("labels.csv").write_text(chr(10).join("ab" * 15))
    >>> from visionnmf.apps.multiview import Comparison, Labels, evaluate_files
    >>> comparison = Comparison(methods=("pca",), ranks=(2,), n_splits=1)
    >>> labels = Labels(labels="labels.csv")
    >>> len(evaluate_files(["shape.npy", "colour.npy"], comparison, labels=labels, force=True).outputs) > 0
    True
    """
    if plot:
        check_matplotlib()
    also = [FIGURE] if plot else []
    outputs = [str(Path(out) / name) for name in (RESULTS, *also)]
    # here only inputs are protected, even with `force`; `run_jobs` decides whether results may be continued or replaced
    check_outputs(outputs, force=True, inputs=[*read_files(sources), *([labels.labels] if labels.labels else [])])
    found = read_views(sources, key=key)
    y = found.labels
    if labels.labels is not None:
        # with a `key` rows are matched by the keys in the first column of the file, otherwise by their order
        y = read_labels(labels.labels, found, column=labels.column, by_key=key is not None)
    if y is None:
        raise ParameterError(f"labels must be a file of classes, because {sources[0]} has none; got None")
    y = _word_matrix(np.asarray(y))  # classes stay; words in one text become marks (n_samples, n_words)
    if begin is not None:
        begin()
    rows = evaluate_views(found.views, y, comparison, out=out, jobs=jobs, force=force, progress=progress, also=also)
    if plot:
        _draw(rows, outputs[-1])
    return EvaluationReport(
        samples=len(found.keys),
        views=len(found.views),
        classes=int(len(np.unique(y)) if y.ndim == 1 else y.shape[1]),
        plan=asdict(comparison),
        scores=summarise(rows),
        inputs=[str(source) for source in sources],
        outputs=outputs,
        skipped=found.skipped,
        notes=found.notes,
    )


def evaluate_views(
    views: Mapping[str, Array],
    labels: Array,
    comparison: Comparison,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    force: bool = False,
    progress: Steps | None = None,
    also: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Compare methods on views in memory (n_samples, n_features); an interrupted run continues where it was.

    `labels` are classes (n_samples,) or words as 0 and 1 (n_samples, n_words). `also` names files that the caller will
    write to `out`, which without `force` must not exist unless this comparison made them. Returns a row for each
    condition (see :func:`apply_condition`: whether entries are corrupted or views missing), test set, method, rank and
    split. Raises ParameterError if a class has fewer than two samples.
    """
    if len(labels) != len(next(iter(views.values()))):
        raise ParameterError(f"labels must be one for each sample; got {len(labels)}")
    if labels.ndim == 1 and np.unique(labels, return_counts=True)[1].min() < 2:
        raise ParameterError("labels must have two samples of each class; got a class of one; leave it out")
    table = {
        f"{condition}-{method}-{split}": (condition, method, split)
        for condition in comparison.conditions
        for method in comparison.methods
        for split in range(comparison.n_splits)
    }
    settings = asdict(comparison)
    # These say which jobs there are, but do not change the rows of a job, so that a run with more jobs continues.
    shared = {name: value for name, value in settings.items() if name not in ("methods", "conditions", "n_splits")}
    key = settings_key(shared | {"views": list(views)}, *views.values(), np.asarray(labels, dtype="U"))
    work = partial(_job, dict(views), labels, comparison)
    return run_jobs(table, work, COLUMNS, key=key, out=out, processes=jobs, force=force, progress=progress, also=also)


def summarise(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return means over splits, with the rank of each split chosen by cross-validation on its training samples.

    `rows` are those of :func:`evaluate_views`. Labels of words, and classes of one training sample, have no
    cross-validation: each rank keeps its own row. The result has a row for each condition, missing view and method, and
    for each rank if none is chosen: ``accuracy``, ``cluster_accuracy``, ``nmi``, ``average_precision``, ``deviation``
    (the standard deviation over the splits of the accuracy, or of the average precision in its place), ``rank`` (mean).
    What there is not, such as the deviation of a single split, is NaN.
    """
    # For each result the row of each split; of several ranks, that with the best accuracy in cross-validation, `inner`.
    found: dict[tuple[Any, ...], dict[int, Row]] = {}
    unchosen = {(row["condition"], row["method"]) for row in rows if np.isnan(row["inner"])}
    for row in rows:
        rank = row["rank"] if (row["condition"], row["method"]) in unchosen else None
        place = found.setdefault((row["condition"], row["missing"], row["method"], rank), {})
        best = place.get(row["split"])
        if best is None or row["inner"] > best["inner"]:
            place[row["split"]] = row
    result = []
    for (condition, missing, method, _), chosen in found.items():
        means = {name: float(np.mean([row[name] for row in chosen.values()])) for name in (*SCORES, "rank")}
        main = "average_precision" if np.isnan(means["accuracy"]) else "accuracy"
        spread = float(np.std([row[main] for row in chosen.values()])) if len(chosen) > 1 else float("nan")
        head = {"condition": condition, "missing": missing, "method": method}
        result.append(head | means | {"deviation": spread, "splits": len(chosen)})
    return result


def _job(
    views: Mapping[str, Array], labels: Array, comparison: Comparison, condition: str, method: str, split: int
) -> list[dict[str, Any]]:
    """Evaluate one method on one random split under one condition; return a row for each rank and each test set.

    Views (n_samples, n_features) by name are prepared by the training samples alone; those that none of these has are
    left out. The test sets of a condition, one for each missing view, share a training set. `labels` are classes
    (n_samples,) or words (n_samples, n_words), and `comparison` has the ranks, the share of test samples and the seed.
    """
    seed = comparison.random_state + split
    train, test = split_samples(labels, comparison.test_share, seed)
    # `before` and `after` are the views of the training and of the test samples
    before = {name: np.asarray(view[train], np.float32) for name, view in views.items()}
    after = {name: np.asarray(view[test], np.float32) for name, view in views.items()}
    preparation = Preparation(comparison.prepare).fit(before)
    before, after = preparation.transform(before), preparation.transform(after)
    before, after = learnable(before, before), learnable(before, after)  # both by the views that training samples have
    variants = [  # a rare view may be in no training sample, or missing in all that had it
        (missing, learnable(given, given), learnable(given, new))
        for missing, given, new in apply_condition(condition, before, after, np.random.default_rng(seed))
    ]
    head: dict[str, Any] = {"condition": condition, "method": method, "split": split}
    loss = default_loss(variants[0][1])
    # Whether the classifier may try square roots of the features, which reduce the weight of large values. Views of
    # kind "rows", such as counts of words, need none: their preparation has taken logarithms.
    roots = "rows" not in preparation.kinds_.values()
    ranks = comparison.ranks if METHODS[method].ranked else comparison.ranks[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all methods are compared as they are, converged or not
        rows = []
        for rank in ranks:
            start = time.process_time()
            features = METHODS[method].learn(variants[0][1], rank, seed, loss)
            scores = _scores(features, variants, labels[train], labels[test], roots=roots, seed=seed, start=start)
            rows += [head | {"rank": rank} | row for row in scores]
        return rows


def learnable(train: Mapping[str, Array], views: Mapping[str, Array]) -> dict[str, Array]:
    """Return the views of which at least one training sample has an entry."""
    return {name: view for name, view in views.items() if not np.isnan(train[name]).all()}


def split_samples(labels: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Return the indices of training and test samples, of which a `share` of each class is tested.

    `labels` are classes (n_samples,), or words (n_samples, n_words), by which samples are not stratified.
    """
    kind = StratifiedShuffleSplit if labels.ndim == 1 else ShuffleSplit
    train, test = next(kind(1, test_size=share, random_state=seed).split(np.zeros(len(labels)), labels))
    return train, test


def _scores(
    features: LearntFeatures,
    variants: Sequence[tuple[str, Any, Any]],
    y: Array,
    truth: Array,
    *,
    roots: bool,
    seed: int,
    start: float,
) -> list[dict[str, Any]]:
    """Fit a classifier to the features of the training samples, and return one row of scores for each test set.

    `variants` are (name of the missing view, training views, test views). Labels are classes (n_samples,), or words as
    a matrix of 0 and 1, scored by average precision only: `y` of the training samples, `truth` of the test samples.
    Samples without any view left are not tested. `start` is the processor time at which learning began. `roots` says
    whether square roots of features may be taken, and `seed` is that of k-means.
    """
    # `inner` is the accuracy in cross-validation on the training samples, by which `summarise` chooses the rank.
    classifier: Any
    _, training_views, _ = variants[0]  # those of all variants are equal
    if features.model is not None:  # a multi-view model, whose classifier also sees the views
        classifier = ViewClassifier(features.model, roots=roots).fit(training_views, y)
        inner = classifier.inner_
    else:
        # Features are coordinates of components that overlap. The inner products H @ H.T of the components turn
        # distances between coordinates into distances between reconstructions; see `signed_roots`. Without components,
        # as for views side by side, the coordinates need no conversion.
        H = features.components
        classifier, inner = fit_classifier(features.train, y, None if H is None else H @ H.T, roots=roots)
    rows = []
    for missing, _, after in variants:
        kept = observed(after)
        if not kept.any():
            continue  # no sample has any other view
        tested, known = {name: view[kept] for name, view in after.items()}, truth[kept]
        # the classifier of a multi-view model takes views, that of other methods their features
        given: Any = tested if features.model is not None else features.transform(tested)
        row: dict[str, Any] = {"missing": missing, "inner": inner, **NO_SCORES}
        if y.ndim > 1:
            row["average_precision"] = mean_average_precision(known, classifier.decision_function(given))
        else:
            row["accuracy"] = float(np.mean(classifier.predict(given) == known))
            if not missing:
                codes = np.vstack([features.train, features.transform(tested)])
                row |= _clusters(codes, np.concatenate([y, known]), seed)
        rows.append(row | {"seconds": time.process_time() - start})
    return rows


def _clusters(codes: Array, labels: Array, seed: int) -> dict[str, float]:
    """Return two scores of k-means of the codes, scaled to unit norm, with as many clusters as there are classes."""
    unit = Normalizer().fit_transform(codes)
    found = KMeans(len(np.unique(labels)), n_init=10, random_state=seed).fit_predict(unit)
    return {
        "cluster_accuracy": clustering_accuracy(labels, found),
        "nmi": float(normalized_mutual_info_score(labels, found)),
    }


def apply_condition(
    condition: str, train: ViewArrays, test: ViewArrays, rng: np.random.Generator
) -> list[tuple[str, Any, Any]]:
    """Return training and test samples of prepared views under a condition, each with the name of the missing view.

    "salt-and-pepper": a fifth of the training entries are 0 or the largest of their view. "view-corrupted": one random
    view of a third of the training samples is noise. "view-missing": each view in turn is missing for all test samples;
    the first result, named "", has all views. "train-missing": 30 % of the views of training samples are missing, but
    each keeps one.
    """
    names = list(train)
    n = len(train[names[0]])
    # `tops` is the largest training value of each view, by which noise gets the range of the data
    tops = {name: float(np.nanmax(view)) for name, view in train.items()}
    if condition == "salt-and-pepper":
        return [("", {name: _salt(view, tops[name], rng) for name, view in train.items()}, dict(test))]
    if condition == "view-corrupted":
        # the number of the view that is noise, or -1 for samples that stay clean
        hit = np.where(rng.random(n) < CORRUPTED, rng.integers(len(names), size=n), -1)
        noisy = {
            name: np.where((hit == v)[:, None], rng.random(view.shape) * tops[name], view).astype(view.dtype)
            for v, (name, view) in enumerate(train.items())
        }
        return [("", noisy, dict(test))]
    if condition == "view-missing":
        blank = [
            (name, dict(train), {**test, name: np.full_like(test[name], np.nan)}) for name in names if len(names) > 1
        ]
        return [("", dict(train), dict(test)), *blank]
    if condition == "train-missing":
        # (n_samples, n_views): `there` is what is kept, `seen` what the samples had; `lost` would be left with no view
        there = rng.random((n, len(names))) >= MISSING
        seen = np.array([observed({name: view}) for name, view in train.items()]).T
        lost = np.flatnonzero(~(there & seen).any(axis=1) & seen.any(axis=1))
        for i, which in zip(lost, rng.integers(seen[lost].sum(axis=1)), strict=True):
            there[i, np.flatnonzero(seen[i])[which]] = True  # one that the sample has
        gaps = {
            name: np.where(there[:, [v]], view, np.nan).astype(view.dtype)
            for v, (name, view) in enumerate(train.items())
        }
        return [("", gaps, dict(test))]
    return [("", dict(train), dict(test))]


def _salt(view: Array, top: float, rng: np.random.Generator) -> Array:
    """Return a view in which a tenth of the entries are 0 and a tenth are `top`, its largest; NaN stay."""
    hit = rng.random(view.shape)
    salted = np.where(hit < SALT_AND_PEPPER / 2, 0, np.where(hit < SALT_AND_PEPPER, top, view))
    return np.where(np.isnan(view), view, salted).astype(view.dtype)


def mean_average_precision(truth: Array, scores: Array) -> float:
    """Return the average precision of each word that some sample has, averaged over these words.

    `truth`, of 0 and 1, and `scores` are (n_samples, n_words).
    """
    used = truth.any(axis=0)
    return float(average_precision_score(truth[:, used], scores[:, used], average="macro"))


def _word_matrix(labels: Any) -> Any:
    """Return words separated by semicolons as a matrix of 0 and 1 (n_samples, n_words); classes stay as they are."""
    if labels.ndim > 1 or labels.dtype.kind != "U" or not any(";" in value for value in labels):
        return labels
    sets = [{word.strip() for word in value.split(";")} - {""} for value in labels]
    words = sorted(set().union(*sets))
    return np.array([[word in own for word in words] for own in sets], int)


def _draw(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    """Draw mean and deviation of each method's score against its rank; `rows` are those of `evaluate_views`."""
    figure = new_figure(7, 4.5)
    axes = figure.subplots()
    clean = [row for row in rows if not row["missing"]]
    name = "accuracy" if any(np.isfinite(row["accuracy"]) for row in clean) else "average_precision"
    for condition, method in dict.fromkeys((row["condition"], row["method"]) for row in clean):
        own = [row for row in clean if (row["condition"], row["method"]) == (condition, method)]
        ranks = sorted({row["rank"] for row in own})
        scores = [[100 * row[name] for row in own if row["rank"] == rank] for rank in ranks]
        means, deviations = [*map(np.mean, scores)], [*map(np.std, scores)]
        if np.isfinite(means).all():  # not for a method without this score
            label = method if condition == "clean" else f"{method}, {condition}"
            axes.errorbar(ranks, means, deviations, marker="o", capsize=3, label=label)
    axes.set_xticks(sorted({row["rank"] for row in clean}))
    axes.set_xlabel("rank (number of components)")
    axes.set_ylabel(f"{name.replace('_', ' ')}, % (mean and deviation over the splits)")
    axes.legend(fontsize=8)
    save_figure(figure, path)
