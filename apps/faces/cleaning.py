"""Which pixels of a face are corrupted, and cleaning them: saturated pixels, opaque blocks, and outliers of a model."""

from __future__ import annotations

import math
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from visionnmf import choices
from visionnmf._checks import brief, check_choice, check_image_shape

Array = NDArray[Any]
Mask = NDArray[np.bool_]

QUANTILE = 0.25  # of the absolute residuals; outliers do not move it while they are less than half of the pixels
SCALE_ROUNDS = 5
OUTLYING = 4.0  # standard deviations
MOST_OUTLYING = 0.6  # share of the pixels
JUDGED = 4.0  # a pixel is called corrupted beyond this many standard deviations of the noise ...
VISIBLE = 0.15  # ... and this share of white
LEAST_BLOCK = 4  # pixels
# Share of the brightest value. Most of a patch stays this even after JPEG at quality 95, and so do deep shadows.
FLAT = 4.5 / 255
BLOCK_SHARE = 5  # the smallest block's side is the image's shorter side over this
# Share of the border pixels of a set that an even background covers: 0.39 to 0.47 for turning objects, at most 0.09 for
# faces, with or without patches.
BACKGROUND = 0.25
QUERY_FACTOR = 2.0  # new images are cleaned less, because their errors do not spread to other images
FEW_MISSING = 0.02  # shares of missing pixels below this count as equal
MOST_MISSING = 0.9  # if more of an image is missing, the search has failed and the image is left as it is


class Decomposition(NamedTuple):
    """Images split into what the model explains and what it does not; arrays (n_samples, n_pixels).

    In `cleaned`, outlying pixels are pulled towards the model's `reconstructions`, and missing ones replaced by them.
    `corrupted` are the pixels that are judged corrupted; see :class:`FaceRecognizer`. Of undamaged images 4 to 8 % of
    the pixels are, on average, because the model does not know what is peculiar to an image: compare a share with
    ``corrupted_rate_`` of the recogniser, that of left-out training images. `noise` (n_samples, n_measures) holds the
    noise scale over white, the shares of outlying and of missing pixels, and, if the height and width of the images are
    known, the scale of the finest detail over white.
    """

    reconstructions: Array
    cleaned: Array
    corrupted: Mask
    noise: Array

    @property
    def grain(self) -> Array:
        """The scale of the finest detail of each image over white (n_samples, 1), or (n_samples, 0) if unknown."""
        return self.noise[:, 3:]

    def __repr__(self) -> str:
        return brief(self)


def as_images(data: Array, image_shape: tuple[int, int]) -> Array:
    """Return rows of pixels as images (n_images, height, width)."""
    return data.reshape(-1, *check_image_shape(image_shape, n_pixels=data.shape[1]))


def found_in_rows(
    data: Array,
    image_shape: tuple[int, int] | None,
    missing: str,
    white: float,
    brightest: float,
    background: float,
) -> Mask:
    """Return :func:`missing_pixels` of images as rows (n_images, n_pixels); no blocks without an image shape.

    `data` are NaN where the caller says that pixels are missing. `missing` names the search: "blocks", "saturated" or
    "none". `white` is the value of white, `brightest` the largest one of the training images, and `background` that of
    an even background, or NaN.
    """
    if missing == "none" or (missing == "blocks" and image_shape is None):
        return np.zeros(data.shape, bool)
    images = data[:, None] if image_shape is None else as_images(data, image_shape)  # without a shape, one row each
    return missing_pixels(images, missing, white, brightest, background).reshape(data.shape)


def missing_pixels(images: Array, missing: str, white: float, brightest: float, background: float = math.nan) -> Mask:
    """Return the pixels of images (n_images, height, width) that are missing: "none", "saturated" or "blocks".

    `brightest` is the largest value in the set, by which evenness is judged. Pixels of an even `background`
    (:func:`flat_background`; NaN if there is none) are never missing, and neither is any pixel of an image of which
    nearly everything would be. Pixels that are NaN, because the caller's mask hides them, are not found again.
    """
    check_choice(missing, "missing", choices.FACE_MISSING)
    if missing == "none":
        return np.zeros(images.shape, bool)
    mask = saturated_pixels(images, white) if missing == "saturated" else flat_blocks(images, brightest)
    if not math.isnan(background):
        mask &= np.abs(images - background) > FLAT * brightest
    seen = (~np.isnan(images)).sum(axis=(1, 2))
    mask[mask.sum(axis=(1, 2)) > MOST_MISSING * seen] = False
    return mask


