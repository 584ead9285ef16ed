"""Camera shake: frames of a camera that shakes are registered to the scene.

The displacement of each frame from the scene is found by Gauss-Newton steps on the squared difference at pixels with
strong gradients, from coarse to fine. Pixels that differ much have little weight, so that what passes in front does not
count. Frames are first brought to the illumination of the scene. Waves can look like a shake, too. But two halves of
the picture then show different displacements, where those of a shake are the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray, channel_mean, temporal_median
from visionnmf.apps.background.kernels import find_shift

__all__ = ["Registration", "find_camera_shake", "shifted"]


class _Level(NamedTuple):
    """One level of the scene's pyramid: the picture, and positions and gradients of the pixels that are used."""

    scene: Floats  # (height, width) of this level, smoothed
    rows: NDArray[np.intp]  # (n_used,): rows and columns of the pixels with the strongest gradients
    columns: NDArray[np.intp]
    down: Floats  # (n_used,): gradients of the scene there, in grey levels for each pixel down and right
    right: Floats

    def halves(self, axis: str) -> list[_Level]:
        """Return two levels: the half of the pixels with lower "rows" or "columns", and the other half."""
        parts = np.array_split(np.argsort(getattr(self, axis), kind="stable"), 2)
        return [_Level(self.scene, self.rows[p], self.columns[p], self.down[p], self.right[p]) for p in parts]

    def energy(self) -> float:
        """Return the sum of the squared gradients of the pixels that are used."""
        return float((self.down**2 + self.right**2).sum())


class Registration:
    """Registers frames to a grey scene, an array of float32 (height, width)."""

    def __init__(self, scene: Floats) -> None:
        """Keep the grey scene (height, width) to which frames are registered."""
        self.scene = scene

    def check(self) -> None:
        """Raise ValueError if the scene, as one read from a file may be, is too small for the levels of its pyramid."""
        smallest = tuning.TUNING.camera_shake.smallest
        if min(self.scene.shape) < smallest:
            raise ValueError(f"frames must have at least {smallest} pixels a side where the camera shakes")

    @cached_property
    def _levels(self) -> list[_Level]:
        """The levels of the scene's pyramid, from coarse to fine, computed when they are first used."""
        # each is the scene reduced by a factor, such as 4, with the positions and gradients of some of its pixels
        return [_level(self.scene, factor) for factor in tuning.TUNING.camera_shake.levels]

    def halves(self, axis: str) -> tuple[Registration, Registration] | None:
        """Return registrations by the upper and lower ("rows") or left and right ("columns") half of the used pixels.

        There are none where one half has hardly any of the squared gradients, so that it says nothing about shifts.
        """
        pair = Registration(self.scene), Registration(self.scene)
        for part, levels in zip(pair, zip(*(level.halves(axis) for level in self._levels), strict=True), strict=True):
            part._levels = list(levels)
        energies = [part._levels[-1].energy() for part in pair]  # of the finest level
        return pair if min(energies) >= tuning.TUNING.camera_shake.least_half * sum(energies) else None

    @cached_property
    def _bright(self) -> tuple[NDArray[np.bool_], Floats]:
        """Where the scene's thumbnail is bright, in a dark scene its brighter half, and its values there."""
        # ratios to dark pixels would say little about illumination
        scene = _thumbnail(self.scene)
        bright = scene > min(tuning.TUNING.camera_shake.dark, float(np.median(scene)))
        return bright, scene[bright]

    def shift(self, frame: FrameArray) -> tuple[float, float]:
        """Return how many pixels right and down a frame (height, width[, channels]) is displaced from the scene."""
        # the other items are the differences without and with this shift
        return self.compare(frame)[0]

    def compare(self, frame: FrameArray) -> tuple[tuple[float, float], float, float]:
        """Return the displacement (right, down), and the mean difference at gradients without and with it.

        The displacement is (0, 0) if the search runs far away, or if the shift hardly reduces the difference. `levels`
        are the factors by which the pyramid's levels are reduced, from coarse to fine.
        """
        shake = tuning.TUNING.camera_shake
        grey = self._in_illumination_of_scene(channel_mean(frame).astype(np.float32))
        limit = min(grey.shape) / 4  # pixels; a search that goes further has lost the scene
        finest = _reduced(grey, shake.levels[-1])
        # `_align` improves a shift in place and returns the difference that is left. Without steps it only measures it,
        # here for no displacement and on the finest level.
        before = after = self._align(finest, -1, np.zeros(2), 0, shake.outlier)
        found = np.zeros(2)
        for level, times in enumerate(shake.levels):
            found /= times  # in pixels of this level, and back again below
            # On coarse levels, where the shift is not known yet, larger differences still count.
            outlier = shake.outlier if times == 1 else 2 * shake.outlier
            smaller = finest if times == shake.levels[-1] else _reduced(grey, times)
            after = self._align(smaller, level, found, shake.steps, outlier)
            found *= times
            if not (np.abs(found) < limit).all():
                return (0.0, 0.0), before, before
        if after > shake.worth * before:
            return (0.0, 0.0), before, before
        return (float(found[0]), float(found[1])), before, after

    def _align(self, frame: Floats, level: int, shift: NDArray[np.float64], steps: int, outlier: float) -> float:
        """Improve `shift` (right, down) in place on one level of the pyramid; return the difference that is left.

        `frame` is grey and reduced like this level. After `steps` Gauss-Newton steps the difference to the scene is a
        mean in grey levels, to which a pixel adds no more than the `cap`. Pixels that differ by `outlier` grey levels
        have a quarter of the weight.
        """
        return float(find_shift(frame, self._levels[level], shift, steps, outlier, tuning.TUNING.camera_shake.cap))

    def _in_illumination_of_scene(self, grey: Floats) -> Floats:
        """Return a grey frame divided by the median ratio of its thumbnail to the scene's, where that is bright."""
        bright, scene = self._bright  # where the scene's thumbnail is bright, and its values there
        ratio = float(np.median(_thumbnail(grey)[bright] / scene)) if len(scene) else 1.0
        return grey if ratio <= 0 else grey * np.float32(1 / ratio)


