"""The methods of :mod:`.view_methods`, compared on random splits of labelled samples, as the command's help says."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import average_precision_score, normalized_mutual_info_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import Normalizer

from visionnmf import ViewClassifier
from visionnmf._text import counted
from visionnmf.apps.multiview.inputs import read_files, read_labels, read_views
from visionnmf.apps.multiview.view_model import Preparation, default_loss, observed
from visionnmf.apps.runner import DEVIATION, RESULTS, Rows, settings_key
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs
from visionnmf.metrics import clustering_accuracy

from .drawing import rank_figure
from .harness import Study, averages, chosen_methods
from .settings import Comparison, Labels, RandomSplits, ViewConditions
from .view_methods import METHODS, LearntFeatures, fit_classifier

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

COLUMNS = (
    *("condition", "method", "rank", "split", "missing", "accuracy", "inner"),
    *("cluster_accuracy", "nmi", "average_precision", "seconds"),
)
SCORES = ("accuracy", "cluster_accuracy", "nmi", "average_precision")
NO_SCORES = dict.fromkeys(SCORES, float("nan"))
DEFAULT = ("multiview", "joint", "pca", "concatenation")
SPLITS = 3  # published comparisons take 10
FIGURE = "scores.png"

SALT_AND_PEPPER = 0.2  # share of the training entries
CORRUPTED = 1 / 3  # share of the training samples of which one view is replaced by noise
MISSING = 0.3  # share of the views of training samples


@takes_records
def study(
    sources: Sequence[str | Path],
    comparison: Comparison = Comparison(),
    *,
    splits: RandomSplits = RandomSplits(),
    conditions: ViewConditions = ViewConditions(),
    labels: Labels = Labels(),
    key: str | None = None,
) -> Study:
    """Return the comparison of methods on the views of files.

    `key` names the column by which rows are matched; None matches them by position. Raises MediaError if views or
    labels cannot be read, and ParameterError if a class has a single sample.
    """
    if comparison.out is not None:
        # only inputs are protected here; `run_jobs` decides whether results may be continued or replaced
        outputs = [str(comparison.out / name) for name in (RESULTS, FIGURE)]
        check_outputs(outputs, force=True, inputs=[*read_files(sources), *([labels.labels] if labels.labels else [])])
    found = read_views(sources, key=key)
    y = found.labels
    if labels.labels is not None:
        y = read_labels(labels.labels, found, column=labels.column, by_key=key is not None)
    if y is None:
        raise ParameterError(f"labels must be a file with a class for each sample, because {sources[0]} has none")
    y = word_matrix(np.asarray(y))  # classes stay; words in one text become marks (n_samples, n_words)
    made = study_of(found.views, y, comparison, splits=splits, conditions=conditions)
    return replace(made, inputs=[str(source) for source in sources], skipped=found.skipped, notes=found.notes)


def study_of(
    views: Mapping[str, Array],
    labels: Array,
    comparison: Comparison = Comparison(),
    *,
    splits: RandomSplits = RandomSplits(),
    conditions: ViewConditions = ViewConditions(),
) -> Study:
    """Return the comparison of methods on views in memory (n_samples, n_features).

    `labels` are classes (n_samples,) or words as 0 and 1 (n_samples, n_words). A job is a condition (see
    :func:`apply_condition`), a method and a split; it has a row for each test set and rank. Raises ParameterError if a
    class has fewer than two samples.
    """
    methods = chosen_methods(comparison, tuple(METHODS), DEFAULT)
    if len(labels) != len(next(iter(views.values()))):
        raise ParameterError(f"labels must be one for each sample; got {len(labels)}")
    if labels.ndim == 1 and np.unique(labels, return_counts=True)[1].min() < 2:
        raise ParameterError("labels must have two samples of each class; got a class of one; leave it out")
    # The conditions say which jobs there are, but do not change the rows of a job, so a run with more jobs continues.
    settings = {name: value for name, value in asdict(conditions).items() if name != "conditions"}
    settings |= {"views": list(views), "seed": splits.random_state}
    classes = len(np.unique(labels)) if labels.ndim == 1 else labels.shape[1]
    kinds = counted(classes, "class", "classes") if labels.ndim == 1 else counted(classes, "word")
    return Study(
        jobs={
            f"{condition}-{method}-{split}": (condition, method, split)
            for condition in conditions.conditions
            for method in methods
            for split in range(splits.splits or SPLITS)
        },
        work=partial(run_split, dict(views), labels, conditions, splits.random_state),
        columns=COLUMNS,
        key=settings_key(settings, *views.values(), np.asarray(labels, dtype="U")),
        lines=by_method,
        heading=f"{counted(len(labels), 'sample')}, {counted(len(views), 'view')}, {kinds}",
        draw=_draw,
        picture=FIGURE,
    )


def by_method(rows: Rows) -> Rows:
    """Return means over splits, each with its best rank in cross-validation, or of each rank where there is none."""
    # For each result the row of each split; of several ranks, that with the best accuracy in cross-validation, `inner`.
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    unchosen = {(row["condition"], row["method"]) for row in rows if np.isnan(row["inner"])}
    for row in rows:
        alone = row["rank"] if (row["condition"], row["method"]) in unchosen else None
        place = (row["condition"], row["missing"], row["method"], alone, row["split"])
        if place not in best or row["inner"] > best[place]["inner"]:
            best[place] = row | {"alone": alone}
    lines = averages([*best.values()], ("condition", "missing", "method", "alone"), (*SCORES, "rank", "seconds"))
    return [{name: line[name] for name in line if name not in ("alone", "rank" + DEVIATION)} for line in lines]


def run_split(
    views: Mapping[str, Array],
    labels: Array,
    conditions: ViewConditions,
    random_state: int,
    condition: str,
    method: str,
    split: int,
) -> Rows:
    """Evaluate one method on one random split under one condition; return a row for each rank and each test set."""
    seed = random_state + split
    train, test = split_samples(labels, conditions.test_share, seed)
    before = {name: np.asarray(view[train], np.float32) for name, view in views.items()}
    after = {name: np.asarray(view[test], np.float32) for name, view in views.items()}
    preparation = Preparation(conditions.prepare).fit(before)
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
    ranks = conditions.ranks if METHODS[method].ranked else conditions.ranks[:1]
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
    """Return the indices of training and test samples, of which a `share` of each class is tested."""
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
    """Fit a classifier to the features of the training samples, and return one row of scores for each test set."""
    # `variants` are (name of the missing view, training views, test views). Samples without any view are not tested.
    # `inner` is the accuracy in cross-validation on the training samples, by which `by_method` chooses the rank.
    classifier: Any
    _, training_views, _ = variants[0]  # those of all variants are equal
    if features.model is not None:  # a multi-view model, whose classifier also sees the views
        classifier = ViewClassifier(FrozenEstimator(features.model), roots=roots).fit(training_views, y)
        inner = classifier.best_score_
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
    """Return the average precision of each word that some sample has, averaged over these words."""
    used = truth.any(axis=0)
    return float(average_precision_score(truth[:, used], scores[:, used], average="macro"))


def word_matrix(labels: Any) -> Any:
    """Return words separated by semicolons as a matrix of 0 and 1 (n_samples, n_words); classes stay as they are."""
    if labels.ndim > 1 or labels.dtype.kind != "U" or not any(";" in value for value in labels):
        return labels
    sets = [{word.strip() for word in value.split(";")} - {""} for value in labels]
    words = sorted(set().union(*sets))
    return np.array([[word in own for word in words] for own in sets], int)


def _draw(rows: Rows) -> Any:
    """Return a figure of mean and deviation over splits of each method's score against its rank."""
    score = "accuracy" if any(np.isfinite(row["accuracy"]) for row in rows) else "average_precision"
    lacking = {row["condition"] for row in rows if row["missing"]}  # their rows with all views are those of "clean"
    drawn = [
        row
        | {"rank": row["rank"] if METHODS[row["method"]].ranked else None}
        | ({"condition": f"{row['condition']} (mean)"} if row["missing"] else {})
        for row in rows
        if bool(row["missing"]) == (row["condition"] in lacking)
    ]
    place = ("condition", "method", "rank")
    lines = averages(averages(drawn, (*place, "split"), [score]), place, [score])
    return rank_figure(lines, panels=["condition"], score=score)