def saturated_pixels(images: Array, white: float) -> Mask:
    """Return the pixels that are black (0) or white."""
    return (images <= 0) | (images >= white)


def flat_blocks(images: Array, brightest: float) -> Mask:
    """Return the pixels of opaque blocks: squares whose values differ by at most 4.5/255 of the brightest value.

    `images` are (n_images, height, width), and squares with hidden pixels, which are NaN, are not even. Lit skin, hair
    and noise never are. Deep shadows are, and say as little about the person. A square has a fifth of the image's
    shorter side, at least 4 pixels.
    """
    height, width = images.shape[1:]
    side = max(LEAST_BLOCK, round(min(height, width) / BLOCK_SHARE))
    mask = np.zeros(images.shape, bool)
    if side > min(height, width):
        return mask
    low = high = images  # become the least and the largest value in the square that begins at each pixel
    for axis in (1, 2):
        low = np.lib.stride_tricks.sliding_window_view(low, side, axis=axis).min(axis=-1)
        high = np.lib.stride_tricks.sliding_window_view(high, side, axis=axis).max(axis=-1)
    flat = high - low <= FLAT * brightest  # indexed by the square's upper left corner
    for row in range(side):
        for column in range(side):
            mask[:, row : row + flat.shape[1], column : column + flat.shape[2]] |= flat
    return mask


def flat_background(images: Array, brightest: float) -> float:
    """Return the value of an even background, or NaN if there is none.

    A background is made of even blocks of one value that cover much of the images' borders, unlike a patch on a face.
    `images` (n_images, height, width) are NaN at hidden pixels, and `brightest` is their largest value.
    """
    border = np.ones(images.shape[1:], bool)
    border[1:-1, 1:-1] = False
    values, even = images[:, border], flat_blocks(images, brightest)[:, border]
    if not even.any():
        return math.nan
    value = float(np.median(values[even]))
    share = (even & (np.abs(values - value) <= FLAT * brightest)).sum() / (~np.isnan(values)).sum()  # of those seen
    return value if share > BACKGROUND else math.nan


def noise_scale(residuals: Array, axis: int | None = None) -> Any:
    """Estimate the standard deviation of the residuals that are not outliers; `axis` is kept with length 1.

    The estimate uses the lower quartile of the absolute residuals, which holds while up to half of the pixels are
    corrupted. Because of the outliers, it is a higher quantile of the others, whose share is therefore estimated in
    turn. Consistent for a normal distribution.
    """
    sizes = np.abs(residuals)
    quartile = np.quantile(sizes, QUANTILE, axis=axis, keepdims=axis is not None)
    outlying: Any = 0.0
    for _ in range(SCALE_ROUNDS):
        # The quantile p of the size of a standard normal variable is the quantile (1 + p) / 2 of the variable itself.
        # The share of outlying pixels is at most 0.6, so that p, that of the quartile among the others, stays below 1.
        scale = quartile / ndtri((1 + QUANTILE / (1 - outlying)) / 2)
        outlying = np.minimum((sizes > OUTLYING * scale).mean(axis=axis, keepdims=axis is not None), MOST_OUTLYING)
    return scale


def noise_scales(residuals: Array, missing: Mask) -> Array:
    """Return :func:`noise_scale` of each image (n_images, 1), of pixels that are not missing; 0 if all are.

    `residuals` and `missing` are (n_images, n_pixels).
    """
    scales = np.asarray(noise_scale(residuals, axis=1))  # and again, one by one, for images with missing pixels
    for row in np.flatnonzero(missing.any(axis=1)):
        seen = residuals[row, ~missing[row]]
        scales[row] = noise_scale(seen) if len(seen) else 0
    return scales


def hidden(images: Array, mask: Mask, value: float = math.nan) -> Array:
    """Return images with `value` at the pixels of a mask; the images themselves if it is empty."""
    return np.where(mask, images.dtype.type(value), images) if mask.any() else images


