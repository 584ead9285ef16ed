"""Preparing what is segmented: pictures of any number type, and pictures with dead pixels."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf.features import check_image
from visionnmf.features.images import full_range

__all__ = ["read_picture", "remove_impulses"]

# Dead and saturated pixels.
EXTREME = 0.02  # a value so near to an end of the range, as a share of the range, may be one
UNLIKE = 0.15  # and must differ so much from the median of the 25 pixels around
LEAST_SHARE = 0.03  # of all values; of 200 photographs one has more


def read_picture(image: ArrayLike) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Check an image, and return it as RGB (height, width, 3), uint8, uint16 or float32 in [0, 1].

    Cameras put 10, 12 or 14 bits into 16. Such a picture is shifted to 16 bits, and then also returned as it was.
    """
    values = check_image(image)
    if values.dtype == np.uint16:
        bits = max(8, int(values.max()).bit_length())
        if bits < 16:
            return values << np.uint16(16 - bits), values
    return values, None


def remove_impulses(pixels: NDArray[Any]) -> NDArray[Any]:
    """Replace dead and saturated values by a mean of the values around them that are neither.

    Returns the picture itself if less than 3 % of its values are to be replaced, as in photographs without such noise.
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
