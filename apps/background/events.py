"""When something moves: boxes of a mask, and events over time."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_number
from visionnmf.exceptions import ParameterError

__all__ = ["Box", "Event", "EventFinder", "EventSettings", "find_boxes", "find_parts"]

FrameArray = NDArray[np.uint8]
Box = tuple[int, int, int, int]  # x, y, width, height, in pixels

MOST_BOXES = 1000  # a frame
THUMBNAIL_WIDTH = 160
ROUNDING = 1e-6  # seconds
NEIGHBOURS = 1.0  # seconds: between frames further apart than this something may have stopped


@dataclass(frozen=True)
class EventSettings:
    """What counts as an event.

    Parameters
    ----------
    min_length : float, default=0.5
        Seconds that something must move.
    padding : float, default=1.0
        Seconds before and after that belong to the event; events whose paddings meet are one.
    min_area : float from 0 to 1, default=0.0005
        Share of the picture that the largest connected part of the foreground must cover in a frame.
    """

    min_length: float = choices.EVENT_LENGTH
    padding: float = choices.EVENT_PADDING
    min_area: float = choices.EVENT_AREA

    def check(self) -> None:
        """Raise ParameterError when something is out of its range."""
        check_number(self.min_length, "min_length")
        check_number(self.padding, "padding")
        check_number(self.min_area, "min_area", 0, 1)


@dataclass
class Event:
    """Something that moves for a while.

    Attributes
    ----------
    start, end : float
        Seconds from the beginning of the video, padding included.
    first, last : float
        Of the first and the last frame with foreground.
    peak_time : float
        Of the frame with the most foreground.
    peak_area : float
        Share of the picture that is foreground there.
    box : tuple of int
        x, y, width and height of what holds all of it, in pixels of the results.
    frames : int
        Frames with foreground.
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
    """Return the boxes of connected parts of a mask, the largest part first.

    Parameters
    ----------
    mask : ndarray of uint8 [shape=(height, width)]
        255 foreground, 0 background.
    min_area : float from 0 to 1
        Share of the picture that a part must cover.

    Returns
    -------
    list of (x, y, width, height)
        At most 1000.
    """
    return [box for box, _ in find_parts(mask, min_area)]


def find_parts(mask: FrameArray, min_area: float) -> list[tuple[Box, int]]:
    """Return box and number of pixels of connected parts of a mask; see :func:`find_boxes`."""
    parts = cv2.connectedComponentsWithStats(mask, connectivity=8)[2][1:]  # the first is the background
    areas = parts[:, cv2.CC_STAT_AREA]
    order = np.argsort(-areas, kind="stable")[:MOST_BOXES]
    kept = order[areas[order] >= max(1, min_area * mask.size)]
    return [((x, y, width, height), area) for x, y, width, height, area in parts[kept, :5].tolist()]


class EventFinder:
    """Joins frames with foreground to events, as they come.

    Parameters
    ----------
    settings : EventSettings
    step : float
        Seconds that a frame is shown.
    """

    def __init__(self, settings: EventSettings, step: float) -> None:
        settings.check()
        self._settings, self._step = settings, step
        self._open: Event | None = None
        self._begin: float | None = None
        self._before = -1.0

    def add(self, time: float, frame: FrameArray, mask: FrameArray, boxes: list[Box]) -> Event | None:
        """Take the next frame.

        Parameters
        ----------
        time : float
            Seconds, later than that of the frame before.
        frame : ndarray of uint8 [shape=(height, width, 3)]
        mask : ndarray of uint8 [shape=(height, width)]
        boxes : list of (x, y, width, height)
            Of the mask; none where nothing moves.

        Returns
        -------
        Event or None
            One that is over by now.
        """
        if time <= self._before:
            raise ParameterError(f"time must be later than that of the frame before, {self._before}; got {time}")
        before, self._before = self._before, time
        self._begin = time if self._begin is None else self._begin
        done = None
        if self._open is not None:
            longest = 2 * self._settings.padding + self._step + ROUNDING
            goes_on = bool(boxes) and self._open.last == before  # neighbouring frames, though the rate may vary
            if time - self._open.last > (max(longest, NEIGHBOURS) if goes_on else longest):
                done = self._closed()
        if boxes:
            self._extend(time, frame, mask, boxes)
        return done

    def end(self) -> Event | None:
        """Return the event that lasts to the end of the video, if there is one."""
        return self._closed()

    def _extend(self, time: float, frame: FrameArray, mask: FrameArray, boxes: list[Box]) -> None:
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

    def _closed(self) -> Event | None:
        event, self._open = self._open, None
        if event is None or event.last - event.first + self._step < self._settings.min_length - ROUNDING:
            return None
        event.end = min(event.last + self._settings.padding, self._before) + self._step
        return event


def _around(boxes: list[Box]) -> Box:
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
    return left, top, right - left, bottom - top


def _thumbnail(frame: FrameArray, boxes: list[Box]) -> FrameArray:
    height, width = frame.shape[:2]
    scale = min(1.0, THUMBNAIL_WIDTH / width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
    for x, y, w, h in boxes:
        corners = [(round(a * scale), round(b * scale)) for a, b in ((x, y), (x + w - 1, y + h - 1))]
        cv2.rectangle(small, corners[0], corners[1], (255, 64, 64), 1)
    return np.asarray(small, np.uint8)
