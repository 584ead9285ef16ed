"""Faces end to end: a folder to a model, a photograph to a name, a folder to clusters, a data set to a comparison."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf.datasets import Faces, load_faces
from visionnmf.datasets._files import resize, to_grey8
from visionnmf.exceptions import MediaError, ParameterError
from visionnmf.io.images import read_image, write_image
from visionnmf.io.inputs import check_outputs, check_outside, output_file

from .clusters import cluster_faces, clustering_accuracy, clustering_information
from .comparison import Comparison, Corruption, Plan, compare, corruption_name, make_task
from .detect import read_face
from .draw import components_picture, curves_picture, montage_picture, residual_picture
from .methods import MODELS, fit_model
from .model import STRANGERS_LEAST, FaceRecognizer, Identity
from .pixels import missing_pixels
from .store import FaceModel, save

__all__ = [
    "Clustered",
    "Identified",
    "Trained",
    "cluster",
    "evaluate",
    "identify",
    "open_faces",
    "train",
]

MOST_SHOWN = 20  # images of a residual picture
MONTAGE = 10  # images a row


@dataclass(frozen=True)
class Trained:
    """What :func:`train` did.

    Attributes
    ----------
    model : FaceModel
    images : int
        Training images.
    files : list of str
        What was written.
    skipped : list of str
        A sentence for each picture that was left out.
    """

    model: FaceModel
    images: int
    files: list[str]
    skipped: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON report has.

        Returns
        -------
        dict
            Only what JSON knows.
        """
        recognizer = self.model.recognizer
        rejected = recognizer.false_rejection_rate_
        return {
            "people": recognizer.classes_.tolist(),
            "images": self.images,
            "corrupted": round(float(recognizer.corrupted_.mean()), 4),
            "threshold": round(recognizer.threshold_, 4),
            "false_rejection_rate": None if math.isnan(rejected) else round(rejected, 4),
            "files": self.files,
            "skipped": self.skipped,
        }

    def summary(self) -> str:
        """Say what was learnt.

        Returns
        -------
        str
            A few lines.
        """
        recognizer = self.model.recognizer
        height, width = recognizer.image_shape or (0, 0)
        people, rejected = len(recognizer.classes_), recognizer.false_rejection_rate_
        threshold = f"threshold {recognizer.threshold_:.3f}: {recognizer.unknown_rate:.1%} of strangers pass, "
        if people < STRANGERS_LEAST:
            threshold = f"no threshold: strangers can be told from {STRANGERS_LEAST} people or more, and all pass here"
        elif math.isnan(rejected):
            threshold += "how many of the known are rejected is not known (somebody has one image)"
        else:
            threshold += f"{rejected:.1%} of the known are rejected (cross-validated, corruption and all)"
        lines = [
            f"{people} {'people' if people > 1 else 'person'}, {self.images} images of {width} x {height}; "
            f"{recognizer.corrupted_.mean():.1%} of the pixels judged corrupted",
            threshold,
        ]
        return "\n".join(lines + [f"wrote {name}" for name in self.files] + [f"left out: {s}" for s in self.skipped])


