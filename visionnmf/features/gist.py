"""GIST, the shape of a scene: the energy of Gabor filters in the cells of an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft2, ifft2

from visionnmf._checks import check_count
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from .extractor import MAX_PIXELS, Extractor, PreparedImage, named_in_cells

MARGIN = 0.25  # of the image's side, mirrored at each border so that filters do not wrap around
CUT = 4.0  # cycles an image; lower frequencies are regarded as lighting
WINDOW = 5  # pixels that are mirrored at the border for the normalisation of contrast
HIGHEST = 0.3  # frequency of the finest filters, in cycles a pixel
RATIO = 1.85  # ratio of the frequencies of neighbouring scales
REACH = 2.6  # a filter passes nothing above so many times its frequency


@dataclass(eq=False, repr=False)
class GIST(Extractor):
    """The GIST of a scene (Oliva & Torralba 2001).

    The grey image is scaled to a square, and its lighting and local contrast are normalised. Then it is filtered by
    Gabor filters of several scales and orientations. Each feature is the mean magnitude of a filter's response in a
    cell. They are ordered by scale, the finest first, then by orientation, then by cell.

    Parameters
    ----------
    n_scales : int, default=4
        The number of scales, a factor of 1.85 apart; the finest has 0.3 cycles a pixel.
    n_orientations : int, default=8
    n_cells : int, default=4
        The number of rows, and of columns, of cells. The defaults give 512 features.
    size : int, default=128
        The side of the square in pixels, a multiple of 16 and of four times `n_cells`.
    max_pixels : int or None, default=98_304
        A larger image is averaged down to so many pixels first.

    References
    ----------
    A. Oliva, A. Torralba, "Modeling the shape of the scene: a holistic representation of the spatial envelope", IJCV
    42(3), 2001.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import GIST
    >>> GIST().fit_transform([make_mosaic(64, 64).image]).shape
    (1, 512)
    """

    kind = "gist"

    _: KW_ONLY
    n_scales: int = 4
    n_orientations: int = 8
    n_cells: int = 4
    size: int = 128
    max_pixels: int | None = MAX_PIXELS

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self.n_scales, "n_scales", 1, 6)
        check_count(self.n_orientations, "n_orientations", 1, 16)
        check_count(self.n_cells, "n_cells", 1, 16)
        check_size(self.size, self.n_cells)  # the side must be a multiple of 16 and of 4 * n_cells

    def _names(self) -> Iterator[str]:
        """Yield the scale, the finest being 0, the orientation and the cell of each feature."""
        filters = product(range(self.n_scales), range(self.n_orientations))
        for scale, orientation in filters:
            yield from named_in_cells([f"scale{scale}_orient{orientation}"], (self.n_cells, self.n_cells))

    def _describe(self, image: PreparedImage) -> Array:
        """Return the mean magnitude of each Gabor filter's response in each cell of the resized, mirrored image."""
        grey = _normalise(255 * image.resized_grey(self.size, self.size))
        margin = int(MARGIN * self.size)
        spectrum = fft2(np.pad(grey, margin, mode="symmetric"))
        found = []
        # coarse filters are applied to the low frequencies only, which subsamples the response by `shrink` and is
        # faster
        for filters, shrink in _filters(self.size + 2 * margin, self.n_scales, self.n_orientations):
            responses = np.abs(ifft2(_low_frequencies(spectrum, shrink) * filters)) / np.float32(shrink**2)
            inner = slice(margin // shrink, (margin + self.size) // shrink)
            side = self.size // shrink // self.n_cells
            # (filters, rows of cells, pixels in a cell, columns of cells, pixels in a cell)
            cells = responses[:, inner, inner].reshape(-1, self.n_cells, side, self.n_cells, side)
            found.append(cells.mean(axis=(2, 4)).ravel())
        return np.concatenate(found)


def check_size(size: Any, n_cells: int) -> None:
    """Raise ParameterError if the square of `size` pixels a side cannot be divided as :class:`GIST` does it.

    A margin of a quarter of the side is added, and responses of coarse filters are subsampled by up to 4.
    """
    if check_count(size, "size", 16, 512) % 16 or size % (4 * n_cells):
        raise ParameterError(f"size must be a multiple of 16 and of 4 * n_cells; got {size}; n_cells is {n_cells}")


def _normalise(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Remove lighting and normalise the local contrast (Oliva & Torralba 2001, the authors' ``prefilt``)."""
    # In logarithms lighting is a sum, of low frequency; the local deviation is the root of the blurred squares.
    logs = np.pad(np.log1p(grey), WINDOW, mode="symmetric")
    blur = _low_pass(len(logs))
    contrast = logs - ifft2(fft2(logs) * blur).real
    deviation = np.sqrt(np.abs(ifft2(fft2(contrast**2) * blur)))
    # The constant 0.2 is that of the authors; it keeps flat areas from being amplified.
    result: NDArray[np.float32] = (contrast / (np.float32(0.2) + deviation))[WINDOW:-WINDOW, WINDOW:-WINDOW]
    return result


@lru_cache(maxsize=4)
def _low_pass(side: int) -> NDArray[np.float32]:
    """Return a Gaussian low-pass filter as factors of a spectrum (side, side); it is 1/2 at CUT cycles an image."""
    frequency = np.fft.fftfreq(side, 1 / side)
    squares = frequency[:, np.newaxis] ** 2 + frequency**2
    return np.exp(-squares * np.log(2) / CUT**2).astype(np.float32)


@lru_cache(maxsize=4)
def _filters(side: int, n_scales: int, n_orientations: int) -> list[tuple[NDArray[np.complex64], int]]:
    """Return the spectra of the filters of each scale, finest first, and the factor that subsamples their responses."""
    found = []
    for scale in range(n_scales):
        frequency = HIGHEST / RATIO**scale  # of the filter's centre, in cycles a pixel
        shrink = next(s for s in (4, 2, 1) if s == 1 or REACH * frequency <= 0.5 / s)
        # subsampling is exact if the filter passes nothing above the new highest frequency, half a cycle a sample
        axis = np.fft.fftfreq(side // shrink, shrink)  # frequencies in cycles a pixel of the full image
        radius = np.hypot(axis[:, np.newaxis], axis)
        angle = np.arctan2(axis[:, np.newaxis], axis[np.newaxis, :])
        # A filter is a ring around its frequency times a wedge around its direction; widths are the authors' constants.
        ring = np.exp(-3.5 * (radius / frequency - 1) ** 2)
        turned = angle + np.pi / n_orientations * np.arange(n_orientations)[:, np.newaxis, np.newaxis]
        # bring the angles to -pi ... pi, so that the wedge is continuous
        turned = (turned + np.pi) % (2 * np.pi) - np.pi
        wedge = np.exp(-2 * np.pi * 16 * n_orientations**2 / 32**2 * turned**2)
        middle = np.exp(1j * np.pi * (shrink - 1) * axis)  # a sample is in the middle of its pixels
        found.append(((ring * wedge * middle[:, np.newaxis] * middle).astype(np.complex64), shrink))
    return found


def _low_frequencies(spectrum: Array, shrink: int) -> Array:
    """Return the low frequencies of a spectrum (side, side): that of the image subsampled by `shrink`."""
    if shrink == 1:
        return spectrum
    half = len(spectrum) // shrink // 2
    keep = np.r_[0:half, -half:0]
    return spectrum[np.ix_(keep, keep)]
