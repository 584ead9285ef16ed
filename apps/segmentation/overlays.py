"""Drawing segments: over their picture, in plain colours, and several segmentations side by side."""

from __future__ import annotations

import colorsys
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_numbers
from visionnmf._pixel_range import in_full_range
from visionnmf.exceptions import ParameterError
from visionnmf.features import check_image

from .hierarchy import count_labels, neighbour_pairs

OUTSIDE = 65535  # the label of pixels outside a mask
ALIKE = 50  # two colours are alike if all of red, green and blue differ by less
PANEL = 480  # the largest width of a picture beside others
BRIGHT = 118  # grey level on which black and white have the same contrast, by WCAG 2
NUMBERED = 20  # the number of segments, from the largest on, that get their number drawn


def overlay(image: ArrayLike, labels: NDArray[Any], palette: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """Draw segments over a picture: tinted in different colours, with light borders on dark ones, the largest numbered.

    Parameters
    ----------
    image : array-like [shape=(height, width) or (height, width, 1, 3 or 4)]
        As :func:`.segment` takes it.
    labels : ndarray of int [shape=(height, width)]
        The segment of each pixel. Pixels outside a mask (65535) are drawn darker.
    palette : ndarray of uint8 [shape=(K, 3)], optional
        RGB of each label, such as :attr:`.SegmentationResult.colours`; by default colours that differ.

    Returns
    -------
    ndarray of uint8 [shape=(height, width, 3)]
        RGB.

    Raises
    ------
    ParameterError
        If `image` is not an image, or `labels` has another shape.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import segment
    >>> from visionnmf.datasets import make_mosaic
    >>> result = segment(make_mosaic(48, 64, random_state=0).image, n_segments=3)
    >>> from visionnmf.apps.segmentation import overlay
    >>> overlay(result.image, result.labels).shape
    (48, 64, 3)
    """
    pixels = in_full_range(check_image(image))[0]
    labels = np.asarray(labels)
    if labels.shape != pixels.shape[:2]:
        raise ParameterError(f"labels must have the image's shape {pixels.shape[:2]}; got {labels.shape}")
    if labels.dtype.kind not in "bui" or labels.min() < 0:
        least = f" from {labels.min()} on" if labels.dtype.kind == "i" else ""
        raise ParameterError(f"labels must be whole numbers >= 0; got {labels.dtype}{least}")
    if palette is not None:
        palette = np.asarray(check_numbers(palette, "palette", np.uint8))
        if palette.ndim != 2 or palette.shape[1] != 3 or not len(palette):
            raise ParameterError(f"palette must have shape (n_labels, 3); got {palette.shape}")
    names, index = _numbered(labels)
    picture = to_eight_bits(pixels)
    tints = colours(len(names)) if palette is None else palette[np.minimum(names, len(palette) - 1)]
    tints[names == OUTSIDE] = 0
    tinted = np.asarray(cv2.addWeighted(picture, 0.6, tints[index], 0.4, 0), np.uint8)
    border = np.zeros(labels.shape, np.uint8)
    for (_, marked), (label, neighbour) in zip(neighbour_pairs(border), neighbour_pairs(index), strict=True):
        marked |= label != neighbour
    # 1 in a picture 500 pixels wide; measured by the area, because strips can be long
    thick = max(1, round(np.sqrt(labels.size) / 430))
    step = max(1, thick // 2)  # numbers find their places among every second, third, ... row and column
    for width, colour in ((2 * thick + 1, 0), (thick, 255)):  # a wide black line first, then a narrow white one on it
        tinted[cv2.dilate(border, np.ones((width, width), np.uint8)) > 0] = colour
    counts = count_labels(index, len(names)) * (names != OUTSIDE)
    for place in np.argsort(-counts, kind="stable")[:NUMBERED]:
        if counts[place]:
            _write_number(tinted, index[::step, ::step] == place, str(names[place]), thick, step)
    return tinted


def _numbered(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels that occur, in order, and for each pixel the position of its label among them."""
    if labels.dtype not in (np.uint8, np.uint16):
        names, index = np.unique(labels, return_inverse=True)
        return names, index.reshape(labels.shape)
    # np.unique sorts, which takes ten times as long for a picture of twelve megapixels
    names = np.flatnonzero(count_labels(labels, 2**16))
    position = np.zeros(int(names[-1]) + 1, np.uint16)
    position[names] = np.arange(len(names))
    return names, position[labels]


def draw_beside(image: ArrayLike, labels: dict[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Draw a picture and label maps of it side by side, with their names, each at most 480 pixels wide."""
    # by their captions; the picture itself has none
    panels = {"": to_eight_bits(check_image(image)), **{name: overlay(image, found) for name, found in labels.items()}}
    height, width = panels[""].shape[:2]
    if width > PANEL:
        height, width = max(1, round(height * PANEL / width)), PANEL
    drawn = []
    for name, panel in panels.items():
        small = cv2.resize(panel, (width, height), interpolation=cv2.INTER_AREA)
        caption = np.full((24, width, 3), 255, np.uint8)
        cv2.putText(caption, name, (4, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 1, cv2.LINE_AA)
        drawn.append(np.vstack([caption, small]))
    return np.hstack(drawn)


def draw_memberships(memberships: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Draw how far pixels belong to segments, (K, height, width), as mixtures (height, width, 3) of K colours."""
    return np.rint(np.tensordot(memberships, colours(len(memberships)), (0, 0))).astype(np.uint8)


def colours(count: int, drawn: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """Return RGB colours (count, 3) that differ: those that a person has drawn, then others that are unlike them."""
    first = np.empty((0, 3), np.uint8) if drawn is None else drawn
    # hues a golden section apart, in three brightnesses; twice as many, of which those unlike the drawn ones are taken
    made = np.array(
        [
            colorsys.hsv_to_rgb(k * 0.618034 % 1, (0.9, 0.6, 0.75)[k % 3], (1.0, 0.95, 0.7)[k % 3])
            for k in range(len(first), 2 * count + 50)
        ]
    )
    made = np.rint(255 * made).astype(np.uint8)
    apart = np.abs(made[:, np.newaxis].astype(int) - first).max(axis=2).min(axis=1, initial=255)
    order = np.argsort(apart < ALIKE, kind="stable")
    return np.concatenate([first, made[order]])[:count]


def hexadecimal(colour: NDArray[np.uint8]) -> str:
    """Return an RGB colour as ``#rrggbb``."""
    return f"#{colour.tobytes().hex()}"


def _write_number(picture: NDArray[np.uint8], inside: NDArray[np.bool_], text: str, thick: int, step: int) -> None:
    """Write a number where a segment is widest, if it fits; `thick` is the width of the strokes."""
    # a frame of zeros makes the picture's edge a border; the place needs no exact distances
    distance = cv2.distanceTransform(np.pad(inside.astype(np.uint8), 1), cv2.DIST_L2, 3)
    # the largest distance and its place; the smallest one is not needed, and the frame moved the place by 1
    _, room, _, (column, row) = cv2.minMaxLoc(distance)
    room, x, y = step * room, step * (column - 1), step * (row - 1)
    size = 0.5 * thick
    (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, thick)
    if room < np.hypot(width, height) / 2:
        return
    corner = (int(x - width / 2), int(y + height / 2))
    top, left = max(0, corner[1] - height), max(0, corner[0])
    there = cv2.cvtColor(np.ascontiguousarray(picture[top : corner[1] + 1, left : left + width]), cv2.COLOR_RGB2GRAY)
    ink = 255 if there.mean() < BRIGHT else 0
    for colour, extra in ((255 - ink, 2), (ink, 0)):  # a wider number first is the outline of the other one
        cv2.putText(picture, text, corner, cv2.FONT_HERSHEY_SIMPLEX, size, (colour,) * 3, thick + extra * thick)


def to_eight_bits(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a picture of uint8, uint16 or floats in [0, 1], checked by `check_image`, in 8 bits."""
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if pixels.dtype == np.uint16:
        return (pixels >> 8).astype(np.uint8)
    return np.rint(255 * pixels).astype(np.uint8)
