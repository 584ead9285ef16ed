"""Corruption of images, and of the matrices whose rows are images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import RandomState, check_choice, check_count, check_generator, check_number
from visionnmf.exceptions import ParameterError

__all__ = [
    "CORRUPTIONS",
    "add_gaussian",
    "add_laplace",
    "block_mask",
    "corrupt",
    "count_photons",
    "salt_and_pepper",
]

Values = NDArray[np.floating]
Corrupted = tuple[Values, "NDArray[np.bool_] | None"]

_MAX_PHOTONS = 1e12  # at white; numpy refuses rates above about 9e18


@overload
def corrupt(
    images: ArrayLike, kind: str, severity: float | None = None, *, value_range: tuple[float, float] | None = None,
    fill: float | None = None, return_mask: Literal[False] = False, random_state: RandomState = None,
) -> NDArray[Any]: ...  # fmt: skip
@overload
def corrupt(
    images: ArrayLike, kind: str, severity: float | None = None, *, value_range: tuple[float, float] | None = None,
    fill: float | None = None, return_mask: Literal[True], random_state: RandomState = None,
) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...  # fmt: skip
def corrupt(
    images: ArrayLike,
    kind: str,
    severity: float | None = None,
    *,
    value_range: tuple[float, float] | None = None,
    fill: float | None = None,
    return_mask: bool = False,
    random_state: RandomState = None,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.bool_]]:
    """Corrupt images with blocks, noise or dead lines, each image and each pixel independently.

    ===================  ==================================================  ==========================================
    kind                 what happens                                        `severity` (default)
    ===================  ==================================================  ==========================================
    ``none``             nothing                                             not used
    ``occlusion``        one square block per image becomes `fill`; every    side of the block in pixels; a longer one
                         position inside the image is equally likely         is cut to the image (3/8 of the shorter
                                                                             side)
    ``laplace``          a Laplace error is added                            scale of the error (0.12 of the range)
    ``salt_and_pepper``  pixels become black or white, equally likely        share of the pixels, 0 to 1 (0.3)
    ``gaussian``         a normal error is added                             standard deviation (0.16 of the range)
    ``poisson``          the value x above black becomes                     photons per unit of value, > 0: **fewer
                         Poisson(severity * x) / severity                    are noisier** (12.75 at white)
    ``dead_lines``       rows and columns become black                       share of the lines, 0 to 1 (0.1)
    ===================  ==================================================  ==========================================

    Black and white are the ends of `value_range`, to which the result is clipped. Severities are in the unit of the
    images: the default scale of a Laplace error is 30 grey levels for 8-bit images and 0.12 for images in [0, 1].

    Parameters
    ----------
    images : array_like of uint8, uint16, float32 or float64 [shape=(n_images, height, width)]
        Grey images in `value_range`. They are not changed.
    kind : str
        One of the kinds in the table; `CORRUPTIONS` lists them.
    severity : float, optional
        Strength, in the unit of the table. 0 changes nothing, except for "poisson".
    value_range : tuple of two floats, optional
        Black and white. The default is the range of the dtype for integers and (0, 1) for floats.
    fill : float, optional
        Value of the block of "occlusion", inside `value_range`; white by default.
    return_mask : bool, default=False
        Whether to return the mask as well.
    random_state : int, RandomState, Generator or None
        Seed.

    Returns
    -------
    corrupted : ndarray [shape and dtype of `images`]
        Integers are rounded to the nearest.
    mask : ndarray of bool [shape of `images`]
        Only with `return_mask`: the pixels that were replaced, whose values say nothing about the image. "laplace",
        "gaussian" and "poisson" change every pixel and replace none.

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan non-negative matrix factorization",
    arXiv:1207.3438, 2012, section 5.2, corrupts faces in the first five ways.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.datasets import corrupt
    >>> faces = np.full((2, 32, 32), 100, np.uint8)
    >>> blocked, mask = corrupt(faces, "occlusion", 12, return_mask=True, random_state=0)
    >>> mask.sum(axis=(1, 2))
    array([144, 144])
    >>> int(blocked[mask].min())
    255
    """
    check_choice(kind, "kind", _KINDS)
    original = _images(images)
    black, white = _value_range(value_range, original)
    filling = white if fill is None else check_number(fill, "fill", black, white)
    rng = check_generator(random_state)

    values, mask = _KINDS[kind](original.astype(np.float64), severity, _GreyLevels(black, white, filling), rng)
    values = np.clip(values, black, white)
    if original.dtype.kind == "u":
        values = np.rint(values)
    corrupted = values.astype(original.dtype)
    if not return_mask:
        return corrupted
    return corrupted, np.zeros(original.shape, bool) if mask is None else mask


def _images(images: ArrayLike) -> NDArray[Any]:
    """Return images as a checked array."""
    array = np.asarray(images)
    if array.dtype not in (np.uint8, np.uint16, np.float32, np.float64):
        raise ParameterError(f"images must be uint8, uint16, float32 or float64; got {array.dtype}; convert them")
    if array.ndim != 3 or array.size == 0:
        raise ParameterError(
            f"images must have the shape (n_images, height, width) and not be empty; got {array.shape}; "
            "give one image as image[None]"
        )
    return array


def _value_range(given: tuple[float, float] | None, images: NDArray[Any]) -> tuple[float, float]:
    """Return black and white, given or by dtype, and check that the images lie between them."""
    if given is None:
        black, white = (0.0, 1.0) if images.dtype.kind == "f" else (0.0, float(np.iinfo(images.dtype).max))
    else:
        try:
            black, white = (float(value) for value in given)
        except (TypeError, ValueError):
            black, white = np.nan, np.nan
        if not (np.isfinite(white - black) and black < white):
            raise ParameterError(f"value_range must be two finite numbers, black before white; got {given!r}")
    low, high = float(images.min()), float(images.max())
    if not (black <= low and high <= white):  # false for NaN as well
        raise ParameterError(
            f"images must lie in value_range ({black:g}, {white:g}); got values from {low:g} to {high:g}; "
            "give the value_range that they have"
        )
    return black, white


def add_laplace(values: Values, scale: float, rng: np.random.Generator) -> Values:
    """Add a Laplace error of this scale to every value."""
    return values + rng.laplace(0, scale, values.shape)


def add_gaussian(values: Values, deviation: float, rng: np.random.Generator) -> Values:
    """Add a normal error of this standard deviation to every value."""
    return values + rng.normal(0, deviation, values.shape)


def count_photons(values: Values, photons: float, rng: np.random.Generator) -> Values:
    """Replace every value x >= 0 by Poisson(photons * x) / photons."""
    return rng.poisson(photons * values.astype(np.float64)) / photons


def salt_and_pepper(
    values: Values, share: float, black: float, white: float, rng: np.random.Generator
) -> tuple[Values, NDArray[np.bool_]]:
    """Replace a share of the values by black or white; return the result and the mask of replaced values."""
    draw = rng.random(values.shape)
    mask = draw < share
    return np.where(mask, np.where(draw < share / 2, white, black), values), mask


def block_mask(shape: tuple[int, ...], side: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask (n_images, height, width) of one block per image, at a uniform position, cut to the image."""
    inside = []  # for each axis an (n_images, length) array of the rows or columns that the block covers
    for length in shape[1:]:
        extent = min(side, length)
        start = rng.integers(0, length - extent + 1, size=(shape[0], 1))
        position = np.arange(length)
        inside.append((position >= start) & (position < start + extent))
    return inside[0][:, :, None] & inside[1][:, None, :]


