"""A non-negative matrix of known rank, corrupted in a known way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from visionnmf._checks import (
    RandomState,
    brief,
    check_choice,
    check_count,
    check_generator,
    check_image_shape,
    check_number,
)
from visionnmf.exceptions import ParameterError

from ._corruptions import add_gaussian, add_laplace, block_mask, count_photons, salt_and_pepper

__all__ = ["CorruptedLowRank", "make_corrupted_low_rank"]

Matrix = NDArray[np.floating]
Corrupted = tuple[Matrix, "NDArray[np.bool_] | None"]


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
    mask : ndarray of bool [shape=(n_samples, n_features)] or None
        The entries that were replaced, for "salt_and_pepper" and "occlusion"; otherwise None.
    """

    X: Matrix
    clean: Matrix
    W: Matrix
    H: Matrix
    mask: NDArray[np.bool_] | None

    __repr__ = brief


def make_corrupted_low_rank(
    n_samples: int = 1024,
    n_features: int = 476,
    n_components: int = 20,
    *,
    corruption: str = "salt_and_pepper",
    amount: float | None = None,
    image_shape: tuple[int, int] | None = None,
    shape: float = 0.5,
    dtype: DTypeLike = np.float32,
    random_state: RandomState = None,
) -> CorruptedLowRank:
    """Make a low-rank non-negative matrix with gamma-distributed factors, and corrupt it.

    The product of the factors is scaled so that its 99 % quantile is 1. The result is clipped at 0.

    ===================  =================================================  ===========================================
    corruption           what happens to an entry x of the clean matrix     `amount` (default)
    ===================  =================================================  ===========================================
    ``none``             nothing                                            not used
    ``salt_and_pepper``  it becomes 0 or 1, equally likely; 1 is the 99 %   share of entries, 0 to 1 (0.2)
                         quantile, not the largest value
    ``laplace``          a Laplace error is added                           scale of the error, >= 0 (0.1)
    ``gaussian``         a normal error is added                            standard deviation, >= 0 (0.1)
    ``occlusion``        0 inside one square block per sample, at a         side of the block, pixels, >= 1
                         uniform position inside the image                  (0.375 of the root of `n_features`)
    ``poisson``          becomes Poisson(amount * x) / amount               photons at the value 1, up to 1e6 (100)
    ===================  =================================================  ===========================================

    Parameters
    ----------
    n_samples, n_features, n_components : int, >= 1
        Sizes. If `n_components` exceeds the other two, the matrix has full rank.
    corruption : str, default="salt_and_pepper"
        One of the table.
    amount : float, optional
        Strength, in the unit of the table.
    image_shape : tuple of two ints, optional
        Height and width of the image that each sample is, row by row; used by "occlusion" only. The default is the most
        nearly square pair with the product `n_features`, the smaller number first (17 by 28 for 476 features). A block
        is cut to the image.
    shape : float, 0.1 to 100, default=0.5
        Shape of the gamma distribution (its scale is 1). Below 1 the factors are nearly sparse.
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

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan non-negative matrix factorization", arXiv:1207.3438,
    2012, tests the Manhattan loss on such corruptions.

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
    shape = check_number(shape, "shape", 0.1, 100)  # float32 overflows far below 0.1
    check_choice(corruption, "corruption", _CORRUPTIONS)
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ParameterError(f"dtype must be float32 or float64; got {kind}")

    factor_rng, corruption_rng = (
        np.random.default_rng(s) for s in check_generator(random_state).integers(2**63, size=2)
    )
    W = factor_rng.gamma(shape, size=(n_samples, n_components))
    H = factor_rng.gamma(shape, size=(n_components, n_features))
    scale = np.sqrt(np.quantile(W @ H, 0.99))
    W, H = (W / scale).astype(kind), (H / scale).astype(kind)
    clean = W @ H
    X, mask = _CORRUPTIONS[corruption](clean, amount, _image_shape(image_shape, n_features), corruption_rng)
    return CorruptedLowRank(np.maximum(X, 0, dtype=kind), clean, W, H, mask)


def _image_shape(given: tuple[int, int] | None, n_features: int) -> tuple[int, int]:
    """Return the given image shape, or the most nearly square one."""
    if given is None:
        height = next(h for h in range(math.isqrt(n_features), 0, -1) if n_features % h == 0)
        return height, n_features // height
    return check_image_shape(given, n_pixels=n_features)


def _none(clean: Matrix, amount: float | None, image: tuple[int, int], rng: np.random.Generator) -> Corrupted:
    return clean, None


def _salt_and_pepper(
    clean: Matrix, amount: float | None, image: tuple[int, int], rng: np.random.Generator
) -> Corrupted:
    return salt_and_pepper(clean, check_number(0.2 if amount is None else amount, "amount", 0, 1), 0, 1, rng)


def _laplace(clean: Matrix, amount: float | None, image: tuple[int, int], rng: np.random.Generator) -> Corrupted:
    return add_laplace(clean, check_number(0.1 if amount is None else amount, "amount", 0), rng), None


def _gaussian(clean: Matrix, amount: float | None, image: tuple[int, int], rng: np.random.Generator) -> Corrupted:
    return add_gaussian(clean, check_number(0.1 if amount is None else amount, "amount", 0), rng), None


def _occlusion(clean: Matrix, amount: float | None, image: tuple[int, int], rng: np.random.Generator) -> Corrupted:
    side = check_count(max(1, round(0.375 * math.sqrt(clean.shape[1]))) if amount is None else amount, "amount", 1)
    mask = block_mask((len(clean), *image), side, rng).reshape(clean.shape)
    return np.where(mask, 0, clean), mask


def _poisson(clean: Matrix, amount: float | None, image: tuple[int, int], rng: np.random.Generator) -> Corrupted:
    # numpy refuses rates above about 9e18; a million photons are noise of a thousandth already
    photons = check_number(100 if amount is None else amount, "amount", 0, 1e6, without_low=True)
    return count_photons(clean, photons, rng), None


_CORRUPTIONS: dict[str, Callable[[Matrix, float | None, tuple[int, int], np.random.Generator], Corrupted]] = {
    "none": _none,
    "salt_and_pepper": _salt_and_pepper,
    "laplace": _laplace,
    "gaussian": _gaussian,
    "occlusion": _occlusion,
    "poisson": _poisson,
}
