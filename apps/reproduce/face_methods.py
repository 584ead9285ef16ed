"""Factorisations of faces as section 5.2 of the MahNMF paper (Guan et al. 2012) compares them: accuracies and errors.

Clean tests are recognised by Algorithm 4, which compares projections on the components by their Euclidean distance, and
corrupted ones by Algorithm 5, which compares the model's own codes by their cosine. PCA has one projection for both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
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

PER_PERSON = 7  # training images
FIRST_SPLIT = 2  # settings of the application were chosen on splits 0 and 1
OTHERS = ("EucNMF", "KLNMF")
# MahNMF by the paper's solvers as printed, whose iterations take up to a thousand sweeps or steps for each factor, so
# they have fewer of them, by these divisors, and PRINTED_RUNS splits or draws
PRINTED = {"MahNMF, RRI": ("rri-printed", 5), "MahNMF, OGM": ("ogm-printed", 20)}
PRINTED_RUNS = 2
MAHNMF = (*PRINTED, "MahNMF, ADMM")  # the last by our solver
FITTED = (*OTHERS, *MAHNMF)


def _nmf(loss: str, rank: int, seed: int, iterations: int, solver: str = "auto", divisor: int = 1) -> NMF:
    """Return an unpenalised NMF that runs for a number of iterations."""
    return NMF(rank, loss=loss, solver=solver, max_iter=max(1, iterations // divisor), tol=0, random_state=seed)


METHODS: dict[str, Callable[[int, int, int], Any]] = {
    "EucNMF": partial(_nmf, "frobenius"),
    "KLNMF": partial(_nmf, "kullback-leibler"),
    **{name: partial(_nmf, "manhattan", solver=solver, divisor=n) for name, (solver, n) in PRINTED.items()},
    "MahNMF, ADMM": partial(_nmf, "manhattan", solver="admm"),
    "PCA": lambda rank, seed, iterations: PCA(rank, random_state=seed),
}
"""The names of the paper, and what makes a model of a rank and seed with so many iterations."""


def used(number: int, methods: Sequence[str]) -> list[str]:
    """Return the methods that are run on the split or draw of this number, from 0."""
    return [name for name in methods if number < PRINTED_RUNS or name not in PRINTED]


def text_of(condition: Condition) -> str:
    """Return a corruption as `visionnmf evaluate faces` names it."""
    kind, severity = condition
    return kind if severity is None else f"{kind}:{severity!r}"


def compare(
    faces: Faces,
    corruptions: Sequence[Condition],
    methods: Sequence[str],
    ranks: Sequence[int],
    splits: int,
    most_test: int,
    iterations: int,
    *,
    corrupted: bool = False,
    per_person: int = PER_PERSON,
) -> Rows:
    """Return a row for each corruption, split, method and rank, with its accuracies and relative errors."""
    rows: Rows = []
    splitting = FaceConditions(both=corrupted, per_person=per_person, most_test=most_test)
    for condition, number in product(corruptions, range(splits)):
        split = make_split(faces, text_of(condition), number, splitting, FIRST_SPLIT)
        clean = make_split(faces, "none", number, splitting, FIRST_SPLIT).train
        lowered = dict.fromkeys(min(rank, *split.train.shape) for rank in ranks)
        for method, rank in product(used(number, methods), lowered):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores = _scores(METHODS[method](rank, split.seed, iterations), split, clean)
            rows.append({"corruption": condition[0], "method": method, "rank": rank} | scores)
    return rows


def _scores(model: Any, split: FaceSplit, clean: Array) -> dict[str, float]:
    """Return the accuracies in %, of "clean" and "corrupted" tests, and errors of reconstructions of clean images."""
    codes = model.fit_transform(split.train)
    scores = {"train_error": _error(model.inverse_transform(codes), clean)}
    for name, images in split.tests.items():
        if isinstance(model, PCA):
            gallery, found = codes, model.transform(images)
            reconstructions = model.inverse_transform(found)
        elif name == "clean":
            norms = np.linalg.norm(model.components_, axis=1)
            unit = model.components_ / np.where(norms > 0, norms, 1)[:, None]
            inverse = np.linalg.pinv(unit, rcond=max(unit.shape) * np.finfo(unit.dtype).eps)
            gallery, found = split.train @ inverse, images @ inverse
            reconstructions = found @ unit
        else:
            norms = np.linalg.norm(model.components_, axis=1)
            gallery, found = codes * norms, model.transform(images) * norms  # as if components had norm 1
        scores[name] = split.accuracy(Nearest(cosine=name != "clean").fit(gallery, split.people).distances(found))
        if name == "clean":
            scores["test_error"] = _error(reconstructions, images)
    return scores


def _error(reconstructions: Array, images: Array) -> float:
    """Return the squared distance of reconstructions from images over the square of the images."""
    return float(np.square(reconstructions - images).sum(dtype=np.float64) / np.square(images).sum(dtype=np.float64))


def figures_of(rows: Rows, column: str, kind: str, method: str, rank: int) -> list[float]:
    """Return a column of the rows about a kind of corruption, a method and a rank: one of each split."""
    return [
        row[column] for row in rows if row["corruption"] == kind and row["method"] == method and row["rank"] == rank
    ]
