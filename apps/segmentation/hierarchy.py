"""An ultrametric tree of regions, from which segments of any number and at any scale are read.

The leaves are the first regions. Each merge joins two nodes at a height, and no merge is lower than one before it. So
the segments at a height are nested in those at every larger height, and the height of the merge at which two regions
meet is an ultrametric.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief, check_count, check_number
from visionnmf.exceptions import ParameterError

STRIP = 1024  # rows of a picture that are worked on at once, where all would take much memory
Pair = tuple[NDArray[Any], NDArray[Any]]


def neighbour_pairs(picture: NDArray[Any]) -> tuple[Pair, Pair]:
    """Return views of each pixel and its right neighbour, then of each pixel and its lower neighbour."""
    return (picture[:, :-1], picture[:, 1:]), (picture[:-1], picture[1:])


def count_labels(labels: NDArray[Any], count: int, shift: int = 0) -> NDArray[np.int64]:
    """Count the pixels with the labels 0 to `count` - 1, to all of which `shift` is added first."""
    found = np.zeros(count, np.int64)
    for start in range(0, len(labels), STRIP):  # in strips, because NumPy makes labels 64 bits wide to count them
        found += np.bincount(labels[start : start + STRIP].ravel() + shift, minlength=count)
    return found


def region_adjacency(labels: NDArray[Any]) -> NDArray[np.int64]:
    """List the pairs of labels >= 0 that touch along a pixel's side, (m, 2), the smaller first, in ascending order."""
    count = int(labels.max()) + 1
    codes = []  # each pair as one number, low * count + high, so that `unique` is fast
    for first, second in neighbour_pairs(labels):
        differ = first != second
        low, high = np.minimum(first, second)[differ], np.maximum(first, second)[differ]
        codes.append(low.astype(np.int64) * count + high)
    return np.stack(np.divmod(np.unique(np.concatenate(codes)), count), axis=1)


