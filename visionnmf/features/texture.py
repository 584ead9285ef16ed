"""Edges and texture: oriented gradients, binary patterns by scikit-image, and the census transform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from skimage.feature import local_binary_pattern

from visionnmf._checks import check_count
from visionnmf._typing import Array

from .extractor import MAX_PIXELS, Extractor, PreparedImage, check_layout, count_in_cells, named_in_cells

NEIGHBOURS = 8
PATTERNS = NEIGHBOURS * (NEIGHBOURS - 1) + 3  # 58 uniform ones, and one for all others
CENSUS = 256
CLIPPED = 0.2  # the largest share of a block's norm that one direction of a cell may have
LEAST_NORM = 1e-5


@dataclass(eq=False, repr=False)
class HOG(Extractor):
    """Histograms of oriented gradients (Dalal & Triggs 2005) of the image scaled to a square, as in scikit-image.

    Parameters
    ----------
    n_orientations : int, default=9
    cell : int, default=16
        The side of a cell in pixels; blocks have two by two cells.
    size : int, default=128
        The side of the square in pixels.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels first.

    References
    ----------
    N. Dalal, B. Triggs, "Histograms of oriented gradients for human detection", CVPR 2005.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import HOG
    >>> HOG().fit_transform([make_mosaic(64, 64).image]).shape
    (1, 1764)
    """

    kind = "hog"

    _: KW_ONLY
    n_orientations: int = 9
    cell: int = 16
    size: int = 128
    max_pixels: int | None = MAX_PIXELS

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed; a block of two by two cells must fit into the square."""
        super()._check_parameters()
        check_count(self.n_orientations, "n_orientations", 1, 180)
        check_count(self.cell, "cell", 2, 512)
        check_count(self.size, "size", 2 * self.cell, 4096)

    def _names(self) -> Iterator[str]:
        """Yield the block, the cell in the block, and the orientation of each feature."""
        blocks = range(self.size // self.cell - 1)
        for row, column, down, across in product(blocks, blocks, range(2), range(2)):
            where = f"block_{row}_{column}_cell_{down}_{across}"
            yield from (f"{where}_orient{i}" for i in range(self.n_orientations))

    def _describe(self, image: PreparedImage) -> Array:
        """Return the blocks' histograms; scikit-image's own take ten times as long, and are equal to rounding."""
        n, turns = self.size // self.cell, self.n_orientations  # cells along a side, and bins of half a turn
        grey, whole = image.resized_grey(self.size, self.size), n * self.cell
        down, across = np.zeros((2, *grey.shape))
        down[1:-1], across[:, 1:-1] = grey[2:] - grey[:-2], grey[:, 2:] - grey[:, :-2]
        down, across = down[:whole, :whole], across[:whole, :whole]
        # Angles from -pi to pi have the bins 0 to 2 * turns; opposite directions are added up afterwards.
        bins = (np.arctan2(down, across) * (turns / np.pi) + turns).astype(np.intp)
        cells = np.arange(whole) // self.cell
        bins += (2 * turns + 1) * (n * cells[:, None] + cells)
        sizes = np.sqrt(down**2 + across**2)
        counts: Array = np.bincount(bins.ravel(), sizes.ravel(), n * n * (2 * turns + 1)).reshape(n, n, -1)
        histograms = counts[..., :turns] + counts[..., turns:-1]
        histograms[..., 0] += counts[..., -1]
        histograms /= self.cell**2
        blocks = sliding_window_view(histograms, (2, 2), axis=(0, 1)).transpose(0, 1, 3, 4, 2)
        return _unit_blocks(np.minimum(_unit_blocks(blocks), CLIPPED)).ravel()


def _unit_blocks(blocks: Array) -> Array:
    """Return blocks of cells (n, n, 2, 2, n_orientations) divided by their norms."""
    return np.asarray(blocks / np.sqrt((blocks**2).sum(axis=(2, 3, 4), keepdims=True) + LEAST_NORM**2))


class PatternHistogram(Extractor):
    """Counts patterns of pixels and their neighbours in the cells of an image."""

    layout: tuple[int, int]
    patterns: ClassVar[Sequence[str]]  # their names

    def _check_parameters(self) -> None:
        """Also check `layout`, the rows and columns of cells that have a histogram each."""
        super()._check_parameters()
        check_layout(self.layout)

    def _names(self) -> Iterator[str]:
        return named_in_cells(self.patterns, self.layout)

    def _count_patterns(self, codes: Array, n_codes: int) -> Array:
        """Count the codes of pixels, 0 to n_codes - 1, in each cell; the census transform has none at the border."""
        height, width = codes.shape
        rows, columns = np.divmod(np.arange(codes.size), max(1, width))
        return count_in_cells(codes.ravel(), rows / max(1, height), columns / max(1, width), self.layout, n_codes)


@dataclass(eq=False, repr=False)
class LBP(PatternHistogram):
    """Uniform local binary patterns (Ojala et al. 2002) in the cells of the image, by scikit-image.

    Parameters
    ----------
    layout : tuple of two ints, default=(4, 4)
        Rows and columns of cells; each has 59 features.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels.

    References
    ----------
    T. Ojala, M. Pietikäinen, T. Mäenpää, "Multiresolution gray-scale and rotation invariant texture classification with
    local binary patterns", IEEE TPAMI 24(7), 2002.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import LBP
    >>> LBP().fit_transform([make_mosaic(64, 64).image]).shape
    (1, 944)
    """

    kind = "lbp"
    patterns = tuple(f"pattern{i}" for i in range(PATTERNS))

    _: KW_ONLY
    layout: tuple[int, int] = (4, 4)
    max_pixels: int | None = MAX_PIXELS

    def _describe(self, image: PreparedImage) -> Array:
        """Count the uniform local binary patterns of all pixels in each cell."""
        # the radius is 1 pixel; "nri_uniform" numbers the uniform patterns 0 to 57, and all others 58
        patterns = local_binary_pattern(image.grey, NEIGHBOURS, 1, "nri_uniform").astype(np.intp)
        return self._count_patterns(patterns, PATTERNS)


@dataclass(eq=False, repr=False)
class CENTRIST(PatternHistogram):
    """The census transform histogram (Wu & Rehg 2011): which neighbours of a pixel are not brighter than the pixel.

    Parameters
    ----------
    layout : tuple of two ints, default=(1, 1)
        Rows and columns of cells; each has 254 features, because the two patterns of flat areas are left out.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels.

    References
    ----------
    J. Wu, J. M. Rehg, "CENTRIST: a visual descriptor for scene categorization", IEEE TPAMI 33(8), 2011.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import CENTRIST
    >>> CENTRIST().fit_transform([make_mosaic(64, 64).image]).shape
    (1, 254)
    """

    kind = "centrist"
    patterns = tuple(f"code{i}" for i in range(1, CENSUS - 1))

    _: KW_ONLY
    layout: tuple[int, int] = (1, 1)
    max_pixels: int | None = MAX_PIXELS

    def _describe(self, image: PreparedImage) -> Array:
        """Count the census codes of all pixels in each cell, without the codes 0 and 255; shares of the whole image."""
        counts = self._count_patterns(census_transform(image.grey), CENSUS)
        return counts.reshape(-1, CENSUS)[:, 1:-1].ravel()


def census_transform(grey: Array) -> NDArray[np.uint8]:
    """Encode which neighbours of each pixel are not brighter than it (Zabih & Woodfill 1994), except at the border.

    The neighbours from left to right and from top to bottom are the bits, the first one the highest.
    """
    height, width = (max(0, size - 2) for size in grey.shape)
    middle = grey[1 : 1 + height, 1 : 1 + width]
    codes = np.zeros((height, width), np.uint8)
    for bit, (row, column) in enumerate((r, c) for r in range(3) for c in range(3) if (r, c) != (1, 1)):
        codes |= (middle >= grey[row : row + height, column : column + width]).astype(np.uint8) << np.uint8(7 - bit)
    return codes
