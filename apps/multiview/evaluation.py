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

from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS, run_jobs, settings_key
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import check_outputs, output_file
from visionnmf.metrics import clustering_accuracy

from .classifier import fit_classifier
from .clustering import agreement, consensus
from .compared_methods import METHODS, LearntFeatures
from .conditions import apply_condition, observed
from .inputs import read_files, read_labels, read_views
from .model_choice import ModelChoice, choose_model, make_model
from .preparation import Preparation
from .settings import CONSENSUS, Comparison, Labels

__all__ = ["COLUMNS", "EvaluationReport", "evaluate_files", "evaluate_views", "summarise"]

Array = NDArray[Any]
Row = Mapping[str, Any]

COLUMNS = (
    *("condition", "method", "rank", "split", "missing", "accuracy", "inner"),
    *("cluster_accuracy", "nmi", "average_precision", "seconds"),
)
SCORES = ("accuracy", "cluster_accuracy", "nmi", "average_precision")
NO_SCORES = dict.fromkeys(SCORES, float("nan"))
FIGURE = "scores.png"


@dataclass(frozen=True, kw_only=True)
class EvaluationReport(Report):
    """What :func:`evaluate_files` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    samples, views, classes : int
    plan : dict
        The fields of :class:`.Comparison`.
    scores : list of dict
        See :func:`.summarise`.
    """

    samples: int
    views: int
    classes: int
    plan: dict[str, Any]
    scores: list[dict[str, Any]]

    def summary(self) -> str:
        """Return one line for the samples, then one for each method and condition.

        Returns
        -------
        str
        """
        lines = [f"{self.samples} samples, {self.views} views, {self.classes} classes, {self.plan['n_splits']} splits"]
        heads = [(row["condition"], row["missing"], row["method"]) for row in self.scores]
        words = ("accuracy", "clustering", "NMI", "mean average precision")
        for row, head in zip(self.scores, heads, strict=True):
            what = row["condition"] + (f" ({row['missing']})" if row["missing"] else "")
            figures = [
                f"{word} {100 * row[name]:.1f} %"
                for name, word in zip(SCORES, words, strict=True)
                if np.isfinite(row[name])
            ]
            rank = f", rank {row['rank']:.0f}" if heads.count(head) > 1 else ""
            lines.append(f"  {what}, {row['method']}{rank}: {', '.join(figures)}")
        return "\n".join([*lines, *(f"  {line}" for line in self._ending())])


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
    progress: Callable[[int, int], None] | None = None,
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
    also = [FIGURE] if plot else []
    outputs = [str(Path(out) / name) for name in (RESULTS, *also)]
    check_outputs(outputs, force=True, inputs=[*read_files(sources), *([labels.labels] if labels.labels else [])])
    found = read_views(sources, key=key)
    y = found.labels
    if labels.labels is not None:
        y = read_labels(labels.labels, found, column=labels.column, by_key=key is not None)
    if y is None:
        raise UnreadableError(f"{sources[0]}: has no labels; give a file of them")
    y = _word_matrix(np.asarray(y))
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
    progress: Callable[[int, int], None] | None = None,
    also: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Compare methods on views; an interrupted run continues where it was.

    Parameters
    ----------
    views : mapping of str to ndarray [shape=(n_samples, n_features)]
    labels : ndarray [shape=(n_samples,)] or of 0 and 1 [shape=(n_samples, n_words)]
        The class of each sample, or its words.
    comparison : Comparison
    out : str or Path, optional
        Folder for ``results.csv`` and the rows of each job.
    jobs : int, default=1
        Number of processes.
    force : bool, default=False
    progress : callable, optional
    also : sequence of str, default=()
        See :func:`~visionnmf.apps.runner.run_jobs`.

    Returns
    -------
    list of dict
        Rows with :data:`COLUMNS`.

    Raises
    ------
    ParameterError
        If a class has fewer than two samples.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.multiview import Comparison, evaluate_views, summarise
    >>> rng = np.random.default_rng(0)
    >>> views = {"shape": rng.random((30, 6)), "colour": rng.random((30, 5))}
    >>> rows = evaluate_views(views, np.arange(30) % 2, Comparison(methods=("pca",), ranks=(2,), n_splits=1))
    >>> [row["method"] for row in summarise(rows)]
    ['pca']
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
        if not (method == CONSENSUS and (condition != "clean" or labels.ndim > 1))
    }
    settings = asdict(comparison)
    shared = {name: value for name, value in settings.items() if name not in ("methods", "conditions", "n_splits")}
    key = settings_key(shared | {"views": list(views)}, *views.values(), np.asarray(labels, dtype="U"))
    work = partial(_job, dict(views), labels, comparison)
    return run_jobs(table, work, COLUMNS, key=key, out=out, processes=jobs, force=force, progress=progress, also=also)


