"""Model files of faces: learning people from images, and adding a person."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import shown
from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps.drawing import components_picture, new_figure
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.datasets import Faces
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError
from visionnmf.io import check_outputs, check_outside, check_parents, output_folder, together, write_image
from visionnmf.io.inputs import check_is_path

from .distances import CONFIDENCE, UNKNOWN_LEAST
from .figures import residual_picture
from .images import SHOWS_NOTHING, empty_images
from .reading import as_rows, open_faces
from .recognizer import FEW, FaceRecognizer
from .settings import FaceReading, FaceTraining
from .store import FaceModel, loaded, save

MOST_SHOWN = 20  # images of a residual picture
USELESS = 0.5  # share of known people who are rejected


def _figures(recognizer: FaceRecognizer, images: int) -> dict[str, Any]:
    """Return the figures of the report of `train`."""
    return {
        "people": recognizer.classes_.tolist(),
        "images": images,
        # of the training images, and, as for new images, of images that were left out
        "corrupted": recognizer.corrupted_.mean(),
        "corrupted_rate": recognizer.corrupted_rate_,
        # how missing pixels are searched for, and how probable the right people are on left-out images by each
        "missing": recognizer.missing_,
        "missing_scores": recognizer.missing_scores_,
        "threshold": recognizer.threshold_,
        "false_acceptance_rate": recognizer.false_acceptance_rate_,
        "false_acceptance_interval": recognizer.rate_intervals_[0],
        "false_rejection_rate": recognizer.false_rejection_rate_,
        "false_rejection_interval": recognizer.rate_intervals_[1],
    }


def _lines(recognizer: FaceRecognizer, images: int) -> list[str]:
    """Return how many people were learned, which pixels count as missing, and the error rates of the threshold."""
    height, width = recognizer.image_shape or (0, 0)
    people = len(recognizer.classes_)
    left_out = recognizer.corrupted_rate_  # share of corrupted pixels on images that were left out, or NaN
    lines = [
        f"{counted(people, 'person', 'people')}, {counted(images, 'image')} of {width} x {height}; "
        f"{recognizer.corrupted_.mean():.1%} of the pixels judged corrupted"
        + ("" if math.isnan(left_out) else f", {left_out:.1%} on images that were left out")
    ]
    if recognizer.missing_scores_:
        scores = recognizer.missing_scores_
        told = ", ".join(f"{choice} {score:.1%}" for choice, score in scores.items())
        equal = f"no difference, {recognizer.missing_} taken" if len(set(scores.values())) == 1 else recognizer.missing_
        lines.append(f"missing pixels: {equal}; probability of the right person on left-out images: {told}")
    return [*lines, _threshold_sentence(recognizer)]


def _threshold_sentence(recognizer: FaceRecognizer) -> str:
    """Describe the threshold and its error rates, with confidence intervals, in a sentence."""
    people, rate = len(recognizer.classes_), recognizer.unknown_rate
    passed, rejected = recognizer.false_acceptance_rate_, recognizer.false_rejection_rate_
    # Only the upper end is given of the share of known people: parts of the images recognise them less well than all. A
    # side of an interval is wrong half as often as both.
    (least, most), (_, rejected_most) = recognizer.rate_intervals_
    if recognizer.threshold_ == 0:  # the value if nothing could be judged: no distance is that small
        return (
            "no threshold: these images do not show how unknown people differ, so identify will name nobody; train "
            "more people"
        )
    threshold = f"threshold {recognizer.threshold_:.3f}"
    if people < UNKNOWN_LEAST:  # nobody can play unknown, so the threshold is the quantile 1 - rate of known people's
        return (
            f"{threshold}, passed by {1 - rate:.0%} of the known; two people do not show how many unknown people pass"
        )
    known = "the share of known people who are rejected is not known"
    if not math.isnan(rejected):
        surer = (1 + CONFIDENCE) / 2
        known = f"{rejected:.1%} of known people are rejected ({surer:.0%} confidence: up to {rejected_most:.0%})"
    return (
        f"{threshold}: estimated for new pictures like the training pictures, {passed:.1%} of unknown people pass "
        f"({CONFIDENCE:.0%} confidence: {least:.1%} to {most:.0%}), {known}; pictures taken one after another are too "
        "much alike to show this, so twice as many known people or more may be rejected on other pictures, above all "
        "of another day, pose or light. More people make it surer"
    )


@takes_records
def train(
    source: str | Path,
    model: str | Path,
    *,
    training: FaceTraining = FaceTraining(),
    reading: FaceReading = FaceReading(),
    pictures: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Learn people from images, and write a model.

    Parameters
    ----------
    source : str or Path
        A folder with one sub-folder per person, a ``.npz`` or ``.mat`` file, or the name of a data set to fetch:
        ``orl``, ``yale`` or ``yaleb``.
    model : str or Path
        The file to write.
    training : FaceTraining
        How people are learned.
    reading : FaceReading
        How the images are read.
    pictures : str or Path, optional
        Folder for ``components.png`` and ``corrupted.png``.
    force : bool, default=False
        Whether existing files may be replaced.
    progress : callable, optional
        Called as ``progress(stage, done, total)``; see :meth:`FaceRecognizer.fit`.

    Returns
    -------
    Report
        With the ``model``; its figures are ``people``, ``images``, ``threshold``, its error rates and their intervals,
        and the shares of pixels that were judged corrupted. A UserWarning says that two people share an image, or that
        the model rejects most of the people whom it knows.

    Raises
    ------
    ParameterError
        If the people are not known, or pictures would be written among the faces.
    MediaError
        If the images cannot be read, or a file cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.faces import FaceTraining, train
    >>> training = FaceTraining(n_components=6, missing="none")
    >>> train("people", "people.npz", training=training, force=True).outputs
    ['people.npz']
    """
    check_is_path(source, "source")
    check_is_path(model, "model")
    files = [Path(model)]
    if pictures is not None:
        check_outside(pictures, source)
        files += [Path(pictures) / name for name in ("components.png", "corrupted.png")]
    check_outputs(files, force, inputs=[source])
    check_parents([model])
    if pictures is not None:
        output_folder(pictures)
    faces, skipped = _without_empty(*open_faces(source, reading=reading, named=True))  # an error without names
    shape = (faces.images.shape[1], faces.images.shape[2])
    # Labels are positions among the names, from 1; if there are no names, the labels become names.
    names = np.array(faces.names)[faces.labels - 1] if faces.names else faces.labels.astype(str)
    recognizer = FaceRecognizer(image_shape=shape, **asdict(training))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", FEW)  # the summary speaks of few people
        recognizer.fit(as_rows(faces.images), names, progress=progress, names=faces.files)
    if (rejected := recognizer.false_rejection_rate_) > USELESS:
        sentence = f"it would reject {rejected:.0%} of new images of its own people; check who is on the images"
        warnings.warn(f"this model is of no use: {sentence}", UserWarning, stacklevel=3)
    trained = FaceModel(recognizer, reading.detect)
    shown = np.linspace(0, len(names) - 1, min(MOST_SHOWN, len(names))).astype(int)
    panels = (as_rows(faces.images), recognizer.reconstructions_, recognizer.cleaned_, recognizer.corrupted_)
    images, drawn, cleaned, corrupted = (panel[shown] for panel in panels)
    sheet = partial(residual_picture, images, drawn, cleaned, corrupted, shape, white=recognizer.white_)
    drawings: dict[str, Callable[[], Any]] = {
        "components": partial(components_picture, recognizer.components_, shape),
        "as read; corrupted pixels; cleaned; reconstructed": sheet,
    }
    with together():  # all files get their names together, or none
        for file, draw in zip(files[1:], drawings.values(), strict=False):  # none without a folder for pictures
            write_image(file, draw(), force=force)
        save(trained, model, force=force)
    outputs = [str(path) for path in files]
    return Report(
        figures=_figures(recognizer, len(names)),
        lines=_lines(recognizer, len(names)),
        model=trained,
        inputs=[str(source)],
        outputs=outputs,
        skipped=skipped,
        shown={"sheets": _people(faces, names), "drawings": drawings | _curves(recognizer)},
    )


