"""Markers drawn by a person: they divide the tree of regions without a new fit.

The rule is that of Kruskal's algorithm. Borders between regions are removed from the weakest to the strongest in the
tree; among those that one merge removes, the one that is weakest by itself comes first. A border between two parts with
different markers is never removed. So different markers are parted at the weakest border between them, and a part
without a marker goes to the marker that it merges with first: a minimum spanning forest whose roots are the markers
(Cousty et al. 2009). Equal markers are one segment, whether they touch or not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_numbers
from visionnmf.exceptions import ParameterError

from .hierarchy import Hierarchy, region_adjacency
from .overlays import to_eight_bits
from .regions import watershed

MOST_MARKERS = 1000


class Markers(NamedTuple):
    """Marked pixels in reading order, the marker of each, 0 to m - 1 in the order of the markers' values, and these."""

    places: NDArray[np.int64]
    numbers: NDArray[np.int64]
    names: tuple[str, ...]


class MarkedTree(NamedTuple):
    """A tree, in which regions with several markers are divided, and the marker of each region; -1 for none."""

    hierarchy: Hierarchy
    markers: NDArray[np.int64]


def check_markers(markers: ArrayLike, mask: NDArray[np.bool_]) -> Markers:
    """Return the marked pixels inside the mask; ParameterError unless they are whole numbers of the mask's shape."""
    found = check_numbers(markers, "markers", None)
    if found.shape != mask.shape:
        raise ParameterError(f"markers must have the image's shape {mask.shape}; got {found.shape}")
    if found.dtype.kind not in "bui" or found.min() < 0:
        raise ParameterError(
            "markers must be whole numbers >= 0, 0 where nothing is marked; got "
            + (f"{found.min()}" if found.dtype.kind in "bui" else f"dtype {found.dtype}")
        )
    places = np.flatnonzero(found)
    names, index = np.unique(found.ravel()[places], return_inverse=True)
    if not 1 <= len(names) <= MOST_MARKERS:
        raise ParameterError(f"markers must have from 1 to {MOST_MARKERS} different values beside 0; got {len(names)}")
    inside = mask.ravel()[places]
    lost = np.setdiff1d(np.arange(len(names)), index[inside])  # markers without a pixel inside the mask
    if len(lost):
        raise ParameterError(f"markers must lie inside the mask; got {names[lost[0]]} outside alone")
    return Markers(places[inside], index[inside], tuple(str(int(name)) for name in names))


def mark_regions(hierarchy: Hierarchy, markers: Markers, image: NDArray[Any]) -> MarkedTree:
    """Return the marker of each region, -1 for none, and a tree in which regions with several markers are divided."""
    count = int(markers.numbers.max()) + 1
    marked = hierarchy.labels.ravel()[markers.places]
    regions, own_markers = np.divmod(np.unique(marked.astype(np.int64) * count + markers.numbers), count)
    found = np.full(hierarchy.n_regions, -1)
    found[regions] = own_markers
    counts = np.bincount(regions, minlength=hierarchy.n_regions)
    torn = np.flatnonzero(counts > 1)  # regions with several markers
    if not len(torn):
        return MarkedTree(hierarchy, found)
    labels = hierarchy.labels.copy()
    origins = [np.arange(hierarchy.n_regions)]  # the old region of each new one
    pieces = []  # the marker of each region that is added
    from scipy.ndimage import find_objects  # most runs do not need it

    boxes = find_objects(hierarchy.labels + 1)  # two slices a region; + 1, because 0 is the background
    next_region = hierarchy.n_regions
    for region in torn.tolist():
        box = boxes[region]
        inside = hierarchy.labels[box] == region
        here = marked == region  # its marked pixels
        own = markers._replace(places=markers.places[here], numbers=markers.numbers[here])
        nearest = _divide(image, box, inside, own)
        first, *others = own_markers[regions == region].tolist()  # ascending
        found[region] = first
        for marker in others:  # the first one keeps the region's number
            labels[box][nearest == marker] = next_region
            pieces.append(marker)
            next_region += 1
        origins.append(np.full(len(others), region))
    divided = _tree_of_pieces(hierarchy, labels, np.concatenate(origins))
    return MarkedTree(divided, np.append(found, pieces).astype(np.int64))


def _divide(
    image: NDArray[Any], box: tuple[slice, slice], inside: NDArray[np.bool_], markers: Markers
) -> NDArray[np.int32]:
    """Divide a region among its markers; return the marker's number at each pixel of its box, -1 outside."""
    rows, columns = np.divmod(markers.places, image.shape[1])
    seeds = np.zeros(inside.shape, np.int32)  # the numbers of the markers, from 1, at their pixels; 0 elsewhere
    seeds[rows - box[0].start, columns - box[1].start] = markers.numbers + 1
    picture = to_eight_bits(image[box])
    slopes = [np.abs(cv2.Scharr(picture, cv2.CV_32F, *order)) for order in ((1, 0), (0, 1))]
    gradient = (slopes[0] + slopes[1]).max(axis=2)
    found = watershed(gradient, seeds, inside)
    # pieces of a region may lie apart; those that no marker reaches stay with the first marker
    return np.where(inside & (found == 0), seeds[seeds > 0].min(), found) - 1


