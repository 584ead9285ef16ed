"""Pictures of faces and of what was judged corrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, tiled

Array = NDArray[Any]

MARK = np.array([220, 30, 30], np.uint8)  # red, for corrupted pixels


def residual_picture(
    images: Array, reconstructions: Array, cleaned: Array, corrupted: NDArray[np.bool_], image_shape: tuple[int, int],
    *, white: float = 255.0,
) -> NDArray[np.uint8]:  # fmt: skip
    """Return a picture of images, with corrupted pixels in red, cleaned, and reconstructed, in a row each.

    Arrays are (n_images, n_pixels), in which `white` is the value of white. The first row has the images as they are.
    """
    grey = grey_pictures(images * (255 / white), image_shape)
    marked = grey.copy()
    marked[corrupted.reshape(len(images), *image_shape)] = MARK
    others = [grey_pictures(values * (255 / white), image_shape) for values in (cleaned, reconstructions)]
    return tiled([list(row) for row in (grey, marked, *others)])
