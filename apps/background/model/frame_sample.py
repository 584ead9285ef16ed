"""Evenly spaced frames of a stream of unknown length, in bounded memory."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background import tuning
from visionnmf.apps.background.kernels import mean_over_channels

__all__ = ["FrameSample", "frame_difference"]

FrameArray = NDArray[np.uint8]


class FrameSample:
    """At most `room` evenly spaced frames, and how much each differs from its neighbours in the stream.

    One of every `step` frames is kept. When the room is full every other one is dropped and `step` doubles. The kept
    one is the first or the second of its `step`, by the Thue-Morse sequence: in clips whose frames alternate, such as
    those of interlaced cameras, both kinds are seen. Each frame comes with its difference from the frames before and
    after, the larger of the two, so that a video with doubled frames still shows what moves. Large frames take fewer,
    see :class:`.SampleTuning`.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._step = 1
        self._held = 0
        self._positions: list[int] = []
        self._before: FrameArray | None = None
        self._due = True  # whether the next frame is kept
        self.seen = 0

    def add(self, frame: FrameArray) -> None:
        """Take the next frame of the stream, and keep it if its position is due.

        When the sample is full, every other frame is dropped and the step between kept frames doubles. With each kept
        frame goes its largest difference from the frames before and after it, by which its pixels are weighted later.
        """
        if self.seen == 0:
            self._allocate(frame)
        # The frame before was kept: its change also counts the difference from this frame.
        if self._held and self._positions[-1] == self.seen - 1:
            last = self._changes[self._held - 1]
            np.maximum(last, frame_difference(frame, self._frames[self._held - 1]), out=last)
        due = self._due
        if due and self._held == self._room:
            self._halve()
            due = self._is_due(self.seen)  # it may no longer be
        if due:
            self._frames[self._held] = frame
            self._changes[self._held] = 0 if self._before is None else frame_difference(frame, self._before)
            self._held += 1
            self._positions.append(self.seen)
        self.seen += 1
        self._due = self._is_due(self.seen)
        # copied, because a caller may use one buffer for all frames
        self._before = frame.copy() if self._due else None

    def _is_due(self, position: int) -> bool:
        """Return whether the frame at a position of the stream is to be kept, at the present step."""
        return _kept_of(position // self._step * self._step, self._step) == position

    def _allocate(self, frame: FrameArray) -> None:
        """Allocate the sample for frames like this one; large frames get less room, to bound the memory."""
        self.frame_shape = frame.shape
        pixels = frame.shape[0] * frame.shape[1]
        self._room = max(2, min(self._room, tuning.TUNING.sample.max_bytes // (frame.size + pixels)))
        # The operating system provides memory when it is first written to, so a short clip takes little.
        self._frames = np.empty((self._room, *frame.shape), np.uint8)
        self._changes = np.empty((self._room, *frame.shape[:2]), np.uint8)

    def _halve(self) -> None:
        """Double the step, and move the frames that are still due to the front of the sample."""
        self._step *= 2
        wanted = {_kept_of(start, self._step) for start in range(0, self.seen, self._step)}
        stay = [i for i, position in enumerate(self._positions) if position in wanted]
        for to, i in enumerate(stay):
            self._frames[to] = self._frames[i]
            self._changes[to] = self._changes[i]
        self._positions = [self._positions[i] for i in stay]
        self._held = len(stay)

    def taken(self) -> tuple[FrameArray, NDArray[np.intp]]:
        """Return the frames (n, n_pixels, channels) and their positions (n,)."""
        height, width = self.frame_shape[:2]
        frames = self._frames[: self._held].reshape(self._held, height * width, -1)
        return frames, np.array(self._positions, np.intp)

    def hand_over_changes(self) -> FrameArray:
        """Return the differences (n, height, width) and forget them, which frees their memory after use."""
        changes = self._changes[: self._held]
        del self._changes
        return changes


def _kept_of(start: int, step: int) -> int:
    """Return which of `step` frames from `start` on is kept."""
    return start + (start.bit_count() % 2 if step > 1 else 0)


def frame_difference(frame: FrameArray, before: FrameArray) -> FrameArray:
    """Return the rounded mean over channels of the absolute difference (height, width)."""
    change = np.asarray(cv2.absdiff(frame, before), np.uint8)
    if change.ndim == 2 or change.shape[2] == 1:
        return change
    result = np.empty(change.shape[:2], np.uint8)
    mean_over_channels(change.reshape(-1), result.reshape(-1))
    return result
