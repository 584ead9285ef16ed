"""MahNMF, section 5.5: words of photographs from the codes of several views, beside EucNMF-GS and FLSS."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.evaluate.drawing import Panel, curve_figure
from visionnmf.apps.evaluate.multiview import mean_average_precision
from visionnmf.apps.evaluate.view_methods import METHODS, fit_classifier
from visionnmf.models.multiview.view_measures import sparseness

from .data import COREL_FEATURES, load_corel
from .experiments import Experiment, Result, Row, Sizes, comparisons

Array = NDArray[Any]

MOST_BINS = 500  # of a histogram of colours: those that hold nearly all pixels
NAMES = {"multiview-constraint": "MahNMF-GS", "eucnmf-gs": "EucNMF-GS", "flss": "FLSS"}
PUBLISHED = {"MahNMF-GS": "39.76 (VOC), 41.69 (MirFlickr)", "EucNMF-GS": "35.29, 36.89", "FLSS": "32.15, 32.04"}


class WordTask(NamedTuple):
    """Views of training and test images, by their names, and their words (n, n_words)."""

    train: dict[str, Array]
    words: Array
    test: dict[str, Array]
    truth: Array


class WordScore(NamedTuple):
    """Mean average precision in %, CPU seconds, and the mean sparseness of the components in each view."""

    precision: float
    seconds: float
    sparseness: list[float]


def load_words(most: int | None = None) -> WordTask:
    """Return roots of shares of Corel5k's four published features, and the words, of training and test images."""
    parts = [load_corel(part, most, pictures=False) for part in ("train", "test")]  # only features and words
    views: list[dict[str, Array]] = [{}, {}]
    for name in COREL_FEATURES:
        used = np.argsort(-parts[0].published[name].sum(axis=0))[: MOST_BINS if name in COREL_FEATURES[2:] else None]
        for side, part in zip(views, parts, strict=True):
            side[name] = np.sqrt(part.published[name][:, used])
    learnt = parts[0].labels.any(axis=0)
    return WordTask(views[0], parts[0].labels[:, learnt], views[1], parts[1].labels[:, learnt])


def score_words(task: WordTask, method: str, rank: int) -> WordScore:
    """Learn a model of METHODS and a linear classifier for each word, and score the words of the test images."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = METHODS[method].learn(task.train, rank, 0, "manhattan")  # with the seed 0
        scores = fit_classifier(fitted.train, task.words)[0].decision_function(fitted.transform(task.test))
    seconds = time.process_time() - start
    # the view of each column of H, which is None if a method has no components
    groups = np.repeat(np.arange(len(task.train)), [view.shape[1] for view in task.train.values()])
    H, n = fitted.components, len(task.train)
    means = [float("nan")] * n if H is None else sparseness(np.abs(H), groups, n).mean(axis=0).tolist()
    return WordScore(100 * mean_average_precision(task.truth, scores), seconds, means)


def precision_curves(sizes: Sizes) -> Result:
    """Repeat figure 20 and table 2 of the MahNMF paper: mean average precision and sparseness against the rank."""
    task, ranks = load_words(sizes.pick(full=None, quick=600)), sizes.pick(full=(50, 100, 200, 400), quick=(10, 30))
    table = [["method", "rank", "mAP, %", "CPU seconds", *(f"sparseness, {name}" for name in task.train)]]
    curves: dict[str, Sequence[Any]] = {}
    best: dict[str, float] = {}
    rows = []
    for method, name in NAMES.items():
        scores = [score_words(task, method, rank) for rank in ranks]
        precisions = [score.precision for score in scores]
        curves[name], best[name] = (ranks, precisions), max(precisions)
        for rank, score in zip(ranks, scores, strict=True):
            sparse = [f"{value:.2f}" for value in score.sparseness]
            table.append([name, str(rank), f"{score.precision:.1f}", f"{score.seconds:.0f}", *sparse])
        ours = f"{best[name]:.2f}, r = {ranks[precisions.index(best[name])]}"
        rows.append(Row(f"{name}: best mAP, %, and its rank", ours, paper=PUBLISHED[name]))
    papers = {"EucNMF-GS": "yes, 5.5", "FLSS": "yes, Table 2"}
    rows += comparisons("{0} has a higher best mAP than {1}", best, ["MahNMF-GS"], papers)
    panel = Panel("Corel5k", curves, x_label="rank", y_label="mean average precision, %")
    return Result(rows, {"Mean average precision against the rank.": curve_figure([panel])}, {"All ranks": table})


EXPERIMENTS = (
    Experiment(
        "mahnmf/fig-20",
        "average precision and sparseness of several views, with table 2",
        "MahNMF-GS reaches a higher mean average precision than EucNMF-GS and FLSS on VOC 2007 and MirFlickr.",
        precision_curves,
        "Corel5k, four published features, 4500 images to learn from and 499 to test, 260 words; a quick run has 600.",
        ("corel5k_features.npz",),
        "Corel5k in place of VOC 2007 and MirFlickr, whose features are not at hand",
        (
            "MahNMF-GS has the constraint form (40), bounded to 1 % of the start, with the infinite norm, by "
            "the package's ADMM.",
            "Features are roots of shares; linear support vector machines have a fixed cost.",
        ),
    ),
)
