"""What the learnt frames leave when the modelled background is subtracted, block of pixels by block: kernels.

:mod:`.sway` and :mod:`.modes` say what is asked of it.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

__all__ = ["measure_residual", "weigh_levels"]


@kernel
def measure_residual(  # type: ignore[no-untyped-def]
    frames, picks, H, codes, cap, limit, residual, size, means, energy, above, start
):
    """Measure the residual of some pixels, frame by frame.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, n_channels)
    picks : ndarray of int (k,)
    H : ndarray of float32 (r, n_pixels, n_channels)
    codes : ndarray of float32 (r, n)
    cap : float
    limit : ndarray of float32 (n_pixels,)
        Of the mean square over channels.
    residual : ndarray of float32 (m * n_channels,)
        Scratch.
    size : ndarray of float32 (2, m)
        Scratch.
    means : ndarray of int16 (k, n_pixels)
        Gets the mean over channels, in eighths of a grey level, of pixels ``start:start + m``.
    energy : ndarray of float32 (n_pixels,)
        The sum over frames of mean squares, of at most `cap`, is added.
    above : ndarray of uint8 (n_pixels,)
        The number of frames in which it is above `limit` is added.
    start : int
    """
    n, n_pixels, n_channels = frames.shape
    m = size.shape[1]
    first = start * n_channels
    values = frames.reshape(n, n_pixels * n_channels)
    components = H.reshape(H.shape[0], n_pixels * n_channels)
    most, channels = np.float32(cap * cap), np.float32(n_channels)
    mean, square, total = size[0], size[1], energy[start : start + m]
    bound, count = limit[start : start + m], above[start : start + m]
    for i in range(len(picks)):
        t = picks[i]
        shown = means[i, start : start + m]
        _subtract_shown(values, components, codes, t, first, residual)
        for p in range(m):
            mean[p] = square[p] = 0
        for c in range(n_channels):
            for p in range(m):
                y = residual[p * n_channels + c]
                mean[p] += y
                square[p] += y * y
        for p in range(m):
            shown[p] = np.int16(np.rint(np.float32(8) * mean[p] / channels))
            total[p] += min(square[p] / channels, most)
            count[p] += square[p] / channels > bound[p]


@kernel
def weigh_levels(  # type: ignore[no-untyped-def]
    frames, weights, picks, H, codes, near, apart, held, second, distances, support, asked, start
):
    """Tell which pixels may have another level than the present one, or one beside it, frame by frame.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, n_channels)
    weights : ndarray of float32 (k, m)
        Of the frames that are asked, at pixels ``start:start + m``.
    picks : ndarray of int (k,)
    H : ndarray of float32 (r, n_pixels, n_channels)
    codes : ndarray of float32 (r, n)
    near, apart, held, second : float
        NEAR, APART, HELD and SECOND_SHARE of :mod:`.modes`.
    distances : ndarray of float32 (m * n_channels,)
        Scratch.
    support : ndarray of float32 (4, m)
        Scratch: the weight of all samples, of those near the present level and of those apart from it; a distance.
    asked : ndarray of bool (m,)
        Gets the answer; where it is no, :func:`~visionnmf.apps.background.modes.find_levels` finds none.
    start : int
    """
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
        _subtract_shown(values, components, codes, t, first, distances)
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
    for p in range(m):
        enough = other[p] >= 0.999 * second * total[p]  # sums in another order differ by less
        asked[p] = (present[p] < (1 - second) * total[p]) & (enough | (present[p] < held * total[p]))


@kernel(part=True)
def _subtract_shown(values, components, codes, t, first, residual):  # type: ignore[no-untyped-def]
    """Write what frame `t` leaves, from value `first` on.

    Parameters
    ----------
    values : ndarray of uint8 (n, n_values)
        The frames.
    components : ndarray of float32 (r, n_values)
    codes : ndarray of float32 (r, n)
    t, first : int
    residual : ndarray of float32 (k,)
    """
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
