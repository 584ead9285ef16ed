"""Pictures of faces and of what was judged corrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, tiled

Array = NDArray[Any]

MARK = np.array([220, 30, 30], np.uint8)  # red, for corrupted pixels


def residual_panels(
    images: Array, reconstructions: Array, cleaned: Array, corrupted: NDArray[np.bool_], image_shape: tuple[int, int],
    *, white: float = 255.0,
) -> list[NDArray[np.uint8]]:  # fmt: skip
    """Return images as they are, with corrupted pixels in red, cleaned, and reconstructed, for :func:`.tiled`."""
    grey = grey_pictures(images * (255 / white), image_shape)
    marked = grey.copy()
    marked[corrupted.reshape(len(images), *image_shape)] = MARK
    others = [grey_pictures(values * (255 / white), image_shape) for values in (cleaned, reconstructions)]
    return [grey, marked, *others]


def residual_picture(*images: Any, **white: Any) -> NDArray[np.uint8]:
    """Return a picture with a row for each of the :func:`residual_panels`."""
    return tiled(residual_panels(*images, **white))
