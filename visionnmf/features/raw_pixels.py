"""The pixels of the image, scaled to one size."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from visionnmf._checks import check_image_shape

from .extractor import MAX_PIXELS, Extractor
from .prepared_image import PreparedImage

__all__ = ["RawPixels"]


class RawPixels(Extractor):
    """The grey image, scaled to one size.

    Parameters
    ----------
    size : tuple of two ints, default=(32, 32)
        Height and width in pixels.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels first.

    Attributes
    ----------
    n_features_out_ : int
        The number of pixels; each feature is a brightness from 0 to 1.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import RawPixels
    >>> images = [make_mosaic(64, 64, random_state=seed).image for seed in range(3)]
    >>> RawPixels().fit_transform(images).shape
    (3, 1024)
    """

    view = "raw-pixels"

    def __init__(self, size: tuple[int, int] = (32, 32), *, max_pixels: int | None = MAX_PIXELS) -> None:
        self.size = size
        self.max_pixels = max_pixels

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_image_shape(self.size, "size")

    def _n_features(self) -> int:
        return self.size[0] * self.size[1]

    def _describe(self, image: PreparedImage) -> NDArray[Any]:
        return image.resized_grey(*self.size).ravel()
