"""The first regions of a picture, and the sums over them and their borders from which borders are judged.

All numbers are sums, so that regions and borders are joined by adding rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from . import kernels
from .cues import A_BINS, B_BINS, L_BINS, Bins, Cues, bin_positions
from .kernels import CUES, ENERGY, FRAME, HISTOGRAMS, LAB, LAB_SQUARED, N_SUMS, SIZE
from .neighbours import neighbour_pairs

__all__ = ["Partition", "find_regions", "measure", "watershed"]

Array = NDArray[np.float64]

# Minima are sought in windows; about one and a half times this many windows fit into the picture.
REGIONS = 1100
N_TEXTONS = 32
FLAT = np.float32(1e-3)  # energy below this is rounding


@dataclass(frozen=True)
class Partition:
    """A picture divided into n regions, with m borders between them.

    `labels` (int32, height x width) has the region of each pixel, 0 to n - 1, each one 4-connected piece, and -1
    outside a mask. `regions` (n, N_SUMS) are sums over the pixels of each region; :mod:`.kernels` names the columns.
    `edges` (m, 2) are the pairs of regions that touch, the smaller first, in ascending order. `borders` (m, 2 + 13) are
    sums over the pixel sides of each border: their number, the energy, and the strength of each cue across the border.
    """

    labels: NDArray[np.int32]
    regions: Array
    edges: NDArray[np.int64]
    borders: Array


def find_regions(energy: NDArray[np.float32], inside: NDArray[np.bool_] | None = None) -> NDArray[np.int32]:
    """Cut a picture into some hundred regions whose borders follow ridges of the energy (Vincent and Soille 1991).

    Returns the region of each pixel, 0 to n - 1, and -1 for the pixels that are not `inside`. Each region grows from a
    marker, a connected set of pixels whose blurred energy is the least in the window of side 2 radius + 1 around them.
    """
    energy = np.maximum(energy, FLAT)  # otherwise rounding would make many minima in flat areas
    # with 2.6 the side of a window is about 0.8 of the side that each of REGIONS equal squares would have
    radius = max(1, round(np.sqrt(energy.size / REGIONS) / 2.6))
    coarse = cv2.GaussianBlur(energy, (0, 0), 1.2)
    lowest = coarse <= cv2.erode(coarse, np.ones((2 * radius + 1, 2 * radius + 1), np.uint8))
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
    """Flood a picture, >= 0, from markers over the four neighbours of each pixel; outside the mask the result is 0.

    `markers` are labels > 0, and 0 where nothing is marked; without a mask, `inside`, all pixels are flooded. It gives
    the labels of ``skimage.segmentation.watershed``, whose import takes longer than the flooding.
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

    `cues` has for each pixel the energy, which is how strong a border there can be, and for each cue the structure
    tensor, of which the planes xx, yy and xy are stored.

    `first` and `second` are the flat indices of the two pixels of each pixel side between regions, `across` says
    whether the step from one to the other is along x, and `edge` is the border to which it belongs. The strength of a
    cue at a side is ``sqrt(n^T J n)``, with n the normal of the border and J the mean of the tensors of the two pixels;
    `xx`, `yy` and `xy` are the products of n that this takes.

    Returns the labels, the sums over the pixels of each region (n, N_SUMS), the pairs of regions with a border (m, 2),
    and the sums over the sides of each border: their number, the energy, and the strength of each cue (m, 2 + n_cues).
    """
    count = int(labels.max()) + 1
    first, second, across = _sides(labels)
    flat = labels.ravel()
    low, high = np.minimum(flat[first], flat[second]), np.maximum(flat[first], flat[second])
    codes, edge = np.unique(low.astype(np.int64) * count + high, return_inverse=True)
    edges = np.stack(np.divmod(codes, count), axis=1)
    # 1 where the step from `first` to `second` leads from the lower to the higher region; `xy` is twice the product
    xx, yy, xy = _normals(edge, np.where(flat[first] == low, 1.0, -1.0), across, len(edges))
    borders = np.empty((len(edges), 2 + len(CUES)))  # the number of sides, the energy, the strength of each cue
    borders[:, 0] = np.bincount(edge, minlength=len(edges))
    energy = cues.energy.ravel()
    borders[:, 1] = np.bincount(edge, (energy[first] + energy[second]) / 2, len(edges))
    planes = cues.tensors.reshape(len(CUES), 3, -1)
    for place, (jxx, jyy, jxy) in enumerate(planes):  # the tensors of a cue
        # twice the square of the strength, because the tensors of the two pixels are added
        square = xx * (jxx[first] + jxx[second]) + yy * (jyy[first] + jyy[second]) + xy * (jxy[first] + jxy[second])
        borders[:, 2 + place] = np.bincount(edge, np.sqrt(np.maximum(square, 0) / 2), len(edges))
    return Partition(labels, _sum_regions(cues, labels, count), edges, borders)


def _sides(labels: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """List the pixel sides between regions: flat indices of the two pixels, and whether the step is along x.

    Sides at pixels of no region (-1) are left out.
    """
    places = np.arange(labels.size).reshape(labels.shape)
    sides = []
    for (label, other), (place, other_place) in zip(neighbour_pairs(labels), neighbour_pairs(places), strict=True):
        between = (label != other) & (np.minimum(label, other) >= 0)
        sides.append((place[between], other_place[between]))
    (first_x, second_x), (first_y, second_y) = sides
    along_x = np.arange(len(first_x) + len(first_y)) < len(first_x)
    return np.concatenate([first_x, first_y]), np.concatenate([second_x, second_y]), along_x


def _normals(edge: NDArray[np.int64], towards: Array, across: NDArray[np.bool_], n_edges: int) -> list[NDArray[Any]]:
    """Return the products xx, yy and 2 xy of the border's normal at each pixel side.

    The normal of a border, from its lower to its higher region, is the sum of those of its sides. A straight border has
    a sum of 0.7 to 1 times its length; one that closes on itself has none, and all directions count alike: xx and yy
    are then 1/2, and xy is 0. Others get a mixture, in which `trust`, 0 to 1, is the weight of the sum's direction.

    For each pixel side, `edge` is the border to which it belongs, one of `n_edges`, `towards` is 1 if the step across
    it goes from the lower to the higher region, else -1, and `across` says whether the step is along x, else y.
    """
    length = np.bincount(edge, minlength=n_edges)
    x = np.bincount(edge, towards * across, n_edges)
    y = np.bincount(edge, towards * ~across, n_edges)
    norm = np.hypot(x, y)
    trust = np.clip(norm / (0.7 * np.maximum(length, 1)), 0, 1)
    norm = np.maximum(norm, 1e-12)
    products = (((x / norm) ** 2, 0.5), ((y / norm) ** 2, 0.5), (2 * x * y / norm**2, 0.0))
    return [(trust * product + (1 - trust) * rest).astype(np.float32)[edge] for product, rest in products]


def _sum_regions(cues: Cues, labels: NDArray[np.int32], count: int) -> Array:
    """Return sums over the pixels of each of `count` regions, (count, N_SUMS).

    Columns are named in :mod:`.kernels`: the pixels, the sides on the picture's frame or the edge of the mask, energy
    (how strong a border at the pixel would be), L, a and b, their squares, and from HISTOGRAMS on the soft histograms
    of L, a and b and the counts of textons.
    """
    last = count  # the row of the pixels outside a mask, which is left out at the end
    flat = np.where(labels < 0, last, labels).ravel()
    count += 1
    sums = np.zeros((count, N_SUMS))
    sums[:, SIZE] = np.bincount(flat, minlength=count)
    frame = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1], _along_mask(labels)])
    sums[:, FRAME] = np.bincount(frame[frame >= 0], minlength=count)
    sums[:, ENERGY] = np.bincount(flat, cues.energy.ravel(), count)
    place = HISTOGRAMS  # the first column of the next histogram
    for channel, bins in enumerate((L_BINS, A_BINS, B_BINS)):
        values = cues.lab[..., channel].ravel()
        sums[:, LAB + channel] = np.bincount(flat, values, count)
        sums[:, LAB_SQUARED + channel] = np.bincount(flat, values * values, count)
        sums[:, place : place + bins.number] = _sum_bins(flat, values, bins, count)
        place += bins.number
    sums[:, place:] = np.bincount(
        flat * np.int64(N_TEXTONS) + cues.textons.ravel(), minlength=count * N_TEXTONS
    ).reshape(count, N_TEXTONS)
    return sums[:last]


def _along_mask(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """List the regions along the edge of a mask, outside of which labels are -1, once for each pixel side."""
    # where one of two neighbours is outside, -1, the larger label is that of the region
    pairs = [(np.minimum(a, b), np.maximum(a, b)) for a, b in neighbour_pairs(labels)]
    return np.concatenate([larger[(smaller < 0) & (larger >= 0)] for smaller, larger in pairs])


def _sum_bins(flat: NDArray[np.int32], values: NDArray[Any], bins: Bins, count: int) -> Array:
    """Return soft histograms of the values of each region, (count, n_bins); `flat` is the region of each pixel.

    A value is shared between the two bins whose centres are next to it, as :func:`.cues.soft_bins` does.
    """
    position = bin_positions(values, bins)
    below = np.minimum(position.astype(np.int64), bins.number - 2)
    share = position - below
    lower = flat * np.int64(bins.number) + below  # of the two bins, in the flat result
    n_cells = count * bins.number
    sums = np.bincount(lower, 1 - share, n_cells) + np.bincount(lower + 1, share, n_cells)
    return np.asarray(sums, np.float64).reshape(count, bins.number)
