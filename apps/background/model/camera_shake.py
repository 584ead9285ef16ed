"""Camera shake: how far frames are displaced from a typical one, and whether that explains their differences."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_saved
from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray, channel_mean, temporal_median


class Registration:
    """Registers frames to a grey scene (height, width)."""

    def __init__(self, scene: NDArray[Any]) -> None:
        self.scene = scene

    def check(self, name: str, frame_shape: tuple[int, ...]) -> None:
        """Raise ValueError if the scene, as one read from a file may be, is too small, or not of frames of a shape."""
        check_saved(self.scene, f"{name}.scene", frame_shape[:2], "float32", low=0, high=255)
        smallest = tuning.TUNING.camera_shake.smallest
        if min(self.scene.shape) < smallest:
            raise ValueError(f"frames must have at least {smallest} pixels a side where the camera shakes")

    @cached_property
    def _scene(self) -> Floats:
        """The scene as it is compared."""
        return _reduced(self.scene)

    @cached_property
    def contours(self) -> Floats:
        """The squared gradients of the scene, and 0 near the border, where a displaced frame shows something else."""
        gradients = [cv2.Sobel(_smoothed(self._scene), cv2.CV_32F, x, 1 - x) for x in (1, 0)]
        margin = tuning.TUNING.camera_shake.margin
        inner = np.pad(np.ones(np.subtract(gradients[0].shape, 2 * margin), np.float32), margin)
        return np.asarray(inner * sum(np.square(each) for each in gradients), np.float32)

    def shift(self, frame: FrameArray) -> tuple[float, float]:
        """Return how many pixels right and down a frame (height, width[, channels]) is displaced from the scene."""
        found, left = self.compare(frame)
        return found if left < tuning.TUNING.camera_shake.worth else (0.0, 0.0)

    def compare(self, frame: FrameArray) -> tuple[tuple[float, float], float]:
        """Return the displacement (right, down) of a frame, and the share of the differences that it leaves."""
        shake, scene = tuning.TUNING.camera_shake, self._scene
        grey = _reduced(channel_mean(frame))
        window = cv2.createHanningWindow(scene.shape[::-1], cv2.CV_32F)
        # OpenCV would write to its arguments if it were given the window.
        found = cv2.phaseCorrelate(_details(scene) * window, _details(grey) * window)[0]
        if not shake.negligible < max(map(abs, found)) < min(grey.shape) / 4:
            return (0.0, 0.0), 1.0
        # In the illumination of the scene; dark pixels, which may be most, say little about it.
        grey *= np.float32(np.quantile(scene, 0.75) / max(1.0, float(np.quantile(grey, 0.75))))
        warps = [np.array([[1, 0, found[0]], [0, 1, found[1]]], np.float32)]
        there = cv2.warpAffine(_smoothed(scene), warps[0], scene.shape[::-1], borderMode=cv2.BORDER_REPLICATE)
        alike = np.asarray(cv2.absdiff(there, _smoothed(grey)) < shake.cap, np.uint8)
        criteria = cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, shake.steps, 1e-3
        with contextlib.suppress(cv2.error):  # it raises where the steps go astray
            better = cv2.findTransformECC(scene, grey, warps[0].copy(), cv2.MOTION_TRANSLATION, criteria, alike, 5)[1]
            warps.append(np.asarray(better, np.float32))
        differences = [self._difference(_moved(grey, warp)) for warp in warps]
        right, down = warps[int(np.argmin(differences))][:, 2] * (self.scene.shape[1] / scene.shape[1])
        return (float(right), float(down)), min(differences) / max(1e-3, self._difference(grey))

    def _difference(self, grey: Floats) -> float:
        """Return the mean difference of a grey frame from the scene at contours, in grey levels."""
        difference = cv2.absdiff(_smoothed(grey), _smoothed(self._scene))
        capped = np.minimum(difference, tuning.TUNING.camera_shake.cap)
        return float((capped * self.contours).sum() / max(1e-3, self.contours.sum()))


def _reduced(grey: NDArray[Any]) -> Floats:
    """Return a grey picture as float32, reduced by a whole number if it is large."""
    shake = tuning.TUNING.camera_shake
    times = max(1, min(-(-max(grey.shape) // shake.largest), min(grey.shape) // shake.smallest))
    size = grey.shape[1] // times, grey.shape[0] // times
    return np.asarray(cv2.resize(grey.astype(np.float32), size, interpolation=cv2.INTER_AREA), np.float32)


def _smoothed(grey: Floats) -> Floats:
    """Return a picture smoothed, so that noise counts little."""
    return np.asarray(cv2.GaussianBlur(grey, (0, 0), 1), np.float32)


def _details(grey: Floats) -> Floats:
    """Return what a picture shows beyond its neighbourhood, capped, so that no large object decides."""
    shake = tuning.TUNING.camera_shake
    details = grey - cv2.GaussianBlur(grey, (0, 0), shake.neighbourhood)
    return np.asarray(np.clip(details, -shake.strongest, shake.strongest), np.float32)


def find_camera_shake(frames: FrameArray) -> Registration | None:
    """Return the registration of frames (n, height, width, channels) where the camera shakes, or None.

    It shakes where displacements explain much of the differences from a typical frame, and the halves of the picture
    show the same ones, which waves do not.
    """
    shake = tuning.TUNING.camera_shake
    n = len(frames)
    if n < shake.fewest_frames or min(frames.shape[1:3]) < shake.smallest:
        return None
    asked = np.stack([channel_mean(frames[t]) for t in np.linspace(0, n - 1, min(n, shake.asked)).round().astype(int)])
    # The small picture of the typical frame correlates best with the median of all.
    small = np.stack([cv2.resize(grey, (24, 24), interpolation=cv2.INTER_AREA).ravel() for grey in asked]) * 1.0
    small = (small - small.mean(axis=1, keepdims=True)) / np.maximum(1, small.std(axis=1, keepdims=True))
    typical = asked[np.argmax((small * np.median(small, axis=0)).sum(axis=1))]
    shifts, left = _displacements(typical, asked)
    shifts[left >= shake.worth] = 0
    shifts -= np.median(shifts, axis=0)  # from the usual position of the camera
    displacement = float(np.median(np.abs(shifts).max(axis=1)))
    if displacement <= shake.shakes or 1 - np.median(left) <= shake.explained:
        return None
    apart = np.mean([_halves_differ(typical, asked, axis) for axis in (0, 1)])
    if apart > shake.halves * displacement:
        return None
    registered = [shifted(grey, (right, down)) for grey, (right, down) in zip(asked, shifts, strict=True)]
    return Registration(temporal_median(np.stack(registered)))


def _displacements(scene: FrameArray, frames: FrameArray) -> tuple[Floats, Floats]:
    """Return the displacements (n, 2) of grey frames, and the shares of the differences that they leave (n,)."""
    registration = Registration(scene)
    shifts, left = zip(*map(registration.compare, frames), strict=True)
    return np.array(shifts, np.float32), np.array(left, np.float32)


def _halves_differ(scene: FrameArray, frames: FrameArray, axis: int) -> float:
    """Return by how many pixels the displacements of two halves usually differ; 0 where one half shows no contours."""
    scenes = np.array_split(scene, 2, axis)
    strengths = [float(Registration(half).contours.sum()) for half in scenes]
    if min(strengths) < tuning.TUNING.camera_shake.least_half * sum(strengths):
        return 0.0
    one, other = (_displacements(*pair)[0] for pair in zip(scenes, np.array_split(frames, 2, axis + 1), strict=True))
    apart = (one - np.median(one, axis=0)) - (other - np.median(other, axis=0))
    return float(np.median(np.abs(apart).max(axis=1)))


def _moved(picture: NDArray[Any], warp: Floats, interpolation: int = cv2.INTER_LINEAR) -> NDArray[Any]:
    """Return the picture that shows at each place what the given one shows where `warp` (2, 3) takes that place."""
    flags = cv2.WARP_INVERSE_MAP | interpolation
    size = picture.shape[1], picture.shape[0]
    return np.asarray(cv2.warpAffine(picture, warp, size, flags=flags, borderMode=cv2.BORDER_REPLICATE))


def shifted(picture: FrameArray, shift: tuple[float, float], *, mask: bool = False) -> FrameArray:
    """Return the picture that shows at ``p`` what the given one shows at ``p + shift``, (right, down) in pixels."""
    warp = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float32)
    moved = _moved(picture, warp, cv2.INTER_NEAREST if mask else cv2.INTER_LINEAR)
    return np.asarray(moved, np.uint8).reshape(picture.shape)
