"""How :class:`.BackgroundModel` learns; :mod:`.estimator` describes the model in words."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import to_uint8
from visionnmf.engine.blocks import blocks, map_blocks

from .alternating_modes import correct_scene
from .camera_shake import Registration, find_camera_shake, shifted
from .consensus_codes import CodePixels, improved_components
from .dynamic_background import DynamicBackground, find_dynamic_background
from .frame_sample import FrameSample, frame_difference
from .illumination import Illumination
from .temporal_median import temporal_median

__all__ = ["LearntBackground", "learn_background"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LearntBackground:
    """What :func:`learn_background` found.

    Attributes
    ----------
    H : ndarray of float32 (n_components, n_pixels, channels), >= 0
        The components.
    Wt : ndarray of float32 (n_components, n), >= 0
        Codes of the learnt frames, one a column.
    noise_scale : ndarray of float32 (height, width)
        Noise of each pixel, in grey levels.
    median : ndarray of uint8 (n_pixels, channels)
        Temporal median of the frames.
    chosen : ndarray of int
        The pixels that determine codes.
    dynamic : DynamicBackground or None
        Where the background moves.
    registration : Registration or None
        What frames are registered to where the camera shakes.
    """

    H: Floats
    Wt: Floats
    noise_scale: Floats
    median: FrameArray
    chosen: NDArray[np.intp]
    dynamic: DynamicBackground | None = None
    registration: Registration | None = None

    def near(self) -> Floats:
        """Return twice the noise at the values of the chosen pixels; smaller residuals count as explained."""
        return 2 * np.repeat(self.noise_scale.ravel()[self.chosen], self.H.shape[2])


def learn_background(sample: FrameSample, *, n_components: int, rng: np.random.Generator) -> LearntBackground:
    """Learn the background of sampled frames.

    Where the camera shakes, the frames of the sample are registered in place. `n_components` is the maximum; one is
    kept where more explain hardly more. `rng` chooses the pixels that determine codes.
    """
    frames, _ = sample.taken()
    changes = sample.hand_over_changes()
    n, n_pixels, _ = frames.shape
    shape = changes.shape[1:]
    median = temporal_median(frames)
    baseline = to_uint8(median)
    registration = find_camera_shake(frames.reshape(n, *shape, -1))
    if registration is not None:
        _register(registration, frames.reshape(n, *shape, -1))
        median = temporal_median(frames)
        _set_changes(changes, frames.reshape(n, *shape, -1))  # neighbouring frames differ by the shake
    noise = temporal_median(changes) / tuning.TUNING.noise.normal_change
    scale = np.clip(noise, tuning.TUNING.noise.floor, tuning.TUNING.noise.ceiling)
    weights = _stillness(changes, scale).reshape(n, n_pixels)
    chosen = np.sort(rng.choice(n_pixels, min(n_pixels, tuning.TUNING.learning.code_pixels), replace=False))
    pixels = CodePixels(frames[:, chosen], weights[:, chosen], scale.ravel()[chosen])

    Wt = np.ones((1, n), np.float32)
    scene = median[None, chosen]
    for _ in range(tuning.TUNING.learning.rounds):
        scene = pixels.components(scene, Wt, tuning.TUNING.learning.scene_sweeps)
        Wt = pixels.codes(scene, Wt)
    H = _scene(frames, weights, Wt, median[None])
    del median  # frees much memory where pictures are large
    if n_components > 1:
        illumination = Illumination(pixels, chosen, shape, scene[0], Wt, n_components)
        if illumination.explains >= tuning.TUNING.illumination.needed:
            H = illumination.components_of(H[0])
            Wt = illumination.Wt
    H = correct_scene(frames, weights, H, Wt, shape)
    del changes, weights
    dynamic = find_dynamic_background(frames, H, Wt, noise, scale)
    return LearntBackground(H, Wt, scale, baseline, chosen, dynamic, registration)


def _set_changes(changes: FrameArray, frames: FrameArray) -> None:
    """Write the larger of the differences of frames (n, height, width, channels) from the one before and after."""
    changes[0] = 0
    for t in range(1, len(frames)):
        changes[t] = frame_difference(frames[t], frames[t - 1]).reshape(changes.shape[1:])
        np.maximum(changes[t - 1], changes[t], out=changes[t - 1])


def _register(registration: Registration, frames: FrameArray) -> None:
    """Register frames in place."""

    def fill(block: tuple[int, int]) -> None:
        for t in range(*block):
            frames[t] = shifted(frames[t], registration.shift(frames[t]))

    map_blocks(fill, blocks(len(frames), 8))


def _stillness(changes: FrameArray, scale: Floats) -> FrameArray:
    """Return the weights of the learnt frames' pixels, 1 to 255, in the memory of their differences."""

    def fill(block: tuple[int, int]) -> None:
        for t in range(*block):
            ratio = cv2.blur(changes[t], (5, 5)) / scale
            changes[t] = np.maximum(1, 255 / (1 + ratio * ratio))

    map_blocks(fill, blocks(len(changes), 8))
    return changes


def _scene(frames: FrameArray, weights: FrameArray, Wt: Floats, start: Floats) -> Floats:
    """Return the scene (1, n_pixels, channels) at all pixels."""
    H = np.empty((1, *frames.shape[1:]), np.float32)

    def fill(block: tuple[int, int]) -> None:
        part = slice(*block)
        rows = np.ascontiguousarray(frames[:, part].transpose(1, 2, 0))
        row_weights = np.ascontiguousarray(weights[:, part].T)
        H[:, part] = improved_components(rows, row_weights, start[:, part], Wt, tuning.TUNING.learning.scene_sweeps)

    map_blocks(fill, blocks(frames.shape[1], tuning.TUNING.sample.block_pixels))
    return H
