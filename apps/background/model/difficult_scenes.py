"""The parts of the model for difficult scenes: camera shake, dynamic background, alternating modes.

**Camera shake.** The displacement of each frame from the scene is found by Gauss-Newton steps on the squared difference
at pixels with strong gradients, from coarse to fine. Pixels that differ much have little weight, so that what passes in
front does not count. Frames are first brought to the illumination of the scene.

**Dynamic background** are leaves, water and reflections that move without going anywhere. What is displaced a little
differs from the scene, above it in one place as much as below it in the next, so that the mean over a neighbourhood
stays. What passes in front shifts the mean. The share of the residual's energy that survives smoothing, over the clip,
tells the two apart.

**Alternating modes.** The learnt scene is a weighted median, which something that hides a pixel most of the time, or
many things in turn, draw away from it. Under the capped loss ``sum_t m_t min(|y_t|, cap)`` the scene is where most
still samples agree, however far away the others are: that level replaces the median where it has much more support.
Where samples have a second level, as before and after someone leaves, the scene is the level that continues the picture
around it: an object has a contour, the scene behind it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray, channel_mean, temporal_median, to_uint8
from visionnmf.apps.background.kernels import (
    assign_levels,
    find_candidates,
    find_levels,
    find_shift,
    measure_residuals,
    rank_residuals,
)
from visionnmf.engine.blocks import blocks, map_blocks

__all__ = [
    *("DynamicBackground", "Registration", "correct_scene", "find_camera_shake", "find_dynamic_background"),
    *("shifted", "smoothed_size"),
]

Flags = NDArray[np.bool_]
Pixels = NDArray[np.intp]


# --- Camera shake ----------------------------------------------------------------------------------------------------


class _Level(NamedTuple):
    """One level of the scene's pyramid: the picture, and positions and gradients of the pixels that are used."""

    scene: Floats  # (height, width) of this level, smoothed
    rows: NDArray[np.intp]  # (n_used,): rows and columns of the pixels with the strongest gradients
    columns: NDArray[np.intp]
    down: Floats  # (n_used,): gradients of the scene there, in grey levels for each pixel down and right
    right: Floats


class Registration:
    """Registers frames to a grey scene, an array of float32 (height, width)."""

    def __init__(self, scene: Floats) -> None:
        self.scene = scene

    def check(self) -> None:
        """Raise ValueError if the scene, as one read from a file may be, is too small for the levels of its pyramid."""
        smallest = tuning.TUNING.camera_shake.smallest
        if min(self.scene.shape) < smallest:
            raise ValueError(f"frames must have at least {smallest} pixels a side where the camera shakes")

    @cached_property
    def _levels(self) -> list[_Level]:
        """The levels of the scene's pyramid, from coarse to fine, computed when they are first used."""
        return [_level(self.scene, times) for times in tuning.TUNING.camera_shake.levels]

    @cached_property
    def _bright(self) -> tuple[NDArray[np.bool_], Floats]:
        """Where the scene's thumbnail is bright, in a dark scene its brighter half, and its values there."""
        scene = _thumbnail(self.scene)
        bright = scene > min(tuning.TUNING.camera_shake.dark, float(np.median(scene)))
        return bright, scene[bright]

    def shift(self, frame: FrameArray) -> tuple[float, float]:
        """Return how many pixels right and down a frame (height, width[, channels]) is displaced from the scene."""
        return self.compare(frame)[0]

    def compare(self, frame: FrameArray) -> tuple[tuple[float, float], float, float]:
        """Return the displacement, and the mean difference at gradients without and with it.

        The displacement (right, down) is in pixels of the frame. It is (0, 0) if the search runs far away, or if the
        shift hardly reduces the difference.
        """
        shake = tuning.TUNING.camera_shake
        grey = self._in_illumination_of_scene(channel_mean(frame).astype(np.float32))
        limit = min(grey.shape) / 4
        finest = _reduced(grey, shake.levels[-1])
        # No steps: this only measures the difference without a displacement, on the finest level.
        before = after = self._align(finest, -1, np.zeros(2), 0, shake.outlier)
        found = np.zeros(2)
        for level, times in enumerate(shake.levels):
            found /= times  # in pixels of this level, and back again below
            # On coarse levels, where the shift is not known yet, larger differences still count.
            outlier = shake.outlier if times == 1 else 2 * shake.outlier
            smaller = finest if times == shake.levels[-1] else _reduced(grey, times)
            after = self._align(smaller, level, found, shake.steps, outlier)
            found *= times
            if not (np.abs(found) < limit).all():
                return (0.0, 0.0), before, before
        if after > shake.worth * before:
            return (0.0, 0.0), before, before
        return (float(found[0]), float(found[1])), before, after

    def _align(self, frame: Floats, level: int, shift: NDArray[np.float64], steps: int, outlier: float) -> float:
        """Improve `shift` in place on one level of the pyramid; return the difference that is left."""
        return float(find_shift(frame, *self._levels[level], shift, steps, outlier, tuning.TUNING.camera_shake.cap))

    def _in_illumination_of_scene(self, grey: Floats) -> Floats:
        """Return a grey frame scaled by the median ratio of its thumbnail to the scene's, where that is bright."""
        bright, scene = self._bright
        ratio = float(np.median(_thumbnail(grey)[bright] / scene)) if len(scene) else 1.0
        return grey if ratio <= 0 else grey * np.float32(1 / ratio)


