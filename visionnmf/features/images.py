"""Checking image arrays of any kind, and reducing them to fewer pixels."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_count, moved_axes
from visionnmf.exceptions import ParameterError


def check_image(image: ArrayLike) -> NDArray[Any]:
    """Check an image, and return it as RGB without alpha, in its own number type if possible.

    Parameters
    ----------
    image : array-like [shape=(height, width) or (height, width, 1, 3 or 4)]
        Grey, RGB or RGBA; uint8, uint16, or float in [0, 1].

    Returns
    -------
    ndarray [shape=(height, width, 3), uint8, uint16 or float32]
        RGB; grey becomes three equal channels (a read-only view). An alpha channel that is opaque everywhere is
        dropped. Otherwise the image is blended onto white, as the file reader does, and the result is float32.

    Raises
    ------
    ParameterError
        If the image has another shape or number type, is empty, or holds NaN, infinity or floats outside [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import check_image
    >>> check_image(np.zeros((4, 5, 3), np.uint8)).shape
    (4, 5, 3)
    """
    pixels = np.asarray(image)
    shape = pixels.shape
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        raise ParameterError(
            "image must have shape (height, width), (height, width, 3) or (height, width, 4); got "
            f"{shape}{moved_axes(shape, 'image')}"
        )
    if pixels.size == 0:
        raise ParameterError(f"image must have at least one pixel; got shape {shape}")
    if pixels.dtype.kind == "f":
        pixels = _check_floats(pixels)
    elif pixels.dtype not in (np.uint8, np.uint16):
        cure = "where its values are 0 to 255" if pixels.dtype.kind != "b" else "* 255"
        raise ParameterError(
            f"image must be uint8, uint16 or float in [0, 1]; got {pixels.dtype}; convert it, for instance by "
            f"image.astype(numpy.uint8) {cure}"
        )
    if pixels.shape[2] == 4:
        return _on_white(pixels)
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3))


def _check_floats(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Return pixels of floating point type as float32; raise ParameterError if they are not all from 0 to 1."""
    bad = int(pixels.size - np.count_nonzero(np.isfinite(pixels)))
    if bad:
        raise ParameterError(
            f"image must be finite; got {bad} NaN or infinite values; replace them, for instance by numpy.nan_to_num"
        )
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:
        raise ParameterError(
            f"image must lie in [0, 1] where it is float; got values from {low:g} to {high:g}; divide by the largest "
            "possible value, or pass uint8 or uint16"
        )
    return pixels.astype(np.float32, copy=False)


def full_range(dtype: np.dtype[Any]) -> float:
    """Return the value of white in a number type."""
    return 1.0 if dtype.kind == "f" else float(np.iinfo(dtype).max)


def _on_white(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return RGB from RGBA pixels, laid on white; opaque images keep their type, others become float32 from 0 to 1."""
    white = full_range(pixels.dtype)
    colour, alpha = pixels[..., :3], pixels[..., 3:]
    if (alpha == white).all():
        return colour
    blended = np.empty(colour.shape, np.float32)
    for start in range(0, len(colour), 256):  # in strips, because temporaries of a whole photograph are large
        rows = slice(start, start + 256)
        opacity = alpha[rows] / np.float32(white)
        blended[rows] = colour[rows] / np.float32(white) * opacity + (1 - opacity)
    return blended


def reduce_image(pixels: NDArray[Any], max_pixels: int) -> NDArray[np.float32]:
    """Average an image down to at most `max_pixels`, and return it as float.

    Parameters
    ----------
    pixels : ndarray [shape=(height, width, 3), uint8, uint16 or float in [0, 1]]
        As :func:`check_image` returns it.
    max_pixels : int, >= 1
        Largest height times width of the result. A smaller image keeps its size.

    Returns
    -------
    ndarray of float32 [shape=(new_height, new_width, 3), in [0, 1]]
        The image; the ratio of the sides is kept as far as whole pixels allow, and each side is at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import reduce_image
    >>> reduce_image(np.zeros((100, 100, 3), np.uint8), 2500).shape
    (50, 50, 3)
    """
    check_count(max_pixels, "max_pixels")
    height, width = pixels.shape[:2]
    if height * width > max_pixels:
        shrink = np.sqrt(max_pixels / (height * width))
        # a side that cannot shrink below 1 leaves more pixels to the other side
        new_height = int(np.clip(height * shrink, 1, max_pixels))
        new_width = max(1, min(int(width * shrink), max_pixels // new_height))
        if new_width == 1:
            new_height = min(height, max_pixels)
        elif new_height == 1:
            new_width = min(width, max_pixels)
        pixels = cv2.resize(np.ascontiguousarray(pixels), (new_width, new_height), interpolation=cv2.INTER_AREA)
    white = np.float32(full_range(pixels.dtype))
    return np.ascontiguousarray(pixels, dtype=np.float32) / white
