"""When something moves: boxes of masks, events over time, and the tables of frames, boxes and events."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from visionnmf.io import output_file, write_csv, write_image

from .frame_arrays import FrameArray, Separated
from .settings import EventSettings

__all__ = ["Box", "Event", "EventFinder", "EventTable", "find_boxes", "frame_row", "frame_table"]

Box = tuple[int, int, int, int]  # x, y, width, height, in pixels

MOST_BOXES = 1000  # of a frame
THUMBNAIL_WIDTH = 160
ROUNDING = 1e-6  # seconds by which sums of times may be off
NEIGHBOURS = 1.0  # seconds: between frames that are further apart something may have stopped

FRAME_COLUMNS = ("frame", "time", "foreground_share", "boxes")
EVENT_COLUMNS = ("event", "start", "end", "peak_time", "peak_area", "x", "y", "width", "height", "frames", "thumbnail")


def find_boxes(mask: FrameArray, min_area: float) -> list[Box]:
    """Return the boxes of the connected parts of a mask, at most 1000, the largest part first.

    `mask` (height, width) is 255 where there is foreground; `min_area` is the share of the picture, from 0 to 1, that a
    part must cover.
    """
    parts = cv2.connectedComponentsWithStats(mask, connectivity=8)[2][1:]  # the first is the background
    areas = parts[:, cv2.CC_STAT_AREA]
    order = np.argsort(-areas, kind="stable")[:MOST_BOXES]
    kept = order[areas[order] >= max(1, min_area * mask.size)]
    return [(x, y, width, height) for x, y, width, height in parts[kept, :4].tolist()]


def frame_row(part: Separated, time: float, min_area: float) -> dict[str, Any]:
    """Return the row of a frame that is shown at `time` seconds; smaller parts than `min_area` have no box."""
    share = cv2.countNonZero(part.mask) / part.mask.size
    values = (part.index, round(time, 6), round(share, 6), find_boxes(part.mask, min_area))
    return dict(zip(FRAME_COLUMNS, values, strict=True))


@contextmanager
def frame_table(path: Path, force: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Open a table of frames, ``.csv`` or ``.jsonl``; yield what writes a row of :func:`frame_row`."""
    with output_file(path, force=force) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        if path.suffix == ".csv":
            file.write(",".join(FRAME_COLUMNS) + "\r\n")

        def add(row: dict[str, Any]) -> None:
            if path.suffix == ".csv":
                text = ";".join(" ".join(map(str, box)) for box in row["boxes"])
                file.write(f"{row['frame']},{row['time']:.6f},{row['foreground_share']:.6f},{text}\r\n")
            else:
                file.write(json.dumps(row) + "\n")

        yield add


@dataclass
class Event:
    """Something that moves for a while; all times are in seconds from the beginning of the video."""

    start: float  # padding included, as is `end`
    first: float  # of the first frame with foreground
    last: float  # of the last frame with foreground
    box: Box  # holds all boxes, in pixels of the results
    thumbnail: FrameArray  # the frame at the peak, small, with its boxes
    end: float = 0.0
    peak_time: float = 0.0  # of the frame with the most foreground
    peak_area: float = 0.0  # the share of the picture that is foreground there
    frames: int = 0  # with foreground


class EventFinder:
    """Joins frames with foreground into events as they come; each frame is shown for `step` seconds."""

    def __init__(self, settings: EventSettings, step: float) -> None:
        self._settings, self._step = settings, step
        self._open: Event | None = None  # the event that goes on
        self._begin: float | None = None  # time of the first frame of the video
        self._before = -1.0  # time of the previous frame

    def add(self, time: float, frame: FrameArray, mask: FrameArray, boxes: list[Box]) -> Event | None:
        """Take the next frame and the boxes of its mask; return an event that has ended by `time`, in seconds.

        An event ends when the pause since its last box is longer than two paddings and a frame, so that it would not
        touch the next event. Two frames in a row that both have boxes belong to one event even if the frame rate varies
        and they are further apart, up to `NEIGHBOURS` seconds.
        """
        before, self._before = self._before, time
        self._begin = time if self._begin is None else self._begin
        done = None
        if self._open is not None:
            longest = 2 * self._settings.padding + self._step + ROUNDING
            in_a_row = bool(boxes) and self._open.last == before
            if time - self._open.last > (max(longest, NEIGHBOURS) if in_a_row else longest):
                done = self.end()
        if boxes:
            self._extend(time, frame, mask, boxes)
        return done

    def end(self) -> Event | None:
        """End the open event; return it unless there is none or it is too short."""
        event, self._open = self._open, None
        if event is None or event.last - event.first + self._step < self._settings.min_length - ROUNDING:
            return None
        event.end = min(event.last + self._settings.padding, self._before) + self._step
        return event

    def _extend(self, time: float, frame: FrameArray, mask: FrameArray, boxes: list[Box]) -> None:
        """Add a frame to the open event, or open one; the frame with the largest area is its thumbnail."""
        if self._open is None:
            start = max(self._begin or 0.0, time - self._settings.padding)
            self._open = Event(start, first=time, last=time, box=boxes[0], thumbnail=frame)
        event = self._open
        event.last = time
        event.box = _around([event.box, *boxes])
        event.frames += 1
        area = cv2.countNonZero(mask) / mask.size
        if area > event.peak_area:
            event.peak_time, event.peak_area, event.thumbnail = time, area, _thumbnail(frame, boxes)


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


class EventTable:
    """Writes ``STEM_events.csv`` and ``STEM_event_001.png``; `rows` has what the table has."""

    def __init__(self, stem: Path, force: bool) -> None:
        self._stem, self._force = stem, force
        self.rows: list[dict[str, Any]] = []

    @staticmethod
    def paths(stem: Path) -> list[Path]:
        """Return the table, and the thumbnails of an earlier run, which may be in the way."""
        before = sorted(stem.parent.glob(f"{glob.escape(stem.name)}_event_[0-9]*.png"))
        return [stem.with_name(f"{stem.name}_events.csv"), *before]

    def add(self, event: Event) -> dict[str, Any]:
        """Take an event that has ended, write its thumbnail and return its row."""
        number = len(self.rows) + 1
        thumbnail = self._stem.with_name(f"{self._stem.name}_event_{number:03d}.png")
        write_image(thumbnail, event.thumbnail, force=self._force)
        times = (round(value, 6) for value in (event.start, event.end, event.peak_time, event.peak_area))
        values = (number, *times, *event.box, event.frames, thumbnail.name)
        self.rows.append(dict(zip(EVENT_COLUMNS, values, strict=True)))
        return self.rows[-1]

    def write(self) -> list[Path]:
        """Write the table; return all files, the thumbnails included."""
        table = self.paths(self._stem)[0]
        write_csv(table, [EVENT_COLUMNS, *(row.values() for row in self.rows)], force=self._force)
        return [table, *(self._stem.with_name(row["thumbnail"]) for row in self.rows)]
