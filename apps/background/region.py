"""Where foreground counts: boxes, polygons and pictures.

A region is text. ``"x,y,width,height"`` is a box and ``"x,y x,y x,y ..."`` a polygon of at least three corners.
Anything else is the name of a picture of the size of the video, whose pixels brighter than half of white are inside.
Coordinates are pixels of the video from its upper left corner. Corners and edges belong to the region.
"""

from __future__ import annotations

import os

import cv2
import numpy as np

from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io import read_image, to_grey8

from .frame_arrays import FrameArray, Region
from .settings import RegionSettings

WHITE, HALF = 255, 127
FORMS = "x,y,width,height, three or more corners x,y x,y x,y, or a picture"


def read_region(region: RegionSettings, shape: tuple[int, int], scale: float = 1.0) -> Region:
    """Return the region for frames of `shape`, `scale` times as large as the video's."""
    inside, notes = np.full(shape, 0 if region.roi else WHITE, np.uint8), list[str]()
    for text in region.roi:
        inside |= _drawn("roi", text, shape, scale, notes)
    for text in region.ignore:
        inside &= ~_drawn("ignore", text, shape, scale, notes)
    if not inside.any():
        given = " and ".join(name for name in ("roi", "ignore") if getattr(region, name))
        raise ParameterError(f"{given} must leave a part of the picture; got nothing left")
    return Region(inside, notes)


def _drawn(name: str, region: str, shape: tuple[int, int], scale: float, notes: list[str]) -> FrameArray:
    """Return a region, a box, polygon or picture, as a mask of `shape`, `scale` times the video: 255 inside."""
    # Numbers are pixels of the video. Text that is not numbers is the name of a picture.
    points = [corner.split(",") for corner in region.split()]
    try:
        numbers = [[float(number) for number in corner] for corner in points]
    except ValueError:
        if not os.path.lexists(region):
            raise ParameterError(f"{name} must be {FORMS}; got {region!r}, and there is no such file") from None
        return _picture(region, shape, scale)
    if len(numbers) == 1 and len(numbers[0]) == 4:
        x, y, width, height = numbers[0]
        # Corners are pixels that belong to the box, hence - 1.
        corners = [(x, y), (x + width - 1, y), (x + width - 1, y + height - 1), (x, y + height - 1)]
        usable = width >= 1 and height >= 1
    else:
        usable = len(numbers) > 2 and all(len(corner) == 2 for corner in numbers)
        corners = [(corner[0], corner[-1]) for corner in numbers]
    # larger numbers than a million are surely mistakes, and might not fit into the whole numbers of OpenCV
    if not usable or not np.isfinite(corners).all() or np.abs(corners).max() > 1e6:
        raise ParameterError(f"{name} must be {FORMS}; got {region!r}")
    mask = np.zeros(shape, np.uint8)
    cv2.fillPoly(mask, [np.round(np.array(corners) * scale).astype(np.int32)], (WHITE,))
    width, height = (side / scale for side in reversed(shape))
    size = f"the picture, which has {width:.0f} x {height:.0f} pixels"
    if not mask.any():
        raise ParameterError(f"{name} must lie in {size}; got {region!r}")
    left, right, top, bottom = (end for axis in zip(*corners, strict=True) for end in (min(axis), max(axis)))
    last = len(numbers) == 1  # the last pixel of a box belongs to it; the corner of a polygon may be W,H
    if left < 0 or top < 0 or right > width - last or bottom > height - last:
        notes.append(f"{name}={region!r} does not lie wholly in {size}; the part inside counts")
    return mask


def _picture(path: str, shape: tuple[int, int], scale: float) -> FrameArray:
    """Return a mask of `shape`, 255 inside, from a picture of the source's size that is white inside the region."""
    grey = to_grey8(read_image(path))
    height, width = grey.shape
    if (max(1, round(height * scale)), max(1, round(width * scale))) != shape:
        raise UnsupportedError(f"{path}: has {width} x {height} pixels; give a picture of the size of the video")
    if grey.shape != shape:
        grey = np.asarray(cv2.resize(grey, shape[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    return np.where(grey > HALF, WHITE, 0).astype(np.uint8)
