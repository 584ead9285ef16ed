"""Multi-view learning: peers on six sets, corruption, missing views, planted parts, time.

``python benchmarks/multiview.py`` runs everything (hours), ``python benchmarks/multiview.py planted`` one part: sets
(accuracy and clusters), clusters (by agreement of several fits), robust (corrupted training samples), missing (views),
bar (paired differences from peers, on more sets), codes (alone), units (warnings of other units), words (Corel5k),
planted (shared and private parts) or speed. ``sets msrcv1,3sources --splits 3 --ranks 60`` takes some sets, fewer
splits and given ranks. JOBS is the number of processes. Results of sets, robust, missing and bar are kept in OUT and an
interrupted run goes on.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
from _main import data_file, main
from _multiview_bar import print_bar, signed
from _view_sets import MADE, PUBLISHED, view_set
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF as PlainNMF
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC

from visionnmf import NMF, MultiviewNMF
from visionnmf.apps.evaluate import Comparison, RandomSplits, ViewConditions, evaluate
from visionnmf.apps.evaluate.multiview import learnable, split_samples, study_of
from visionnmf.apps.evaluate.view_methods import METHODS as COMPARED
from visionnmf.apps.multiview.inputs import read_views
from visionnmf.apps.multiview.view_model import Preparation, default_loss, observed
from visionnmf.apps.reproduce.multiview_words import load_words, score_words
from visionnmf.datasets import make_views
from visionnmf.metrics import clustering_accuracy

SETS = PUBLISHED
BAR_RANK = 60
METHODS = ("multiview", "joint", "pca", "concatenation")
ROBUST = ("multiview", "eucnmf-gs", "flss", "manhattan", "frobenius", "pca")
RANKS = (20, 40, 60)
SPLITS = 10
FITS_A_RANK = 8  # of `clusters`
MOST = 10**9  # images
SEEDS = 20
CALLS, MOST_CALLS, UNITS, UNIT_SPLITS = (1, 5, 20), 60, (1000, 100, 10, 0.1, 0.001), 2  # of `units`
CODED, CODE_RANK = 900, 40  # samples at most, and components, of `codes`
WORD_METHODS = (
    "multiview-constraint",
    "multiview",
    "multiview-frobenius",
    "eucnmf-gs",
    "flss",
    "joint",
    "pca",
    "concatenation",
)
WORD_RANKS = (50, 100, 200)
SIZES = ((50_000, 500),)  # samples, features of each of six views
SPEED_RANK = 60
QUICK = {
    "RANKS": (4,),
    "SPLITS": 1,
    "FITS_A_RANK": 1,
    "MOST": 60,
    "SEEDS": 1,
    "CODED": 60,
    "CODE_RANK": 4,
    "WORD_METHODS": ("multiview", "concatenation"),
    "WORD_RANKS": (4,),
    "SIZES": ((200, 10),),
    "SPEED_RANK": 4,
    "BAR_RANK": 4,
    "SETS": ("3sources",),
    "METHODS": ("multiview", "joint"),
    "ROBUST": ("multiview", "pca"),
}


def table(
    names: str | None, methods: tuple[str, ...], conditions: tuple[str, ...], splits: int | None, ranks: str | None
) -> None:
    """Print the scores of some methods on some sets."""
    print("| set | condition | method | accuracy | ± | clustering | NMI | rank | splits |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in SETS if names is None else names.split(","):
        found = read_views([str(data_file(f"mv_{name}.npz"))])
        labels = np.asarray(found.labels)
        chosen = RANKS if ranks is None else tuple(int(rank) for rank in str(ranks).split(","))
        out = os.environ.get("OUT")
        comparison = Comparison(
            methods=methods,
            out=None if out is None else Path(out) / name,
            jobs=int(os.environ.get("JOBS", "1")),
        )
        count = int(splits or SPLITS)
        study = study_of(
            found.views,
            labels,
            comparison,
            splits=RandomSplits(splits=count),
            conditions=ViewConditions(ranks=chosen, conditions=conditions),
        )
        for row in evaluate(study, comparison).table:
            where = row["condition"] + (f", no {row['missing']}" if row["missing"] else "")
            figures = " | ".join(
                "" if row.get(key) is None else f"{100 * row[key]:.1f}"
                for key in ("accuracy", "accuracy_deviation", "cluster_accuracy", "nmi")
            )
            print(f"| {name} | {where} | {row['method']} | {figures} | {row['rank']:.0f} | {count} |", flush=True)


def sets(names: str | None = None, *, splits: int | None = None, ranks: str | None = None) -> None:
    """Accuracy and clusters on clean data."""
    table(names, METHODS, ("clean",), splits, ranks)


def clusters(names: str | None = None, *, splits: int | None = None) -> None:
    """Clusters on which several fits agree (Monti et al. 2003): average linkage of how often two samples are together.

    A model is fitted to the training half eight times with each of three ranks, which are multiples of the number of
    classes, and k-means clusters the codes of all samples each time.
    """
    print("| set | clusters, accuracy | NMI | splits |")
    print("| --- | --- | --- | --- |")
    for name in SETS if names is None else names.split(","):
        found = read_views([str(data_file(f"mv_{name}.npz"))])
        labels = np.asarray(found.labels)
        scores = []
        for seed in range(int(splits or SPLITS)):
            train, test = split_samples(labels, 0.5, seed)
            before, after = (
                {view: np.asarray(X[rows], np.float32) for view, X in found.views.items()} for rows in (train, test)
            )
            preparation = Preparation().fit(before)
            before, after = preparation.transform(before), preparation.transform(after)
            before, after = learnable(before, before), learnable(before, after)
            kept = observed(after)
            after, truth = (
                {view: X[kept] for view, X in after.items()},
                np.concatenate([labels[train], labels[test][kept]]),
            )
            count = len(np.unique(truth))
            model = MultiviewNMF(count, loss=default_loss(before), missing_values=np.nan)
            together = np.zeros((len(truth), len(truth)), np.float32)
            for rank in (max(2, min(60, multiple * count)) for multiple in (1, 2, 3)):
                for start in range(seed, seed + FITS_A_RANK):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        fitted = clone(model).set_params(n_components=rank, random_state=start).fit(before)
                        codes = normalize(np.vstack([fitted.transform(before), fitted.transform(after)]))
                        own = KMeans(count, n_init=10, random_state=start).fit_predict(codes)
                    together += own[:, None] == own
            tree = linkage(squareform(1 - together / (3 * FITS_A_RANK), checks=False), "average")
            clustered = cut_tree(tree, count).ravel()
            scores.append((clustering_accuracy(truth, clustered), normalized_mutual_info_score(truth, clustered)))
        accuracy, information = 100 * np.mean(scores, axis=0)
        print(f"| {name} | {accuracy:.1f} | {information:.1f} | {len(scores)} |", flush=True)


def robust(names: str | None = None, *, splits: int | None = None, ranks: str | None = None) -> None:
    """Training samples with salt and pepper, or a view of noise."""
    table(names, ROBUST, ("clean", "salt-and-pepper", "view-corrupted"), splits, ranks)


def missing(names: str | None = None, *, splits: int | None = None, ranks: str | None = None) -> None:
    """Score views that are missing at test or in training."""
    table(names, ("multiview", "concatenation"), ("view-missing", "train-missing"), splits, ranks)


def bar(names: str | None = None, *, splits: int | None = None, method: str = "multiview") -> None:
    """Compare with joint NMF, concatenation and the best view in pairs, and leave out each view at test."""
    chosen = (*SETS, *MADE) if names is None else tuple(names.split(","))
    jobs = int(os.environ.get("JOBS", "1"))
    print_bar(chosen, BAR_RANK, int(splits or SPLITS), os.environ.get("OUT"), jobs, method)


def codes(names: str | None = None) -> None:
    """Accuracy of a linear machine of the codes alone, beside scikit-learn's NMF of the views side by side."""
    forms = {"default": {}, "least squares": {"loss": "frobenius"}}
    print(f"| set | joint NMF | {' | '.join(f'{name} | -' for name in forms)} | splits |")
    print("| --- |" + " --- |" * (2 * len(forms) + 2))
    for name in SETS if names is None else names.split(","):
        views, y = view_set(name)
        labels = np.asarray(y)
        if len(labels) > CODED:
            some, _ = train_test_split(np.arange(len(labels)), train_size=CODED, stratify=labels, random_state=0)
            views, labels = {view: np.asarray(X)[some] for view, X in views.items()}, labels[some]
        found: dict[str, list[float]] = {form: [] for form in ("joint", *forms)}
        for seed in range(SPLITS):
            train, test = train_test_split(np.arange(len(labels)), train_size=0.5, stratify=labels, random_state=seed)
            parts = [{view: np.asarray(X, np.float32)[rows] for view, X in views.items()} for rows in (train, test)]
            preparation = Preparation().fit(parts[0])
            before, after = map(preparation.transform, parts)
            scales = {view: np.sqrt((X**2).sum(axis=1).mean()) for view, X in before.items()}
            sides = [np.hstack([part[view] / scale for view, scale in scales.items()]) for part in (before, after)]
            joint = PlainNMF(CODE_RANK, init="nndsvda", max_iter=500, random_state=seed)
            pairs = {"joint": (joint.fit_transform(sides[0]), joint.transform(sides[1]))}
            for form, options in forms.items():
                options = {"loss": default_loss(before), **options}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = MultiviewNMF(CODE_RANK, random_state=seed, missing_values=np.nan, **options).fit(before)
                    pairs[form] = (model.transform(before), model.transform(after))
            for form, (learnt, new) in pairs.items():
                machine = make_pipeline(StandardScaler(), LinearSVC(max_iter=3000))
                search = GridSearchCV(machine, {"linearsvc__C": [0.001, 0.01, 0.1, 1]}, cv=3)
                found[form].append(100 * search.fit(learnt, labels[train]).score(new, labels[test]))
        peer = np.array(found.pop("joint"))
        row = " | ".join(f"{np.mean(own):.1f} | {signed(np.array(own) - peer)}" for own in found.values())
        print(f"| {name} | {peer.mean():.1f} | {row} | {SPLITS} |", flush=True)


