"""Comparing methods of face recognition on random splits of a data set, in parallel and resumable.

====================  ==================================================================================================
"recognizer"          :class:`FaceRecognizer` with its defaults
"occluded"            the same with its rule for occluded faces; several times slower
"manhattan"           NMF with the Manhattan loss and a nuclear penalty of 1; codes are compared by their cosine, as in
                      MahNMF, Algorithm 5
"frobenius"           the same for NMF with least squares
"kullback-leibler"    the same for NMF with the Kullback-Leibler divergence
"pca"                 the nearest projection on eigenfaces (Turk and Pentland 1991)
"raw"                 the nearest training image
"lda"                 PCA to 200 dimensions, linear discriminants with shrinkage (Ledoit and Wolf)
"crc"                 collaborative representation of the images as they are (Zhang, Yang, Feng 2011)
====================  ==================================================================================================

The factorisations "manhattan", "frobenius", "kullback-leibler" and "pca" are compared at several ranks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
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

from visionnmf import NMF, choices
from visionnmf._checks import check_matplotlib
from visionnmf._progress import Steps
from visionnmf.apps.report import Report
from visionnmf.apps.runner import RESULTS, run_jobs, settings_key
from visionnmf.apps.settings import check_record
from visionnmf.datasets import Faces, corrupt
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outside

from .classifiers import ClassResidual, Nearest
from .figures import draw_curves, draw_rows
from .reading import open_faces
from .recognizer import FaceRecognizer
from .settings import FaceEvaluation, FaceReading, parse_corruption

Array = NDArray[Any]
Means = dict[tuple[str, str, int | None, str], tuple[float, float]]

COLUMNS = ("corruption", "split", "method", "rank", "test", "accuracy", "seconds")
GROUP = ("corruption", "method", "rank", "test")  # columns whose splits are averaged
RANKED = ("manhattan", "frobenius", "kullback-leibler", "pca")
CURVES = "accuracy.png"
MOST_SHOWN = 10  # images in a row of a figure
LDA_DIMENSIONS = 200


@dataclass(frozen=True)
class FaceComparisonReport(Report):
    """What :func:`evaluate` found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    `rows` has a row for each corruption, split, method, rank and test set, with the columns of the CSV file.
    """

    rows: list[dict[str, Any]]

    def means(self) -> Means:
        """Average the accuracies over the splits.

        Returns
        -------
        dict
            From (corruption, method, rank, test) to mean and standard deviation in %, in the order of the rows.
        """
        groups: dict[Any, list[float]] = {}  # the accuracies of the splits, by (corruption, method, rank, test)
        for row in self.rows:
            groups.setdefault(tuple(row[name] for name in GROUP), []).append(row["accuracy"])
        return {key: (float(np.mean(values)), float(np.std(values))) for key, values in groups.items()}

    def _figures(self) -> dict[str, Any]:
        """Return the means and standard deviations over the splits, in %, and the files for JSON."""
        table = [
            dict(zip(GROUP, key, strict=True)) | {"accuracy": round(mean, 2), "deviation": round(deviation, 2)}
            for key, (mean, deviation) in self.means().items()
        ]
        return {"results": table, "files": self.outputs}

    def summary(self) -> str:
        """Return a table of accuracies with a line for each method and rank, and the files."""
        means = self.means()
        # A column for each corruption and test set, a line for each method and rank (None if it has no rank).
        columns = list(dict.fromkeys((corruption, test) for corruption, _, _, test in means))
        heads = [corruption + ("" if test == "clean" else ", both") for corruption, test in columns]
        widths = [max(12, len(head)) for head in heads]
        lines = {
            (method, rank): method if rank is None else f"{method} {rank}" for _, method, rank, _ in means
        }  # their names
        left = max(map(len, lines.values()))
        text = [" " * left + "".join(f"  {head:>{width}}" for head, width in zip(heads, widths, strict=True))]
        splits = len({row["split"] for row in self.rows})
        for line, name in lines.items():
            found = [means[corruption, *line, test] for corruption, test in columns]
            # One split has no deviation.
            cells = [f"{mean:.1f} ± {dev:.1f}" if splits > 1 else f"{mean:.1f}" for mean, dev in found]
            text.append(f"{name:<{left}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(cells, widths, strict=True)))
        return "\n".join([*text, *self._notes_and_outputs()])


class FaceSplit(NamedTuple):
    """Training images and test sets of one split of a data set, as rows of shares of white.

    `people` are numbered from 0 without gaps. `tests` are "clean" and, if asked for, "corrupted" images, and `answers`
    says who is on them; `seed`, the number of the split, seeds the methods.
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
    """Split a data set at random by its `number`, corrupt the training images and, if asked for, the tests.

    `corruption` is KIND or KIND:SEVERITY, such as "laplace:30".
    """
    rng = np.random.default_rng(evaluation.random_state + number)
    train, test = [], []
    for person in np.unique(faces.labels):
        own = rng.permutation(np.flatnonzero(faces.labels == person))
        if len(own) < 2:
            # labels are positions among the names, if there are any, from 1, or 0 where the person is not known
            name = repr(str(faces.names[person - 1])) if 0 < person <= len(faces.names) else str(person)
            raise ParameterError(f"faces must have two images or more of each person; got one of person {name}")
        count = min(evaluation.per_person, len(own) - 1)
        train.append(own[:count])
        test.append(own[count:][: evaluation.most_test])
    rows, others = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    kind, severity = parse_corruption(corruption)
    # Two seeds, for the corruption of the training and of the test images; independent of the generator above.
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


