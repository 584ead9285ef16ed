"""The training photographs that look most like another one, also as a contact sheet."""

from __future__ import annotations

import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_count
from visionnmf._text import printable
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError, ParameterError
from visionnmf.io import check_outputs, read_image, write_image

from .image_features import describe
from .store import AnnotationModel

TILE = 160  # height and width of a photograph on the sheet, in pixels
GAP = 6  # pixels
LINES, LINE = 3, 15  # number of lines of a caption, and their height in pixels
LETTERS = 26  # of a line
GREY, WHITE = 200, 255


@dataclass(frozen=True, kw_only=True)
class Similar(Report):
    """What :func:`similar` found, with the attributes of :class:`~visionnmf.apps.report.Report`.

    `images` are training images, the nearest first, with their `distances` by the weights of the model, and their
    `words`.
    """

    images: list[str]
    distances: list[float]
    words: list[list[str]]

    def _figures(self) -> dict[str, Any]:
        """Return the figures for JSON: the image, and the training images found, with distances and words."""
        rows = zip(self.images, self.distances, self.words, strict=True)
        return {
            "input": self.inputs[0],
            "similar": [{"image": image, "distance": round(d, 4), "words": words} for image, d, words in rows],
        }

    def summary(self) -> str:
        """Return a line for each image."""
        rows = zip(self.images, self.distances, self.words, strict=True)
        lines = [f"  {distance:.3f} {image}: {', '.join(words)}" for image, distance, words in rows]
        return "\n".join([f"{self.inputs[0]} looks like", *lines, *self._notes_and_outputs()])


def similar(
    model: AnnotationModel,
    image: str,
    *,
    k: int = 11,
    out: str | Path | None = None,
    photos: str | Path | None = None,
    force: bool = False,
) -> Similar:
    """Find the training photographs that look most like one.

    Parameters
    ----------
    model : AnnotationModel
        A model that was trained on images.
    image : str
        The photograph.
    k : int, default=11
        Number of photographs to find.
    out : str or Path, optional
        A folder for ``NAME_similar.png``: the photograph, then those found, row by row, with distances and words.
    photos : str or Path, optional
        The folder that holds the training photographs now; by default they are expected where they were.
    force : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Similar
        The photographs. A note names training photographs that could not be read; they are grey on the sheet.

    Raises
    ------
    MediaError
        If the image cannot be read, or the sheet cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.annotation import load, similar
    >>> similar(load("words.npz"), "photos/0.png", k=3).inputs
    ['photos/0.png']
    """
    check_count(k, "k")
    if model.extraction is None:
        raise ParameterError("model must be trained on images; got one of a table of features")
    sheet = None if out is None else Path(out) / f"{Path(image.removeprefix('sample:')).stem}_similar.png"
    check_outputs([] if sheet is None else [sheet], force, inputs=[image, *model.source])
    found = describe([image], model.extraction, views=model.annotator.views_)
    if len(found.X) > 1:
        raise ParameterError(f"image must be one image; got {len(found.X)}")
    which, distance = model.annotator.nearest(found.X, k)
    known = model.annotator
    files = [model.files[i] for i in which[0]]
    rows = known.Y_[which[0]]
    # `rows` is sparse: `indices` holds the words of all found images, and `indptr` where each image begins.
    words = [known.words_[columns].tolist() for columns in np.split(rows.indices, rows.indptr[1:-1])]
    notes: list[str] = []
    if sheet is not None:
        places = files if photos is None else [str(Path(photos) / Path(file).name) for file in files]
        captions = [f"{d:.3f}\n{', '.join(has)}" for d, has in zip(distance[0], words, strict=True)]
        write_image(sheet, _sheet([image, *places], [Path(image).name, *captions], notes), force=force)
    return Similar(
        images=files,
        distances=distance[0].tolist(),
        words=words,
        inputs=[image],
        outputs=[] if sheet is None else [str(sheet)],
        notes=notes,
    )


def _sheet(files: list[str], captions: list[str], notes: list[str]) -> NDArray[np.uint8]:
    """Return a contact sheet of captioned images; one that cannot be read is grey, and `notes` says so."""
    columns = int(np.ceil(np.sqrt(len(files))))
    rows = -(-len(files) // columns)  # rounded up
    # The size of a cell: a tile, the caption below it, and a gap.
    width, height = TILE + GAP, TILE + LINES * LINE + GAP
    sheet = np.full((rows * height + GAP, columns * width + GAP, 3), WHITE, np.uint8)
    for i, (file, caption) in enumerate(zip(files, captions, strict=True)):
        try:
            tile = _tile(file)
        except MediaError as error:
            notes.append(str(error))
            tile = np.full((TILE, TILE, 3), GREY, np.uint8)
        top, left = i // columns * height + GAP, i % columns * width + GAP
        sheet[top + TILE : top + height - GAP, left : left + TILE] = _caption(caption)
        # The photograph is centred in its square tile.
        top, left = top + (TILE - tile.shape[0]) // 2, left + (TILE - tile.shape[1]) // 2
        sheet[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return sheet


def _caption(text: str) -> NDArray[np.uint8]:
    """Return a picture of the lines of text that fit."""
    picture = np.full((LINES * LINE, TILE, 3), WHITE, np.uint8)
    # OpenCV crashes on names of files that are not UTF-8, which `printable` escapes.
    lines = [line for part in text.split("\n") for line in textwrap.wrap(printable(part), LETTERS)]
    for i, line in enumerate(lines[:LINES]):
        place = (1, (i + 1) * LINE - 3)
        if hasattr(cv2, "FontFace"):
            cv2.putText(picture, line, place, (0, 0, 0), cv2.FontFace("sans"), 12)
        else:  # OpenCV 4 can draw ASCII only
            plain = line.encode("ascii", "replace").decode()
            cv2.putText(picture, plain, place, cv2.FONT_HERSHEY_SIMPLEX, 0.36, (0, 0, 0), 1, cv2.LINE_AA)
    return picture


def _tile(file: str) -> NDArray[np.uint8]:
    """Return an image as uint8, scaled so that its longer side is TILE pixels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about transparency
        image = read_image(file)
    if image.dtype != np.uint8:
        image = (image >> 8).astype(np.uint8)  # 16 bits to 8
    scale = TILE / max(image.shape[:2])
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_NEAREST))