def _thumbnail(grey: Floats) -> Floats:
    """Return a grey picture at a small fraction of its size, in which camera shake is hardly visible."""
    times = tuning.TUNING.camera_shake.thumbnail
    size = max(1, grey.shape[1] // times), max(1, grey.shape[0] // times)
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)


def _most_typical(frames: list[FrameArray]) -> int:
    """Return which frame (height, width, channels) has the thumbnail that correlates best with the median of all."""
    small = np.array([_thumbnail(channel_mean(frame).astype(np.float32)).ravel() for frame in frames])
    small -= small.mean(axis=1, keepdims=True)  # rows of mean 0 and deviation 1, for the correlation
    small /= np.maximum(small.std(axis=1, keepdims=True), 1)
    return int(np.argmax(np.einsum("ip,p->i", small, np.median(small, axis=0))))


def _reduced(grey: Floats, times: int) -> Floats:
    """Return a smoothed grey picture, `times` smaller."""
    if times > 1:
        size = grey.shape[1] // times, grey.shape[0] // times
        grey = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)
    return np.asarray(cv2.GaussianBlur(grey, (0, 0), 1), np.float32)


def _level(scene: Floats, times: int) -> _Level:
    """Return a level of the pyramid, reduced `times`: the scene, and its gradients where they are strongest."""
    shake = tuning.TUNING.camera_shake
    smooth = _reduced(scene, times)  # smaller and blurred, so that gradients of noise do not count
    # Sobel's filter returns 8 for a slope of 1 per pixel
    right, down = (np.asarray(cv2.Sobel(smooth, cv2.CV_32F, x, 1 - x, scale=1 / 8), np.float32) for x in (1, 0))
    strength = np.zeros_like(smooth)
    margin = max(2, shake.margin // times)
    inner = (slice(margin, -margin),) * 2
    # Gradients near the border, where the frame may show something else, stay 0; others count up to a bound.
    strength[inner] = np.minimum(np.hypot(right, down), shake.strongest)[inner]
    count = min(shake.pixels, strength.size // 4)
    at = np.sort(np.argsort(-strength, axis=None, kind="stable")[:count])
    rows, columns = np.divmod(at, strength.shape[1])
    return _Level(smooth, rows, columns, down[rows, columns], right[rows, columns])


def find_camera_shake(frames: FrameArray) -> Registration | None:
    """Return the registration of frames where the camera shakes.

    None where it stands still, little is seen, or the halves of the picture move differently.
    """
    shake = tuning.TUNING.camera_shake
    n = len(frames)
    if n < shake.fewest_frames or min(frames.shape[1:3]) < shake.smallest:
        return None
    asked = [frames[t] for t in np.linspace(0, n - 1, min(n, shake.asked)).round().astype(int)]
    # Some frames are compared with a typical one. If shifts explain much of their difference, the camera shakes, and
    # the scene to register to is the median of these frames once they are registered.
    first = Registration(channel_mean(asked[_most_typical(asked)]).astype(np.float32))
    found = [first.compare(frame) for frame in asked]
    shifts = np.array([shift for shift, _, _ in found])
    shifts -= np.median(shifts, axis=0)  # relative to the usual position of the camera
    explained = 1 - np.median([after / max(before, 1e-3) for _, before, after in found])
    displacement = float(np.median(np.abs(shifts).max(axis=1)))
    if not (displacement > shake.shakes and explained > shake.explained):
        return None
    # One of the two pairs of halves is enough, because one half may show little but what passes in front.
    if not any(_halves_differ(first, asked, axis) < shake.halves * displacement for axis in ("columns", "rows")):
        return None
    registered = np.empty((len(asked), *frames.shape[1:3]), np.uint8)
    for grey, frame, (x, y) in zip(registered, asked, shifts, strict=True):
        grey[:] = channel_mean(shifted(frame, (x, y)))
    return Registration(temporal_median(registered))


def _halves_differ(registration: Registration, frames: list[FrameArray], axis: str) -> float:
    """Return by how many pixels the shifts of two halves of the picture usually differ; 0 where one half shows nothing.

    The halves lie along "rows" or "columns".
    """
    halves = registration.halves(axis)
    if halves is None:
        return 0.0
    one, other = (np.array([half.shift(frame) for frame in frames]) for half in halves)
    apart = (one - np.median(one, axis=0)) - (other - np.median(other, axis=0))
    return float(np.median(np.abs(apart).max(axis=1)))


def shifted(picture: FrameArray, shift: tuple[float, float], *, mask: bool = False) -> FrameArray:
    """Return the picture that shows at ``p`` what the given one shows at ``p + shift``, (right, down) in pixels.

    The pixels of the border are repeated beyond it. The values of a `mask` are not interpolated.
    """
    matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float32)
    flags = cv2.WARP_INVERSE_MAP | (cv2.INTER_NEAREST if mask else cv2.INTER_LINEAR)
    size = picture.shape[1], picture.shape[0]
    moved = cv2.warpAffine(picture, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.uint8).reshape(picture.shape)
