"""Alternating modes: which of several colours that a pixel shows in turn is the scene.

The level where most still samples agree replaces the median where it has much more support. Of two levels the scene
is the one that continues the picture around it: an object has a contour, the scene behind it has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray, to_uint8
from visionnmf.apps.background.kernels import LevelRules, ModelledFrames, assign_levels, find_candidates, find_levels
from visionnmf.engine.blocks import blocks, map_blocks

Flags = NDArray[np.bool_]
Pixels = NDArray[np.intp]


@dataclass(frozen=True)
class _Levels:
    """The colours (levels) that each pixel shows in many frames, at most two, and the frames that are measured."""

    clip: ModelledFrames
    typical_codes: Floats  # (n_components,): the usual illumination, in which the levels are given
    main: FrameArray  # (n_pixels, channels): the level that most frames show
    second: FrameArray  # (n_pixels, channels); the same as `main` where there is no second level
    replaced: Flags  # where `main` is another level than the modelled background
    found: Flags  # where there is a second level

    def sides(self, pixels: Pixels) -> NDArray[np.int8]:
        """Return the level (-1 main, 1 second, 0 neither) that each measured frame shows at some pixels."""
        result = np.empty((len(self.clip.picks), len(pixels)), np.int8)
        apart = tuning.TUNING.alternating_modes.apart
        assign_levels(self.clip, self.typical_codes, self.main, self.second, apart, pixels, result)
        return result


def correct_scene(frames: FrameArray, weights: FrameArray, H: Floats, Wt: Floats, shape: tuple[int, ...]) -> Floats:
    """Correct the components in place, and return them: where pixels show levels in turn, they get the scene's.

    `H` (n_components, n_pixels, channels) are the components and `Wt` (n_components, n) the codes of the `frames`.
    `weights` (n, n_pixels), from 1 to 255, say how still each pixel is; `shape` is (height, width). Nothing changes if
    the frames are too few, or of too different illumination, to say.
    """
    modes = tuning.TUNING.alternating_modes
    # Levels are compared over frames whose illumination, the sum of their codes, is near the median.
    total = Wt.sum(axis=0)
    low, high = (bound * float(np.median(total)) for bound in modes.illumination)
    picks = np.flatnonzero((total >= low) & (total <= high))
    if len(picks) < max(modes.fewest_frames, modes.share_in_illumination * len(total)):
        return H
    picks = picks[np.linspace(0, len(picks) - 1, min(len(picks), modes.frames)).round().astype(int)]
    levels = _find_levels(ModelledFrames(frames, picks, H, Wt), weights)
    _drop_isolated(levels, shape)  # single replaced pixels are noise
    use_second = _second_is_scene(levels, shape)  # (n_pixels,) flags
    levels.main[use_second] = levels.second[use_second]  # now `main` is the scene everywhere
    changed = np.flatnonzero(levels.replaced | use_second)  # pixels whose scene is not what the components show
    if len(changed):
        _show(H, levels.main, levels.typical_codes, changed, shape)
    return H


def _find_levels(clip: ModelledFrames, weights: FrameArray) -> _Levels:
    """Find the levels, colours that a pixel shows in many of the measured frames, block by block to save memory."""
    modes = tuning.TUNING.alternating_modes
    rules = LevelRules(modes.near, modes.apart, modes.held, modes.stronger, modes.second_share)
    picks, H = clip.picks, clip.H
    n_pixels, channels = clip.frames.shape[1:]
    typical_codes = np.median(clip.codes[:, picks], axis=1).astype(np.float32)
    main, second = np.empty((2, n_pixels, channels), np.uint8)
    replaced, found = np.zeros((2, n_pixels), np.bool_)
    # A table from weights in bytes to sharper ones from 0 to 1: what moves a little counts much less.
    still = np.arange(256, dtype=np.float32) / 255
    sharp = still / (modes.sharpen - (modes.sharpen - 1) * still)

    def fill(block: tuple[int, int]) -> None:
        """Write the colours that a block of pixels shows in many frames, `main` and `second`, and flags on them."""
        start, stop = block
        main[start:stop] = second[start:stop] = to_uint8(_shown(H[:, start:stop], typical_codes))  # the modelled level
        # (k, m), 0 to 1: how still the pixels are in the measured frames `picks`; the table `sharp` favours still ones
        w = np.asarray(cv2.LUT(weights[picks, start:stop], sharp), np.float32)
        scratch = np.empty((stop - start) * channels, np.float32), np.empty((4, stop - start), np.float32)
        asked = np.empty(stop - start, np.bool_)  # which pixels may have another level
        find_candidates(clip, w, rules, *scratch, asked, start)
        at = np.flatnonzero(asked)
        if not len(at):
            return
        # A one-column slice is already contiguous, a wider one is not. Copying avoids compiling the kernel twice.
        w = np.ascontiguousarray(w[:, at])
        # main and second level as differences from the modelled one; 0: it stays the main one, or there is no second
        levels, share = np.empty((2, len(at), channels), np.float32), np.empty(len(at), np.float32)
        at += start  # from positions in the block to pixels
        find_levels(clip, w, rules, levels[0], levels[1], share, at)
        replaced[at], found[at] = (levels[0] != 0).any(axis=1), share > 0  # another main level; a second one
        main[at], second[at] = to_uint8(levels + _shown(H[:, at], typical_codes))

    map_blocks(fill, blocks(n_pixels, tuning.TUNING.sample.block_pixels))
    return _Levels(clip, typical_codes, main, second, replaced, found)


def _drop_isolated(levels: _Levels, shape: tuple[int, ...]) -> None:
    """Put the modelled background back, in `levels`, where the neighbours of a replaced level are not replaced."""
    alone = np.flatnonzero(levels.replaced)
    # The median over 5 by 5 pixels clears flags that most neighbours do not share. It also sets some between flags,
    # where `main` is the modelled background and stays.
    levels.replaced[:] = cv2.medianBlur(levels.replaced.reshape(shape).astype(np.uint8), 5).ravel() > 0
    alone = alone[~levels.replaced[alone]]

    def put_back(block: tuple[int, int]) -> None:
        """Make the main level (colour) of a block of isolated pixels, `alone`, the modelled background again."""
        at = alone[slice(*block)]
        levels.main[at] = to_uint8(_shown(levels.clip.H[:, at], levels.typical_codes))

    map_blocks(put_back, blocks(len(alone), tuning.TUNING.sample.block_pixels))


def _shown(H: Floats, codes: Floats) -> Floats:
    """Return what components (n_components, n_pixels, channels) show with codes (n_components,)."""
    return np.asarray(np.tensordot(codes, H, 1), np.float32)


def _show(H: Floats, scene: FrameArray, typical_codes: Floats, pixels: Pixels, shape: tuple[int, ...]) -> None:
    """Change components (n_components, n_pixels, channels) in place so that they show a scene at some pixels."""
    side = max(shape) // 8 | 1  # of the neighbourhood, in pixels; odd

    def blurred(picture: Floats) -> Floats:
        """Return the means of a picture (n_pixels,) of `shape` over squares of `side` pixels, at `pixels`."""
        return np.asarray(cv2.blur(picture.reshape(shape), (side, side)), np.float32).ravel()[pixels]

    means = H.mean(axis=(1, 2))
    overall = max(float(typical_codes @ means), 1e-6)
    for c in range(H.shape[2]):  # one channel at a time, to bound the memory of large pictures
        usual = _shown(H[..., c], typical_codes)
        below = blurred(usual)
        for component, mean in zip(H, means, strict=True):
            ratio = np.full_like(below, mean / overall)  # stays where the neighbourhood is too dark to divide by
            np.divide(blurred(np.ascontiguousarray(component[:, c])), below, ratio, where=below > 1)
            component[pixels, c] = scene[pixels, c] * ratio


def _second_is_scene(levels: _Levels, shape: tuple[int, ...]) -> Flags:
    """Return the pixels whose second level is the scene (n_pixels,)."""
    modes = tuning.TUNING.alternating_modes
    height, width = shape
    second = np.zeros(shape, bool)
    pictures = levels.main.reshape(height, width, -1), levels.second.reshape(height, width, -1)
    for inside, box in _regions(levels.found.reshape(shape)):
        # turned, follows: of the pixels inside; `swap` spreads `turned` over the picture, and `inside` keeps only
        # pixels that change together with most of the region.
        turned, follows, changes = _pictures(np.flatnonzero(inside), levels)
        if changes > modes.changes:
            continue
        swap = np.zeros(shape, bool)
        swap[inside] = turned
        inside[inside] = follows
        contrasts = _contrasts(pictures, inside, swap, box)
        if contrasts is None:
            continue
        of_one, of_other = contrasts
        if min(of_one, of_other) < modes.smoother * max(of_one, of_other):  # one is much smoother: it is the scene
            # `swap` is where the one picture has the second level, its complement where the other picture does.
            second |= inside & (swap if of_one < of_other else ~swap)
    return second.ravel()


def left_behind(scene: Floats, alternative: Floats, found: Flags) -> Flags:
    """Return where, in regions of `found`, the scene shows an object that left, and the `alternative` what it hid."""
    modes, result = tuning.TUNING.alternating_modes, np.zeros_like(found)
    for inside, box in _regions(found):
        contrasts = _contrasts((scene, alternative), inside, np.zeros_like(inside), box)
        if contrasts is not None and contrasts[1] < modes.smoother * contrasts[0]:
            result |= inside
    return result


def _regions(found: Flags) -> Iterator[tuple[Flags, tuple[slice, slice]]]:
    """Yield the pixels (height, width) of each region of `found` that is large enough, and a box around it."""
    modes = tuning.TUNING.alternating_modes
    margin = 2 * modes.contour + 6  # pixels around a region that its contour and the blur of the contour reach
    count, labels, statistics, _ = cv2.connectedComponentsWithStats(_closed(found).astype(np.uint8))
    for region in range(1, count):
        x, y, w, h, area = statistics[region]
        inside = (labels == region) & found
        # in small pictures a region may consist of a pixel that closing alone has found
        if area >= modes.region_share * found.size and inside.any():
            yield inside, (slice(max(0, y - margin), y + h + margin), slice(max(0, x - margin), x + w + margin))


def _contrasts(
    pictures: tuple[Any, Any], inside: Flags, swap: Flags, box: tuple[slice, slice]
) -> tuple[float, float] | None:
    """Return the contrast of both pictures at a region's contour, or None where the contour is too short."""
    modes = tuning.TUNING.alternating_modes
    main, second = (picture[box] for picture in pictures)
    inner, outer = _contour(_closed(inside[box]))  # closed, because holes would have contours too
    counts = inside[box][inner] & ~inside[box][outer]  # pairs of which one pixel is in the region and one is not
    if np.count_nonzero(counts) < modes.contour_pixels:
        return None
    # Levels (n_pairs, channels): outside, and inside by the main and by the second level.
    around, main_inside, second_inside = (
        level[at][counts].astype(np.float32) for level, at in ((main, outer), (main, inner), (second, inner))
    )
    swapped = swap[box][inner][counts][:, None]
    one, other = np.where(swapped, second_inside, main_inside), np.where(swapped, main_inside, second_inside)
    of_one, of_other = (
        np.minimum(np.abs(picture - around).mean(axis=1), modes.contrast_cap).mean() for picture in (one, other)
    )
    return of_one, of_other


def _closed(found: Flags) -> Flags:
    """Return found pixels (height, width) without single ones and small gaps."""
    clean = cv2.medianBlur(found.astype(np.uint8), 5)
    return cv2.morphologyEx(clean, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)) > 0


def _pictures(pixels: Pixels, levels: _Levels) -> tuple[Flags, Flags, int]:
    """Find which levels of a region's pixels, given by their indices (n_pixels,), are seen together."""
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
    """Return pairs of places, (rows, columns), some pixels inside and outside of a contour, along its normal."""
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
