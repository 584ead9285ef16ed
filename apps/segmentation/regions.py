"""The first regions of a picture, the sums from which their borders are judged, and the order in which they merge.

All numbers are sums over pixels, so regions and borders are joined by adding rows. A sum of regression trees maps the
features of a border (:data:`.kernels.FEATURES`) to the share of pairs of pixels, one on each side, that people put into
different segments; ``benchmarks/segmentation_train.py`` learnt it and wrote ``learnt.npz``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from . import kernels
from .cues import A_BINS, B_BINS, L_BINS, Bins, Cues, bin_positions
from .hierarchy import neighbour_pairs
from .kernels import (
    BOUNDARY,
    CUES,
    ENERGY,
    FRAME,
    HISTOGRAMS,
    LAB,
    LAB_SQUARED,
    N_FEATURES,
    N_SUMS,
    SIZE,
    VECTOR,
    BorderTrees,
    RegionGraph,
)

Array = NDArray[np.float64]

# Minima are sought in windows; about one and a half times this many windows fit into the picture.
REGIONS = 1100
FLAT = np.float32(1e-3)  # energy below this is rounding
FILE = Path(__file__).with_name("learnt.npz")
SIZE_EXPONENT = 0.15  # of the smaller region's share: small regions go first. Chosen among 0, 0.15, 0.3 and 0.5.


@dataclass(frozen=True)
class Partition:
    """A picture divided into n regions, with m borders between them."""

    labels: NDArray[np.int32]  # (height, width): 0 to n - 1, each one 4-connected piece, and -1 outside a mask
    regions: Array  # (n, N_SUMS), sums over the pixels of each region; :mod:`.kernels` names the columns
    edges: NDArray[np.int64]  # (m, 2), the pairs of regions that touch, the smaller first, in ascending order
    borders: Array  # (m, 3 + 4), sums over the pixel sides: their number, energy, boundary, and strength of each cue


def find_regions(
    energy: NDArray[np.float32], inside: NDArray[np.bool_] | None = None, cell: int | None = None
) -> NDArray[np.int32]:
    """Cut a picture into regions whose borders follow ridges of the energy (Vincent and Soille 1991).

    Returns the region of each pixel, 0 to n - 1, and -1 for pixels that are not `inside`. Each region grows from a
    connected set of pixels whose blurred energy is the least in the window around them or, for superpixels, in their
    square `cell` of a grid (Machairas et al. 2015), so that there are about as many regions as squares.
    """
    energy = np.maximum(energy, FLAT)  # otherwise rounding would make many minima in flat areas
    coarse = cv2.GaussianBlur(energy, (0, 0), 1.2)
    if cell is None:
        # with 2.6 the side of a window is about 0.8 of the side that each of REGIONS equal squares would have
        radius = max(1, round(np.sqrt(energy.size / REGIONS) / 2.6))
        lowest = coarse <= cv2.erode(coarse, np.ones((2 * radius + 1, 2 * radius + 1), np.uint8))
    else:
        rows, columns = (np.arange(length) // cell for length in coarse.shape)
        least = np.full((rows[-1] + 1, columns[-1] + 1), np.inf, np.float32)
        np.minimum.at(least, (rows[:, np.newaxis], columns), coarse)
        lowest = coarse <= least[rows[:, np.newaxis], columns]
    if inside is not None:
        lowest &= inside
    count, markers = cv2.connectedComponents(lowest.astype(np.uint8), connectivity=4)
    # a finer blur than for the markers, so that borders follow the ridges closely; `count` includes the background 0
    labels = watershed(cv2.GaussianBlur(energy, (0, 0), 0.6), markers, inside) - 1
    # An island of the mask without a minimum of a whole window is a region of its own. Islands count from 1, and the
    # regions of the markers end with count - 2.
    if inside is not None:
        island = cv2.connectedComponents((inside & (labels < 0)).astype(np.uint8), connectivity=4)[1]
        labels = np.where(island > 0, island + (count - 2), labels).astype(np.int32)
    return labels


def watershed(
    values: NDArray[Any], markers: NDArray[Any], inside: NDArray[np.bool_] | None = None
) -> NDArray[np.int32]:
    """Flood a picture, >= 0, from markers (labels > 0) over the four neighbours of each pixel; 0 outside the mask.

    It gives the labels of ``skimage.segmentation.watershed``, whose import takes longer than the flooding.
    """
    # the frame of pixels that are not open stops the flood, so that the kernel needs no checks at the border
    around = np.pad(np.ones(values.shape, bool) if inside is None else inside, 1)
    labels = np.pad(markers.astype(np.int32, copy=False), 1)
    labels *= around
    # The bits of floats that are not negative are whole numbers in the same order. The lower 32 bits stay free for the
    # time at which a pixel is reached.
    levels = np.pad(np.asarray(values, np.float32), 1).view(np.int32).astype(np.int64) << 32
    heap = np.empty(labels.size, np.int64), np.empty(labels.size, np.int32)  # keys and pixels, filled by the kernel
    kernels.flood(levels.ravel(), labels.ravel(), around.ravel(), *heap, labels.shape[1])
    return labels[1:-1, 1:-1].copy()


def measure(cues: Cues, labels: NDArray[np.int32]) -> Partition:
    """Sum cues over the regions of a label map (-1: no region) and over their borders.

    The strength of a cue at a pixel side between two regions is ``sqrt(n^T J n)``, with n the normal of the border and
    J the mean of the cue's tensors at the two pixels.
    """
    count = int(labels.max()) + 1
    first, second, across = _sides(labels)
    flat = labels.ravel()
    low, high = np.minimum(flat[first], flat[second]), np.maximum(flat[first], flat[second])
    codes, edge = np.unique(low.astype(np.int64) * count + high, return_inverse=True)
    edges = np.stack(np.divmod(codes, count), axis=1)
    # 1 where the step from `first` to `second` leads from the lower to the higher region; `xy` is twice the product
    xx, yy, xy = _normals(edge, np.where(flat[first] == low, 1.0, -1.0), across, len(edges))
    borders = np.empty((len(edges), 3 + len(CUES)))
    borders[:, 0] = np.bincount(edge, minlength=len(edges))
    for place, values in ((1, cues.energy.ravel()), (2, cues.boundary.ravel())):
        borders[:, place] = np.bincount(edge, (values[first] + values[second]) / 2, len(edges))
    for place, (jxx, jyy, jxy) in enumerate(cues.tensors.reshape(len(CUES), 3, -1)):
        # twice the square of the strength, because the tensors of the two pixels are added
        square = xx * (jxx[first] + jxx[second]) + yy * (jyy[first] + jyy[second]) + xy * (jxy[first] + jxy[second])
        borders[:, 3 + place] = np.bincount(edge, np.sqrt(np.maximum(square, 0) / 2), len(edges))
    return Partition(labels, _sum_regions(cues, labels, count), edges, borders)


def _sides(labels: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """List the pixel sides between regions: flat indices of the two pixels, and whether the step is along x."""
    places = np.arange(labels.size).reshape(labels.shape)
    sides = []
    for (label, other), (place, other_place) in zip(neighbour_pairs(labels), neighbour_pairs(places), strict=True):
        between = (label != other) & (np.minimum(label, other) >= 0)
        sides.append((place[between], other_place[between]))
    (first_x, second_x), (first_y, second_y) = sides
    along_x = np.arange(len(first_x) + len(first_y)) < len(first_x)
    return np.concatenate([first_x, first_y]), np.concatenate([second_x, second_y]), along_x


def _normals(edge: NDArray[np.int64], towards: Array, across: NDArray[np.bool_], n_edges: int) -> list[NDArray[Any]]:
    """Return the products xx, yy and 2 xy of the border's normal at each pixel side, which belongs to border `edge`."""
    # The normal of a border, from its lower to its higher region, is the sum of those of its sides (`towards` is -1
    # where a step leads the other way). A straight border has a sum of 0.7 to 1 times its length. One that closes on
    # itself has none, and all directions count alike: 1/2, 1/2 and 0. Others get a mixture, by `trust`.
    length = np.bincount(edge, minlength=n_edges)
    x = np.bincount(edge, towards * across, n_edges)
    y = np.bincount(edge, towards * ~across, n_edges)
    norm = np.hypot(x, y)
    trust = np.clip(norm / (0.7 * np.maximum(length, 1)), 0, 1)
    norm = np.maximum(norm, 1e-12)
    products = (((x / norm) ** 2, 0.5), ((y / norm) ** 2, 0.5), (2 * x * y / norm**2, 0.0))
    return [(trust * product + (1 - trust) * rest).astype(np.float32)[edge] for product, rest in products]


