"""What all extractors share: lists of images in, one row of features an image out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_count, shown
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_memory

from .prepared import Prepared

__all__ = ["MAX_PIXELS", "Extractor", "check_images", "check_layout", "check_room", "in_cells"]

Array = NDArray[Any]
Images = Sequence[ArrayLike | str | Path]

MOST_FEATURES = 1 << 22
MOST_BYTES = 1 << 30  # of what is found in one image
LARGE = 64 << 20  # bytes of working memory that are looked for before they are taken
MAX_PIXELS = 384 * 256  # of Corel's photographs, of which the published features were taken


class Extractor(TransformerMixin, BaseEstimator, ABC):
    """Turns images into rows of non-negative features.

    A subclass says what it finds in one image (:meth:`_describe`), how many features that is, and what it checks.
    What `fit` learns are arrays whose names are in `LEARNT`.

    Examples
    --------
    >>> from visionnmf.features import ColorHistogram, Extractor
    >>> issubclass(ColorHistogram, Extractor)
    True
    """

    LEARNT: ClassVar[tuple[str, ...]] = ()
    WORKING: ClassVar[int] = 128  # bytes a pixel while an image is described
    max_pixels: int | None

    def fit(self, images: Images, y: Any = None) -> Self:
        """Check the parameters, and learn what there is to learn.

        Parameters
        ----------
        images : sequence of array-like, str or Path
            Images of any sizes: arrays, grey or colour, or files.
        y : Ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        self._learn(check_images(images))
        self._count()
        return self

    def transform(self, images: Images) -> NDArray[np.float32]:
        """Describe images.

        Parameters
        ----------
        images : sequence of array-like, str or Path
            Images of any sizes: arrays, grey or colour, or files.

        Returns
        -------
        ndarray of float32 [shape=(n_images, n_features), >= 0]

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ParameterError
            If an image is none.
        MediaError
            If a file cannot be read.
        """
        check_is_fitted(self)
        return np.stack([self.describe(Prepared(image, self.max_pixels)) for image in check_images(images)])

    def describe(self, image: Prepared) -> NDArray[np.float32]:
        """Describe one image.

        Parameters
        ----------
        image : Prepared

        Returns
        -------
        ndarray of float32 [shape=(n_features,), >= 0]

        Raises
        ------
        TooLargeError
            If less memory is free than an image of so many pixels takes.
        """
        height, width = image.rgb.shape[:2]
        needed = self.WORKING * height * width
        if needed > LARGE:
            check_memory(f"{self.view} of {width} x {height} pixels", needed)
        return self._describe(image).astype(np.float32, copy=False)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features: what they are, and a number.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of object [shape=(n_features,)]
        """
        check_is_fitted(self)
        return np.array([f"{self.view}_{i}" for i in range(self.n_features_out_)], object)

    @property
    @abstractmethod
    def view(self) -> str:
        """The extractor's name in a union."""

    @abstractmethod
    def _describe(self, image: Prepared) -> Array:
        """Return the features of one image."""

    @abstractmethod
    def _n_features(self) -> int:
        """Return how many features there are; after :meth:`_learn`."""

    def _count(self) -> None:
        """Note how many features there are; refuse more than are of use, which a stranger's file can ask for.

        Raises
        ------
        ParameterError
            If there are more than four million.
        """
        count = self._n_features()
        if count > MOST_FEATURES:
            raise ParameterError(
                f"parameters must give at most {MOST_FEATURES} features; got {count}; take fewer cells"
            )
        self.n_features_out_ = count

    def _check_parameters(self) -> None:
        if self.max_pixels is not None:
            check_count(self.max_pixels, "max_pixels")

    def _learn(self, images: Images) -> None:
        """Learn; most have nothing to learn."""

    def _check_learnt(self) -> None:
        """Raise ValueError where what was learnt, of a stranger's file, cannot be."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # lists of images
        tags.input_tags.positive_only = True
        tags.no_validation = True  # by scikit-learn's rules for matrices
        return tags


def check_images(images: Any) -> Images:
    """Return images as a sequence when there is at least one; a single file or image is refused.

    Parameters
    ----------
    images : sequence or ndarray

    Returns
    -------
    sequence

    Raises
    ------
    ParameterError
        If it is a single image or file, no sequence, or empty.
    """
    if isinstance(images, str | Path) or not isinstance(images, Iterable):
        raise ParameterError(f"images must be a list of arrays or files; got {shown(images)}")
    if isinstance(images, np.ndarray) and images.ndim < 3 and images.dtype.kind != "O" and images.dtype.kind != "U":
        raise ParameterError(f"images must be a list of arrays or files; got an array of shape {images.shape}")
    listed = images if isinstance(images, Sequence) else list(images)
    if not len(listed):
        raise ParameterError("images must hold at least one image; got none")
    return listed


def check_layout(layout: Any) -> tuple[int, int]:
    """Return a spatial layout when it is a pair of whole numbers from 1 to 64, rows and columns of cells."""
    pair = layout if isinstance(layout, tuple | list) and len(layout) == 2 else (0, 0)
    if all(isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= 64 for count in pair):
        return pair[0], pair[1]
    raise ParameterError(
        f"layout must be the rows and columns of cells, two whole numbers from 1 to 64; got {shown(layout)}"
    )


def check_room(names: str, count: int, size: int) -> None:
    """Refuse parameters that take more memory for an image than is of use, which a stranger's file can ask for.

    Parameters
    ----------
    names : str
        Of the parameters.
    count, size : int
        Numbers in single precision: how many descriptors, and of which length.

    Raises
    ------
    ParameterError
        If they have more than 1 GiB.
    """
    if 4 * count * size > MOST_BYTES:
        raise ParameterError(
            f"{names} must leave at most {MOST_BYTES // (4 * size)} places an image; got {count}; "
            f"take larger steps or a smaller max_pixels"
        )


def in_cells(
    values: Array, rows: Array, columns: Array, layout: tuple[int, int], n_bins: int, weights: Array | None = None
) -> Array:
    """Count values in each cell of an image, as shares of the whole image.

    Parameters
    ----------
    values : ndarray of int [shape=(n,), from 0 to n_bins - 1]
    rows, columns : ndarray [shape=(n,), in [0, 1)]
        Places, as shares of height and width.
    layout : tuple of two ints
        Rows and columns of cells.
    n_bins : int
    weights : ndarray [shape=(n,), >= 0], optional

    Returns
    -------
    ndarray [shape=(cells * n_bins,), >= 0]
        Histograms of the cells, one after the other; the sum is 1, or 0 where there is nothing to count.
    """
    cells = math.prod(layout)
    if cells > 1:
        row, column = (rows * layout[0]).astype(np.intp), (columns * layout[1]).astype(np.intp)
        values = values + n_bins * (row * layout[1] + column)
    counts = np.bincount(values, weights, minlength=cells * n_bins)
    return counts / max(counts.sum(), np.finfo(np.float64).tiny)
