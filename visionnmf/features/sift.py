"""SIFT descriptors, computed by OpenCV and counted as a bag of words."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import RandomState

from .bag_of_words import AtCorners, BagOfWords, OnGrid
from .extractor import MAX_PIXELS, PreparedImage
from .interest_points import STEP

__all__ = ["SIFT_SCALES", "DenseSift", "HarrisSift", "keypoints", "sift_descriptors"]

Array = NDArray[Any]

SIFT_SCALES = (1.13, 1.6, 2.26)
FIRST_SCALE = 1.6  # the scale of the first layer of OpenCV's pyramid, in pixels
LAYERS = 3  # layers of an octave
DESCRIPTOR = 128  # length of a descriptor: 4 x 4 cells of 8 directions


class SiftWords(BagOfWords):
    """Bags of words of SIFT descriptors at points of a grid or at corners."""

    def __init__(
        self,
        n_words: int = 1000,
        *,
        layout: tuple[int, int] = (1, 1),
        n_samples: int = 100_000,
        max_pixels: int | None = MAX_PIXELS,
        random_state: RandomState = 0,
    ) -> None:
        """Keep the parameters; the words are learnt from `n_samples` patches."""
        self.n_words = n_words
        self.layout = layout
        self.n_samples = n_samples
        self.max_pixels = max_pixels
        self.random_state = random_state

    def _descriptor_size(self) -> int:
        return DESCRIPTOR

    def _descriptors(self, image: PreparedImage, points: Array) -> NDArray[np.float32]:
        """Return a SIFT descriptor (n, 128) for each patch; `points` (n, 3) are row, column and scale."""
        return sift_descriptors(image.grey, points)


class DenseSift(OnGrid, SiftWords):
    """Upright SIFT descriptors on a dense grid, as a bag of words; each feature is a share of the patches.

    Parameters
    ----------
    n_words : int, default=1000
        The size of the dictionary, which mini-batch k-means learns; it is smaller where the images have fewer distinct
        descriptors.
    scales : tuple of float, default=(1.13, 1.6, 2.26)
        In pixels; the side of a patch is twelve scales.
    step : float, default=3
        The distance of two points, in multiples of the scale.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells, each with its own bag; (3, 1) are three horizontal bands.
    n_samples : int, default=100_000
        The number of descriptors from which the dictionary is learnt, taken from at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels.
    random_state : int, RandomState, Generator or None, default=0

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

    def __init__(
        self,
        n_words: int = 1000,
        *,
        scales: tuple[float, ...] = SIFT_SCALES,
        step: float = STEP,
        layout: tuple[int, int] = (1, 1),
        n_samples: int = 100_000,
        max_pixels: int | None = MAX_PIXELS,
        random_state: RandomState = 0,
    ) -> None:
        """Keep the parameters; the words are learnt from `n_samples` patches, which lie `step` scales apart."""
        super().__init__(n_words, layout=layout, n_samples=n_samples, max_pixels=max_pixels, random_state=random_state)
        self.scales = scales
        self.step = step


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


def sift_descriptors(grey: NDArray[np.uint8], points: NDArray[Any]) -> NDArray[np.float32]:
    """Describe patches by OpenCV's upright SIFT, each in the layer of the pyramid that fits its scale.

    `points` (n, 3) are row, column and scale (>= 0.8) of each patch, in pixels; the side of a patch is twelve scales.
    Returns whole numbers from 0 to 255 (n, 128), all 0 for a flat patch. The pyramid has LAYERS layers an octave, each
    octave at half the size of the one before; the first layer of octave 0 has the scale FIRST_SCALE.
    """
    if not len(points):
        return np.empty((0, DESCRIPTOR), np.float32)
    found = keypoints(points)
    octave = max(0, max(_levels(points)) // LAYERS)
    missing = [max(0, (2 << octave) - size) for size in grey.shape]  # so that the coarsest octave has pixels
    grey = np.pad(grey, [(0, missing[0]), (0, missing[1])], mode="edge")
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


def _levels(points: NDArray[Any]) -> list[int]:
    """Return the layer of each point's scale, counted from the first layer of octave 0; negative in finer octaves."""
    # LAYERS layers double the scale
    levels: list[int] = np.rint(LAYERS * np.log2(points[:, 2] / FIRST_SCALE)).astype(int).tolist()
    return levels
