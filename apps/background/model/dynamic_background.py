"""Dynamic background: leaves, water and reflections that move without going anywhere.

Their differences from the scene cancel over a neighbourhood, in each channel; those of what passes in front do not.
The share of the residual's energy that survives smoothing, over the clip, tells the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_saved
from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray
from visionnmf.apps.background.kernels import ModelledFrames, measure_residuals, rank_residuals
from visionnmf.engine.blocks import blocks, map_blocks


@dataclass(frozen=True)
class DynamicBackground:
    """Where the background moves, and the noise of its residuals there; arrays (height, width)."""

    share: Floats  # how certain it is that the background moves, from 0 to 1
    noise: Floats  # noise of the residual, in grey levels
    smooth_noise: Floats  # noise of the smoothed residual, in grey levels

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Raise ValueError unless the arrays, which a file can give, have the shape (height, width) and fit."""
        check_saved(self.share, f"{name}.share", shape, "float32", low=0, high=1)
        check_saved(self.noise, f"{name}.noise", shape, "float32", low=1)
        check_saved(self.smooth_noise, f"{name}.smooth_noise", shape, "float32", low=1)


def smoothed(residual: NDArray[Any]) -> Floats:
    """Return a residual (height, width[, channels]), which keeps its signs, smoothed and at half the size."""
    dynamic = tuning.TUNING.dynamic_background
    height, width = residual.shape[:2]
    half = cv2.resize(residual, (max(1, width // 2), max(1, height // 2)), interpolation=cv2.INTER_AREA)
    # In pixels of the half-size picture; it grows with pictures that are wider than usual.
    sigma = dynamic.smoothing / 2 * max(1.0, width / dynamic.width)
    return np.asarray(cv2.GaussianBlur(half.astype(np.float32), (0, 0), sigma), np.float32)


def _measure(clip: ModelledFrames, limit: Floats) -> tuple[Floats, Floats, Floats, NDArray[np.uint8]]:
    """Measure the residuals, frame less background, over the k frames that are picked."""
    dynamic = tuning.TUNING.dynamic_background
    shape, picks = limit.shape, clip.picks
    n_pixels, channels = clip.frames.shape[1:]
    energy, above = np.zeros(n_pixels, np.float32), np.zeros(n_pixels, np.uint8)  # k <= 40 frames
    squared = (limit * limit).ravel()
    held = max(1, dynamic.held // n_pixels)  # frames that are measured at a time, to bound the memory
    smooth = np.empty((len(picks), max(1, shape[0] // 2), max(1, shape[1] // 2)), np.float32)
    kept = np.zeros_like(smooth[0])
    means, colours = np.empty((held, n_pixels), np.int16), np.empty((held, n_pixels * channels), np.int16)
    for first in range(0, len(picks), held):
        some = clip._replace(picks=picks[first : first + held])

        def fill(some: ModelledFrames, block: tuple[int, int]) -> None:
            """Measure the residuals of some frames at a block of pixels."""
            m = block[1] - block[0]
            scratch = np.empty(m * channels, np.float32), np.empty((2, m), np.float32)
            caps = dynamic.mean_cap, dynamic.cap
            measure_residuals(some, caps, squared, *scratch, (means, colours), energy, above, block[0])

        map_blocks(partial(fill, some), blocks(n_pixels, dynamic.block_pixels))
        for result, mean, colour in zip(smooth[first : first + held], means, colours, strict=False):
            result[:] = smoothed(mean.reshape(shape))
            each = smoothed(colour.reshape(*shape, channels)) if channels > 1 else result
            each = each.reshape(*kept.shape, channels) / 8
            kept += (np.minimum(np.abs(each), dynamic.smooth_cap) ** 2).mean(axis=2)
    smooth /= 8  # the means are in eighths of a grey level
    kept /= len(picks)
    energy /= len(picks)
    return smooth, kept, energy.reshape(shape), above.reshape(shape)


def _rank(quantile: float, count: int) -> int:
    """Return which of `count` sorted values, counted from 0, is the quantile (0 to 1)."""
    return int(quantile * (count - 1) + 0.5)


def _quantile(clip: ModelledFrames, quantile: float, where: NDArray[np.bool_]) -> Floats:
    """Return a quantile of the residual over the frames that are measured (height, width), and 0 outside `where`."""
    result = np.zeros(where.size, np.float32)
    pixels = np.flatnonzero(where)

    def fill(block: tuple[int, int]) -> None:
        """Write the quantile of the residuals over the frames `picks` to `result`, at a block of pixels."""
        rank_residuals(clip, _rank(quantile, len(clip.picks)), pixels[slice(*block)], result)

    map_blocks(fill, blocks(len(pixels), tuning.TUNING.dynamic_background.block_pixels))
    return result.reshape(where.shape)


def find_dynamic_background(
    frames: FrameArray, H: Floats, Wt: Floats, noise: Floats, scale: Floats
) -> DynamicBackground | None:
    """Find where the background moves, or None where it nowhere does.

    `H` (n_components, n_pixels, channels) and `Wt` (n_components, n) are components and codes of the background.
    `noise` (height, width) is the noise of each pixel, from differences of neighbouring frames, in grey levels, and
    `scale` the same clipped to the lowest and the highest noise that are plausible.
    """
    dynamic = tuning.TUNING.dynamic_background
    n, n_pixels, _ = frames.shape
    height, width = shape = noise.shape
    if width < dynamic.narrowest:
        return None
    asked = min(n, dynamic.frames, max(dynamic.fewest_frames, dynamic.values // n_pixels))
    clip = ModelledFrames(frames, np.linspace(0, n - 1, asked).round().astype(int), H, Wt)  # evenly spaced frames
    # Smoothed residuals of the k frames that are measured (k, height / 2, width / 2), and the mean energy that survives
    # smoothing (height / 2, width / 2); the mean energy of the residual, and the number of frames in which it is above
    # the usual noise, both (height, width).
    limit = dynamic.restless * scale
    # A little below the limit, so that rounding loses no pixel: `above` only says for which ones `_restless` computes
    # a quantile of the residual.
    smooth, kept, energy, above = _measure(clip, 0.999 * limit)
    share = _restless(clip, limit, kept, energy, above)
    if share.mean() < dynamic.least_share:  # so little of the picture may be chance
        return None
    typical = np.median(np.abs(smooth, out=smooth), axis=0, overwrite_input=True)
    del smooth  # frees much memory where pictures are large
    # `smooth_noise` is the noise of smoothed residuals: `dynamic.typical` times the median of their sizes over the
    # frames. `wide` is that of residuals as they are: `dynamic.wider` times a quantile of their sizes over the frames,
    # at least the noise of neighbouring frames, and within bounds.
    smooth_noise = np.asarray(cv2.resize(typical, (width, height)), np.float32)
    np.maximum(dynamic.least, dynamic.typical * smooth_noise, out=smooth_noise)
    wide = dynamic.wider * _quantile(clip, dynamic.quantile, np.ones(shape, bool))
    np.clip(np.maximum(wide, noise, out=wide), scale, dynamic.widest, out=wide)
    return DynamicBackground(share, wide, smooth_noise)


def _restless(clip: ModelledFrames, limit: Floats, kept: Floats, energy: Floats, above: NDArray[np.uint8]) -> Floats:
    """Return how certain it is that the background moves and its differences cancel (height, width), from 0 to 1."""
    dynamic = tuning.TUNING.dynamic_background
    height, width = limit.shape
    asked = len(clip.picks)
    times = max(1.0, width / dynamic.width)
    # sides of squares in pixels, odd so that they have a middle
    box, feather = (int(side * times) | 1 for side in (dynamic.neighbourhood, dynamic.feather))
    whole = np.asarray(cv2.resize(kept, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
    survives = cv2.blur(whole, (box, box)) / (cv2.blur(energy, (box, box)) + dynamic.energy)
    # The quantile of the residual over frames exceeds the limit only where so many frames do: it is computed there.
    restless = above >= asked - _rank(dynamic.restless_frames, asked)
    times_limit = _quantile(clip, dynamic.restless_frames, (survives < dynamic.survives) & restless) / limit
    certain = np.clip((dynamic.survives - survives) / dynamic.survives_range, 0, 1) * np.clip(times_limit - 1, 0, 1)
    return np.asarray(cv2.blur(certain, (feather, feather)), np.float32)
