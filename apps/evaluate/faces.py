"""Methods of face recognition, compared on random splits of a data set; `visionnmf evaluate faces --help` lists them.

Those with components of their own, from "manhattan" to "pca", are compared at several ranks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from visionnmf import NMF, choices
from visionnmf._text import counted
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.clustering import whitening
from visionnmf.apps.faces.distances import ClassResidual
from visionnmf.apps.faces.reading import open_faces
from visionnmf.apps.faces.settings import FaceReading
from visionnmf.apps.runner import Rows, settings_key
from visionnmf.apps.settings import takes_records
from visionnmf.datasets import Faces, corrupt
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outside

from .drawing import rank_figure
from .harness import Study, averages, chosen_methods
from .settings import Comparison, FaceConditions, RandomSplits, parse_corruption

Array = NDArray[Any]

COLUMNS = ("corruption", "split", "method", "rank", "test", "accuracy", "seconds")
GROUP = ("corruption", "method", "rank", "test")  # columns whose splits are averaged
RANKED = ("manhattan", "frobenius", "kullback-leibler", "pca")
PROJECTED = "pseudo-inverse"  # has the model of "manhattan", which is drawn once
NOT_BY_DEFAULT = ("whitened", PROJECTED)
WHITENING = 0.1  # share of the mean power that whitening adds
CONDITION = 1e-2  # the pseudo-inverse leaves out components that are nearly combinations of others
SPLITS = 10
CURVES = "accuracy.png"
LDA_DIMENSIONS = 200


@takes_records
def study(
    source: str | Path | Faces,
    comparison: Comparison = Comparison(),
    *,
    splits: RandomSplits = RandomSplits(),
    conditions: FaceConditions = FaceConditions(),
    reading: FaceReading = FaceReading(),
) -> Study:
    """Return the comparison of methods on a data set of faces: a folder or file as for ``train``, or arrays."""
    methods = chosen_methods(comparison, tuple(METHODS), [name for name in METHODS if name not in NOT_BY_DEFAULT])
    skipped: list[str] = []
    faces = source
    if not isinstance(faces, Faces):
        if comparison.plots and comparison.out is not None:
            check_outside(comparison.out, str(source))
        faces, skipped = open_faces(str(source), reading=reading, named=True)
    people, counts = np.unique(faces.labels, return_counts=True)
    if len(people) < 2:
        raise ParameterError("faces must have at least two people; got 1")
    seed = splits.random_state
    for corruption in conditions.corruptions:
        make_split(faces, corruption, 0, conditions, seed)  # raises errors before the long computation
    # each corruption and split has rows of its own, so more of them continue with what is kept
    settings = {name: value for name, value in asdict(conditions).items() if name != "corruptions"}
    few = int((counts <= conditions.per_person).sum())
    note = (
        f"{few} of {len(people)} people have no more than {conditions.per_person} images: all but one of each such "
        "person's images are for training"
    )
    return Study(
        jobs={
            f"{corruption.replace(':', '-')}-split{number}": (corruption, number)
            for corruption, number in product(conditions.corruptions, range(splits.splits or SPLITS))
        },
        work=partial(run_split, faces, methods, conditions, seed),
        columns=COLUMNS,
        key=settings_key(settings | {"methods": methods, "seed": seed}, faces.images, faces.labels),
        lines=partial(averages, by=GROUP, scores=("accuracy", "seconds")),
        heading=f"{counted(len(faces.images), 'image')} of {counted(len(people), 'person', 'people')}; accuracy in %",
        draw=_draw,
        picture=CURVES,
        inputs=[] if isinstance(source, Faces) else [str(source)],
        skipped=skipped,
        notes=[note] if few else [],
    )


def run_split(
    faces: Faces, methods: tuple[str, ...], conditions: FaceConditions, seed: int, corruption: str, number: int
) -> Rows:
    """Return the rows of all methods on one split with one corruption, for each method, rank and test set."""
    split = make_split(faces, corruption, number, conditions, seed)
    rows: Rows = []
    for name in methods:
        # No rank is larger than the number of training images or pixels; ranks that become equal count once.
        ranks = dict.fromkeys(min(rank, *split.train.shape) for rank in conditions.ranks)
        for rank in ranks if name in (*RANKED, PROJECTED) else (None,):
            start = time.perf_counter()
            distances = METHODS[name](split, rank or 0)  # methods without a rank ignore the 0
            found = {test: split.accuracy(distances(images)) for test, images in split.tests.items()}
            common = {"corruption": corruption, "split": number, "method": name, "rank": rank}
            common["seconds"] = round(time.perf_counter() - start, 3)
            rows += [common | {"test": test, "accuracy": accuracy} for test, accuracy in found.items()]
    return rows


class FaceSplit(NamedTuple):
    """Training images and test sets of one split of a data set, as rows of shares of white."""

    train: Array
    people: NDArray[np.intp]  # numbered from 0 without gaps
    tests: dict[str, Array]  # "clean" and, if asked for, "corrupted" images
    answers: NDArray[np.intp]  # who is on them
    image_shape: tuple[int, int]
    seed: int  # of the methods: the number of the split

    def accuracy(self, distances: Array) -> float:
        """Return the share of test images, in %, whose nearest person is the right one."""
        return float(100 * (distances.argmin(axis=1) == self.answers).mean())


def make_split(
    faces: Faces, corruption: str, number: int, conditions: FaceConditions, random_state: int = choices.RANDOM_STATE
) -> FaceSplit:
    """Split a data set at random by its `number`, corrupt the training images and, if asked for, the tests."""
    rng = np.random.default_rng(random_state + number)
    train, test = [], []
    for person in np.unique(faces.labels):
        own = rng.permutation(np.flatnonzero(faces.labels == person))
        if len(own) < 2:
            # labels are positions among the names, if there are any, from 1, or 0 where the person is not known
            name = repr(str(faces.names[person - 1])) if 0 < person <= len(faces.names) else str(person)
            raise ParameterError(f"faces must have two images or more of each person; got one of person {name}")
        count = min(conditions.per_person, len(own) - 1)
        train.append(own[:count])
        test.append(own[count:][: conditions.most_test])
    rows, others = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    kind, severity = parse_corruption(corruption)
    # Two seeds, for the corruption of the training and of the test images; independent of the generator above.
    seeds = np.random.default_rng(1000 + random_state + number).integers(2**32, size=2)
    tests = {"clean": _as_shares(faces.images[others])}
    if conditions.both:
        tests["corrupted"] = _as_shares(corrupt(faces.images[others], kind, severity, random_state=int(seeds[1])))
    _, people = np.unique(faces.labels, return_inverse=True)
    return FaceSplit(
        train=_as_shares(corrupt(faces.images[rows], kind, severity, random_state=int(seeds[0]))),
        people=people[rows],
        tests=tests,
        answers=people[others],
        image_shape=(faces.images.shape[1], faces.images.shape[2]),
        seed=number,
    )


def _as_shares(images: Array) -> NDArray[np.float32]:
    """Return images as rows of shares of white."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


