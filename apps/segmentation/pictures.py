"""Preparing what is segmented: pictures of any number type, bands and masks; removing dead pixels and noise."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_flag, check_numbers
from visionnmf._pixel_range import in_full_range
from visionnmf.exceptions import ParameterError
from visionnmf.features import check_image
from visionnmf.features.images import full_range

SAMPLE = 2**16  # pixels from which principal components are computed
TAILS = 0.5  # per cent of the pixels that become black, and as many white

# Dead and saturated pixels.
EXTREME = 0.02  # a value so near to an end of the range, as a share of the range, may be one
UNLIKE = 0.15  # and must differ so much from the median of the 25 pixels around
LEAST_SHARE = 0.03  # of all values; of 200 photographs one has more

# The standard deviation of noise in lightness. 95 of 100 photographs are below, and at 5 levels a blur brings nothing.
NOISE = 7 / 255
NOISE_BLUR = 0.7  # pixels


class Picture(NamedTuple):
    """What :func:`read_picture` returns."""

    shown: NDArray[Any]  # RGB (height, width, 3), uint8, uint16 or float32 in [0, 1]
    pixels: NDArray[Any]  # the same, with colours of the nearest pixels inside the mask outside, to make no border
    values: NDArray[Any]  # what was given
    inside: NDArray[np.bool_] | None


def read_picture(image: ArrayLike, mask: ArrayLike | None = None, bands: bool = False) -> Picture:
    """Check an image and its mask, as :func:`.segment` takes them; raise ParameterError if one is not usable."""
    values = np.asarray(image)
    inside = None
    if mask is not None:
        inside = _check_mask(mask, values.shape[:2])
        # outside there may be NaN, which the checks below would refuse
        if values.dtype.kind == "f" and values.ndim in (2, 3):
            values = np.where(inside if values.ndim == 2 else inside[..., np.newaxis], values, values.dtype.type(0))
    values = _check_bands(values) if check_flag(bands, "bands") else check_image(values)
    shown, note = (false_colours(values, inside), "") if bands else in_full_range(values, inside)
    if note:
        warnings.warn(f"image: {note}", UserWarning, stacklevel=3)
    pixels = shown if inside is None else fill_outside(shown, inside)
    return Picture(shown, pixels, values, inside)


def _check_mask(mask: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return where a mask is not 0; raise ParameterError if it is not of this shape, or holds no numbers or only 0."""
    found = check_numbers(mask, "mask", None)
    if found.shape != shape:
        raise ParameterError(f"mask must have the image's shape {shape}; got {found.shape}")
    if found.dtype.kind not in "buif" or (found.dtype.kind == "f" and not np.isfinite(found).all()):
        raise ParameterError(f"mask must hold True and False, or finite numbers; got dtype {found.dtype}")
    inside: NDArray[np.bool_] = found != 0
    if not inside.any():
        raise ParameterError("mask must leave at least one pixel; got only zeros")
    return inside