@dataclass(frozen=True)
class Identified:
    """Who is on one image.

    Attributes
    ----------
    source : str
    identity : Identity
    files : list of str
        What was written.
    """

    source: str
    identity: Identity
    files: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON report has.

        Returns
        -------
        dict
            Only what JSON knows.
        """
        found = self.identity
        return {
            "input": self.source,
            "person": found.person,
            "nearest": found.nearest,
            "distance": round(found.distance, 4),
            "threshold": round(found.threshold, 4),
            "corrupted": round(found.corrupted, 4),
            "files": self.files,
        }

    def summary(self) -> str:
        """Say who it is.

        Returns
        -------
        str
            One line.
        """
        found = self.identity
        who = found.person if found.person is not None else f"nobody known (nearest: {found.nearest})"
        return (
            f"{self.source}: {who}, distance {found.distance:.3f} (threshold {found.threshold:.3f}), "
            f"{found.corrupted:.1%} of the pixels judged corrupted"
        )


@dataclass(frozen=True)
class Clustered:
    """What :func:`cluster` found.

    Attributes
    ----------
    files : tuple of str
        The images.
    clusters : ndarray of int
        The group of each, from 0.
    accuracy, information : float or None
        Hungarian accuracy and normalised mutual information, where the people are known.
    written : list of str
        Files.
    skipped : list of str
        A sentence for each picture that was left out.
    """

    files: tuple[str, ...]
    clusters: NDArray[np.intp]
    accuracy: float | None
    information: float | None
    written: list[str]
    skipped: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON report has.

        Returns
        -------
        dict
            Only what JSON knows.
        """
        groups = [{"file": name, "cluster": int(c)} for name, c in zip(self.files, self.clusters, strict=True)]
        found = {"clusters": groups, "accuracy": self.accuracy, "information": self.information}
        return found | {"files": self.written, "skipped": self.skipped}

    def summary(self) -> str:
        """Say what was found.

        Returns
        -------
        str
            A few lines.
        """
        sizes = np.unique(self.clusters, return_counts=True)[1]
        lines = [f"{len(self.clusters)} images in {len(sizes)} cluster{'s' * (len(sizes) > 1)} of {_range(sizes)}"]
        if self.accuracy is not None:
            lines.append(f"against the people: accuracy {self.accuracy:.1%}, mutual information {self.information:.3f}")
        return "\n".join(lines + [f"wrote {name}" for name in self.written] + [f"left out: {s}" for s in self.skipped])


def open_faces(source: str | Path, *, size: int | None = None, detect: bool = False) -> tuple[Faces, list[str]]:
    """Read faces, whatever they lie in.

    Parameters
    ----------
    source : str or Path
        A folder with a sub-folder a person, a ``.npz`` or ``.mat`` file, or the name of a data set to fetch: ``orl``,
        ``yale`` or ``yaleb``.
    size : int or None, default=None
        Side that images are scaled to; None keeps their size (64 with `detect`).
    detect : bool, default=False
        Find the face on each photograph of a folder, and cut it out.

    Returns
    -------
    faces : Faces
    skipped : list of str
        A sentence for each picture that was left out.

    Raises
    ------
    ParameterError
        When faces are to be found where there are no photographs.
    MediaError
        When the images cannot be read, or fetched.
    """
    from visionnmf import datasets

    fetchers = {"orl": datasets.fetch_orl, "yale": datasets.fetch_yale, "yaleb": datasets.fetch_yaleb}
    name = str(source)
    if detect and not Path(source).is_dir():
        raise ParameterError(f"{source}: --detect looks for faces on the photographs of a folder; leave it out here")
    if name.lower() in fetchers and not Path(source).exists():
        faces = fetchers[name.lower()]()
        if size:
            faces = replace(faces, images=np.stack([resize(image, (size, size)) for image in faces.images]))
        return faces, []
    side = size or (choices.FACE_SIZE if detect else None)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        faces = load_faces(source, size=(side, side) if side else None, read=read_face if detect else None)
    told = [str(note.message).removeprefix("left out: ") for note in notes if note.category is UserWarning]
    return faces, told


