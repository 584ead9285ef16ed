"""Dynamic background: leaves, water and reflections that move without going anywhere.

What is displaced a little differs from the scene, above it in one place as much as below it in the next, so that the
mean over a neighbourhood stays. What passes in front shifts the mean. The share of the residual's energy that survives
smoothing, over the clip, tells the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray
from visionnmf.apps.background.kernels import measure_residuals, rank_residuals
from visionnmf.engine.blocks import blocks, map_blocks

__all__ = ["DynamicBackground", "find_dynamic_background", "smoothed_size"]


@dataclass(frozen=True)
class DynamicBackground:
    """Where the background moves, and which residuals are usual there; arrays (height, width)."""

    share: Floats  # how certain it is that the background moves, from 0 to 1
    noise: Floats  # noise of the residual, in grey levels
    smooth_noise: Floats  # noise of the smoothed residual, in grey levels


@dataclass(frozen=True)
class _Measured:
    """The frames that are measured, and the model whose residuals they leave."""

    frames: FrameArray  # (n, n_pixels, channels)
    picks: NDArray[np.intp]  # which of them
    H: Floats  # (n_components, n_pixels, channels): components of the background
    Wt: Floats  # (n_components, n): their codes


def smoothed_size(residual: NDArray[Any], shape: tuple[int, ...]) -> Floats:
    """Return the absolute value of a smoothed residual with signs, of `shape` (height, width), at half the size."""
    dynamic = tuning.TUNING.dynamic_background
    height, width = shape
    half = cv2.resize(residual, (max(1, width // 2), max(1, height // 2)), interpolation=cv2.INTER_AREA)
    # In pixels of the half-size picture; it grows with pictures that are wider than usual.
    sigma = dynamic.smoothing / 2 * max(1.0, width / dynamic.width)
    return np.abs(cv2.GaussianBlur(half.astype(np.float32), (0, 0), sigma))


def _measure(what: _Measured, limit: Floats) -> tuple[Floats, Floats, NDArray[np.uint8]]:
    """Measure the residuals, frame less background, over the k frames that are picked; `what` has frames and model.

    Returns the sizes of the smoothed residuals (k, height / 2, width / 2) in grey levels, the mean energies (height,
    width), each capped at ``cap ** 2``, and in how many frames the root mean square over channels is above `limit`
    (height, width).
    """
    dynamic = tuning.TUNING.dynamic_background
    shape, picks = limit.shape, what.picks
    n_pixels, channels = what.frames.shape[1:]
    energy, above = np.zeros(n_pixels, np.float32), np.zeros(n_pixels, np.uint8)  # k <= 40 frames
    squared = (limit * limit).ravel()
    held = max(1, dynamic.held // n_pixels)  # frames that are measured at a time, to bound the memory
    sizes = np.empty((len(picks), max(1, shape[0] // 2), max(1, shape[1] // 2)), np.float32)
    means = np.empty((held, n_pixels), np.int16)
    for first in range(0, len(picks), held):
        some = picks[first : first + held]

        def fill(block: tuple[int, int], some: NDArray[np.intp] = some) -> None:
            """Measure the frames `some` at a block of pixels: fill `means`, add to `energy` and `above`."""
            m = block[1] - block[0]
            residual, size = np.empty(m * channels, np.float32), np.empty((2, m), np.float32)
            model = what.frames, some, what.H, what.Wt, dynamic.cap, squared
            measure_residuals(*model, residual, size, means, energy, above, block[0])

        map_blocks(fill, blocks(n_pixels, dynamic.block_pixels))
        for size, mean in zip(sizes[first : first + held], means, strict=False):
            size[:] = smoothed_size(mean.reshape(shape), shape)
    sizes /= 8  # the means are in eighths of a grey level
    energy /= len(picks)
    return sizes, energy.reshape(shape), above.reshape(shape)


def _rank(quantile: float, count: int) -> int:
    """Return which of `count` sorted values, counted from 0, is the quantile (0 to 1)."""
    return int(quantile * (count - 1) + 0.5)


def _quantile(what: _Measured, quantile: float, where: NDArray[np.bool_]) -> Floats:
    """Return a quantile of the residual over the frames that `what` picks (height, width), and 0 outside `where`."""
    usual = np.zeros(where.size, np.float32)
    pixels = np.flatnonzero(where)

    def fill(block: tuple[int, int]) -> None:
        """Write the quantile over the measured frames to `usual` (n_pixels,), at a block of the `pixels` in `where`."""
        rank = _rank(quantile, len(what.picks))
        rank_residuals(what.frames, what.picks, what.H, what.Wt, rank, pixels[slice(*block)], usual)

    map_blocks(fill, blocks(len(pixels), tuning.TUNING.dynamic_background.block_pixels))
    return usual.reshape(where.shape)


def find_dynamic_background(
    frames: FrameArray, H: Floats, Wt: Floats, noise: Floats, scale: Floats
) -> DynamicBackground | None:
    """Find where the background moves, or None where it nowhere does.

    `noise` (height, width) is the noise of each pixel, from differences of neighbouring frames, in grey levels, and
    `scale` the same clipped to the lowest and the highest noise that are plausible.
    """
    dynamic = tuning.TUNING.dynamic_background
    n, n_pixels, _ = frames.shape
    height, width = shape = noise.shape
    if width < dynamic.narrowest:
        return None
    asked = min(n, dynamic.frames, max(dynamic.fewest_frames, dynamic.values // n_pixels))
    # the frames that are measured, and the model whose residuals they leave
    what = _Measured(frames, np.linspace(0, n - 1, asked).round().astype(int), H, Wt)
    # how certain it is that the background moves, from 0 to 1 (height, width), where residuals are often above the
    # limit `restless * scale`; and the absolute smoothed residuals of the k frames (k, height / 2, width / 2)
    share, sizes = _certainty(what, dynamic.restless * scale)
    if share.mean() < dynamic.least_share:  # so little of the picture may be chance
        return None
    typical = np.median(sizes, axis=0, overwrite_input=True)
    del sizes  # frees much memory where pictures are large
    # `usual` is the noise of smoothed residuals, from their median over the frames; `wide`, from a quantile over the
    # frames, is that of residuals as they are: at least the noise of neighbouring frames, and within bounds
    usual = dynamic.typical * cv2.resize(typical, (width, height), interpolation=cv2.INTER_LINEAR)
    wide = dynamic.wider * _quantile(what, dynamic.quantile, np.ones(shape, bool))
    np.clip(np.maximum(wide, noise, out=wide), scale, dynamic.widest, out=wide)
    return DynamicBackground(share, wide, np.asarray(np.maximum(dynamic.least, usual), np.float32))


def _certainty(what: _Measured, usual: Floats) -> tuple[Floats, Floats]:
    """Return how certain it is that the background moves (height, width), and sizes of the smoothed residuals.

    It moves where little of the residual's energy survives smoothing and the residual is above `usual` in many frames.
    """
    dynamic = tuning.TUNING.dynamic_background
    height, width = usual.shape
    asked = len(what.picks)
    # Sizes of the smoothed residuals (k, height / 2, width / 2); the mean energy of the residual, and the number of
    # frames in which it is above the usual noise, both (height, width).
    sizes, energy, above = _measure(what, 0.999 * usual)  # values near the limit are looked at again below
    kept = np.zeros_like(sizes[0])  # mean energy of the smoothed residual
    for size in sizes:
        kept += np.minimum(size, dynamic.smooth_cap) ** 2
    kept /= asked
    times = max(1.0, width / dynamic.width)
    box, feather = (int(side * times) | 1 for side in (dynamic.neighbourhood, dynamic.feather))
    # Share of the energy in a neighbourhood that survives smoothing.
    survives = cv2.blur(cv2.resize(kept, (width, height), interpolation=cv2.INTER_LINEAR), (box, box))
    survives /= cv2.blur(energy, (box, box)) + dynamic.energy
    del energy
    # The quantile over frames can only exceed `usual` where so many frames do; it is computed there alone.
    restless = above >= asked - _rank(dynamic.restless_frames, asked)
    often = _quantile(what, dynamic.restless_frames, (survives < dynamic.survives) & restless) / usual
    certain = np.clip((dynamic.survives - survives) / dynamic.survives_range, 0, 1) * np.clip(often - 1, 0, 1)
    return np.asarray(cv2.blur(certain, (feather, feather)), np.float32), sizes