def summarise(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return means over splits, with the rank of each split chosen by cross-validation on its training samples.

    Labels of words, and classes of one training sample, have no cross-validation: each rank keeps its own row.

    Parameters
    ----------
    rows : sequence of mapping
        As :func:`evaluate_views` returns them.

    Returns
    -------
    list of dict
        A row for each condition, missing view and method, and for each rank if none is chosen: ``accuracy``,
        ``deviation`` (over splits), ``cluster_accuracy``, ``nmi``, ``average_precision``, ``rank`` (mean).

    Examples
    --------
    >>> from visionnmf.apps.multiview import summarise
    >>> scores = {"accuracy": 0.9, "cluster_accuracy": 0.8, "nmi": 0.7, "average_precision": float("nan")}
    >>> where = {"condition": "clean", "missing": "", "method": "pca", "split": 0}
    >>> rows = [where | scores | {"rank": rank, "inner": inner} for rank, inner in ((2, 0.6), (4, 0.8))]
    >>> summarise(rows)[0]["rank"]
    4.0
    """
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
        spread = float(np.std([row["accuracy"] for row in chosen.values()]))
        head = {"condition": condition, "missing": missing, "method": method}
        result.append(head | means | {"deviation": spread, "splits": len(chosen)})
    return result


def _job(
    views: Mapping[str, Array], labels: Array, comparison: Comparison, condition: str, method: str, split: int
) -> list[dict[str, Any]]:
    """Evaluate one method on one random split under one condition; return a row for each rank and each test set.

    The views are prepared by the training samples alone. A condition may have several test sets, one for each view that
    is missing in it, but all share the training set of the first.
    """
    seed = comparison.random_state + split
    train, test = _split(labels, comparison.test_share, seed)
    before = {name: np.asarray(view[train], np.float32) for name, view in views.items()}
    after = {name: np.asarray(view[test], np.float32) for name, view in views.items()}
    preparation = Preparation(comparison.prepare).fit(before)
    before, after = preparation.transform(before), preparation.transform(after)
    before, after = _learnable(before, before), _learnable(before, after)
    variants = [  # a rare view may be in no training sample, or missing in all that had it
        (missing, _learnable(given, given), _learnable(given, new))
        for missing, given, new in apply_condition(condition, before, after, np.random.default_rng(seed))
    ]
    head: dict[str, Any] = {"condition": condition, "method": method, "split": split}
    if method == CONSENSUS:
        return [head | _consensus(preparation, before, after, labels[train], labels[test], seed)]
    choice = ModelChoice()
    if METHODS[method].chooses:
        choice = choose_model(preparation, variants[0][1], random_state=seed)
    roots = "rows" not in preparation.kinds_.values()  # logarithms of counts need no roots
    ranks = comparison.ranks if METHODS[method].ranked else comparison.ranks[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all methods are compared as they are, converged or not
        rows = []
        for rank in ranks:
            start = time.process_time()
            features = METHODS[method].learn(variants[0][1], rank, seed, choice)
            scores = _scores(features, variants, labels[train], labels[test], roots=roots, seed=seed, start=start)
            rows += [head | {"rank": rank} | row for row in scores]
        return rows


def _learnable(train: Mapping[str, Array], views: Mapping[str, Array]) -> dict[str, Array]:
    """Return the views of which at least one training sample has an entry."""
    return {name: view for name, view in views.items() if not np.isnan(train[name]).all()}


def _split(labels: Array, share: float, seed: int) -> tuple[Array, Array]:
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
    """Return a row for each of several test sets of one training set; `start` is the processor time at the start."""
    H = features.components
    classifier, inner = fit_classifier(features.train, y, None if H is None else H @ H.T, roots=roots)
    rows = []
    for missing, _, after in variants:
        kept = observed(after)
        if not kept.any():
            continue  # no sample has any other view
        T, known = features.transform({name: view[kept] for name, view in after.items()}), truth[kept]
        row: dict[str, Any] = {"missing": missing, "inner": inner, **NO_SCORES}
        if y.ndim > 1:
            row["average_precision"] = _mean_average_precision(known, classifier.decision_function(T))
        else:
            row["accuracy"] = float(classifier.score(T, known))
            if not missing:
                row |= _clusters(np.vstack([features.train, T]), np.concatenate([y, known]), seed)
        rows.append(row | {"seconds": time.process_time() - start})
    return rows


def _clusters(codes: Array, labels: Array, seed: int) -> dict[str, float]:
    unit = Normalizer().fit_transform(codes)
    found = KMeans(len(np.unique(labels)), n_init=10, random_state=seed).fit_predict(unit)
    return _agreement_with(labels, found)


def _agreement_with(labels: Array, found: Array) -> dict[str, float]:
    return {
        "cluster_accuracy": clustering_accuracy(labels, found),
        "nmi": float(normalized_mutual_info_score(labels, found)),
    }


def _consensus(preparation: Preparation, before: Any, after: Any, y: Array, truth: Array, seed: int) -> dict[str, Any]:
    start = time.process_time()
    kept = observed(after)  # a sample may have nothing but a rare view, which no training sample has
    labels = np.concatenate([y, truth[kept]])
    others = {name: view[kept] for name, view in after.items()} if kept.any() else None
    n_clusters = len(np.unique(labels))
    loss = "frobenius" if "rows" in preparation.kinds_.values() else "manhattan"
    model = make_model(n_clusters, choose_model(preparation, before, loss=loss, random_state=seed))
    affinity = agreement(model, before, others, n_clusters, random_state=seed)
    row = {"missing": "", "rank": 0, "inner": float("nan"), **NO_SCORES}
    row |= _agreement_with(labels, consensus(affinity, n_clusters))
    return row | {"seconds": time.process_time() - start}


def _mean_average_precision(truth: Array, scores: Array) -> float:
    used = truth.any(axis=0)
    return float(average_precision_score(truth[:, used], scores[:, used], average="macro"))


def _word_matrix(labels: Any) -> Any:
    """Return labels of several words as a matrix of 0 and 1; classes stay as they are."""
    if labels.ndim > 1 or labels.dtype.kind != "U" or not any(";" in value for value in labels):
        return labels
    sets = [{word.strip() for word in value.split(";")} - {""} for value in labels]
    words = sorted(set().union(*sets))
    return np.array([[word in own for word in words] for own in sets], int)


def _draw(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    """Draw the mean score of each method over the splits against its rank."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    clean = [row for row in rows if not row["missing"]]
    name = "accuracy" if any(np.isfinite(row["accuracy"]) for row in clean) else "average_precision"
    for condition, method in dict.fromkeys((row["condition"], row["method"]) for row in clean):
        own = [row for row in clean if (row["condition"], row["method"]) == (condition, method)]
        ranks = sorted({row["rank"] for row in own})
        means = [100 * np.mean([row[name] for row in own if row["rank"] == rank]) for rank in ranks]
        if np.isfinite(means).all():
            axes.plot(ranks, means, marker="o", label=method if condition == "clean" else f"{method}, {condition}")
    axes.set_xticks(sorted({row["rank"] for row in clean}))
    axes.set_xlabel("rank (number of components)")
    axes.set_ylabel(f"{name.replace('_', ' ')}, %")
    axes.legend(fontsize=8)
    with output_file(path, force=True) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
