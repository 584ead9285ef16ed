"""Segmentation of a picture: a tree of regions from learnt borders, cut where it is asked for.

The first regions are basins of a gradient over several scales; their borders are measured, judged and taken away one by
one (:mod:`.cues`, :mod:`.borders`, :mod:`.strength`); what results is an ultrametric tree (:mod:`.hierarchy`).
``docs/segmentation.md`` is the guide.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import find_objects

from visionnmf import choices
from visionnmf._checks import RandomState, check_count, check_number
from visionnmf.exceptions import ParameterError
from visionnmf.features import check_image, reduce_image, region_adjacency

from .borders import find_regions, measure
from .cleaning import remove_impulses
from .cues import find_cues
from .draw import overlay, to_eight_bits
from .hierarchy import Hierarchy
from .parts import soft_parts
from .strength import load_learnt, merge_regions

__all__ = ["SegmentationResult", "segment"]

# The image is reduced to this many pixels before regions are sought.
WORKING_PIXELS = 2**18
NOTHING = 0.015  # borders up to this height part nothing: pieces of a flat area


@dataclass(frozen=True)
class SegmentationResult:
    """What :func:`segment` finds.

    Attributes
    ----------
    labels : ndarray of uint8 or uint16 [shape=(height, width)]
        The segment of each pixel, 0 to K - 1, from the largest segment to the smallest; uint16 only when K > 256.
    sizes : ndarray of int64 [shape=(K,)]
        Pixels of each segment.
    scale : float in [0, 1]
        Where the tree was cut: the height of the last merge that was done.
    hierarchy : Hierarchy
        The tree, from which other numbers of segments and other scales are read.
    image : ndarray [shape=(height, width, 3)]
        The picture, as RGB.
    seconds : float
        Time it took.
    """

    labels: NDArray[Any]
    sizes: NDArray[np.int64]
    scale: float
    hierarchy: Hierarchy
    image: NDArray[Any]
    seconds: float

    def at(self, *, n_segments: int | None = None, scale: float | None = None) -> NDArray[Any]:
        """Read other segments from the same tree.

        Parameters
        ----------
        n_segments : int, >= 1, optional
            So many segments; fewer where the tree has fewer regions.
        scale : float in [0, 1], optional
            All borders up to this height are taken away: 0 leaves nearly all regions apart, 1 one segment.

        Returns
        -------
        ndarray of uint8 or uint16 [shape=(height, width)]
            As `labels`. Segments of a smaller scale lie within those of a larger one.

        Raises
        ------
        ParameterError
            If not exactly one of the two is given, or it is out of its range.
        """
        return _paint(self.hierarchy, self.hierarchy.cut(n_segments=n_segments, scale=scale))[0]

    @cached_property
    def boundaries(self) -> NDArray[np.float32]:
        """The tree as a picture, ndarray of float32 [shape=(height, width), in [0, 1]]; see :class:`.Hierarchy`."""
        return self.hierarchy.boundary_map()

    @cached_property
    def adjacency(self) -> NDArray[np.int64]:
        """Pairs of segments that touch, the smaller label first: ndarray of int64 [shape=(m, 2)]."""
        return region_adjacency(self.labels)

    def properties(self) -> list[dict[str, Any]]:
        """Describe each segment.

        Returns
        -------
        list of dict
            For each segment, in the order of labels: ``label``; ``area`` in pixels; ``colour``, its mean in the image's
            own units (RGB); ``centre`` (row, column); ``box`` (first row, first column, last row + 1, last column + 1);
            ``neighbours``, labels of the segments that touch it. Plain numbers and lists.
        """
        flat, height, width = self.labels.ravel(), *self.labels.shape
        means = [np.bincount(flat, self.image[..., k].ravel()) / self.sizes for k in range(3)]
        rows = np.bincount(flat, np.repeat(np.arange(height), width)) / self.sizes
        columns = np.bincount(flat, np.tile(np.arange(width), height)) / self.sizes
        neighbours: list[list[int]] = [[] for _ in self.sizes]
        for i, j in self.adjacency.tolist():
            neighbours[i].append(j)
            neighbours[j].append(i)
        return [
            {
                "label": label,
                "area": int(self.sizes[label]),
                "colour": [float(mean[label]) for mean in means],
                "centre": [float(rows[label]), float(columns[label])],
                "box": [box[0].start, box[1].start, box[0].stop, box[1].stop],
                "neighbours": neighbours[label],
            }
            for label, box in enumerate(find_objects(self.labels.astype(np.int32) + 1))
        ]

    def parts(
        self, n_components: int = 5, *, loss: str = "manhattan", random_state: RandomState = 0
    ) -> NDArray[np.float32]:
        """Find soft parts by symmetric NMF of how well regions are connected over weak borders.

        Parameters
        ----------
        n_components : int, >= 1, default=5
            Parts.
        loss : {"manhattan", "frobenius"}, default="manhattan"
            Of :class:`~visionnmf.SymmetricNMF`.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the starts.

        Returns
        -------
        ndarray of float32 [shape=(n_components, height, width), in [0, 1]]
            How far each pixel belongs to each part, the largest first; they sum to 1 over the parts.

        Raises
        ------
        ParameterError
            If an argument is not allowed.
        """
        return soft_parts(self.hierarchy, n_components, loss=loss, random_state=random_state)[:, self.hierarchy.labels]

    def overlay(self) -> NDArray[np.uint8]:
        """Draw the segments over the picture.

        Returns
        -------
        ndarray of uint8 [shape=(height, width, 3)]
            As :func:`.draw.overlay` draws.
        """
        return overlay(self.image, self.labels)


def segment(image: ArrayLike, n_segments: int | None = None, *, scale: float | None = None) -> SegmentationResult:
    """Divide an image into segments.

    Parameters
    ----------
    image : array-like [shape=(height, width) or (height, width, 1, 3 or 4)]
        Grey, RGB or RGBA (blended onto white); uint8, uint16, or float in [0, 1].
    n_segments : int, 1 to 1000, optional
        Segments wanted. Fewer come back where there is no more to tell apart, as in a flat picture. As many as the
        picture has at `scale` when not given.
    scale : float in [0, 1], optional
        How strong a border must be to part two segments: smaller values give more of them. The default was chosen on
        training photographs.

    Returns
    -------
    SegmentationResult
        Labels of the size of `image`, and the tree, which answers for other numbers and scales.

    Raises
    ------
    ParameterError
        If an argument is out of its range, both `n_segments` and `scale` are given, or `image` has another shape or
        number type, is empty, or holds NaN, infinity or floats outside [0, 1].
    """
    begin = time.perf_counter()
    if n_segments is not None and scale is not None:
        raise ParameterError(f"n_segments must be left out where scale is given; got {n_segments!r} and {scale!r}")
    if n_segments is not None:
        n_segments = check_count(n_segments, "n_segments", 1, choices.MAX_SEGMENTS)
    if scale is not None:
        scale = check_number(scale, "scale", 0, 1)
    learnt = load_learnt()
    pixels = _full_range(check_image(image))
    clean = remove_impulses(pixels)
    working = reduce_image(clean, WORKING_PIXELS)
    cues = find_cues(working, learnt.textons)
    partition = measure(cues, find_regions(cues.energy))
    merged = merge_regions(partition, learnt)
    labels = _enlarge(partition.labels, clean)
    hierarchy = Hierarchy(labels, partition.edges, merged.children, merged.heights, merged.strengths)
    hierarchy = hierarchy.without(NOTHING)
    if n_segments is None and scale is None:
        scale = learnt.scale
    merges = hierarchy.n_merges(n_segments=n_segments, scale=scale)
    painted, sizes = _paint(hierarchy, hierarchy.cut(n_segments=n_segments, scale=scale))
    return SegmentationResult(
        labels=painted,
        sizes=sizes,
        scale=float(hierarchy.heights[merges - 1]) if merges else 0.0,
        hierarchy=hierarchy,
        image=pixels,
        seconds=time.perf_counter() - begin,
    )


def _full_range(pixels: NDArray[Any]) -> NDArray[Any]:
    """Bring a picture of 10, 12 or 14 bits, which comes in 16, to all of them."""
    if pixels.dtype != np.uint16:
        return pixels
    bits = max(8, int(pixels.max()).bit_length())
    return pixels << np.uint16(16 - bits) if bits < 16 else pixels


def _paint(hierarchy: Hierarchy, cut: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Name the segments by size, the largest 0; of equal ones the first in reading order comes first."""
    sizes = np.bincount(cut, hierarchy.sizes).astype(np.int64)
    first = np.full(len(sizes), hierarchy.labels.size)
    np.minimum.at(first, cut, hierarchy.first_pixels)
    order = np.lexsort((first, -sizes))
    order = order[: np.count_nonzero(sizes)]  # a region may be lost where the picture is enlarged
    names = np.zeros(len(sizes), np.uint8 if len(order) <= 256 else np.uint16)
    names[order] = np.arange(len(order))
    return names[cut][hierarchy.labels], sizes[order]