def grain(images: Array) -> Array:
    """Estimate the standard deviation of each image's noise from its finest detail (its grain), without a model.

    `images` are (n_images, height, width) of 3 × 3 pixels or more, and the result is (n_images,).
    The difference of second differences is 0 on planes and ridges (Immerkær, "Fast noise variance estimation", 1996).
    """
    detail = images
    for axis in (1, 2):
        low, middle, high = (np.take(detail, np.arange(k, detail.shape[axis] - 2 + k), axis=axis) for k in range(3))
        detail = low - 2 * middle + high
    # The weights of this difference, 1, -2, 1 along both axes, have the root of their sum of squares 6.
    return np.asarray(noise_scale(detail.reshape(len(images), -1) / 6, axis=1))[:, 0]


def grain_of_rows(data: Array, image_shape: tuple[int, int] | None) -> Array:
    """Return :func:`grain`, the strength of the noise, of images as rows (n_images, 1); (n_images, 0) if unknown."""
    if image_shape is None or min(image_shape) < 3:  # it is that of second differences, which take three pixels
        return np.empty((len(data), 0), data.dtype)
    return grain(as_images(data, image_shape))[:, None]


def corruption_limit(scale: Any, white: float) -> Any:
    """Return the residual beyond which a pixel is corrupted: visible, and an outlier of noise with this `scale`.

    The scale is the standard deviation of the noise, one number or (n_images, 1).
    """
    return np.maximum(JUDGED * scale, VISIBLE * white)


def pull_limit(outliers: float, scale: Any) -> Any:
    """Return the limit for :func:`winsorise`: `outliers` standard deviations `scale`, a number or (n_images, 1).

    0 and infinity stay what they are: images become the model's reconstructions, or stay as they are.
    """
    # The product would be NaN for infinity and a scale of 0.
    return outliers * scale if 0 < outliers < math.inf else np.full_like(scale, outliers)


def winsorise(images: Array, reconstructions: Array, limit: Any, missing: Mask) -> Array:
    """Return images with pixels pulled to within `limit` of a model's reconstructions: Huber's pseudo-values.

    Arrays are (n_images, n_pixels), and `limit` is a number or (n_images, 1). Missing pixels get the reconstruction.
    """
    residuals = np.clip(images - reconstructions, -limit, limit)
    residuals[missing] = 0
    residuals += reconstructions
    return residuals.astype(images.dtype, copy=False)


def decomposed(
    model: Any,
    data: Array,
    missing: Mask,
    scale: float,
    outliers: float,
    white: float,
    image_shape: tuple[int, int] | None,
) -> Decomposition:
    """Reconstruct new images by a fitted `model`, clean them, find corrupted pixels, and measure their noise.

    `data` and `missing` are (n_images, n_pixels). `scale` is the noise scale of the training images, and `outliers` how
    many standard deviations these may be away from the model. Shares of missing pixels up to FEW_MISSING are noted as
    equal.
    """
    codes = model.transform(data, weights=~missing) if missing.any() else model.transform(data)
    reconstructions = (codes @ model.components_).astype(data.dtype, copy=False)
    residuals = np.abs(data - reconstructions)
    own = noise_scales(residuals, missing)  # the noise scale of each image (n_images, 1)
    outlying = ((residuals > corruption_limit(own, white)) & ~missing).mean(axis=1)
    larger = np.maximum(own, scale).astype(data.dtype)  # so that an image that fits well is left alone
    cleaned = winsorise(data, reconstructions, pull_limit(QUERY_FACTOR * outliers, larger), missing)
    corrupted = missing | (residuals > corruption_limit(larger, white))
    detail = grain_of_rows(np.where(missing, reconstructions, data), image_shape) / white
    noise = [own / white, outlying[:, None], np.maximum(missing.mean(axis=1, keepdims=True), FEW_MISSING)]
    return Decomposition(reconstructions, cleaned, corrupted, np.hstack([*noise, detail]))


def takes_weights(model: Any) -> bool:
    """Return whether a model can ignore some of the pixels; the default one can."""
    if model is None:
        return True
    return all("weights" in signature(step).parameters for step in (model.fit_transform, model.transform))
