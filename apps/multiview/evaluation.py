"""Methods compared on random splits of labelled samples."""

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

from visionnmf._checks import check_choice, check_count
from visionnmf.apps.runner import run_jobs, settings_key
from visionnmf.exceptions import ParameterError
from visionnmf.metrics import clustering_accuracy

from .classifier import fit_classifier
from .clustering import agreement, consensus
from .corruption import CONDITIONS, corrupt, observed
from .methods import METHODS, Form, choose_form, make_model
from .preparation import Preparation

__all__ = ["COLUMNS", "Plan", "evaluate_views", "summarise"]

Array = NDArray[Any]

COLUMNS = (
    *("condition", "method", "rank", "split", "missing", "accuracy", "inner"),
    *("cluster_accuracy", "nmi", "average_precision", "seconds"),
)
NO_SCORES = dict.fromkeys(("accuracy", "average_precision", "cluster_accuracy", "nmi"), float("nan"))
CONSENSUS = "consensus"  # clusters of several fits; no features


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Attributes
    ----------
    methods : tuple of str
        Of :data:`.METHODS`, and "consensus" for clusters of several fits.
    ranks : tuple of int
    n_splits : int
    conditions : tuple of str
        Of :data:`.CONDITIONS`.
    prepare : str
        See :class:`.Preparation`.
    test_share : float
    random_state : int
    """

    methods: tuple[str, ...] = ("multiview", "joint", "pca", "concatenation", CONSENSUS)
    ranks: tuple[int, ...] = (20, 40, 60)
    n_splits: int = 10
    conditions: tuple[str, ...] = ("clean",)
    prepare: str = "auto"
    test_share: float = 0.5
    random_state: int = 0

    def check(self) -> None:
        """Raise ParameterError where a value is not allowed."""
        for method in self.methods:
            check_choice(method, "methods", [*METHODS, CONSENSUS])
        for rank in self.ranks:
            check_count(rank, "ranks")
        for condition in self.conditions:
            check_choice(condition, "conditions", CONDITIONS)
        check_count(self.n_splits, "n_splits")
        if not self.methods or not self.ranks:
            raise ParameterError(f"methods and ranks must not be empty; got {self.methods} and {self.ranks}")


def evaluate_views(
    views: Mapping[str, Array],
    labels: Array,
    plan: Plan,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
    also: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Run the comparison; an interrupted run goes on.

    Parameters
    ----------
    views : mapping of str to ndarray [shape=(n_samples, n_features)]
    labels : ndarray [shape=(n_samples,)] or of 0 and 1 [shape=(n_samples, n_words)]
        A class each, or words.
    plan : Plan
    out : str or Path, optional
        Folder for ``results.csv`` and the rows of each job.
    jobs : int, default=1
        Processes.
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
        For a plan that is not allowed, or classes of fewer than two samples.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.multiview import Plan, evaluate_views
    >>> rng = np.random.default_rng(0)
    >>> views = {"shape": rng.random((30, 6)), "colour": rng.random((30, 5))}
    >>> plan = Plan(methods=("pca",), ranks=(2,), n_splits=1)
    >>> len(evaluate_views(views, np.arange(30) % 2, plan)) > 0
    True
    """
    plan.check()
    if len(labels) != len(next(iter(views.values()))):
        raise ParameterError(f"labels must be one a sample; got {len(labels)}")
    if labels.ndim == 1 and np.unique(labels, return_counts=True)[1].min() < 2:
        raise ParameterError("labels must have two samples of each class; got a class of one; leave it out")
    table = {
        f"{condition}-{method}-{split}": (condition, method, split)
        for condition in plan.conditions
        for method in plan.methods
        for split in range(plan.n_splits)
        if not (method == CONSENSUS and (condition != "clean" or labels.ndim > 1))
    }
    shared = {name: value for name, value in asdict(plan).items() if name not in ("methods", "conditions", "n_splits")}
    key = settings_key(shared | {"views": list(views)}, *views.values(), np.asarray(labels, dtype="U"))
    work = partial(_job, dict(views), labels, plan)
    return run_jobs(table, work, COLUMNS, key=key, out=out, processes=jobs, force=force, progress=progress, also=also)


