"""The multi-view model beside joint NMF, the views side by side and the best view, with paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _view_sets import view_set
from numpy.typing import NDArray

from visionnmf.apps.evaluate import Comparison, RandomSplits, ViewConditions, evaluate
from visionnmf.apps.evaluate.multiview import study_of

__all__ = ["print_bar", "signed"]

Array = NDArray[Any]


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
        figures = " | ".join(signed(own[""] - peer) for peer in peers)
        print(
            f"| {name} | {own[''].mean():.1f} | {figures} | {np.mean(kept):.1f} | {min(kept):.1f} | {splits} |",
            flush=True,
        )


def signed(differences: Array) -> str:
    """Return the mean of paired differences with its standard error."""
    n = len(differences)
    error = differences.std(ddof=1) / np.sqrt(n) if n > 1 else float("nan")
    return f"{differences.mean():+.1f} ± {error:.1f}"