# --- methods ----------------------------------------------------------------------------------------------------------


Distances = Callable[[Array], Array]
"""What a method has learnt: a function that returns the distances of images to people, (n_images, n_people)."""


class Nearest:
    """Distance from the nearest image of each person: Euclidean, or with `cosine` one minus the cosine.

    With `whiten`, each principal direction about the origin is divided by the root of its power plus this share of the
    mean power, so that directions in which all faces vary count no more than others.
    """

    def __init__(self, *, cosine: bool = False, whiten: float | None = None) -> None:
        self.cosine, self.whiten = cosine, whiten

    def fit(self, X: Array, y: NDArray[np.intp]) -> Nearest:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        self.transform_ = None if self.whiten is None else whitening(X, self.whiten)
        order = np.argsort(y, kind="stable")
        self.images_ = self._prepared(X)[order]  # person by person
        self.starts_ = np.searchsorted(y[order], np.arange(y.max() + 1))  # each person's first row
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        new = self._prepared(X)
        products = new @ self.images_.T
        if self.cosine:
            table = np.maximum(1 - products, 0)
        else:
            squares = (new**2).sum(axis=1)[:, None] - 2 * products + (self.images_**2).sum(axis=1)
            table = np.sqrt(np.maximum(squares, 0))
        return np.asarray(np.minimum.reduceat(table, self.starts_, axis=1))

    def _prepared(self, X: Array) -> Array:
        """Return whitened images, of unit norm for the cosine."""
        rotated = X if self.transform_ is None else X @ self.transform_
        return normalize(rotated) if self.cosine else rotated


