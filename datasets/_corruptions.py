"""Corruption of images, and of a matrix of known rank, with the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from visionnmf._checks import RandomState, brief, check_choice, check_count, check_generator, check_number
from visionnmf.exceptions import ParameterError

Matrix = NDArray[np.floating]
Mask = NDArray[np.bool_]

CORRUPTIONS = ("none", "occlusion", "laplace", "salt_and_pepper", "gaussian", "poisson", "dead_lines")
"""Kinds for :func:`corrupt`."""

_DEFAULT_SHARES = {"salt_and_pepper": 0.3, "dead_lines": 0.1}
_MAX_PHOTONS = 1e12  # at white; numpy refuses rates above about 9e18


@overload
def corrupt(
    images: ArrayLike, kind: str, severity: float | None = None, *, return_mask: Literal[False] = False,
    random_state: RandomState = None,
) -> NDArray[Any]: ...  # fmt: skip
@overload
def corrupt(
    images: ArrayLike, kind: str, severity: float | None = None, *, return_mask: Literal[True],
    random_state: RandomState = None,
) -> tuple[NDArray[Any], Mask]: ...  # fmt: skip
def corrupt(
    images: ArrayLike,
    kind: str,
    severity: float | None = None,
    *,
    return_mask: bool = False,
    random_state: RandomState = None,
) -> NDArray[Any] | tuple[NDArray[Any], Mask]:
    """Corrupt images with blocks, noise or dead lines, each image and each pixel independently.

    ===================  ==================================================  ==========================================
    kind                 what happens                                        `severity` (default)
    ===================  ==================================================  ==========================================
    ``none``             nothing                                             not used
    ``occlusion``        one square block per image becomes white; every     side of the block in pixels; a longer one
                         position inside the image is equally likely         is cut to the image (3/8 of the shorter
                                                                             side)
    ``laplace``          a Laplace error is added                            scale of the error (30/255 of white)
    ``salt_and_pepper``  pixels become black or white, equally likely        share of the pixels, 0 to 1 (0.3)
    ``gaussian``         a normal error is added                             standard deviation (40/255 of white)
    ``poisson``          the value x becomes Poisson(severity * x) /         photons per unit of value, > 0: **fewer
                         severity                                            are noisier** (12.75 at white)
    ``dead_lines``       rows and columns become black                       share of the lines, 0 to 1 (0.1)
    ===================  ==================================================  ==========================================

    Black is 0. White is the largest value of an integer dtype, and 1 for floats. The result is clipped to that range.

    Parameters
    ----------
    images : array_like of uint8, uint16, float32 or float64 [shape=(n_images, height, width)]
        Grey images from black to white. They are not changed.
    kind : str
        One of `CORRUPTIONS`; see the table.
    severity : float, optional
        Strength, in the unit of the table and of the images. 0 changes nothing, except for "poisson".
    return_mask : bool, default=False
        Whether to return the mask as well.
    random_state : int, RandomState, Generator or None
        Seed.

    Returns
    -------
    corrupted : ndarray [shape and dtype of `images`]
        Integers are rounded to the nearest.
    mask : ndarray of bool [shape of `images`]
        Only with `return_mask`: the pixels that were replaced. "laplace", "gaussian" and "poisson" replace none.

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
    check_choice(kind, "kind", CORRUPTIONS)
    original, white = _checked_images(images)
    if severity is None:
        severity = _default_severity(kind, white, original.shape)
    severity = _check_strength(kind, severity, "severity", white)
    rng = check_generator(random_state)
    # opaque blocks are white
    values, mask = _corrupted(original.astype(np.float64), kind, severity, white=white, fill=white, rng=rng)
    values = np.clip(values, 0, white)
    if original.dtype.kind == "u":
        values = np.rint(values)
    corrupted = values.astype(original.dtype)
    return (corrupted, mask) if return_mask else corrupted


