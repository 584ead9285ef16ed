"""Segmentation of a picture: a tree of regions from learnt borders, cut where it is asked for.

The first regions are basins of a gradient over several scales; their borders are measured, judged and taken away one by
one (:mod:`.cues`, :mod:`.borders`, :mod:`.strength`); what results is an ultrametric tree (:mod:`.hierarchy`).
``docs/segmentation.md`` is the guide.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import find_objects

from visionnmf import choices
from visionnmf._checks import RandomState, brief, check_count, check_number
from visionnmf.engine.blocks import n_threads
from visionnmf.exceptions import ParameterError
from visionnmf.features import reduce_image, region_adjacency

from .borders import find_regions, measure
from .cleaning import remove_impulses
from .cues import find_cues
from .draw import OUTSIDE, overlay, to_eight_bits
from .hierarchy import Hierarchy
from .inputs import fill_outside, read_picture, reduce_mask
from .markers import Markers, check_markers, cut_at_markers, mark_regions
from .strength import load_learnt, merge_regions

__all__ = ["SegmentationResult", "segment", "segment_images"]

# The image is reduced to this many pixels before regions are sought.
WORKING_PIXELS = 2**18
NOTHING = 0.015  # borders up to this height part nothing: pieces of a flat area


@dataclass(frozen=True)
class SegmentationResult:
    """What :func:`segment` finds.

    Attributes
    ----------
    labels : ndarray of uint8 or uint16 [shape=(height, width)]
        The segment of each pixel, 0 to K - 1, from the largest segment to the smallest; uint16 only when K > 256, and
        with a mask, outside of which it is 65535 (so ``labels + 1`` is 0 there).
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
    values : ndarray [shape=(height, width, n_channels)] or None
        What was given, where it is not `image`: bands, or RGB in its own units.
    """

    labels: NDArray[Any]
    sizes: NDArray[np.int64]
    scale: float
    hierarchy: Hierarchy
    image: NDArray[Any]
    seconds: float
    values: NDArray[Any] | None = None

    __repr__ = brief

    def at(
        self, *, n_segments: int | None = None, scale: float | None = None, markers: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Read other segments from the same tree.

        Parameters
        ----------
        n_segments : int, >= 1, optional
            So many segments; fewer where the tree has fewer regions.
        scale : float in [0, 1], optional
            All borders up to this height are taken away: 0 leaves nearly all regions apart, 1 one segment.
        markers : array-like of int [shape=(height, width), >= 0], optional
            Seeds or scribbles: a number where a pixel is marked, else 0. Pixels of one number become one segment, those
            of different numbers are parted at the weakest border between them. Alone, all of the picture goes to the
            markers: a part without one to that which it merges with first. With `n_segments` or `scale` the segments
            found there are corrected, and those that bear no marker stay as they are.

        Returns
        -------
        ndarray of uint8 or uint16 [shape=(height, width)]
            As `labels`. Segments of a smaller scale lie within those of a larger one. Segments with markers come first,
            in the order of the markers' numbers.

        Raises
        ------
        ParameterError
            If not exactly one of `n_segments` and `scale` is given, at most one beside `markers`, or an argument is
            not as described.
        """
        return self._cut(n_segments, scale, markers)[0]

    def recut(
        self, *, n_segments: int | None = None, scale: float | None = None, markers: ArrayLike | None = None
    ) -> SegmentationResult:
        """Read other segments from the same tree, with all that a result knows about them.

        Parameters
        ----------
        n_segments : int, >= 1, optional
        scale : float in [0, 1], optional
        markers : array-like of int [shape=(height, width), >= 0], optional
            As in :meth:`at`.

        Returns
        -------
        SegmentationResult
            In its tree a region that bears several markers is divided.
        """
        labels, sizes, height, hierarchy = self._cut(n_segments, scale, markers)
        return replace(self, labels=labels, sizes=sizes, scale=height, hierarchy=hierarchy)

    def _cut(
        self, n_segments: int | None, scale: float | None, markers: ArrayLike | None
    ) -> tuple[NDArray[Any], NDArray[np.int64], float, Hierarchy]:
        numbered = None if markers is None else check_markers(markers, self.hierarchy.labels >= 0)
        return _cut(self.hierarchy, self.image, n_segments, scale, numbered)

    @cached_property
    def boundaries(self) -> NDArray[np.float32]:
        """The tree as a picture, ndarray of float32 [shape=(height, width), in [0, 1]]; see :class:`.Hierarchy`."""
        return self.hierarchy.boundary_map()

    @cached_property
    def adjacency(self) -> NDArray[np.int64]:
        """Pairs of segments that touch, the smaller label first: ndarray of int64 [shape=(m, 2)]."""
        pairs = region_adjacency(self.labels)
        return pairs[pairs[:, 1] < len(self.sizes)]

    def properties(self) -> list[dict[str, Any]]:
        """Describe each segment.

        Returns
        -------
        list of dict
            For each segment, in the order of labels: ``label``; ``area`` in pixels; ``colour``, its mean in the image's
            own units (RGB, or the bands); ``centre`` (row, column); ``box`` (first row, first column, last row + 1,
            last column + 1); ``neighbours``, labels of the segments that touch it. Plain numbers and lists.
        """
        height, width = self.labels.shape
        rows = self._mean(np.repeat(np.arange(height), width))
        columns = self._mean(np.tile(np.arange(width), height))
        values = self.image if self.values is None else self.values
        means = [self._mean(values[..., k].ravel()) for k in range(values.shape[2])]
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
            for label, box in enumerate(find_objects(self.labels.astype(np.int32) + 1, len(self.sizes)))
        ]

    def _mean(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(self.labels.ravel(), values)[: len(self.sizes)] / self.sizes

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
            How far each pixel belongs to each part, the largest first; they sum to 1 over the parts, but to 0 outside
            a mask.

        Raises
        ------
        ParameterError
            If an argument is not allowed.
        """
        from .parts import soft_parts  # with the estimators, which most runs do not need

        codes = soft_parts(self.hierarchy, n_components, loss=loss, random_state=random_state)
        return np.pad(codes, ((0, 0), (0, 1)))[:, self.hierarchy.labels]  # -1 is the last one

    def overlay(self) -> NDArray[np.uint8]:
        """Draw the segments over the picture.

        Returns
        -------
        ndarray of uint8 [shape=(height, width, 3)]
            As :func:`.draw.overlay` draws.
        """
        return overlay(self.image, self.labels)


def segment(
    image: ArrayLike,
    n_segments: int | None = None,
    *,
    scale: float | None = None,
    mask: ArrayLike | None = None,
    markers: ArrayLike | None = None,
    bands: bool = False,
) -> SegmentationResult:
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
    mask : array-like of bool [shape=(height, width)], optional
        Pixels where it is 0 belong to no segment, whatever they hold, NaN included.
    markers : array-like of int [shape=(height, width), >= 0], optional
        Marked pixels, as in :meth:`SegmentationResult.at`.
    bands : bool, default=False
        Whether the last axis of `image` holds any number of measurements, of any number type and range. Cues are then
        those of a colour picture of their first three principal components (:func:`.inputs.false_colours`).

    Returns
    -------
    SegmentationResult
        Labels of the size of `image`, and the tree, which answers for other numbers and scales.

    Raises
    ------
    ParameterError
        If an argument is out of its range, both `n_segments` and `scale` are given, or `image` has another shape or
        number type, is empty, or holds NaN, infinity or floats outside [0, 1].

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment
    >>> from visionnmf.datasets import make_mosaic
    >>> result = segment(make_mosaic(48, 64, random_state=0).image, n_segments=3)
    >>> result.labels.shape, len(result.sizes)
    ((48, 64), 3)
    """
    begin = time.perf_counter()
    _check_wanted(n_segments, scale)
    picture = read_picture(image, mask, bands)
    shape = picture.pixels.shape[:2]
    inside = np.ones(shape, bool) if picture.inside is None else picture.inside
    numbered = None if markers is None else check_markers(markers, inside)
    hierarchy = _grow(picture.pixels, picture.inside)
    if n_segments is None and scale is None and markers is None:
        scale = load_learnt().scale
    cut = _cut(hierarchy, picture.shown, n_segments, scale, numbered)
    return SegmentationResult(*cut, image=picture.shown, seconds=time.perf_counter() - begin, values=picture.values)


def segment_images(
    images: Iterable[ArrayLike],
    n_segments: int | None = None,
    *,
    scale: float | None = None,
    bands: bool = False,
    n_jobs: int | None = None,
) -> list[SegmentationResult]:
    """Divide several images into segments, each by itself.

    Parameters
    ----------
    images : iterable of array-like
        They may have different shapes.
    n_segments : int, 1 to 1000, optional
    scale : float in [0, 1], optional
    bands : bool, default=False
        As in :func:`segment`, for all of them.
    n_jobs : int, optional
        Threads; -1 for as many as there are processors. One, when not given.

    Returns
    -------
    list of SegmentationResult
        In the order of `images`.

    Raises
    ------
    ParameterError
        As :func:`segment`.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment_images
    >>> from visionnmf.datasets import make_mosaic
    >>> images = [make_mosaic(32, 48, random_state=seed).image for seed in (0, 1)]
    >>> [len(result.sizes) for result in segment_images(images, n_segments=2, n_jobs=1)]
    [2, 2]
    """
    threads = 1 if n_jobs is None else n_threads() if n_jobs == -1 else check_count(n_jobs, "n_jobs")

    def one(image: ArrayLike) -> SegmentationResult:
        return segment(image, n_segments, scale=scale, bands=bands)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, images))


