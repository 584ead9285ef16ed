"""The per-pixel work of the online background model: what a pixel of a new frame says about the scene.

A kernel only; :mod:`.model` validates, allocates and says what the numbers mean.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["track_rows"]

MEDIAN_STEP = 1.25  # over the weight, in units of the noise: 1 / (2 density at the median) of a normal distribution
NOISE_STEP = 0.02  # of the noise itself: a median followed by the sign, which foreground hardly moves
NORMAL_CHANGE = 0.954  # median of |x - a| for independent normal x, a of standard deviation 1


@kernel
def track_rows(  # type: ignore[no-untyped-def]
    frame, change, moved, gain, keep, longest, low, high, scene, rival, support, rivalry, noise, first, every
):
    """Update scene, rival and noise by every `every`-th row of a frame.

    A value near the scene supports it, and moves it by a step of the Manhattan loss: that of Robbins and Monro for a
    median, scale over weight in the direction of the sign. A value far from it supports the rival, the one other value
    that is kept, or, where it is far from both, takes weight from the rival and at last its place. A rival of more
    weight than the scene becomes the scene.

    Parameters
    ----------
    frame : ndarray of uint8 (height, width, n_channels)
    change : ndarray of uint8 (height, width)
        Difference from the frame before.
    moved : ndarray of uint8 (height, width)
        The same, smoothed.
    gain : float, > 0
        Light of the frame, times that of the scene.
    keep : float, 0 to 1
        What is left of the weights since these rows were updated last.
    longest : float
        Weight beyond which steps get no shorter.
    low, high : float
        Bounds of the noise scale; what is within twice of it is near.
    scene, rival : ndarray of float32 (height, width, n_channels)
    support, rivalry : ndarray of float32 (height, width)
        Their weights, in frames.
    noise : ndarray of float32 (height, width)
        Standard deviation of the sensor's noise, in grey levels.
    first, every : int
    """
    height, width, n_channels = frame.shape
    one, zero = np.float32(1), np.float32(0)
    noise_step, unit = np.float32(NOISE_STEP), np.float32(1 / NORMAL_CHANGE)
    gain, keep, longest = np.float32(gain), np.float32(keep), np.float32(longest)
    low, high = np.float32(low), np.float32(high)
    sure = gain * np.float32(every)  # a dark frame says less: a change of the scene changes its residual by the gain
    for y in range(first, height, every):
        for x in range(width):
            step = max(noise[y, x], one) * noise_step
            noise[y, x] += step if unit * np.float32(change[y, x]) > noise[y, x] else -step
            scale = min(max(noise[y, x], low), high)
            near = scale + scale
            ratio = np.float32(moved[y, x]) / scale
            weight = sure / (one + ratio * ratio)
            off = other = zero
            for c in range(n_channels):
                value = np.float32(frame[y, x, c])
                off = max(off, abs(value - gain * scene[y, x, c]))
                other = max(other, abs(value - gain * rival[y, x, c]))
            held, against = support[y, x] * keep, rivalry[y, x] * keep
            length = np.float32(MEDIAN_STEP) * weight * scale
            if off < near:
                length /= min(held, longest) + one
                held += weight
                for c in range(n_channels):
                    miss = np.float32(frame[y, x, c]) / gain - scene[y, x, c]
                    scene[y, x, c] += min(max(miss, -length), length)
            elif other < near and against > zero:
                length /= min(against, longest) + one
                against += weight
                for c in range(n_channels):
                    miss = np.float32(frame[y, x, c]) / gain - rival[y, x, c]
                    rival[y, x, c] += min(max(miss, -length), length)
            else:
                against -= weight
                if against < zero:
                    against = weight
                    for c in range(n_channels):
                        rival[y, x, c] = np.float32(frame[y, x, c]) / gain
            if against > held:
                held, against = against, held
                for c in range(n_channels):
                    kept = scene[y, x, c]
                    scene[y, x, c] = rival[y, x, c]
                    rival[y, x, c] = kept
            support[y, x], rivalry[y, x] = held, against
