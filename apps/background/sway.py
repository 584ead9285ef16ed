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

__all__ = ["Sway", "find_sway", "smoothed"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]

FRAMES = 40  # that are asked, of large pictures fewer
FEWEST = 10
MEANS_BYTES = 64 << 20
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
def measure_residual(frames, picks, H, codes, quantiles, cap, means, energy, usual, start, stop):  # type: ignore[no-untyped-def]
    """Measure the residual of pixels ``start:stop`` over frames.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, n_channels)
    picks : ndarray of int (k,)
    H : ndarray of float32 (r, n_pixels, n_channels)
    codes : ndarray of float32 (r, n)
    quantiles : ndarray of float64 (q,)
    cap : float
    means : ndarray of int16 (k, n_pixels)
        Gets the mean over channels, in eighths of a grey level.
    energy : ndarray of float32 (n_pixels,)
        Gets the mean square over frames, of at most `cap`.
    usual : ndarray of float32 (q, n_pixels)
        Gets the quantiles over frames of the root mean square over channels.
    start, stop : int
    """
    k, n_channels = len(picks), frames.shape[2]
    size = np.empty(k, np.float32)
    for pixel in range(start, stop):
        total = np.float32(0)
        for i in range(k):
            t = picks[i]
            mean = np.float32(0)
            square = np.float32(0)
            for c in range(n_channels):
                b = np.float32(0)
                for component in range(codes.shape[0]):
                    b += codes[component, t] * H[component, pixel, c]
                y = np.float32(frames[t, pixel, c]) - min(b, np.float32(255))
                mean += y
                square += y * y
            means[i, pixel] = np.int16(np.rint(np.float32(8) * mean / np.float32(n_channels)))
            square /= np.float32(n_channels)
            total += min(square, np.float32(cap * cap))
            j = i
            while j > 0 and size[j - 1] > square:
                size[j] = size[j - 1]
                j -= 1
            size[j] = square
        energy[pixel] = total / np.float32(k)
        for q in range(len(quantiles)):
            usual[q, pixel] = np.sqrt(size[int(quantiles[q] * (k - 1) + 0.5)])


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
    frames: FrameArray, picks: NDArray[np.intp], H: Floats, Wt: Floats, shape: tuple[int, ...]
) -> tuple[Floats, Floats, Floats]:
    """Return sizes of the smoothed residuals (k, height / 2, width / 2), energies and quantiles (2, n_pixels)."""
    n_pixels = frames.shape[1]
    means = np.empty((len(picks), n_pixels), np.int16)
    energy = np.empty(n_pixels, np.float32)
    usual = np.empty((2, n_pixels), np.float32)
    quantiles = np.array([MOST, QUANTILE])

    def fill(block: tuple[int, int]) -> None:
        measure_residual(frames, picks, H, Wt, quantiles, CAP, means, energy, usual, *block)

    map_blocks(fill, blocks(n_pixels, BLOCK_PIXELS))
    sizes = np.stack([smoothed(mean.reshape(shape), shape) for mean in means])
    sizes /= 8
    return sizes, energy, usual


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
    asked = min(n, FRAMES, max(FEWEST, MEANS_BYTES // (2 * n_pixels)))
    picks = np.linspace(0, n - 1, asked).round().astype(int)
    sizes, energy, usual = _measured(frames, picks, H, Wt, shape)
    typical = np.median(sizes, axis=0)
    kept = (np.minimum(sizes, SMOOTH_CAP) ** 2).mean(axis=0)
    times = max(1.0, width / WIDTH)
    box, feather = (int(side * times) | 1 for side in (NEIGHBOURHOOD, FEATHER))
    kept, typical = (
        np.asarray(cv2.resize(each, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
        for each in (kept, typical)
    )
    around = cv2.blur(energy.reshape(shape), (box, box))
    survives = cv2.blur(kept, (box, box)) / (around + ENERGY)
    often = usual[0].reshape(shape) / (RESTLESS * scale)
    certain = np.clip((SURVIVES - survives) / RANGE, 0, 1) * np.clip(often - 1, 0, 1)
    share = cv2.blur(certain, (feather, feather))
    if share.mean() < LEAST_SHARE:
        return None
    wide = np.clip(np.maximum(WIDER * usual[1].reshape(shape), noise), scale, WIDEST)
    return Sway(share, wide.astype(np.float32), np.maximum(LEAST, TYPICAL * typical).astype(np.float32))