def summarise(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return means over splits, the rank of each split chosen by cross-validation on its training samples.

    Labels of words, and classes of one training sample, have no cross-validation: each rank stays by itself.

    Parameters
    ----------
    rows : sequence of mapping
        Of :func:`evaluate_views`.

    Returns
    -------
    list of dict
        A row for each condition, missing view and method, and each rank where none is chosen: ``accuracy``,
        ``deviation`` (over splits), ``cluster_accuracy``, ``nmi``, ``average_precision``, ``rank`` (mean).

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.multiview import Plan, evaluate_views
    >>> rng = np.random.default_rng(0)
    >>> views = {"shape": rng.random((30, 6)), "colour": rng.random((30, 5))}
    >>> plan = Plan(methods=("pca",), ranks=(2,), n_splits=1)
    >>> from visionnmf.apps.multiview import summarise
    >>> len(summarise(evaluate_views(views, np.arange(30) % 2, plan))) > 0
    True
    """
    found: dict[tuple[Any, ...], dict[int, Mapping[str, Any]]] = {}
    unchosen = {(row["condition"], row["method"]) for row in rows if np.isnan(row["inner"])}
    for row in rows:
        rank = row["rank"] if (row["condition"], row["method"]) in unchosen else None
        place = found.setdefault((row["condition"], row["missing"], row["method"], rank), {})
        best = place.get(row["split"])
        if best is None or row["inner"] > best["inner"]:
            place[row["split"]] = row
    result = []
    for (condition, missing, method, _), chosen in found.items():
        means = {
            name: float(np.mean([row[name] for row in chosen.values()]))
            for name in ("accuracy", "cluster_accuracy", "nmi", "average_precision", "rank")
        }
        spread = float(np.std([row["accuracy"] for row in chosen.values()]))
        head = {"condition": condition, "missing": missing, "method": method}
        result.append(head | means | {"deviation": spread, "splits": len(chosen)})
    return result


def _job(
    views: Mapping[str, Array], labels: Array, plan: Plan, condition: str, method: str, split: int
) -> list[dict[str, Any]]:
    seed = plan.random_state + split
    train, test = _split(labels, plan.test_share, seed)
    before = {name: np.asarray(view[train], np.float32) for name, view in views.items()}
    after = {name: np.asarray(view[test], np.float32) for name, view in views.items()}
    preparation = Preparation(plan.prepare).fit(before)
    before, after = preparation.transform(before), preparation.transform(after)
    before, after = _learnable(before, before), _learnable(before, after)
    variants = [  # a view that is rare may be in no training sample, or taken from all that have it
        (missing, _learnable(given, given), _learnable(given, new))
        for missing, given, new in corrupt(condition, before, after, np.random.default_rng(seed))
    ]
    head: dict[str, Any] = {"condition": condition, "method": method, "split": split}
    if method == CONSENSUS:
        return [head | _consensus(preparation, before, after, labels[train], labels[test], seed)]
    form = choose_form(preparation, variants[0][1], random_state=seed) if METHODS[method].chooses else Form()
    roots = "rows" not in preparation.kinds_.values()  # counts have had their logarithms taken
    ranks = plan.ranks if METHODS[method].ranked else plan.ranks[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence of many fits, which are compared as they are
        return [
            head | {"rank": rank} | row
            for rank in ranks
            for row in _scores(method, variants, rank, seed, form, labels[train], labels[test], roots)
        ]


def _learnable(train: Mapping[str, Array], views: Mapping[str, Array]) -> dict[str, Array]:
    """Return the views of which a training sample has something."""
    return {name: view for name, view in views.items() if not np.isnan(train[name]).all()}


def _split(labels: Array, share: float, seed: int) -> tuple[Array, Array]:
    kind = StratifiedShuffleSplit if labels.ndim == 1 else ShuffleSplit
    train, test = next(kind(1, test_size=share, random_state=seed).split(np.zeros(len(labels)), labels))
    return train, test


def _scores(
    method: str,
    variants: Sequence[tuple[str, Any, Any]],
    rank: int,
    seed: int,
    form: Form,
    y: Array,
    truth: Array,
    roots: bool,
) -> list[dict[str, Any]]:
    """Return a row for each of several test sets of one training set."""
    start = time.process_time()
    fitted = METHODS[method].fit(variants[0][1], rank, seed, form)
    H = fitted.components
    classifier, inner = fit_classifier(fitted.train, y, None if H is None else H @ H.T, roots=roots)
    rows = []
    for missing, _, after in variants:
        kept = observed(after)
        if not kept.any():
            continue  # no sample has another view
        T, known = fitted.transform({name: view[kept] for name, view in after.items()}), truth[kept]
        row: dict[str, Any] = {"missing": missing, "inner": inner, **NO_SCORES}
        if y.ndim > 1:
            row["average_precision"] = _mean_average_precision(known, classifier.decision_function(T))
        else:
            row["accuracy"] = float(classifier.score(T, known))
            if not missing:
                row |= _clusters(np.vstack([fitted.train, T]), np.concatenate([y, known]), seed)
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
    kept = observed(after)  # a view that is rare may be in no training sample
    labels = np.concatenate([y, truth[kept]])
    others = {name: view[kept] for name, view in after.items()} if kept.any() else None
    n_clusters = len(np.unique(labels))
    loss = "frobenius" if "rows" in preparation.kinds_.values() else "manhattan"
    model = make_model(n_clusters, choose_form(preparation, before, loss=loss, random_state=seed))
    affinity = agreement(model, before, others, n_clusters, random_state=seed)
    row = {"missing": "", "rank": 0, "inner": float("nan"), **NO_SCORES}
    row |= _agreement_with(labels, consensus(affinity, n_clusters))
    return row | {"seconds": time.process_time() - start}


def _mean_average_precision(truth: Array, scores: Array) -> float:
    used = truth.any(axis=0)
    return float(average_precision_score(truth[:, used], scores[:, used], average="macro"))
