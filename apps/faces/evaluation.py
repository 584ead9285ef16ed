"""Comparing methods of face recognition on random splits of a data set, in parallel and resumable.

====================  ==================================================================================================
"recognizer"          :class:`FaceRecognizer` with its defaults
"manhattan"           NMF with the Manhattan loss and a nuclear penalty of 1; codes are compared by their cosine, as in
                      MahNMF, Algorithm 5
"frobenius"           the same for NMF with least squares
"kullback-leibler"    the same for NMF with the Kullback-Leibler divergence
"pca"                 the nearest projection on eigenfaces (Turk and Pentland 1991)
"raw"                 the nearest training image
"lda"                 PCA to 200 dimensions, linear discriminants with shrinkage (Ledoit and Wolf)
"crc"                 collaborative representation of the images as they are (Zhang, Yang, Feng 2011)
====================  ==================================================================================================
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
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

from visionnmf import NMF
from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS, run_jobs, settings_key
from visionnmf.datasets import Faces, corrupt
from visionnmf.exceptions import ParameterError

from .classifiers import ClassResidual, Nearest
from .reading import open_faces
from .recognizer import FaceRecognizer
from .settings import FaceEvaluation, FaceReading, check_some_of, parse_corruption

__all__ = ["METHODS", "FaceComparisonReport", "FaceSplit", "compare", "evaluate", "make_split", "run_split"]

Array = NDArray[Any]
Distances = Callable[[Array], Array]  # from images (n_images, n_pixels) to distances (n_images, n_people)
Means = dict[tuple[str, str, str], tuple[float, float]]

COLUMNS = ("corruption", "split", "method", "test", "accuracy", "seconds")
LDA_DIMENSIONS = 200


@dataclass(frozen=True)
class FaceComparisonReport(Report):
    """What :func:`evaluate` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    rows : list of dict
        One for each corruption, split, method and test set, with the columns of the CSV file.
    """

    rows: list[dict[str, Any]]

    def means(self) -> Means:
        """Average the accuracies over the splits.

        Returns
        -------
        dict
            From (corruption, method, test) to mean and standard deviation in %, in the order of the rows.
        """
        groups: dict[tuple[str, str, str], list[float]] = {}
        for row in self.rows:
            groups.setdefault((row["corruption"], row["method"], row["test"]), []).append(row["accuracy"])
        return {key: (float(np.mean(values)), float(np.std(values))) for key, values in groups.items()}

    def _figures(self) -> dict[str, Any]:
        table = [
            {"corruption": corruption, "method": method, "test": test}
            | {"accuracy": round(mean, 2), "deviation": round(deviation, 2)}
            for (corruption, method, test), (mean, deviation) in self.means().items()
        ]
        return {"results": table, "files": self.outputs}

    def summary(self) -> str:
        """Return a table of accuracies with a line for each method, and the files.

        Returns
        -------
        str
        """
        means = self.means()
        columns = list(dict.fromkeys((corruption, test) for corruption, _, test in means))
        heads = [corruption + ("" if test == "clean" else ", both") for corruption, test in columns]
        widths = [max(12, len(head)) for head in heads]
        methods = list(dict.fromkeys(method for _, method, _ in means))
        left = max(map(len, methods))
        text = [" " * left + "".join(f"  {head:>{width}}" for head, width in zip(heads, widths, strict=True))]
        for method in methods:
            found = [means[corruption, method, test] for corruption, test in columns]
            cells = [f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in found]
            text.append(
                f"{method:<{left}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
            )
        return "\n".join([*text, *self._ending()])


class FaceSplit(NamedTuple):
    """Training images and test sets of one split of a data set, as rows of shares of white.

    `train` (n_train, n_pixels) are the corrupted training images of `people`, numbered from 0 without gaps. `tests`
    are the sets of test images by name: "clean", and "corrupted" if asked for. `answers` says who is on the test
    images, and `seed`, the number of the split, seeds the methods.
    """

    train: Array
    people: NDArray[np.intp]
    tests: dict[str, Array]
    answers: NDArray[np.intp]
    image_shape: tuple[int, int]
    seed: int

    def accuracy(self, distances: Array) -> float:
        """Return the share of test images, in %, whose nearest person is the right one."""
        return float(100 * (distances.argmin(axis=1) == self.answers).mean())


def make_split(faces: Faces, corruption: str, number: int, evaluation: FaceEvaluation) -> FaceSplit:
    """Split a data set at random, and corrupt its training images and, if asked for, its test images.

    The `number` of the split seeds the choice of images, whatever the corruption, and the corruption.
    """
    rng = np.random.default_rng(evaluation.random_state + number)
    train, test = [], []
    for person in np.unique(faces.labels):
        own = rng.permutation(np.flatnonzero(faces.labels == person))
        if len(own) <= evaluation.per_person:
            name = repr(faces.names[person - 1]) if 0 < person <= len(faces.names) else str(person)
            raise ParameterError(
                f"per_person must leave images to test; got {evaluation.per_person} of the {len(own)} of person {name}"
            )
        train.append(own[: evaluation.per_person])
        test.append(own[evaluation.per_person :][: evaluation.most_test])
    rows, others = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    kind, severity = parse_corruption(corruption)
    seeds = np.random.default_rng(1000 + evaluation.random_state + number).integers(2**32, size=2)
    tests = {"clean": _as_shares(faces.images[others])}
    if evaluation.both:
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


# --- methods: each learns the training images and returns a function from test images to distances from the people ----


def _recognizer(split: FaceSplit, n_components: int) -> Distances:
    recognizer = FaceRecognizer(image_shape=split.image_shape, random_state=split.seed)
    return recognizer.fit(split.train, split.people).distances


def _codes(loss: str, nuclear: float, split: FaceSplit, n_components: int) -> Distances:
    """Return cosines of the codes of an NMF, scaled as if its components had unit norm."""
    rank = min(n_components, *split.train.shape)
    model = NMF(rank, loss=loss, nuclear=nuclear, max_iter=100, tol=0, random_state=split.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        codes = model.fit_transform(split.train)
    norms = np.linalg.norm(model.components_, axis=1)
    nearest = Nearest(cosine=True).fit(codes * norms, split.people)
    return lambda images: nearest.distances(model.transform(images) * norms)


def _pca(split: FaceSplit, n_components: int) -> Distances:
    pca = PCA(min(n_components, *split.train.shape), random_state=split.seed)
    nearest = Nearest().fit(pca.fit_transform(split.train), split.people)
    return lambda images: nearest.distances(pca.transform(images))


def _raw(split: FaceSplit, n_components: int) -> Distances:
    return Nearest().fit(split.train, split.people).distances


def _lda(split: FaceSplit, n_components: int) -> Distances:
    dimensions = min(LDA_DIMENSIONS, len(split.train) - 1, split.train.shape[1])
    discriminants = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    lda = make_pipeline(PCA(dimensions, random_state=split.seed), discriminants).fit(split.train, split.people)
    if split.people.max() == 1:  # the decision function has a single column for two people
        return lambda images: -lda.predict_proba(images)
    return lambda images: -lda.decision_function(images)


def _crc(split: FaceSplit, n_components: int) -> Distances:
    return ClassResidual().fit(split.train, split.people).distances


METHODS: dict[str, Callable[[FaceSplit, int], Distances]] = {
    "recognizer": _recognizer,
    "manhattan": partial(_codes, "manhattan", 1.0),
    "frobenius": partial(_codes, "frobenius", 0.0),
    "kullback-leibler": partial(_codes, "kullback-leibler", 0.0),
    "pca": _pca,
    "raw": _raw,
    "lda": _lda,
    "crc": _crc,
}


# --- running them -----------------------------------------------------------------------------------------------------


def run_split(faces: Faces, evaluation: FaceEvaluation, corruption: str, number: int) -> list[dict[str, Any]]:
    """Return the rows of all methods on one split with one corruption."""
    split = make_split(faces, corruption, number, evaluation)
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(evaluation.methods):
        start = time.perf_counter()
        distances = METHODS[name](split, evaluation.n_components)
        found = {test: split.accuracy(distances(images)) for test, images in split.tests.items()}
        common = {"corruption": corruption, "split": number, "method": name}
        common["seconds"] = round(time.perf_counter() - start, 3)
        rows += [common | {"test": test, "accuracy": accuracy} for test, accuracy in found.items()]
    return rows


def compare(
    faces: Faces,
    evaluation: FaceEvaluation,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FaceComparisonReport:
    """Compare methods over corruptions and splits; see :func:`evaluate`."""
    check_some_of(evaluation.methods, "methods", list(METHODS))
    people = np.unique(faces.labels)
    if not people.any():
        raise ParameterError("faces must have known people; got labels 0; use a folder with one sub-folder per person")
    if len(people) < 2:
        raise ParameterError("faces must have at least two people; got 1")
    for corruption in evaluation.corruptions:
        make_split(faces, corruption, 0, evaluation)  # raises errors before the long computation
    # each corruption and split has rows of its own, so more of them continue with what is kept
    settings = {name: value for name, value in asdict(evaluation).items() if name not in ("splits", "corruptions")}
    rows = run_jobs(
        {
            f"{corruption.replace(':', '-')}-split{number}": (corruption, number)
            for corruption, number in product(evaluation.corruptions, range(evaluation.splits))
        },
        partial(run_split, faces, evaluation),
        COLUMNS,
        key=settings_key(settings, faces.images, faces.labels),
        out=out,
        processes=jobs,
        force=force,
        progress=progress,
    )
    return FaceComparisonReport(rows, outputs=[] if out is None else [str(Path(out) / RESULTS)])


def evaluate(
    source: str | Path,
    evaluation: FaceEvaluation,
    *,
    reading: FaceReading = FaceReading(),
    out: str | Path | None = None,
    jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FaceComparisonReport:
    """Compare methods of face recognition on random splits of a data set.

    Parameters
    ----------
    source : str or Path
        As for :func:`train`.
    evaluation : FaceEvaluation
        What is compared.
    reading : FaceReading
        How the images are read.
    out : str or Path, optional
        Folder for ``results.csv`` and, in ``jobs/``, the rows of each split, which an interrupted run with the same
        settings and data reuses.
    jobs : int, default=1
        Number of processes.
    force : bool, default=False
        Whether results of other settings or data may be replaced.
    progress : callable, optional
        Called as ``progress(done, total)`` after each split.

    Returns
    -------
    FaceComparisonReport

    Raises
    ------
    ParameterError
        If the settings do not fit the data.
    OutputExistsError
        If `out` holds other results, and `force` is false.

    Examples
    --------
    >>> from visionnmf.apps.faces import FaceEvaluation, evaluate
    >>> evaluation = FaceEvaluation(methods=("raw",), per_person=2, splits=1)
    >>> len(evaluate("people", evaluation).rows) > 0
    True
    """
    faces, skipped = open_faces(source, reading=reading)
    found = compare(faces, evaluation, out=out, jobs=jobs, force=force, progress=progress)
    return replace(found, inputs=[str(source)], skipped=skipped)
