"""SIFT descriptors, of OpenCV at corners and equal to its own on grids, counted as a bag of words."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._typing import Array

from .bag_of_words import AtCorners, BagOfWords, OnGrid
from .extractor import PreparedImage
from .interest_points import grid_size

SIFT_SCALES = (1.13, 1.6, 2.26)
FIRST_SCALE = 1.6  # the scale of the first layer of OpenCV's pyramid, in pixels
LAYERS = 3  # layers of an octave
CELLS, DIRECTIONS = 4, 8  # along a side of a patch, and in each cell
DESCRIPTOR = CELLS**2 * DIRECTIONS  # length of a descriptor
CELL = 3  # scales; the side of a cell
CLIPPED, LENGTH = 0.2, 512  # the largest share of its norm that an entry of a descriptor may have, and its final norm
STRIP = 16  # rows of a grid at a time, so that what they share stays small


class SiftWords(BagOfWords):
    """Bags of words of SIFT descriptors at points of a grid or at corners."""

    def _descriptor_size(self) -> int:
        return DESCRIPTOR


@dataclass(eq=False, repr=False)
class DenseSift(OnGrid, SiftWords):
    """Upright SIFT descriptors on a dense grid, as a bag of words; each feature is a share of the patches.

    Parameters
    ----------
    n_words : int, default=1000
        The size of the dictionary, which mini-batch k-means learns; it is smaller where the images have fewer distinct
        descriptors.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells, each with its own bag; (3, 1) are three horizontal bands.
    n_samples : int, default=100_000
        The number of descriptors from which the dictionary is learnt, taken from at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels.
    random_state : int, RandomState, Generator or None, default=0
    scales : tuple of float, default=(1.13, 1.6, 2.26)
        In pixels; the side of a patch is twelve scales.
    step : float, default=3
        The distance of two points, in multiples of the scale.

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, 128), >= 0]

    References
    ----------
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", IJCV 60(2), 2004.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import DenseSift
    >>> DenseSift(20).fit_transform([make_mosaic(64, 64).image]).shape
    (1, 20)
    """

    kind = "dense-sift"

    _: KW_ONLY
    scales: tuple[float, ...] = SIFT_SCALES

    def _descriptors(self, image: PreparedImage, points: Array) -> NDArray[np.float32]:
        """Return a SIFT descriptor (n, 128) for each patch of the grid."""
        height, width = image.grey.shape
        return grid_descriptors(image.grey, points, grid_size(height, width, self.scales, self.step))


@dataclass(eq=False, repr=False)
class HarrisSift(AtCorners, SiftWords):
    """Upright SIFT descriptors at Harris-Laplace points, as a bag of words; an image without corners has only zeros.

    Parameters
    ----------
    n_words, layout, n_samples, max_pixels, random_state : as for :class:`DenseSift`

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, 128), >= 0]

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import HarrisSift
    >>> HarrisSift(5).fit_transform([make_mosaic(64, 64).image]).shape
    (1, 5)
    """

    kind = "harris-sift"

    def _descriptors(self, image: PreparedImage, points: Array) -> NDArray[np.float32]:
        """Return a SIFT descriptor (n, 128) for each patch; `points` (n, 3) are row, column and scale."""
        return sift_descriptors(image.grey, points)


def sift_descriptors(grey: NDArray[np.uint8], points: NDArray[Any]) -> NDArray[np.float32]:
    """Describe patches by OpenCV's upright SIFT, each in the layer of the pyramid that fits its scale.

    `points` (n, 3) are row, column and scale (>= 0.8) of each patch, in pixels; the side of a patch is twelve scales.
    Returns whole numbers from 0 to 255 (n, 128), all 0 for a flat patch. The pyramid has LAYERS layers an octave, each
    octave at half the size of the one before; the first layer of octave 0 has the scale FIRST_SCALE.
    """
    if not len(points):
        return np.empty((0, DESCRIPTOR), np.float32)
    grey, found = _padded(grey, max(_levels(points))), keypoints(points)
    sift: Any = cv2.SIFT_create(nOctaveLayers=LAYERS, sigma=FIRST_SCALE)  # type: ignore[attr-defined]
    kept, descriptors = sift.compute(grey, found)
    assert len(kept) == len(points)  # OpenCV leaves none out
    return np.asarray(descriptors, np.float32)


def keypoints(points: NDArray[Any]) -> list[cv2.KeyPoint]:
    """Return points (row, column, scale) as OpenCV's, upright, with the octave and layer nearest to the scale.

    OpenCV computes descriptors in the layer that ``octave`` names: the octave in its lowest byte, -1 as 255, the layer
    above.
    """
    packed = [(level // LAYERS & 255) | (level % LAYERS << 8) for level in _levels(points)]
    return [
        cv2.KeyPoint(column, row, size=2 * scale, angle=0.0, response=0.0, octave=octave)  # the size is a diameter
        for (row, column, scale), octave in zip(points.tolist(), packed, strict=True)
    ]


def grid_descriptors(
    grey: NDArray[np.uint8], points: NDArray[Any], sizes: list[tuple[int, int]]
) -> NDArray[np.float32]:
    """Return :func:`sift_descriptors` of a dense grid, whose scales have `sizes` rows and columns, six times as fast.

    Cells of upright patches are weighted by a product of a function of the row and one of the column, so patches in a
    row of the grid share what is summed over rows. Entries differ from OpenCV's by at most 1, one in ten thousand.
    """
    ends = np.cumsum([0, *(rows * columns for rows, columns in sizes)])
    levels = _levels(points[ends[:-1]])
    layers = _layers(_padded(grey, max(levels)), set(levels))
    found = [np.empty((0, DESCRIPTOR), np.float32)]
    for start, size, level in zip(ends, sizes, levels, strict=False):
        grid = points[start : start + size[0] * size[1]].reshape(*size, 3)
        finer = np.float32(2.0 ** -(level // LAYERS))  # pixels of the layer for one of the image
        rows, columns = (np.rint(finer * axis).astype(int) for axis in (grid[:, 0, 0], grid[0, :, 1]))
        for first in range(0, len(rows), STRIP):
            found.append(_strip(layers[level], rows[first : first + STRIP], columns, float(finer * grid[0, 0, 2])))
    return np.concatenate(found)


def _strip(layer: Array, rows: Array, columns: Array, scale: float) -> Array:
    """Return the descriptors (n_rows * n_columns, 128) of patches at these rows and columns of a layer."""
    side = CELL * scale
    reach = int(2.5 * side)  # from the centre of the patch to where its last cell fades out
    offsets = np.arange(-reach, reach + 1) / side
    cells = np.arange(CELLS)[:, None] - (CELLS - 1) / 2
    # A pixel counts for its two nearest cells, and less the further it is from the centre.
    weights = (np.maximum(0, 1 - np.abs(offsets - cells)) * np.exp(-(offsets**2) / 8)).astype(np.float32)
    top, end = max(0, rows[0] - reach), min(len(layer), rows[-1] + reach + 1)
    slopes, width = _slopes(layer, top, end), layer.shape[1]
    down = np.empty((len(rows), CELLS, DIRECTIONS * width), np.float32)
    for row, sums in zip(rows, down, strict=True):
        low, high = max(top, row - reach), min(end, row + reach + 1)
        near = slopes[low - top : high - top].reshape(high - low, -1)
        np.matmul(weights[:, low - row + reach : high - row + reach], near, out=sums)
    lines = down.reshape(-1, width)
    found = np.empty((len(columns), len(lines), CELLS), np.float32)
    for column, sums in zip(columns, found, strict=True):
        low, high = max(0, column - reach), min(width, column + reach + 1)
        np.matmul(lines[:, low:high], weights[:, low - column + reach : high - column + reach].T, out=sums)
    ordered = found.reshape(len(columns), len(rows), CELLS, DIRECTIONS, CELLS).transpose(1, 0, 2, 4, 3)
    descriptors = ordered.reshape(-1, DESCRIPTOR)
    descriptors = np.minimum(descriptors, CLIPPED * np.linalg.norm(descriptors, axis=1, keepdims=True))
    norms = np.linalg.norm(descriptors, axis=1, keepdims=True)
    return np.minimum(np.rint(descriptors * (LENGTH / np.maximum(norms, np.finfo(np.float32).eps))), 255)


def _slopes(layer: Array, top: int, end: int) -> Array:
    """Return how steep pixels of rows `top` to `end` are in each of 8 directions, (n_rows, 8, width); 0 at borders."""
    up, across = np.zeros((2, end - top, layer.shape[1]), np.float32)
    first, last = max(top, 1), min(end, len(layer) - 1)
    if first < last:
        inner = slice(first - top, last - top)
        up[inner, 1:-1] = layer[first - 1 : last - 1, 1:-1] - layer[first + 1 : last + 1, 1:-1]
        across[inner, 1:-1] = layer[first:last, 2:] - layer[first:last, :-2]
    sizes, angles = cv2.cartToPolar(across, up, angleInDegrees=True)
    angles *= np.float32(DIRECTIONS / 360)
    found = np.empty((len(up), DIRECTIONS, layer.shape[1]), np.float32)
    for direction in range(DIRECTIONS):  # each slope is shared by the two nearest directions
        apart = np.abs(angles - np.float32(direction))
        apart = np.minimum(apart, DIRECTIONS - apart) if direction == 0 else apart
        np.multiply(np.maximum(1 - apart, 0), sizes, out=found[:, direction])
    return found


def _layers(grey: NDArray[np.uint8], levels: set[int]) -> dict[int, Array]:
    """Return the layers of OpenCV's pyramid at `levels`, counted from the first layer of octave 0."""
    layer: Array = grey.astype(np.float32)
    octave, known = 0, 0.5  # the latter is the scale of the image itself
    if min(levels) < 0:  # an octave of twice the size, which the least scale that is allowed does not leave
        octave, known = -1, 1.0
        layer = cv2.resize(layer, (2 * grey.shape[1], 2 * grey.shape[0]), interpolation=cv2.INTER_LINEAR)
    scales = FIRST_SCALE * 2 ** (np.arange(LAYERS + 1) / LAYERS)
    blurs = np.sqrt(np.diff(scales**2)).tolist()
    layer = cv2.GaussianBlur(layer, (0, 0), float(np.sqrt(FIRST_SCALE**2 - known**2)))
    found: dict[int, Array] = {}
    while True:
        for level in range(LAYERS * octave, LAYERS * (octave + 1)):
            found[level] = layer
            if level == max(levels):
                return found
            layer = cv2.GaussianBlur(layer, (0, 0), blurs[level % LAYERS])
        layer = cv2.resize(layer, (layer.shape[1] // 2, layer.shape[0] // 2), interpolation=cv2.INTER_NEAREST)
        octave += 1


def _padded(grey: NDArray[np.uint8], level: int) -> NDArray[np.uint8]:
    """Return an image extended by its border, so that the octave of the coarsest `level` has pixels."""
    missing = [max(0, (2 << max(0, level // LAYERS)) - size) for size in grey.shape]
    return np.pad(grey, [(0, missing[0]), (0, missing[1])], mode="edge")


def _levels(points: NDArray[Any]) -> list[int]:
    """Return the layer of each point's scale, counted from the first layer of octave 0; negative in finer octaves."""
    levels: list[int] = np.rint(LAYERS * np.log2(points[:, 2] / FIRST_SCALE)).astype(int).tolist()
    return levels