def _people(faces: Faces, names: NDArray[Any]) -> dict[str, list[tuple[Any, str]]]:
    """Return a contact sheet with the first image of each person, and the name."""
    firsts = [(faces.images[first], str(names[first])) for first in np.unique(names, return_index=True)[1]]
    return {"An image of each person": firsts}


def _curves(recognizer: FaceRecognizer) -> dict[str, Callable[[], Any]]:
    """Return what draws the error rates at each threshold, unless too few people were left out to tell them."""
    unknown, distances = recognizer.left_out_.unknown, recognizer.left_out_.distances
    if not unknown.any() or unknown.all():
        return {}

    def rates() -> Any:
        """Return a figure of the error rates."""
        from visionnmf.plotting import ThresholdDisplay

        axes = new_figure(9, 4).subplots(1, 2)
        display = ThresholdDisplay.from_predictions(unknown, distances, threshold=recognizer.threshold_, axes=axes)
        return display.figure_

    return {"Error rates on left-out images, and the threshold": rates}


def _without_empty(faces: Faces, skipped: list[str]) -> tuple[Faces, list[str]]:
    """Return faces without images that show nothing, which get a sentence each; others keep their names or numbers."""
    rows = as_rows(faces.images)
    files = np.array(faces.files or [f"image {number}" for number in range(len(rows))])
    empty = empty_images(rows, np.zeros(rows.shape, bool))  # no pixel is masked
    skipped = [*skipped, *(f"{file}: {SHOWS_NOTHING}" for file in files[empty])]
    if len(empty) == len(rows):
        raise UnreadableError(skipped[0])
    images, labels, files = (np.delete(part, empty, axis=0) for part in (faces.images, faces.labels, files))
    return replace(faces, images=images, labels=labels, files=tuple(files.tolist())), skipped


