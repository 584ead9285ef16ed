"""Factorisations of faces whose ranks and rules of classification published tables compare, beside the application's.

==========================  ============================================================================================
"manhattan"                 NMF with the Manhattan loss and a nuclear penalty of 1, robust PCA's parameter
"manhattan-plain"           the same without the penalty: the paper's model
"manhattan-light"           the same with a penalty of 0.3: closer to the images, less robust
"manhattan-blocks"          "manhattan" with opaque blocks missing, as :class:`FaceRecognizer` finds them
"manhattan-cv"              "manhattan" or "manhattan-light", for each rule the one with which cross-validation
                            identifies most training images
"frobenius"                 NMF with least squares
"kullback-leibler"          NMF with the Kullback-Leibler divergence
"sklearn-frobenius"         scikit-learn's NMF, coordinate descent
"sklearn-kullback-leibler"  scikit-learn's NMF, multiplicative updates
"pca"                       eigenfaces (Turk and Pentland 1991)
"recognizer"                :class:`FaceRecognizer` with its defaults; this and the next have no rank
"recognizer-seeing-all"     "recognizer" with ``missing="none"``: it searches for no blocks
"recognizer-nearest"        "whitened" of :mod:`visionnmf.apps.evaluate.faces`
"raw", "lda", "crc"         as there
==========================  ============================================================================================

Factorisations classify by four rules: "pseudo-inverse" (MahNMF, Algorithm 4) compares projections by their Euclidean
distance; "mixed" compares projections of the test images with the model's own codes of the training images; "codes"
(Algorithm 5) compares the model's codes by their cosine, and "whitened" the same after whitening. PCA has one
projection.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF as SklearnNMF, PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from visionnmf import NMF
from visionnmf.apps.evaluate import faces as application
from visionnmf.apps.evaluate.faces import WHITENING, FaceSplit, Nearest, make_split
from visionnmf.apps.evaluate.settings import FaceConditions
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.images import flat_background, missing_pixels
from visionnmf.apps.runner import run_jobs, settings_key
from visionnmf.datasets import Faces

__all__ = ["ALL_METHODS", "PROJECTED", "RULES", "FacePlan", "Means", "compare", "means_of", "text_of"]

Array = NDArray[Any]
Rows = list[dict[str, Any]]
Condition = tuple[str, float | None]  # a kind of visionnmf.datasets.corrupt and its severity
Means = dict[tuple[Any, ...], tuple[float, float]]

RULES = ("pseudo-inverse", "mixed", "codes", "whitened")
PROJECTED = ("pseudo-inverse", "mixed")  # rules that project test images
FOLDS = 5
COLUMNS = (
    "corruption", "severity", "split", "method", "rank", "rule", "test", "accuracy", "train_error", "test_error",
    "seconds",
)  # fmt: skip
GROUP = ("corruption", "severity", "method", "rank", "rule", "test")  # columns whose splits are averaged


@dataclass(frozen=True, kw_only=True)
class FacePlan:
    """What is compared: methods at ranks by rules, on splits with corrupted training images.

    Ranks above the number of training images or pixels are lowered to it. `both` also tests on corrupted images, and
    `most_test` is the maximum number of test images of a person.
    """

    corruptions: tuple[Condition, ...]
    methods: tuple[str, ...]
    ranks: tuple[int, ...] = (100,)
    rules: tuple[str, ...] = RULES
    both: bool = False
    splits: int = 10
    per_person: int = 7
    most_test: int | None = None
    random_state: int = 0
    iterations: int = 100

    @property
    def tests(self) -> tuple[str, ...]:
        """The test sets."""
        return ("clean", "corrupted") if self.both else ("clean",)

    @property
    def splitting(self) -> FaceConditions:
        """The settings by which the application makes the splits of this plan.

        `both` also corrupts test images; a person has `per_person` images for training and at most `most_test` to test.
        """
        return FaceConditions(both=self.both, per_person=self.per_person, most_test=self.most_test)


def text_of(condition: Condition) -> str:
    """Return a corruption as the application names it."""
    kind, severity = condition
    return kind if severity is None else f"{kind}:{severity!r}"


class FaceMethod(Protocol):
    """A method: its `score` returns a row for each test set, and for each rule if it has a rank."""

    ranked: ClassVar[bool]

    def score(self, split: FaceSplit, clean: Array, rank: int | None, plan: FacePlan) -> Rows:
        """Learn the training images, whose undamaged form is `clean`, and classify the test sets."""


@dataclass(frozen=True)
class DirectMethod:
    """A method without a rank: `learn` returns a function from test images to their distances from the people."""

    learn: Callable[[FaceSplit], Callable[[Array], Array]]
    ranked: ClassVar[bool] = False

    def score(self, split: FaceSplit, clean: Array, rank: int | None, plan: FacePlan) -> Rows:
        """Return a row per test set: ``test`` and ``accuracy`` (%). All arguments but `split` are for other methods."""
        # `learn` fits the method to the training images of `split`, and `tests` are the clean and perhaps corrupted
        # test sets by name.
        distances = self.learn(split)
        return [{"test": test, "accuracy": split.accuracy(distances(images))} for test, images in split.tests.items()]


@dataclass(frozen=True)
class Factorisation:
    """A low-rank model of the training images: `make(n_components, random_state, iterations)` returns the estimator."""

    make: Callable[[int, int, int], Any]
    ranked: ClassVar[bool] = True

    def seen(self, images: Array, split: FaceSplit) -> Array:
        """Return what the model sees of images, as rows: everything, unless a subclass sets pixels to NaN."""
        return images

    def fit(self, split: FaceSplit, rank: int, iterations: int = 100) -> FittedFactorisation:
        """Fit the model that ``make(rank, seed, iterations)`` returns to what it sees of the training images."""
        # `split` goes with the result, to classify the test images.
        model = self.make(rank, split.seed, iterations)
        with _without_convergence_warnings():
            return FittedFactorisation(self, model, model.fit_transform(self.seen(split.train, split)), split)

    def score(self, split: FaceSplit, clean: Array, rank: int | None, plan: FacePlan) -> Rows:
        """Fit the model of this rank, and return the rows of :meth:`FittedFactorisation.score`.

        A rule of the plan says how test images are classified by their codes, such as "codes" or "pseudo-inverse";
        `clean` are the training images before corruption.
        """
        assert rank is not None  # as for every method that is `ranked`
        return self.fit(split, rank, plan.iterations).score(tuple(dict.fromkeys(plan.rules)), clean)


class FittedFactorisation(NamedTuple):
    """A fitted model, its codes of the training images, and the split that it was fitted to."""

    method: Factorisation
    model: Any
    codes: Array
    split: FaceSplit

    def score(self, rules: tuple[str, ...], clean: Array) -> Rows:
        """Classify the test sets by these rules; `clean` are the training images before corruption.

        Some rules compare projections of test images on the components, which are linear, and the others the codes that
        the model finds by its own loss. `gallery` returns the same of the training images. Errors are the squared
        distance of the reconstructions from the clean images over the square of these. A row has ``rule``, ``test``,
        ``accuracy`` (%), ``train_error`` and ``test_error``.
        """
        split = self.split
        train_error = _error(self.model.inverse_transform(self.codes), clean)
        classifiers = {rule: nearest_by(rule).fit(self.gallery(rule), split.people) for rule in rules}
        rows = []
        for test, images in split.tests.items():
            # Codes and reconstructions of the images, by whether they are projected; rules share them.
            found: dict[bool, tuple[Array, Array]] = {}
            for rule, classifier in classifiers.items():
                projected = self.projects(rule)
                if projected not in found:
                    found[projected] = self.project(images) if projected else self.encode(images)
                codes, reconstructions = found[projected]
                rows.append({
                    "rule": rule, "test": test, "accuracy": split.accuracy(classifier.distances(codes)),
                    "train_error": train_error, "test_error": _error(reconstructions, split.tests["clean"]),
                })  # fmt: skip
        return rows

    def gallery(self, rule: str) -> Array:
        """Return projections of the training images ("pseudo-inverse"), or the model's codes for unit components."""
        # Of PCA both are the same. `codes` are those that the model found in training, and `_norms` the components'
        # norms, by which codes are multiplied as if components had unit norm.
        if rule == "pseudo-inverse" and not isinstance(self.model, PCA):
            return self.project(self.split.train)[0]
        return np.asarray(self.codes * self._norms)

    def projects(self, rule: str) -> bool:
        """Return whether test images are projected instead of coded; PCA's codes are projections already."""
        return rule in PROJECTED and not isinstance(self.model, PCA)

    def project(self, images: Array) -> tuple[Array, Array]:
        """Return the codes of images (rows) by the pseudo-inverse of components of unit norm, and reconstructions."""
        norms = self._norms
        unit = self.model.components_ / np.where(norms > 0, norms, 1)[:, None]
        codes = images @ np.linalg.pinv(unit, rcond=max(unit.shape) * np.finfo(unit.dtype).eps)
        return codes, codes @ unit

    def encode(self, images: Array) -> tuple[Array, Array]:
        """Return the codes of images by the model's own loss, for components of unit norm, and reconstructions."""
        # `seen` hides pixels of opaque blocks from some models; `split` has the training images, from which it learns
        # what is an even background and no block. `_norms` are those of the components.
        with _without_convergence_warnings():
            codes = self.model.transform(self.method.seen(images, self.split))
        return codes * self._norms, self.model.inverse_transform(codes)

    @property
    def _norms(self) -> Array:
        """The norm of each component, (n_components,); a single 1 for PCA, whose axes have unit norm up to rounding."""
        if isinstance(self.model, PCA):
            return np.ones(1, np.float32)
        return np.asarray(np.linalg.norm(self.model.components_, axis=1))


