"""The per-pixel work of the background model: what is behind a pixel, and its score.

Kernels only; :mod:`visionnmf.apps.background` validates, allocates and says what the numbers mean.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["score_pixels", "show_background"]


@kernel(reassociate=True)
def show_background(H, codes, background, start, stop):  # type: ignore[no-untyped-def]
    """Write the background of pixels ``start:stop`` of one frame, rounded and at most white.

    Parameters
    ----------
    H : ndarray of float32 (r, n_pixels, n_channels)
    codes : ndarray of float32 (r,)
    background : ndarray of uint8 (n_pixels, n_channels)
    start, stop : int
    """
    n_channels = background.shape[1]
    for pixel in range(start, stop):
        for channel in range(n_channels):
            b = np.float32(0)
            for k in range(codes.shape[0]):
                b += codes[k] * H[k, pixel, channel]
            background[pixel, channel] = np.uint8(min(b, np.float32(255)) + np.float32(0.5))


@kernel(reassociate=True)
def score_pixels(frame, background, scale, darkest, shadow_weight, score, start, stop):  # type: ignore[no-untyped-def]
    """Write the score of pixels ``start:stop`` of one frame.

    The score is the root mean square, over channels, of the residual ``x - b`` in units of `scale`. In colour the part
    of the residual that a shadow explains, ``x = a b`` with ``darkest < a < 1``, counts `shadow_weight` times.

    Parameters
    ----------
    frame, background : ndarray of uint8 (n_pixels, n_channels)
    scale : ndarray of float32 (n_pixels,), > 0
    darkest, shadow_weight : float, 0 to 1
    score : ndarray of float32 (n_pixels,)
    start, stop : int
    """
    n_channels = frame.shape[1]
    one = np.float32(1)
    squared_weight = np.float32(shadow_weight * shadow_weight)
    for pixel in range(start, stop):
        energy = np.float32(0)  # |b|^2
        along = np.float32(0)  # x . b
        total = np.float32(0)  # |x - b|^2
        for channel in range(n_channels):
            b = np.float32(background[pixel, channel])
            x = np.float32(frame[pixel, channel])
            energy += b * b
            along += x * b
            total += (x - b) * (x - b)
        if n_channels > 1:
            ratio = along / (energy + one)
            if darkest < ratio < one:
                darkening = (one - ratio) * (one - ratio) * energy
                total = max(np.float32(0), total - darkening) + squared_weight * darkening
        score[pixel] = np.sqrt(total / n_channels) / scale[pixel]