def _recognizer(split: FaceSplit, rank: int) -> Distances:
    """Learn by :class:`FaceRecognizer` with its defaults; `rank` is not used."""
    # Without `calibrate` no threshold of unknown people is set, because all people of the tests are known.
    recognizer = FaceRecognizer(image_shape=split.image_shape, calibrate=False, random_state=split.seed)
    return recognizer.fit(split.train, split.people).distances


def _whitened(split: FaceSplit, rank: int) -> Distances:
    """Compare whitened projections of cleaned images on the recogniser's components by their cosine, without a rank."""
    options: dict[str, Any] = {"n_components": 150, "image_shape": split.image_shape, "calibrate": False}
    recognizer = FaceRecognizer(rule="residual", random_state=split.seed, **options).fit(split.train, split.people)
    inverse = np.linalg.pinv(recognizer.components_, rcond=CONDITION)
    nearest = Nearest(cosine=True, whiten=WHITENING).fit(recognizer.cleaned_ @ inverse, split.people)
    return lambda images: nearest.distances(recognizer.explain(images).cleaned @ inverse)


def _projected(split: FaceSplit, rank: int) -> Distances:
    """Compare projections on the components of "manhattan", of unit norm, by their distance (MahNMF, Algorithm 4)."""
    components = _factorised("manhattan", 1.0, split, rank)[0].components_
    norms = np.linalg.norm(components, axis=1, keepdims=True)
    inverse = np.linalg.pinv(components / np.where(norms > 0, norms, 1), rcond=CONDITION)
    nearest = Nearest().fit(split.train @ inverse, split.people)
    return lambda images: nearest.distances(images @ inverse)


def _nmf(loss: str, nuclear: float, split: FaceSplit, rank: int) -> Distances:
    """Compare the codes of an NMF, as if its components had unit norm, by their cosine (MahNMF, Algorithm 5)."""
    model, codes = _factorised(loss, nuclear, split, rank)
    norms = np.linalg.norm(model.components_, axis=1)
    nearest = Nearest(cosine=True).fit(codes * norms, split.people)
    return lambda images: nearest.distances(model.transform(images) * norms)


def _factorised(loss: str, nuclear: float, split: FaceSplit, rank: int) -> tuple[NMF, Array]:
    """Return an NMF with a nuclear penalty, and the codes of the training images, after 100 iterations."""
    model = NMF(rank, loss=loss, nuclear=nuclear, max_iter=100, tol=0, random_state=split.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model, model.fit_transform(split.train)


def _pca(split: FaceSplit, rank: int) -> Distances:
    """Compare the projections on `rank` eigenfaces (Turk and Pentland 1991) by their Euclidean distance."""
    pca = PCA(rank, random_state=split.seed)
    nearest = Nearest().fit(pca.fit_transform(split.train), split.people)
    return lambda images: nearest.distances(pca.transform(images))


def _lda(split: FaceSplit, rank: int) -> Distances:
    """Use linear discriminants, shrunk by Ledoit and Wolf, after PCA; a person's distance is minus the score."""
    dimensions = min(LDA_DIMENSIONS, len(split.train) - 1, split.train.shape[1])
    discriminants = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    lda = make_pipeline(PCA(dimensions, random_state=split.seed), discriminants).fit(split.train, split.people)
    if split.people.max() == 1:  # the decision function has a single column for two people
        return lambda images: -lda.predict_proba(images)
    return lambda images: -lda.decision_function(images)


METHODS: dict[str, Callable[[FaceSplit, int], Distances]] = {
    "recognizer": _recognizer,
    "whitened": _whitened,
    "manhattan": partial(_nmf, "manhattan", 1.0),
    PROJECTED: _projected,
    "frobenius": partial(_nmf, "frobenius", 0.0),
    "kullback-leibler": partial(_nmf, "kullback-leibler", 0.0),
    "pca": _pca,
    "raw": lambda split, _: Nearest().fit(split.train, split.people).distances,
    "lda": _lda,
    # collaborative representation of the images as they are (Zhang, Yang, Feng 2011)
    "crc": lambda split, _: ClassResidual().fit(split.train, split.people).distances,
}


def _draw(rows: Rows) -> Any:
    """Return a figure of accuracy against rank."""
    return rank_figure(averages(rows, GROUP, ["accuracy"]), panels=("corruption", "test"), score="accuracy")
