"""Whether two images show one person, and people who are added to a model."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf._checks import check_number
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError, ParameterError
from visionnmf.io import check_outputs

from .identification import read_rows
from .identity import Identity
from .store import FaceModel, save

__all__ = ["Added", "Verified", "add_person", "verify"]


@dataclass(frozen=True)
class Verified(Report):
    """Whether two images show one person; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    same : bool
    people : list of object
        Who is on each, or None.
    distance : float
        Of the images from each other, the mean of both ways; see :func:`verify`.
    threshold : float
        Larger distances are of different people.
    """

    same: bool
    people: list[Any]
    distance: float
    threshold: float

    def summary(self) -> str:
        """Say whether it is one person.

        Returns
        -------
        str
            One line.
        """
        who = [
            f"{source} ({person or 'nobody known'})" for source, person in zip(self.inputs, self.people, strict=True)
        ]
        verdict = "one person" if self.same else "different people"
        return f"{' and '.join(who)}: {verdict}, distance {self.distance:.3f} (threshold {self.threshold:.3f})"


def verify(model: FaceModel, first: str | Path, second: str | Path, *, threshold: float | None = None) -> Verified:
    """Say whether two images show one person, known to the model or not.

    Each image is taken for the only one of a new person in turn, in place of the person on it where that is known, and
    the other is identified: its distance from the new person is compared with the model's threshold.

    Parameters
    ----------
    model : FaceModel
    first, second : str or Path
        Images; see :func:`identify`.
    threshold : float or None, default=None
        In place of the model's.

    Returns
    -------
    Verified

    Raises
    ------
    MediaError
        When an image cannot be read, or has no face.

    Examples
    --------
    >>> from visionnmf.apps.faces import load, verify
    >>> verify(load("people.npz"), "people/ada/0.png", "people/ben/0.png", threshold=0.9).same
    False
    """
    recognizer = model.recognizer
    limit = recognizer.threshold_ if threshold is None else check_number(threshold, "threshold", 0)
    rows = np.concatenate([read_rows(model, source).rows for source in (first, second)])
    identities = recognizer.identify(rows, threshold=limit)
    people = [found.person for found in identities]
    ways = [_distance_from(model, rows[[one]], rows[[1 - one]], identities) for one in (0, 1)]
    distance = float(np.mean(ways))
    known = None not in people
    same = people[0] == people[1] if known else distance <= limit
    return Verified(same, people, distance, limit, inputs=[str(first), str(second)])


def _distance_from(model: FaceModel, one: Any, other: Any, identities: list[Identity]) -> float:
    """Return the relative distance of an image from a person with one image, beside everybody who is on neither."""
    recognizer = copy.copy(model.recognizer)
    here = np.isin(recognizer.classes_[recognizer.labels_], [found.person for found in identities if found.person])
    new = "\uffff"  # no name is that
    names, cleaned = recognizer.classes_[recognizer.labels_][~here], recognizer.cleaned_[~here]
    recognizer.classes_, recognizer.labels_ = np.unique(names, return_inverse=True)
    recognizer.cleaned_ = cleaned
    recognizer.add(one, np.array([new]))
    (found,) = recognizer.identify(other, top=len(recognizer.classes_))
    return dict(found.ranking)[new]


@dataclass(frozen=True)
class Added(Report):
    """Who was added to a model; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    model : FaceModel
    person : str
    images : int
    people : int
        Whom the model knows now.
    """

    model: FaceModel
    person: str
    images: int
    people: int

    def _figures(self) -> dict[str, Any]:
        return {"person": self.person, "images": self.images, "people": self.people, "files": self.outputs}

    def summary(self) -> str:
        """Say who was added.

        Returns
        -------
        str
            A few lines.
        """
        first = f"{self.person}: {self.images} {'images' if self.images > 1 else 'image'} added, {self.people} people"
        return "\n".join([first, *self._ending()])


def add_person(model: FaceModel, person: str, sources: list[str], out: str | Path, *, force: bool = False) -> Added:
    """Add images of a person, new or known, to a model, without training anew, and write it.

    Parameters
    ----------
    model : FaceModel
    person : str
    sources : list of str
        Images; those that cannot be read are left out.
    out : str or Path
        The model file to write.
    force : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Added

    Raises
    ------
    ParameterError
        When the person has no name.
    MediaError
        When no image can be read, or the file not be written.

    Examples
    --------
    >>> from visionnmf.apps.faces import add_person, load
    >>> add_person(load("people.npz"), "Di", ["people/cy/0.png"], "four.npz", force=True).people
    4
    """
    if not person.strip():
        raise ParameterError(f"person must be a name; got {person!r}")
    check_outputs([Path(out)], force, inputs=sources)
    rows, skipped = [], []
    for source in sources:
        try:
            rows.append(read_rows(model, source).rows)
        except MediaError as error:
            skipped.append(str(error))
    if not rows:
        raise MediaError(skipped[0] if skipped else f"{person}: there are no images")
    recognizer = copy.copy(model.recognizer)
    recognizer.add(np.concatenate(rows), np.repeat(person, len(rows)))
    added = FaceModel(recognizer, model.detect)
    save(added, out, force=force)
    note = "the threshold is still that of the training: what was announced of it is not known of new people"
    return Added(
        added, person, len(rows), len(recognizer.classes_), inputs=list(sources), outputs=[str(out)], skipped=skipped,
        notes=[note],
    )  # fmt: skip