def _check_bands(values: NDArray[Any]) -> NDArray[Any]:
    """Return a picture as (height, width, n_bands), or raise ParameterError if it is not a finite numeric array."""
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
    """Show bands (height, width, n_bands) as a colour picture of their first three principal components, in [0, 1].

    The first component goes from black to white, the second from green to red, the third from blue to yellow, all with
    one scale. So distances of colours are those of the components, which are those of the pixels `inside`.
    """
    flat = values.reshape(-1, values.shape[2])
    places = np.arange(len(flat)) if inside is None else np.flatnonzero(inside)
    sample = flat[places[:: max(1, len(places) // SAMPLE)]].astype(np.float64)
    mean = sample.mean(axis=0)
    # `eigh` returns ascending eigenvalues, and as item 1 the eigenvectors: the last three columns, the largest first
    vectors = np.linalg.eigh((sample - mean).T @ (sample - mean))[1][:, ::-1][:, :3]
    sums = vectors.sum(axis=0)  # the sign of an eigenvector is arbitrary; the sum of its entries decides it
    vectors *= np.where(sums < 0, -1, 1)
    low, high = np.percentile((sample - mean) @ vectors[:, 0], (TAILS, 100 - TAILS))
    # The first component moves all channels of the colour at once, by 1 / sqrt(3) each: `low` becomes 0 and `high` 1.
    gain = np.sqrt(3) / (high - low) if high > low else 0.0
    # orthonormal directions of the three components in RGB: brightness, green to red, blue to yellow
    axes = np.array([[1, 1, 1] / np.sqrt(3), [1, -1, 0] / np.sqrt(2), [1, 1, -2] / np.sqrt(6)])
    # fewer than three bands have fewer components
    turn = (gain * vectors @ axes[: vectors.shape[1]]).astype(np.float32)
    # what is added to every channel, so that the middle of `low` and `high` becomes 0.5
    middle = np.float32(0.5 - gain * (low + high) / 2 / np.sqrt(3))
    picture = np.empty((*values.shape[:2], 3), np.float32)
    for start in range(0, len(values), 256):  # in strips, because a copy of all bands in float may be large
        rows = slice(start, start + 256)
        picture[rows] = np.clip((values[rows] - mean).astype(np.float32) @ turn + middle, 0, 1)
    return picture


def fill_outside(pixels: NDArray[Any], inside: NDArray[np.bool_]) -> NDArray[Any]:
    """Give each pixel outside a mask the value of the nearest one inside."""
    outside = (~inside).astype(np.uint8)
    names = cv2.distanceTransformWithLabels(outside, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)[1]
    # OpenCV gives each pixel the name of the nearest one inside; `nearest` maps names to flat indices of pixels
    nearest = np.zeros(int(names.max()) + 1, np.int64)
    nearest[names[inside]] = np.flatnonzero(inside)
    return np.asarray(pixels.reshape(-1, *pixels.shape[2:])[nearest[names]])


def resize_mask(inside: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Give a mask another shape; in a smaller one, a pixel is inside if any part of what it replaces is."""
    if inside.shape == shape:
        return inside
    if inside.size < shape[0] * shape[1]:
        return cv2.resize(inside.astype(np.uint8), shape[::-1], interpolation=cv2.INTER_NEAREST_EXACT) > 0
    shares = cv2.resize(inside.astype(np.float32), shape[::-1], interpolation=cv2.INTER_AREA)
    return np.asarray(shares > 0, bool)


def remove_impulses(pixels: NDArray[Any]) -> NDArray[Any]:
    """Replace dead and saturated values of a picture by a mean of good ones around, where they are 3 % or more."""
    full = full_range(pixels.dtype)
    low, high, unlike = EXTREME * full, (1 - EXTREME) * full, UNLIKE * full
    extreme = np.count_nonzero(pixels <= low) + np.count_nonzero(pixels >= high)
    if min(pixels.shape[:2]) < 5 or extreme < LEAST_SHARE * pixels.size:
        return pixels
    clean = pixels.copy(order="C")
    n_bad = 0
    for channel in range(3):
        values = np.ascontiguousarray(pixels[..., channel])
        median = cv2.medianBlur(values, 5)
        bad = ((values <= low) | (values >= high)) & (cv2.absdiff(values, median) > unlike)
        n_bad += int(np.count_nonzero(bad))
        good = (~bad).astype(np.float32)
        # a mean with Gaussian weights over the good values only; the median where there is hardly any near
        weight = cv2.GaussianBlur(good, (0, 0), 1.0)[bad]
        good *= values  # in place, because pictures can be large
        mean = cv2.GaussianBlur(good, (0, 0), 1.0)[bad] / np.maximum(weight, 1e-6)
        mean = np.where(weight > 0.05, mean, median[bad])
        clean[bad, channel] = mean if pixels.dtype.kind == "f" else np.rint(mean)
    return clean if n_bad >= LEAST_SHARE * pixels.size else pixels


def remove_noise(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Blur a picture in [0, 1] a little if its noise (Immerkaer 1996) is above `NOISE`, else return it as it is."""
    # divided by 6, the root of the sum of squares, so that the deviation of the noise stays the same
    second = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32) / 6
    # 0.6745 is the median of the absolute values of a standard normal distribution
    noise = np.median(np.abs(cv2.filter2D(picture.mean(axis=2), -1, second))) / 0.6745
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), NOISE_BLUR)) if noise > NOISE else picture
