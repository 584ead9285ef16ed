"""From a model file and an image to a name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError
from visionnmf.io import read_image, resize_grey, to_grey8, write_image

from .detect import read_face
from .draw import residual_picture
from .identity import Identity
from .sources import as_rows
from .store import FaceModel

__all__ = ["Identified", "Identifier", "identify"]

UNLIKE = "not as noisy as the training images: the rates of the threshold do not hold"

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Identified(Report):
    """Who is on one image; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    identity : Identity
    """

    identity: Identity

    def _figures(self) -> dict[str, Any]:
        found = self.identity
        return {
            "input": self.inputs[0],
            "person": found.person,
            "nearest": found.nearest,
            "distance": round(found.distance, 4),
            "threshold": round(found.threshold, 4),
            "corrupted": round(found.corrupted, 4),
            "calibrated": found.calibrated,
            "files": self.outputs,
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
            f"{self.inputs[0]}: {who}, distance {found.distance:.3f} (threshold {found.threshold:.3f}), "
            f"{found.corrupted:.1%} of the pixels judged corrupted" + "".join(f"; {note}" for note in self.notes)
        )


class Identifier:
    """Name the people on images, those of a batch together.

    Parameters
    ----------
    model : FaceModel
    pictures : str or Path, optional
        Folder for ``NAME_corrupted.png``: the image, what was judged corrupted, the image cleaned, the
        model's reconstruction.
    force : bool, default=False
        Whether existing files may be replaced.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import write_image
    >>> rng = np.random.default_rng(0)
    >>> for name in ("ada", "ben", "cy"):
    ...     Path("people", name).mkdir(parents=True, exist_ok=True)
    ...     face = rng.integers(40, 200, (12, 10))
    ...     for i in range(4):
    ...         image = np.clip(face + rng.integers(0, 9, face.shape), 0, 255).astype(np.uint8)
    ...         write_image(f"people/{name}/{i}.png", image, force=True)
    >>> from visionnmf.apps.faces import train
    >>> report = train("people", "people.npz", n_components=6, missing="none", force=True)
    >>> from visionnmf.apps.faces import Identifier, load
    >>> identifier = Identifier(load("people.npz"))
    >>> type(identifier).__name__
    'Identifier'
    """

    def __init__(self, model: FaceModel, *, pictures: str | Path | None = None, force: bool = False) -> None:
        self.model, self.pictures, self.force = model, pictures, force
        self._known: dict[str, tuple[Array, Identity]] = {}  # of the images that were looked at together

    def prepare(self, sources: list[str]) -> None:
        """Look at images together, which costs little more than one alone; those that cannot be read are left.

        Parameters
        ----------
        sources : list of str
        """
        rows = {}
        for source in sources:
            with suppress(MediaError, OSError, MemoryError):  # said when its turn comes
                rows[source] = self._read(source)
        self._known = {}
        if rows:
            identities = self.model.recognizer.identify(np.concatenate(list(rows.values())))
            self._known = dict(zip(rows, zip(rows.values(), identities, strict=True), strict=True))

    def identify(self, source: str | Path) -> Identified:
        """Name the person on an image.

        Parameters
        ----------
        source : str or Path
            An image; scaled to the size of the training images, and its face cut out first if theirs were.

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
            row, identity = self._known.pop(str(source))
        else:
            row = self._read(source)
            (identity,) = recognizer.identify(row)
        outputs = []
        if self.pictures is not None:
            assert recognizer.image_shape is not None
            path = Path(self.pictures) / f"{Path(str(source).removeprefix('sample:')).stem}_corrupted.png"
            sheet = residual_picture(row, *recognizer.explain(row), recognizer.image_shape, white=recognizer.white_)
            write_image(path, sheet, force=self.force)
            outputs.append(str(path))
        notes = [UNLIKE] if recognizer.noise_ is not None and not identity.calibrated else []
        return Identified(identity, inputs=[str(source)], outputs=outputs, notes=notes)

    def _read(self, source: str | Path) -> Array:
        image = read_face(source) if self.model.detect else read_image(source)
        shape = self.model.recognizer.image_shape
        assert shape is not None
        return as_rows(resize_grey(to_grey8(image), shape)[None])


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
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import write_image
    >>> rng = np.random.default_rng(0)
    >>> for name in ("ada", "ben", "cy"):
    ...     Path("people", name).mkdir(parents=True, exist_ok=True)
    ...     face = rng.integers(40, 200, (12, 10))
    ...     for i in range(4):
    ...         image = np.clip(face + rng.integers(0, 9, face.shape), 0, 255).astype(np.uint8)
    ...         write_image(f"people/{name}/{i}.png", image, force=True)
    >>> from visionnmf.apps.faces import train
    >>> report = train("people", "people.npz", n_components=6, missing="none", force=True)
    >>> from visionnmf.apps.faces import identify, load
    >>> len(identify(load("people.npz"), "people/ada/0.png").inputs)
    1
    """
    return Identifier(model, pictures=pictures, force=force).identify(source)