def _thumbnail(grey: Floats) -> Floats:
    """Return a grey picture at a small fraction of its size, in which camera shake is hardly visible."""
    times = tuning.TUNING.camera_shake.thumbnail
    size = max(1, grey.shape[1] // times), max(1, grey.shape[0] // times)
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)


def _most_typical(frames: list[FrameArray]) -> int:
    """Return which frame (height, width, channels) has the thumbnail that correlates best with the median of all."""
    small = np.array([_thumbnail(channel_mean(frame).astype(np.float32)).ravel() for frame in frames])
    small -= small.mean(axis=1, keepdims=True)
    small /= np.maximum(small.std(axis=1, keepdims=True), 1)
    return int(np.argmax(np.einsum("ip,p->i", small, np.median(small, axis=0))))


def _reduced(grey: Floats, times: int) -> Floats:
    """Return a smoothed picture, `times` smaller."""
    if times > 1:
        size = grey.shape[1] // times, grey.shape[0] // times
        grey = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)
    return np.asarray(cv2.GaussianBlur(grey, (0, 0), 1), np.float32)


def _level(scene: Floats, times: int) -> _Level:
    """Return a level of the pyramid, reduced `times`: the scene, and its gradients where they are strongest."""
    shake = tuning.TUNING.camera_shake
    smooth = _reduced(scene, times)
    right, down = (np.asarray(cv2.Sobel(smooth, cv2.CV_32F, x, 1 - x, scale=1 / 8), np.float32) for x in (1, 0))
    strength = np.zeros_like(smooth)
    margin = max(2, shake.margin // times)
    inner = (slice(margin, -margin),) * 2
    # Gradients near the border, where the frame may show something else, stay 0; others count up to a bound.
    strength[inner] = np.minimum(np.hypot(right, down), shake.strongest)[inner]
    count = min(shake.pixels, strength.size // 4)
    at = np.sort(np.argsort(-strength, axis=None, kind="stable")[:count])
    rows, columns = np.divmod(at, strength.shape[1])
    return _Level(smooth, rows, columns, down[rows, columns], right[rows, columns])


def find_camera_shake(frames: FrameArray) -> Registration | None:
    """Return the registration of frames (n, height, width, channels) where the camera shakes.

    The result is None where it stands still, or where too little is seen to say.
    """
    shake = tuning.TUNING.camera_shake
    n = len(frames)
    if n < shake.fewest_frames or min(frames.shape[1:3]) < shake.smallest:
        return None
    asked = [frames[t] for t in np.linspace(0, n - 1, min(n, shake.asked)).round().astype(int)]
    # Some frames are compared with a typical one. If shifts explain much of their difference, the camera shakes, and
    # the scene to register to is the median of these frames once they are registered.
    first = Registration(channel_mean(asked[_most_typical(asked)]).astype(np.float32))
    found = [first.compare(frame) for frame in asked]
    shifts = np.array([shift for shift, _, _ in found])
    shifts -= np.median(shifts, axis=0)  # relative to the usual position of the camera
    explained = 1 - np.median([after / max(before, 1e-3) for _, before, after in found])
    if not (np.median(np.abs(shifts).max(axis=1)) > shake.shakes and explained > shake.explained):
        return None
    registered = np.empty((len(asked), *frames.shape[1:3]), np.uint8)
    for grey, frame, (x, y) in zip(registered, asked, shifts, strict=True):
        grey[:] = channel_mean(shifted(frame, (x, y)))
    return Registration(temporal_median(registered))


def shifted(picture: FrameArray, shift: tuple[float, float], *, mask: bool = False) -> FrameArray:
    """Return the picture that shows at ``p`` what the given one shows at ``p + shift``, (right, down) in pixels.

    Beyond the border the pixels of the border are repeated. The values of a `mask` are not interpolated.
    """
    matrix = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float32)
    flags = cv2.WARP_INVERSE_MAP | (cv2.INTER_NEAREST if mask else cv2.INTER_LINEAR)
    size = picture.shape[1], picture.shape[0]
    moved = cv2.warpAffine(picture, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.uint8).reshape(picture.shape)


# --- Dynamic background ----------------------------------------------------------------------------------------------


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
    """Measure the residuals, frame less background of the model, over the k frames that are picked.

    Returns the sizes of the smoothed residuals (k, height / 2, width / 2) in grey levels, the energies (height, width),
    which are the means over frames of the residual's mean square over channels, each capped at ``cap ** 2``, and in how
    many frames its root mean square is above `limit` (height, width).
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
            """Measure the frames `some` at the pixels of a block: fill `means` there, add to `energy` and `above`."""
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
    """Return a quantile (0 to 1) of the residual over the measured frames (height, width), and 0 outside `where`."""
    usual = np.zeros(where.size, np.float32)
    pixels = np.flatnonzero(where)

    def fill(block: tuple[int, int]) -> None:
        """Write the quantile at the pixels of a block of those in `where`."""
        rank = _rank(quantile, len(what.picks))
        rank_residuals(what.frames, what.picks, what.H, what.Wt, rank, pixels[slice(*block)], usual)

    map_blocks(fill, blocks(len(pixels), tuning.TUNING.dynamic_background.block_pixels))
    return usual.reshape(where.shape)


def find_dynamic_background(
    frames: FrameArray, H: Floats, Wt: Floats, noise: Floats, scale: Floats
) -> DynamicBackground | None:
    """Find where the background moves, or None where it nowhere does.

    `frames` has shape (n, n_pixels, channels), `H` (n_components, n_pixels, channels) and `Wt` (n_components, n).
    `noise` and `scale` (height, width) are the noise of neighbouring frames and the same within its bounds.
    """
    dynamic = tuning.TUNING.dynamic_background
    n, n_pixels, _ = frames.shape
    height, width = shape = noise.shape
    if width < dynamic.narrowest:
        return None
    asked = min(n, dynamic.frames, max(dynamic.fewest_frames, dynamic.values // n_pixels))
    what = _Measured(frames, np.linspace(0, n - 1, asked).round().astype(int), H, Wt)
    share, sizes = _certainty(what, dynamic.restless * scale)
    if share.mean() < dynamic.least_share:  # so little of the picture may be chance
        return None
    typical = np.median(sizes, axis=0, overwrite_input=True)
    del sizes  # frees much memory where pictures are large
    usual = dynamic.typical * cv2.resize(typical, (width, height), interpolation=cv2.INTER_LINEAR)
    wide = dynamic.wider * _quantile(what, dynamic.quantile, np.ones(shape, bool))
    np.clip(np.maximum(wide, noise, out=wide), scale, dynamic.widest, out=wide)
    return DynamicBackground(share, wide, np.asarray(np.maximum(dynamic.least, usual), np.float32))


def _certainty(what: _Measured, usual: Floats) -> tuple[Floats, Floats]:
    """Return how certain it is that the background moves (height, width), and the sizes of the smoothed residuals.

    `usual` (height, width) is the usual noise of each pixel. The background moves where little of the residual's energy
    survives smoothing and the residual is above `usual` in many frames. The sizes are (k, height / 2, width / 2).
    """
    dynamic = tuning.TUNING.dynamic_background
    height, width = usual.shape
    asked = len(what.picks)
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


# --- Alternating modes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Levels:
    """The two colours (levels) between which each pixel alternates, and the frames in which they are measured."""

    frames: FrameArray  # (n, n_pixels, channels)
    picks: Pixels  # the frames that are measured
    H: Floats  # (n_components, n_pixels, channels): components of the background
    Wt: Floats  # (n_components, n): their codes
    typical: Floats  # codes of the illumination in which the levels are seen
    first: FrameArray  # (n_pixels, channels)
    other: FrameArray  # (n_pixels, channels); the same as `first` where there is no second level
    replaced: Flags  # where `first` is not the modelled background
    found: Flags  # where there is a second level

    def sides(self, pixels: Pixels) -> NDArray[np.int8]:
        """Return, of shape (len(picks), len(pixels)), the level that each picked frame shows at some pixels.

        It is -1 for the first level, 1 for the second, and 0 for neither. A value is first corrected for the difference
        between the illumination of its frame and `typical`. It is neither if it is further than `apart` from both.
        """
        result = np.empty((len(self.picks), len(pixels)), np.int8)
        model = self.frames, self.picks, self.H, self.Wt, self.typical
        assign_levels(*model, self.first, self.other, tuning.TUNING.alternating_modes.apart, pixels, result)
        return result


def correct_scene(frames: FrameArray, weights: FrameArray, H: Floats, Wt: Floats, shape: tuple[int, ...]) -> Floats:
    """Correct the components `H` (n_components, n_pixels, channels) in place, and return them.

    `frames` (n, n_pixels, channels) have the codes `Wt` (n_components, n); `weights` (n, n_pixels), from 1 to 255, say
    how still each pixel is; `shape` is (height, width). Where a pixel shows several levels in turn, the components get
    the one that is the scene, unless the frames are too few, or of too different illumination, to say.
    """
    modes = tuning.TUNING.alternating_modes
    # Levels are compared over frames whose illumination, the sum of their codes, is near the median.
    total = Wt.sum(axis=0)
    low, high = (bound * float(np.median(total)) for bound in modes.illumination)
    picks = np.flatnonzero((total >= low) & (total <= high))
    if len(picks) < max(modes.fewest_frames, modes.share_in_illumination * len(total)):
        return H
    picks = picks[np.linspace(0, len(picks) - 1, min(len(picks), modes.frames)).round().astype(int)]
    levels = _find_levels(frames, weights, picks, H, Wt)
    _drop_isolated(levels, shape)
    second = _second_is_scene(levels, shape)
    levels.first[second] = levels.other[second]
    changed = np.flatnonzero(levels.replaced | second)
    if len(changed):
        _show(H, levels.first, levels.typical, changed, shape)
    return H


def _find_levels(frames: FrameArray, weights: FrameArray, picks: Pixels, H: Floats, Wt: Floats) -> _Levels:
    """Find the levels of all pixels, in bytes and block by block to bound the memory of large pictures.

    A level is a colour that a pixel shows in many of the frames `picks`; the arguments are those of `correct_scene`.
    """
    modes = tuning.TUNING.alternating_modes
    n_pixels, channels = frames.shape[1:]
    typical = np.median(Wt[:, picks], axis=1).astype(np.float32)
    # The attributes of `_Levels`, filled block by block below.
    first, other = np.empty((2, n_pixels, channels), np.uint8)
    replaced, found = np.zeros((2, n_pixels), np.bool_)
    # A table from weights in bytes to sharper ones from 0 to 1: what moves a little counts much less.
    still = np.arange(256, dtype=np.float32) / 255
    sharp = still / (modes.sharpen - (modes.sharpen - 1) * still)

    def fill(block: tuple[int, int]) -> None:
        """Find the levels of the pixels from block[0] to block[1]; a fast kernel first finds the few that need it."""
        start, stop = block
        first[start:stop] = other[start:stop] = to_uint8(_shown(H[:, start:stop], typical))  # the modelled level
        w = np.asarray(cv2.LUT(weights[picks, start:stop], sharp), np.float32)  # (k, m), 0 to 1: how still they are
        scratch = np.empty((stop - start) * channels, np.float32), np.empty((4, stop - start), np.float32)
        asked = np.empty(stop - start, np.bool_)  # which pixels may have another level
        limits = modes.near, modes.apart, modes.held
        find_candidates(frames, w, picks, H, Wt, *limits, modes.second_share, *scratch, asked, start)
        at = np.flatnonzero(asked)
        if not len(at):
            return
        # A one-column slice is already contiguous, a wider one is not. Copying avoids compiling the kernel twice.
        w = np.ascontiguousarray(w[:, at])
        levels, share = np.empty((2, len(at), channels), np.float32), np.empty(len(at), np.float32)
        at += start  # from positions in the block to pixels
        strength = modes.stronger, modes.second_share
        find_levels(frames, w, picks, H, Wt, *limits, *strength, levels[0], levels[1], share, at)
        replaced[at], found[at] = (levels[0] != 0).any(axis=1), share > 0  # another first level; a second one
        first[at], other[at] = to_uint8(levels + _shown(H[:, at], typical))

    map_blocks(fill, blocks(n_pixels, tuning.TUNING.sample.block_pixels))
    return _Levels(frames, picks, H, Wt, typical, first, other, replaced, found)


def _drop_isolated(levels: _Levels, shape: tuple[int, ...]) -> None:
    """Put the modelled background back, in `levels`, where the neighbours of a replaced level are not replaced."""
    alone = np.flatnonzero(levels.replaced)
    # The median over 5 by 5 pixels clears flags that most neighbours do not share.
    levels.replaced[:] = cv2.medianBlur(levels.replaced.reshape(shape).astype(np.uint8), 5).ravel() > 0
    alone = alone[~levels.replaced[alone]]

    def put_back(block: tuple[int, int]) -> None:
        """Write the modelled background at a block of the isolated pixels `alone`."""
        at = alone[slice(*block)]
        levels.first[at] = to_uint8(_shown(levels.H[:, at], levels.typical))

    map_blocks(put_back, blocks(len(alone), tuning.TUNING.sample.block_pixels))


def _shown(H: Floats, codes: Floats) -> Floats:
    """Return what components (n_components, n_pixels, channels) show with codes (n_components,)."""
    return np.asarray(np.tensordot(codes, H, 1), np.float32)


def _show(H: Floats, scene: FrameArray, typical: Floats, pixels: Pixels, shape: tuple[int, ...]) -> None:
    """Make the components show a scene (n_pixels, channels) at some pixels.

    Each component becomes the scene times its illumination: the component over the typical picture, averaged over
    neighbourhoods, so that it is also known where the present scene is black.
    """
    side = max(shape) // 8 | 1  # of the neighbourhood, in pixels; odd

    def blurred(picture: Floats) -> Floats:
        """Return the means of a picture (n_pixels,) over neighbourhoods, at `pixels`."""
        return np.asarray(cv2.blur(picture.reshape(shape), (side, side)), np.float32).ravel()[pixels]

    means = H.mean(axis=(1, 2))
    overall = max(float(typical @ means), 1e-6)
    for c in range(H.shape[2]):  # one channel at a time, to bound the memory of large pictures
        usual = _shown(H[..., c], typical)
        below = blurred(usual)
        for component, mean in zip(H, means, strict=True):
            ratio = np.full_like(below, mean / overall)  # stays where the neighbourhood is too dark to divide by
            np.divide(blurred(np.ascontiguousarray(component[:, c])), below, ratio, where=below > 1)
            component[pixels, c] = scene[pixels, c] * ratio


def _second_is_scene(levels: _Levels, shape: tuple[int, ...]) -> Flags:
    """Return the pixels whose second level is the scene (n_pixels,).

    Each region in which there are two levels shows two pictures, as somebody was there or not. Which level belongs to
    which picture is read off from when they are seen. The picture with the weaker contour is the scene, unless neither
    is much weaker, or they take turns too often for something that rests.
    """
    modes = tuning.TUNING.alternating_modes
    height, width = shape
    found = levels.found.reshape(shape)
    count, labels, statistics, _ = cv2.connectedComponentsWithStats(_closed(found).astype(np.uint8))
    second = np.zeros(shape, bool)
    margin = 2 * modes.contour + 6  # pixels around a region that its contour and the blur of the contour reach
    for region in range(1, count):
        x, y, w, h, area = statistics[region]
        inside = (labels == region) & found
        # in small pictures a region may consist of a pixel that closing alone has found
        if area < modes.region_share * height * width or not inside.any():
            continue
        # turned, follows: of the pixels inside; `swap` spreads `turned` over the picture, and `inside` keeps only
        # pixels that change together with most of the region.
        turned, follows, changes = _pictures(np.flatnonzero(inside), levels)
        if changes > modes.changes:
            continue
        swap = np.zeros(shape, bool)
        swap[inside] = turned
        inside[inside] = follows
        box = slice(max(0, y - margin), y + h + margin), slice(max(0, x - margin), x + w + margin)
        contrasts = _contrasts(levels, inside, swap, box)
        if contrasts is None:
            continue
        present, absent = contrasts
        if min(present, absent) < modes.smoother * max(present, absent):
            # `swap` is where the first picture has the second level, its complement where the other picture does.
            second |= inside & (swap if present < absent else ~swap)
    return second.ravel()


def _contrasts(levels: _Levels, inside: Flags, swap: Flags, box: tuple[slice, slice]) -> tuple[float, float] | None:
    """Return the contrast at a region's contour of the two pictures, or None where the contour is too short.

    The first picture has the second level where `swap` is true and the first elsewhere; the other picture the rest.
    """
    modes = tuning.TUNING.alternating_modes
    first, other = (level.reshape(*inside.shape, -1)[box] for level in (levels.first, levels.other))
    inner, outer = _contour(_closed(inside[box]))
    counts = inside[box][inner] & ~inside[box][outer]  # pairs of which one pixel is in the region and one is not
    if np.count_nonzero(counts) < modes.contour_pixels:
        return None
    # Levels (n_pairs, channels): outside, and inside by the first and by the second level.
    around, here, beside = (
        level[at][counts].astype(np.float32) for level, at in ((first, outer), (first, inner), (other, inner))
    )
    swapped = swap[box][inner][counts][:, None]
    present, absent = (
        np.minimum(np.abs(picture - around).mean(axis=1), modes.contrast_cap).mean()
        for picture in (np.where(swapped, beside, here), np.where(swapped, here, beside))
    )
    return present, absent


def _closed(found: Flags) -> Flags:
    """Return found pixels (height, width) without single ones and small gaps."""
    clean = cv2.medianBlur(found.astype(np.uint8), 5)
    return cv2.morphologyEx(clean, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)) > 0


def _pictures(pixels: Pixels, levels: _Levels) -> tuple[Flags, Flags, int]:
    """Find which levels of a region's pixels are seen together.

    Returns where the second level belongs to the one picture and the first to the other (n_pixels,); which pixels show
    the one or the other picture, as most of the region does, rather than something of their own (n_pixels,); and how
    often the pictures change.
    """
    modes = tuning.TUNING.alternating_modes
    # few (k, n_few): which level each measured frame shows at some pixels of the region, -1, 0 or 1
    few = levels.sides(pixels[:: -(-len(pixels) // modes.course_pixels)]).astype(np.float32)
    centred = few - few.mean(axis=0)
    # (k,): the first principal component over frames, whose sign says which picture is seen. Pixels that run against
    # it are turned, so that the majority of pixels gives `together` (k,): 1 or -1, the picture of each frame.
    course = np.linalg.eigh(centred @ centred.T)[1][:, -1]
    few *= np.where(course @ few < 0, -1, 1)
    together = np.where(few.sum(axis=1) > 0, 1, -1).astype(np.float32)
    turned, follows = np.empty((2, len(pixels)), np.bool_)

    def fill(block: tuple[int, int]) -> None:
        """Set `turned` and `follows` for a block of the region's pixels."""
        part = slice(*block)
        shown = levels.sides(pixels[part]).astype(np.float32)  # (k, n_block): the level in each frame, -1, 0 or 1
        turned[part] = course @ shown < 0
        agreement = np.where(turned[part], -1, 1) * (together @ shown)
        follows[part] = agreement >= modes.follows * np.abs(shown).sum(axis=0)

    map_blocks(fill, blocks(len(pixels), tuning.TUNING.sample.block_pixels))
    return turned, follows, int(np.count_nonzero(together[1:] != together[:-1]))


def _contour(within: Flags) -> tuple[tuple[Pixels, ...], tuple[Pixels, ...]]:
    """Return (rows, columns) inside and (rows, columns) outside of a region's contour, pair by pair.

    Both pixels of a pair are `contour` pixels away from the contour, along its normal. Pairs with a pixel outside the
    picture are left out.
    """
    height, width = within.shape
    if not within.any() or within.all():
        nothing = np.empty(0, np.intp)
        return (nothing, nothing), (nothing, nothing)
    inside = within.astype(np.uint8)
    depth = cv2.distanceTransform(inside, cv2.DIST_L2, 5)
    # The smoothed signed distance in pixels, positive inside: its gradient (down, right) is the inward normal.
    signed = cv2.GaussianBlur(depth - cv2.distanceTransform(1 - inside, cv2.DIST_L2, 5), (0, 0), 2)
    rows, columns = np.nonzero((depth > 0) & (depth <= 1.5))  # inside, with a neighbour outside
    above, below = np.maximum(rows - 1, 0), np.minimum(rows + 1, height - 1)
    before, after = np.maximum(columns - 1, 0), np.minimum(columns + 1, width - 1)
    down = (signed[below, columns] - signed[above, columns]) / np.maximum(below - above, 1)
    right = (signed[rows, after] - signed[rows, before]) / np.maximum(after - before, 1)
    step = tuning.TUNING.alternating_modes.contour / (np.hypot(down, right) + 1e-6)
    move = (step * down).round().astype(int), (step * right).round().astype(int)
    inner, outer = (rows + move[0], columns + move[1]), (rows - move[0], columns - move[1])
    seen = np.ones(len(rows), bool)
    for y, x in (inner, outer):
        seen &= (y >= 0) & (y < height) & (x >= 0) & (x < width)
    return (inner[0][seen], inner[1][seen]), (outer[0][seen], outer[1][seen])
