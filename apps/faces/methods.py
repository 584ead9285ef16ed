"""The methods that `evaluate` compares: models of the training images, and classifiers that need none.

==========================  ============================================================================================
"manhattan"                 NMF, Manhattan loss, nuclear penalty of 1: robust PCA's parameter
"manhattan-light"           the same with .3: nearer to the images, less robust
"manhattan-plain"           the same without: the paper's model
"manhattan-blocks"          "manhattan" with opaque blocks missing, as :class:`FaceRecognizer` finds them
"manhattan-cv"              "manhattan" or "manhattan-light": for each rule the one with which cross-validation names
                            most training images
"frobenius"                 NMF, least squares
"kullback-leibler"          NMF, Kullback-Leibler divergence
"sklearn-frobenius"         scikit-learn's NMF, coordinate descent
"sklearn-kullback-leibler"  scikit-learn's NMF, multiplicative updates
"pca"                       eigenfaces (Turk and Pentland 1991)
"recognizer"                :class:`FaceRecognizer` as it comes
"recognizer-seeing-all"     the same with ``missing="none"``: no blocks are looked for
"recognizer-nearest"        the same with ``rule="whitened"`` and 150 components: nearest neighbours of codes
"raw"                       the nearest training image
"lda"                       PCA to 200 dimensions, linear discriminants with shrinkage (Ledoit and Wolf)
"crc"                       collaborative representation of the images as they are (Zhang, Yang, Feng 2011)
==========================  ============================================================================================

The first ten have a rank, and classify by the rules of :data:`RULES`; "pca" has one projection and its distances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from visionnmf import NMF

from .classifiers import ClassResidual, Nearest
from .model import WHITENING, FaceRecognizer
from .pixels import flat_background, missing_pixels

__all__ = [
    "CHOSEN",
    "MODELS",
    "RANKLESS",
    "RULES",
    "Task",
    "fit_model",
    "score_chosen",
    "score_model",
    "score_rankless",
]

Array = NDArray[Any]

Maker = Callable[[int, int, int], Any]  # of n_components, random_state and iterations

LDA_DIMENSIONS = 200
FOLDS = 5
# MahNMF, Algorithm 4 (Euclidean); the same with the model's own codes of the training images, which its loss has
# cleaned, in place of their projections; Algorithm 5 (cosine), and this of whitened codes
RULES = ("pseudo-inverse", "mixed", "codes", "whitened")
PROJECTED = ("pseudo-inverse", "mixed")  # test images are


class Task(NamedTuple):
    """Training images and test sets of one split.

    Attributes
    ----------
    train, clean : ndarray of float32 [shape=(n_train, n_pixels)]
        Training images in [0, 1], corrupted and not.
    people : ndarray of int [shape=(n_train,)]
        From 0 without gaps.
    tests : dict of str to ndarray of float32 [shape=(n_test, n_pixels)]
        "clean", and "corrupted" where test images are to be corrupted too.
    answers : ndarray of int [shape=(n_test,)]
    image_shape : tuple of (int, int)
    """

    train: Array
    clean: Array
    people: NDArray[np.intp]
    tests: dict[str, Array]
    answers: NDArray[np.intp]
    image_shape: tuple[int, int]


def _nmf(loss: str, nuclear: float = 0.0, **more: Any) -> Maker:
    return lambda n_components, random_state, iterations: NMF(
        n_components, loss=loss, nuclear=nuclear, max_iter=iterations, tol=0, random_state=random_state, **more
    )


def _sklearn(loss: str, solver: str) -> Maker:
    return lambda n_components, random_state, iterations: SklearnNMF(
        n_components, init="random", beta_loss=loss, solver=solver, max_iter=2 * iterations, random_state=random_state
    )


BLOCKS = "manhattan-blocks"
MODELS: dict[str, Maker] = {
    "manhattan": _nmf("manhattan", 1.0),
    "manhattan-light": _nmf("manhattan", 0.3),
    "manhattan-plain": _nmf("manhattan"),
    BLOCKS: _nmf("manhattan", 1.0, missing_values=np.nan),
    "frobenius": _nmf("frobenius"),
    "kullback-leibler": _nmf("kullback-leibler"),
    "sklearn-frobenius": _sklearn("frobenius", "cd"),
    "sklearn-kullback-leibler": _sklearn("kullback-leibler", "mu"),
    "pca": lambda n_components, random_state, iterations: PCA(n_components, random_state=random_state),
}
CHOSEN = {"manhattan-cv": ("manhattan", "manhattan-light")}
RECOGNIZERS: dict[str, dict[str, Any]] = {
    "recognizer": {},
    "recognizer-seeing-all": {"missing": "none"},
    "recognizer-nearest": {"rule": "whitened", "n_components": 150},
}
RANKLESS = (*RECOGNIZERS, "raw", "lda", "crc")


class Fitted(NamedTuple):
    """A model and its codes of the training images."""

    model: Any
    codes: Array


def fit_model(name: str, task: Task, n_components: int, random_state: int, iterations: int = 100) -> Fitted:
    """Fit one of :data:`MODELS` to the training images.

    Parameters
    ----------
    name : str
    task : Task
    n_components : int
    random_state : int
    iterations : int, default=100
        Scikit-learn's, which do less each, are given twice as many.

    Returns
    -------
    Fitted
    """
    model = MODELS[name](n_components, random_state, iterations)
    with _unwarned():
        return Fitted(model, model.fit_transform(_seen(name, task.train, task)))


def score_model(name: str, fitted: Fitted, task: Task, rules: tuple[str, ...]) -> list[dict[str, Any]]:
    """Classify the test sets by the codes of a model.

    Training codes are the model's own, but for "pseudo-inverse", which projects training images, too; components have
    unit norm, and codes are scaled to match.

    Parameters
    ----------
    name : str
    fitted : Fitted
    task : Task
    rules : tuple of str
        Of :data:`RULES`.

    Returns
    -------
    list of dict
        A row a rule and test set: ``rule``, ``test``, ``accuracy`` (%), ``train_error`` and ``test_error``, the squared
        distance of the model's reconstructions from the clean images over the square of these.
    """
    model = fitted.model
    train_error = _error(model.inverse_transform(fitted.codes), task.clean)
    classifiers = {rule: _nearest(rule).fit(_gallery(fitted, task, rule), task.people) for rule in rules}
    rows = []
    for test, images in task.tests.items():
        found: dict[bool, tuple[Array, Array]] = {}  # codes and reconstructions, by projection or not
        for rule, classifier in classifiers.items():
            projected = _projects(model, rule)
            if projected not in found:
                found[projected] = _project(model, images) if projected else _encode(name, model, images, task)
            codes, reconstructions = found[projected]
            rows.append({
                "rule": rule, "test": test, "accuracy": _accuracy(classifier.distances(codes), task),
                "train_error": train_error, "test_error": _error(reconstructions, task.tests["clean"]),
            })  # fmt: skip
    return rows


def score_chosen(
    name: str, task: Task, n_components: int, random_state: int, iterations: int, rules: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Choose among models by cross-validation on the training images, for each rule, and classify the test sets.

    The models have seen all training images, but no names; the left-out images are as corrupted as the others.

    Parameters
    ----------
    name : str
        One of :data:`CHOSEN`.
    task : Task
    n_components : int
    random_state : int
    iterations : int
    rules : tuple of str
        Of :data:`RULES`.

    Returns
    -------
    list of dict
        Rows; see :func:`score_model`.
    """
    fits = {model: fit_model(model, task, n_components, random_state, iterations) for model in CHOSEN[name]}
    chosen = {rule: max(fits, key=lambda model: _cross_validated(fits[model], task, rule)) for rule in rules}
    rows = []
    for model in dict.fromkeys(chosen.values()):
        rows += score_model(model, fits[model], task, tuple(rule for rule in rules if chosen[rule] == model))
    return sorted(rows, key=lambda row: rules.index(row["rule"]))


