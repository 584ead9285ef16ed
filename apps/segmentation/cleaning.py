"""Dead and saturated pixels replaced by what is around them, where a picture has many."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.features.images import full_range

__all__ = ["remove_impulses"]

EXTREME = 0.02  # of the range, from its ends
UNLIKE = 0.15  # of the range, from the median of the 25 pixels around
LEAST_SHARE = 0.03  # of the values; of 200 photographs one has more


def remove_impulses(pixels: NDArray[Any]) -> NDArray[Any]:
    """Replace values at the ends of the range that are unlike those around them by a mean of the others.

    Parameters
    ----------
    pixels : ndarray [shape=(height, width, 3), uint8, uint16 or float32 in [0, 1]]

    Returns
    -------
    ndarray [shape=(height, width, 3)]
        In the same number type; the picture itself where less than three in a hundred values are to be replaced, as in
        photographs without such noise.
    """
    full = full_range(pixels.dtype)
    low, high, unlike = EXTREME * full, (1 - EXTREME) * full, UNLIKE * full
    if min(pixels.shape[:2]) < 5 or np.count_nonzero((pixels <= low) | (pixels >= high)) < LEAST_SHARE * pixels.size:
        return pixels
    clean = np.empty_like(pixels, order="C")
    n_bad = 0
    for channel in range(3):
        values = np.ascontiguousarray(pixels[..., channel])
        median = cv2.medianBlur(values, 5)
        bad = ((values <= low) | (values >= high)) & (cv2.absdiff(values, median) > unlike)
        n_bad += int(np.count_nonzero(bad))
        good = (~bad).astype(np.float32)
        weight = cv2.GaussianBlur(good, (0, 0), 1.0)
        mean = cv2.GaussianBlur(values * good, (0, 0), 1.0) / np.maximum(weight, 1e-6)
        mean = np.where(weight > 0.05, mean, median)
        clean[..., channel] = np.where(bad, mean if pixels.dtype.kind == "f" else np.rint(mean), values)
    return clean if n_bad >= LEAST_SHARE * pixels.size else pixels
