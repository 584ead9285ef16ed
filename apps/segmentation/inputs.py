"""What comes in: a picture of any kind, or measurements in any number of bands, and a mask."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_flag, check_numbers
from visionnmf.exceptions import ParameterError
from visionnmf.features import check_image

__all__ = ["Picture", "check_mask", "false_colours", "fill_outside", "read_picture", "reduce_mask"]

SAMPLE = 2**16  # pixels from which principal components are computed
TAILS = 0.5  # percent of them beyond black and white


class Picture(NamedTuple):
    """What :func:`read_picture` finds.

    Attributes
    ----------
    shown : ndarray [shape=(height, width, 3), uint8, uint16 or float32 in [0, 1]]
        RGB.
    pixels : ndarray [shape=(height, width, 3)]
        The same; outside the mask what is nearest inside, so that it counts nothing and makes no border.
    values : ndarray [shape=(height, width, n_channels)]
        What was given: RGB, or the bands.
    inside : ndarray of bool [shape=(height, width)] or None
        Pixels of the mask.
    """

    shown: NDArray[Any]
    pixels: NDArray[Any]
    values: NDArray[Any]
    inside: NDArray[np.bool_] | None


def read_picture(image: ArrayLike, mask: ArrayLike | None = None, bands: bool = False) -> Picture:
    """Check what is to be segmented.

    Parameters
    ----------
    image : array-like
    mask : array-like, optional
    bands : bool
        As in :func:`.segment`.

    Returns
    -------
    Picture

    Raises
    ------
    ParameterError
        If one of them is not usable.
    """
    values = np.asarray(image)
    inside = None
    if mask is not None:
        inside = check_mask(mask, values.shape[:2])
        if values.dtype.kind == "f" and values.ndim in (2, 3):  # what is outside may be NaN
            values = np.where(inside if values.ndim == 2 else inside[..., np.newaxis], values, values.dtype.type(0))
    values = _check_bands(values) if check_flag(bands, "bands") else check_image(values)
    shown = false_colours(values, inside) if bands else values
    pixels = shown if inside is None else fill_outside(shown, inside)
    if shown.dtype == np.uint16:  # 10, 12 or 14 bits come in 16
        bits = max(8, int(pixels.max()).bit_length())
        if bits < 16:
            shown, pixels = (np.minimum(part, 2**bits - 1) << np.uint16(16 - bits) for part in (shown, pixels))
    return Picture(shown, pixels, values, inside)


def check_mask(mask: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Check a mask.

    Parameters
    ----------
    mask : array-like of bool or numbers [shape=(height, width)]
        Not 0: inside.
    shape : tuple of int
        Of the image.

    Returns
    -------
    ndarray of bool [shape=(height, width)]

    Raises
    ------
    ParameterError
        If the shape is another, or nothing is inside.
    """
    found = check_numbers(mask, "mask", None)
    if found.shape != shape:
        raise ParameterError(f"mask must have the image's shape {shape}; got {found.shape}")
    if found.dtype.kind not in "buif" or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise ParameterError(f"mask must hold True and False, or finite numbers; got dtype {found.dtype}")
    inside: NDArray[np.bool_] = found != 0
    if not inside.any():
        raise ParameterError("mask must leave at least one pixel; got none that is not 0")
    return inside


def _check_bands(values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim == 2:
        values = values[..., np.newaxis]
    if values.ndim != 3 or values.size == 0 or values.dtype.kind not in "buif":
        raise ParameterError(
            f"image must be numbers of shape (height, width, n_bands); got shape {values.shape}, dtype {values.dtype}"
        )
    bad = values.size - np.count_nonzero(np.isfinite(values)) if values.dtype.kind == "f" else 0
    if bad:
        raise ParameterError(f"image must be finite; got {bad} NaN or infinite values; leave them out by a mask")
    return values


def false_colours(values: NDArray[Any], inside: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    """Show bands as a colour picture, whose distances are those of the first three principal components.

    The first component goes from black to white, the second from green to red, the third from blue to yellow, all with
    one scale. So neither the order of the bands nor one gain and offset for all of them matters.

    Parameters
    ----------
    values : ndarray [shape=(height, width, n_bands)]
        Finite numbers.
    inside : ndarray of bool [shape=(height, width)], optional
        The pixels that matter.

    Returns
    -------
    ndarray of float32 [shape=(height, width, 3), in [0, 1]]
    """
    flat = values.reshape(-1, values.shape[2])
    places = np.arange(len(flat)) if inside is None else np.flatnonzero(inside)
    sample = flat[places[:: max(1, len(places) // SAMPLE)]].astype(np.float64)
    mean = sample.mean(axis=0)
    vectors = np.linalg.eigh((sample - mean).T @ (sample - mean))[1][:, ::-1][:, :3]
    sums = vectors.sum(axis=0)
    vectors *= np.where(sums < 0, -1, 1)
    low, high = np.percentile((sample - mean) @ vectors[:, 0], (TAILS, 100 - TAILS))
    gain = np.sqrt(3) / (high - low) if high > low else 0.0
    axes = np.array([[1, 1, 1] / np.sqrt(3), [1, -1, 0] / np.sqrt(2), [1, 1, -2] / np.sqrt(6)])
    turn = (gain * vectors @ axes[: vectors.shape[1]]).astype(np.float32)
    middle = np.float32(0.5 - gain * (low + high) / 2 / np.sqrt(3))
    picture = np.empty((*values.shape[:2], 3), np.float32)
    for start in range(0, len(values), 256):  # in strips: the bands in another number type may be large
        rows = slice(start, start + 256)
        picture[rows] = np.clip((values[rows] - mean).astype(np.float32) @ turn + middle, 0, 1)
    return picture


def fill_outside(pixels: NDArray[Any], inside: NDArray[np.bool_]) -> NDArray[Any]:
    """Give each pixel outside a mask the colour of the nearest one inside.

    Parameters
    ----------
    pixels : ndarray [shape=(height, width) or (height, width, 3)]
    inside : ndarray of bool [shape=(height, width)]

    Returns
    -------
    ndarray
        Of the same shape.
    """
    names = cv2.distanceTransformWithLabels((~inside).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)[
        1
    ]
    nearest = np.zeros(int(names.max()) + 1, np.int64)
    nearest[names[inside]] = np.flatnonzero(inside)
    return np.asarray(pixels.reshape(-1, *pixels.shape[2:])[nearest[names]])


def reduce_mask(inside: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Reduce a mask so that whatever has a part inside is inside.

    Parameters
    ----------
    inside : ndarray of bool [shape=(height, width)]
    shape : tuple of int
        Height and width of the result.

    Returns
    -------
    ndarray of bool [shape=shape]
    """
    if inside.shape == shape:
        return inside
    shares = cv2.resize(inside.astype(np.float32), shape[::-1], interpolation=cv2.INTER_AREA)
    return np.asarray(shares > 0, bool)