def _cross_validated(fitted: Fitted, task: Task, rule: str) -> float:
    """Return the share of left-out training images that a rule names; 0 where somebody has a single image."""
    folds = min(FOLDS, int(np.bincount(task.people).min()))
    if folds < 2:
        return 0.0
    gallery = new = _gallery(fitted, task, rule)
    if _projects(fitted.model, rule):
        new = _project(fitted.model, task.train)[0]
    hits = []
    for rest, left_out in StratifiedKFold(folds, shuffle=True, random_state=0).split(gallery, task.people):
        distances = _nearest(rule).fit(gallery[rest], task.people[rest]).distances(new[left_out])
        hits.append(distances.argmin(axis=1) == task.people[left_out])
    return float(np.concatenate(hits).mean())


def _nearest(rule: str) -> Nearest:
    return Nearest(cosine=rule not in PROJECTED, whiten=WHITENING if rule == "whitened" else None)


def _gallery(fitted: Fitted, task: Task, rule: str) -> Array:
    """Return what test images are compared with: projections of the training images, or the model's codes of them."""
    if rule == "pseudo-inverse" and not isinstance(fitted.model, PCA):
        return _project(fitted.model, task.train)[0]
    return np.asarray(fitted.codes * _norms(fitted.model))


def _projects(model: Any, rule: str) -> bool:
    """Say whether test images are projected, else coded by the model's own loss; PCA's codes are projections."""
    return rule in PROJECTED and not isinstance(model, PCA)