def _checked_images(images: ArrayLike) -> tuple[NDArray[Any], float]:
    """Return images as a checked array, and the value of white."""
    array = np.asarray(images)
    if array.dtype not in (np.uint8, np.uint16, np.float32, np.float64):
        raise ParameterError(f"images must be uint8, uint16, float32 or float64; got {array.dtype}; convert them")
    if array.ndim != 3 or array.size == 0:
        raise ParameterError(
            f"images must have the shape (n_images, height, width) and not be empty; got {array.shape}; "
            "give one image as image[None]"
        )
    white = 1.0 if array.dtype.kind == "f" else float(np.iinfo(array.dtype).max)
    low, high = float(array.min()), float(array.max())
    if np.isnan(low):
        raise ParameterError(f"images must not hold NaN; got {np.isnan(array).sum()} of them; fill them in")
    if not (low >= 0 and high <= white):
        raise ParameterError(f"images must lie in [0, {white:g}]; got values from {low:g} to {high:g}; scale them")
    return array, white


def _default_severity(kind: str, white: float, shape: tuple[int, ...]) -> float:
    """Return the default severity: block side in pixels, error scale, photons per unit, or a share of the pixels."""
    if kind == "occlusion":
        return max(1, round(0.375 * min(shape[1:])))
    by_white = {"laplace": 30 / 255 * white, "gaussian": 40 / 255 * white, "poisson": 0.05 * 255 / white}
    return (by_white | _DEFAULT_SHARES).get(kind, 0)


def _check_strength(kind: str, value: Any, name: str, white: float) -> float:
    """Return the severity `value`, called `name` in errors, if it is in the range of its kind; 0 for "none"."""
    if kind == "none":
        return 0
    if kind == "occlusion":
        return check_count(value, name, 0)
    if kind == "poisson":
        return check_number(value, name, 0, _MAX_PHOTONS / white, without_low=True)  # above 0
    # The severity of these kinds is the share of the pixels or lines that are hit, 1 at most.
    return check_number(value, name, 0, 1 if kind in _DEFAULT_SHARES else math.inf)


def _corrupted(
    values: Matrix, kind: str, severity: float, white: float, fill: float, rng: np.random.Generator
) -> tuple[Matrix, Mask]:
    """Return images corrupted as by :func:`corrupt`, but unclipped, and the mask of the pixels replaced."""
    nothing = np.zeros(values.shape, bool)
    if kind == "laplace":
        return values + rng.laplace(0, severity, values.shape), nothing
    if kind == "gaussian":
        return values + rng.normal(0, severity, values.shape), nothing
    if kind == "poisson":
        return rng.poisson(severity * values.astype(np.float64)) / severity, nothing
    if kind == "salt_and_pepper":
        draw = rng.random(values.shape)
        replaced = draw < severity  # the lower half of these draws becomes white, the upper half black
        return np.where(replaced, np.where(draw < severity / 2, white, 0), values), replaced
    if kind == "occlusion":
        block = _block_mask(values.shape, int(severity), rng)
        return np.where(block, fill, values), block
    if kind == "dead_lines":
        count, height, width = values.shape
        dead = (rng.random((count, height, 1)) < severity) | (rng.random((count, 1, width)) < severity)
        return np.where(dead, 0, values), dead
    return values, nothing


def _block_mask(shape: tuple[int, ...], side: int, rng: np.random.Generator) -> Mask:
    """Return a mask (n_images, height, width) of one block per image, at a uniform position, cut to the image."""
    inside = []  # for each axis an (n_images, length) array of the rows or columns that the block covers
    for length in shape[1:]:
        extent = min(side, length)
        start = rng.integers(0, length - extent + 1, size=(shape[0], 1))
        position = np.arange(length)
        inside.append((position >= start) & (position < start + extent))
    return inside[0][:, :, None] & inside[1][:, None, :]


