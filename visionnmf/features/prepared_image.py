"""One image in the forms that extractors need; each form is computed once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf.io import read_image

from .images import check_image, reduce_image
from .interest_points import harris_laplace

__all__ = ["PreparedImage"]


class PreparedImage:
    """An image as 8-bit RGB (`rgb`) of at most `max_pixels`, and as grey, floats and corners.

    The image is a file or an array that :func:`.check_image` takes; None leaves its size as it is.
    """

    def __init__(self, image: ArrayLike | str | Path, max_pixels: int | None) -> None:
        pixels = check_image(read_image(image) if isinstance(image, str | Path) else image)
        too_large = max_pixels is not None and pixels.shape[0] * pixels.shape[1] > max_pixels
        if too_large or pixels.dtype != np.uint8:
            limit = max_pixels if max_pixels is not None else pixels.shape[0] * pixels.shape[1]
            pixels = np.rint(reduce_image(pixels, limit) * 255).astype(np.uint8)
        self.rgb: NDArray[np.uint8] = np.ascontiguousarray(pixels)

    @cached_property
    def grey(self) -> NDArray[np.uint8]:
        """The luma of ITU-R BT.601 [shape=(height, width)]."""
        return np.asarray(cv2.cvtColor(self.rgb, cv2.COLOR_RGB2GRAY))

    @cached_property
    def floats(self) -> NDArray[np.float32]:
        """RGB from 0 to 1 [shape=(height, width, 3)]."""
        return self.rgb.astype(np.float32) / np.float32(255)

    @cached_property
    def corners(self) -> NDArray[np.float32]:
        """Harris-Laplace points: row, column and scale, in pixels [shape=(n, 3)]."""
        return harris_laplace(self.grey / np.float32(255))

    def resized_grey(self, height: int, width: int) -> NDArray[np.float32]:
        """Return the grey image scaled to a size, from 0 to 1; it is averaged where it shrinks."""
        shrinks = self.grey.shape[0] > height and self.grey.shape[1] > width
        how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        resized: NDArray[Any] = cv2.resize(self.grey.astype(np.float32), (width, height), interpolation=how)
        return np.clip(resized / np.float32(255), 0, 1)
