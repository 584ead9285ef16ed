"""Which pixels of a face say nothing about it: saturated ones, opaque blocks, and those far from a model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from visionnmf import choices
from visionnmf._checks import check_choice

__all__ = [
    "flat_background",
    "flat_blocks",
    "grain",
    "missing_pixels",
    "noise_scale",
    "pull_limit",
    "saturated_pixels",
    "winsorise",
]

Array = NDArray[Any]
Mask = NDArray[np.bool_]

QUANTILE = 0.25  # of the absolute residuals: not moved by outliers as long as less than half of the pixels are
SCALE_ROUNDS = 5
OUTLYING = 4.0  # standard deviations
MOST_OUTLYING = 0.6  # share of the pixels
LEAST_BLOCK = 4  # pixels
# of the brightest: what JPEG at a quality of 95 leaves of most of a patch, and the noise of deep shadows
FLAT = 4.5 / 255
BLOCK_SHARE = 5  # the side of the smallest block is the image's over this
# share of the frames' pixels that a background has; turning objects .39 to .47, faces, also with patches, at most .09
BACKGROUND = 0.25
MOST_MISSING = 0.9  # of an image; beyond, the search has failed and the image is left as it is


def missing_pixels(images: Array, missing: str, white: float, brightest: float, background: float = math.nan) -> Mask:
    """Find the pixels that should count as missing.

    Parameters
    ----------
    images : ndarray [shape=(n_images, height, width)]
        From 0, black, to `white`.
    missing : {"none", "saturated", "blocks"}
        Nothing, :func:`saturated_pixels` or :func:`flat_blocks`.
    white : float
        The largest value a pixel can have.
    brightest : float
        The largest value in the set, by which evenness is judged: less than `white` where all is underexposed.
    background : float, default=NaN
        Value of :func:`flat_background`: pixels of it are not missing.

    Returns
    -------
    ndarray of bool [shape of `images`]
        False in images of which nearly everything would be missing.

    Raises
    ------
    ParameterError
        When there is no such way.
    """
    check_choice(missing, "missing", choices.FACE_MISSING)
    if missing == "none":
        return np.zeros(images.shape, bool)
    mask = saturated_pixels(images, white) if missing == "saturated" else flat_blocks(images, brightest)
    if not math.isnan(background):
        mask &= np.abs(images - background) > FLAT * brightest
    mask[mask.mean(axis=(1, 2)) > MOST_MISSING] = False
    return mask


def saturated_pixels(images: Array, white: float) -> Mask:
    """Find black and white pixels.

    Parameters
    ----------
    images : ndarray [shape=(n_images, height, width)]
    white : float
        The largest value a pixel can have; the smallest is 0.

    Returns
    -------
    ndarray of bool [shape of `images`]
    """
    return (images <= 0) | (images >= white)


def flat_blocks(images: Array, brightest: float) -> Mask:
    """Find opaque blocks: squares within which all pixels are within 4/255 of the brightest's value of each other.

    Lit skin and hair are never that even, nor is noise; deep shadows are, and say as little. A square must have a fifth
    of the image's shorter side, at least 4 pixels; larger blocks of any shape are found as unions of such squares.

    Parameters
    ----------
    images : ndarray [shape=(n_images, height, width)]
    brightest : float
        The largest value in the set.

    Returns
    -------
    ndarray of bool [shape of `images`]
    """
    height, width = images.shape[1:]
    side = max(LEAST_BLOCK, round(min(height, width) / BLOCK_SHARE))
    mask = np.zeros(images.shape, bool)
    if side > min(height, width):
        return mask
    low = high = images
    for axis in (1, 2):
        low = np.lib.stride_tricks.sliding_window_view(low, side, axis=axis).min(axis=-1)
        high = np.lib.stride_tricks.sliding_window_view(high, side, axis=axis).max(axis=-1)
    flat = high - low <= FLAT * brightest  # by the upper left corner
    for row in range(side):
        for column in range(side):
            mask[:, row : row + flat.shape[1], column : column + flat.shape[2]] |= flat
    return mask


def flat_background(images: Array, brightest: float) -> float:
    """Return the value of an even background, which says what it is not: the outline of a thing.

    It is even blocks of one value that make up a good part of the frames of a set. A patch on a face lies elsewhere
    on each image.

    Parameters
    ----------
    images : ndarray [shape=(n_images, height, width)]
    brightest : float
        The largest value in the set.

    Returns
    -------
    float
        NaN where there is none.
    """
    frame = np.ones(images.shape[1:], bool)
    frame[1:-1, 1:-1] = False
    values, even = images[:, frame], flat_blocks(images, brightest)[:, frame]
    if not even.any():
        return math.nan
    value = float(np.median(values[even]))
    share = (even & (np.abs(values - value) <= FLAT * brightest)).mean()
    return value if share > BACKGROUND else math.nan


def noise_scale(residuals: Array, axis: int | None = None) -> Any:
    """Estimate the standard deviation of the residuals that are no outliers.

    From the lower quartile of the absolute residuals, which holds where up to half of the pixels are corrupted; the
    median, from which it is usually taken, breaks down there. Outliers make the quartile of all a higher quantile of
    the rest: their share is estimated in turn. Consistent for a normal distribution.

    Parameters
    ----------
    residuals : ndarray
    axis : int or None, default=None

    Returns
    -------
    float, or ndarray with `axis` kept as 1
    """
    sizes = np.abs(residuals)
    quartile = np.quantile(sizes, QUANTILE, axis=axis, keepdims=axis is not None)
    outlying: Any = 0.0
    for _ in range(SCALE_ROUNDS):
        scale = quartile / norm.ppf((1 + QUANTILE / (1 - outlying)) / 2)
        outlying = np.minimum((sizes > OUTLYING * scale).mean(axis=axis, keepdims=axis is not None), MOST_OUTLYING)
    return scale


def grain(images: Array) -> Array:
    """Estimate the standard deviation of each image's noise from its finest detail, without any model.

    A difference of second differences is 0 on planes and ridges (Immerkær, "Fast noise variance estimation", 1996);
    of its absolute values, :func:`noise_scale` is taken, which edges and single bad pixels hardly move.

    Parameters
    ----------
    images : ndarray [shape=(n_images, height, width)]
        Of 3 × 3 pixels at least.

    Returns
    -------
    ndarray [shape=(n_images,), >= 0]
    """
    detail = images
    for axis in (1, 2):
        low, middle, high = (np.take(detail, np.arange(k, detail.shape[axis] - 2 + k), axis=axis) for k in range(3))
        detail = low - 2 * middle + high
    return np.asarray(noise_scale(detail.reshape(len(images), -1) / 6, axis=1))[:, 0]


def pull_limit(outliers: float, scale: Any) -> Any:
    """Return so many deviations; 0 and infinity as they are.

    Parameters
    ----------
    outliers : float, >= 0
    scale : float or ndarray

    Returns
    -------
    float or ndarray [shape of `scale`]
    """
    return outliers * scale if 0 < outliers < math.inf else np.full_like(scale, outliers)


def winsorise(images: Array, reconstructions: Array, limit: Any, missing: Mask) -> Array:
    """Pull pixels that lie far from a model's reconstruction to within `limit` of it: Huber's pseudo-values.

    Parameters
    ----------
    images : ndarray [shape=(n_images, n_pixels)]
    reconstructions : ndarray [shape of `images`]
        The model's.
    limit : float or ndarray that broadcasts, >= 0
        0 gives the reconstructions, infinity the images.
    missing : ndarray of bool [shape of `images`]
        Pixels that become the reconstruction's.

    Returns
    -------
    ndarray [shape and dtype of `images`]
    """
    residuals = np.clip(images - reconstructions, -limit, limit)
    residuals[missing] = 0
    residuals += reconstructions
    return residuals.astype(images.dtype, copy=False)
