"""Find the faces on a photograph, with what pip installs and no network.

scikit-image brings a local-binary-pattern cascade trained by OpenCV; OpenCV 5 itself has neither cascades nor
``CascadeClassifier`` any more, and its ``FaceDetectorYN`` wants a model that no wheel holds.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import UnreadableError
from visionnmf.io import read_image

__all__ = ["Box", "crop_face", "find_face", "find_faces", "read_face", "read_faces"]

LONGEST = 640  # pixels of the side that is searched; larger photographs are searched at a smaller scale
SMALLEST_SHARE = 8  # the smallest face is the shorter side over this
SCALE_STEP = 1.2
LEAST_SIZE = 24  # of the cascade's window
CROP = 0.84  # of the box: inside it, from the brows to the chin, there is no background

Box = tuple[int, int, int, int]


@cache
def _cascade() -> Any:
    from skimage.data import lbp_frontal_face_cascade_filename
    from skimage.feature import Cascade

    return Cascade(lbp_frontal_face_cascade_filename())


def find_faces(image: NDArray[Any]) -> list[Box]:
    """Find all upright frontal faces.

    Parameters
    ----------
    image : ndarray of uint8 or uint16 [shape=(height, width, 3)]
        RGB.

    Returns
    -------
    list of tuple of (row, column, height, width)
        In pixels, the largest first.

    Examples
    --------
    >>> from skimage.data import astronaut
    >>> from visionnmf.apps.faces import find_faces
    >>> len(find_faces(astronaut()[:300, 100:400])) > 0
    True
    """
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    height, width = image.shape[:2]
    shrink = min(1.0, LONGEST / max(height, width))
    small = image
    if shrink < 1:
        size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    shorter = min(small.shape[:2])
    if shorter < LEAST_SIZE:
        return []
    least = max(LEAST_SIZE, shorter // SMALLEST_SHARE)
    found = _cascade().detect_multi_scale(
        img=small, scale_factor=SCALE_STEP, step_ratio=1, min_size=(least, least), max_size=(shorter, shorter)
    )
    boxes: list[Box] = []
    for one in sorted(found, key=lambda one: one["width"] * one["height"], reverse=True):
        row, column, rows, columns = (round(one[name] / shrink) for name in ("r", "c", "height", "width"))
        box = (row, column, min(rows, height - row), min(columns, width - column))
        if not any(_overlap(box, other) for other in boxes):
            boxes.append(box)
    return boxes


def find_face(image: NDArray[Any]) -> Box | None:
    """Find the largest upright frontal face.

    Parameters
    ----------
    image : ndarray of uint8 or uint16 [shape=(height, width, 3)]
        RGB.

    Returns
    -------
    tuple of (row, column, height, width), or None
        In pixels; None when there is no face.

    Examples
    --------
    >>> from skimage.data import astronaut
    >>> from visionnmf.apps.faces import find_face
    >>> find_face(astronaut()[:300, 100:400]) is not None
    True
    """
    boxes = find_faces(image)
    return boxes[0] if boxes else None


def _overlap(first: Box, second: Box) -> bool:
    """Say whether the middle of one box lies in the other: two findings of one face."""
    row, column = first[0] + first[2] / 2, first[1] + first[3] / 2
    return second[0] <= row <= second[0] + second[2] and second[1] <= column <= second[1] + second[3]


def crop_face(image: NDArray[Any], box: Box) -> NDArray[Any]:
    """Cut out the inside of a face's box.

    Parameters
    ----------
    image : ndarray [shape=(height, width, 3)]
    box : tuple of (row, column, height, width)

    Returns
    -------
    ndarray [shape=(rows, columns, 3)]

    Examples
    --------
    >>> from skimage.data import astronaut
    >>> from visionnmf.apps.faces import crop_face, find_face
    >>> image = astronaut()[:300, 100:400]
    >>> crop_face(image, find_face(image)).ndim
    3
    """
    row, column, height, width = box
    top, left = row + round(height * (1 - CROP) / 2), column + round(width * (1 - CROP) / 2)
    return image[top : top + max(1, round(height * CROP)), left : left + max(1, round(width * CROP))]


def read_faces(path: str | Path) -> list[tuple[Box, NDArray[Any]]]:
    """Read a photograph and cut out its faces.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    list of (tuple of (row, column, height, width), ndarray of uint8 or uint16 [shape=(rows, columns, 3)])
        Boxes and what is in them, the largest first.

    Raises
    ------
    UnreadableError
        When no face is found.
    MediaError
        When the file cannot be read.

    Examples
    --------
    >>> from skimage.data import astronaut
    >>> from visionnmf.apps.faces import read_faces
    >>> from visionnmf.io import write_image
    >>> write_image("astronaut.png", astronaut()[:300, 100:400], force=True)
    >>> len(read_faces("astronaut.png")) > 0
    True
    """
    image = read_image(path)
    boxes = find_faces(image)
    if not boxes:
        raise UnreadableError(f"{path}: no upright frontal face was found; crop it by hand")
    return [(box, crop_face(image, box)) for box in boxes]


def read_face(path: str | Path) -> NDArray[Any]:
    """Read a photograph and cut out its largest face.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ndarray of uint8 or uint16 [shape=(rows, columns, 3)]

    Raises
    ------
    UnreadableError
        When no face is found.
    MediaError
        When the file cannot be read.

    Examples
    --------
    >>> from skimage.data import astronaut
    >>> from visionnmf.apps.faces import read_face
    >>> from visionnmf.io import write_image
    >>> write_image("astronaut.png", astronaut()[:300, 100:400], force=True)
    >>> read_face("astronaut.png").dtype
    dtype('uint8')
    """
    return read_faces(path)[0][1]
