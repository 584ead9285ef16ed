"""Outlines of segments along the sides of pixels. They are exact, so outlines of neighbours share their vertices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects

__all__ = ["Polygon", "find_outlines", "label_masks", "label_outlines"]

Ring = NDArray[np.int64]


class Polygon(NamedTuple):
    """A piece of a segment: its exterior ring, and the rings of its holes.

    A ring (n, 2) has the corners (x, y), x to the right and y downwards, with (0, 0) the picture's corner; its last
    corner is joined to the first. As it is seen, the exterior runs counter-clockwise and holes run clockwise.
    """

    exterior: Ring
    holes: list[Ring]


def label_outlines(labels: NDArray[Any], count: int) -> Iterator[list[Polygon]]:
    """Yield the outlines of the segments 0 to count - 1, in the coordinates of the picture."""
    for mask, corner in label_masks(labels, count):
        yield [Polygon(p.exterior + corner, [hole + corner for hole in p.holes]) for p in find_outlines(mask)]


def label_masks(labels: NDArray[Any], count: int) -> Iterator[tuple[NDArray[np.bool_], Ring]]:
    """Yield each segment as a mask of its box, and the corner (x, y) of the box."""
    boxes = find_objects(labels.astype(np.int32) + 1, count)
    for label, box in enumerate(boxes):
        yield labels[box] == label, np.array([box[1].start, box[0].start])


def find_outlines(mask: NDArray[np.bool_]) -> list[Polygon]:
    """Trace a mask: one polygon for each 4-connected piece. Rings touch one another in single points at most (OGC)."""
    return [_trace(piece, corner) for piece, corner in _pieces(mask)]


def _pieces(mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], Ring]]:
    """Yield the 4-connected pieces of a mask, each in its box, and the corners (x, y) of the boxes."""
    count, names, boxes, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    for name in range(1, count):
        x, y, width, height = boxes[name, :4].tolist()
        yield names[y : y + height, x : x + width] == name, np.array([x, y])


def _trace(piece: NDArray[np.bool_], corner: Ring) -> Polygon:
    """Trace one 4-connected piece and its holes."""
    around = np.pad(~piece, 1, constant_values=True)
    # 4-connected areas of what is not the piece; the one in the corner is the outside, the others are holes
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
    """Trace the outer border of a 4-connected area.

    OpenCV's contours go through the centres of pixels. Here each pixel is made four, so the outermost of them lie on
    known sides of the lines between pixels, and half their coordinates, rounded up, are the corners.
    """
    fine = piece.astype(np.uint8).repeat(2, axis=0).repeat(2, axis=1)
    (contour,) = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]
    ring = (contour[:, 0].astype(np.int64) + 1) // 2
    ring = ring[(ring != np.roll(ring, 1, axis=0)).any(axis=1)]
    straight = (np.roll(ring, 1, axis=0) == ring) & (ring == np.roll(ring, -1, axis=0))
    return ring[~straight.any(axis=1)]