def _check_wanted(n_segments: Any, scale: Any) -> None:
    if n_segments is not None and scale is not None:
        raise ParameterError(f"n_segments must be left out where scale is given; got {n_segments!r} and {scale!r}")
    if n_segments is not None:
        check_count(n_segments, "n_segments", 1, choices.MAX_SEGMENTS)
    if scale is not None:
        check_number(scale, "scale", 0, 1)


def _grow(pixels: NDArray[Any], inside: NDArray[np.bool_] | None) -> Hierarchy:
    """Grow the tree of a picture."""
    learnt = load_learnt()
    clean = remove_impulses(pixels)
    working = reduce_image(clean, WORKING_PIXELS)
    cues = find_cues(working, learnt.textons)
    working_inside = None if inside is None else reduce_mask(inside, working.shape[:2])
    partition = measure(cues, find_regions(cues.energy, working_inside))
    merged = merge_regions(partition, learnt)
    labels = partition.labels
    if labels.shape != pixels.shape[:2]:
        if working_inside is not None:
            labels = fill_outside(labels, working_inside)
        labels = _enlarge(labels, clean)
        if inside is not None:
            labels = np.where(inside, labels, np.int32(-1))
    tree = Hierarchy(labels, partition.edges, merged.children, merged.heights, merged.strengths)
    return tree.without(NOTHING)


