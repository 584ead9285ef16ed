"""The numba kernels of the background application, but for that of the online model; callers pass constants.

Arrays of frames have shape (n, n_pixels, n_channels) and dtype uint8, components `H` (r, n_pixels, n_channels), codes
(r, n); both are float32. Kernels write their results into arrays of the caller and validate nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from visionnmf._jit import kernel


class ModelledFrames(NamedTuple):
    """Frames of a clip (n, n_pixels, n_channels), and the model of their background.

    `picks` are the frames that are looked at. The background of frame t is the sum of the components `H` (r, n_pixels,
    n_channels), each times its code in column t of `codes` (r, n), but at most white.
    """

    frames: Any
    picks: Any
    H: Any
    codes: Any


class LevelRules(NamedTuple):
    """When a pixel has another level than the modelled one.

    Samples of one level differ by up to `near` grey levels, and two levels by more than `apart`. The modelled level is
    replaced if it has less than the share `held` of the weight, by one that has `stronger` times its weight. A second
    level needs the share `second`.
    """

    near: float
    apart: float
    held: float
    stronger: float
    second: float


class NoiseFloor(NamedTuple):
    """The least noise of a pixel: a share of its background, held between two bounds in grey levels."""

    share: float
    lowest: float
    highest: float


class ShadowRule(NamedTuple):
    """What counts as a shadow: it leaves the share `darkest` of the light at least, and counts `weight` times."""

    darkest: float
    weight: float


class WindowRule(NamedTuple):
    """Which windows of ``2 half + 1`` pixels a side may be in a cast shadow.

    One factor between `darkest` and `lightest` explains them, but for `deviation` times the noise.
    """

    half: int
    darkest: float
    lightest: float
    deviation: float


# --- Temporal medians ------------------------------------------------------------------------------------------------


@kernel
def select_rank(frames, found, count, rank, start):  # type: ignore[no-untyped-def]
    """Write to `found` (k,) the `rank`-th smallest byte over `frames` (n, n_values) at values ``start:start + k``.

    The bits of the result are found from the highest to the lowest, each by counting the frames below. `count` (k,) is
    scratch of an unsigned dtype that holds `n`.
    """
    k = len(found)
    for i in range(k):
        found[i] = 0
    for place in range(8):  # try each bit; it stays if the result is not smaller than the trial value
        bit = np.uint8(128 >> place)
        for i in range(k):
            count[i] = 0
            found[i] += bit
        for t in range(frames.shape[0]):
            row = frames[t, start : start + k]
            for i in range(k):
                count[i] += row[i] < found[i]
        for i in range(k):
            if count[i] > rank:  # it is smaller
                found[i] -= bit


@kernel
def select_next_rank(frames, found, count, above, rank, start):  # type: ignore[no-untyped-def]
    """Write to `above` (k,) the byte of rank ``rank + 1``, given that of `rank` in `found`; see `select_rank`."""
    # The values are ``start:start + k`` of `frames` (n, n_values), and `count` (k,) is scratch.
    k = len(found)
    for i in range(k):
        count[i] = 0
        above[i] = 255
    for t in range(frames.shape[0]):
        row = frames[t, start : start + k]
        for i in range(k):
            value = row[i]
            larger = value > found[i]
            count[i] += not larger
            above[i] = value if larger & (value < above[i]) else above[i]
    # `above` is the smallest byte larger than `found`; count (k,), scratch: how many frames are not above `found`
    for i in range(k):
        if count[i] > rank + 1:  # several are the same
            above[i] = found[i]


# --- Learning and masks ----------------------------------------------------------------------------------------------


@kernel
def mean_over_channels(change, mean):  # type: ignore[no-untyped-def]
    """Write the rounded mean over the three channels of `change` (3 n,) to `mean` (n,)."""
    for i in range(mean.shape[0]):
        total = np.uint32(change[3 * i]) + np.uint32(change[3 * i + 1]) + np.uint32(change[3 * i + 2])
        mean[i] = np.uint8((total + np.uint32(1)) // np.uint32(3))


@kernel
def count_explained(X, shown, near, votes):  # type: ignore[no-untyped-def]
    """Write to `votes` (n, k) how many values of each frame candidates explain, with a residual below `near`."""
    # `X` is (n, n_values), `shown` (k, n_values) the candidates, and `near` (n_values,).
    for t in range(X.shape[0]):
        x = X[t]
        for k in range(shown.shape[0]):
            given = shown[k]
            count = np.int32(0)
            for i in range(near.shape[0]):
                count += np.int32(abs(x[i] - given[i]) < near[i])
            votes[t, k] = count


@kernel(reassociate=True)
def show_background(H, codes, background):  # type: ignore[no-untyped-def]
    """Write the background ``sum_k codes[k] H[k]`` (n_pixels, n_channels), rounded and at most white."""
    # `H` is (r, n_pixels, n_channels), `codes` (r,), and `background` of bytes.
    white = np.float32(255)
    half = np.float32(0.5)
    values = H.reshape(codes.shape[0], background.size)
    shown = background.reshape(background.size)
    if codes.shape[0] == 2:  # the usual number: one pass, in SIMD lanes
        one, two = codes[0], codes[1]
        for i in range(len(shown)):
            shown[i] = np.uint8(min(one * values[0, i] + two * values[1, i], white) + half)
        return
    for i in range(len(shown)):
        b = np.float32(0)
        for k in range(codes.shape[0]):
            b += codes[k] * values[k, i]
        shown[i] = np.uint8(min(b, white) + half)


@kernel(reassociate=True)
def score_pixels(frame, background, scale, floor, shadow, score):  # type: ignore[no-untyped-def]
    """Write the scores (n_pixels,) of one frame (n_pixels, n_channels).

    The score is the root mean square over channels of the residual ``x - b`` in units of the noise. That is `scale`
    (n_pixels,), but not below its `floor`, a :class:`NoiseFloor` for the background's mean over channels. In colour,
    the part of the residual that a `shadow` explains (:class:`ShadowRule`; ``x = a b`` with ``darkest < a < 1``) counts
    less.
    """
    share, lowest, highest = np.float32(floor.share), np.float32(floor.lowest), np.float32(floor.highest)
    if frame.shape[1] == 1:
        for pixel in range(len(score)):
            b = np.float32(background[pixel, 0])
            noise = max(scale[pixel], min(max(share * b, lowest), highest))
            score[pixel] = abs(np.float32(frame[pixel, 0]) - b) / noise
        return
    # Unrolled, flat, of whole numbers and without branches, so that the compiler takes several pixels at a time.
    one, third = np.float32(1), np.float32(1 / 3)
    values, behind = frame.reshape(frame.size), background.reshape(background.size)
    darkest, squared_weight = np.float32(shadow.darkest), np.float32(shadow.weight * shadow.weight)
    share *= third
    for pixel in range(len(score)):
        i = 3 * pixel
        x0, x1, x2 = np.int32(values[i]), np.int32(values[i + 1]), np.int32(values[i + 2])
        b0, b1, b2 = np.int32(behind[i]), np.int32(behind[i + 1]), np.int32(behind[i + 2])
        # `ratio` is the least-squares a of x = a b (one is added so that a black b does no harm); the squared residual
        # splits into `darkening`, along b, and the rest.
        energy = np.float32(b0 * b0 + b1 * b1 + b2 * b2)
        total = np.float32((x0 - b0) * (x0 - b0) + (x1 - b1) * (x1 - b1) + (x2 - b2) * (x2 - b2))
        ratio = np.float32(x0 * b0 + x1 * b1 + x2 * b2) / (energy + one)
        darkening = (one - ratio) * (one - ratio) * energy
        shadowed = total - min(total, darkening) + squared_weight * darkening
        total = shadowed if (darkest < ratio) & (ratio < one) else total
        noise = max(scale[pixel], min(max(share * np.float32(b0 + b1 + b2), lowest), highest))
        score[pixel] = np.sqrt(total * third) / noise


@kernel
def mean_residual(frame, background, cap, residual):  # type: ignore[no-untyped-def]
    """Write the rounded mean over channels of ``frame - background`` (n_pixels,), held between ``-cap`` and `cap`."""
    n_channels = frame.shape[1]
    highest = np.float32(cap)
    values, behind = frame.reshape(frame.size), background.reshape(background.size)
    if n_channels == 3:  # unrolled, so that the compiler takes several pixels at a time
        for pixel in range(len(residual)):
            i = 3 * pixel
            total = np.int32(values[i]) + np.int32(values[i + 1]) + np.int32(values[i + 2])
            total -= np.int32(behind[i]) + np.int32(behind[i + 1]) + np.int32(behind[i + 2])
            mean = np.rint(np.float32(total) * np.float32(1 / 3))
            residual[pixel] = min(max(mean, -highest), highest)
        return
    for i in range(len(residual)):
        residual[i] = min(max(np.float32(values[i]) - np.float32(behind[i]), -highest), highest)


@kernel
def fit_windows(pictures, noise, rule, sums, factor, details, fits):  # type: ignore[no-untyped-def]
    """Fit one factor to the pixels of the mask in the window around each pixel, by least squares.

    The `pictures` are the mask (1), frame and background in grey levels. They are 0 outside the mask and have margins
    of zeros: half a window, and one more row above. `factor` (height, width) gets the factors, `details` (2, height,
    width) what frame and background differ by from their means in the window, and `fits` (height, width) 1 where a
    pixel of the mask obeys the `rule`, a :class:`WindowRule`. `sums` (12, padded width) is scratch.
    """
    inside, seen, behind = pictures[0], pictures[1], pictures[2]
    half, (height, width) = rule.half, factor.shape
    side = 2 * half + 1
    darkest, lightest = np.float32(rule.darkest), np.float32(rule.lightest)
    deviation = np.float32(rule.deviation)
    columns, window = sums[:6], sums[6:]  # over the rows of the windows, and over the windows
    for q in range(6):
        for x in range(sums.shape[1]):
            columns[q, x] = 0
    for y in range(-side, height):
        low, high = max(y, 0), y + side  # the row above the windows (of zeros for the first), and their last
        pairs = (inside, inside), (seen, inside), (behind, inside), (seen, seen), (seen, behind), (behind, behind)
        for q, (left, right) in enumerate(pairs):
            column, a, b, a0, b0 = columns[q], left[high], right[high], left[low], right[low]
            for x in range(len(column)):  # whole numbers, which are exact
                column[x] += np.int32(a[x]) * np.int32(b[x]) - np.int32(a0[x]) * np.int32(b0[x])
            if y >= 0:
                total = window[q]
                for x in range(width):
                    total[x] = column[x]
                for k in range(1, half + 1):
                    odd, even = column[2 * k - 1 :], column[2 * k :]  # faster than ``column[2 * k + x]``
                    for x in range(width):
                        total[x] += odd[x] + even[x]
        if y < 0:
            continue
        for q in (1, 2):
            detail, picture, total = details[q - 1, y], pictures[q, y + half + 1, half:], window[q]
            for x in range(width):
                detail[x] = np.float32(picture[x]) - np.float32(total[x]) / np.float32(max(window[0, x], 1))
        # in loops of few arrays, which the compiler takes several pixels at a time
        mask, ratio, scale, fit, obeys = inside[y + half + 1, half:], factor[y], noise[y], fits[y], window[1]
        for x in range(width):
            ratio[x] = np.float32(window[4, x]) / np.float32(max(window[5, x], 1))
        for x in range(width):
            energy, most = np.float32(window[3, x]) - ratio[x] * np.float32(window[4, x]), deviation * scale[x]
            obeys[x] = energy < most * most * np.float32(window[0, x])
        for x in range(width):
            fit[x] = mask[x] & np.uint8((darkest < ratio[x]) & (ratio[x] < lightest)) & np.uint8(obeys[x])


@kernel
def measure_parts(labels, frame, background, factor, details, sums):  # type: ignore[no-untyped-def]
    """Add to `sums` (n_labels, 6 + 2 n_channels) what is measured of the parts with `labels` above 0 (height, width).

    These are the number of pixels, the products of the `details` with themselves and each other, `factor` and its
    square (see :func:`fit_windows`), and for each channel the product of `frame` and `background` (height, width,
    n_channels), and the square of `background`.
    """
    n_channels = frame.shape[2]
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            if labels[y, x] == 0:
                continue
            own = sums[labels[y, x]]
            one, other = np.float64(details[0, y, x]), np.float64(details[1, y, x])
            a = np.float64(factor[y, x])
            own[0] += 1
            own[1] += one * one
            own[2] += other * other
            own[3] += one * other
            own[4] += a
            own[5] += a * a
            for c in range(n_channels):
                shown = np.float64(background[y, x, c])
                own[6 + c] += shown * np.float64(frame[y, x, c])
                own[6 + n_channels + c] += shown * shown


# --- Dynamic background ----------------------------------------------------------------------------------------------


@kernel
def measure_residuals(clip, caps, limit, residual, size, found, energy, above, start):  # type: ignore[no-untyped-def]
    """Measure the residuals of the picked frames of a `clip` at a block of m pixels that begins at `start`.

    The residual is the frame less its background, see :class:`ModelledFrames`. `found` are two arrays that get it in
    eighths of a grey level, held between ``-caps[0]`` and ``caps[0]``: its mean over channels (k, n_pixels), and itself
    (k, n_pixels * n_channels). The sum over frames of mean squares, each at most ``caps[1] ** 2``, is added to `energy`
    (n_pixels,), and the number of frames whose mean square is above `limit` (n_pixels,) to `above` (n_pixels,).
    `residual` (m * n_channels,) and `size` (2, m) are scratch.
    """
    # shapes: (n, n_pixels, n_channels), (k,), (r, n_pixels, n_channels) and (r, n)
    frames, picks, H, codes = clip
    n, n_pixels, n_channels = frames.shape
    m = size.shape[1]
    first = start * n_channels
    values = frames.reshape(n, n_pixels * n_channels)
    components = H.reshape(H.shape[0], n_pixels * n_channels)
    highest, most, channels = np.float32(caps[0]), np.float32(caps[1] * caps[1]), np.float32(n_channels)
    mean, square, total = size[0], size[1], energy[start : start + m]
    bound, count = limit[start : start + m], above[start : start + m]
    for i in range(len(picks)):
        t = picks[i]
        shown, colours = found[0][i, start : start + m], found[1][i, first : first + m * n_channels]
        _subtract_background(values, components, codes, t, first, residual)
        for j in range(m * n_channels):
            colours[j] = np.int16(np.rint(np.float32(8) * min(max(residual[j], -highest), highest)))
        for p in range(m):
            mean[p] = square[p] = 0
        for c in range(n_channels):
            for p in range(m):
                y = residual[p * n_channels + c]
                mean[p] += y
                square[p] += y * y
        for p in range(m):
            shown[p] = np.int16(np.rint(np.float32(8) * min(max(mean[p] / channels, -highest), highest)))
            total[p] += min(square[p] / channels, most)
            count[p] += square[p] / channels > bound[p]


@kernel(allocates=True)
def rank_residuals(clip, rank, pixels, usual):  # type: ignore[no-untyped-def]
    """Write to `usual` (n_pixels,) the `rank`-th smallest residual over the picked frames of a `clip`, at some pixels.

    The residual is the root mean square over channels of the frame less its background; see :class:`ModelledFrames`.
    """
    k, n_channels = len(clip.picks), clip.frames.shape[2]
    y, size = np.empty((k, n_channels), np.float32), np.empty(k, np.float32)
    for pixel in pixels:
        _pixel_residuals(clip, pixel, y)
        for i in range(k):
            square = np.float32(0)
            for c in range(n_channels):
                square += y[i, c] * y[i, c]
            square /= np.float32(n_channels)
            j = i  # insertion sort: the frames are few
            while j > 0 and size[j - 1] > square:
                size[j] = size[j - 1]
                j -= 1
            size[j] = square
        usual[pixel] = np.sqrt(size[rank])


# --- Alternating modes -----------------------------------------------------------------------------------------------


@kernel
def find_candidates(clip, weights, rules, distances, support, asked, start):  # type: ignore[no-untyped-def]
    """Write to `asked` (m,) which of the m pixels from `start` on may have another level than the modelled one.

    Where the answer is no, `find_levels` would find none. This is faster than `find_levels`, because it goes over many
    pixels at a time. `weights` (k, m) belong to the picked frames of the `clip`; see :class:`ModelledFrames`. By the
    `rules`, samples up to `near` grey levels from the modelled level support it, and those further than `apart` support
    another one. The modelled level is replaced only if it has less than the share `held` of the weight, and a second
    level needs the share `second`; see :class:`LevelRules`.

    `distances` (m * n_channels,) and `support` (4, m) are scratch: the weight of all samples, of those near the present
    level and of those apart from it, and a distance.
    """
    # shapes: (n, n_pixels, n_channels), (k,), (r, n_pixels, n_channels) and (r, n)
    frames, picks, H, codes = clip
    near, apart, held, _, second = rules
    n, n_pixels, n_channels = frames.shape
    m = len(asked)
    first = start * n_channels
    values = frames.reshape(n, n_pixels * n_channels)
    components = H.reshape(H.shape[0], n_pixels * n_channels)
    total, present, other, distance = support[0], support[1], support[2], support[3]
    for p in range(m):
        total[p] = present[p] = other[p] = 0
    for i in range(len(picks)):
        t = picks[i]
        w = weights[i]
        _subtract_background(values, components, codes, t, first, distances)
        for v in range(len(distances)):
            distances[v] = abs(distances[v])
        if n_channels == 3:  # the usual number: in SIMD lanes
            for p in range(m):
                distance[p] = max(distances[3 * p], max(distances[3 * p + 1], distances[3 * p + 2]))
        else:
            for p in range(m):
                distance[p] = distances[p * n_channels]
                for c in range(1, n_channels):
                    distance[p] = max(distance[p], distances[p * n_channels + c])
        for p in range(m):
            total[p] += w[p]
            present[p] += w[p] if distance[p] <= near else np.float32(0)
            other[p] += w[p] if distance[p] > apart else np.float32(0)
    # No other level is possible if the present one has nearly all of the weight. Otherwise there may be a second one,
    # if other values have `enough`, or one that replaces the present level.
    for p in range(m):
        enough = other[p] >= 0.999 * second * total[p]  # sums in another order differ by less
        asked[p] = (present[p] < (1 - second) * total[p]) & (enough | (present[p] < held * total[p]))


@kernel(allocates=True)
def find_levels(clip, weights, rules, first, other, share, pixels):  # type: ignore[no-untyped-def]
    """Find the levels of the m pixels at the indices `pixels`, as differences from the modelled background.

    `weights` (k, m) belong to the picked frames of the `clip`; see :class:`ModelledFrames` and, for `rules`,
    :class:`LevelRules`. `first` (m, n_channels) gets the level that replaces the present one, the modelled background,
    if that has less than the share `held` of the weight and the new one `stronger` times as much, else 0. `other` gets
    a second level, if it has the share `second` of all weight, else 0, and `share` (m,) its share.
    """
    near, apart, held, stronger, second = rules
    k, n_channels = len(clip.picks), clip.frames.shape[2]
    y = np.empty((k, n_channels), np.float32)  # residuals of one pixel
    grey = np.empty(k, np.float32)  # their means over channels
    w = np.empty(k, np.float32)
    order = np.empty(k, np.int64)  # sorts `grey`
    level = np.empty(n_channels, np.float32)
    for at in range(len(pixels)):
        _pixel_residuals(clip, pixels[at], y)
        total = np.float32(0)  # weight of all samples
        present = np.float32(0)  # weight of those near the modelled background
        for i in range(k):
            inside = True
            mean = np.float32(0)
            for c in range(n_channels):
                inside = inside and abs(y[i, c]) <= near
                mean += y[i, c]
            grey[i] = mean / np.float32(n_channels)
            w[i] = weights[i, at]
            total += w[i]
            if inside:
                present += w[i]
        share[at] = 0
        for c in range(n_channels):
            first[at, c] = 0
            other[at, c] = 0
        if present >= (1 - second) * total:  # what is left is not enough for another level
            continue
        for i in range(k):  # insertion: k is small
            j = i
            while j > 0 and grey[order[j - 1]] > grey[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        # The present level keeps its place if it has more than the share `held` of the weight.
        if present < held * total:
            # writes to `level` and returns its weight; -1: all samples count, however near to first[at]
            support = _densest_level(y, grey, w, order, near, level, first[at], -1.0)
            if support > stronger * present:
                for c in range(n_channels):
                    first[at, c] = level[c]
        support = _densest_level(y, grey, w, order, near, level, first[at], apart)  # of those `apart` from first[at]
        if support >= second * total:
            share[at] = support / total
            for c in range(n_channels):
                other[at, c] = level[c]


@kernel
def assign_levels(clip, typical, first, other, apart, pixels, sides):  # type: ignore[no-untyped-def]
    """Write to `sides` (k, m) which of two levels some pixels show: -1 the first, 1 the second, 0 neither.

    The k picked frames of the `clip` (:class:`ModelledFrames`) and the m `pixels` are looked at. `first` and `other`
    (n_pixels, n_channels) are levels under the illumination of the codes `typical` (r,). What is further than `apart`
    from both is neither.
    """
    # shapes: (n, n_pixels, n_channels), (k,), (r, n_pixels, n_channels) and (r, n)
    frames, picks, H, codes = clip
    n_channels = frames.shape[2]
    apart = np.float32(apart)
    for i in range(len(picks)):
        t = picks[i]
        for at in range(len(pixels)):
            pixel = pixels[at]
            to_first = to_other = np.float32(0)
            for c in range(n_channels):
                # The value as it would be under the typical illumination.
                y = np.float32(frames[t, pixel, c])
                for component in range(codes.shape[0]):
                    y += (typical[component] - codes[component, t]) * H[component, pixel, c]
                to_first = max(to_first, abs(y - np.float32(first[pixel, c])))
                to_other = max(to_other, abs(y - np.float32(other[pixel, c])))
            near = min(to_first, to_other) < apart
            sides[i, at] = np.int8(near & (to_other < to_first)) - np.int8(near & (to_first < to_other))


@kernel(part=True)
def _densest_level(y, grey, w, order, near, level, away, apart):  # type: ignore[no-untyped-def]
    """Write the densest level of weighted samples to `level`, and return the weight of samples near it."""
    k, n_channels = y.shape
    best = np.float32(0)
    low = high = 0  # the best window: order[low] to order[high - 1]
    i = 0  # where the present window begins; it ends at j
    inside = np.float32(0)  # weight of the samples in it that count
    for j in range(k):
        if _is_far(y[order[j]], away, apart):
            inside += w[order[j]]
        while grey[order[j]] - grey[order[i]] > 2 * near:
            if _is_far(y[order[i]], away, apart):
                inside -= w[order[i]]
            i += 1
        if inside > best:
            best, low, high = inside, i, j + 1
    if best <= 0:
        return best
    # The level is the weighted mean of the window; its support is the weight of samples near it in all channels.
    for c in range(n_channels):
        level[c] = 0
        for at in range(low, high):
            if _is_far(y[order[at]], away, apart):
                level[c] += w[order[at]] * y[order[at], c]
        level[c] /= best
    support = np.float32(0)
    for at in range(low, high):
        belongs = _is_far(y[order[at]], away, apart)
        for c in range(n_channels):
            belongs = belongs and abs(y[order[at], c] - level[c]) <= 1.5 * near
        if belongs:
            support += w[order[at]]
    return support


@kernel(part=True)
def _is_far(sample, away, apart):  # type: ignore[no-untyped-def]
    """Return whether a channel of `sample` is further than `apart` from that of `away`."""
    far = False
    for c in range(len(sample)):
        far = far or abs(sample[c] - away[c]) > apart
    return far


@kernel(part=True)
def _pixel_residuals(clip, pixel, y):  # type: ignore[no-untyped-def]
    """Write to `y` (k, n_channels) a pixel of the picked frames less its background, which is at most white."""
    frames, picks, H, codes = clip  # (n, n_pixels, n_channels), (k,), (r, n_pixels, n_channels) and (r, n)
    for i in range(len(picks)):
        t = picks[i]
        for c in range(y.shape[1]):
            b = np.float32(0)
            for component in range(codes.shape[0]):
                b += codes[component, t] * H[component, pixel, c]
            y[i, c] = np.float32(frames[t, pixel, c]) - min(b, np.float32(255))


@kernel(part=True)
def _subtract_background(values, components, codes, t, first, residual):  # type: ignore[no-untyped-def]
    """Write the residual of frame `t` to `residual` (m,), from value `first` on; the background is at most white."""
    # `values` (n, n_values) are the flattened frames; `components` (r, n_values) and `codes` (r, n) give their
    # background.
    last = first + len(residual)
    row, white = values[t, first:last], np.float32(255)
    for v in range(len(residual)):
        residual[v] = 0
    for component in range(codes.shape[0]):
        h, code = components[component, first:last], codes[component, t]
        for v in range(len(residual)):
            residual[v] += code * h[v]
    for v in range(len(residual)):
        residual[v] = np.float32(row[v]) - min(residual[v], white)
