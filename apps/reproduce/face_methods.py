"""Factorisations of faces as section 5.2 of the MahNMF paper (Guan et al. 2012) compares them: accuracies and errors.

Algorithm 4, the rule "pseudo-inverse", compares projections on the components by their Euclidean distance; Algorithm 5,
"codes", compares the model's own codes by their cosine. PCA has one projection for both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF
from visionnmf.apps.evaluate.faces import FaceSplit, Nearest, make_split
from visionnmf.apps.evaluate.settings import FaceConditions
from visionnmf.apps.runner import Rows
from visionnmf.datasets import Faces

Array = NDArray[Any]
Condition = tuple[str, float | None]  # a kind of visionnmf.datasets.corrupt and its severity


@dataclass(frozen=True, kw_only=True)
class FacePlan:
    """What is compared: methods at ranks by a rule, on splits with corrupted training images.

    Ranks above the number of training images or pixels are lowered to it. `corrupted` tests on corrupted images, and
    `most_test` is the maximum number of test images of a person.
    """

    corruptions: tuple[Condition, ...]
    methods: tuple[str, ...]
    ranks: tuple[int, ...]
    rule: str
    splits: int
    random_state: int
    most_test: int
    iterations: int
    per_person: int = 7
    corrupted: bool = False


def _nmf(loss: str, rank: int, seed: int, iterations: int, solver: str = "auto") -> NMF:
    """Return an unpenalised NMF that runs for a number of iterations."""
    return NMF(rank, loss=loss, solver=solver, max_iter=iterations, tol=0, random_state=seed)


METHODS: dict[str, Callable[[int, int, int], Any]] = {
    **{name: partial(_nmf, loss) for name, loss in {
        "EucNMF": "frobenius", "KLNMF": "kullback-leibler", "MahNMF": "manhattan"
    }.items()},
    "PCA": lambda rank, seed, iterations: PCA(rank, random_state=seed),
}  # fmt: skip
"""The names of the paper, and what makes a model of a rank and seed with so many iterations."""

PRINTED: dict[str, Callable[[int, int, int], Any]] = {
    name: partial(_nmf, "manhattan", solver=solver)
    for name, solver in {"MahNMF, RRI": "rri", "MahNMF, OGM as printed": "ogm-printed"}.items()
}
"""The same with the paper's own solvers of MahNMF, which take much longer."""


def text_of(condition: Condition) -> str:
    """Return a corruption as `visionnmf evaluate faces` names it."""
    kind, severity = condition
    return kind if severity is None else f"{kind}:{severity!r}"


def compare(faces: Faces, plan: FacePlan) -> Rows:
    """Return a row for each corruption, split, method and rank, with its accuracy and relative errors."""
    rows: Rows = []
    splitting = FaceConditions(both=plan.corrupted, per_person=plan.per_person, most_test=plan.most_test)
    for condition in plan.corruptions:
        for number in range(plan.splits):
            split = make_split(faces, text_of(condition), number, splitting, plan.random_state)
            clean = make_split(faces, "none", number, splitting, plan.random_state).train
            images = split.tests["corrupted" if plan.corrupted else "clean"]
            for method in plan.methods:
                for rank in dict.fromkeys(min(rank, *split.train.shape) for rank in plan.ranks):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        model = (METHODS | PRINTED)[method](rank, split.seed, plan.iterations)
                        scores = _scores(model, split, clean, images, plan.rule)
                    rows.append({"corruption": condition[0], "method": method, "rank": rank} | scores)
    return rows


def _scores(model: Any, split: FaceSplit, clean: Array, images: Array, rule: str) -> dict[str, float]:
    """Return the accuracy on test images in %, and the errors of reconstructions relative to clean images."""
    codes = model.fit_transform(split.train)
    train_error = _error(model.inverse_transform(codes), clean)
    if isinstance(model, PCA):
        gallery, found = codes, model.transform(images)
        reconstructions = model.inverse_transform(found)
    elif rule == "pseudo-inverse":
        norms = np.linalg.norm(model.components_, axis=1)
        unit = model.components_ / np.where(norms > 0, norms, 1)[:, None]
        inverse = np.linalg.pinv(unit, rcond=max(unit.shape) * np.finfo(unit.dtype).eps)
        gallery, found = split.train @ inverse, images @ inverse
        reconstructions = found @ unit
    else:
        norms, own = np.linalg.norm(model.components_, axis=1), model.transform(images)
        gallery, found = codes * norms, own * norms  # as if components had norm 1
        reconstructions = model.inverse_transform(own)
    distances = Nearest(cosine=rule == "codes").fit(gallery, split.people).distances(found)
    return {
        "accuracy": split.accuracy(distances),
        "train_error": train_error,
        "test_error": _error(reconstructions, split.tests["clean"]),
    }


def _error(reconstructions: Array, images: Array) -> float:
    """Return the squared distance of reconstructions from images over the square of the images."""
    return float(np.square(reconstructions - images).sum(dtype=np.float64) / np.square(images).sum(dtype=np.float64))


def figures_of(rows: Rows, column: str, kind: str, method: str, rank: int | None = None) -> list[float]:
    """Return a column of the rows about a kind of corruption, a method and perhaps a rank: one of each split."""
    return [
        row[column]
        for row in rows
        if row["corruption"] == kind and row["method"] == method and rank in (None, row["rank"])
    ]
