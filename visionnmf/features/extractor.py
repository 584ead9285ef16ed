"""What all extractors share: a list of images comes in, one row of features for each image goes out."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from inspect import signature
from itertools import islice, pairwise, product
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_count, shown
from visionnmf._pixel_range import PixelRangeWarning, in_full_range
from visionnmf._typing import Array
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import SET_BITS, ParameterError
from visionnmf.io import read_photograph

from .images import check_image, reduce_image
from .interest_points import harris_laplace

Images = Sequence[ArrayLike | str | Path]

MOST_FEATURES = 1 << 22
FIT_IMAGES = 1000  # from which is learnt at most
MOST_BYTES = 1 << 30  # of intermediate results for one image
MAX_PIXELS = 384 * 256  # the size of Corel's photographs, from which the published features were taken


class PreparedImage:
    """An image, a file or an array, as 8-bit RGB of at most `max_pixels` (None: any), each form computed once."""

    def __init__(self, image: ArrayLike | str | Path, max_pixels: int | None) -> None:
        pixels, self.note = in_full_range(
            check_image(read_photograph(image) if isinstance(image, str | Path) else image)
        )  # the note says what white is, if that is not sure
        self.white = (self.note or "65535") if pixels.dtype == np.uint16 and pixels.any() else ""
        size = pixels.shape[0] * pixels.shape[1]
        limit = size if max_pixels is None else max_pixels
        if size > limit or pixels.dtype != np.uint8:
            pixels = np.rint(reduce_image(pixels, limit) * 255).astype(np.uint8)
        self.rgb: NDArray[np.uint8] = np.ascontiguousarray(pixels)

    @cached_property
    def grey(self) -> NDArray[np.uint8]:
        """The luma of ITU-R BT.601 [shape=(height, width)]."""
        return np.asarray(cv2.cvtColor(self.rgb, cv2.COLOR_RGB2GRAY))

    @cached_property
    def floats(self) -> NDArray[np.float32]:
        """RGB from 0 to 1 [shape=(height, width, 3)]."""
        return self.rgb.astype(np.float32) / np.float32(255)

    @cached_property
    def corners(self) -> NDArray[np.float32]:
        """Harris-Laplace points: row, column and scale, in pixels [shape=(n, 3)]."""
        return harris_laplace(self.grey / np.float32(255))

    def resized_grey(self, height: int, width: int) -> NDArray[np.float32]:
        """Return the grey image scaled to a size, from 0 to 1; it is averaged where it shrinks."""
        shrinks = self.grey.shape[0] > height and self.grey.shape[1] > width
        how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        resized: NDArray[Any] = cv2.resize(self.grey.astype(np.float32), (width, height), interpolation=how)
        return np.clip(resized / np.float32(255), 0, 1)


class Extractor(TransformerMixin, BaseEstimator, ABC):
    """Turns images into rows of non-negative features.

    A subclass says how one image is described (:meth:`_describe`), what the features are called, and which parameters
    are allowed. `n_features_out_` is the number of features.

    Examples
    --------
    >>> from visionnmf.features import ColorHistogram, Extractor
    >>> issubclass(ColorHistogram, Extractor)
    True
    """

    saved_attributes: tuple[str, ...] = ("n_features_out_",)

    kind: str  # the key in the table of kinds
    max_pixels: int | None

    def fit(self, images: Images, y: Any = None) -> Self:
        """Check the parameters, and learn what there is to learn from `images`, as :meth:`transform` takes them.

        Only extractors with a dictionary or parts learn anything. Then `n_features_out_` is set.
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
        ParameterError, MediaError
            If one of `images` is not an image, or a file cannot be read.
        """
        check_is_fitted(self)
        rows, notes, whites = [], [], set[str]()
        with one_blas_thread():  # entered once for all images, because each switch takes as long as a small image
            for image in check_images(images):
                prepared = PreparedImage(image, self.max_pixels)
                rows.append(self.describe(prepared))
                notes.append(prepared.note)
                whites.add(prepared.white)
        warn_of([*notes, *differing(whites)])
        return np.stack(rows)

    def describe(self, image: PreparedImage) -> NDArray[np.float32]:
        """Describe one image.

        Returns
        -------
        ndarray of float32 [shape=(n_features,), >= 0]
        """
        with one_blas_thread():  # more threads cost much and gain nothing in products of an image's size
            return self._describe(image).astype(np.float32, copy=False)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features: the extractor's name, what is measured, and in which cell."""
        check_is_fitted(self)
        return np.array([f"{self.view}_{name}" for name in self._names()], object)

    @property
    def view(self) -> str:
        """The extractor's name where several are used together: its kind, and a layout that is not the default."""
        layout = getattr(self, "layout", None)
        if layout is None or tuple(layout) == signature(type(self)).parameters["layout"].default:
            return self.kind
        return f"{self.kind}-{layout[0]}x{layout[1]}"

    @abstractmethod
    def _describe(self, image: PreparedImage) -> Array:
        """Return the features of one image."""

    @abstractmethod
    def _names(self) -> Iterator[str]:
        """Yield what each feature is, for its name; called after :meth:`_learn`."""

    def _count(self) -> None:
        """Set `n_features_out_`; raise ParameterError for more than four million, which a hostile file may ask for."""
        count = sum(1 for _ in islice(self._names(), MOST_FEATURES + 1))
        if count > MOST_FEATURES:
            raise ParameterError(f"parameters must give at most {MOST_FEATURES} features; got more; take fewer cells")
        self.n_features_out_ = count

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed; subclasses check their own ones in addition."""
        if self.max_pixels is not None:
            check_count(self.max_pixels, "max_pixels")

    def _check_state(self) -> None:
        """Check the parameters and what was learnt of an extractor read from a file, and set its number of features."""
        self._check_parameters()
        self._check_learnt()
        self._count()

    def _learn(self, images: Images) -> None:
        """Learn from images; most extractors have nothing to learn."""

    def _check_learnt(self) -> None:
        """Raise ValueError if learnt arrays that were read from a file are not possible."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # images come as lists
        tags.input_tags.positive_only = True
        tags.no_validation = True  # scikit-learn's checks are for matrices
        return tags