def _enlarge(labels: NDArray[np.int32], pixels: NDArray[Any]) -> NDArray[np.int32]:
    """Bring regions to the size of the picture, and their borders to where the picture changes most.

    Along borders a strip as wide as the reduction is undecided, and the picture's own watershed divides it; a region
    that lies wholly within the strip stays as it is.
    """
    shape = pixels.shape[:2]
    if labels.shape == shape:
        return labels
    large = cv2.resize(labels, shape[::-1], interpolation=cv2.INTER_NEAREST).astype(np.int32)
    reach = 2 * int(np.ceil(max(shape[0] / labels.shape[0], shape[1] / labels.shape[1]))) + 1
    window = np.ones((reach, reach), np.uint8)
    values = large.astype(np.float32)  # exact up to 2^24; the only wide enough type that OpenCV dilates
    undecided = cv2.dilate(values, window) != cv2.erode(values, window)
    kept = np.bincount(large[~undecided], minlength=int(labels.max()) + 1) > 0
    undecided &= kept[large]
    markers = np.where(undecided, 0, large + 1).astype(np.int32)
    cv2.watershed(to_eight_bits(pixels), markers)
    return _fill(markers, large)


def _fill(markers: NDArray[np.int32], before: NDArray[np.int32]) -> NDArray[np.int32]:
    """Give the lines that OpenCV draws between regions, and the frame, to a neighbour."""
    for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1)):
        line = markers < 1
        if not line.any():
            break
        neighbour = np.roll(markers, step, axis)
        markers = np.where(line & (neighbour > 0), neighbour, markers)
    return np.where(markers < 1, before, markers - 1)
