"""Reading faces: sets of images in folders and archives, and the faces on photographs.

Faces are found with the local-binary-pattern cascade, trained by OpenCV, that scikit-image ships. OpenCV 5 has no
cascades any more, and its ``FaceDetectorYN`` needs a model that no package installs.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import shown
from visionnmf._pixel_range import PixelRangeWarning, bits_of, in_eight_bits, note_on, of_camera
from visionnmf.apps.settings import takes_records
from visionnmf.datasets import Faces, load_faces
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import read_image, resize_grey, to_grey8
from visionnmf.io.inputs import check_is_path

from .images import in_units
from .settings import FaceReading

FILES_OF_SETS = (".npz", ".mat")  # of models and data sets, which are no pictures
LONGEST = 640  # pixels; photographs with a longer side are searched at a smaller scale
SMALLEST_SHARE = 8  # the smallest face is the shorter side over this
SCALE_STEP = 1.2
LEAST_SIZE = 24  # pixels of the cascade's window
NO_FACE = "no upright frontal face was found"
CROP = 0.84  # share of the box that is cut out: from the brows to the chin, without background

Box = tuple[int, int, int, int]
Source = str | Path | NDArray[Any]  # an image: its file, or its pixels


class ProbeFaces(NamedTuple):
    """The faces on one image: rows of pixels, and their boxes, which are empty if the image is taken whole."""

    rows: NDArray[Any]
    boxes: list[Box]


@takes_records
def open_faces(
    source: str | Path, *, reading: FaceReading = FaceReading(), named: bool = False
) -> tuple[Faces, list[str]]:
    """Read a set of faces, and return a sentence for each image that was left out."""
    from visionnmf import datasets

    check_is_path(source, "source")
    fetchers = {"orl": datasets.fetch_orl, "yale": datasets.fetch_yale, "yaleb": datasets.fetch_yaleb}
    name, size, detect = str(source), reading.size, reading.detect
    if named and Path(source).is_dir():
        inside = (path.name.lower() for path in Path(source).glob("*/*"))
        if not any(file.endswith(choices.IMAGE_SUFFIXES) for file in inside):
            raise ParameterError(
                f"source must have a sub-folder for each person, which holds the images of this person; got {source} "
                "without images in sub-folders"
            )
    if detect and not Path(source).is_dir():
        raise ParameterError(f"detect must be left out for a source that is not a folder of photographs; got {source}")
    if name.lower() in fetchers and not Path(source).exists():
        faces = fetchers[name.lower()]()
        if size:
            faces = replace(faces, images=np.stack([resize_grey(image, (size, size)) for image in faces.images]))
        return faces, []
    side = size or (choices.FACE_SIZE if detect else None)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        try:
            faces = load_faces(source, size=(side, side) if side else None, read=read_face if detect else None)
        except UnreadableError as error:
            if NO_FACE not in str(error):
                raise
            cure = "or leave out detect=True where pictures show nothing but the face"
            raise UnreadableError(f"{error}, {cure}") from None
    if named and not faces.labels.all():  # 0 stands for a person who is not known
        raise ParameterError(f"source must say who is on each image; got {source} without labels")
    for note in notes:
        if note.category is PixelRangeWarning:
            warnings.warn(str(note.message), UserWarning, stacklevel=2)
    # Images that are left out are reported by plain UserWarnings, others by classes of their own.
    skipped = [str(note.message).removeprefix("left out: ") for note in notes if note.category is UserWarning]
    return faces, skipped


def read_probe(shape: tuple[int, int], detect: bool, most: int | None, white: float, source: Source) -> ProbeFaces:
    """Read an image, or with `detect` its `most` largest faces, all for None, in the `shape` and `white` of a model."""
    if isinstance(source, np.ndarray):
        if source.shape not in (tuple(shape), (math.prod(shape),)):
            raise ParameterError(
                f"source must be one image of shape {tuple(shape)}, or the row of its pixels, if it is an array; got "
                f"the shape {source.shape}; the methods of FaceRecognizer take many images as rows"
            )
        row = source.reshape(1, -1)
        if row.dtype in (np.uint8, np.uint16):
            row = in_units(row.astype(np.float32), row, white, white)
        return ProbeFaces(row.astype(np.float32) if row.dtype.kind in "biu" else row, [])
    if not isinstance(source, str | Path):
        got = f"a list of {len(source)}" if isinstance(source, list | tuple) else shown(source)
        raise ParameterError(
            f"source must be the file of one image, or its pixels as an array; got {got}; call it for each image"
        )
    if Path(source).is_dir():
        raise UnreadableError(f"{source} is a folder, and one image is needed; give its files one by one")
    if Path(source).suffix.lower() in FILES_OF_SETS:
        raise UnreadableError(f"{source} is a model or a data set, and an image is needed; give pictures of faces")
    picture = of_camera(read_image(source), source)
    bits = bits_of(picture)
    if picture.dtype == np.uint16 and note_on(bits):
        warnings.warn(f"{source}: {note_on(bits)}", UserWarning, stacklevel=3)
    found = cut_faces(picture, source)[:most] if detect else []
    images = [image for _, image in found] or [picture]
    rows = as_rows(np.stack([resize_grey(to_grey8(image, bits), shape) for image in images]))
    rows *= np.float32(white / 255)
    return ProbeFaces(rows, [box for box, _ in found])


def name_of(source: Source) -> str:
    """Return how a report calls an image: its path, or "array"."""
    return "array" if isinstance(source, np.ndarray) else str(source)


def as_rows(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return images (n_images, height, width) as rows."""
    return images.reshape(len(images), -1).astype(np.float32)


