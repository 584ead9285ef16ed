"""Local histograms of hue, counted as a bag of words."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_count, check_number
from visionnmf._typing import Array

from .bag_of_words import AtCorners, BagOfWords, OnGrid
from .extractor import PreparedImage

HUE_SCALES = (1.6, 2.3, 3.2)
PATCH = 6.0  # from the middle of a patch to its side, in scales, as for SIFT
SAMPLES = 12  # pixels sampled across a patch
BLOCK = 2048  # patches that are described at once
ROUNDING = 1e-4  # saturation below this is rounding
GREY = 0.3


@dataclass(eq=False, repr=False)
class HueWords(BagOfWords):
    """Bags of words of hue histograms at points of a grid or at corners."""

    _: KW_ONLY
    n_bins: int = 36
    grey: float = GREY

    def _check_parameters(self) -> None:
        """Also check the bins, and `grey`, the saturation (>= 0) at which a descriptor has half its length."""
        super()._check_parameters()
        check_count(self.n_bins, "n_bins", 1, 1000)
        check_number(self.grey, "grey")

    def _descriptor_size(self) -> int:
        return self.n_bins

    def _descriptors(self, image: PreparedImage, points: Array) -> NDArray[np.float32]:
        """Return a histogram of hues for each patch; `points` (n, 3) are row, column and scale in pixels."""
        return hue_histograms(image.floats, points, self.n_bins, grey=self.grey)


@dataclass(eq=False, repr=False)
class DenseHue(OnGrid, HueWords):
    """Hue histograms of patches on a dense grid, as a bag of words; each feature is a share of the patches.

    The histogram of a patch (:func:`hue_histograms`) keeps its shape under shading and under highlights of white light.

    Parameters
    ----------
    n_words : int, default=100
        The size of the dictionary, which mini-batch k-means learns; it is smaller where the images have fewer distinct
        descriptors.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells, each with its own bag.
    n_samples : int, default=100_000
        The number of descriptors from which the dictionary is learnt, taken from at most a thousand images.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels.
    random_state : int, RandomState, Generator or None, default=0
    n_bins : int, default=36
        The number of bins of the hue.
    grey : float, default=0.3
        The saturation at which a descriptor has half its length, so that noise in nearly grey patches counts little. 0
        is the paper's descriptor.
    scales : tuple of float, default=(1.6, 2.3, 3.2)
        In pixels; the side of a patch is twelve scales.
    step : float, default=3
        The distance of two points, in multiples of the scale.

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, n_bins), >= 0]

    References
    ----------
    J. van de Weijer, C. Schmid, "Coloring local feature extraction", ECCV 2006, section 4.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import DenseHue
    >>> DenseHue(20).fit_transform([make_mosaic(64, 64).image]).shape
    (1, 20)
    """

    kind = "dense-hue"

    n_words: int = 100
    _: KW_ONLY
    scales: tuple[float, ...] = HUE_SCALES


@dataclass(eq=False, repr=False)
class HarrisHue(AtCorners, HueWords):
    """Hue histograms of patches at Harris-Laplace points, as a bag of words; an image without corners has only zeros.

    Parameters
    ----------
    n_words, layout, n_samples, max_pixels, random_state, n_bins, grey : as for :class:`DenseHue`

    Attributes
    ----------
    dictionary_ : ndarray of float32 [shape=(n_words, n_bins), >= 0]

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import HarrisHue
    >>> HarrisHue(5).fit_transform([make_mosaic(64, 64).image]).shape
    (1, 5)
    """

    kind = "harris-hue"

    n_words: int = 100


def hue_histograms(rgb: Array, points: Array, n_bins: int = 36, *, grey: float = 0.0) -> NDArray[np.float32]:
    """Describe patches by the histogram of their hues, each weighted by its saturation.

    With the opponent colours ``O1 = (R - G) / sqrt(2)`` and ``O2 = (R + G - 2B) / sqrt(6)`` the hue is the angle
    ``atan2(O1, O2)`` and the saturation ``sqrt(O1^2 + O2^2)``. The uncertainty of a hue is inversely proportional to
    the saturation, so pixels are weighted by their saturation. They count less towards the sides of the patch (a
    Gaussian with half the patch's radius), and a hue between the middles of two bins is shared between both (van de
    Weijer & Schmid 2006, equations 6 to 12).

    `points` (n, 3) are row, column and scale of each patch, in pixels; a patch extends six scales to each side. `grey`
    is added to the norm by which a histogram is divided, as a mean saturation of the patch. Returns (n, n_bins): the
    norm is 1, or less with `grey`, and 0 for a grey patch.
    """
    angle, saturation = _hue(np.asarray(rgb, np.float32))
    bins = angle * np.float32(n_bins / (2 * np.pi)) % n_bins
    found = [np.empty((0, n_bins), np.float32)]
    for start in range(0, len(points), BLOCK):
        found.append(_histograms(bins, saturation, points[start : start + BLOCK], n_bins, grey))
    return np.concatenate(found)


def _histograms(bins: Array, saturation: Array, points: Array, n_bins: int, grey: float) -> NDArray[np.float32]:
    """Return the histograms (n, n_bins) of patches at `points`; `bins` is each pixel's hue in units of bins."""
    low = np.floor(bins).ravel()
    # a hue is shared between bin `low` and the next one, which gets `share`; the bins are a circle
    share, low = bins.ravel() - low, low.astype(np.intp) % n_bins
    # flat indices of the pixels that are sampled in each patch, and their Gaussian weights (n, SAMPLES^2)
    where, window = _samples(points, *bins.shape)
    weight = window * saturation.ravel()[where]
    first = n_bins * np.arange(len(points))[:, np.newaxis]  # the first bin of each patch
    counts = np.zeros(len(points) * n_bins)
    for bin_, part in ((low, 1 - share), ((low + 1) % n_bins, share)):
        counts += np.bincount((first + bin_[where]).ravel(), (weight * part[where]).ravel(), counts.size)
    patches = counts.reshape(len(points), n_bins)
    norms = np.linalg.norm(patches, axis=1, keepdims=True)
    total = window.sum(axis=1, keepdims=True)
    # `total` is the sum of the weights of a patch, so that thresholds are mean saturations; grey patches become 0
    coloured = norms > ROUNDING * total
    return np.where(coloured, patches / np.where(coloured, norms + grey * total, 1), 0).astype(np.float32)


