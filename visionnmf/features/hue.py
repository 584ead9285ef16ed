"""Local histograms of hue, as a bag of words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import RandomState, check_count, check_number

from .base import MAX_PIXELS
from .points import STEP
from .prepared import Prepared
from .words import AtCorners, BagOfWords, Local, OnGrid

__all__ = ["DenseHue", "HarrisHue", "hue_histograms"]

Array = NDArray[Any]

HUE_SCALES = (1.6, 2.3, 3.2)
PATCH = 6.0  # scales from the middle of a patch to its side, as SIFT's
SAMPLES = 12  # across a patch
BLOCK = 2048  # patches at once
ROUNDING = 1e-4  # saturation below which there is nothing else
GREY = 0.3


class HueWords(BagOfWords):
    """Bags of words of hue histograms at points of a grid or at corners."""

    n_bins: int
    grey: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self.n_bins, "n_bins", 1, 1000)
        check_number(self.grey, "grey")

    def _descriptor_size(self) -> int:
        return self.n_bins

    def _local(self, image: Prepared) -> Local:
        height, width = image.grey.shape
        points = self._points(image)
        return hue_histograms(image.floats, points, self.n_bins, grey=self.grey), points[:, :2] / (height, width)


class DenseHue(OnGrid, HueWords):
    """Hue histograms of patches on a dense grid, as a bag of words.

    The histogram of a patch (:func:`hue_histograms`) keeps its shape under shading and under highlights of white light.

    Parameters
    ----------
    n_words : int, default=100
        Of the dictionary, which is learnt by k-means in mini-batches; fewer where the images have fewer distinct
        descriptors.
    n_bins : int, default=36
        Of the hue.
    grey : float, default=0.3
        The saturation at which a descriptor has half its length: greyer patches have shorter ones, so that words tell
        grey from coloured, and the noise of nearly grey patches counts little. 0 is the paper's descriptor.
    scales : tuple of float, default=(1.6, 2.3, 3.2)
        Pixels; a patch has twelve times that a side.
    step : float, default=3
        Between two points, in multiples of the scale.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells with a bag each.
    n_samples : int, default=100_000
        Descriptors from which the dictionary is learnt, of at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many.
    random_state : int, RandomState, Generator or None, default=0

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, n_bins), >= 0]
    n_features_out_ : int
        Words; each feature is a share of the patches.

    References
    ----------
    J. van de Weijer, C. Schmid, "Coloring local feature extraction", ECCV 2006, section 4.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import DenseHue
    >>> images = [make_mosaic(64, 64, random_state=seed).image for seed in range(3)]
    >>> DenseHue().fit_transform(images).shape
    (3, 100)
    """

    view = "dense-hue"

    def __init__(
        self,
        n_words: int = 100,
        *,
        n_bins: int = 36,
        grey: float = GREY,
        scales: tuple[float, ...] = HUE_SCALES,
        step: float = STEP,
        layout: tuple[int, int] = (1, 1),
        n_samples: int = 100_000,
        max_pixels: int | None = MAX_PIXELS,
        random_state: RandomState = 0,
    ) -> None:
        self.n_words = n_words
        self.n_bins = n_bins
        self.grey = grey
        self.scales = scales
        self.step = step
        self.layout = layout
        self.n_samples = n_samples
        self.max_pixels = max_pixels
        self.random_state = random_state


class HarrisHue(AtCorners, HueWords):
    """Hue histograms of patches at Harris-Laplace points, as a bag of words.

    The histogram of a patch (:func:`hue_histograms`) keeps its shape under shading and under highlights of white light.

    Parameters
    ----------
    n_words : int, default=100
        Of the dictionary, which is learnt by k-means in mini-batches; fewer where the images have fewer distinct
        descriptors.
    n_bins : int, default=36
        Of the hue.
    grey : float, default=0.3
        The saturation at which a descriptor has half its length: greyer patches have shorter ones, so that words tell
        grey from coloured, and the noise of nearly grey patches counts little. 0 is the paper's descriptor.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells with a bag each.
    n_samples : int, default=100_000
        Descriptors from which the dictionary is learnt, of at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many.
    random_state : int, RandomState, Generator or None, default=0

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, n_bins), >= 0]
    n_features_out_ : int
        Words; each feature is a share of the patches, all 0 where an image has none.

    References
    ----------
    J. van de Weijer, C. Schmid, "Coloring local feature extraction", ECCV 2006, section 4.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import HarrisHue
    >>> images = [make_mosaic(64, 64, random_state=seed).image for seed in range(3)]
    >>> HarrisHue().fit_transform(images).shape[0]
    3
    """

    view = "harris-hue"

    def __init__(
        self,
        n_words: int = 100,
        *,
        n_bins: int = 36,
        grey: float = GREY,
        layout: tuple[int, int] = (1, 1),
        n_samples: int = 100_000,
        max_pixels: int | None = MAX_PIXELS,
        random_state: RandomState = 0,
    ) -> None:
        self.n_words = n_words
        self.n_bins = n_bins
        self.grey = grey
        self.layout = layout
        self.n_samples = n_samples
        self.max_pixels = max_pixels
        self.random_state = random_state


def hue_histograms(rgb: Array, points: Array, n_bins: int = 36, *, grey: float = 0.0) -> NDArray[np.float32]:
    """Describe patches by the histogram of their hues, each weighted by its saturation.

    With the opponent colours ``O1 = (R - G) / sqrt(2)`` and ``O2 = (R + G - 2B) / sqrt(6)`` the hue is the angle
    ``atan2(O1, O2)`` and the saturation ``sqrt(O1^2 + O2^2)``: as a grey pixel's hue is uncertain in inverse proportion
    to its saturation, it counts in proportion to it. Pixels count less towards the sides of the patch (a Gaussian with
    half the patch's radius), and a hue between the middles of two bins counts in both.

    Parameters
    ----------
    rgb : ndarray of float [shape=(height, width, 3)]
    points : ndarray [shape=(n, 3)]
        Row, column and scale of each patch, in pixels; a patch reaches six scales to each side.
    n_bins : int, default=36
    grey : float, default=0
        Added to the mean saturation, in the sense of the norm, by which a histogram is divided.

    Returns
    -------
    ndarray of float32 [shape=(n, n_bins), >= 0]
        Of norm 1, or less with `grey`; all 0 where a patch is grey.

    References
    ----------
    J. van de Weijer, C. Schmid, "Coloring local feature extraction", ECCV 2006, equations (6) to (12).

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import hue_histograms
    >>> rgb = np.random.default_rng(0).random((32, 32, 3))
    >>> hue_histograms(rgb, np.array([[16.0, 16, 2]])).shape
    (1, 36)
    """
    angle, saturation = _hue(np.asarray(rgb, np.float32))
    bins = angle * np.float32(n_bins / (2 * np.pi)) % n_bins
    found = [np.empty((0, n_bins), np.float32)]
    for start in range(0, len(points), BLOCK):
        found.append(_histograms(bins, saturation, points[start : start + BLOCK], n_bins, grey))
    return np.concatenate(found)


def _histograms(bins: Array, saturation: Array, points: Array, n_bins: int, grey: float) -> NDArray[np.float32]:
    """Describe some of the patches; `bins` has the hue of each pixel, in bins."""
    low = np.floor(bins).ravel()
    share, low = bins.ravel() - low, low.astype(np.intp) % n_bins
    where, window = _samples(points, *bins.shape)
    weight = window * saturation.ravel()[where]
    first = n_bins * np.arange(len(points))[:, np.newaxis]  # bin of each patch
    counts = np.zeros(len(points) * n_bins)
    for bin_, part in ((low, 1 - share), ((low + 1) % n_bins, share)):
        counts += np.bincount((first + bin_[where]).ravel(), (weight * part[where]).ravel(), counts.size)
    patches = counts.reshape(len(points), n_bins)
    norms = np.linalg.norm(patches, axis=1, keepdims=True)
    total = window.sum(axis=1, keepdims=True)
    coloured = norms > ROUNDING * total
    return np.where(coloured, patches / np.where(coloured, norms + grey * total, 1), 0).astype(np.float32)


def _hue(rgb: Array) -> tuple[Array, Array]:
    """Return the hue of each pixel, an angle, and its saturation."""
    red, green, blue = np.moveaxis(rgb, -1, 0)
    first = (red - green) / np.sqrt(2, dtype=np.float32)
    second = (red + green - 2 * blue) / np.sqrt(6, dtype=np.float32)
    return np.arctan2(first, second), np.hypot(first, second)


def _samples(points: Array, height: int, width: int) -> tuple[NDArray[np.intp], Array]:
    """Return the pixels that stand for each patch, and what each counts: nothing outside the image."""
    offsets = (np.arange(SAMPLES) - (SAMPLES - 1) / 2) * (2 * PATCH / SAMPLES)
    bell = np.exp(-((offsets / (PATCH / 2)) ** 2) / 2).astype(np.float32)
    rows, inside_rows = _places(points[:, 0], points[:, 2], offsets, height)
    columns, inside_columns = _places(points[:, 1], points[:, 2], offsets, width)
    where = rows[:, :, np.newaxis] * width + columns[:, np.newaxis, :]
    window = (bell * inside_rows)[:, :, np.newaxis] * (bell * inside_columns)[:, np.newaxis, :]
    return where.reshape(len(points), -1), window.reshape(len(points), -1)


def _places(centres: Array, scales: Array, offsets: Array, size: int) -> tuple[NDArray[np.intp], Array]:
    """Return the pixels of samples along one axis, and which of them lie in the image."""
    places = np.rint(centres[:, np.newaxis] + scales[:, np.newaxis] * offsets).astype(np.intp)
    return np.clip(places, 0, size - 1), (places >= 0) & (places < size)