def nearest_by(rule: str) -> Nearest:
    """Return the classifier of a rule: the nearest code, by Euclidean distance or by the cosine.

    Rules in PROJECTED project test images on the components and take the former; those that compare codes of the model
    take the cosine, "whitened" after directions in which all codes vary were divided by the root of their power.
    """
    # WHITENING is the share of the mean power that is added before that
    return Nearest(cosine=rule not in PROJECTED, whiten=WHITENING if rule == "whitened" else None)


@contextmanager
def _without_convergence_warnings() -> Iterator[None]:
    """Silence the warning that a model stopped at the number of iterations it was given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _error(reconstructions: Array, images: Array) -> float:
    """Return the squared distance of reconstructions from images over the square of the images."""
    return float(np.square(reconstructions - images).sum(dtype=np.float64) / np.square(images).sum(dtype=np.float64))


def make_nmf(loss: str, nuclear: float, n_components: int, random_state: int, iterations: int) -> NMF:
    """Return an NMF that runs for a number of iterations; `nuclear` is the weight of its nuclear penalty, or 0."""
    return NMF(n_components, loss=loss, nuclear=nuclear, max_iter=iterations, tol=0, random_state=random_state)


def _make_pca(n_components: int, random_state: int, iterations: int) -> PCA:
    """Return PCA, which has no iterations."""
    return PCA(n_components, random_state=random_state)


@dataclass(frozen=True)
class BlockFactorisation(Factorisation):
    """A factorisation that does not see opaque blocks."""

    def seen(self, images: NDArray[Any], split: FaceSplit) -> NDArray[Any]:
        """Return images with NaN in opaque blocks; an even background of the training images is not taken for one."""
        # blocks are even squares; the value of white is 1, and evenness is judged by the brightest pixel of the set
        brightest, shape = float(split.train.max()), (-1, *split.image_shape)
        background = flat_background(split.train.reshape(shape), brightest)
        mask = missing_pixels(images.reshape(shape), "blocks", 1.0, brightest, background)
        return np.where(mask.reshape(images.shape), np.float32(np.nan), images)


@dataclass(frozen=True)
class ChosenFactorisation:
    """The factorisation that cross-validation on the training images, equally corrupted, chooses for each rule."""

    candidates: tuple[Factorisation, ...]
    ranked: ClassVar[bool] = True

    def score(self, split: FaceSplit, clean: Array, rank: int | None, plan: FacePlan) -> Rows:
        """Return for each rule of the plan the rows of the candidate that identifies most left-out training images."""
        # `clean` are the training images before corruption. `fit` sees all training images, but no names.
        assert rank is not None  # as for every method that is `ranked`
        rules = tuple(dict.fromkeys(plan.rules))
        fits = [candidate.fit(split, rank, plan.iterations) for candidate in self.candidates]
        # the number of the best candidate for each rule
        chosen = {rule: int(np.argmax([cross_validated(fitted, rule) for fitted in fits])) for rule in rules}
        rows = []
        for number in dict.fromkeys(chosen.values()):
            rows += fits[number].score(tuple(rule for rule in rules if chosen[rule] == number), clean)
        return sorted(rows, key=lambda row: rules.index(row["rule"]))


def cross_validated(fitted: FittedFactorisation, rule: str) -> float:
    """Return the share of left-out training images that a rule identifies; 0 if somebody has a single image."""
    # `gallery` are the codes to compare with, and `new` those of the images to identify, which differ if the rule
    # projects test images only.
    people = fitted.split.people
    folds = min(FOLDS, int(np.bincount(people).min()))
    if folds < 2:
        return 0.0
    gallery = new = fitted.gallery(rule)
    if fitted.projects(rule):
        new = fitted.project(fitted.split.train)[0]
    hits = []
    for rest, left_out in StratifiedKFold(folds, shuffle=True, random_state=0).split(gallery, people):
        distances = nearest_by(rule).fit(gallery[rest], people[rest]).distances(new[left_out])
        hits.append(distances.argmin(axis=1) == people[left_out])  # the columns are people, numbered from 0
    return float(np.concatenate(hits).mean())


def _nmf_with_gaps(n_components: int, random_state: int, iterations: int) -> NMF:
    """Return the NMF of "manhattan", with a nuclear penalty of 1, that leaves out entries that are NaN."""
    return make_nmf("manhattan", 1.0, n_components, random_state, iterations).set_params(missing_values=np.nan)


def _sklearn_nmf(loss: str, solver: str, n_components: int, random_state: int, iterations: int) -> SklearnNMF:
    """Return scikit-learn's NMF with twice the iterations, because each of them does less."""
    return SklearnNMF(
        n_components, init="random", beta_loss=loss, solver=solver, max_iter=2 * iterations, random_state=random_state
    )


