"""The per-pixel work of the background model: what is behind a pixel, its score, and what explains it.

Kernels only; :mod:`visionnmf.apps.background` validates, allocates and says what the numbers mean.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["count_near", "mean_change", "score_pixels", "score_recurring", "show_background"]


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
    white = np.float32(255)
    half = np.float32(0.5)
    first, last = start * n_channels, stop * n_channels
    values = H.reshape(codes.shape[0], H.shape[1] * n_channels)
    shown = background.reshape(background.shape[0] * n_channels)
    if codes.shape[0] == 2:  # the usual number: one pass, in SIMD lanes
        one, two = codes[0], codes[1]
        for i in range(first, last):
            shown[i] = np.uint8(min(one * values[0, i] + two * values[1, i], white) + half)
        return
    for i in range(first, last):
        b = np.float32(0)
        for k in range(codes.shape[0]):
            b += codes[k] * values[k, i]
        shown[i] = np.uint8(min(b, white) + half)


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
    if n_channels != 3:
        for pixel in range(start, stop):
            total = np.float32(0)
            for channel in range(n_channels):
                miss = np.float32(frame[pixel, channel]) - np.float32(background[pixel, channel])
                total += miss * miss
            score[pixel] = np.sqrt(total / n_channels) / scale[pixel]
        return
    # unrolled, and without branches: so the compiler takes several pixels at a time
    one, third = np.float32(1), np.float32(1 / 3)
    darkest, squared_weight = np.float32(darkest), np.float32(shadow_weight * shadow_weight)
    for pixel in range(start, stop):
        x0, x1, x2 = np.float32(frame[pixel, 0]), np.float32(frame[pixel, 1]), np.float32(frame[pixel, 2])
        b0 = np.float32(background[pixel, 0])
        b1 = np.float32(background[pixel, 1])
        b2 = np.float32(background[pixel, 2])
        energy = b0 * b0 + b1 * b1 + b2 * b2
        total = (x0 - b0) * (x0 - b0) + (x1 - b1) * (x1 - b1) + (x2 - b2) * (x2 - b2)
        ratio = (x0 * b0 + x1 * b1 + x2 * b2) / (energy + one)
        darkening = (one - ratio) * (one - ratio) * energy
        shadowed = total - min(total, darkening) + squared_weight * darkening
        total = shadowed if (darkest < ratio) & (ratio < one) else total
        score[pixel] = np.sqrt(total * third) / scale[pixel]


@kernel
def count_near(X, shown, near, votes):  # type: ignore[no-untyped-def]
    """Count how many values of each frame each candidate explains.

    Parameters
    ----------
    X : ndarray of float32 (n, n_values)
    shown : ndarray of float32 (k, n_values)
        What the candidates give.
    near : ndarray of float32 (n_values,)
        The residual below which a value is explained.
    votes : ndarray of int64 (n, k)
        Gets the counts.
    """
    for t in range(X.shape[0]):
        x = X[t]
        for k in range(shown.shape[0]):
            given = shown[k]
            count = np.int32(0)
            for i in range(near.shape[0]):
                count += np.int32(abs(x[i] - given[i]) < near[i])
            votes[t, k] = count


@kernel
def mean_change(change, mean):  # type: ignore[no-untyped-def]
    """Write the mean over three channels, rounded.

    Parameters
    ----------
    change : ndarray of uint8 (3 n,)
    mean : ndarray of uint8 (n,)
    """
    for i in range(mean.shape[0]):
        total = np.uint32(change[3 * i]) + np.uint32(change[3 * i + 1]) + np.uint32(change[3 * i + 2])
        mean[i] = np.uint8((total + np.uint32(1)) // np.uint32(3))


@kernel
def score_recurring(frame, background, scale, pixels, share, levels, score, start, stop):  # type: ignore[no-untyped-def]
    """Lower the scores of pixels that show a value which comes back.

    Such a score becomes the distance to the nearest level, in units of `scale`, as far as `share` says.

    Parameters
    ----------
    frame, background : ndarray of uint8 (n_pixels, n_channels)
    scale : ndarray of float32 (n_pixels,), > 0
    pixels : ndarray of int64 (m,)
    share : ndarray of float32 (m,), 0 to 1
    levels : ndarray of int16 (m, n_levels, n_channels)
        Differences from the background.
    score : ndarray of float32 (n_pixels,)
    start, stop : int
        Of `pixels`.
    """
    n_levels, n_channels = levels.shape[1:]
    for i in range(start, stop):
        pixel = pixels[i]
        nearest = np.float32(np.inf)
        for level in range(n_levels):
            total = np.float32(0)
            for c in range(n_channels):
                miss = np.float32(frame[pixel, c]) - np.float32(background[pixel, c]) - np.float32(levels[i, level, c])
                total += miss * miss
            nearest = min(nearest, total)
        nearest = np.sqrt(nearest / np.float32(n_channels)) / scale[pixel]
        score[pixel] += share[i] * min(nearest - score[pixel], np.float32(0))
