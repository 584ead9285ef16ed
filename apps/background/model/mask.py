"""The decision on one frame, for both models: from the frame and the background behind its foreground to a mask."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray, channel_mean, enlarged, reduced
from visionnmf.apps.background.kernels import (
    NoiseFloor,
    ShadowRule,
    WindowRule,
    fit_windows,
    mean_residual,
    measure_parts,
    score_pixels,
)

from .dynamic_background import DynamicBackground, smoothed

Flags = NDArray[np.bool_]

WHITE = 255
ROUNDING = 1 / math.sqrt(12)  # standard deviation of rounding to whole grey levels


def camera_floor(noise: Floats) -> float:
    """Return the camera's floor of the noise in the dark, in grey levels, from the noise of some pixels.

    The noise of a pixel counts as this much at least. It is `times_camera` times the camera's noise, that of rounding
    included, but between the `lowest` floor and the usual one, `floor`.
    """
    bounds = tuning.TUNING.noise
    camera = bounds.times_camera * math.hypot(median(noise.ravel()), ROUNDING)
    return min(max(camera, bounds.lowest), bounds.floor)


def median(values: Floats) -> float:
    """Return what ``np.median`` does for values (n,) that are all finite, much faster."""
    middle = len(values) // 2
    ordered = np.partition(values, middle)  # of a single rank, it uses SIMD instructions
    return float(ordered[middle] if len(values) % 2 else (ordered[:middle].max() + ordered[middle]) / 2)


@dataclass(frozen=True)
class MaskDecision:
    """What decides on the foreground of a frame."""

    noise: Floats  # (height, width), of each pixel in grey levels, between the floor of the camera and the ceiling
    floor: float  # grey levels: that of the camera, which holds in the dark
    # Where the background moves, the smoothed residual decides and the noise of the residual over the clip counts.
    dynamic: DynamicBackground | None = None

    @cached_property
    def _noise(self) -> Floats:
        """Return each pixel's noise (height, width), in grey levels, blended with that over the clip where it moves."""
        if self.dynamic is None:
            return np.ascontiguousarray(self.noise, np.float32)
        return _blended(np.array(self.dynamic.noise, np.float32), self.noise, self.dynamic.share)

    def mask(self, frame: FrameArray, background: FrameArray, threshold: float) -> FrameArray:
        """Return the mask (height, width) of a frame: 255 foreground, 0 background.

        Foreground deviates from the background, in the frame's illumination, by `threshold` times the noise in grey
        levels. The noise of a pixel is `_noise`, but at least a share of its brightness, `share_of_light`; that floor
        is held between `floor`, the camera's own, which counts in the dark, and the usual one, `noise.floor`.
        """
        n_pixels = self.noise.size
        score = np.empty(self.noise.shape, np.float32)
        pixels, behind = (np.ascontiguousarray(picture).reshape(n_pixels, -1) for picture in (frame, background))
        # a pixel that keeps at least the share `darkest` of the light may be in a shadow, so its darkening counts less
        shadow = ShadowRule(tuning.TUNING.mask.darkest, tuning.TUNING.mask.shadow_weight)
        floor = NoiseFloor(tuning.TUNING.noise.share_of_light, self.floor, tuning.TUNING.noise.floor)
        score_pixels(pixels, behind, self._noise.reshape(-1), floor, shadow, score.reshape(-1))
        if self.dynamic is not None:
            # `share` is 0 where the background is still, 1 where it surely moves: blend the two scores accordingly.
            score = _blended(_smoothed_score(frame, background, self.dynamic), score, self.dynamic.share)
        return without_shadows(foreground_mask(score, threshold), frame, background, self.noise)


def _smoothed_score(frame: FrameArray, background: FrameArray, dynamic: DynamicBackground) -> Floats:
    """Return scores (height, width) from the smoothed residual, for places where the background moves."""
    height, width = shape = dynamic.share.shape
    residual = np.empty(shape, np.float32)
    pixels, behind = (np.ascontiguousarray(picture).reshape(residual.size, -1) for picture in (frame, background))
    mean_residual(pixels, behind, tuning.TUNING.dynamic_background.mean_cap, residual.reshape(-1))
    # `smoothed` works at half the resolution, so its result is enlarged to the frame.
    smooth = cv2.resize(smoothed(residual), (width, height), interpolation=cv2.INTER_LINEAR)
    score = np.abs(smooth, out=np.asarray(smooth))
    score /= dynamic.smooth_noise
    return score