def _seeing_all(split: FaceSplit) -> Callable[[Array], Array]:
    """Fit a :class:`FaceRecognizer` that searches for no blocks; return its distances."""
    options: dict[str, Any] = {"image_shape": split.image_shape, "calibrate": False, "random_state": split.seed}
    return FaceRecognizer(missing="none", **options).fit(split.train, split.people).distances


def _of_application(name: str, split: FaceSplit) -> Callable[[Array], Array]:
    """Fit a method of `evaluate faces` without a rank; return its function from images to distances of people."""
    # 0 stands for no rank.
    return application.METHODS[name](split, 0).distances


_PENALISED = Factorisation(partial(make_nmf, "manhattan", 1.0))
_LIGHT = Factorisation(partial(make_nmf, "manhattan", 0.3))

ALL_METHODS: dict[str, FaceMethod] = {
    "manhattan": _PENALISED,
    "manhattan-plain": Factorisation(partial(make_nmf, "manhattan", 0.0)),
    "manhattan-light": _LIGHT,
    "manhattan-blocks": BlockFactorisation(_nmf_with_gaps),
    "manhattan-cv": ChosenFactorisation((_PENALISED, _LIGHT)),
    "frobenius": Factorisation(partial(make_nmf, "frobenius", 0.0)),
    "kullback-leibler": Factorisation(partial(make_nmf, "kullback-leibler", 0.0)),
    "sklearn-frobenius": Factorisation(partial(_sklearn_nmf, "frobenius", "cd")),
    "sklearn-kullback-leibler": Factorisation(partial(_sklearn_nmf, "kullback-leibler", "mu")),
    "pca": Factorisation(_make_pca),
    "recognizer-seeing-all": DirectMethod(_seeing_all),
    "recognizer-nearest": DirectMethod(partial(_of_application, "whitened")),
    **{name: DirectMethod(partial(_of_application, name)) for name in ("recognizer", "raw", "lda", "crc")},
}


