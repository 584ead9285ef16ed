"""Where foreground counts: boxes, polygons and pictures.

A region is text: ``"x,y,width,height"`` is a box, ``"x,y x,y x,y ..."`` a polygon of three corners or more, anything
else the name of a picture of the size of the video, whose pixels above half of white are inside. Coordinates are pixels
of the video, upright, from its upper left corner; corners and the pixels on a polygon's edge belong to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io import read_image, to_grey8

from .model import Separated

__all__ = ["read_regions", "within"]

FrameArray = NDArray[np.uint8]

WHITE, HALF = 255, 127


def read_regions(
    roi: Sequence[str], ignore: Sequence[str], shape: tuple[int, int], scale: float = 1.0
) -> FrameArray | None:
    """Return where foreground counts.

    Parameters
    ----------
    roi, ignore : sequence of str
        Regions where it counts, everywhere when there is none; and regions where it does not.
    shape : (int, int)
        Height and width of the results.
    scale : float, default=1.0
        Of the results to the video.

    Returns
    -------
    ndarray of uint8 [shape=(height, width)] or None
        255 where it counts, 0 elsewhere; None where it counts everywhere.

    Raises
    ------
    ParameterError
        If numbers do not make a box or a polygon, or nothing is left.
    UnsupportedError
        If a picture has another size than the video.
    UnreadableError
        If a picture cannot be read.
    """
    if not roi and not ignore:
        return None
    inside = np.full(shape, 0 if roi else WHITE, np.uint8)
    for region in roi:
        inside |= _drawn(region, shape, scale)
    for region in ignore:
        inside &= ~_drawn(region, shape, scale)
    if not inside.any():
        raise ParameterError("roi and ignore must leave a part of the picture; got nothing left")
    return inside


def within(part: Separated, region: FrameArray | None) -> Separated:
    """Return a frame whose mask is empty outside the region."""
    return part if region is None else replace(part, mask=part.mask & region)


def _drawn(region: str, shape: tuple[int, int], scale: float) -> FrameArray:
    """Return a region as a mask."""
    points = [corner.split(",") for corner in region.split()]
    try:
        numbers = [[float(number) for number in corner] for corner in points]
    except ValueError:
        return _picture(region, shape, scale)
    if len(numbers) == 1 and len(numbers[0]) == 4:
        x, y, width, height = numbers[0]
        corners = [(x, y), (x + width - 1, y), (x + width - 1, y + height - 1), (x, y + height - 1)]
        usable = width >= 1 and height >= 1
    else:
        usable = len(numbers) > 2 and all(len(corner) == 2 for corner in numbers)
        corners = [(corner[0], corner[-1]) for corner in numbers]
    if not usable or not np.isfinite(corners).all() or np.abs(corners).max() > 1e6:
        raise ParameterError(
            f"a region must be x,y,width,height, three or more corners x,y x,y x,y, or a picture; got {region!r}"
        )
    mask = np.zeros(shape, np.uint8)
    cv2.fillPoly(mask, [np.round(np.array(corners) * scale).astype(np.int32)], (WHITE,))
    return mask


def _picture(path: str, shape: tuple[int, int], scale: float) -> FrameArray:
    grey = to_grey8(read_image(path))
    height, width = grey.shape
    if (max(1, round(height * scale)), max(1, round(width * scale))) != shape:
        raise UnsupportedError(f"{path}: has {width} x {height} pixels; give a picture of the size of the video")
    if grey.shape != shape:
        grey = np.asarray(cv2.resize(grey, shape[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    return np.where(grey > HALF, WHITE, 0).astype(np.uint8)
