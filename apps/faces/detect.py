"""Find the face on a photograph, with what pip installs and no network.

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

__all__ = ["crop_face", "find_face", "read_face"]

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
        return None
    least = max(LEAST_SIZE, shorter // SMALLEST_SHARE)
    found = _cascade().detect_multi_scale(
        img=small, scale_factor=SCALE_STEP, step_ratio=1, min_size=(least, least), max_size=(shorter, shorter)
    )
    if not found:
        return None
    box = max(found, key=lambda one: one["width"] * one["height"])
    row, column, rows, columns = (round(box[name] / shrink) for name in ("r", "c", "height", "width"))
    return row, column, min(rows, height - row), min(columns, width - column)


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


def read_face(path: str | Path) -> NDArray[Any]:
    """Read a photograph and cut out its face.

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
    image = read_image(path)
    box = find_face(image)
    if box is None:
        raise UnreadableError(f"{path}: no upright frontal face was found; crop it by hand")
    return crop_face(image, box)