class _GreyLevels(NamedTuple):
    """Black, white and the value of blocks."""

    black: float
    white: float
    fill: float

    @property
    def span(self) -> float:
        return self.white - self.black


def _none(values: Values, severity: float | None, levels: _GreyLevels, rng: np.random.Generator) -> Corrupted:
    return values, None


def _occlusion(values: Values, severity: float | None, levels: _GreyLevels, rng: np.random.Generator) -> Corrupted:
    default = max(1, round(0.375 * min(values.shape[1:])))
    mask = block_mask(values.shape, check_count(default if severity is None else severity, "severity", 0), rng)
    return np.where(mask, levels.fill, values), mask


def _laplace(values: Values, severity: float | None, levels: _GreyLevels, rng: np.random.Generator) -> Corrupted:
    default = 30 / 255 * levels.span
    return add_laplace(values, check_number(default if severity is None else severity, "severity", 0), rng), None


def _salt_and_pepper(
    values: Values, severity: float | None, levels: _GreyLevels, rng: np.random.Generator
) -> Corrupted:
    share = check_number(0.3 if severity is None else severity, "severity", 0, 1)
    return salt_and_pepper(values, share, levels.black, levels.white, rng)


def _gaussian(values: Values, severity: float | None, levels: _GreyLevels, rng: np.random.Generator) -> Corrupted:
    default = 40 / 255 * levels.span
    return add_gaussian(values, check_number(default if severity is None else severity, "severity", 0), rng), None


def _poisson(values: Values, severity: float | None, levels: _GreyLevels, rng: np.random.Generator) -> Corrupted:
    default, most = 0.05 * 255 / levels.span, _MAX_PHOTONS / levels.span
    photons = check_number(default if severity is None else severity, "severity", 0, most, without_low=True)
    return levels.black + count_photons(values - levels.black, photons, rng), None


def _dead_lines(values: Values, severity: float | None, levels: _GreyLevels, rng: np.random.Generator) -> Corrupted:
    share = check_number(0.1 if severity is None else severity, "severity", 0, 1)
    count, height, width = values.shape
    mask = (rng.random((count, height, 1)) < share) | (rng.random((count, 1, width)) < share)
    return np.where(mask, levels.black, values), mask


_KINDS: dict[str, Callable[[Values, float | None, _GreyLevels, np.random.Generator], Corrupted]] = {
    "none": _none,
    "occlusion": _occlusion,
    "laplace": _laplace,
    "salt_and_pepper": _salt_and_pepper,
    "gaussian": _gaussian,
    "poisson": _poisson,
    "dead_lines": _dead_lines,
}

CORRUPTIONS: tuple[str, ...] = tuple(_KINDS)
"""Kinds for :func:`corrupt`."""
