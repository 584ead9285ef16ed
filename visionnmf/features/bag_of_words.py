"""Bags of words: each local descriptor is counted under the nearest word of a learnt dictionary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from visionnmf._checks import RandomState, check_count, check_generator, check_saved, check_seed
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from .extractor import (
    MAX_PIXELS,
    Extractor,
    Images,
    PreparedImage,
    check_descriptor_count,
    check_layout,
    count_in_cells,
    named_in_cells,
    sample_rows,
)
from .interest_points import STEP, check_grid, dense_grid, grid_size

BLOCK = 1 << 19  # distances at a time, which stay in the processor's cache


@dataclass(eq=False, repr=False)
class BagOfWords(Extractor):
    """Counts the words of a dictionary among the local descriptors of an image (Sivic & Zisserman 2003).

    A subclass computes the descriptors at the points of :class:`OnGrid` or :class:`AtCorners`.
    """

    saved_attributes = ("dictionary_", "n_features_out_")

    n_words: int = 1000
    _: KW_ONLY
    layout: tuple[int, int] = (1, 1)
    n_samples: int = 100_000
    max_pixels: int | None = MAX_PIXELS
    random_state: RandomState = 0

    @abstractmethod
    def _points(self, image: PreparedImage) -> Array:
        """Return the row, column and scale of each patch, in pixels (n, 3)."""

    @abstractmethod
    def _descriptors(self, image: PreparedImage, points: Array) -> NDArray[np.float32]:
        """Return the descriptors of patches (n, d)."""

    @abstractmethod
    def _descriptor_size(self) -> int:
        """Return the length of a descriptor."""

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed; a dictionary needs at least as many samples as words."""
        super()._check_parameters()
        check_count(self.n_words, "n_words")
        check_count(self.n_samples, "n_samples", self.n_words)
        check_layout(self.layout)

    def _learn(self, images: Images) -> None:
        """Cluster descriptors of about `n_samples` patches of randomly chosen images to at most `n_words` words."""
        rng = check_generator(self.random_state)
        descriptors = sample_rows(
            images, self.max_pixels, self.n_samples, rng, lambda image: self._descriptors(image, self._points(image))
        )
        if not len(descriptors):
            raise ParameterError("images must have at least one point of interest; got none in all of them")
        self.dictionary_: NDArray[np.float32] = _dictionary(descriptors, self.n_words, check_seed(rng))

    def _check_learnt(self) -> None:
        """Raise ValueError if a dictionary that was read from a file does not fit the parameters."""
        n_words, size = check_saved(self.dictionary_, "dictionary_", (None, None), "float32")
        if n_words > self.n_words or size != self._descriptor_size():
            raise ValueError("dictionary_ must be of the size of the descriptors and have at most n_words")

    def _names(self) -> Iterator[str]:
        return named_in_cells([f"word{i}" for i in range(len(self.dictionary_))], self.layout)

    def _describe(self, image: PreparedImage) -> Array:
        """Return how often each word occurs in each cell of the layout, as shares of the points."""
        points = self._points(image)  # row, column and scale of patches, in pixels (n, 3)
        words = nearest_words(self._descriptors(image, points), self.dictionary_)  # the number of each one's word
        places = points[:, :2] / image.grey.shape  # row and column as shares of height and width
        return count_in_cells(words, places[:, 0], places[:, 1], self.layout, len(self.dictionary_))


@dataclass(eq=False, repr=False)
class OnGrid(BagOfWords):
    """Descriptors on a dense grid."""

    _: KW_ONLY
    scales: tuple[float, ...]
    step: float = STEP

    def _check_parameters(self) -> None:
        """Also check `scales` and `step` of the grid."""
        super()._check_parameters()
        check_grid(self.scales, self.step)

    def _points(self, image: PreparedImage) -> Array:
        """Return the points of the grid (n, 3): row, column and scale, in pixels; raise if there are too many."""
        height, width = image.grey.shape
        count = sum(rows * columns for rows, columns in grid_size(height, width, self.scales, self.step))
        check_descriptor_count("scales and step", count, self._descriptor_size())
        return dense_grid(height, width, self.scales, self.step)


class AtCorners(BagOfWords):
    """Descriptors at Harris-Laplace points."""

    def _points(self, image: PreparedImage) -> Array:
        """Return the Harris-Laplace points: row, column and scale, in pixels (n, 3)."""
        return image.corners


def _dictionary(descriptors: NDArray[np.float32], n_words: int, seed: int) -> NDArray[np.float32]:
    """Cluster descriptors (n, d) to at most `n_words` words (n_words, d) by mini-batch k-means."""
    # Seen as one value of its bytes, a row can be compared as a whole, which is much faster than ``unique(axis=0)``.
    rows = np.ascontiguousarray(descriptors).view(np.dtype((np.void, descriptors.itemsize * descriptors.shape[1])))
    distinct = descriptors[np.sort(np.unique(rows, return_index=True)[1])]
    if len(distinct) <= n_words:  # they are the words themselves
        return distinct
    means = MiniBatchKMeans(
        n_words, batch_size=4096, init="random", n_init=1, max_iter=30, random_state=seed, compute_labels=False
    )
    return np.asarray(means.fit(descriptors).cluster_centers_, np.float32)


def nearest_words(descriptors: NDArray[np.float32], dictionary: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return the nearest word, a row of `dictionary` (n_words, d), of each descriptor (n, d), in blocks."""
    # the nearest word w of x has the largest x . w - |w|^2 / 2
    squares = np.einsum("ij,ij->i", dictionary, dictionary) / 2
    step = max(1, BLOCK // len(dictionary))
    found = [np.empty(0, np.intp)]
    for start in range(0, len(descriptors), step):
        found.append((descriptors[start : start + step] @ dictionary.T - squares).argmax(axis=1))
    return np.concatenate(found)
