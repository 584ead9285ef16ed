"""Who is on an image, by a model."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._progress import Progress
from visionnmf._text import counted
from visionnmf.apps import ClusterError
from visionnmf.apps.drawing import tiled
from visionnmf.apps.made import made_of
from visionnmf.apps.report import Report
from visionnmf.apps.runner import settings_key
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs, output_folder, read_image, recording, stem_of, takes_files, write_image

from .figures import residual_panels
from .identities import Identity
from .reading import ProbeFaces, Source, find_faces, name_of, read_probe
from .recognizer import FEW_PEOPLE, FaceRecognizer
from .settings import FaceIdentification
from .store import FaceModel, loaded

UNLIKE_IN_WORDS = "unlike the training images, probably not a face"
OTHER_NOISE = {
    "less": "less noise and fine detail than in the training images, as after JPEG or blur: ",
    "more": "more noise than in the training images: ",
}
RATES_FAIL, NAME_DOUBTFUL = "the error rates of the threshold may not hold", "the name is doubtful"
PART_OF_PICTURE = (
    "there seems to be a face in a part of the picture: cut it out, or train with detect=True, which looks for faces"
)


Rows = NDArray[Any]


def _sentence(found: Identity) -> str:
    """Return who is on an image as a sentence."""
    who = found.person
    if found.reason == "unknown":  # too far from everybody, or near enough to somebody but too unlike training images
        but = "" if found.distance > found.threshold else ", but too unlike the training images for a name"
        limit = found.unlikeness_limit
        if but and found.unlikeness is not None and limit is not None and found.unlikeness > limit:
            but += f": unlikeness {found.unlikeness:.3f}, at most {limit:.3f}"
        who = f"nobody known (nearest: {found.nearest}{but})"
    elif found.reason == "unlike":
        who = f"unknown: {UNLIKE_IN_WORDS} (nearest: {found.nearest})"
    # The first of the ranking is the nearest person, who has been named.
    then = "".join(f"; then {person} {distance:.3f}" for person, distance in found.ranking[1:])
    return (
        f"{who}, distance {found.distance:.3f} (threshold {found.threshold:.3f}), "
        f"{found.corrupted:.1%} of the pixels judged corrupted{then}"
    )


class Identifier:
    """Identifies the people on images; images of a batch are looked at together.

    `pictures` is a folder for ``NAME_corrupted.png``, and `pool` reads the images of a batch. Raises ParameterError if
    all faces are asked for, and the model was trained on whole images.
    """

    def __init__(
        self,
        model: FaceModel,
        *,
        identification: FaceIdentification = FaceIdentification(),
        pictures: str | Path | None = None,
        force: bool = False,
        pool: Executor | None = None,
    ) -> None:
        """Take the model and what is asked of it; `pictures` is a folder, and `force` replaces files in it."""
        if identification.all_faces and not model.detect:
            raise ParameterError("all_faces must be left out for a model of whole images; train with detect=True")
        self.model, self.identification = model, identification
        self.pictures, self.force = pictures, force
        self._digest = settings_key({}, model.recognizer.components_)
        self._map: Callable[..., Iterable[Any]] = map if pool is None else pool.map  # in this process, or in the pool
        # By image: its faces, who they are, and the warnings of reading it. `prepare` fills it for a batch of images.
        self._prepared: dict[str, tuple[ProbeFaces, list[Identity], list[Warning | str]]] = {}
        self._most = None if identification.all_faces else 1  # faces of an image; None is all

    def prepare(self, sources: list[str], folders: list[Path | None], progress: Progress | None = None) -> None:
        """Look at images together, in little more time than at one; `folders` has the `out` of :meth:`identify`."""
        self._prepared = {}
        # All faces of the batch are identified in one call; `islice` deals the identities out to their images again.
        try:
            wanted = [source for source, out in zip(sources, folders, strict=True) if self._may_draw(source, out)]
            found = {}
            known = self.model.image_shape, self.model.detect, self._most, self.model.recognizer.white_
            looks = self._map(partial(_look, *known), wanted)
            for done, (source, look) in enumerate(zip(wanted, looks, strict=True), 1):
                if look is not None:
                    found[source] = look
                if progress is not None:
                    progress("looking", done, len(wanted))
            if found:
                identities = iter(self._identities(np.concatenate([faces.rows for faces, _ in found.values()])))
                for source, (faces, messages) in found.items():
                    self._prepared[source] = faces, list(islice(identities, len(faces.rows))), messages
        except ClusterError:  # looking at the images here would take the whole time
            raise
        except Exception:  # `identify` reports it when the image's turn comes
            return

    def identify(self, source: Source, *, out: str | Path | None = None) -> Report:
        """Identify the people on an image, and draw its picture in `out` or `pictures`."""
        made = made_of(name_of(source), {"identification": self.identification, "model": self._digest})
        with recording(**made):
            return self._identify(source, self._picture(name_of(source), out))

    def _identify(self, source: Source, path: Path | None) -> Report:
        """Identify the people on an image, and draw its picture, where it has a `path`."""
        recognizer, name = self.model.recognizer, name_of(source)
        if path is not None:
            check_outputs([path], self.force, inputs=[] if isinstance(source, np.ndarray) else [source])
        if name in self._prepared:  # the image was looked at with others, by `prepare`
            faces, identities, messages = self._prepared.pop(name)
            for message in messages:
                warnings.warn(message, stacklevel=2)
        else:
            faces = self.model.read(source, self._most)
            identities = self._identities(faces.rows)
        outputs = []
        explained = partial(_explained, recognizer, faces.rows, self.model.image_shape)
        if path is not None:
            output_folder(path.parent)
            write_image(path, tiled(explained()), force=self.force)
            outputs.append(str(path))
        notes = self._doubts(identities)
        people, named = len(recognizer.classes_), any(one.reason is None for one in identities)
        knows = f"the model knows only {counted(people, 'person', 'people')}"
        if self.identification.threshold is None and named and people <= len(FEW_PEOPLE):
            notes.append(f"{knows}: unknown faces are often named as well; train more people")
        elif self.identification.threshold is None and not named and recognizer.threshold_ == 0:  # nothing set it
            notes.append(
                f"{knows} and names nobody, because it has no threshold; train more people, or give threshold=X"
            )
        # A model of whole images takes a photograph with a small face for a picture of something else.
        whole = not self.model.detect and identities[0].reason == "unlike"
        # Arrays are no photographs: they have the size of the training images.
        if whole and not isinstance(source, np.ndarray) and find_faces(read_image(source)):
            notes.append(PART_OF_PICTURE)
        lines = []  # one for each face; without boxes the whole image is the only one
        for identity, box in zip_longest(identities, faces.boxes):
            place = f" (row {box[0]}, column {box[1]}, {box[3]} x {box[2]})" if box and len(identities) > 1 else ""
            lines.append(f"{name}{place}: {_sentence(identity)}")
        figures = {"identity": identities[0], "boxes": faces.boxes, "others": identities[1:]}
        shown = {"panels": explained}
        return Report(figures=figures, lines=lines, inputs=[name], outputs=outputs, notes=notes, shown=shown)

    def _doubts(self, identities: list[Identity]) -> list[str]:
        """Return sentences about faces with less or more noise than training images: rates and names may not hold."""
        if self.identification.threshold is not None:  # no error rates are known for a threshold of the caller
            return []
        # An image that is probably not a face is left alone. If error rates are not known in any case, names alone are
        # doubtful.
        known = not math.isnan(self.model.recognizer.false_acceptance_rate_)
        found = [one.noise for one in identities if one.reason != "unlike" and (known or one.person is not None)]
        doubts = []
        for noise, words in OTHER_NOISE.items():
            count = found.count(noise)
            which = f"{count} of the {len(identities)} faces: " if count < len(identities) else ""
            doubts += [f"{which}{words}{RATES_FAIL if known else NAME_DOUBTFUL}"] * (count > 0)
        return doubts

    def _picture(self, source: str | Path, out: str | Path | None) -> Path | None:
        """Return the path of the picture of an image; None if none is wanted."""
        folder = self.pictures if out is None else out
        return None if folder is None else Path(folder) / f"{stem_of(source)}_corrupted.png"

    def _may_draw(self, source: str, out: Path | None) -> bool:
        """Return whether the picture of an image can be written, or none is wanted: an existing one needs `force`."""
        path = self._picture(source, out)
        return path is None or self.force or not os.path.lexists(path)

    def _identities(self, rows: Rows) -> list[Identity]:
        """Return who is on the faces `rows` (n_faces, n_pixels)."""
        asked = self.identification
        return self.model.recognizer.identify(rows, threshold=asked.threshold, top=asked.top)


def _explained(recognizer: FaceRecognizer, rows: Rows, shape: tuple[int, int]) -> list[NDArray[np.uint8]]:
    """Return the panels that show what was judged corrupted on faces, which are rows of pixels."""
    reconstructions, cleaned, corrupted, _ = recognizer.explain(rows)  # the noise cannot be drawn
    return residual_panels(rows, reconstructions, cleaned, corrupted, shape, white=recognizer.white_)


@takes_files
def _look(
    shape: tuple[int, int], detect: bool, most: int | None, white: float, source: str
) -> tuple[ProbeFaces, list[Warning | str]] | None:
    """Return the faces of an image and the warnings of reading it; None if reading fails."""
    with suppress(Exception), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        faces = read_probe(shape, detect, most, white, source)
        return faces, [warning.message for warning in caught]
    return None


@takes_records
def identify(
    model: FaceModel | FaceRecognizer | str | Path,
    source: str | Path | NDArray[Any],
    *,
    identification: FaceIdentification = FaceIdentification(),
    pictures: str | Path | None = None,
    force: bool = False,
) -> Report:
    """Identify the people on one image.

    Parameters
    ----------
    model : FaceModel, FaceRecognizer, str or Path
        A model, a recogniser of whole images, or the file of either.
    source : str, Path or ndarray [shape=(height, width) or (n_pixels,), >= 0]
        The file of an image, which is scaled to the size of the training images; if theirs were, its face is cut out
        first. An array has the size and the units of the training images, and is called "array" in the report.
    identification : FaceIdentification
        What is reported.
    pictures : str or Path, optional
        Folder for a picture of what was judged corrupted.
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    Report
        Its figures are ``identity``, the :class:`.Identity` of the image or of its largest face; ``boxes``, those of
        the faces that were cut out, (row, column, height, width) in pixels, none if the whole image is a face; and
        ``others``, the identities of the other faces, in the order of their boxes.

    Raises
    ------
    ParameterError
        If an array has another shape, other units, or holds values that are negative or not finite.
    MediaError
        If the image cannot be read, has no face, or a file cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.faces import identify, load
    >>> len(identify(load("people.npz"), "people/ada/0.png").inputs)
    1
    """
    return Identifier(loaded(model), identification=identification, pictures=pictures, force=force).identify(source)
