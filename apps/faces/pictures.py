"""A contact sheet of faces and of what was judged corrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, tiled

__all__ = ["residual_picture"]

Array = NDArray[Any]

MARK = np.array([220, 30, 30], np.uint8)  # red


def residual_picture(
    images: Array, reconstructions: Array, cleaned: Array, corrupted: NDArray[np.bool_], image_shape: tuple[int, int],
    *, white: float = 255.0,
) -> NDArray[np.uint8]:  # fmt: skip
    """Show images, their corrupted pixels in red, the images cleaned, and the reconstructions, in a row each.

    The arrays have a row (n_images, n_pixels) for each image, and `white` is the value of white. Returns a picture
    (rows, columns, 3).
    """
    grey = grey_pictures(images * (255 / white), image_shape)
    marked = grey.copy()
    marked[corrupted.reshape(len(images), *image_shape)] = MARK
    others = [grey_pictures(values * (255 / white), image_shape) for values in (cleaned, reconstructions)]
    return tiled([list(row) for row in (grey, marked, *others)])
