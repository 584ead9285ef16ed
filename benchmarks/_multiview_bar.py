"""The multi-view model beside joint NMF, the views side by side and the best view, with paired differences."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _view_sets import view_set
from numpy.typing import NDArray
from sklearn.decomposition import NMF as JointNMF

from visionnmf import MultiviewNMF
from visionnmf.apps.evaluate import Comparison, RandomSplits, ViewConditions, evaluate
from visionnmf.apps.evaluate.multiview import split_samples, study_of
from visionnmf.apps.evaluate.view_methods import SideBySide
from visionnmf.apps.multiview.view_model import Preparation

__all__ = ["print_bar", "print_missing_times", "print_times"]

Array = NDArray[Any]

MISSING = 0.3  # share of the views of a sample in `print_missing_times`
FOLDS = 5


def print_bar(names: Sequence[str], rank: int, splits: int, out: str | None, jobs: int, method: str) -> None:
    """Print for each set the accuracy, its paired differences from the peers, and what is kept without a view."""
    print("| set | accuracy | - joint | - concatenation | - best view | kept, mean view | kept, worst view | splits |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        views, labels = view_set(name)

        def scores(method: str, condition: str, some: Mapping[str, Array], name: str = name, y: Array = labels) -> Any:
            """Return the accuracy in % of each split by the missing view."""
            place = None if out is None else Path(out) / "-".join((name, method, condition, *some))
            comparison = Comparison(methods=(method,), out=place, jobs=jobs)
            conditions = ViewConditions(ranks=(rank,), conditions=(condition,))
            study = study_of(some, y, comparison, splits=RandomSplits(splits=splits), conditions=conditions)
            found: dict[str, dict[int, float]] = {}
            for row in evaluate(study, comparison).rows:
                found.setdefault(row["missing"], {})[int(row["split"])] = 100 * row["accuracy"]
            return {missing: np.array([own[split] for split in range(splits)]) for missing, own in found.items()}

        own = scores(method, "view-missing", views)
        alone = [scores("concatenation", "clean", {view: X})[""] for view, X in views.items()]
        best = max(alone, key=lambda found: found.mean())  # by its mean, which favours it
        peers = [scores("joint", "clean", views)[""], scores("concatenation", "clean", views)[""], best]
        kept = [100 * found.mean() / own[""].mean() for missing, found in own.items() if missing]
        figures = " | ".join(_signed(own[""] - peer) for peer in peers)
        print(
            f"| {name} | {own[''].mean():.1f} | {figures} | {np.mean(kept):.1f} | {min(kept):.1f} | {splits} |",
            flush=True,
        )


def _signed(differences: Array) -> str:
    """Return the mean of paired differences with its standard error."""
    n = len(differences)
    error = differences.std(ddof=1) / np.sqrt(n) if n > 1 else float("nan")
    return f"{differences.mean():+.1f} ± {error:.1f}"


def print_times(names: Sequence[str], rank: int) -> None:
    """Print the processor seconds of fits to half of the samples, in turns, as shares of those of joint NMF."""
    print("| set | joint NMF, s | MultiviewNMF, least squares | Manhattan |")
    print("| --- | --- | --- | --- |")
    for name in names:
        views, labels = view_set(name)
        train = split_samples(labels, 0.5, 0)[0]
        half = {view: np.asarray(X[train], np.float32) for view, X in views.items()}
        half = Preparation().fit(half).transform(half)
        side = SideBySide(half).train
        joint = JointNMF(min(rank, *side.shape), init="nndsvda", max_iter=400, random_state=0)
        fits: list[Callable[[], Any]] = [
            lambda joint=joint, side=side: joint.fit(side),
            *(
                lambda loss=loss, half=half: MultiviewNMF(rank, loss=loss, random_state=0).fit(half)
                for loss in ("frobenius", "manhattan")
            ),
        ]
        seconds = [min(_seconds(fit) for _ in range(2)) for fit in fits]
        ratios = " | ".join(f"{own / seconds[0]:.1f}" for own in seconds[1:])
        print(f"| {name} | {seconds[0]:.1f} | {ratios} |", flush=True)


def print_missing_times(names: Sequence[str], ranks: Sequence[int | None]) -> None:
    """Print the processor seconds of five folds' fits if 30 % of the views are missing."""
    print("| set | components | loss | five fits, s | seconds on the clock |")
    print("| --- | --- | --- | --- | --- |")
    for name in names:
        views, labels = view_set(name)
        rng = np.random.default_rng(0)
        gone = rng.random((len(labels), len(views))) < MISSING
        gone[gone.all(axis=1), 0] = False
        views = {view: np.asarray(X, np.float32) for view, X in views.items()}
        prepared = Preparation().fit(views).transform(views)
        gaps = {view: np.where(gone[:, [v]], np.nan, X) for v, (view, X) in enumerate(prepared.items())}
        folds = [{view: X[np.arange(len(X)) % FOLDS != k] for view, X in gaps.items()} for k in range(FOLDS)]
        for rank in ranks:
            for loss in ("manhattan", "frobenius"):
                model = MultiviewNMF(rank, loss=loss, missing_values=np.nan, random_state=0)
                clock = time.perf_counter()
                seconds = sum(_seconds(lambda model=model, fold=fold: model.fit(fold)) for fold in folds)
                clock = time.perf_counter() - clock
                print(f"| {name} | {rank} | {loss} | {seconds:.1f} | {clock:.1f} |", flush=True)


def _seconds(fit: Callable[[], Any]) -> float:
    """Return the processor seconds of a call."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
    return time.process_time() - start
