"""From a model file and an image to a name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visionnmf.apps.report import Report
from visionnmf.io import read_image, resize_grey, to_grey8, write_image

from .detect import read_face
from .draw import residual_picture
from .model import Identity
from .sources import as_rows
from .store import FaceModel

__all__ = ["Identified", "identify"]


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
            f"{found.corrupted:.1%} of the pixels judged corrupted"
        )


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
        Folder for ``NAME_corrupted.png``: the image, what was judged corrupted, the image cleaned, the
        model's reconstruction.
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
    row = as_rows(resize_grey(to_grey8(image), shape)[None])
    (identity,) = recognizer.identify(row)
    outputs = []
    if pictures is not None:
        path = Path(pictures) / f"{Path(str(source).removeprefix('sample:')).stem}_corrupted.png"
        parts = recognizer.explain(row)
        sheet = residual_picture(row, *parts, shape, white=recognizer.white_)
        write_image(path, sheet, force=force)
        outputs.append(str(path))
    return Identified(identity, inputs=[str(source)], outputs=outputs)