# --- faces on photographs ---------------------------------------------------------------------------------------------


def find_faces(image: NDArray[Any]) -> list[Box]:
    """Return the boxes in pixels of all upright frontal faces on an RGB image, the largest first."""
    small: NDArray[Any] = in_eight_bits(image)  # the cascade takes these
    height, width = image.shape[:2]
    shrink = min(1.0, LONGEST / max(height, width))  # large photographs are searched at a smaller scale
    if shrink < 1:
        size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
        small = cv2.resize(small, size, interpolation=cv2.INTER_AREA)
    shorter = min(small.shape[:2])
    if shorter < LEAST_SIZE:
        return []
    least = max(LEAST_SIZE, shorter // SMALLEST_SHARE)
    found = _cascade().detect_multi_scale(
        img=small, scale_factor=SCALE_STEP, step_ratio=1, min_size=(least, least), max_size=(shorter, shorter)
    )
    boxes: list[Box] = []  # (row, column, height, width) in the photograph, the largest first
    for one in sorted(found, key=lambda one: one["width"] * one["height"], reverse=True):
        row, column, rows, columns = (round(one[name] / shrink) for name in ("r", "c", "height", "width"))
        box = (row, column, min(rows, height - row), min(columns, width - column))
        # The cascade may find a face several times; the largest box counts.
        if not any(_overlap(box, other) for other in boxes):
            boxes.append(box)
    return boxes


@cache
def _cascade() -> Any:
    """Return scikit-image's detector of upright frontal faces, which is loaded once."""
    from skimage.data import lbp_frontal_face_cascade_filename
    from skimage.feature import Cascade

    return Cascade(lbp_frontal_face_cascade_filename())


def _overlap(first: Box, second: Box) -> bool:
    """Return whether the middle of one box lies in the other, so that both show one face."""
    row, column = first[0] + first[2] / 2, first[1] + first[3] / 2
    return second[0] <= row <= second[0] + second[2] and second[1] <= column <= second[1] + second[3]


def crop_face(image: NDArray[Any], box: Box) -> NDArray[Any]:
    """Cut out the inside of a face's box (row, column, height, width): the middle share `CROP` of each side."""
    row, column, height, width = box
    top, left = row + round(height * (1 - CROP) / 2), column + round(width * (1 - CROP) / 2)
    return image[top : top + max(1, round(height * CROP)), left : left + max(1, round(width * CROP))]


def cut_faces(image: NDArray[Any], path: str | Path) -> list[tuple[Box, NDArray[Any]]]:
    """Cut out the faces of a photograph, the largest first; return boxes and what is in them."""
    boxes = find_faces(image)
    if not boxes:
        raise UnreadableError(f"{path}: {NO_FACE}; crop it by hand")
    return [(box, crop_face(image, box)) for box in boxes]


def read_face(path: str | Path) -> NDArray[Any]:
    """Read a photograph and cut out its largest face."""
    return cut_faces(of_camera(read_image(path), path), path)[0][1]