# --- methods ----------------------------------------------------------------------------------------------------------


class Learnt(NamedTuple):
    """What a method has learnt: a function of distances (n_images, n_people), a factorisation and its codes."""

    distances: Callable[[Array], Array]
    model: Any = None
    codes: Array | None = None


def _recognizer(rule: str, split: FaceSplit, rank: int) -> Learnt:
    """Learn by :class:`FaceRecognizer` with this rule and its other defaults; `rank` is not used.

    The result holds the function that returns the distances of images to people, (n_images, n_people).
    """
    # Without `calibrate` no threshold of unknown people is set, because all people of the tests are known.
    recognizer = FaceRecognizer(rule=rule, image_shape=split.image_shape, calibrate=False, random_state=split.seed)
    return Learnt(recognizer.fit(split.train, split.people).distances)


def _nmf(loss: str, nuclear: float, split: FaceSplit, rank: int) -> Learnt:
    """Compare the codes of an NMF, scaled as if its components had unit norm, by their cosine.

    `nuclear` is the weight of the nuclear penalty. All losses get 100 iterations (`tol` is 0), converged or not.
    """
    model = NMF(rank, loss=loss, nuclear=nuclear, max_iter=100, tol=0, random_state=split.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        codes = model.fit_transform(split.train)
    norms = np.linalg.norm(model.components_, axis=1)
    nearest = Nearest(cosine=True).fit(codes * norms, split.people)
    return Learnt(lambda images: nearest.distances(model.transform(images) * norms), model, codes)


def _pca(split: FaceSplit, rank: int) -> Learnt:
    """Compare the projections on `rank` eigenfaces by their Euclidean distance."""
    pca = PCA(rank, random_state=split.seed)
    codes = pca.fit_transform(split.train)
    nearest = Nearest().fit(codes, split.people)
    return Learnt(lambda images: nearest.distances(pca.transform(images)), pca, codes)


def _raw(split: FaceSplit, rank: int) -> Learnt:
    """Compare the images as they are by their Euclidean distance; `rank` is not used."""
    return Learnt(Nearest().fit(split.train, split.people).distances)


def _lda(split: FaceSplit, rank: int) -> Learnt:
    """Use linear discriminants after PCA; a person's distance is minus the score. `rank` is not used.

    PCA keeps at most 200 dimensions, and no more than there are training images, less one for their mean.
    """
    dimensions = min(LDA_DIMENSIONS, len(split.train) - 1, split.train.shape[1])
    discriminants = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    lda = make_pipeline(PCA(dimensions, random_state=split.seed), discriminants).fit(split.train, split.people)
    if split.people.max() == 1:  # the decision function has a single column for two people
        return Learnt(lambda images: -lda.predict_proba(images))
    return Learnt(lambda images: -lda.decision_function(images))


def _crc(split: FaceSplit, rank: int) -> Learnt:
    """Use collaborative representation of the images as they are; `rank` is not used."""
    return Learnt(ClassResidual().fit(split.train, split.people).distances)


METHODS: dict[str, Callable[[FaceSplit, int], Learnt]] = {
    "recognizer": partial(_recognizer, choices.FACE_RULE_DEFAULT),
    "occluded": partial(_recognizer, "occluded"),
    "manhattan": partial(_nmf, "manhattan", 1.0),
    "frobenius": partial(_nmf, "frobenius", 0.0),
    "kullback-leibler": partial(_nmf, "kullback-leibler", 0.0),
    "pca": _pca,
    "raw": _raw,
    "lda": _lda,
    "crc": _crc,
}


# --- running them -----------------------------------------------------------------------------------------------------


def run_split(faces: Faces, evaluation: FaceEvaluation, corruption: str, number: int) -> list[dict[str, Any]]:
    """Return the rows of all methods on one split with one corruption, for each method, rank and test set."""
    split = make_split(faces, corruption, number, evaluation)
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(evaluation.methods):
        # No rank is larger than the number of training images or pixels; ranks that become equal count once.
        ranks = dict.fromkeys(min(rank, *split.train.shape) for rank in evaluation.ranks)
        for rank in ranks if name in RANKED else (None,):
            start = time.perf_counter()
            distances = METHODS[name](split, rank or 0).distances  # methods without a rank ignore the 0
            found = {test: split.accuracy(distances(images)) for test, images in split.tests.items()}
            common = {"corruption": corruption, "split": number, "method": name, "rank": rank}
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
    progress: Steps | None = None,
    also: Sequence[str] = (),
) -> FaceComparisonReport:
    """Compare methods over corruptions and splits, in `jobs` processes; the table goes into the folder `out`.

    Rows of an interrupted run with the same settings and images are used again. `also` names further files that the
    caller will write in `out`: without `force`, they must not exist if nothing of an earlier run does.
    """
    people, counts = np.unique(faces.labels, return_counts=True)
    if len(people) < 2:
        raise ParameterError("faces must have at least two people; got 1")
    for corruption in evaluation.corruptions:
        make_split(faces, corruption, 0, evaluation)  # raises errors before the long computation
    # each corruption and split has rows of its own, so more of them continue with what is kept
    settings = {name: value for name, value in asdict(evaluation).items() if name not in ("splits", "corruptions")}
    rows = run_jobs(
        {
            f"{_file_name(corruption)}-split{number}": (corruption, number)
            for corruption, number in product(evaluation.corruptions, range(evaluation.splits))
        },
        partial(run_split, faces, evaluation),
        COLUMNS,
        key=settings_key(settings, faces.images, faces.labels),
        out=out,
        processes=jobs,
        force=force,
        progress=progress,
        also=also,
    )
    few = int((counts <= evaluation.per_person).sum())
    notes = []
    if few:
        notes.append(
            f"{few} of {len(people)} people have no more than {evaluation.per_person} images: all but one of each such "
            "person's images are for training"
        )
    return FaceComparisonReport(rows, outputs=[] if out is None else [str(Path(out) / RESULTS)], notes=notes)


