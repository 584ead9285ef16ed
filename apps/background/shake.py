"""A camera that shakes: how far each frame lies from the scene, and frames laid upon it.

The shift of a frame is found by Gauss-Newton steps on the squared difference at pixels with strong gradients, each
weighted down by how much it differs (what passes in front does not count), from coarse to fine. Frames are brought to
the light of the scene before.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._jit import kernel

from .medians import temporal_median

__all__ = ["Anchors", "measure_shake", "moved_by"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]

LEVELS = (4, 2, 1)  # times smaller, from coarse to fine
STEPS = 5  # Gauss-Newton steps a level
PIXELS = 3000  # with the strongest gradients, a level
MARGIN = 8  # pixels at the border that are not asked
STRONGEST = 30.0  # grey levels a pixel: a gradient counts up to this
OUTLIER = 8.0  # grey levels: what differs by as much counts a quarter
CAP = 30.0  # grey levels: differences count up to this where two shifts are compared
ASKED = 24  # frames that say whether the camera shakes
SHAKES = 0.3  # pixels, median over frames
WORTH = 0.95  # of the difference, that a shift leaves at most: else the frame stays as it is
DARK = 16.0  # grey levels: darker pixels say little about the light
THUMBNAIL = 8  # times smaller: shakes hardly move it
EXPLAINED = 0.2  # of the difference at gradients, by shifts: less is no shaking
FEWEST = 8  # frames
SMALLEST = 48  # pixels, of the shorter side


@kernel(reassociate=True)
def align(frame, scene, rows, columns, down, right, shift, steps, outlier, cap):  # type: ignore[no-untyped-def]
    """Improve the shift ``(x, y)`` of a frame against the scene; return the mean difference at its end.

    Parameters
    ----------
    frame, scene : ndarray of float32 (height, width)
    rows, columns : ndarray of int (k,)
        The pixels that are asked.
    down, right : ndarray of float32 (k,)
        Gradients of the scene there.
    shift : ndarray of float64 (2,)
        The frame shows at ``p + shift`` what the scene has at ``p``.
    steps : int
    outlier, cap : float
    """
    height, width = frame.shape
    mean = 0.0
    for step in range(steps + 1):
        a = b = c = e = f = total = everything = mean = 0.0
        for i in range(len(rows)):
            everything += np.sqrt(right[i] * right[i] + down[i] * down[i])
            y = rows[i] + shift[1]
            x = columns[i] + shift[0]
            if not (0 <= y < height - 1 and 0 <= x < width - 1):
                continue
            above, left = int(y), int(x)
            v, u = y - above, x - left
            upper = frame[above, left] * (1 - u) + frame[above, left + 1] * u
            lower = frame[above + 1, left] * (1 - u) + frame[above + 1, left + 1] * u
            difference = upper * (1 - v) + lower * v - scene[rows[i], columns[i]]
            gx, gy = right[i], down[i]
            gradient = np.sqrt(gx * gx + gy * gy)
            mean += gradient * min(abs(difference), cap)
            total += gradient
            ratio = difference / outlier
            weight = 1 / ((1 + ratio * ratio) * (1 + ratio * ratio))
            a += weight * gx * gx
            b += weight * gx * gy
            c += weight * gy * gy
            e += weight * gx * difference
            f += weight * gy * difference
        mean = mean / total if total > 0.5 * everything else cap  # of less than half nothing is known
        if step < steps:
            damping = 1e-3 * (a + c) + 1e-6  # a scene of stripes tells only one direction
            a += damping
            c += damping
            determinant = a * c - b * b
            shift[0] -= (c * e - b * f) / determinant
            shift[1] -= (a * f - b * e) / determinant
    return mean


class Anchors:
    """What frames are laid upon.

    Parameters
    ----------
    scene : ndarray of float32 (height, width)
        Grey.
    """

    def __init__(self, scene: Floats) -> None:
        self.scene = scene

    @cached_property
    def _levels(self) -> list[tuple[Any, ...]]:
        return [_level(self.scene, times) for times in LEVELS]

    @cached_property
    def _bright(self) -> tuple[NDArray[np.bool_], Floats]:
        """Where the scene's thumbnail is bright, and how."""
        scene = _thumbnail(self.scene)
        bright = scene > min(DARK, float(np.median(scene)))
        return bright, scene[bright]

    def shift(self, frame: FrameArray) -> tuple[float, float]:
        """Return how many pixels right and down a frame (height, width[, channels]) lies from the scene."""
        return self.compared(frame)[0]

    def compared(self, frame: FrameArray) -> tuple[tuple[float, float], float, float]:
        """Return shift, and mean difference at gradients without and with it."""
        grey = self._in_light(grey_of(frame))
        limit = min(grey.shape) / 4
        finest = _smaller(grey, LEVELS[-1])
        before = after = self._align(finest, -1, np.zeros(2), 0, OUTLIER)
        found = np.zeros(2)
        for level, times in enumerate(LEVELS):
            found /= times
            outlier = OUTLIER if times == 1 else 2 * OUTLIER
            smaller = finest if times == LEVELS[-1] else _smaller(grey, times)
            after = self._align(smaller, level, found, STEPS, outlier)
            found *= times
            if not (np.abs(found) < limit).all():
                return (0.0, 0.0), before, before
        if after > WORTH * before:
            return (0.0, 0.0), before, before
        return (float(found[0]), float(found[1])), before, after

    def _align(self, frame: Floats, level: int, shift: NDArray[np.float64], steps: int, outlier: float) -> float:
        scene, rows, columns, down, right = self._levels[level]
        return float(align(frame, scene, rows, columns, down, right, shift, steps, outlier, CAP))

    def _in_light(self, grey: Floats) -> Floats:
        """Return a frame in the light of the scene, by the median ratio of small pictures."""
        bright, scene = self._bright
        ratio = float(np.median(_thumbnail(grey)[bright] / scene)) if len(scene) else 1.0
        return grey if ratio <= 0 else grey * np.float32(1 / ratio)