def train(
    source: str | Path,
    model: str | Path,
    *,
    n_components: int = choices.FACE_COMPONENTS,
    rule: str = "residual",
    missing: str = "blocks",
    size: int | None = None,
    detect: bool = False,
    unknown_rate: float = 0.05,
    pictures: str | Path | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
) -> Trained:
    """Learn people from images, and write a model.

    Parameters
    ----------
    source : str or Path
        See :func:`open_faces`.
    model : str or Path
        The file to write.
    n_components : int, default=100
        See :class:`FaceRecognizer`.
    rule : str, default="residual"
        See :class:`FaceRecognizer`.
    missing : str, default="blocks"
        See :class:`FaceRecognizer`.
    size : int or None, default=None
        See :func:`open_faces`.
    detect : bool, default=False
        See :func:`open_faces`.
    unknown_rate : float, default=0.05
        See :class:`FaceRecognizer`.
    pictures : str or Path, optional
        Folder for ``components.png`` and ``corrupted.png``.
    random_state : int, default=0
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Trained

    Raises
    ------
    ParameterError
        When the people are not known, or pictures would be written among the faces.
    MediaError
        When the images cannot be read, or a file not be written.
    """
    files = [Path(model)]
    if pictures is not None:
        check_outside(pictures, source)
        files += [Path(pictures) / name for name in ("components.png", "corrupted.png")]
    check_outputs(files, force)
    if not files[0].parent.is_dir():  # before the work
        raise MediaError(f"{model}: there is no folder {files[0].parent}; create it first")
    faces, skipped = open_faces(source, size=size, detect=detect)
    if not faces.labels.all():
        raise ParameterError(f"{source}: the people are not known; make one sub-folder a person")
    shape = (faces.images.shape[1], faces.images.shape[2])
    names = np.array(faces.names)[faces.labels - 1] if faces.names else faces.labels.astype(str)
    recognizer = FaceRecognizer(
        n_components=n_components,
        rule=rule,
        missing=missing,
        image_shape=shape,
        unknown_rate=unknown_rate,
        random_state=random_state,
    ).fit(_rows(faces.images), names)
    trained = FaceModel(recognizer, detect)
    if pictures is not None:
        write_image(files[1], components_picture(recognizer.components_, shape), force=force)
        shown = np.linspace(0, len(names) - 1, min(MOST_SHOWN, len(names))).astype(int)
        panels = (_rows(faces.images), recognizer.pictures_, recognizer.cleaned_, recognizer.corrupted_)
        images, drawn, cleaned, corrupted = (panel[shown] for panel in panels)
        sheet = residual_picture(images, drawn, cleaned, corrupted, shape, white=recognizer.white_)
        write_image(files[2], sheet, force=force)
    save(trained, model, force=force)
    return Trained(trained, len(names), [str(path) for path in files], skipped)


def identify(
    model: FaceModel, source: str | Path, *, pictures: str | Path | None = None, force: bool = False
) -> Identified:
    """Name the person on an image.

    Parameters
    ----------
    model : FaceModel
    source : str or Path
        An image; scaled to the size of the training images, and its face cut out first if theirs were.
    pictures : str or Path, optional
        Folder for ``NAME_corrupted.png``: the image, what was judged corrupted, the image cleaned, the model's picture.
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Identified

    Raises
    ------
    MediaError
        When the image cannot be read, has no face, or a file cannot be written.
    """
    recognizer = model.recognizer
    shape = recognizer.image_shape
    assert shape is not None
    image = read_face(source) if model.detect else read_image(source)
    row = _rows(resize(to_grey8(image), shape)[None])
    (identity,) = recognizer.identify(row)
    files = []
    if pictures is not None:
        path = Path(pictures) / f"{Path(str(source).removeprefix('sample:')).stem}_corrupted.png"
        look = recognizer.explain(row)
        sheet = residual_picture(row, look.pictures, look.cleaned, look.corrupted, shape, white=recognizer.white_)
        write_image(path, sheet, force=force)
        files.append(str(path))
    return Identified(str(source), identity, files)


def cluster(
    source: str | Path,
    *,
    clusters: int | None = None,
    by: str = "k-means",
    missing: str = "blocks",
    size: int | None = None,
    detect: bool = False,
    out: str | Path | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
) -> Clustered:
    """Group images by person, without names.

    Parameters
    ----------
    source : str or Path
        See :func:`open_faces`; may be a folder of images, without sub-folders.
    clusters : int or None, default=None
        Groups; None takes the number of people, where they are known.
    by : {"k-means", "largest"}, default="k-means"
        See :func:`cluster_faces`.
    missing : str, default="blocks"
        See :class:`FaceRecognizer`.
    size : int or None, default=None
        See :func:`open_faces`.
    detect : bool, default=False
        See :func:`open_faces`.
    out : str or Path, optional
        Folder for ``clusters.csv``.
    random_state : int, default=0
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Clustered

    Raises
    ------
    ParameterError
        When the number of clusters is neither given nor known.
    """
    import csv

    path = None if out is None else Path(out) / "clusters.csv"
    if path is not None:
        check_outputs([path], force)
    faces, skipped = open_faces(source, size=size, detect=detect)
    known = bool(faces.labels.all())
    if clusters is None and not known:
        raise ParameterError("--clusters must be given where the people are not known")
    wanted = len(np.unique(faces.labels)) if clusters is None else clusters
    mask = missing_pixels(faces.images, missing, 255, int(faces.images.max())).reshape(len(faces.images), -1)
    found = cluster_faces(_rows(faces.images), wanted, by=by, mask=mask, random_state=random_state)
    names = faces.files or tuple(str(number) for number in range(len(found)))
    if path is not None:
        with output_file(path, force=force) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("file", "cluster"), *zip(names, found.tolist(), strict=True)])
    accuracy = clustering_accuracy(faces.labels, found) if known else None
    information = clustering_information(faces.labels, found) if known else None
    return Clustered(names, found, accuracy, information, [] if path is None else [str(path)], skipped)


