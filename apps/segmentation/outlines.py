"""Outlines of segments along the sides of pixels: exact, so that outlines of neighbours share their vertices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects

__all__ = ["Polygon", "find_outlines", "find_simple_outlines", "label_outlines"]

Ring = NDArray[np.int64]


class Polygon(NamedTuple):
    """A piece of a segment.

    Attributes
    ----------
    exterior : ndarray of int64 [shape=(n, 2)]
        Corners (x, y), x to the right and y downwards, (0, 0) the picture's corner; counter-clockwise as it is seen.
        The last corner is joined to the first.
    holes : list of ndarray of int64 [shape=(n, 2)]
        Clockwise.
    """

    exterior: Ring
    holes: list[Ring]


def label_outlines(labels: NDArray[Any], count: int) -> Iterator[list[Polygon]]:
    """Yield the outlines of each segment.

    Parameters
    ----------
    labels : ndarray of int [shape=(height, width)]
    count : int
        Labels 0 to count - 1 are segments; each occurs.

    Yields
    ------
    list of Polygon
        As :func:`find_outlines`, in the picture's coordinates.
    """
    for mask, corner in label_masks(labels, count):
        yield [Polygon(p.exterior + corner, [hole + corner for hole in p.holes]) for p in find_outlines(mask)]


def label_masks(labels: NDArray[Any], count: int) -> Iterator[tuple[NDArray[np.bool_], Ring]]:
    """Yield each segment as a mask of its box, and the box's corner (x, y)."""
    boxes = find_objects(labels.astype(np.int32) + 1, count)
    for label, box in enumerate(boxes):
        yield labels[box] == label, np.array([box[1].start, box[0].start])


def find_outlines(mask: NDArray[np.bool_]) -> list[Polygon]:
    """Trace a mask.

    Parameters
    ----------
    mask : ndarray of bool [shape=(height, width)]

    Returns
    -------
    list of Polygon
        One for each 4-connected piece, valid as the OGC has it: rings touch one another in single points at most.
    """
    return [_trace(piece, corner) for piece, corner in _pieces(mask)]


def find_simple_outlines(mask: NDArray[np.bool_]) -> list[Ring]:
    """Trace a mask as polygons without holes: a piece that has some is cut upright through them.

    Parameters
    ----------
    mask : ndarray of bool [shape=(height, width)]

    Returns
    -------
    list of ndarray of int64 [shape=(n, 2)]
        Rings that do not overlap and cover the mask.
    """
    rings = []
    waiting = list(_pieces(mask))
    while waiting:
        piece, corner = waiting.pop()
        polygon = _trace(piece, corner)
        if not polygon.holes:
            rings.append(polygon.exterior)
            continue
        # the middle one of the holes, so that few cuts do for many
        middles = sorted((int(hole[:, 0].min()) + int(hole[:, 0].max())) // 2 for hole in polygon.holes)
        column = middles[len(middles) // 2] - int(corner[0])
        waiting += [(part, corner + place) for part, place in _pieces(piece[:, :column])]
        waiting += [(part, corner + np.array([column, 0]) + place) for part, place in _pieces(piece[:, column:])]
    return rings


def _pieces(mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], Ring]]:
    """Yield the 4-connected pieces of a mask, each in its box, and the boxes' corners (x, y)."""
    count, names, boxes, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    for name in range(1, count):
        x, y, width, height = boxes[name, :4].tolist()
        yield names[y : y + height, x : x + width] == name, np.array([x, y])


def _trace(piece: NDArray[np.bool_], corner: Ring) -> Polygon:
    around = np.pad(~piece, 1, constant_values=True)
    # what lies around a piece, as 4-connected areas: the first is the outside
    count, areas, boxes, _ = cv2.connectedComponentsWithStats(around.astype(np.uint8), connectivity=4)
    holes = []
    for area in range(1, count):
        if area == areas[0, 0]:
            continue
        x, y, width, height = boxes[area, :4].tolist()
        hole = areas[y : y + height, x : x + width] == area
        holes.append(_ring(hole)[::-1] + corner + (x - 1, y - 1))
    return Polygon(_ring(piece) + corner, holes)


def _ring(piece: NDArray[np.bool_]) -> Ring:
    """Trace the outer border of an area that is 4-connected.

    OpenCV's contours go through the centres of pixels. Here each pixel is four: the outermost pixels then lie on one
    side of a known line between pixels, and half their places, rounded up, are its corners.
    """
    fine = piece.astype(np.uint8).repeat(2, axis=0).repeat(2, axis=1)
    (contour,) = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]
    ring = (contour[:, 0].astype(np.int64) + 1) // 2
    ring = ring[(ring != np.roll(ring, 1, axis=0)).any(axis=1)]
    straight = (np.roll(ring, 1, axis=0) == ring) & (ring == np.roll(ring, -1, axis=0))
    return ring[~straight.any(axis=1)]