def _hue(rgb: Array) -> tuple[Array, Array]:
    """Return each pixel's hue in radians and its saturation, by the formulas of :func:`hue_histograms`."""
    red, green, blue = np.moveaxis(rgb, -1, 0)
    first = (red - green) / np.sqrt(2, dtype=np.float32)
    second = (red + green - 2 * blue) / np.sqrt(6, dtype=np.float32)
    return np.arctan2(first, second), np.hypot(first, second)


def _samples(points: Array, height: int, width: int) -> tuple[NDArray[np.intp], Array]:
    """Return flat indices and Gaussian weights, both (n, SAMPLES^2), of the pixels sampled in each patch."""
    # of the samples along an axis from the middle of the patch, in scales
    offsets = (np.arange(SAMPLES) - (SAMPLES - 1) / 2) * (2 * PATCH / SAMPLES)
    gaussian = np.exp(-((offsets / (PATCH / 2)) ** 2) / 2).astype(np.float32)
    rows, inside_rows = _places(points[:, 0], points[:, 2], offsets, height)
    columns, inside_columns = _places(points[:, 1], points[:, 2], offsets, width)
    where = rows[:, :, np.newaxis] * width + columns[:, np.newaxis, :]
    window = (gaussian * inside_rows)[:, :, np.newaxis] * (gaussian * inside_columns)[:, np.newaxis, :]
    return where.reshape(len(points), -1), window.reshape(len(points), -1)


def _places(centres: Array, scales: Array, offsets: Array, size: int) -> tuple[NDArray[np.intp], Array]:
    """Return the places of samples along an axis (n, n_offsets), moved into the image, and which lay in it."""
    places = np.rint(centres[:, np.newaxis] + scales[:, np.newaxis] * offsets).astype(np.intp)
    return np.clip(places, 0, size - 1), (places >= 0) & (places < size)
