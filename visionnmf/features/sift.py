"""SIFT descriptors, by OpenCV, as a bag of words."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import RandomState

from .base import MAX_PIXELS
from .points import STEP
from .prepared import Prepared
from .words import AtCorners, BagOfWords, Local, OnGrid

__all__ = ["SIFT_SCALES", "DenseSift", "HarrisSift", "keypoints", "sift_descriptors"]

Array = NDArray[Any]

SIFT_SCALES = (1.13, 1.6, 2.26)
FIRST_SCALE = 1.6  # of OpenCV's pyramid, in pixels
LAYERS = 3  # of an octave
DESCRIPTOR = 128  # numbers: 4 x 4 cells of 8 directions


class SiftWords(BagOfWords):
    """Bags of words of SIFT descriptors at points of a grid or at corners."""

    def _descriptor_size(self) -> int:
        return DESCRIPTOR

    def _local(self, image: Prepared) -> Local:
        height, width = image.grey.shape
        points = self._points(image)
        return sift_descriptors(image.grey, points), points[:, :2] / (height, width)


class DenseSift(OnGrid, SiftWords):
    """Upright SIFT descriptors on a dense grid, as a bag of words.

    Parameters
    ----------
    n_words : int, default=1000
        Of the dictionary, which is learnt by k-means in mini-batches; fewer where the images have fewer distinct
        descriptors.
    scales : tuple of float, default=(1.13, 1.6, 2.26)
        Pixels; a patch has twelve times that a side.
    step : float, default=3
        Between two points, in multiples of the scale.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells with a bag each; (3, 1) are three horizontal bands.
    n_samples : int, default=100_000
        Descriptors from which the dictionary is learnt, of at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many.
    random_state : int, RandomState, Generator or None, default=0

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, 128), >= 0]
    n_features_out_ : int
        Words; each feature is a share of the patches.

    References
    ----------
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", IJCV 60(2), 2004.
    M. Guillaumin, T. Mensink, J. Verbeek, C. Schmid, "TagProp", ICCV 2009, section 3.1.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import DenseSift
    >>> images = [make_mosaic(64, 64, random_state=seed).image for seed in range(3)]
    >>> DenseSift().fit_transform(images).shape
    (3, 1000)
    """

    view = "dense-sift"
    WORKING = 256

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
        self.n_words = n_words
        self.scales = scales
        self.step = step
        self.layout = layout
        self.n_samples = n_samples
        self.max_pixels = max_pixels
        self.random_state = random_state


class HarrisSift(AtCorners, SiftWords):
    """Upright SIFT descriptors at Harris-Laplace points, as a bag of words.

    Parameters
    ----------
    n_words : int, default=1000
        Of the dictionary, which is learnt by k-means in mini-batches; fewer where the images have fewer distinct
        descriptors.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells with a bag each; (3, 1) are three horizontal bands.
    n_samples : int, default=100_000
        Descriptors from which the dictionary is learnt, of at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many.
    random_state : int, RandomState, Generator or None, default=0

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, 128), >= 0]
    n_features_out_ : int
        Words; each feature is a share of the patches, all 0 where an image has none.

    References
    ----------
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", IJCV 60(2), 2004.
    M. Guillaumin, T. Mensink, J. Verbeek, C. Schmid, "TagProp", ICCV 2009, section 3.1.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import HarrisSift
    >>> images = [make_mosaic(64, 64, random_state=seed).image for seed in range(3)]
    >>> HarrisSift().fit_transform(images).shape[0]
    3
    """

    view = "harris-sift"

    def __init__(
        self,
        n_words: int = 1000,
        *,
        layout: tuple[int, int] = (1, 1),
        n_samples: int = 100_000,
        max_pixels: int | None = MAX_PIXELS,
        random_state: RandomState = 0,
    ) -> None:
        self.n_words = n_words
        self.layout = layout
        self.n_samples = n_samples
        self.max_pixels = max_pixels
        self.random_state = random_state


def sift_descriptors(grey: NDArray[np.uint8], points: NDArray[Any]) -> NDArray[np.float32]:
    """Describe patches by OpenCV's SIFT, upright, each in the layer of the pyramid that fits its scale.

    Parameters
    ----------
    grey : ndarray of uint8 [shape=(height, width)]
    points : ndarray [shape=(n, 3)]
        Row, column and scale (>= 0.8) of each patch, in pixels; a patch has twelve scales a side.

    Returns
    -------
    ndarray of float32 [shape=(n, 128), from 0 to 255]
        Whole numbers; all 0 where a patch is flat.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import sift_descriptors
    >>> grey = np.random.default_rng(0).integers(0, 255, (32, 32), np.uint8)
    >>> sift_descriptors(grey, np.array([[16.0, 16, 2]])).shape
    (1, 128)
    """
    if not len(points):
        return np.empty((0, DESCRIPTOR), np.float32)
    found = keypoints(points)
    octave = max(0, max(_levels(points)) // LAYERS)
    missing = [max(0, (2 << octave) - size) for size in grey.shape]  # each octave halves the image, and none may vanish
    grey = np.pad(grey, [(0, missing[0]), (0, missing[1])], mode="edge")
    sift: Any = cv2.SIFT_create(nOctaveLayers=LAYERS, sigma=FIRST_SCALE)  # type: ignore[attr-defined]
    kept, descriptors = sift.compute(grey, found)
    assert len(kept) == len(points)  # it leaves out none of those that are given
    return np.asarray(descriptors, np.float32)


def keypoints(points: NDArray[Any]) -> list[cv2.KeyPoint]:
    """Return points in OpenCV's form, upright, each with the octave and layer that are nearest to its scale.

    Parameters
    ----------
    points : ndarray [shape=(n, 3)]
        Row, column and scale, in pixels.

    Returns
    -------
    list of cv2.KeyPoint
    """
    packed = [(level // LAYERS & 255) | (level % LAYERS << 8) for level in _levels(points)]
    return [
        cv2.KeyPoint(column, row, 2 * scale, 0.0, 0.0, octave)
        for (row, column, scale), octave in zip(points.tolist(), packed, strict=True)
    ]


def _levels(points: NDArray[Any]) -> list[int]:
    """Return the layer of each point, counted from the first of octave 0."""
    levels: list[int] = np.rint(LAYERS * np.log2(points[:, 2] / FIRST_SCALE)).astype(int).tolist()
    return levels
