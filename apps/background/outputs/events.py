"""When something moves: boxes of a mask, and events over time."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background.settings import EventSettings
from visionnmf.exceptions import ParameterError

__all__ = ["Box", "Event", "EventFinder", "find_boxes", "find_parts"]

FrameArray = NDArray[np.uint8]
Box = tuple[int, int, int, int]  # x, y, width, height, in pixels

MOST_BOXES = 1000  # of a frame
THUMBNAIL_WIDTH = 160
ROUNDING = 1e-6  # seconds
NEIGHBOURS = 1.0  # seconds: between frames that are further apart something may have stopped


@dataclass
class Event:
    """Something that moves for a while.

    Attributes
    ----------
    start, end : float
        Seconds from the beginning of the video, padding included.
    first, last : float
        Times of the first and the last frame with foreground.
    peak_time, peak_area : float
        Time of the frame with the most foreground, and the share of the picture that is foreground there.
    box : tuple of int
        x, y, width and height of what holds all boxes, in pixels of the results.
    frames : int
        Number of frames with foreground.
    thumbnail : ndarray of uint8
        The frame at the peak, small, with its boxes.
    """

    start: float
    end: float
    first: float
    last: float
    peak_time: float
    peak_area: float
    box: Box
    frames: int
    thumbnail: FrameArray = field(repr=False)


def find_boxes(mask: FrameArray, min_area: float) -> list[Box]:
    """Return the boxes of the connected parts of a mask, at most 1000, the largest part first.

    `mask` (height, width) is 255 where there is foreground; `min_area` is the share of the picture, from 0 to 1, that a
    part must cover.
    """
    return [box for box, _ in find_parts(mask, min_area)]


def find_parts(mask: FrameArray, min_area: float) -> list[tuple[Box, int]]:
    """Return the box and the number of pixels of each connected part of a mask; see :func:`find_boxes`."""
    parts = cv2.connectedComponentsWithStats(mask, connectivity=8)[2][1:]  # the first is the background
    areas = parts[:, cv2.CC_STAT_AREA]
    order = np.argsort(-areas, kind="stable")[:MOST_BOXES]
    kept = order[areas[order] >= max(1, min_area * mask.size)]
    return [((x, y, width, height), area) for x, y, width, height, area in parts[kept, :5].tolist()]


class EventFinder:
    """Joins frames with foreground into events as they come; each frame is shown for `step` seconds."""

    def __init__(self, settings: EventSettings, step: float) -> None:
        self._settings, self._step = settings, step
        self._open: Event | None = None
        self._begin: float | None = None
        self._before = -1.0

    def add(self, time: float, frame: FrameArray, mask: FrameArray, boxes: list[Box]) -> Event | None:
        """Take the next frame and the boxes of its mask; return an event that has ended by `time`, in seconds."""
        if time <= self._before:
            raise ParameterError(f"time must be later than that of the frame before, {self._before}; got {time}")
        before, self._before = self._before, time
        self._begin = time if self._begin is None else self._begin
        done = None
        if self._open is not None:
            longest = 2 * self._settings.padding + self._step + ROUNDING
            goes_on = bool(boxes) and self._open.last == before  # neighbouring frames, even if the rate varies
            if time - self._open.last > (max(longest, NEIGHBOURS) if goes_on else longest):
                done = self._close()
        if boxes:
            self._extend(time, frame, mask, boxes)
        return done

    def end(self) -> Event | None:
        """Return the event that lasts to the end of the video, if there is one."""
        return self._close()

    def _extend(self, time: float, frame: FrameArray, mask: FrameArray, boxes: list[Box]) -> None:
        """Add a frame to the open event, or open one; the frame with the largest area is its thumbnail."""
        area = cv2.countNonZero(mask) / mask.size
        event = self._open
        if event is None:
            start = max(self._begin or 0.0, time - self._settings.padding)
            around = _around(boxes)
            self._open = Event(start, time, time, time, time, area, around, 1, _thumbnail(frame, boxes))
            return
        event.last = time
        event.box = _around([event.box, *boxes])
        event.frames += 1
        if area > event.peak_area:
            event.peak_time, event.peak_area, event.thumbnail = time, area, _thumbnail(frame, boxes)

    def _close(self) -> Event | None:
        """End the open event; return it unless it is too short."""
        event, self._open = self._open, None
        if event is None or event.last - event.first + self._step < self._settings.min_length - ROUNDING:
            return None
        event.end = min(event.last + self._settings.padding, self._before) + self._step
        return event


def _around(boxes: list[Box]) -> Box:
    """Return the box that holds all boxes."""
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
    return left, top, right - left, bottom - top


def _thumbnail(frame: FrameArray, boxes: list[Box]) -> FrameArray:
    """Return a small frame with its boxes drawn."""
    height, width = frame.shape[:2]
    scale = min(1.0, THUMBNAIL_WIDTH / width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
    for x, y, w, h in boxes:
        corners = [(round(a * scale), round(b * scale)) for a, b in ((x, y), (x + w - 1, y + h - 1))]
        cv2.rectangle(small, corners[0], corners[1], (255, 64, 64), 1)
    return np.asarray(small, np.uint8)