def grey_of(frame: FrameArray) -> Floats:
    """Return the mean over channels (height, width)."""
    if frame.ndim == 3 and frame.shape[2] == 3:
        frame = np.asarray(cv2.transform(frame, np.full((1, 3), 1 / 3, np.float32)), np.uint8)
    return frame.reshape(frame.shape[:2]).astype(np.float32)


def _thumbnail(grey: Floats) -> Floats:
    size = max(1, grey.shape[1] // THUMBNAIL), max(1, grey.shape[0] // THUMBNAIL)
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)


def _most_like_the_others(frames: list[FrameArray]) -> int:
    """Return which frame (height, width, channels) correlates best with the median of all."""
    small = np.array([_thumbnail(grey_of(frame)).ravel() for frame in frames])
    small -= small.mean(axis=1, keepdims=True)
    small /= np.maximum(small.std(axis=1, keepdims=True), 1)
    return int(np.argmax(np.einsum("ip,p->i", small, np.median(small, axis=0))))


def _smaller(grey: Floats, times: int) -> Floats:
    if times > 1:
        size = grey.shape[1] // times, grey.shape[0] // times
        grey = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)
    return np.asarray(cv2.GaussianBlur(grey, (0, 0), 1), np.float32)


def _level(scene: Floats, times: int) -> tuple[Any, ...]:
    smooth = _smaller(scene, times)
    right, down = (cv2.Sobel(smooth, cv2.CV_32F, *order, scale=1 / 8) for order in ((1, 0), (0, 1)))
    strength = np.zeros_like(smooth)
    inner = (slice(max(2, MARGIN // times), -max(2, MARGIN // times)),) * 2
    strength[inner] = np.minimum(np.hypot(right, down), STRONGEST)[inner]
    count = min(PIXELS, strength.size // 4)
    at = np.sort(np.argsort(-strength, axis=None, kind="stable")[:count])
    rows, columns = np.divmod(at, strength.shape[1])
    return smooth, rows, columns, down[rows, columns], right[rows, columns]


def measure_shake(frames: FrameArray) -> Anchors | None:
    """Return what to lay frames upon where the camera shakes.

    Parameters
    ----------
    frames : ndarray of uint8 (n, height, width, channels)

    Returns
    -------
    Anchors or None
        None where it stands still, or too little is seen to say.
    """
    n = len(frames)
    if n < FEWEST or min(frames.shape[1:3]) < SMALLEST:
        return None
    asked = [frames[t] for t in np.linspace(0, n - 1, min(n, ASKED)).round().astype(int)]
    first = Anchors(grey_of(asked[_most_like_the_others(asked)]))
    found = [first.compared(frame) for frame in asked]
    shifts = np.array([shift for shift, _, _ in found])
    shifts -= np.median(shifts, axis=0)
    explained = 1 - np.median([after / max(before, 1e-3) for _, before, after in found])
    if not (np.median(np.abs(shifts).max(axis=1)) > SHAKES and explained > EXPLAINED):
        return None
    laid = np.empty((len(asked), *frames.shape[1:3]), np.uint8)
    for grey, frame, (x, y) in zip(laid, asked, shifts, strict=True):
        grey[:] = grey_of(moved_by(frame, (x, y)))
    return Anchors(temporal_median(laid))


def moved_by(picture: FrameArray, shift: tuple[float, float], *, mask: bool = False) -> FrameArray:
    """Return the picture that shows at ``p`` what the given one has at ``p + shift``, beyond its border what is there.

    Parameters
    ----------
    picture : ndarray of uint8 (height, width[, channels])
    shift : (float, float)
        Pixels right and down.
    mask : bool, default=False
        Values are not mixed.

    Returns
    -------
    ndarray of uint8 [shape of the picture]
    """
    matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float32)
    flags = cv2.WARP_INVERSE_MAP | (cv2.INTER_NEAREST if mask else cv2.INTER_LINEAR)
    size = picture.shape[1], picture.shape[0]
    moved = cv2.warpAffine(picture, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.uint8).reshape(picture.shape)