def _tree_of_pieces(hierarchy: Hierarchy, labels: NDArray[np.int32], origins: NDArray[np.int64]) -> Hierarchy:
    """Return a tree in which some regions are joined from several pieces, by merges of height 0 before all others."""
    # `origins` has the old region of each new one; pieces that were cut off follow the old regions
    n, count = hierarchy.n_regions, len(origins)
    extra = count - n
    # where a region has pieces, the loop below replaces its number by that of its last merge
    node = np.concatenate([np.arange(n), count + extra + np.arange(n - 1)])  # the new number of each old node
    first = np.empty((extra, 2), np.int64)
    for k, (piece, region) in enumerate(zip(range(n, count), origins[n:].tolist(), strict=True)):
        first[k] = node[region], piece
        node[region] = count + k
    edges = region_adjacency(labels + 1) - 1  # pairs of new regions that touch; + 1, because it takes labels >= 0
    edges = edges[edges[:, 0] >= 0]  # -1 lies outside the mask
    ends = np.sort(origins[edges], axis=1)
    # Find each new border among the old ones, which are in ascending order, by one number for each pair of regions.
    codes = hierarchy.edges[:, 0] * n + hierarchy.edges[:, 1]
    wanted = ends[:, 0] * n + ends[:, 1]
    place = np.minimum(np.searchsorted(codes, wanted), max(len(codes) - 1, 0))
    # 0 within a region. The old borders were found on a picture of another size, and `labels` are of this one, where
    # regions may touch that did not there; such a border gets the largest strength.
    strengths = np.where(ends[:, 0] == ends[:, 1], 0.0, 1.0)
    if len(codes):
        strengths = np.where(codes[place] == wanted, hierarchy.strengths[place], strengths)
    return Hierarchy(
        labels,
        edges,
        np.concatenate([first, node[hierarchy.children]]),
        np.concatenate([np.zeros(extra), hierarchy.heights]),
        strengths,
    )


def cut_at_markers(
    hierarchy: Hierarchy, markers: NDArray[np.int64], n_merges: int | None = None
) -> tuple[NDArray[np.int64], float]:
    """Divide the regions among markers, doing the first `n_merges` merges of the tree, or all of them.

    `markers` is the marker of each region, -1 for none. Returns the segment of each region, those of the markers first,
    and the height of the last merge that was done.
    """
    top = np.arange(hierarchy.n_regions).tolist()  # union-find: the parent of each region; a root is its own
    marker = markers.tolist()  # of the part of each root

    def root(region: int) -> int:
        """Return the region that stands for the part of a region, and shorten the path to it."""
        while top[region] != region:
            top[region] = top[top[region]]
            region = top[region]
        return region

    height = 0.0
    # From the weakest border on, the parts on its two sides are joined unless they have different markers.
    for merge, i, j in _borders(hierarchy):
        if n_merges is not None and merge >= n_merges:
            break
        i, j = root(i), root(j)
        if i == j or (marker[i] >= 0 and marker[j] >= 0 and marker[i] != marker[j]):
            continue
        top[j] = i
        marker[i] = max(marker[i], marker[j])  # they are equal, or one of them is -1, no marker
        height = float(hierarchy.heights[merge])
    roots = np.array([root(region) for region in range(hierarchy.n_regions)])
    found = np.array(marker)[roots]
    alone = found < 0  # regions of parts without a marker, which get the numbers after those of the markers
    found[alone] = np.unique(roots[alone], return_inverse=True)[1] + int(markers.max()) + 1
    return found, height


def _borders(hierarchy: Hierarchy) -> list[tuple[int, int, int]]:
    """List (merge, region, region) in the order in which the tree removes borders."""
    n = hierarchy.n_regions
    first = list(range(n))  # a region of each node: of regions, then of merges, which join the two nodes in `children`
    for i, _ in hierarchy.children.tolist():
        first.append(first[i])
    merges, strengths = hierarchy.find_merges(hierarchy.edges), hierarchy.strengths
    apart = np.setdiff1d(np.arange(n - 1), merges)  # merges at which no two regions that touch meet
    bridges = np.array(first)[hierarchy.children[apart]].reshape(-1, 2)
    merges, strengths = np.append(merges, apart), np.append(strengths, np.ones(len(apart)))
    edges = np.concatenate([hierarchy.edges, bridges])
    order = np.lexsort((strengths, merges))
    return list(zip(merges[order].tolist(), *edges[order].T.tolist(), strict=True))
