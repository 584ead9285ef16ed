"""From a model file and an image to a name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.report import Report
from visionnmf.exceptions import ParameterError
from visionnmf.io import output_folder, read_image, resize_grey, to_grey8, write_image

from .detect import Box, read_faces
from .draw import residual_picture
from .identity import Identity
from .sources import as_rows
from .store import FaceModel

__all__ = ["Identified", "Identifier", "identify", "read_rows"]

UNLIKE = "not as noisy as the training images: the rates of the threshold do not hold"

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Identified(Report):
    """Who is on one image; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    identity : Identity
        Of the image, or its largest face.
    boxes : list of tuple of (row, column, height, width)
        Of the faces that were cut out, in pixels; empty where the whole image is a face.
    others : list of Identity
        Of the other faces, in the order of their boxes.
    """

    identity: Identity
    boxes: list[Box] = field(default_factory=list)
    others: list[Identity] = field(default_factory=list)

    def _figures(self) -> dict[str, Any]:
        found = [
            _figures(identity) | ({"box": list(box)} if box else {})
            for identity, box in zip_longest([self.identity, *self.others], self.boxes)
        ]
        return {"input": self.inputs[0], **found[0], "others": found[1:], "files": self.outputs}

    def summary(self) -> str:
        """Say who it is.

        Returns
        -------
        str
            A line a face, then the next nearest people where they were asked for.
        """
        lines = []
        for identity, box in zip_longest([self.identity, *self.others], self.boxes):
            place = f" (row {box[0]}, column {box[1]}, {box[3]} x {box[2]})" if box and self.others else ""
            lines.append(f"{self.inputs[0]}{place}: {_sentence(identity)}")
        lines[0] += "".join(f"; {note}" for note in self.notes)
        return "\n".join(lines)


def _figures(found: Identity) -> dict[str, Any]:
    return {
        "person": found.person,
        "nearest": found.nearest,
        "distance": round(found.distance, 4),
        "threshold": round(found.threshold, 4),
        "corrupted": round(found.corrupted, 4),
        "calibrated": found.calibrated,
        "ranking": [{"person": person, "distance": round(distance, 4)} for person, distance in found.ranking],
    }


def _sentence(found: Identity) -> str:
    who = found.person if found.person is not None else f"nobody known (nearest: {found.nearest})"
    then = "".join(f"; then {person} {distance:.3f}" for person, distance in found.ranking[1:])
    return (
        f"{who}, distance {found.distance:.3f} (threshold {found.threshold:.3f}), "
        f"{found.corrupted:.1%} of the pixels judged corrupted{then}"
    )


class Identifier:
    """Name the people on images, those of a batch together.

    Parameters
    ----------
    model : FaceModel
    threshold : float or None, default=None
        In place of the model's.
    top : int, default=1
        Nearest people to tell.
    all_faces : bool, default=False
        Name every face of a photograph, not only the largest.
    pictures : str or Path, optional
        Folder for ``NAME_corrupted.png``: the faces, what was judged corrupted, the faces cleaned, the model's
        reconstructions.
    force : bool, default=False
        Whether existing files may be replaced.
    pool : concurrent.futures.Executor, optional
        Reads images that are looked at together.

    Raises
    ------
    ParameterError
        When all faces are asked for, and the model is of whole images.

    Examples
    --------
    >>> from visionnmf.apps.faces import Identifier, load
    >>> identifier = Identifier(load("people.npz"))
    >>> type(identifier).__name__
    'Identifier'
    """

    def __init__(
        self,
        model: FaceModel,
        *,
        threshold: float | None = None,
        top: int = 1,
        all_faces: bool = False,
        pictures: str | Path | None = None,
        force: bool = False,
        pool: Executor | None = None,
    ) -> None:
        if all_faces and not model.detect:
            raise ParameterError(
                "all_faces must be False for a model of whole images; got True; train with detect=True"
            )
        self.model, self.threshold, self.top, self.all_faces = model, threshold, top, all_faces
        self.pictures, self.force = pictures, force
        self._map: Callable[..., Iterable[Any]] = map if pool is None else pool.map
        self._known: dict[str, tuple[_Faces, list[Identity], list[Warning | str]]] = {}  # of images looked at together

    def prepare(self, sources: list[str]) -> None:
        """Look at images together, which costs little more than one alone.

        What fails is left to :meth:`identify`, and so is what reading an image warns of.

        Parameters
        ----------
        sources : list of str
        """
        self._known = {}
        with suppress(Exception):  # said of an image when its turn comes
            looked = zip(sources, self._map(partial(_look, *self._wanted), sources), strict=True)
            found = {source: look for source, look in looked if look is not None}
            if found:
                identities = iter(self._identified(np.concatenate([faces.rows for faces, _ in found.values()])))
                for source, (faces, told) in found.items():
                    self._known[source] = faces, list(islice(identities, len(faces.rows))), told

    def identify(self, source: str | Path, *, out: str | Path | None = None) -> Identified:
        """Name the people on an image.

        Parameters
        ----------
        source : str or Path
            An image; scaled to the size of the training images, and its face cut out first if theirs were.
        out : str or Path, optional
            Folder for its picture, made if missing; `pictures` where left out.

        Returns
        -------
        Identified

        Raises
        ------
        MediaError
            When the image cannot be read, has no face, or a file cannot be written.
        """
        recognizer = self.model.recognizer
        if str(source) in self._known:
            faces, identities, told = self._known.pop(str(source))
            for message in told:
                warnings.warn(message, stacklevel=2)
        else:
            faces = _read(*self._wanted, source)
            identities = self._identified(faces.rows)
        outputs = []
        folder = self.pictures if out is None else out
        if folder is not None:
            assert recognizer.image_shape is not None
            path = output_folder(folder) / f"{Path(str(source).removeprefix('sample:')).stem}_corrupted.png"
            parts = recognizer.explain(faces.rows)
            sheet = residual_picture(faces.rows, *parts, recognizer.image_shape, white=recognizer.white_)
            write_image(path, sheet, force=self.force)
            outputs.append(str(path))
        announced = recognizer.noise_ is not None and self.threshold is None
        doubtful = sum(not identity.calibrated for identity in identities) if announced else 0
        which = f"{doubtful} of the {len(identities)} faces " if doubtful < len(identities) else ""
        notes = [which + UNLIKE] if doubtful else []
        return Identified(
            identities[0], faces.boxes, identities[1:], inputs=[str(source)], outputs=outputs, notes=notes
        )

    def _identified(self, rows: Array) -> list[Identity]:
        return self.model.recognizer.identify(rows, threshold=self.threshold, top=self.top)

    @property
    def _wanted(self) -> tuple[tuple[int, int], bool, int | None]:
        """What is to be read of each image: see :func:`_read`."""
        return _shape(self.model), self.model.detect, None if self.all_faces else 1


class _Faces(NamedTuple):
    """Faces of an image, as rows of a model, and where they were."""

    rows: Array
    boxes: list[Box]


def read_rows(model: FaceModel, source: str | Path, most: int | None = 1) -> _Faces:
    """Read the faces of an image as a model wants them, the largest first.

    Parameters
    ----------
    model : FaceModel
    source : str or Path
    most : int or None, default=1
        Faces; None for all.

    Returns
    -------
    rows : ndarray of float32 [shape=(n_faces, n_pixels)]
    boxes : list of tuple of (row, column, height, width)
        Empty where the image is taken whole.

    Raises
    ------
    MediaError
        When the image cannot be read, or has no face.
    """
    return _read(_shape(model), model.detect, most, source)


def _shape(model: FaceModel) -> tuple[int, int]:
    shape = model.recognizer.image_shape
    assert shape is not None
    return shape


def _read(shape: tuple[int, int], detect: bool, most: int | None, source: str | Path) -> _Faces:
    found = read_faces(source)[:most] if detect else []
    images = [image for _, image in found] or [read_image(source)]
    rows = as_rows(np.stack([resize_grey(to_grey8(image), shape) for image in images]))
    return _Faces(rows, [box for box, _ in found])


def _look(
    shape: tuple[int, int], detect: bool, most: int | None, source: str
) -> tuple[_Faces, list[Warning | str]] | None:
    """Read the faces of an image, and what that warns of; None where it fails."""
    with suppress(Exception), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        faces = _read(shape, detect, most, source)
        return faces, [told.message for told in caught]
    return None


def identify(
    model: FaceModel,
    source: str | Path,
    *,
    threshold: float | None = None,
    top: int = 1,
    all_faces: bool = False,
    pictures: str | Path | None = None,
    force: bool = False,
) -> Identified:
    """Name the people on an image.

    Parameters
    ----------
    model : FaceModel
    source : str or Path
        An image; scaled to the size of the training images, and its face cut out first if theirs were.
    threshold : float or None, default=None
        See :class:`Identifier`.
    top : int, default=1
        See :class:`Identifier`.
    all_faces : bool, default=False
        See :class:`Identifier`.
    pictures : str or Path, optional
        See :class:`Identifier`.
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Identified

    Raises
    ------
    MediaError
        When the image cannot be read, has no face, or a file cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.faces import identify, load
    >>> len(identify(load("people.npz"), "people/ada/0.png").inputs)
    1
    """
    identifier = Identifier(model, threshold=threshold, top=top, all_faces=all_faces, pictures=pictures, force=force)
    return identifier.identify(source)
