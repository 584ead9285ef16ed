"""The methods that :func:`~visionnmf.apps.faces.evaluate` compares, in the table :data:`METHODS`.

====================  ==================================================================================================
"manhattan"           NMF with the Manhattan loss and a nuclear penalty of 1, robust PCA's parameter
"manhattan-plain"     the same without the penalty: the paper's model
"frobenius"           NMF with least squares
"kullback-leibler"    NMF with the Kullback-Leibler divergence
"pca"                 eigenfaces (Turk and Pentland 1991)
"recognizer"          :class:`FaceRecognizer` with its defaults
"raw"                 the nearest training image
"lda"                 PCA to 200 dimensions, linear discriminants with shrinkage (Ledoit and Wolf)
"crc"                 collaborative representation of the images as they are (Zhang, Yang, Feng 2011)
====================  ==================================================================================================

The first five have a rank, and classify by four rules: "pseudo-inverse" (MahNMF, Algorithm 4) compares projections by
their Euclidean distance; "mixed" compares projections of the test images with the model's own codes of the training
images; "codes" (Algorithm 5) compares the model's codes by their cosine, and "whitened" the same after whitening. PCA
has one projection.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from visionnmf import NMF

from .classifiers import ClassResidual, Nearest
from .recognizer import WHITENING, FaceRecognizer
from .settings import FaceEvaluation

__all__ = [
    "METHODS",
    "DirectMethod",
    "FaceMethod",
    "FaceSplit",
    "Factorisation",
    "FittedFactorisation",
    "make_nmf",
    "nearest_by",
    "recognizer_distances",
]

Array = NDArray[Any]
Rows = list[dict[str, Any]]

LDA_DIMENSIONS = 200
PROJECTED = ("pseudo-inverse", "mixed")  # rules that project test images


class FaceSplit(NamedTuple):
    """Training images and test sets of one split of a data set.

    Attributes
    ----------
    train, clean : ndarray of float32 [shape=(n_train, n_pixels)]
        Training images in [0, 1], corrupted and not.
    people : ndarray of int [shape=(n_train,)]
        From 0 without gaps.
    tests : dict of str to ndarray of float32 [shape=(n_test, n_pixels)]
        "clean", and "corrupted" if test images are corrupted too.
    answers : ndarray of int [shape=(n_test,)]
        Who is on the test images.
    image_shape : tuple of (int, int)
    seed : int
        Number of the split, which seeds the methods.
    """

    train: Array
    clean: Array
    people: NDArray[np.intp]
    tests: dict[str, Array]
    answers: NDArray[np.intp]
    image_shape: tuple[int, int]
    seed: int

    def accuracy(self, distances: Array) -> float:
        """Return the share of test images, in %, whose nearest person is the right one."""
        return float(100 * (distances.argmin(axis=1) == self.answers).mean())


class FaceMethod(Protocol):
    """A method of the table: its `score` returns a row for each test set, and for each rule if it has a rank."""

    ranked: ClassVar[bool]

    def score(self, split: FaceSplit, rank: int | None, evaluation: FaceEvaluation) -> Rows:
        """Learn the training images and classify the test sets."""


@dataclass(frozen=True)
class DirectMethod:
    """A method without a rank: `learn` returns a function from test images to their distances from the people."""

    learn: Callable[[FaceSplit], Callable[[Array], Array]]
    ranked: ClassVar[bool] = False

    def score(self, split: FaceSplit, rank: int | None, evaluation: FaceEvaluation) -> Rows:
        """Return a row per test set: ``test`` and ``accuracy`` (%)."""
        distances = self.learn(split)
        return [{"test": test, "accuracy": split.accuracy(distances(images))} for test, images in split.tests.items()]


@dataclass(frozen=True)
class Factorisation:
    """A low-rank model of the training images: `make(n_components, random_state, iterations)` returns the estimator."""

    make: Callable[[int, int, int], Any]
    ranked: ClassVar[bool] = True

    def seen(self, images: Array, split: FaceSplit) -> Array:
        """Return what the model sees of images."""
        return images

    def fit(self, split: FaceSplit, rank: int, iterations: int = 100) -> FittedFactorisation:
        """Fit the model to the training images."""
        model = self.make(rank, split.seed, iterations)
        with _without_convergence_warnings():
            return FittedFactorisation(self, model, model.fit_transform(self.seen(split.train, split)), split)

    def score(self, split: FaceSplit, rank: int | None, evaluation: FaceEvaluation) -> Rows:
        """Return the rows of :meth:`FittedFactorisation.score`."""
        assert rank is not None
        return self.fit(split, rank, evaluation.iterations).score(tuple(dict.fromkeys(evaluation.rules)))


class FittedFactorisation(NamedTuple):
    """A fitted model, its codes of the training images, and the split that it was fitted to."""

    method: Factorisation
    model: Any
    codes: Array
    split: FaceSplit

    def score(self, rules: tuple[str, ...]) -> Rows:
        """Classify the test sets by these rules.

        A row has ``rule``, ``test``, ``accuracy`` (%), and ``train_error`` and ``test_error``: the squared distance of
        the reconstructions from the clean images over the square of these.
        """
        split = self.split
        train_error = _error(self.model.inverse_transform(self.codes), split.clean)
        classifiers = {rule: nearest_by(rule).fit(self.gallery(rule), split.people) for rule in rules}
        rows = []
        for test, images in split.tests.items():
            found: dict[bool, tuple[Array, Array]] = {}  # codes and reconstructions, projected or not
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
        """Return projections of the training images, or the model's codes of them, for components of unit norm."""
        if rule == "pseudo-inverse" and not isinstance(self.model, PCA):
            return self.project(self.split.train)[0]
        return np.asarray(self.codes * self._norms)

    def projects(self, rule: str) -> bool:
        """Return whether test images are projected instead of coded; PCA's codes are projections."""
        return rule in PROJECTED and not isinstance(self.model, PCA)

    def project(self, images: Array) -> tuple[Array, Array]:
        """Return codes by the pseudo-inverse, for components of unit norm, and reconstructions."""
        norms = self._norms
        unit = self.model.components_ / np.where(norms > 0, norms, 1)[:, None]
        codes = images @ np.linalg.pinv(unit, rcond=max(unit.shape) * np.finfo(unit.dtype).eps)
        return codes, codes @ unit

    def encode(self, images: Array) -> tuple[Array, Array]:
        """Return codes by the model's own loss, for components of unit norm, and reconstructions."""
        with _without_convergence_warnings():
            codes = self.model.transform(self.method.seen(images, self.split))
        return codes * self._norms, self.model.inverse_transform(codes)

    @property
    def _norms(self) -> Array:
        # PCA's axes have unit norm up to rounding
        if isinstance(self.model, PCA):
            return np.ones(1, np.float32)
        return np.asarray(np.linalg.norm(self.model.components_, axis=1))