def add_person(
    model: FaceModel | FaceRecognizer | str | Path,
    person: str,
    sources: list[str],
    out: str | Path,
    *,
    force: bool = False,
) -> Report:
    """Add images of a person, new or known, to a model without training again, and write the new model.

    Parameters
    ----------
    model : FaceModel, FaceRecognizer, str or Path
        A model, a recogniser of whole images, or the file of either.
    person : str
        The person's name.
    sources : list of str
        Images; those that cannot be read, or show nothing, are left out.
    out : str or Path
        The model file to write.
    force : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Report
        With the new ``model``; its figures are ``person``, ``images`` (how many were added) and ``people`` (how many
        the model knows now).

    Raises
    ------
    ParameterError
        If the name is empty.
    MediaError
        If no image is left, or the file cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.faces import add_person, load
    >>> add_person(load("people.npz"), "Di", ["people/cy/0.png"], "four.npz", force=True).people
    4
    """
    if not isinstance(person, str) or not person.strip():
        raise ParameterError(f"person must be a name, which comes before the images; got {shown(person)}")
    if isinstance(sources, str | Path):
        raise ParameterError(f"sources must be a list of images; got {shown(str(sources))}; put it into a list")
    if not isinstance(sources, Iterable) or not all(isinstance(source, str | Path) for source in sources):
        raise ParameterError(
            f"sources must be a list of files of images; got {shown(sources)}; FaceRecognizer.add takes arrays"
        )
    check_outputs([Path(out)], force, inputs=sources)
    known = loaded(model)
    rows, read, skipped = [], [], []
    for source in sources:
        try:
            row = known.read(source).rows
            if len(empty_images(row, np.zeros(row.shape, bool))):
                raise UnreadableError(f"{source}: {SHOWS_NOTHING}")
            rows.append(row)
            read.append(str(source))
        except MediaError as error:
            skipped.append(str(error))
    if not rows:
        raise MediaError(skipped[0] if skipped else f"{person}: there are no images")
    images = np.concatenate(rows)
    names = np.repeat(person, len(rows))
    # `add` replaces the arrays of the copy, and does not change those that it shares with the caller's model.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recognizer = copy.copy(known.recognizer).add(images, names, names=read)
    added = FaceModel(recognizer, known.detect)
    save(added, out, force=force)
    note = "the threshold is still the one from training; its error rates are not known for new people"
    n, people = len(rows), len(recognizer.classes_)
    return Report(
        figures={"person": person, "images": n, "people": people},
        lines=[f"{person}: {counted(n, 'image')} added, {counted(people, 'person', 'people')}"],
        model=added,
        inputs=list(map(str, sources)),
        outputs=[str(out)],
        skipped=skipped,
        notes=[*(str(one.message) for one in caught if issubclass(one.category, UserWarning)), note],
    )
