"""What changes across a border, pixel by pixel: brightness, colour and texture at several scales, as structure tensors.

A cue is a symmetric 2 x 2 matrix a pixel, ``J = sum_b g_b g_b^T``, with ``g_b`` the gradient of channel b after a blur,
times the width of the blur. The channels are CIELAB itself, or shares of soft histogram bins; for these the gradient is
that of ``2 sqrt(share)``, so that ``n^T J n`` is the chi-squared difference of the histograms on the two sides of a
border with normal n, to first order. ``sqrt(n^T J n)`` is then how strong a border is for this cue, and the root of the
larger eigenvalue how strong it can be.

==========  =====================================  ============================================
cue         channels                               widths of the blur, in pixels
==========  =====================================  ============================================
``lab``     L / 25, a / 15, b / 15                 1, 2
``L``       10 bins of lightness                   2, 4, 8, 16
``ab``      8 bins of a, 8 of b                    2, 4, 8, 16
``T``       32 textons                             4, 8, 16
==========  =====================================  ============================================

Widths from 4 on are computed on the picture reduced by 2, 16 by 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .merging import CUES

__all__ = ["Cues", "assign_textons", "filter_responses", "find_cues", "soft_bins"]

Floats = NDArray[np.float32]

# Weights of the strongest response of each cue in the energy whose watershed gives the first regions.
ENERGY = {"lab 1": 0.5, "lab 2": 1.0, "L 2": 0.5, "ab 2": 0.5, "L 4": 0.4, "ab 4": 0.4, "T 4": 0.4}

# Bins and the range they cover: L from 0 to 100; a and b to where photographs rarely go.
L_BINS = (10, 0.0, 100.0)
A_BINS = (8, -40.0, 50.0)
B_BINS = (8, -45.0, 60.0)

SMALLEST_SHARE = 0.05  # of a bin in the denominator of the chi-squared difference: noise in empty bins counts little
SMALLEST_TEXTON = 0.02


@dataclass(frozen=True)
class Cues:
    """What :func:`find_cues` finds.

    Attributes
    ----------
    lab : ndarray of float32 [shape=(height, width, 3)]
        CIELAB (D65).
    tensors : ndarray of float32 [shape=(len(CUES), 3, height, width)]
        ``J_xx, J_yy, J_xy`` of each cue.
    energy : ndarray of float32 [shape=(height, width), >= 0]
        How strong a border at a pixel can be, over the fine cues.
    textons : ndarray of int64 [shape=(height, width)]
        The texton of each pixel.
    """

    lab: Floats
    tensors: Floats
    energy: Floats
    textons: NDArray[np.int64]


def soft_bins(values: Floats, bins: tuple[int, float, float]) -> list[Floats]:
    """Share each value between the two bins whose centres are next to it.

    Parameters
    ----------
    values : ndarray of float32
    bins : (count, low, high)
        Centres of the first and of the last bin are `low` and `high`; what lies outside counts as these.

    Returns
    -------
    list of ndarray of float32, in [0, 1]
        One array a bin, of the shape of `values`; they sum to 1.
    """
    count, low, high = bins
    place = np.clip((values - np.float32(low)) * np.float32((count - 1) / (high - low)), 0, count - 1)
    return [np.maximum(1 - np.abs(place - np.float32(k)), 0) for k in range(count)]


def filter_responses(lightness: Floats) -> Floats:
    """Filter lightness by first and second Gaussian derivatives of widths 1 and 2, and damp large responses.

    Parameters
    ----------
    lightness : ndarray of float32 [shape=(height, width), in [0, 100]]

    Returns
    -------
    ndarray of float32 [shape=(height, width, 10)]
        The responses of a pixel, scaled by ``log(1 + |r| / 3) / |r|``.
    """
    responses = np.empty((*lightness.shape, 10), np.float32)
    for first, sigma in ((0, 1.0), (5, 2.0)):
        smooth = np.asarray(cv2.GaussianBlur(lightness, (0, 0), sigma), np.float32)
        x, y = _gradient(smooth, sigma)
        xx, xy = _gradient(x, sigma)
        for place, plane in enumerate((x, y, xx, _gradient(y, sigma)[1], xy)):
            responses[..., first + place] = plane
    norm = np.sqrt(np.einsum("ijk,ijk->ij", responses, responses))
    responses *= (np.log1p(norm / 3) / np.maximum(norm, np.float32(1e-6)))[..., np.newaxis]
    return responses


def assign_textons(responses: Floats, centres: Floats) -> NDArray[np.int64]:
    """Find the nearest texton of each pixel.

    Parameters
    ----------
    responses : ndarray of float32 [shape=(height, width, 10)]
        As from :func:`filter_responses`.
    centres : ndarray of float32 [shape=(n_textons, 10)]

    Returns
    -------
    ndarray of int64 [shape=(height, width)]
    """
    half_squares = np.einsum("ij,ij->i", centres, centres) / 2
    flat = responses.reshape(-1, responses.shape[2])
    return np.asarray((flat @ centres.T - half_squares).argmax(axis=1).reshape(responses.shape[:2]), np.int64)


def find_cues(image: Floats, textons: Floats) -> Cues:
    """Compute the cues of a picture.

    Parameters
    ----------
    image : ndarray of float32 [shape=(height, width, 3), in [0, 1]]
        sRGB.
    textons : ndarray of float32 [shape=(n_textons, 10)]
        Centres, learnt by ``benchmarks/segmentation_train.py``.

    Returns
    -------
    Cues
    """
    lab = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2LAB), np.float32)
    shape = lab.shape[:2]
    L, a, b = (np.ascontiguousarray(lab[..., k]) for k in range(3))
    nearest = assign_textons(filter_responses(L), textons)
    planes: dict[str, list[NDArray[np.float32]]] = {
        "lab": [L / np.float32(25), a / np.float32(15), b / np.float32(15)],
        "L": soft_bins(L, L_BINS),
        "ab": soft_bins(a, A_BINS) + soft_bins(b, B_BINS),
        "T": [(nearest == k).astype(np.float32) for k in range(len(textons))],
    }
    reduced = {1: planes}
    for factor in (2, 4):
        finer = reduced[factor // 2]
        size = (max(1, (shape[1] + factor - 1) // factor), max(1, (shape[0] + factor - 1) // factor))
        reduced[factor] = {
            name: [
                np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_AREA), np.float32) for plane in finer[name]
            ]
            for name in ("L", "ab", "T")
        }
    tensors = np.empty((len(CUES), 3, *shape), np.float32)
    for place, cue in enumerate(CUES):
        name, width = cue.split()[0], int(cue.split()[1])
        factor = 1 if width <= 2 else 2 if width <= 8 else 4
        smallest = {"lab": None, "T": SMALLEST_TEXTON}.get(name, SMALLEST_SHARE)
        found = structure_tensor(reduced[factor][name], width / factor, smallest)
        for k in range(3):
            tensors[place, k] = (
                found[k] if factor == 1 else cv2.resize(found[k], shape[::-1], interpolation=cv2.INTER_LINEAR)
            )
    energy = np.zeros(shape, np.float32)
    for cue, weight in ENERGY.items():
        energy += np.float32(weight) * strongest(tensors[CUES.index(cue)])
    return Cues(lab, tensors, energy, nearest)


def structure_tensor(planes: Iterable[Floats], sigma: float, smallest: float | None) -> Floats:
    """Sum the outer products of the planes' gradients.

    Parameters
    ----------
    planes : iterable of ndarray of float32 [shape=(height, width)]
    sigma : float, > 0
        Width of the blur; gradients are times it.
    smallest : float, > 0, or None
        Planes are shares, and gradients those of ``2 sqrt(share + smallest)``; None: gradients of the planes.

    Returns
    -------
    ndarray of float32 [shape=(3, height, width)]
        xx, yy and xy.
    """
    total: Any = None
    for plane in planes:
        smooth = np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma), np.float32)
        if total is None:
            total = np.zeros((3, *smooth.shape), np.float32)
        if smallest is not None:
            smooth = np.sqrt(smooth + np.float32(smallest))
        x, y = _gradient(smooth, sigma if smallest is None else 2 * sigma)
        cv2.accumulateSquare(x, total[0])
        cv2.accumulateSquare(y, total[1])
        cv2.accumulateProduct(x, y, total[2])
    return np.asarray(total, np.float32)


def strongest(tensor: Floats) -> Floats:
    """Return the root of the larger eigenvalue of a tensor, pixel by pixel."""
    xx, yy, xy = tensor
    half = (xx - yy) / 2
    return np.sqrt(np.maximum((xx + yy) / 2 + np.sqrt(half * half + xy * xy), 0))


def _gradient(plane: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return the derivatives along x and y by Scharr's filter, which is nearly the same in all directions."""
    return (
        np.asarray(cv2.Scharr(plane, cv2.CV_32F, 1, 0, scale=scale / 32), np.float32),
        np.asarray(cv2.Scharr(plane, cv2.CV_32F, 0, 1, scale=scale / 32), np.float32),
    )