def _sum_regions(cues: Cues, labels: NDArray[np.int32], count: int) -> Array:
    """Return sums over the pixels of each of `count` regions, (count, N_SUMS), in the columns of the kernels."""
    last = count  # the row of the pixels outside a mask, which is left out at the end
    flat = np.where(labels < 0, last, labels).ravel()
    count += 1
    sums = np.zeros((count, N_SUMS))
    sums[:, SIZE] = np.bincount(flat, minlength=count)
    # sides on the frame of the picture, and at the edge of a mask: the label outside is -1, and the larger one inside
    frame = [labels[0], labels[-1], labels[:, 0], labels[:, -1]]
    frame += [np.maximum(a, b)[np.minimum(a, b) < 0] for a, b in neighbour_pairs(labels)]
    around = np.concatenate(frame)
    sums[:, FRAME] = np.bincount(around[around >= 0], minlength=count)
    sums[:, ENERGY] = np.bincount(flat, cues.energy.ravel(), count)
    place = HISTOGRAMS  # the first column of the next histogram
    for channel, bins in enumerate((L_BINS, A_BINS, B_BINS)):
        values = cues.lab[..., channel].ravel()
        sums[:, LAB + channel] = np.bincount(flat, values, count)
        sums[:, LAB_SQUARED + channel] = np.bincount(flat, values * values, count)
        sums[:, place : place + bins.number] = _sum_bins(flat, values, bins, count)
        place += bins.number
    sums[:, BOUNDARY] = np.bincount(flat, cues.boundary.ravel(), count)
    for k in range(cues.vectors.shape[2]):
        sums[:, VECTOR + k] = np.bincount(flat, cues.vectors[..., k].ravel(), count)
    return sums[:last]