def _blended(moving: Floats, still: Floats, share: Floats) -> Floats:
    """Return the share of `moving` and what is left of `still` (height, width), in the array of the former."""
    moving -= still
    moving *= share
    moving += still
    return moving


def foreground_mask(score: Floats, threshold: float) -> FrameArray:
    """Return the mask (height, width) of scores, which are residuals in units of the noise.

    The scores are smoothed and compared with `threshold`: half as much again where no neighbour is foreground, and half
    where all are, one step of a Potts prior. A median of 5 by 5 pixels cleans the mask, and then gaps and holes are
    filled.
    """
    steps = tuning.TUNING.mask
    height, width = score.shape
    # Scores become bytes, which are blurred fast. `steps.one` stands for the threshold, and large scores saturate.
    smooth = cv2.GaussianBlur(cv2.convertScaleAbs(score, alpha=steps.one / threshold), (0, 0), steps.smoothing)
    # 255 above the threshold, else 0; item 0 of what OpenCV returns would be the threshold
    above = cv2.threshold(smooth, steps.one, WHITE, cv2.THRESH_BINARY)[1]
    small = (-(-width // steps.coarse), -(-height // steps.coarse))  # the neighbourhood is smooth: few pixels will do
    reduced = cv2.resize(above, small, interpolation=cv2.INTER_AREA)
    share = cv2.GaussianBlur(reduced, (0, 0), steps.neighbourhood / steps.coarse)
    # The threshold of each pixel falls linearly from 1.5 times (no neighbour above it) to 0.5 times (all above it).
    asked = cv2.resize(cv2.convertScaleAbs(share, alpha=-steps.one / WHITE, beta=1.5 * steps.one), (width, height))
    # above the threshold that their neighbours have set for them; `weak` pixels, above a lower one, may fill gaps
    mask = np.asarray(cv2.medianBlur(cv2.compare(smooth, asked, cv2.CMP_GT), 5), np.uint8)
    weak = cv2.threshold(smooth, steps.gap_evidence * steps.one, WHITE, cv2.THRESH_BINARY)[1]
    return without_holes(mask, np.asarray(weak, np.uint8))


def without_holes(mask: FrameArray, weak: FrameArray) -> FrameArray:
    """Fill narrow gaps and small holes of a mask (height, width) in place, and return it.

    `weak` is 255 where a frame differs from the background by more than a lower threshold than that of the mask. A gap,
    what a morphological closing adds, is filled there, so that the ground between two people stays background. A hole
    that foreground encloses is filled up to a share of the picture: it is a part of an object in the scene's colour.
    """
    steps = tuning.TUNING.mask
    # `gap` pixels, more in pictures wider than `steps.width`; odd, or the closing would move the mask
    side = int(steps.gap * max(1.0, mask.shape[1] / steps.width)) | 1
    if side > 1:
        square = np.ones((side, side), np.uint8)
        # Beyond the border there is no foreground, or objects would grow to a border near them.
        beyond: dict[str, Any] = {"borderType": cv2.BORDER_CONSTANT, "borderValue": 0}
        closed = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, square, **beyond)
        cv2.bitwise_or(mask, cv2.bitwise_and(closed, weak), dst=mask)
    contours, tree = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    for index, contour in enumerate(contours):
        is_hole = tree[0, index, 3] >= 0  # its parent is the outline around it
        if is_hole and cv2.contourArea(contour) <= steps.hole * mask.size:
            cv2.drawContours(mask, contours, index, WHITE, cv2.FILLED)
    return mask


def without_shadows(mask: FrameArray, frame: FrameArray, background: FrameArray, noise: Floats) -> FrameArray:
    """Remove cast shadows from a mask (height, width) in place, and return it.

    A shadow is a part of a foreground region, at most 0.8 of it, that is darker than the background by nearly one
    factor in all channels, and shows the background's texture: the details of both correlate. Wide pictures are
    reduced.
    """
    times = max(1, mask.shape[1] // tuning.TUNING.mask.width)
    x, y, width, height = cv2.boundingRect(mask)
    box = tuple(
        slice(start // times * times, min(-(-(start + size) // times), whole // times) * times)
        for start, size, whole in zip((y, x), (height, width), mask.shape, strict=True)
    )
    if mask[box].size:
        shadow = _shadow_of(*(reduced(picture[box], times) for picture in (mask, frame, background, noise)))
        mask[box][enlarged(shadow, times)] = 0
    return mask


def _shadow_of(mask: FrameArray, frame: FrameArray, background: FrameArray, noise: Floats) -> Flags:
    """Return which pixels of a mask (height, width) are cast shadows."""
    rules, half = tuning.TUNING.cast_shadows, tuning.TUNING.cast_shadows.window // 2
    frame, background = np.ascontiguousarray(frame), np.ascontiguousarray(background)
    noise = np.ascontiguousarray(noise)
    padded = np.zeros((3, mask.shape[0] + 2 * half + 1, mask.shape[1] + 2 * half), np.uint8)
    inside, seen, behind = padded[:, half + 1 : -half, half:-half]
    np.greater(mask, WHITE // 2, out=inside, casting="unsafe")
    for picture, out in ((frame, seen), (background, behind)):
        np.multiply(channel_mean(picture), inside, out=out)
    factor, *_ = numbers = np.empty((3, *mask.shape), np.float32)
    shadow, fits = np.zeros(mask.shape, np.bool_), np.empty(mask.shape, np.uint8)
    rule = WindowRule(half, rules.darkest, rules.lightest, rules.deviation)
    fit_windows(padded, noise, rule, np.empty((12, padded.shape[2]), np.int32), factor, numbers[1:], fits)
    opened = cv2.morphologyEx(fits, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    n_labels, labels = cv2.connectedComponents(opened, connectivity=4)
    colours, shown = (picture.reshape(*mask.shape, -1) for picture in (frame, background))
    channels = colours.shape[2]
    measured = np.zeros((n_labels, 6 + 2 * channels))
    measure_parts(labels, colours, shown, factor, numbers[1:], measured)
    count, one, other, both, total, square = measured[1:, :6].T
    fit = (count >= rules.least_pixels) & (both > rules.texture * np.sqrt(one * other))
    factors = measured[1:, 6 : 6 + channels] / np.maximum(measured[1:, 6 + channels :], 1)
    usual = factors.mean(axis=1, keepdims=True)
    fit &= (np.abs(factors - usual) <= rules.colour * usual).all(axis=1)
    fit &= square / count - (total / count) ** 2 <= rules.spread**2
    if not fit.any():
        return shadow
    regions = cv2.connectedComponents(inside)[1]
    for part in np.flatnonzero(fit) + 1:
        all_core = labels == part
        x, y, width, height = cv2.boundingRect(all_core.astype(np.uint8))
        box = slice(max(0, y - 2 * half), y + height + 2 * half), slice(max(0, x - 2 * half), x + width + 2 * half)
        core = all_core[box]
        # Windows at the border see the object too, so pixels that the shadow explains are added there.
        near = cv2.dilate(core.astype(np.uint8), np.ones((2 * half + 1, 2 * half + 1), np.uint8)) > 0
        miss = seen[box].astype(np.float32) - median(factor[box][core]) * behind[box].astype(np.float32)
        near &= np.abs(miss) < rules.near * noise[box]
        whole = cv2.medianBlur((core | near).astype(np.uint8), 5) > 0
        whole &= regions[box] == regions[box][core][0]
        shadow[box] |= whole
    sizes = np.bincount(regions.ravel())
    attached = np.bincount(regions[shadow], minlength=len(sizes)) <= rules.attached * sizes
    return shadow & attached[regions]


def median_mask(frame: FrameArray, median: FrameArray) -> FrameArray:
    """Return the usual baseline's mask: 255 where a channel is more than 25 from the median, cleaned by medians."""
    difference = cv2.absdiff(frame, median)
    if difference.ndim == 3:
        difference = cv2.max(cv2.max(difference[..., 0], difference[..., 1]), difference[..., 2])
    # item 1 is the picture, item 0 the threshold that was used
    mask = cv2.threshold(difference, tuning.TUNING.mask.median_threshold, WHITE, cv2.THRESH_BINARY)[1]
    return np.asarray(cv2.medianBlur(mask, 5), np.uint8)