def sample_rows(
    images: Images, max_pixels: int | None, n_rows: int, rng: Any, describe: Callable[[PreparedImage], Array]
) -> Array:
    """Return about `n_rows` of the rows that `describe` finds in at most a thousand images, drawn at random."""
    chosen = rng.permutation(len(images))[:FIT_IMAGES]
    quota = math.ceil(n_rows / len(chosen))  # of each image
    found = []
    with one_blas_thread():
        for i in chosen:
            rows = describe(PreparedImage(images[i], max_pixels))
            found.append(rows[rng.permutation(len(rows))[:quota]])
    return np.concatenate(found)


def differing(whites: set[str]) -> list[str]:
    """Return the note on whites of 16-bit images that differ, if they do."""
    cure = f"if one camera took them, {SET_BITS}"
    return [f"white differs between the 16-bit images; {cure}"] if len(whites - {""}) > 1 else []


def warn_of(notes: Iterable[str]) -> None:
    """Warn once of each note on the pixels of images."""
    for note in dict.fromkeys(filter(None, notes)):
        warnings.warn(f"images: {note}", PixelRangeWarning, stacklevel=3)


def check_images(images: Any) -> Images:
    """Return images as a sequence; raise ParameterError if it is empty, a single image or a single file."""
    if isinstance(images, str | Path) or not isinstance(images, Iterable):
        raise ParameterError(f"images must be a list of arrays or files; got {shown(images)}")
    # an array of less than three dimensions may hold objects or texts: images of several sizes, or names of files
    if isinstance(images, np.ndarray) and images.ndim < 3 and images.dtype.kind != "O" and images.dtype.kind != "U":
        raise ParameterError(f"images must be a list of arrays or files; got an array of shape {images.shape}")
    if isinstance(images, np.ndarray) and images.ndim == 3 and images.shape[2] in (3, 4):
        raise ParameterError(f"images must be several; got one of shape {images.shape}; put it into a list, [image]")
    listed = images if isinstance(images, Sequence) else list(images)
    if not len(listed):
        raise ParameterError("images must hold at least one image; got none")
    return listed


def check_layout(layout: Any) -> tuple[int, int]:
    """Return the rows and columns of cells, if they are two whole numbers from 1 to 64."""
    pair = layout if isinstance(layout, tuple | list) and len(layout) == 2 else (0, 0)
    if all(isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= 64 for count in pair):
        return pair[0], pair[1]
    raise ParameterError(
        f"layout must be the rows and columns of cells, two whole numbers from 1 to 64; got {shown(layout)}"
    )


def named_in_cells(names: Sequence[str], layout: tuple[int, int]) -> Iterator[str]:
    """Yield names of what each cell has, cell by cell, row by row; a single cell is not mentioned."""
    for row, column in product(range(layout[0]), range(layout[1])):
        where = f"_cell_{row}_{column}" if math.prod(layout) > 1 else ""
        yield from (name + where for name in names)


def check_descriptor_count(names: str, count: int, size: int) -> None:
    """Raise ParameterError, naming `names`, if `count` descriptors of `size` float32 numbers take more than 1 GiB."""
    if 4 * count * size > MOST_BYTES:
        raise ParameterError(
            f"{names} must leave at most {MOST_BYTES // (4 * size)} places in an image; got {count}; "
            f"take larger steps or a smaller max_pixels"
        )


def divide_axis(size: int, parts: int) -> list[slice]:
    """Return `parts` slices that divide an axis of `size` pixels evenly, as :func:`count_in_cells` does."""
    # rounded up: place p lies in part floor(p * parts / size), so part i begins at the first p >= i * size / parts
    edges = [-(-i * size // parts) for i in range(parts + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def count_in_cells(values: Array, rows: Array, columns: Array, layout: tuple[int, int], n_bins: int) -> Array:
    """Count values (0 to n_bins - 1) in each cell of an image, as shares of the whole image.

    `rows` and `columns` are places in [0, 1), and `layout` has the rows and columns of cells. The histograms of the
    cells follow each other, and their sum is 1, or 0 if there is nothing to count.
    """
    cells = math.prod(layout)
    if cells > 1:
        row, column = (rows * layout[0]).astype(np.intp), (columns * layout[1]).astype(np.intp)
        # cells are numbered row by row, and the bins of each are apart from those of the others
        values = values + n_bins * (row * layout[1] + column)
    counts = np.bincount(values, minlength=cells * n_bins)
    return counts / max(counts.sum(), np.finfo(np.float64).tiny)