# --- a matrix of known rank -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CorruptedLowRank:
    """A corrupted low-rank matrix with its truth.

    Attributes
    ----------
    X : ndarray [shape=(n_samples, n_features), >= 0]
        The corrupted matrix.
    clean : ndarray [shape=(n_samples, n_features), >= 0]
        The matrix before corruption, exactly ``W @ H``. One per cent of its entries lie above 1.
    W : ndarray [shape=(n_samples, n_components), >= 0]
        The true codes.
    H : ndarray [shape=(n_components, n_features), >= 0]
        The true components.
    mask : ndarray of bool [shape=(n_samples, n_features)]
        The entries that were replaced.
    """

    X: Matrix
    clean: Matrix
    W: Matrix
    H: Matrix
    mask: Mask

    __repr__ = brief


def make_corrupted_low_rank(
    n_samples: int = 1024,
    n_features: int = 476,
    n_components: int = 20,
    *,
    corruption: str = "salt_and_pepper",
    amount: float | None = None,
    dtype: DTypeLike = np.float32,
    random_state: RandomState = None,
) -> CorruptedLowRank:
    """Make a low-rank non-negative matrix with gamma-distributed, nearly sparse factors, and corrupt it.

    The product of the factors is scaled so that its 99 % quantile is 1. The matrix is corrupted as :func:`corrupt` does
    with images whose white is 1, but blocks are black, and the result is clipped at 0 only.

    Parameters
    ----------
    n_samples, n_features, n_components : int, >= 1
        Sizes. If `n_components` exceeds the other two, the matrix has full rank.
    corruption : str, default="salt_and_pepper"
        One of `CORRUPTIONS`. Each sample is an image of the most nearly square shape (17 by 28 for 476 features).
    amount : float, optional
        Severity of the corruption. The default is 0.2 for "salt_and_pepper", 0.1 for "laplace", "gaussian" and
        "dead_lines", 100 for "poisson", and 3/8 of the root of `n_features` for "occlusion".
    dtype : dtype, default=float32
        Of all four matrices: float32 or float64.
    random_state : int, RandomState, Generator or None
        Seed. The same seed gives the same clean matrix for every corruption.

    Returns
    -------
    CorruptedLowRank
        `X` with its truth.

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> from visionnmf.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(40, 30, 3, random_state=0)
    >>> data.X.shape, round(float((data.X != data.clean).mean()), 1)
    ((40, 30), 0.2)
    """
    n_samples = check_count(n_samples, "n_samples", 1)
    n_features = check_count(n_features, "n_features", 1)
    n_components = check_count(n_components, "n_components", 1)
    check_choice(corruption, "corruption", CORRUPTIONS)
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ParameterError(f"dtype must be float32 or float64; got {kind}")
    if amount is None:
        by_kind = {"salt_and_pepper": 0.2, "poisson": 100, "occlusion": max(1, round(0.375 * math.sqrt(n_features)))}
        amount = by_kind.get(corruption, 0.1)
    amount = _check_strength(corruption, amount, "amount", 1)

    factor_rng, corruption_rng = (
        np.random.default_rng(s) for s in check_generator(random_state).integers(2**63, size=2)
    )
    W = factor_rng.gamma(0.5, size=(n_samples, n_components))
    H = factor_rng.gamma(0.5, size=(n_components, n_features))
    scale = np.sqrt(np.quantile(W @ H, 0.99))  # each factor is divided by the root, so that the product's quantile is 1
    W, H = (W / scale).astype(kind), (H / scale).astype(kind)
    clean = W @ H
    # The sides of the most nearly square image with so many pixels: the height is the largest divisor up to the root.
    height = next(h for h in range(math.isqrt(n_features), 0, -1) if n_features % h == 0)
    images = clean.reshape(n_samples, height, -1)
    # the usual largest value is 1, and opaque blocks are black
    corrupted = _corrupted(images, corruption, amount, white=1, fill=0, rng=corruption_rng)
    X, mask = (part.reshape(clean.shape) for part in corrupted)
    return CorruptedLowRank(np.maximum(X, 0, dtype=kind), clean, W, H, mask)