# --- running them -----------------------------------------------------------------------------------------------------


def run_split(faces: Faces, plan: FacePlan, condition: Condition, number: int) -> Rows:
    """Return the rows of all methods of the plan on split `number` with one corruption; data limit the ranks."""
    # `clean` are the training images uncorrupted. A row has the keys COLUMNS, with None where a method has no such
    # figure.
    split = make_split(faces, text_of(condition), number, plan.splitting, plan.random_state)
    clean = make_split(faces, "none", number, plan.splitting, plan.random_state).train
    rows: Rows = []
    for name in dict.fromkeys(plan.methods):
        method, most = ALL_METHODS[name], min(split.train.shape)
        ranks = dict.fromkeys(min(rank, most) for rank in plan.ranks) if method.ranked else [None]
        for rank in ranks:
            start = time.perf_counter()
            found = method.score(split, clean, rank, plan)
            common = {"corruption": condition[0], "severity": condition[1], "split": number, "method": name}
            common |= {"rank": rank, "seconds": round(time.perf_counter() - start, 3)}
            rows += [dict.fromkeys(COLUMNS) | common | row for row in found if row["test"] in plan.tests]
    return rows


def compare(faces: Faces, plan: FacePlan, *, out: str | Path | None = None, jobs: int = 1) -> Rows:
    """Return the rows of all methods, corruptions and splits; an interrupted run with a folder `out` continues."""
    # Each corruption and split is a job of its own, so a run with more of them continues with what is kept.
    settings = {name: value for name, value in asdict(plan).items() if name not in ("splits", "corruptions")}
    work = {
        f"{text_of(condition).replace(':', '-')}-split{number}": (condition, number)
        for condition, number in product(plan.corruptions, range(plan.splits))
    }
    key = settings_key(settings, faces.images, faces.labels)
    return run_jobs(work, partial(run_split, faces, plan), COLUMNS, key=key, out=out, processes=jobs)


def means_of(rows: Rows, column: str = "accuracy") -> Means:
    """Return mean and deviation of a column over the splits, by GROUP, without rows where it is None."""
    # Errors are None for methods that reconstruct nothing.
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if row[column] is not None:
            groups.setdefault(tuple(row[name] for name in GROUP), []).append(row[column])
    return {key: (float(np.mean(values)), float(np.std(values))) for key, values in groups.items()}
