"""The pixels of an image: joint histograms of their colours, and their brightness at one size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_choice, check_count, check_image_shape

from .extractor import MAX_PIXELS, Extractor, PreparedImage, check_layout, divide_axis, named_in_cells

# The least value and the extent of each channel, for 8 bits or for OpenCV's conversion of floats. Lightness goes to 100
# and hue to 360 degrees. a and b lie between -108 and 99; their range puts grey, 0, into the middle of a bin.
SPACES: dict[str, tuple[int | None, tuple[float, ...], tuple[float, ...]]] = {
    "rgb": (None, (0, 0, 0), (256, 256, 256)),
    "lab": (cv2.COLOR_RGB2LAB, (0, -136, -136), (100, 256, 256)),
    "hsv": (cv2.COLOR_RGB2HSV, (0, 0, 0), (360, 1, 1)),
}


@dataclass(eq=False, repr=False)
class ColorHistogram(Extractor):
    """A joint histogram of the three channels of a colour space; each feature is a share of the pixels.

    Parameters
    ----------
    space : {"rgb", "lab", "hsv"}, default="rgb"
        sRGB, CIELAB (D65) or HSV.
    n_bins : int, default=16
        The number of bins of equal width for each channel; 16 give 4096 features.
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells, each with its own histogram; (3, 1) are three horizontal bands.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels.

    References
    ----------
    M. Guillaumin, T. Mensink, J. Verbeek, C. Schmid, "TagProp", ICCV 2009, section 3.1.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import ColorHistogram
    >>> ColorHistogram().fit_transform([make_mosaic(64, 64).image]).shape
    (1, 4096)
    """

    space: str = "rgb"
    _: KW_ONLY
    n_bins: int = 16
    layout: tuple[int, int] = (1, 1)
    max_pixels: int | None = MAX_PIXELS

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The name of this kind of feature among all extractors, which is that of its colour space."""
        return self.space

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.space, "space", SPACES)
        check_count(self.n_bins, "n_bins", 1, 64)
        check_layout(self.layout)

    def _names(self) -> Iterator[str]:
        """Yield the bin of each channel, and the cell: ``r3_g0_b15_cell_1_0``."""
        bins = product(*([f"{channel}{i}" for i in range(self.n_bins)] for channel in self.space))
        return named_in_cells(["_".join(each) for each in bins], self.layout)

    def _describe(self, image: PreparedImage) -> NDArray[Any]:
        """Return the joint colour histogram of each cell, as shares of all pixels of the image."""
        conversion, low, extent = SPACES[self.space]
        high = np.array(low, np.float32) + np.array(extent, np.float32)
        colours: NDArray[Any] = image.rgb
        if conversion is not None:  # OpenCV does not count values at the upper end
            colours = np.minimum(cv2.cvtColor(image.floats, conversion), np.nextafter(high, np.float32(0)))
        # the least value and the upper end of each channel, one after the other, as OpenCV takes them
        limits = [limit for pair in zip(low, high.tolist(), strict=True) for limit in pair]
        counts = [
            cv2.calcHist([colours[rows, columns]], [0, 1, 2], None, [self.n_bins] * 3, limits).ravel()
            for rows in divide_axis(colours.shape[0], self.layout[0])
            for columns in divide_axis(colours.shape[1], self.layout[1])
        ]
        return np.concatenate(counts) / (colours.shape[0] * colours.shape[1])


@dataclass(eq=False, repr=False)
class RawPixels(Extractor):
    """The grey image, scaled to one size; each feature is the brightness of a pixel from 0 to 1.

    Parameters
    ----------
    size : tuple of two ints, default=(32, 32)
        Height and width in pixels.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels first.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import RawPixels
    >>> RawPixels().fit_transform([make_mosaic(64, 64).image]).shape
    (1, 1024)
    """

    kind = "raw-pixels"

    size: tuple[int, int] = (32, 32)
    _: KW_ONLY
    max_pixels: int | None = MAX_PIXELS

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_image_shape(self.size, "size")

    def _names(self) -> Iterator[str]:
        return (f"row{row}_column{column}" for row, column in product(range(self.size[0]), range(self.size[1])))

    def _describe(self, image: PreparedImage) -> NDArray[Any]:
        """Return the grey image scaled to `size` (height, width), row by row."""
        return image.resized_grey(*self.size).ravel()
