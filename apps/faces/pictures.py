"""Contact sheets of faces: what was judged corrupted, and what was removed as a shadow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, tiled

__all__ = ["residual_picture", "shadows_picture"]

Array = NDArray[Any]

MARK = np.array([220, 30, 30], np.uint8)  # red


def residual_picture(
    images: Array, reconstructions: Array, cleaned: Array, corrupted: NDArray[np.bool_], image_shape: tuple[int, int],
    *, white: float = 255.0,
) -> NDArray[np.uint8]:  # fmt: skip
    """Show images, their corrupted pixels in red, the images cleaned, and the reconstructions, in a row each.

    Parameters
    ----------
    images, reconstructions, cleaned : ndarray [shape=(n_images, n_pixels)]
    corrupted : ndarray of bool [shape=(n_images, n_pixels)]
    image_shape : tuple of (int, int)
        Height and width.
    white : float, default=255
        The value of white.

    Returns
    -------
    ndarray of uint8 [shape=(rows, columns, 3)]

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import residual_picture
    >>> images = np.full((2, 30), 90.0)
    >>> residual_picture(images, images, images, images > 100, (6, 5)).ndim >= 2
    True
    """
    grey = grey_pictures(images * (255 / white), image_shape)
    marked = grey.copy()
    marked[corrupted.reshape(len(images), *image_shape)] = MARK
    others = [grey_pictures(values * (255 / white), image_shape) for values in (cleaned, reconstructions)]
    return tiled([list(row) for row in (grey, marked, *others)])


def shadows_picture(
    images: Array, faces: Array, shadows: Array, image_shape: tuple[int, int], *, white: float = 255.0
) -> NDArray[np.uint8]:
    """Show images of one person, the faces without shadows, and what was removed, in a row each.

    Shadows are darker than middle grey, highlights brighter; `white` is the value of white.
    """
    rows = (images * (255 / white), faces * (255 / white), 127.5 + shadows * (127.5 / white))
    return tiled([list(grey_pictures(row, image_shape)) for row in rows])