def words() -> None:
    """Mean average precision of the words of Corel5k, and the sparseness of the components in each view."""
    task = load_words(MOST)
    print(f"| method | rank | mAP | seconds | {' | '.join(f'sparseness {name}' for name in task.train)} |")
    print("| --- | --- | --- | --- |" + " --- |" * len(task.train))
    for method in WORD_METHODS:
        for rank in WORD_RANKS if COMPARED[method].ranked else (0,):
            precision, seconds, means = score_words(task, method, rank)
            figures = " | ".join(f"{value:.2f}" for value in means)
            print(f"| {method} | {rank} | {precision:.1f} | {seconds:.0f} | {figures} |", flush=True)


def units(names: str | None = None) -> None:
    """Print for how many calls, in %, new samples in the units of training, or in others, get the warning of units."""
    print(f"| set | new samples | {' | '.join(f'{size} a call' for size in CALLS)} | all | ", end="")
    print(f"{' | '.join(f'one view x {factor:g}' for factor in UNITS)} |\n|" + " --- |" * 11)
    for name in ("made", *SETS) if names is None else names.split(","):
        made = make_views(random_state=0)
        views, y = (made.views, made.codes.argmax(axis=1)) if name == "made" else view_set(name)
        some = np.random.default_rng(0).permutation(len(y))[:CODED]
        views, y = {view: np.asarray(X)[some] for view, X in views.items()}, np.asarray(y)[some]
        for kind in ("random half", "other classes"):
            alarms: dict[float | str, list[bool]] = {case: [] for case in (*CALLS, "all", *UNITS)}
            for seed in range(UNIT_SPLITS):
                rng = np.random.default_rng(seed)
                classes = rng.permutation(np.unique(y))
                new = np.isin(y, classes[len(classes) // 2 :])
                new = rng.permutation(new) if kind == "random half" else new
                preparation = Preparation().fit({view: X[~new] for view, X in views.items()})
                model = MultiviewNMF(20, loss="frobenius", missing_values=np.nan, max_iter=40, tol=0, random_state=seed)
                model.fit(preparation.transform({view: X[~new] for view, X in views.items()}))
                rows = rng.permutation(np.flatnonzero(new))
                for size in (*CALLS, "all"):
                    parts = [rows] if size == "all" else np.split(rows, range(size, len(rows), size))
                    for part in parts[:MOST_CALLS]:
                        alarms[size].append(_warns(model, preparation, {view: X[part] for view, X in views.items()}))
                for factor in UNITS:
                    for view, X in views.items():
                        alarms[factor].append(_warns(model, preparation, {view: factor * X[rows].astype(float)}))
            shares = " | ".join(f"{100 * np.mean(found):.1f}" for found in alarms.values())
            print(f"| {name} | {kind} | {shares} |", flush=True)


def _warns(model: MultiviewNMF, preparation: Preparation, views: dict[str, np.ndarray]) -> bool:
    """Return whether codes of new samples come with the warning about other units."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.transform(preparation.transform(views))
    return any("times the size" in str(warning.message) for warning in caught)


def planted() -> None:
    """Which view uses which of eight planted parts."""
    print("| seeds | parts whose usage is right, % | seeds with all right |")
    print("| --- | --- | --- |")
    right = []
    for seed in range(SEEDS):
        made = make_views(random_state=seed)
        model = MultiviewNMF(8, random_state=seed).fit(made.views)
        parts, found = (H / np.linalg.norm(H, axis=1, keepdims=True) for H in (made.components, model.components_))
        order = linear_sum_assignment(-parts @ found.T)[1]
        right.append(int(((model.view_usage_[order] > 0) == made.usage).all(axis=1).sum()))
    print(f"| {SEEDS} | {100 * sum(right) / (8 * SEEDS):.1f} | {sum(count == 8 for count in right)} |", flush=True)


def speed() -> None:
    """Processor seconds of a fit beside the plain Manhattan fit of the views side by side."""
    print("| samples | features | plain, s | multi-view, s | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for n, width in SIZES:
        rng = np.random.default_rng(0)
        codes = rng.gamma(0.5, size=(n, SPEED_RANK)).astype(np.float32)
        views = [codes @ rng.gamma(0.5, size=(SPEED_RANK, width)).astype(np.float32) for _ in range(6)]
        for view in views:
            hit = rng.random(view.shape) < 0.1
            view[hit] = view.max() * rng.random(int(hit.sum()))
        seconds = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for fit in (
                lambda data: NMF(SPEED_RANK, random_state=0).fit(np.hstack(data)),
                lambda data: MultiviewNMF(SPEED_RANK, random_state=0).fit(data),
            ):
                start = time.process_time()
                fit(views)
                seconds.append(time.process_time() - start)
        print(
            f"| {n} | 6 x {width} | {seconds[0]:.1f} | {seconds[1]:.1f} | {seconds[1] / seconds[0]:.2f} |", flush=True
        )


if __name__ == "__main__":
    main(
        {
            "sets": sets,
            "clusters": clusters,
            "robust": robust,
            "missing": missing,
            "bar": bar,
            "codes": codes,
            "units": units,
            "words": words,
            "planted": planted,
            "speed": speed,
        },
        globals(),
        QUICK,
    )
