"""What changes across a border, pixel by pixel: brightness and colour at several scales, and what the network finds.

A cue gives each pixel a symmetric 2 x 2 matrix, ``J = sum_b g_b g_b^T``, where ``g_b`` is the gradient of channel b
after a blur, times the width of the blur. The channels are CIELAB itself, or shares of soft histogram bins. For shares
the gradient is that of ``2 sqrt(share)``, so that ``n^T J n`` is, to first order, the chi-squared difference of the
histograms on the two sides of a border with normal n. ``sqrt(n^T J n)`` is then the strength of the border for this
cue, and the root of the larger eigenvalue is the largest strength that a border there can have.

The cues are CIELAB, as L / 25, a / 15 and b / 15, after blurs of 1 and 2 pixels (``lab``), 10 bins of lightness (``L``)
and 8 bins each of a and b (``ab``), after a blur of 2 pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import cv2
import numpy as np

from .kernels import CUES
from .network import Floats, find_boundaries

# The weights of the cues, and of the network's boundary, in the energy whose watershed gives the first regions.
CUE_WEIGHTS, BOUNDARY_WEIGHT = (0.5, 1.0, 0.5, 0.5), np.float32(2)
LEAST = np.float32(0.05)  # what the network finds up to this does not count; chosen by looking at flat pictures


class Bins(NamedTuple):
    """How many bins a soft histogram has, and the centres of the first and the last; values beyond count as these."""

    number: int
    first: float
    last: float


# L from 0 to 100; a and b as far as photographs usually go.
L_BINS = Bins(10, 0.0, 100.0)
A_BINS = Bins(8, -40.0, 50.0)
B_BINS = Bins(8, -45.0, 60.0)

# Added to a share before its root is taken, so that noise in nearly empty bins counts little.
SMALLEST_SHARE = 0.05


@dataclass(frozen=True)
class Cues:
    """The cues of a picture, in float32."""

    lab: Floats  # (height, width, 3), CIELAB (D65)
    tensors: Floats  # (4, 3, height, width): xx, yy and xy of each cue
    energy: Floats  # (height, width), the largest strength of a border at a pixel, over fine cues and the boundary
    boundary: Floats  # this and the next are what :func:`.network.find_boundaries` returns
    vectors: Floats


def bin_positions(values: Floats, bins: Bins) -> Floats:
    """Return where values lie among the centres of bins: from 0, at the first, to the number of bins less 1."""
    steps_per_unit = np.float32((bins.number - 1) / (bins.last - bins.first))
    return np.clip((values - np.float32(bins.first)) * steps_per_unit, 0, bins.number - 1)


def soft_bins(values: Floats, bins: Bins) -> Iterator[Floats]:
    """Yield, bin by bin, the share of each value, which is divided between the bins with the two nearest centres."""
    positions = bin_positions(values, bins)
    for k in range(bins.number):
        yield np.maximum(1 - np.abs(positions - np.float32(k)), 0)


def find_cues(image: Floats, network: dict[str, Floats]) -> Cues:
    """Compute the cues of an sRGB picture (height, width, 3) in [0, 1]."""
    boundary, vectors = find_boundaries(image, network)
    lab = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2LAB), np.float32)
    L, a, b = (np.ascontiguousarray(lab[..., k]) for k in range(3))
    # the place of the first cue, the widths of the blur, and the planes: CIELAB divided by scales of usual differences,
    # and shares of bins
    kinds: tuple[tuple[int, tuple[int, ...], Iterable[Floats]], ...] = (
        (0, (1, 2), (L / np.float32(25), a / np.float32(15), b / np.float32(15))),
        (2, (2,), soft_bins(L, L_BINS)),
        (3, (2,), chain(soft_bins(a, A_BINS), soft_bins(b, B_BINS))),
    )
    tensors = np.zeros((len(CUES), 3, *lab.shape[:2]), np.float32)
    for first, blurs, planes in kinds:
        for plane in planes:  # one at a time, so they need not be in memory together
            for place, blur in enumerate(blurs, first):
                _add_gradients(tensors[place], plane, blur, SMALLEST_SHARE if first else None)
    energy = BOUNDARY_WEIGHT * np.maximum(boundary - LEAST, 0)
    for (xx, yy, xy), weight in zip(tensors, CUE_WEIGHTS, strict=True):
        half = (xx - yy) / 2
        # the root of the larger eigenvalue
        energy += np.float32(weight) * np.sqrt(np.maximum((xx + yy) / 2 + np.sqrt(half * half + xy * xy), 0))
    return Cues(lab, tensors, energy, boundary, vectors)


def _add_gradients(total: Floats, plane: Floats, sigma: float, smallest: float | None) -> None:
    """Add the products xx, yy and xy of a plane's gradient, after a blur of width `sigma`, to a tensor."""
    # times `sigma`, so that widths are comparable; of a share it is the gradient of 2 sqrt(share)
    smooth = np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma), np.float32)
    if smallest is not None:
        smooth += np.float32(smallest)
        np.sqrt(smooth, out=smooth)
    x, y = _gradient(smooth, sigma if smallest is None else 2 * sigma)
    cv2.accumulateSquare(x, total[0])
    cv2.accumulateSquare(y, total[1])
    cv2.accumulateProduct(x, y, total[2])


def _gradient(plane: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return the derivatives along x and y, times `scale`, by Scharr's filter, which is nearly isotropic."""
    # OpenCV's filter returns 32 for a slope of 1 per pixel
    return (
        np.asarray(cv2.Scharr(plane, cv2.CV_32F, 1, 0, scale=scale / 32), np.float32),
        np.asarray(cv2.Scharr(plane, cv2.CV_32F, 0, 1, scale=scale / 32), np.float32),
    )
