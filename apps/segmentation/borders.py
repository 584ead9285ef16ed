"""The first regions of a picture, and what is summed over them and over their borders.

All numbers are sums, so regions and borders are joined by adding rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from skimage.segmentation import watershed

from .cues import A_BINS, B_BINS, L_BINS, Cues
from .merging import CUES, ENERGY, FRAME, HISTOGRAMS, LAB, LAB_SQUARED, N_SUMS, SIZE

__all__ = ["Partition", "find_regions", "measure"]

Array = NDArray[np.float64]

REGIONS = 1100  # a watershed's basins are sought in windows of which some twice this many fit into the picture
N_TEXTONS = 32
FLAT = np.float32(1e-3)  # energy below this is rounding


@dataclass(frozen=True)
class Partition:
    """What :func:`measure` finds.

    Attributes
    ----------
    labels : ndarray of int32 [shape=(height, width)]
        The region of each pixel, 0 to n - 1; each is one 4-connected piece. -1 outside a mask.
    regions : ndarray of float64 [shape=(n, N_SUMS)]
        Sums over the pixels of each region: their number, sides on the frame or the mask's edge, energy, CIELAB, its
        squares, soft histograms of L, a and b, textons.
    edges : ndarray of int64 [shape=(m, 2)]
        Pairs of regions that touch, the smaller first, in ascending order.
    borders : ndarray of float64 [shape=(m, 2 + len(CUES))]
        Sums over the pixel sides of each border: their number, energy, strength of each cue across the border.
    """

    labels: NDArray[np.int32]
    regions: Array
    edges: NDArray[np.int64]
    borders: Array


def find_regions(energy: NDArray[np.float32], inside: NDArray[np.bool_] | None = None) -> NDArray[np.int32]:
    """Cut a picture into some hundred regions whose borders follow ridges of the energy.

    Parameters
    ----------
    energy : ndarray of float32 [shape=(height, width)]
    inside : ndarray of bool [shape=(height, width)], optional
        Pixels that belong to regions; all, when not given.

    Returns
    -------
    ndarray of int32 [shape=(height, width)]
        The region of each pixel, 0 to n - 1; -1 for those that belong to none.

    References
    ----------
    L. Vincent, P. Soille, "Watersheds in digital spaces", IEEE TPAMI 13(6), 1991.
    """
    energy = np.maximum(energy, FLAT)
    radius = max(1, round(np.sqrt(energy.size / REGIONS) / 2.6))
    coarse = cv2.GaussianBlur(energy, (0, 0), 1.2)
    lowest = coarse <= cv2.erode(coarse, np.ones((2 * radius + 1, 2 * radius + 1), np.uint8))
    if inside is not None:
        lowest &= inside
    count, markers = cv2.connectedComponents(lowest.astype(np.uint8), connectivity=4)
    labels = np.asarray(watershed(cv2.GaussianBlur(energy, (0, 0), 0.6), markers, mask=inside) - 1, np.int32)
    if inside is not None:  # an island whose lowest point is none of a whole window is a region of its own
        island = cv2.connectedComponents((inside & (labels < 0)).astype(np.uint8), connectivity=4)[1]
        labels = np.where(island > 0, island + (count - 2), labels).astype(np.int32)
    return labels


def measure(cues: Cues, labels: NDArray[np.int32]) -> Partition:
    """Sum cues over regions and borders.

    Parameters
    ----------
    cues : Cues
    labels : ndarray of int32 [shape=(height, width)]
        The region of each pixel, 0 to n - 1; -1 for those that belong to none.

    Returns
    -------
    Partition
    """
    count = int(labels.max()) + 1
    first, second, across = _sides(labels)
    flat = labels.ravel()
    low, high = np.minimum(flat[first], flat[second]), np.maximum(flat[first], flat[second])
    codes, edge = np.unique(low.astype(np.int64) * count + high, return_inverse=True)
    edges = np.stack(np.divmod(codes, count), axis=1)
    # the normal of a border, from its lower to its higher region: the sum of those of its sides
    towards = np.where(flat[first] == low, 1.0, -1.0)
    length = np.bincount(edge, minlength=len(edges))
    x = np.bincount(edge, towards * across, len(edges))
    y = np.bincount(edge, towards * ~across, len(edges))
    norm = np.hypot(x, y)
    # a straight border has a norm of .7 to 1 times its length; one that closes on itself has no normal
    trust = np.clip(norm / (0.7 * np.maximum(length, 1)), 0, 1)
    norm = np.maximum(norm, 1e-12)
    xx, yy, xy = (
        (trust * product + (1 - trust) * rest).astype(np.float32)[edge]
        for product, rest in (((x / norm) ** 2, 0.5), ((y / norm) ** 2, 0.5), (2 * x * y / norm**2, 0.0))
    )
    borders = np.empty((len(edges), 2 + len(CUES)))
    borders[:, 0] = length
    energy = cues.energy.ravel()
    borders[:, 1] = np.bincount(edge, (energy[first] + energy[second]) / 2, len(edges))
    planes = cues.tensors.reshape(len(CUES), 3, -1)
    for place, (jxx, jyy, jxy) in enumerate(planes):
        square = xx * (jxx[first] + jxx[second]) + yy * (jyy[first] + jyy[second]) + xy * (jxy[first] + jxy[second])
        borders[:, 2 + place] = np.bincount(edge, np.sqrt(np.maximum(square, 0) / 2), len(edges))
    return Partition(labels, _sum_regions(cues, labels, count), edges, borders)


def _sides(labels: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """List the pixel sides between regions: the two pixels, and whether the step between them is along x."""
    width = labels.shape[1]
    rows, columns = np.nonzero((labels[:, 1:] != labels[:, :-1]) & (np.minimum(labels[:, 1:], labels[:, :-1]) >= 0))
    along_x = rows * width + columns
    rows, columns = np.nonzero((labels[1:] != labels[:-1]) & (np.minimum(labels[1:], labels[:-1]) >= 0))
    along_y = rows * width + columns
    first = np.concatenate([along_x, along_y])
    second = np.concatenate([along_x + 1, along_y + width])
    return first, second, np.arange(len(first)) < len(along_x)


def _sum_regions(cues: Cues, labels: NDArray[np.int32], count: int) -> Array:
    """Sum over the pixels of each region, and of what belongs to none, which is left out at the end."""
    last = count
    flat = np.where(labels < 0, last, labels).ravel()
    count += 1
    sums = np.zeros((count, N_SUMS))
    sums[:, SIZE] = np.bincount(flat, minlength=count)
    frame = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1], _along_mask(labels)])
    sums[:, FRAME] = np.bincount(frame[frame >= 0], minlength=count)
    sums[:, ENERGY] = np.bincount(flat, cues.energy.ravel(), count)
    place = HISTOGRAMS
    for channel, bins in enumerate((L_BINS, A_BINS, B_BINS)):
        values = cues.lab[..., channel].ravel()
        sums[:, LAB + channel] = np.bincount(flat, values, count)
        sums[:, LAB_SQUARED + channel] = np.bincount(flat, values * values, count)
        sums[:, place : place + bins[0]] = _sum_bins(flat, values, bins, count)
        place += bins[0]
    sums[:, place:] = np.bincount(
        flat * np.int64(N_TEXTONS) + cues.textons.ravel(), minlength=count * N_TEXTONS
    ).reshape(count, N_TEXTONS)
    return sums[:last]


def _along_mask(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """List the regions along the edge of a mask, once a pixel side."""
    ends = ((labels[:, 1:], labels[:, :-1]), (labels[1:], labels[:-1]))
    return np.concatenate([np.maximum(a, b)[(np.minimum(a, b) < 0) & (np.maximum(a, b) >= 0)] for a, b in ends])


def _sum_bins(flat: NDArray[np.int32], values: NDArray[Any], bins: tuple[int, float, float], count: int) -> Array:
    """Sum the shares of :func:`.cues.soft_bins` over regions."""
    n_bins, low, high = bins
    position = np.clip((values - low) * ((n_bins - 1) / (high - low)), 0, n_bins - 1)
    below = np.minimum(position.astype(np.int64), n_bins - 2)
    share = position - below
    cell = flat * np.int64(n_bins) + below
    shares = [np.bincount(place, part, count * n_bins) for place, part in ((cell, 1 - share), (cell + 1, share))]
    return np.asarray(shares[0] + shares[1], np.float64).reshape(count, n_bins)