def _sum_bins(flat: NDArray[np.int32], values: NDArray[Any], bins: Bins, count: int) -> Array:
    """Return soft histograms of the values of each region (count, n_bins), as :func:`.cues.soft_bins` shares them."""
    position = bin_positions(values, bins)
    below = np.minimum(position.astype(np.int64), bins.number - 2)
    share = position - below
    lower = flat * np.int64(bins.number) + below  # of the two bins, in the flat result
    n_cells = count * bins.number
    sums = np.bincount(lower, 1 - share, n_cells) + np.bincount(lower + 1, share, n_cells)
    return np.asarray(sums, np.float64).reshape(count, bins.number)


# --- merging ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BorderModel:
    """What is learnt on training photographs."""

    trees: BorderTrees
    base: float  # to which the leaves of the trees are added
    scale: float  # where the tree of regions is cut unless the user asks for something else


@cache
def load_border_model(path: Path = FILE) -> BorderModel:
    """Read the model that comes with the package, or another file of the same arrays."""
    with np.load(path, allow_pickle=False) as arrays:
        trees = BorderTrees(*(arrays[name] for name in ("roots", "features", "thresholds", "children", "values")))
        return BorderModel(trees, float(arrays["base"]), float(arrays["scale"]))


@dataclass(frozen=True)
class MergeSequence:
    """The merges of n regions into one."""

    children: NDArray[np.int64]  # (n - 1, 2), the two nodes that each merge joins
    heights: Array  # (n - 1,), ascending in [0, 1], the largest cost of a border up to each merge
    strengths: Array  # (m,), of the borders between the first regions
    features: Array  # of the borders that were judged, those of the first regions first; empty unless asked for
    pairs: NDArray[np.int64]  # the nodes of these borders


def merge_regions(partition: Partition, model: BorderModel, *, n_recorded: int = 0) -> MergeSequence:
    """Merge the regions of a picture until one is left; keep the features of at most `n_recorded` borders."""
    n = len(partition.regions)
    graph = RegionGraph(
        # the kernel writes the sums of each merge to the rows after those of the regions
        np.concatenate([partition.regions, np.zeros((n - 1, partition.regions.shape[1]))]),
        # perimeters: column 0 of the borders is their length, which counts for the regions on both sides
        np.bincount(partition.edges.ravel(), np.repeat(partition.borders[:, 0], 2), 2 * n - 1),
        partition.edges.copy(),
        partition.borders.copy(),
        _describe_picture(partition.regions),
    )
    features, pairs = np.empty((n_recorded, N_FEATURES)), np.empty((n_recorded, 2), np.int64)
    children, costs, n_merges, n_used, strengths = kernels.merge(
        graph, model.trees, model.base, SIZE_EXPONENT, features, pairs
    )
    # Islands of a mask do not touch, so n_merges may be less than n - 1. They are joined last, at the largest height
    # there is. Node k is region k for k < n, and merge k - n after that; those that are nobody's child are the islands'
    # roots.
    waiting = np.setdiff1d(np.arange(n + n_merges), children[:n_merges])
    for node in range(n + n_merges, 2 * n - 1):
        children[node - n], costs[node - n] = waiting[:2], 1.0
        waiting = np.append(waiting[2:], node)
    return MergeSequence(children, np.maximum.accumulate(costs), strengths, features[:n_used], pairs[:n_used])


def _describe_picture(regions: Array) -> Array:
    """Return the number of pixels, the mean energy, the spread of CIELAB and the mean boundary of a picture."""
    total = regions.sum(axis=0)
    means = total / total[SIZE]
    variances = means[LAB_SQUARED : LAB_SQUARED + 3] - means[LAB : LAB + 3] ** 2
    return np.array([total[SIZE], means[ENERGY], np.sqrt(np.maximum(variances, 0).sum()), means[BOUNDARY]])