def evaluate(
    source: str | Path,
    evaluation: FaceEvaluation,
    *,
    reading: FaceReading = FaceReading(),
    out: str | Path | None = None,
    jobs: int = 1,
    plots: bool = False,
    force: bool = False,
    progress: Steps | None = None,
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
    plots : bool, default=False
        Whether to draw ``accuracy.png``, accuracy against rank, and for each corruption the ``components`` and
        ``reconstructions`` of the factorisations with the largest rank, on the first split. It needs matplotlib and
        `out`.
    force : bool, default=False
        Whether results of other settings or data, and pictures of a folder without results, may be replaced.
    progress : callable, optional
        Called as ``progress(done, total)`` after each split.

    Returns
    -------
    FaceComparisonReport

    Raises
    ------
    ParameterError
        If the settings do not fit the data, plots would be written among the faces, or matplotlib is missing.
    OutputExistsError
        If `out` holds other results, or pictures of these names without results, and `force` is false.

    Examples
    --------
    >>> from visionnmf.apps.faces import FaceEvaluation, evaluate
    >>> evaluation = FaceEvaluation(methods=("raw",), per_person=2, splits=1)
    >>> len(evaluate("people", evaluation).rows) > 0
    True
    """
    check_record(evaluation, FaceEvaluation, "evaluation")
    if plots:
        check_matplotlib()
        if out is None:
            raise ParameterError("out must be given with plots; got None")
        check_outside(out, source)
    faces, skipped = open_faces(source, reading=reading, named=True)  # an error if it is not known who they are
    # the names of the pictures: curves, and two sheets for each corruption
    pictures = [CURVES, *sum(map(_sheets, evaluation.corruptions), ())] if plots else []
    found = compare(faces, evaluation, out=out, jobs=jobs, force=force, progress=progress, also=pictures)
    if plots and out is not None:
        draw_curves(found.means(), Path(out) / CURVES)
        for corruption in evaluation.corruptions:
            _draw_models(faces, evaluation, corruption, Path(out))
        # without factorisations there are no sheets
        pictures = [str(Path(out) / name) for name in pictures if (Path(out) / name).exists()]
    return replace(found, inputs=[str(source)], outputs=[*found.outputs, *pictures], skipped=skipped)


def _file_name(corruption: str) -> str:
    """Return a corruption as part of a file name."""
    return corruption.replace(":", "-")


def _sheets(corruption: str) -> tuple[str, str]:
    """Return the file names of the components and reconstructions for a corruption."""
    return f"components-{_file_name(corruption)}.png", f"reconstructions-{_file_name(corruption)}.png"


def _draw_models(faces: Faces, evaluation: FaceEvaluation, corruption: str, out: Path) -> None:
    """Draw components of the factorisations with the largest rank, and their reconstructions of training images."""
    # The same split twice, corrupted and as it is, to show one above the other.
    split, clean = (make_split(faces, kind, 0, evaluation) for kind in (corruption, "none"))
    shown = np.linspace(0, len(split.train) - 1, min(MOST_SHOWN, len(split.train))).astype(int)
    rank = min(max(evaluation.ranks), *split.train.shape)
    components, reconstructions = {}, {"clean": clean.train[shown], "as trained on": split.train[shown]}
    for name in RANKED:
        if name in evaluation.methods:
            _, model, codes = METHODS[name](split, rank)  # without the function of distances, which is not needed
            assert codes is not None
            H = model.components_
            rows = H[np.argsort(-H.std(axis=1), kind="stable")[:MOST_SHOWN]]  # those that vary most
            low = np.minimum(rows.min(axis=1, keepdims=True), 0)  # eigenfaces are partly negative
            peaks = (rows - low).max(axis=1, keepdims=True)
            components[name] = (rows - low) / np.where(peaks > 0, peaks, 1)
            reconstructions[name] = model.inverse_transform(codes[shown])
    if components:
        for sheet, name in zip((components, reconstructions), _sheets(corruption), strict=True):
            draw_rows(sheet, split.image_shape, out / name)