def evaluate(
    source: str | Path,
    plan: Plan,
    *,
    size: int | None = None,
    detect: bool = False,
    out: str | Path | None = None,
    jobs: int = 1,
    plots: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare methods on a data set; see :func:`compare`.

    Parameters
    ----------
    source : str or Path
        See :func:`open_faces`.
    plan : Plan
    size : int or None, default=None
        See :func:`open_faces`.
    detect : bool, default=False
        See :func:`open_faces`.
    out : str or Path, optional
        Folder for ``results.csv``, the pictures, and what an interrupted run needs to go on.
    jobs : int, default=1
        Processes.
    plots : bool, default=False
        Whether to draw ``accuracy.png``, accuracy against rank, and for each corruption the ``components`` and
        ``reconstructions`` of the models with the largest rank, on the first split; needs matplotlib and `out`.
    force : bool, default=False
        Whether results of another plan or data set may be replaced.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    Comparison

    Raises
    ------
    ParameterError
        When the plan does not fit the data, plots would be written among the faces, or matplotlib is missing.
    OutputExistsError
        When `out` holds other results, and `force` is false.
    """
    from importlib.util import find_spec

    if plots and out is None:
        raise ParameterError("plots need a folder to be written to; give out")
    if plots and out is not None:
        check_outside(out, source)
    if plots and find_spec("matplotlib") is None:  # before hours of work
        raise ParameterError("plots need matplotlib; install it with: pip install 'visionnmf[plots]'")
    faces, skipped = open_faces(source, size=size, detect=detect)
    found = compare(faces, plan, out=out, jobs=jobs, force=force, progress=progress)
    found.skipped.extend(skipped)
    if plots and out is not None:
        path = Path(out) / "accuracy.png"
        curves_picture(found, path, force=True)
        found.files.append(str(path))
        for corruption in plan.corruptions:
            found.files.extend(_draw_models(faces, corruption, plan, Path(out)))
    return found


def _draw_models(faces: Faces, corruption: Corruption, plan: Plan, out: Path) -> list[str]:
    """Draw components of the plan's models, and their pictures of training images."""
    methods = [method for method in plan.methods if method in MODELS]
    if not methods:
        return []
    task = make_task(faces, corruption, 0, plan)
    rank = min(max(plan.ranks), *task.train.shape)
    shown = np.linspace(0, len(task.train) - 1, min(MONTAGE, len(task.train))).astype(int)
    components, pictures = {}, {"clean": task.clean[shown], "as trained on": task.train[shown]}
    for method in methods:
        model, codes = fit_model(method, task, rank, 0, plan.iterations)
        pictures[method] = model.inverse_transform(codes[shown])
        rows = model.components_[np.argsort(-model.components_.std(axis=1), kind="stable")[:MONTAGE]]
        low = np.minimum(rows.min(axis=1, keepdims=True), 0)  # eigenfaces are negative in part
        peaks = (rows - low).max(axis=1, keepdims=True)
        components[method] = (rows - low) / np.where(peaks > 0, peaks, 1)
    kind = corruption_name(corruption)
    paths = [out / f"{name}-{kind}.png" for name in ("components", "reconstructions")]
    for path, sheet in zip(paths, (components, pictures), strict=True):
        title = f"{path.stem.replace('-', ', ', 1)}, rank {rank}"
        montage_picture(sheet, task.image_shape, path, title=title, force=True)
    return [str(path) for path in paths]


def _range(sizes: NDArray[np.intp]) -> str:
    return str(sizes.min()) if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"


def _rows(images: NDArray[Any]) -> NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32)
