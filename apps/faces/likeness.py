"""How unlike the training images a picture is, whoever may be on it: a landscape, say, or a face upside down.

There are two limits. An image beyond that of a known person is not named as this person. An image beyond that of people
who were left out of training is probably not a face.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]

UNLIKE_IN_WORDS = "unlike the training images, probably not a face"

# Chosen on ORL; docs/decisions/faces.md has the tables.
CELLS = 8  # along each side
TRUSTED = 0.8  # share of the cells whose residuals count: the smallest, because the others may lie under a block
LEAST_SHOWN = 0.3  # share of a cell's pixels; with fewer that are not missing, it does not count
QUANTILE, MARGIN = 0.99, 1.1  # a limit is this quantile of images, times the margin
ENOUGH = 10  # left-out images; with fewer of them there is no limit
UNEXPLAINED = 0.7  # an image of which less is left unexplained is never called noise
LEAST_CONTRAST = 1e-3  # standard deviation of an even picture, as a share of white


def cells_of(image_shape: tuple[int, int]) -> NDArray[np.intp]:
    """Return the number of the cell that each pixel (n_pixels,) belongs to, in a grid of 8 × 8 cells over the image."""
    height, width = image_shape
    rows, columns = np.divmod(np.arange(height * width), width)
    return np.asarray(rows * CELLS // height * CELLS + columns * CELLS // width)


def unlikeness(
    images: Array, missing: Mask, reconstructions: Array, cells: NDArray[np.intp], noise: Array, white: float
) -> tuple[Array, Array]:
    """Return the coarse residual of each image by the model, as a share of the image's coarse contrast, in two ways.

    Noise cancels out in the medians of `cells`. In the first result, what it still contributes is subtracted, so that
    it hardly depends on noise, single bad pixels and blocks; but nothing is left of an image that is noise alone. The
    second result subtracts nothing, and is near 1 for such an image. `noise` (n_images,) is the standard deviation of a
    pixel's. The results (n_images,) are NaN for an image of which nothing is seen. `images`, `missing` and
    `reconstructions` are (n_images, n_pixels), `cells` (n_pixels,) are the numbers of the pixels' cells, and `white` is
    the value of white.
    """
    numbers = np.unique(cells, return_inverse=True)[1]
    sizes = np.bincount(numbers)
    # The pixels of each cell (n_cells, largest size). Places beyond a cell's size count as missing.
    places = np.arange(sizes.max()) < sizes[:, None]
    pixels = np.zeros(places.shape, np.intp)
    pixels[places] = np.argsort(numbers, kind="stable")
    unseen = missing[:, pixels] | ~places  # (n_images, n_cells, largest size)
    seen = (~unseen).sum(axis=2)
    last = np.maximum(seen - 1, 0)  # the place of the largest visible value among sorted ones
    hidden = seen < LEAST_SHOWN * sizes  # too little of the cell is seen, so it does not count

    def medians(values: Array) -> Array:
        """Return the medians (n_cells, n_images) of values (n_images, n_pixels) without missing ones.

        `pixels` (n_cells, largest size) has the pixels of each cell, and `unseen` (n_images, n_cells, largest size)
        marks those that are missing. The visible ones, once sorted, end at place `last` (n_images, n_cells). A cell of
        which too little is seen is `hidden` (n_images, n_cells), and its median NaN.
        """
        ordered = np.sort(np.where(unseen, np.nan, values[:, pixels]), axis=2)  # NaN are sorted to the end
        # The median is the mean of the two middle values, which are one if the number of values is odd.
        middle = [np.take_along_axis(ordered, half[..., None], axis=2)[..., 0] for half in (last // 2, -(-last // 2))]
        return np.asarray(np.where(hidden, np.nan, sum(middle) / 2).T)

    coarse, squares = medians(images), medians(images - reconstructions) ** 2
    # The variance of a median of n normal values is pi / 2n times theirs.
    variance = np.where(hidden, np.nan, math.pi / 2 * noise[:, None] ** 2 / np.maximum(seen, 1)).T
    count = (~np.isnan(coarse)).sum(axis=0)
    known = np.flatnonzero(count)
    results = np.full((2, len(images)), np.nan)
    coarse, squares, variance = coarse[:, known], squares[:, known], variance[:, known]
    # The cells with the largest residuals may lie under a block. The other 80 % count.
    least = squares <= np.nanquantile(squares, TRUSTED, axis=0)
    for row, noisy in enumerate((variance, 0 * variance)):  # what is subtracted for each of the two results
        left = np.nanmean(np.where(least, squares - noisy, np.nan), axis=0)
        contrast = np.maximum(np.nanvar(coarse, axis=0) - np.nanmean(noisy, axis=0), (LEAST_CONTRAST * white) ** 2)
        results[row, known] = np.sqrt(np.maximum(left, 0) / contrast)
    return results[0], results[1]


def unlikeness_of(
    image_shape: tuple[int, int] | None,
    white: float,
    images: Array,
    missing: Mask,
    reconstructions: Array,
    grain: Array,
    pixels: Any = slice(None),
) -> tuple[Array, Array]:
    """Return how unlike the training images each image is, and which share of it is unexplained, (n_images,) each.

    See :func:`unlikeness`; both are NaN without a shape. `white` is the value of a white pixel. `grain` (n_images, 1)
    is the standard deviation of each image's noise, estimated from its finest detail and divided by `white`, or
    (n_images, 0) if it is not known. `images`, `missing` and `reconstructions` have a column for each of the `pixels`,
    numbers in the whole image, which is divided into square cells.
    """
    if image_shape is None or not grain.shape[1]:
        return np.full(len(images), np.nan), np.full(len(images), np.nan)
    return unlikeness(images, missing, reconstructions, cells_of(image_shape)[pixels], grain[:, 0] * white, white)


def limit(unlike: Array) -> float:
    """Return the limit that a new image's unlikeness should not exceed, from that of left-out images (n_images,).

    Unlikeness is an image's coarse residual by the model over its contrast; NaN stand for images of which it is not
    known. With fewer than ten others the limit is infinite.
    """
    known = unlike[~np.isnan(unlike)]
    return MARGIN * float(np.quantile(known, QUANTILE)) if len(known) >= ENOUGH else math.inf


def limits(unlike: Array, unknown: Mask) -> tuple[float, float]:
    """Return the unlikeness beyond which an image is not named, and that beyond which it is probably not a face.

    Unlikeness is an image's coarse residual by the model over its contrast. `unlike` (n_images,) is that of images left
    out of training; those of `unknown` people set the limit for a face, the others that for a name. With too few of
    them, the limit for a face serves as both.
    """
    name, face = limit(unlike[~unknown]), limit(unlike[unknown])
    name = face if math.isinf(name) else name
    # what is near enough for a name is never reported as not a face
    return name, max(name, face)


def noise_limit(unexplained: Array, unknown: Mask) -> float:
    """Return the share of an image's coarse contrast beyond which the model explains so little that it is noise.

    It is the larger of the 0.99 quantiles of left-out images of people who stay and of `unknown` people, because an
    unknown face is no noise, but at least 0.7. Fewer than ten images of a kind do not count.
    """
    groups = [some[~np.isnan(some)] for some in (unexplained[~unknown], unexplained[unknown])]
    quantiles = [float(np.quantile(some, QUANTILE)) for some in groups if len(some) >= ENOUGH]
    return max(UNEXPLAINED, *quantiles) if quantiles else math.inf


def limits_of_added(limits: dict[Any, float], labels: Array, unlike: Array, face: float) -> dict[Any, float]:
    """Return for each person who is added the unlikeness beyond which an image does not get this person's name.

    The model has not seen these people. So the limit `face` holds for them, or the largest of their own images with a
    margin. `limits` are those of people who are known already; they never fall. A person with an image of unknown
    unlikeness (NaN) has no limit. `labels` (n_images,) say who is on the new images, and `unlike` (n_images,) is their
    unlikeness.
    """
    found = {}
    for person in np.unique(labels):
        own = unlike[labels == person]
        largest = MARGIN * float(own.max()) if not np.isnan(own).any() else math.inf
        found[person] = max(face, largest, limits.get(person, 0.0))
    return found
