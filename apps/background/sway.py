"""Where the scene sways: leaves, water and reflections that move without going anywhere.

What is displaced a little differs from the scene, above in one place as much as below in the next, so that the mean
over a neighbourhood stays; what passes in front shifts the mean. The share of the residual's energy that survives
smoothing, over the clip, tells the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._jit import kernel
from visionnmf.engine.blocks import blocks, map_blocks

from .residuals import measure_residual

__all__ = ["Sway", "find_sway", "smoothed"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]

FRAMES = 40  # that are asked, of large pictures fewer
FEWEST = 10
VALUES = 32 << 20  # pixels of all frames that are asked, or FEWEST frames
HELD = 4 << 20  # of them at a time, or one frame: large pictures are large
WIDTH = 320  # pixels, of the pictures that the scales are for
SCALE = 3.0  # pixels: standard deviation of the smoothing
SURVIVES, RANGE = 0.32, 0.12  # the share of energy below which something sways, and how far below it surely does
ENERGY = 4.0  # squared grey levels, of rounding
MOST, RESTLESS = 0.5, 1.0  # of the frames, and times the noise: what differs less often or by less does not sway
LEAST_SHARE = 0.02  # of the picture: less may be chance
NARROWEST = 160  # pixels: in smaller pictures objects are no larger than the smoothing
CAP, SMOOTH_CAP = 40.0, 25.0  # grey levels: more counts as much
NEIGHBOURHOOD, FEATHER = 11, 9  # pixels, of the means of the energies and of the result
QUANTILE, WIDER, WIDEST = 0.75, 1.1, 30.0  # of the residual over the clip: the noise where the scene sways
TYPICAL, LEAST = 2.0, 6.0  # times the median of the smoothed residual, and grey levels: its noise
BLOCK_PIXELS = 4096


@dataclass(frozen=True)
class Sway:
    """Where the scene sways, and what is usual there.

    Attributes
    ----------
    share : ndarray of float32 (height, width), 0 to 1
        0 where nothing sways.
    noise : ndarray of float32 (height, width), > 0
        Of the residual, in grey levels.
    smooth_noise : ndarray of float32 (height, width), > 0
        Of the smoothed residual, in grey levels.
    """

    share: Floats
    noise: Floats
    smooth_noise: Floats


@kernel(allocates=True)
def measure_ranked(frames, picks, H, codes, rank, pixels, usual):  # type: ignore[no-untyped-def]
    """Measure the `rank`-th smallest, over frames, of the root mean square residuals over channels.

    Parameters
    ----------
    frames, picks, H, codes
        As those of :func:`~visionnmf.apps.background.residuals.measure_residual`.
    rank : int, >= 0 and < k
    pixels : ndarray of int (m,)
    usual : ndarray of float32 (n_pixels,)
        Gets it at these pixels.
    """
    k, n_channels = len(picks), frames.shape[2]
    size = np.empty(k, np.float32)
    for pixel in pixels:
        for i in range(k):
            t = picks[i]
            square = np.float32(0)
            for c in range(n_channels):
                b = np.float32(0)
                for component in range(codes.shape[0]):
                    b += codes[component, t] * H[component, pixel, c]
                y = np.float32(frames[t, pixel, c]) - min(b, np.float32(255))
                square += y * y
            square /= np.float32(n_channels)
            j = i
            while j > 0 and size[j - 1] > square:
                size[j] = size[j - 1]
                j -= 1
            size[j] = square
        usual[pixel] = np.sqrt(size[rank])


def smoothed(residual: NDArray[Any], shape: tuple[int, ...]) -> Floats:
    """Return the size of the smoothed residual at half the size (height / 2, width / 2).

    Parameters
    ----------
    residual : ndarray of float32 or int16 (height, width)
    shape : (int, int)
        Height and width.

    Returns
    -------
    ndarray of float32
    """
    height, width = shape
    half = cv2.resize(residual, (max(1, width // 2), max(1, height // 2)), interpolation=cv2.INTER_AREA)
    sigma = SCALE / 2 * max(1.0, width / WIDTH)
    return np.abs(cv2.GaussianBlur(half.astype(np.float32), (0, 0), sigma))


def _measured(
    frames: FrameArray, picks: NDArray[np.intp], H: Floats, Wt: Floats, limit: Floats
) -> tuple[Floats, Floats, NDArray[np.uint8]]:
    """Measure residuals over frames.

    Returns
    -------
    ndarray of float32 (k, height / 2, width / 2)
        Sizes of the smoothed residuals.
    ndarray of float32 (height, width)
        Energies.
    ndarray of uint8 (height, width)
        In how many frames the root mean square over channels is above `limit` (height, width).
    """
    shape = limit.shape
    n_pixels, channels = frames.shape[1:]
    energy, above = np.zeros(n_pixels, np.float32), np.zeros(n_pixels, np.uint8)
    squared = (limit * limit).ravel()
    held = max(1, HELD // n_pixels)
    sizes = np.empty((len(picks), max(1, shape[0] // 2), max(1, shape[1] // 2)), np.float32)
    means = np.empty((held, n_pixels), np.int16)
    for first in range(0, len(picks), held):
        some = picks[first : first + held]

        def fill(block: tuple[int, int], some: NDArray[np.intp] = some) -> None:
            m = block[1] - block[0]
            residual, size = np.empty(m * channels, np.float32), np.empty((2, m), np.float32)
            measure_residual(frames, some, H, Wt, CAP, squared, residual, size, means, energy, above, block[0])

        map_blocks(fill, blocks(n_pixels, BLOCK_PIXELS))
        for size, mean in zip(sizes[first : first + held], means, strict=False):
            size[:] = smoothed(mean.reshape(shape), shape)
    sizes /= 8
    energy /= len(picks)
    return sizes, energy.reshape(shape), above.reshape(shape)


def _rank(quantile: float, count: int) -> int:
    """Return which of so many sorted values is the quantile."""
    return int(quantile * (count - 1) + 0.5)


def _usual(
    frames: FrameArray, picks: NDArray[np.intp], H: Floats, Wt: Floats, quantile: float, where: NDArray[np.bool_]
) -> Floats:
    """Return a quantile of the residual over frames (height, width), 0 but where it is asked for."""
    usual = np.zeros(where.size, np.float32)
    pixels = np.flatnonzero(where)

    def fill(block: tuple[int, int]) -> None:
        measure_ranked(frames, picks, H, Wt, _rank(quantile, len(picks)), pixels[slice(*block)], usual)

    map_blocks(fill, blocks(len(pixels), BLOCK_PIXELS))
    return usual.reshape(where.shape)


def find_sway(frames: FrameArray, H: Floats, Wt: Floats, noise: Floats, scale: Floats) -> Sway | None:
    """Find where the scene sways.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, channels)
    H : ndarray of float32 (n_components, n_pixels, channels)
    Wt : ndarray of float32 (n_components, n)
    noise : ndarray of float32 (height, width), >= 0
        That of neighbouring frames, in grey levels.
    scale : ndarray of float32 (height, width), > 0
        That within its bounds.

    Returns
    -------
    Sway or None
        None where nothing sways.
    """
    n, n_pixels, _ = frames.shape
    height, width = shape = noise.shape
    if width < NARROWEST:
        return None
    asked = min(n, FRAMES, max(FEWEST, VALUES // n_pixels))
    picks = np.linspace(0, n - 1, asked).round().astype(int)
    share, sizes = _swaying(frames, picks, H, Wt, RESTLESS * scale)
    if share.mean() < LEAST_SHARE:
        return None
    typical = np.median(sizes, axis=0, overwrite_input=True)
    del sizes  # large pictures are large
    usual_size = np.maximum(LEAST, TYPICAL * cv2.resize(typical, (width, height), interpolation=cv2.INTER_LINEAR))
    wide = WIDER * _usual(frames, picks, H, Wt, QUANTILE, np.ones(shape, bool))
    np.clip(np.maximum(wide, noise, out=wide), scale, WIDEST, out=wide)
    return Sway(share, wide, np.asarray(usual_size, np.float32))


def _swaying(
    frames: FrameArray, picks: NDArray[np.intp], H: Floats, Wt: Floats, usual: Floats
) -> tuple[Floats, Floats]:
    """Return how sure it is that the scene sways (height, width), and the sizes of the smoothed residuals."""
    height, width = usual.shape
    asked = len(picks)
    sizes, energy, above = _measured(frames, picks, H, Wt, 0.999 * usual)  # what is near is looked at below
    kept = np.zeros_like(sizes[0])
    for size in sizes:
        kept += np.minimum(size, SMOOTH_CAP) ** 2
    kept /= asked
    times = max(1.0, width / WIDTH)
    box, feather = (int(side * times) | 1 for side in (NEIGHBOURHOOD, FEATHER))
    survives = cv2.blur(cv2.resize(kept, (width, height), interpolation=cv2.INTER_LINEAR), (box, box))
    survives /= cv2.blur(energy, (box, box)) + ENERGY
    del energy
    restless = above >= asked - _rank(MOST, asked)
    often = _usual(frames, picks, H, Wt, MOST, (survives < SURVIVES) & restless) / usual
    certain = np.clip((SURVIVES - survives) / RANGE, 0, 1) * np.clip(often - 1, 0, 1)
    return np.asarray(cv2.blur(certain, (feather, feather)), np.float32), sizes