@dataclass(frozen=True)
class Hierarchy:
    """A tree over n regions of a picture.

    Attributes
    ----------
    labels : ndarray of int32 [shape=(height, width)]
        The region of each pixel, 0 to n - 1; -1 outside a mask.
    edges : ndarray of int64 [shape=(m, 2)]
        Pairs of regions that touch, the smaller first; of a large or small picture, those that touch where it was
        reduced or enlarged to find them.
    children : ndarray of int64 [shape=(n - 1, 2)]
        The two nodes that each merge joins: a region below n, or merge k as n + k.
    heights : ndarray of float64 [shape=(n - 1,), in [0, 1]], ascending
        The scale at which each merge happens.
    strengths : ndarray of float64 [shape=(m,), in [0, 1]]
        How strong the border of each pair is by itself.
    """

    labels: NDArray[np.int32]
    edges: NDArray[np.int64]
    children: NDArray[np.int64]
    heights: NDArray[np.float64]
    strengths: NDArray[np.float64]

    __repr__ = brief

    @property
    def n_regions(self) -> int:
        """Number of leaves, n."""
        return len(self.children) + 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Pixels of each region: ndarray of int64 [shape=(n,)]."""
        # -1, outside a mask, is counted first and left out
        return count_labels(self.labels, self.n_regions + 1, shift=1)[1:]

    def cut(self, *, n_segments: int | None = None, scale: float | None = None) -> NDArray[np.int64]:
        """Return the segment of each region.

        Parameters
        ----------
        n_segments : int, >= 1, optional
            The number of segments. All regions are returned where the tree has fewer.
        scale : float in [0, 1], optional
            All merges up to this height are done: 0 leaves nearly all regions apart, 1 joins them all.

        Returns
        -------
        ndarray of int64 [shape=(n,)]
            The segment of each region, numbered from 0 in the order of its first region.

        Raises
        ------
        ParameterError
            If not exactly one of the two is given, or it is out of its range.
        """
        return self._cut_after(self.n_merges(n_segments=n_segments, scale=scale))

    def n_merges(self, *, n_segments: int | None = None, scale: float | None = None) -> int:
        """Count the merges that lead to a number of segments or up to a scale, as in :meth:`cut`.

        Returns
        -------
        int
        """
        if (n_segments is None) == (scale is None):
            raise ParameterError(
                f"one of n_segments and scale must be given, and not both; got n_segments={n_segments!r} and "
                f"scale={scale!r}"
            )
        if n_segments is not None:
            return max(0, self.n_regions - check_count(n_segments, "n_segments"))
        return int(np.searchsorted(self.heights, check_number(scale, "scale", 0, 1), side="right"))

    def without(self, scale: float) -> Hierarchy:
        """Return the tree whose regions are the segments at a scale; its borders have the mean strengths of the old.

        Returns
        -------
        Hierarchy
        """
        done = self.n_merges(scale=scale)
        if not done:
            return self
        cut = self._cut_after(done)
        n, count = self.n_regions, self.n_regions - done
        name = np.empty(2 * n - 1, np.int64)  # the new number of each old node; merge k is node n + k
        name[:n] = cut
        for merge, (i, _) in enumerate(self.children.tolist()):
            # the two children of a merge that is done are in the same segment already
            name[n + merge] = name[i] if merge < done else count + merge - done
        edges = np.sort(cut[self.edges], axis=1)
        between = edges[:, 0] != edges[:, 1]
        edges, place = np.unique(edges[between], axis=0, return_inverse=True)
        place = place.ravel()  # the new border of each old one; its shape differs between versions of NumPy
        strengths = np.bincount(place, self.strengths[between], len(edges)) / np.bincount(place, minlength=len(edges))
        # label -1, outside a mask, takes the last entry of the appended array, which is -1 as well
        return Hierarchy(
            np.append(cut, -1).astype(np.int32)[self.labels],
            edges.reshape(-1, 2),
            name[self.children[done:]],
            self.heights[done:],
            strengths,
        )

    def without_empty(self) -> Hierarchy:
        """Return the tree without regions that have no pixels, which labels of another size may leave.

        Returns
        -------
        Hierarchy
        """
        kept = self.sizes > 0
        if kept.all():
            return self
        n, count = self.n_regions, int(kept.sum())
        name = np.full(2 * n - 1, -1)  # the new number of each old node, where merge k is node n + k; -1 is none
        name[:n][kept] = np.arange(count)
        stay, new = np.zeros(n - 1, bool), count  # `new` is the number of the next merge that stays
        for merge, (i, j) in enumerate(self.children.tolist()):
            stay[merge] = min(name[i], name[j]) >= 0
            name[n + merge] = new if stay[merge] else max(name[i], name[j])
            new += int(stay[merge])
        edges = name[self.edges]
        there = edges.min(axis=1, initial=n) >= 0
        labels = np.append(name[:n], -1).astype(np.int32)[self.labels]  # -1, outside a mask, takes the last entry
        return Hierarchy(labels, edges[there], name[self.children[stay]], self.heights[stay], self.strengths[there])

    def _cut_after(self, n_merges: int) -> NDArray[np.int64]:
        """Return the segment of each region after the first `n_merges` merges, numbered by first region."""
        n = self.n_regions
        # The topmost node above each node (merge k is node n + k). Merges are taken from the last one down, so that a
        # node has its own topmost node before its two children inherit it.
        top = np.arange(n + n_merges)
        for merge in range(n_merges - 1, -1, -1):
            top[self.children[merge]] = top[n + merge]
        # `first` is the first region of each segment; its ranks are the numbers of the segments.
        first, names = np.unique(top[:n], return_index=True, return_inverse=True)[1:]
        return np.argsort(np.argsort(first))[names.reshape(n)]

    def find_merges(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the merge at which the two regions of each pair (m, 2) meet, as a place in `children`.

        Returns
        -------
        ndarray of int64 [shape=(m,)]
        """
        n = self.n_regions
        parent = np.full(2 * n - 1, -1)  # of each node, where merge k is node n + k; the root keeps -1
        parent[self.children] = n + np.arange(n - 1)[:, np.newaxis]
        low, high = pairs.T
        while (apart := low != high).any():  # a parent comes after its children, so the earlier of two nodes climbs
            climbs = low < high
            low = np.where(apart & climbs, parent[low], low)
            high = np.where(apart & ~climbs, parent[high], high)
        return low - n

    def boundary_map(self) -> NDArray[np.float32]:
        """Draw the tree as the strength of the border at each pixel.

        Returns
        -------
        ndarray of float32 [shape=(height, width), in [0, 1]]
            At a pixel whose right or lower neighbour lies in another region, the height at which the two meet (the
            larger height of two); 0 elsewhere. Where it exceeds a scale are the borders of the segments at that scale.
        """
        found = np.zeros(self.labels.shape, np.float32)
        for (drawn, _), (first, second) in zip(neighbour_pairs(found), neighbour_pairs(self.labels), strict=True):
            differ = (first != second) & (np.minimum(first, second) >= 0)  # the label -1 is outside a mask
            a, b = first[differ].astype(np.int64), second[differ].astype(np.int64)
            # Pairs may touch that are not edges: those are of the reduced or enlarged picture. Each pair is looked
            # up once, as one number.
            codes, pair = np.unique(np.minimum(a, b) * self.n_regions + np.maximum(a, b), return_inverse=True)
            merges = self.find_merges(np.stack(np.divmod(codes, self.n_regions), axis=1))
            drawn[differ] = np.maximum(drawn[differ], self.heights[merges].astype(np.float32)[pair])
        return found