def nearest_by(rule: str) -> Nearest:
    """Return the classifier of a rule."""
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
    """Return an NMF that runs for a number of iterations."""
    return NMF(n_components, loss=loss, nuclear=nuclear, max_iter=iterations, tol=0, random_state=random_state)


def _make_pca(n_components: int, random_state: int, iterations: int) -> PCA:
    return PCA(n_components, random_state=random_state)


def recognizer_distances(split: FaceSplit, **parameters: Any) -> Callable[[Array], Array]:
    """Return the distances of a :class:`FaceRecognizer` with these parameters."""
    recognizer = FaceRecognizer(image_shape=split.image_shape, random_state=split.seed, **parameters)
    return recognizer.fit(split.train, split.people).distances


def _raw_distances(split: FaceSplit) -> Callable[[Array], Array]:
    return Nearest().fit(split.train, split.people).distances


def _crc_distances(split: FaceSplit) -> Callable[[Array], Array]:
    return ClassResidual().fit(split.train, split.people).distances


def _lda_distances(split: FaceSplit) -> Callable[[Array], Array]:
    """Return distances by linear discriminants with shrinkage, after PCA."""
    dimensions = min(LDA_DIMENSIONS, len(split.train) - 1, split.train.shape[1])
    discriminants = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    lda = make_pipeline(PCA(dimensions, random_state=split.seed), discriminants).fit(split.train, split.people)
    if split.people.max() == 1:  # the decision function has a single column for two people
        return lambda images: -lda.predict_proba(images)
    return lambda images: -lda.decision_function(images)


METHODS: dict[str, FaceMethod] = {
    "manhattan": Factorisation(partial(make_nmf, "manhattan", 1.0)),
    "manhattan-plain": Factorisation(partial(make_nmf, "manhattan", 0.0)),
    "frobenius": Factorisation(partial(make_nmf, "frobenius", 0.0)),
    "kullback-leibler": Factorisation(partial(make_nmf, "kullback-leibler", 0.0)),
    "pca": Factorisation(_make_pca),
    "recognizer": DirectMethod(recognizer_distances),
    "raw": DirectMethod(_raw_distances),
    "lda": DirectMethod(_lda_distances),
    "crc": DirectMethod(_crc_distances),
}
