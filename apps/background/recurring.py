"""What comes back: values that a pixel takes again and again, as behind branches in the wind, belong to the scene.

A tree near the camera sways by more than smoothing can level (:mod:`.sway`). Its pixels do not show one scene but
several values in turn; after Kim, Chalidabhongse, Harwood and Davis, "Real-time foreground-background segmentation
using codebook model" (2005), what returns all over the clip is background, what was there once is not. Two questions:

- **Where.** A clip is cut into parts. Where the scene sways, most of what differs from it in one part is seen at the
  same pixel in each of the others, too; and it displaces the picture here and there, so that its mean over a large
  neighbourhood stays. People who rest or fidget, and traffic, do not pass both.
- **What.** There, the values that most often go and come back, so many that they explain what is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._jit import kernel
from visionnmf.engine.blocks import blocks, map_blocks

__all__ = ["LEVELS", "Recurring", "find_recurring"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]
Shorts = NDArray[np.int16]

FEWEST = 25  # frames, of which each part has five
NARROWEST = 160  # pixels: in smaller pictures objects are no larger than what sways
GRID = 160  # pixels: the first question is asked on a grid about so wide
AWAY = 20.0  # grey levels: what differs by more is not the scene
RADIUS = 18.0  # grey levels within which two values are one
GREY = 0.5  # times the radius without colour, where values meet by chance
PARTS = 5  # of the clip
RESTLESS = 0.15, 0.1  # of the frames, away from the scene: from which share on, and how far above surely
RETURNS = 0.2, 0.1  # of what is away, seen in each part: from which share on, and how far above surely
SURVIVES = 0.45, 0.05  # of the energy, after smoothing: below which share, and how far below surely
SMOOTHING = 6.0  # pixels of the grid: standard deviation of that smoothing, larger than branches
CAP, SMOOTH_CAP = 40.0, 25.0  # grey levels: more counts as much
ENERGY = 4.0  # squared grey levels, of rounding
AROUND, AROUND_ENERGY, FEATHER = 17, 23, 5  # pixels of the grid: the neighbourhoods, and the border of the result
MOST_SHARE = 0.85  # of the picture: where more is restless, nothing is left that it could be told from
LEAST_SHARE = 0.02  # of the picture: less may be chance
LEVELS = 5  # a pixel, at most
TIMES, TIMES_SHARE = 3, 0.05  # that a value comes back, and of the number of frames: the larger of the two
GAP = 2  # frames that a value may be absent between, as if it had stayed
BLOCK_PIXELS = 1024
SCENE = -1  # in place of a sample: the background, from which samples are differences


@dataclass(frozen=True)
class Recurring:
    """Values that come back.

    Attributes
    ----------
    pixels : ndarray of int64 (m,)
        Where: positions in the flattened picture, ascending.
    share : ndarray of float32 (m,), 0 to 1
        How sure it is that the scene sways there.
    levels : ndarray of int16 (m, LEVELS, channels)
        The values, as differences from the modelled background; 0 where there are fewer.
    """

    pixels: NDArray[np.int64]
    share: Floats
    levels: Shorts


@kernel
def subtract_background(frames, H, codes, pixels, values):  # type: ignore[no-untyped-def]
    """Write the differences from the background at some pixels.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, n_channels)
    H : ndarray of float32 (r, n_pixels, n_channels)
    codes : ndarray of float32 (r, n)
    pixels : ndarray of int (m,)
    values : ndarray of int16 (m, n, n_channels)
    """
    for i in range(len(pixels)):
        pixel = pixels[i]
        for t in range(frames.shape[0]):
            for c in range(frames.shape[2]):
                shown = np.float32(0)
                for component in range(codes.shape[0]):
                    shown += codes[component, t] * H[component, pixel, c]
                values[i, t, c] = np.int16(np.rint(np.float32(frames[t, pixel, c]) - min(shown, np.float32(255))))


@kernel
def measure_returns(values, radius, away, parts, returned, start, stop):  # type: ignore[no-untyped-def]
    """Measure which part of what differs from the scene is seen in all parts of the clip.

    Parameters
    ----------
    values : ndarray of int16 (n_pixels, k, n_channels)
        Differences from the background, in the order of the frames.
    radius, away : float
        RADIUS and AWAY: root mean squares over channels.
    parts : int
    returned : ndarray of float32 (2, n_pixels)
        Gets the share of frames away from the scene, and of those that are seen in all parts.
    start, stop : int
    """
    k, n_channels = values.shape[1:]
    near, far = np.float32(radius * radius * n_channels), np.float32(away * away * n_channels)
    for pixel in range(start, stop):
        y = values[pixel]
        n_away = n_returned = 0
        for j in range(k):
            if _distance(y, j, SCENE) <= far:
                continue
            n_away += 1
            everywhere = True
            part = 0
            while everywhere and part < parts:
                found = False
                for i in range(part * k // parts, (part + 1) * k // parts):
                    if _distance(y, i, j) <= near:
                        found = True
                        break
                everywhere = found
                part += 1
            n_returned += everywhere
        returned[0, pixel] = np.float32(n_away) / np.float32(k)
        returned[1, pixel] = np.float32(n_returned) / np.float32(k)


@kernel(allocates=True)
def find_returning(values, radius, away, times, gap, levels, start, stop):  # type: ignore[no-untyped-def]
    """Find the values that most often go and come back.

    The one whose neighbours within `radius` come in most episodes is the first; the next is that among what is left.

    Parameters
    ----------
    values, radius, away
        As those of :func:`measure_returns`.
    times : int
        Episodes, at least.
    gap : int
        Frames between two that are one episode.
    levels : ndarray of int16 (n_pixels, n_levels, n_channels)
        Gets the means of the neighbours, 0 where there are fewer values.
    start, stop : int
    """
    k, n_channels = values.shape[1:]
    near, far = np.float32(radius * radius * n_channels), np.float32(away * away * n_channels)
    left = np.empty(k, np.int64)
    alike = np.empty((k, k), np.bool_)
    total = np.empty(n_channels, np.float32)
    for pixel in range(start, stop):
        y = values[pixel]
        n = 0
        for j in range(k):
            if _distance(y, j, SCENE) > far:
                left[n] = j
                n += 1
        for a in range(n):
            i = left[a]
            alike[i, i] = True
            for b in range(a):
                alike[i, left[b]] = alike[left[b], i] = _distance(y, i, left[b]) <= near
        for level in range(levels.shape[1]):
            most = best = 0
            for a in range(n):
                episodes, last = 0, -gap - 2
                for b in range(n):
                    if alike[left[a], left[b]]:
                        episodes += left[b] - last > gap + 1
                        last = left[b]
                if episodes > most:
                    most, best = episodes, left[a]
            if most < times:
                levels[pixel, level:] = 0
                break
            count = stay = 0
            total[:] = 0
            for b in range(n):
                if alike[best, left[b]]:
                    count += 1
                    for c in range(n_channels):
                        total[c] += y[left[b], c]
                else:
                    left[stay] = left[b]
                    stay += 1
            n = stay
            for c in range(n_channels):
                levels[pixel, level, c] = np.int16(np.rint(total[c] / np.float32(count)))


@kernel(part=True)
def _distance(y, i, j):  # type: ignore[no-untyped-def]
    """Return the squared distance of sample `i` of a pixel's `y` (n, n_channels) from its sample `j`.

    Where `j` is SCENE, it is the distance from the scene.
    """
    total = np.float32(0)
    for c in range(y.shape[1]):
        difference = np.float32(y[i, c]) - (np.float32(0) if j == SCENE else np.float32(y[j, c]))
        total += difference * difference
    return total


def find_recurring(frames: FrameArray, H: Floats, Wt: Floats, shape: tuple[int, ...]) -> Recurring | None:
    """Find what comes back where the scene sways.

    Parameters
    ----------
    frames : ndarray of uint8 (n, n_pixels, channels)
    H : ndarray of float32 (n_components, n_pixels, channels)
    Wt : ndarray of float32 (n_components, n)
    shape : (int, int)
        Height and width.

    Returns
    -------
    Recurring or None
        None where nothing does.
    """
    n, _, channels = frames.shape
    if n < FEWEST or shape[1] < NARROWEST:
        return None
    radius = RADIUS * (1 if channels > 1 else GREY)
    share = _share(frames, H, Wt, shape, radius)
    if share is None:
        return None
    pixels = np.flatnonzero(share)
    levels = np.empty((len(pixels), LEVELS, channels), np.int16)
    times = max(TIMES, round(TIMES_SHARE * n))

    def fill(block: tuple[int, int]) -> None:
        part = slice(*block)
        values = _differences(frames, H, Wt, pixels[part])
        find_returning(values, radius, AWAY, times, GAP, levels[part], 0, len(values))

    map_blocks(fill, blocks(len(pixels), BLOCK_PIXELS))
    return Recurring(pixels.astype(np.int64), share.ravel()[pixels], levels)


def _differences(frames: FrameArray, H: Floats, Wt: Floats, pixels: NDArray[np.intp]) -> Shorts:
    """Return the differences from the background at some pixels (n_pixels, n, channels)."""
    values = np.empty((len(pixels), len(frames), frames.shape[2]), np.int16)
    subtract_background(frames, H, Wt, pixels, values)
    return values


def _share(frames: FrameArray, H: Floats, Wt: Floats, shape: tuple[int, ...], radius: float) -> Floats | None:
    """Return how sure it is that the scene sways (height, width), or None where it nowhere does."""
    step = max(1, shape[1] // GRID)
    # in the middle of the step; a picture may be lower than half of it
    rows, columns = (np.arange(min(step // 2, (side - 1) // 2), side, step) for side in shape)
    grid = (rows[:, None] * shape[1] + columns).ravel()
    small = len(rows), len(columns)
    values = np.empty((len(grid), len(frames), frames.shape[2]), np.int16)
    returned = np.empty((2, len(grid)), np.float32)

    def fill(block: tuple[int, int]) -> None:
        part = slice(*block)
        values[part] = _differences(frames, H, Wt, grid[part])
        measure_returns(values, radius, AWAY, PARTS, returned, *block)

    map_blocks(fill, blocks(len(grid), BLOCK_PIXELS))
    away, back = (np.asarray(cv2.blur(each.reshape(small), (AROUND, AROUND)), np.float32) for each in returned)
    if not (away > RESTLESS[0]).any() or (away > RESTLESS[0]).mean() > MOST_SHARE:
        return None
    certain = _ramp(back / (away + 0.01), RETURNS) * _ramp(away, RESTLESS)
    if certain.mean() < LEAST_SHARE:
        return None
    certain *= np.clip((SURVIVES[0] - _survives(values, small)) / SURVIVES[1], 0, 1)
    certain = np.asarray(cv2.blur(certain.astype(np.float32), (FEATHER, FEATHER)), np.float32)
    if certain.mean() < LEAST_SHARE:
        return None
    share = cv2.resize(certain, shape[::-1], interpolation=cv2.INTER_LINEAR)
    return np.clip(np.asarray(share, np.float32), 0, 1)  # running sums of a blur may round beyond


def _ramp(values: Floats, bounds: tuple[float, float]) -> Floats:
    return np.clip((values - bounds[0]) / bounds[1], 0, 1)


def _survives(values: Shorts, shape: tuple[int, int]) -> Floats:
    """Return the share of energy that survives smoothing (height, width) of values (n_pixels, n, channels)."""
    kept, energy = np.zeros((2, *shape), np.float32)
    channels = values.shape[2]
    for t in range(values.shape[1]):
        planes = [values[:, t, c].astype(np.float32).reshape(shape) for c in range(channels)]
        energy += np.minimum(sum(plane * plane for plane in planes) / channels, CAP * CAP)
        smooth = np.abs(cv2.GaussianBlur(sum(planes) / channels, (0, 0), SMOOTHING))
        kept += np.minimum(smooth, SMOOTH_CAP) ** 2
    side = AROUND_ENERGY, AROUND_ENERGY
    return np.asarray(cv2.blur(kept, side) / (cv2.blur(energy, side) + ENERGY * values.shape[1]), np.float32)