def _norms(model: Any) -> Array:
    """Return the norms of the components; PCA's axes have unit norm, but for rounding."""
    return np.ones(1, np.float32) if isinstance(model, PCA) else np.linalg.norm(model.components_, axis=1)


def _seen(name: str, images: Array, task: Task) -> Array:
    """Return what a method looks at: some look for blocks first."""
    if name != BLOCKS:
        return images
    brightest, shape = float(task.train.max()), (-1, *task.image_shape)
    background = flat_background(task.train.reshape(shape), brightest)
    mask = missing_pixels(images.reshape(shape), "blocks", 1.0, brightest, background)
    return np.where(mask.reshape(images.shape), np.float32(np.nan), images)


def _project(model: Any, images: Array) -> tuple[Array, Array]:
    """Return codes by the pseudo-inverse, for components of unit norm, and reconstructions."""
    norms = _norms(model)
    unit = model.components_ / np.where(norms > 0, norms, 1)[:, None]
    codes = images @ np.linalg.pinv(unit, rcond=max(unit.shape) * np.finfo(unit.dtype).eps)
    return codes, codes @ unit


def _encode(name: str, model: Any, images: Array, task: Task) -> tuple[Array, Array]:
    """Return codes by the model's own loss, for components of unit norm, and reconstructions."""
    with _unwarned():
        codes = model.transform(_seen(name, images, task))
    return codes * _norms(model), model.inverse_transform(codes)


def score_rankless(name: str, task: Task, random_state: int) -> list[dict[str, Any]]:
    """Classify the test sets by a method without a rank.

    Parameters
    ----------
    name : str
        One of :data:`RANKLESS`.
    task : Task
    random_state : int

    Returns
    -------
    list of dict
        A row a test set: ``test`` and ``accuracy`` (%).
    """
    decide: Callable[[Array], Array]
    if name in RECOGNIZERS:
        recognizer = FaceRecognizer(image_shape=task.image_shape, random_state=random_state, **RECOGNIZERS[name])
        recognizer.fit(task.train, task.people)
        decide = recognizer.distances
    elif name == "lda":
        dimensions = min(LDA_DIMENSIONS, len(task.train) - 1, task.train.shape[1])
        discriminants = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        lda = make_pipeline(PCA(dimensions, random_state=random_state), discriminants).fit(task.train, task.people)
        decide = lambda images: -lda.decision_function(images)  # noqa: E731
        if task.people.max() == 1:  # one column for two people
            decide = lambda images: -lda.predict_proba(images)  # noqa: E731
    else:
        classifier = ClassResidual() if name == "crc" else Nearest()
        decide = classifier.fit(task.train, task.people).distances
    return [{"test": test, "accuracy": _accuracy(decide(images), task)} for test, images in task.tests.items()]


@contextmanager
def _unwarned() -> Iterator[None]:
    """Keep scikit-learn from saying that it stopped at the number of iterations that it was given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _accuracy(distances: Array, task: Task) -> float:
    return float(100 * (distances.argmin(axis=1) == task.answers).mean())


def _error(reconstructions: Array, images: Array) -> float:
    return float(np.square(reconstructions - images).sum(dtype=np.float64) / np.square(images).sum(dtype=np.float64))