def _cut(
    hierarchy: Hierarchy,
    image: NDArray[Any],
    n_segments: int | None,
    scale: float | None,
    markers: Markers | None,
) -> tuple[NDArray[Any], NDArray[np.int64], float, Hierarchy]:
    """Return labels, sizes, the height of the cut, and the tree, in which markers may divide regions."""
    if markers is None:
        merges = hierarchy.n_merges(n_segments=n_segments, scale=scale)
        cut = hierarchy.cut(n_segments=n_segments, scale=scale)
        return *_paint(hierarchy, cut), float(hierarchy.heights[merges - 1]) if merges else 0.0, hierarchy
    whole = n_segments is None and scale is None
    n_merges = None if whole else hierarchy.n_merges(n_segments=n_segments, scale=scale)
    n_regions = hierarchy.n_regions
    hierarchy, marked = mark_regions(hierarchy, markers, image)
    if n_merges is not None:
        n_merges += hierarchy.n_regions - n_regions  # the merges of pieces of a region come first
    cut, height = cut_at_markers(hierarchy, marked, n_merges)
    return *_paint(hierarchy, cut, n_named=int(marked.max()) + 1), height, hierarchy


def _paint(hierarchy: Hierarchy, cut: NDArray[np.int64], n_named: int = 0) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Name the segments by size, the largest 0; of equal ones the first in reading order comes first.

    The first `n_named` of the cut keep their numbers. 65535 is what lies outside a mask.
    """
    sizes = np.bincount(cut, hierarchy.sizes).astype(np.int64)
    first = np.full(len(sizes), hierarchy.labels.size)
    np.minimum.at(first, cut, hierarchy.first_pixels)
    order = np.lexsort((first, -sizes, np.minimum(np.arange(len(sizes)), n_named)))
    order = order[sizes[order] > 0]  # a region may be lost where the picture is enlarged
    masked = int(sizes.sum()) < hierarchy.labels.size
    names = np.full(len(sizes) + 1, OUTSIDE, np.uint16)  # -1 is the last one
    names[order] = np.arange(len(order))
    if not masked and len(order) <= 256:
        names = names.astype(np.uint8)
    return names[np.append(cut, -1)][hierarchy.labels], sizes[order]


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
