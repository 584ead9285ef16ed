"""From images of people to a model file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf import choices
from visionnmf.apps.drawing import components_picture
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError, ParameterError
from visionnmf.io import check_outputs, check_outside, transaction, write_image

from .calibration import ANNOUNCED_LEAST, STRANGERS_LEAST
from .draw import residual_picture
from .model import FaceRecognizer
from .sources import as_rows, open_faces
from .store import FaceModel, save

__all__ = ["Trained", "train"]

MOST_SHOWN = 20  # images of a residual picture


@dataclass(frozen=True)
class Trained(Report):
    """What :func:`train` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    model : FaceModel
    images : int
        Training images.
    """

    model: FaceModel
    images: int

    def _figures(self) -> dict[str, Any]:
        recognizer = self.model.recognizer
        return {
            "people": recognizer.classes_.tolist(),
            "images": self.images,
            "corrupted": round(float(recognizer.corrupted_.mean()), 4),
            "missing": recognizer.missing_,
            "missing_scores": {choice: round(score, 4) for choice, score in recognizer.missing_scores_.items()},
            "threshold": round(recognizer.threshold_, 4),
            "false_acceptance_rate": _rounded(recognizer.false_acceptance_rate_),
            "false_rejection_rate": _rounded(recognizer.false_rejection_rate_),
            "files": self.outputs,
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
        people = len(recognizer.classes_)
        lines = [
            f"{people} {'people' if people > 1 else 'person'}, {self.images} images of {width} x {height}; "
            f"{recognizer.corrupted_.mean():.1%} of the pixels judged corrupted",
            *_chosen(recognizer),
            _announcement(recognizer),
        ]
        return "\n".join([*lines, *self._ending()])


def _chosen(recognizer: FaceRecognizer) -> list[str]:
    """Say which pixels count as missing and why, where something else was found."""
    scores = recognizer.missing_scores_
    if not scores:
        return []
    named = ", ".join(f"{choice} {score:.1%}" for choice, score in scores.items())
    return [f"missing pixels: {recognizer.missing_}; left-out images named: {named}"]


def _announcement(recognizer: FaceRecognizer) -> str:
    """Say what the threshold does, and on which new images; nothing that is not known."""
    people, rate = len(recognizer.classes_), recognizer.unknown_rate
    passed, rejected = recognizer.false_acceptance_rate_, recognizer.false_rejection_rate_
    if recognizer.threshold_ == 0:
        return "no threshold: nothing tells these people from strangers, and identify names nobody; train more people"
    threshold = f"threshold {recognizer.threshold_:.3f}"
    if people < STRANGERS_LEAST:
        return f"{threshold}, beyond {1 - rate:.0%} of the known; how many strangers pass two people do not tell"
    if math.isnan(passed):
        few = f"with fewer than {ANNOUNCED_LEAST} people no rate is known"
        if people >= ANNOUNCED_LEAST:
            few = "no rate is announced: these people differ too much to tell it to a factor of two; train more people"
        return f"{threshold}, set to let {rate:.1%} of strangers pass; {few}"
    known = "how many of the known are rejected these images do not tell"
    if not math.isnan(rejected):
        known = f"{rejected:.1%} of the known are rejected"
    return (
        f"{threshold}: {passed:.1%} of strangers pass, {known} (cross-validated), where new images are as noisy as "
        "these; identify says where not"
    )


def _rounded(number: float) -> float | None:
    return None if math.isnan(number) else round(number, 4)


def train(
    source: str | Path,
    model: str | Path,
    *,
    n_components: int = choices.FACE_COMPONENTS,
    rule: str = choices.FACE_RULE_DEFAULT,
    missing: str = choices.FACE_MISSING_AUTO,
    size: int | None = None,
    detect: bool = False,
    unknown_rate: float = choices.FACE_UNKNOWN_RATE,
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
    missing : str, default="auto"
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

    Examples
    --------
    >>> from visionnmf.apps.faces import train
    >>> train("people", "people.npz", n_components=6, missing="none", force=True).outputs
    ['people.npz']
    """
    files = [Path(model)]
    if pictures is not None:
        check_outside(pictures, source)
        files += [Path(pictures) / name for name in ("components.png", "corrupted.png")]
    check_outputs(files, force, inputs=[source])
    if not files[0].parent.is_dir():  # before the work
        raise MediaError(f"{model}: there is no folder {files[0].parent}; create it first")
    faces, skipped = open_faces(source, size=size, detect=detect)
    if not faces.labels.all():
        raise ParameterError(f"source must have known people; got {source} without; make one sub-folder a person")
    shape = (faces.images.shape[1], faces.images.shape[2])
    names = np.array(faces.names)[faces.labels - 1] if faces.names else faces.labels.astype(str)
    recognizer = FaceRecognizer(
        n_components=n_components,
        rule=rule,
        missing=missing,
        image_shape=shape,
        unknown_rate=unknown_rate,
        random_state=random_state,
    ).fit(as_rows(faces.images), names)
    trained = FaceModel(recognizer, detect)
    with transaction():
        if pictures is not None:
            write_image(files[1], components_picture(recognizer.components_, shape), force=force)
            shown = np.linspace(0, len(names) - 1, min(MOST_SHOWN, len(names))).astype(int)
            panels = (as_rows(faces.images), recognizer.reconstructions_, recognizer.cleaned_, recognizer.corrupted_)
            images, drawn, cleaned, corrupted = (panel[shown] for panel in panels)
            sheet = residual_picture(images, drawn, cleaned, corrupted, shape, white=recognizer.white_)
            write_image(files[2], sheet, force=force)
        save(trained, model, force=force)
    return Trained(trained, len(names), inputs=[str(source)], outputs=[str(path) for path in files], skipped=skipped)
