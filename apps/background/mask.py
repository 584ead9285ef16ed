"""The decision on one frame: from the frame and what is behind its foreground to a mask.

:class:`MaskDecision` is all that decides, for :class:`.BackgroundModel` and for whatever else has a background and an
idea of its noise: it knows neither how they were learnt nor other frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from .recurring import Recurring
from .score import score_pixels, score_recurring
from .sway import Sway, smoothed

__all__ = ["MaskDecision", "foreground_mask", "median_mask"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]

WHITE = 255
ONE = 102  # byte that stands for the threshold: scores are cut at 2.5 times it, or strong objects widen
COARSE = 4  # pixels of the frame to one of the neighbourhood
SMOOTHING = 1.5  # pixels: standard deviation of the smoothing of the scores
NEIGHBOURHOOD = 6.0  # pixels: standard deviation of the neighbourhood whose share of foreground moves the threshold
DARKEST = 0.7  # a shadow leaves at least this share of the light
SHADOW_WEIGHT = 0.5

MEDIAN_THRESHOLD = 25  # grey levels: the usual threshold of the baseline


@dataclass(frozen=True)
class MaskDecision:
    """What decides on the foreground of a frame.

    Parameters
    ----------
    noise : ndarray of float32 [shape=(height, width), > 0]
        The noise of each pixel in grey levels, not below 6: what differs from the background by less says nothing.
    threshold : float, > 0
        Foreground deviates by this many times the noise.
    sway : Sway, optional
        Where the scene sways. There the smoothed residual decides, and the noise of the residual over the clip counts.
    recurring : Recurring, optional
        What comes back where the scene sways further. There what is near one of these values is not foreground.
    """

    noise: Floats
    threshold: float
    sway: Sway | None = None
    recurring: Recurring | None = None

    @cached_property
    def _noise(self) -> Floats:
        noise = self.noise if self.sway is None else self.noise + self.sway.share * (self.sway.noise - self.noise)
        return np.ascontiguousarray(noise, np.float32)

    def mask(self, frame: FrameArray, background: FrameArray) -> FrameArray:
        """Decide on a frame.

        Parameters
        ----------
        frame : ndarray of uint8 [shape=(height, width) or (height, width, 3)]
        background : ndarray of uint8 [shape of the frame]
            What is behind the foreground, in this frame's light.

        Returns
        -------
        ndarray of uint8 [shape=(height, width)]
            255 foreground, 0 background.
        """
        n_pixels = self.noise.size
        score = np.empty(self.noise.shape, np.float32)
        score_pixels(
            np.ascontiguousarray(frame).reshape(n_pixels, -1),
            np.ascontiguousarray(background).reshape(n_pixels, -1),
            self._noise.reshape(-1),
            DARKEST,
            SHADOW_WEIGHT,
            score.reshape(-1),
            0,
            n_pixels,
        )
        if self.sway is not None:
            score += self.sway.share * (_smooth_score(frame, background, self.sway) - score)
        if self.recurring is not None:
            back = self.recurring
            score_recurring(
                np.ascontiguousarray(frame).reshape(n_pixels, -1),
                np.ascontiguousarray(background).reshape(n_pixels, -1),
                np.ascontiguousarray(self.noise).reshape(-1),
                back.pixels,
                back.share,
                back.levels,
                score.reshape(-1),
                0,
                len(back.pixels),
            )
        return foreground_mask(score, self.threshold)


def _smooth_score(frame: FrameArray, background: FrameArray, sway: Sway) -> Floats:
    """Return the smoothed residual, mean over channels, in units of its noise (height, width)."""
    residual = cv2.subtract(frame, background, dtype=cv2.CV_16S)
    if residual.ndim == 3:
        residual = cv2.transform(residual, np.full((1, 3), 1 / 3, np.float32))
    height, width = shape = sway.share.shape
    smooth = cv2.resize(smoothed(residual, shape), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(smooth / sway.smooth_noise, np.float32)


def foreground_mask(score: Floats, threshold: float) -> FrameArray:
    """Decide on each pixel from the scores of a frame.

    Parameters
    ----------
    score : ndarray of float32 [shape=(height, width), >= 0]
        Residual in units of the noise.
    threshold : float, > 0
        Half as much again is asked for where no neighbour is foreground, half where all are.

    Returns
    -------
    ndarray of uint8 [shape=(height, width)]
        255 foreground, 0 background.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.background import foreground_mask
    >>> score = np.zeros((20, 20), np.float32)
    >>> score[5:15, 5:15] = 9  # deviates by nine times the noise
    >>> int((foreground_mask(score, 3.0) > 0).sum() > 80)
    1
    """
    height, width = score.shape
    # in bytes, whose blurs are fast; what is beyond white is cut
    smooth = cv2.GaussianBlur(cv2.convertScaleAbs(score, alpha=ONE / threshold), (0, 0), SMOOTHING)
    above = cv2.threshold(smooth, ONE, WHITE, cv2.THRESH_BINARY)[1]
    small = (-(-width // COARSE), -(-height // COARSE))  # the neighbourhood is smooth: a quarter of the size will do
    share = cv2.GaussianBlur(cv2.resize(above, small, interpolation=cv2.INTER_AREA), (0, 0), NEIGHBOURHOOD / COARSE)
    asked = cv2.resize(cv2.convertScaleAbs(share, alpha=-ONE / WHITE, beta=1.5 * ONE), (width, height))
    return np.asarray(cv2.medianBlur(cv2.compare(smooth, asked, cv2.CMP_GT), 5), np.uint8)


def median_mask(frame: FrameArray, median: FrameArray) -> FrameArray:
    """Mask a frame as the usual baseline does: the largest channel differs by more than 25, cleaned by a 5 by 5 median.

    Parameters
    ----------
    frame, median : ndarray of uint8 [shape=(height, width) or (height, width, 3)]
        A frame, and the temporal median of frames.

    Returns
    -------
    ndarray of uint8 [shape=(height, width)]
        255 foreground, 0 background.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.background import median_mask
    >>> median = np.full((20, 20), 100, np.uint8)
    >>> frame = median.copy()
    >>> frame[5:15, 5:15] = 180
    >>> bool(median_mask(frame, median)[10, 10]), bool(median_mask(frame, median)[0, 0])
    (True, False)
    """
    difference = cv2.absdiff(frame, median)
    if difference.ndim == 3:
        difference = cv2.max(cv2.max(difference[..., 0], difference[..., 1]), difference[..., 2])
    mask = cv2.threshold(difference, MEDIAN_THRESHOLD, 255, cv2.THRESH_BINARY)[1]
    return np.asarray(cv2.medianBlur(mask, 5), np.uint8)
