"""Segments drawn over their image."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf.exceptions import ParameterError
from visionnmf.features import check_image

__all__ = ["overlay"]


def overlay(image: ArrayLike, labels: NDArray[Any]) -> NDArray[np.uint8]:
    """Draw segments over an image: each tinted with its mean colour, with light borders on dark ones.

    Parameters
    ----------
    image : array-like [shape=(height, width) or (height, width, 1, 3 or 4)]
        As :func:`.segment` takes it.
    labels : ndarray of int [shape=(height, width)]
        The segment of each pixel.

    Returns
    -------
    ndarray of uint8 [shape=(height, width, 3)]
        RGB.

    Raises
    ------
    ParameterError
        If the image is not one, or `labels` has another shape.
    """
    pixels = check_image(image)
    if np.shape(labels) != pixels.shape[:2]:
        raise ParameterError(f"labels must have the image's shape {pixels.shape[:2]}; got {np.shape(labels)}")
    rgb = _eight_bits(pixels)
    index = np.unique(labels, return_inverse=True)[1]
    index = index.reshape(labels.shape)
    counts = np.bincount(index.ravel())
    means = np.stack([np.bincount(index.ravel(), rgb[..., k].ravel()) / counts for k in range(3)], axis=1)
    tinted = np.asarray(cv2.addWeighted(rgb, 0.4, means.round().astype(np.uint8)[index], 0.6, 0), np.uint8)
    border = np.zeros(labels.shape, np.uint8)
    border[:, 1:] |= index[:, 1:] != index[:, :-1]
    border[1:] |= index[1:] != index[:-1]
    thick = max(1, round(max(labels.shape) / 500))
    for width, colour in ((2 * thick + 1, 0), (thick, 255)):
        tinted[cv2.dilate(border, np.ones((width, width), np.uint8)) > 0] = colour
    return tinted


def _eight_bits(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if pixels.dtype == np.uint16:
        return (pixels >> 8).astype(np.uint8)
    return np.rint(255 * pixels).astype(np.uint8)
