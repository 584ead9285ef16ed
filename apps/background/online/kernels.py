"""The numba kernel of the online background model, which writes into arrays of the caller and validates nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from visionnmf._jit import kernel

MEDIAN_STEP = 1.25  # over the weight, in units of the noise: 1 / (2 density at the median) of a normal distribution
NOISE_STEP = 0.02  # of the noise itself: a median followed by the sign, which foreground hardly moves
NORMAL_CHANGE = 0.954  # median of |x - a| for independent normal x, a of standard deviation 1


class OnlineScene(NamedTuple):
    """What the online model knows of each pixel, updated in place.

    `scene` and its `alternative` are (height, width, channels); `support` and `alternative_support` are the weights of
    the frames that show them, and `noise` is in grey levels, all three (height, width).
    """

    scene: Any
    alternative: Any
    support: Any
    alternative_support: Any
    noise: Any


class OnlineSteps(NamedTuple):
    """How the online model moves: `keep` is the share of the weights that is left since the last update of a row.

    Steps get no shorter beyond the weight `longest`, and the noise counts as between `low` and `high` grey levels.
    """

    keep: float
    longest: float
    low: float
    high: float


@kernel
def count_explained(x, scene, near, gain, found):  # type: ignore[no-untyped-def]
    """Write to `found` which values `x` (n, channels) a gain explains; return how many, and how many whole pixels.

    A value is explained if it is that of the `scene` (n, channels) times the gain within `near` (n,) grey levels.
    """
    gain, values, pixels = np.float32(gain), 0, 0
    for i in range(x.shape[0]):
        before = values
        for c in range(x.shape[1]):
            found[i, c] = abs(x[i, c] - gain * scene[i, c]) < near[i]
            values += found[i, c]
        pixels += values - before == x.shape[1]
    return values, pixels


@kernel
def update_rows(frame, change, moved, gain, known, steps, first, every, scratch):  # type: ignore[no-untyped-def]
    """Update scene, alternative and noise by every `every`-th row of a frame, from row `first` on.

    A value near the scene supports it and moves it by a step of the Manhattan loss: that of Robbins and Monro for a
    median, scale over weight in the direction of the sign. A value far from it supports the alternative, the one other
    value that is kept. A value far from both takes weight from the alternative, and at last its place. An alternative
    of more weight than the scene becomes the scene.

    `known` is an :class:`OnlineScene`, which is updated in place. `change` and `moved` (height, width) are the
    difference from the previous frame and the same smoothed. `gain` is the illumination of the frame relative to the
    scene. `steps` is an :class:`OnlineSteps`. `scratch` (4 + n_channels, width) is for a row.
    """
    scene, alternative, support, alternative_support, noise = known
    height, width, n_channels = frame.shape
    one, zero = np.float32(1), np.float32(0)
    noise_step, unit = np.float32(NOISE_STEP), np.float32(1 / NORMAL_CHANGE)
    gain, keep, longest = np.float32(gain), np.float32(steps.keep), np.float32(steps.longest)
    low, high = np.float32(steps.low), np.float32(steps.high)
    sure = gain * np.float32(every)  # a dark frame says less: a change of the scene changes its residual by the gain
    scales, weights, away, lengths, values = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4:].reshape(-1)
    for y in range(first, height, every):
        # What most pixels need, in loops that the compiler takes several pixels at a time.
        for x in range(width):
            # The noise follows the median of the change over NORMAL_CHANGE, by steps in the direction of the sign.
            step = max(noise[y, x], one) * noise_step
            step = step if unit * np.float32(change[y, x]) > noise[y, x] else -step
            noise[y, x] = max(noise[y, x] + step, zero)
            scales[x] = min(max(noise[y, x], low), high)
            ratio = np.float32(moved[y, x]) / scales[x]
            weights[x] = sure / (one + ratio * ratio)
        seen, row = frame[y].reshape(-1), scene[y].reshape(-1)
        for i in range(len(row)):
            values[i] = abs(np.float32(seen[i]) - gain * row[i])
        for x in range(width):  # the largest difference over channels, of which there are 1 or 3, from the scene
            if n_channels == 3:
                away[x] = max(values[3 * x], max(values[3 * x + 1], values[3 * x + 2]))
            else:
                away[x] = values[x]
        for x in range(width):
            held = support[y, x] * keep
            length = np.float32(MEDIAN_STEP) * weights[x] * scales[x]
            is_near = away[x] < scales[x] + scales[x]
            lengths[x] = length / (min(held, longest) + one) if is_near else zero
            support[y, x] = held + weights[x] if is_near else held
            alternative_support[y, x] *= keep
        for x in range(width):
            if n_channels == 3:
                values[3 * x] = values[3 * x + 1] = values[3 * x + 2] = lengths[x]
            else:
                values[x] = lengths[x]
        for i in range(len(row)):
            miss = np.float32(seen[i]) / gain - row[i]
            row[i] += min(max(miss, -values[i]), values[i])  # by nothing where it is not near
        for x in range(width):
            held, against = support[y, x], alternative_support[y, x]  # weights of scene and alternative
            near, weight = scales[x] + scales[x], weights[x]
            if away[x] >= near:
                other = zero
                for c in range(n_channels):
                    other = max(other, abs(np.float32(frame[y, x, c]) - gain * alternative[y, x, c]))
                if other < near and against > zero:
                    length = np.float32(MEDIAN_STEP) * weight * scales[x] / (min(against, longest) + one)
                    against += weight
                    for c in range(n_channels):
                        miss = np.float32(frame[y, x, c]) / gain - alternative[y, x, c]
                        alternative[y, x, c] += min(max(miss, -length), length)
                else:
                    against -= weight
                    if against < zero:
                        against = weight
                        for c in range(n_channels):
                            alternative[y, x, c] = np.float32(frame[y, x, c]) / gain
            if against > held:
                held, against = against, held
                for c in range(n_channels):
                    kept = scene[y, x, c]
                    scene[y, x, c] = alternative[y, x, c]
                    alternative[y, x, c] = kept
            support[y, x], alternative_support[y, x] = held, against
