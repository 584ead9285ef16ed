"""Segmentation of a picture: a tree of regions from learnt borders, cut where the user asks for it.

The first regions are basins of a gradient over several scales (:mod:`.cues`). Their borders are measured, judged and
removed one by one (:mod:`.regions`), which gives an ultrametric tree (:mod:`.hierarchy`).
``docs/segmentation.md`` is the guide.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf import choices
from visionnmf._checks import brief, check_choice
from visionnmf._text import counted
from visionnmf.exceptions import ParameterError
from visionnmf.features import reduce_image

from .cues import find_cues
from .hierarchy import STRIP, Hierarchy, region_adjacency
from .markers import Markers, check_markers, cut_at_markers, mark_regions
from .network import load_network
from .overlays import OUTSIDE, colours, overlay, to_eight_bits
from .pictures import fill_outside, read_picture, remove_impulses, remove_noise, resize_mask
from .regions import find_regions, load_border_model, measure, merge_regions
from .settings import AUTO, WantedSegments

WORKING_PIXELS = 2**18  # the picture is reduced to so many pixels before regions are sought
# A smaller picture is enlarged to FEWEST_PIXELS pixels, but at most MOST_TIMES times as wide and high. Borders were
# learnt on pictures of 481 x 321.
FEWEST_PIXELS = 77_000
MOST_TIMES = 8
NOTHING = 0.015  # borders up to this height divide flat areas only, and are removed at once
# More segments than this are superpixels, which divide what looks alike until there are as many as are asked for.
# Photographs have more regions than this by themselves, 136 to 410.
FEW = 100
# First regions for each superpixel that is asked for, which the tree then merges: best of 1, 1.5, 2 and 3 on ten
# validation photographs (achievable accuracy with 1000: 0.967, 0.969, 0.970 and 0.970; SLIC has 0.959).
FINER = 2


@dataclass(frozen=True)
class SegmentationResult:
    """The segments of a picture, and the tree from which others are read.

    Attributes
    ----------
    labels : ndarray of uint8 or uint16 [shape=(height, width)]
        The segment of each pixel, 0 to K - 1, from the largest segment to the smallest; uint16 only when K > 256, and
        with a mask, outside of which it is 65535 (so ``labels + 1`` is 0 there).
    sizes : ndarray of int64 [shape=(K,)]
        Pixels of each segment.
    scale : float in [0, 1] or None
        The height of the last merge that was done; None if the segments are not those of a cut of the tree.
    hierarchy : Hierarchy
        The tree, from which other numbers of segments and other scales are read.
    image : ndarray [shape=(height, width, 3)]
        The picture, as RGB.
    seconds : float
        The time that the segmentation took.
    values : ndarray [shape=(height, width, n_channels)] or None
        What was given, if it is not `image`: bands, or RGB in its own units.
    memberships : ndarray of float32 [shape=(K, height, width), in [0, 1]] or None
        With the method "nmf": how far each pixel belongs to each segment. They sum to 1 over the segments, and a pixel
        is in the segment to which it belongs most. Outside a mask they are 0.
    drawn : ndarray of uint8 [shape=(m, 3)] or None
        RGB of the first m segments, if a person drew markers for them in these colours.
    marker_names : tuple of str
        Of the first m segments: the number, or the colour in a file, with which each was marked.
    """

    labels: NDArray[Any]
    sizes: NDArray[np.int64]
    scale: float | None
    hierarchy: Hierarchy
    image: NDArray[Any]
    seconds: float
    values: NDArray[Any] | None = None
    memberships: NDArray[np.float32] | None = None
    drawn: NDArray[np.uint8] | None = None
    marker_names: tuple[str, ...] = ()

    __repr__ = brief

    @property
    def colours(self) -> NDArray[np.uint8]:
        """RGB of each segment in pictures: ndarray of uint8 [shape=(K, 3)]."""
        return colours(len(self.sizes), self.drawn)

    def at(
        self, *, n_segments: int | None = None, scale: float | None = None, markers: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Read other segments from the same tree.

        Parameters
        ----------
        n_segments : int, >= 1, optional
            The number of segments; there are fewer, with a warning, where the tree has fewer regions. :func:`segment`
            grows a tree of as many regions as it is asked for.
        scale : float in [0, 1], optional
            All borders up to this height are removed: 0 leaves nearly all regions apart, 1 gives one segment.
        markers : array-like of int [shape=(height, width), >= 0], optional
            Seeds or scribbles: a number where a pixel is marked, else 0. Pixels with the same number become one
            segment; different numbers are parted at the weakest border between them. Without `n_segments` and `scale`
            the whole picture is divided among the markers: a part without a marker goes to the marker that it merges
            with first. With one of them the segments found there are corrected, and those without a marker stay.

        Returns
        -------
        ndarray of uint8 or uint16 [shape=(height, width)]
            As `labels`. Segments at a smaller scale lie within those at a larger one. Segments with markers come
            first, in the order of the markers' numbers.

        Raises
        ------
        ParameterError
            If not one of `n_segments` and `scale` is given (with `markers`: at most one), or an argument is wrong.
        """
        return self.recut(n_segments=n_segments, scale=scale, markers=markers).labels

    def recut(
        self, *, n_segments: int | None = None, scale: float | None = None, markers: ArrayLike | None = None
    ) -> SegmentationResult:
        """Read other segments from the same tree, as :meth:`at` does, with everything that belongs to them.

        Returns
        -------
        SegmentationResult
            In its tree regions with several markers are divided. It has no `memberships`.
        """
        numbered = None if markers is None else check_markers(markers, self.hierarchy.labels >= 0)
        cut = _cut(self.hierarchy, self.image, n_segments, scale, numbered)
        if n_segments is not None and markers is None and len(cut.sizes) < n_segments:
            why = f"the tree has no more regions; segment(image, {n_segments}) may find more"
            warnings.warn(
                f"{counted(len(cut.sizes), 'segment')} in place of {n_segments}: {why}", UserWarning, stacklevel=2
            )
        names = numbered.names if numbered else ()
        return replace(self, **cut._asdict(), memberships=None, drawn=None, marker_names=names)

    @cached_property
    def boundaries(self) -> NDArray[np.float32]:
        """The borders of all segmentations (height, width), as :meth:`.Hierarchy.boundary_map` draws them."""
        return self.hierarchy.boundary_map()

    @cached_property
    def adjacency(self) -> NDArray[np.int64]:
        """Pairs of segments that touch, the smaller label first: ndarray of int64 [shape=(m, 2)]."""
        pairs = region_adjacency(self.labels)
        # `sizes` has an item for each segment; pixels outside a mask have the label 65535, which is no segment
        return pairs[pairs[:, 1] < len(self.sizes)]

    def properties(self) -> list[dict[str, Any]]:
        """Describe each segment.

        Returns
        -------
        list of dict
            For each segment, in the order of labels: ``label``; ``area`` in pixels; ``colour``, its mean in the image's
            own units (RGB, or the bands); ``centre`` (row, column); ``box`` (first row, first column, last row + 1,
            last column + 1); ``neighbours``, the labels of the segments that touch it. All are plain numbers and lists.
        """
        from scipy.ndimage import find_objects  # most runs do not need it

        height, width = self.labels.shape
        # the centres, and below the colours, are means over the pixels of each segment
        rows = self._mean(np.repeat(np.arange(height), width))
        columns = self._mean(np.tile(np.arange(width), height))
        values = self.image if self.values is None else self.values  # the image in its own units
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
            # + 1, because `find_objects` takes 0 for the background
            for label, box in enumerate(find_objects(self.labels.astype(np.int32) + 1, len(self.sizes)))
        ]

    def _mean(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the mean over each segment, (K,), of `values`, one for each pixel in reading order."""
        # pixels outside a mask have the label 65535, so their sum is cut off
        return np.bincount(self.labels.ravel(), values)[: len(self.sizes)] / self.sizes

    def overlay(self) -> NDArray[np.uint8]:
        """Draw the segments over the picture, as :func:`.overlay` does.

        Returns
        -------
        ndarray of uint8 [shape=(height, width, 3)]
        """
        return overlay(self.image, self.labels, self.colours)

    def _repr_html_(self) -> str:
        """Show the overlay and the figures, in notebooks."""
        from visionnmf._html import table, thumbnail

        figures = {"segments": len(self.sizes), "scale": self.scale, "seconds": self.seconds}
        return thumbnail(self.overlay(), "segments") + table(figures)


def segment(
    image: ArrayLike,
    n_segments: int | str | None = None,
    *,
    method: str = "tree",
    loss: str | None = None,
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
    n_segments : int from 1 to 1000, or "auto", optional
        The number of segments. There are fewer, with a warning, where there is no more to tell apart. More than
        100 are superpixels, which also divide what looks alike. "auto", and the default without `scale` and `markers`,
        gives those at the scale that was chosen on training photographs.
    method : {"tree", "nmf"}, default="tree"
        "tree" cuts a tree of regions over learnt borders. "nmf" factorises how low in the tree these regions meet by
        symmetric NMF, and puts each region into the part to which it belongs most, which gives `memberships`.
    loss : {"manhattan", "frobenius"}, optional
        The loss of the factorisation, with the method "nmf" only; "manhattan" if not given.
    scale : float in [0, 1], optional
        How strong a border must be to part two segments: smaller values give more segments.
    mask : array-like of bool [shape=(height, width)], optional
        Pixels where it is 0 belong to no segment, whatever they hold, NaN included.
    markers : array-like of int [shape=(height, width), >= 0], optional
        Marked pixels, as in :meth:`SegmentationResult.at`.
    bands : bool, default=False
        Whether the last axis of `image` holds any number of measurements, of any number type and range. Cues are then
        those of a colour picture of their first three principal components (:func:`.pictures.false_colours`).

    Returns
    -------
    SegmentationResult
        Labels of the size of `image`, and the tree, from which other numbers and scales are read.

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
    wanted = WantedSegments(n_segments=n_segments, scale=scale, method=method, loss=loss)  # checks them
    # the settings also allow the method "paper", which `paper_segments` does
    check_choice(method, "method", ("tree", "nmf"))
    if method == "nmf" and markers is not None:
        raise ParameterError("markers must be left out with the method nmf, because they divide a tree; got markers")
    picture = read_picture(image, mask, bands)
    inside = np.ones(picture.pixels.shape[:2], bool) if picture.inside is None else picture.inside
    numbered = None if markers is None else check_markers(markers, inside)
    count, scale = wanted.n_segments, wanted.scale
    if count == AUTO or (count is None and scale is None and markers is None):  # "auto", or nothing was asked for
        count, scale = None, load_border_model().scale
    hierarchy = _grow(picture.pixels, picture.inside, 1 if count is None or method == "nmf" else count)
    memberships: NDArray[np.float32] | None = None
    if method == "nmf":
        # without a number, as many as the tree has at this scale
        n_parts = hierarchy.n_regions - hierarchy.n_merges(scale=scale) if count is None else count
        labels, sizes, memberships = _factorise(hierarchy, n_parts, loss or choices.SEGMENT_LOSSES[0])
        cut = _Cut(labels, sizes, None, hierarchy)
    else:
        cut = _cut(hierarchy, picture.shown, count, scale, numbered)
    if markers is None and (sentence := fewer_segments(wanted, len(cut.sizes))):
        warnings.warn(sentence, UserWarning, stacklevel=2)
    seconds = time.perf_counter() - begin
    names = numbered.names if numbered else ()
    return SegmentationResult(*cut, picture.shown, seconds, picture.values, memberships, marker_names=names)


def fewer_segments(wanted: WantedSegments, found: int) -> str:
    """Return a sentence if there are fewer segments than were asked for, and no markers, which may join some."""
    asked = wanted.n_segments
    if not isinstance(asked, int) or found >= asked or wanted.markers is not None:
        return ""
    reason = "no region belongs most to another part" if wanted.method == "nmf" else "there is no more to tell apart"
    return f"{counted(found, 'segment')} in place of {asked}: {reason}"


def _grow(pixels: NDArray[Any], inside: NDArray[np.bool_] | None, n_segments: int) -> Hierarchy:
    """Return the tree of regions of a picture; with at least `n_segments` regions if these are more than FEW."""
    model = load_border_model()
    clean = remove_impulses(pixels)
    working = _enlarge_picture(remove_noise(reduce_image(clean, WORKING_PIXELS)))
    cues = find_cues(working, load_network())
    working_inside = None if inside is None else resize_mask(inside, working.shape[:2])
    largest = int(np.sqrt(cues.energy.size / (FINER * n_segments)))
    for cell in (None, *range(max(2, largest), 1, -1)):  # smaller cells of a grid give more first regions
        partition = measure(cues, find_regions(cues.energy, working_inside, cell))
        merges = merge_regions(partition, model)  # all merges of two neighbours, the weakest border first
        labels = _full_size(partition.labels, clean, inside, working_inside)
        whole = Hierarchy(labels, partition.edges, merges.children, merges.heights, merges.strengths)
        if cell is None:
            tree = whole.without(NOTHING).without_empty()
        if n_segments > max(FEW, tree.n_regions):
            tree = max(tree, whole.without_empty(), key=lambda found: found.n_regions)
        if n_segments <= max(FEW, tree.n_regions):
            break
    return tree


def _full_size(
    labels: NDArray[np.int32],
    clean: NDArray[Any],
    inside: NDArray[np.bool_] | None,
    working_inside: NDArray[np.bool_] | None,
) -> NDArray[np.int32]:
    """Return labels of the reduced or enlarged picture in the size of the picture, -1 outside the mask."""
    shape = clean.shape[:2]
    if labels.size > shape[0] * shape[1]:  # the picture was enlarged: each pixel has the region of its centre
        return cv2.resize(labels, shape[::-1], interpolation=cv2.INTER_NEAREST_EXACT).astype(np.int32)
    if labels.shape == shape:
        return labels
    if working_inside is not None:  # so that no -1 is enlarged into the mask, which is applied again below
        labels = fill_outside(labels, working_inside)
    labels = _enlarge(labels, clean)
    return labels if inside is None else np.where(inside, labels, np.int32(-1))


class _Cut(NamedTuple):
    """Segments of a tree: the first four attributes of :class:`SegmentationResult`."""

    labels: NDArray[Any]
    sizes: NDArray[np.int64]
    scale: float | None
    hierarchy: Hierarchy


def _cut(
    hierarchy: Hierarchy, image: NDArray[Any], n_segments: int | None, scale: float | None, markers: Markers | None
) -> _Cut:
    """Return the segments of a number or a scale, corrected by markers, or of markers alone."""
    if markers is None:
        merges = hierarchy.n_merges(n_segments=n_segments, scale=scale)
        cut = hierarchy.cut(n_segments=n_segments, scale=scale)
        labels, sizes = _number_by_size(hierarchy, cut)
        return _Cut(labels, sizes, float(hierarchy.heights[merges - 1]) if merges else 0.0, hierarchy)
    divided, marker_of = mark_regions(hierarchy, markers, image)
    n_merges: int | None = None  # all of them: the whole picture is divided among the markers
    if n_segments is not None or scale is not None:
        n_pieces = divided.n_regions - hierarchy.n_regions  # the pieces of a region are merged first
        n_merges = hierarchy.n_merges(n_segments=n_segments, scale=scale) + n_pieces
    cut, height_of_cut = cut_at_markers(divided, marker_of, n_merges)  # the height of the last merge in the tree
    labels, sizes = _number_by_size(divided, cut, n_named=int(marker_of.max()) + 1)
    return _Cut(labels, sizes, height_of_cut, divided)


def _factorise(
    hierarchy: Hierarchy, n_segments: int, loss: str
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float32]]:
    """Return the labels of segments by symmetric NMF, their sizes, and the memberships of pixels (K, height, width)."""
    from .soft_parts import find_segments  # imports the estimators, which other runs do not need

    cut, codes = find_segments(hierarchy, n_segments, loss)
    labels, sizes = _number_by_size(hierarchy, cut)
    # The labels are numbered by size, so find the part of the factorisation (a row of `codes`) of each label.
    inside = hierarchy.labels >= 0
    part = np.empty(len(sizes), np.int64)
    part[labels[inside]] = cut[hierarchy.labels[inside]]
    # labels are -1 outside the mask, which takes the last column, the zeros that are appended here
    return labels, sizes, np.pad(codes[part], ((0, 0), (0, 1)))[:, hierarchy.labels]


def _number_by_size(
    hierarchy: Hierarchy, cut: NDArray[np.int64], n_named: int = 0
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the label map and the sizes of segments, numbered from the largest, 0, to the smallest."""
    sizes = np.bincount(cut, hierarchy.sizes).astype(np.int64)
    first = np.full(len(sizes) + 1, hierarchy.labels.size)  # the first pixel of each segment; the last is outside
    # written from the last pixel to the first, so that the first pixel stays
    for start in reversed(range(0, len(hierarchy.labels), STRIP)):
        strip = hierarchy.labels[start : start + STRIP].ravel()
        first[np.append(cut, -1)[strip[::-1]]] = start * hierarchy.labels.shape[1] + np.arange(strip.size)[::-1]
    # the last key is the main one: the named segments in their order, then all others, for which it is the same number
    order = np.lexsort((first[:-1], -sizes, np.minimum(np.arange(len(sizes)), n_named)))
    masked = int(sizes.sum()) < hierarchy.labels.size  # pixels outside a mask are in no segment
    names = np.full(len(sizes) + 1, OUTSIDE, np.uint16)  # label -1 takes the last name
    names[order] = np.arange(len(order))
    if not masked and len(order) <= 256:
        names = names.astype(np.uint8)
    return names[np.append(cut, -1)][hierarchy.labels], sizes[order]


def _enlarge_picture(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a picture (height, width, 3) in [0, 1], enlarged if it has fewer than FEWEST_PIXELS."""
    height, width = picture.shape[:2]
    times = min(MOST_TIMES, float(np.sqrt(min(FEWEST_PIXELS, WORKING_PIXELS) / (height * width))))
    if times <= 1:
        return picture
    size = round(width * times), round(height * times)
    return np.asarray(np.clip(cv2.resize(picture, size, interpolation=cv2.INTER_CUBIC), 0, 1), np.float32)


def _enlarge(labels: NDArray[np.int32], pixels: NDArray[Any]) -> NDArray[np.int32]:
    """Enlarge regions of a reduced picture to its size, and move their borders to where the picture changes most."""
    shape = pixels.shape[:2]
    large = cv2.resize(labels, shape[::-1], interpolation=cv2.INTER_NEAREST).astype(np.int32, copy=False)
    # the window of a pixel reaches as far to each side as one pixel of the reduced picture
    reach = 2 * int(np.ceil(max(shape[0] / labels.shape[0], shape[1] / labels.shape[1]))) + 1
    window = np.ones((reach, reach), np.uint8)
    undecided = np.empty(shape, bool)
    kept = np.zeros(int(labels.max()) + 1, bool)
    for start in range(0, shape[0], STRIP):  # strips of rows take little memory
        rows, above = slice(start, start + STRIP), max(0, start - reach)
        # exact up to 2^24, and the only wide enough type that OpenCV dilates
        values = large[above : start + STRIP + reach].astype(np.float32)
        undecided[rows] = (cv2.dilate(values, window) != cv2.erode(values, window))[start - above :][:STRIP]
        kept[large[rows][~undecided[rows]]] = True
    undecided &= kept[large]
    markers = large + 1
    markers[undecided] = 0
    cv2.watershed(to_eight_bits(pixels), markers)  # changes `markers` in place
    # OpenCV leaves lines between regions and a frame; they go to a neighbour
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        line = np.nonzero(markers < 1)
        neighbour = markers[(line[0] + down) % shape[0], (line[1] + right) % shape[1]]
        markers[line] = np.where(neighbour > 0, neighbour, markers[line])
    markers -= 1
    left = markers < 0
    markers[left] = large[left]
    return markers
