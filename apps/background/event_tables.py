"""When something moves: boxes of masks, events over time, and the tables of frames, boxes and events."""

from __future__ import annotations

import glob
import json
import math
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import cv2
import numpy as np

from visionnmf.apps.drawing import tiled
from visionnmf.exceptions import MediaError, OutputExistsError, UnsupportedError
from visionnmf.io import VideoWriter, cut_video, output_file, together, write_csv, write_image
from visionnmf.io.video.cutting import CUT_FORMATS
from visionnmf.io.video.timeline import ROUNDING, FrameReader, Timeline

from .frame_arrays import FrameArray, Separated
from .reports import time_code
from .settings import EventSettings
from .watch import Watch, marks_of

Box = tuple[int, int, int, int]  # x, y, width, height, in pixels

MOST_BOXES = 1000  # of a frame
THUMBNAIL_WIDTH = 160
SURROUNDINGS = 4  # times the width or height of the boxes is shown
LEAST_PART = 0.25  # of a thumbnail's pixels along a side, because more enlarged ones only show squares

FRAME_COLUMNS = ("frame", "time", "foreground_share", "boxes")
EVENT_COLUMNS = (
    *("event", "start", "end", "peak_time", "peak_area", "x", "y", "width", "height", "frames", "note", "thumbnail"),
    *("clip", "clip_start"),
)
NOTES = {  # by whether the first and the last frame have foreground of an event, which is not seen to come, or to go
    (True, False): "since the first frame: perhaps part of the scene",
    (True, True): "from the first frame to the last: perhaps part of the scene",
    (False, True): "still there in the last frame",
}
UNTIL_CHANGED = "until the whole picture changed"
LARGE_AREA = 0.25  # share of the picture; so large an event may not be motion in the scene
LARGE = "much of the picture: is it close by, or did the camera move, or the light change?"
WAITING = 200  # at most so many ended events are held back until it is certain whether the picture changed
MATROSKA = ".mkv"
SHEET_COLUMNS = 5
SHEET_EVENTS = 100  # on the sheet, at most
CAPTION_HEIGHT = 34  # pixels of two lines
CATEGORY = {"id": 1, "name": "foreground", "supercategory": ""}


def find_boxes(mask: FrameArray, min_area: float) -> list[Box]:
    """Return the boxes of the parts of a mask (255), at most 1000, largest first, of at least the share `min_area`."""
    return [box for box, _ in _find_parts(mask, min_area)]


def _find_parts(mask: FrameArray, min_area: float) -> list[tuple[Box, int]]:
    """Return box and number of pixels of the largest parts of a mask, at most 1000, covering at least `min_area`."""
    # `min_area` is a share of the picture. Parts are areas of 255 that are connected, diagonally too.
    # item 2 has box and area of each part, of which the first is the background
    parts = cv2.connectedComponentsWithStats(mask, connectivity=8)[2][1:]
    areas = parts[:, cv2.CC_STAT_AREA]
    order = np.argsort(-areas, kind="stable")[:MOST_BOXES]
    kept = order[areas[order] >= max(1, min_area * mask.size)]
    return [((x, y, width, height), area) for x, y, width, height, area in parts[kept, :5].tolist()]


def frame_row(part: Separated, min_area: float) -> dict[str, Any]:
    """Return the row of a frame, with a box for each part of its mask that covers the share `min_area`."""
    share = cv2.countNonZero(part.mask) / part.mask.size
    values = (part.index, round(part.time, 6), round(share, 6), find_boxes(part.mask, min_area))
    return dict(zip(FRAME_COLUMNS, values, strict=True))


@contextmanager
def frame_table(path: Path, force: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Open a table of frames in CSV; yield a function that writes a row of :func:`frame_row`."""
    with output_file(path, force=force) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        file.write(",".join(FRAME_COLUMNS) + "\r\n")

        def add(row: dict[str, Any]) -> None:
            """Write a row, with boxes as "x y width height;..."."""
            text = ";".join(" ".join(map(str, box)) for box in row["boxes"])
            file.write(f"{row['frame']},{row['time']:.6f},{row['foreground_share']:.6f},{text}\r\n")

        yield add


@contextmanager
def coco_file(path: Path, min_area: float, force: bool) -> Iterator[Callable[[Separated], None]]:
    """Open a file of COCO annotations; yield a function that writes the boxes of a frame."""
    images: list[dict[str, Any]] = []
    count = 0
    with output_file(path, force=force) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write('{"annotations": [')

        def add(part: Separated) -> None:
            """Write an annotation for each connected part of a frame's mask, and keep its entry in `images`."""
            nonlocal count
            height, width = part.mask.shape
            number = len(images) + 1
            image = {"id": number, "file_name": f"{part.index:06d}.png", "width": width, "height": height}
            images.append(image | {"frame": part.index, "time": round(part.time, 6)})
            for box, area in _find_parts(part.mask, min_area):
                count += 1
                found = {"id": count, "image_id": number, "category_id": CATEGORY["id"]}
                found |= {"bbox": list(box), "area": area, "iscrowd": 0}
                file.write(f"{', ' if count > 1 else ''}{json.dumps(found)}")

        yield add
        # the annotations end, and the rest of the object follows without its opening brace
        rest = json.dumps({"images": images, "categories": [CATEGORY]})
        file.write(f"], {rest[1:]}\n")


@dataclass(eq=False)
class MotionEvent:
    """Something that moves for a while; all times are in seconds from the beginning of the video."""

    start: float  # padding included, as is `end`
    first: float  # of the first frame with foreground
    last: float  # of the last frame with foreground
    until: float  # when that frame is not shown any more
    box: Box  # holds all boxes, in pixels of the results
    thumbnail: FrameArray  # the frame at the peak, small, with its boxes
    end: float = 0.0
    peak_time: float = 0.0  # of the frame with the most foreground
    peak_area: float = 0.0  # the share of the picture that is foreground there
    frames: int = 0  # with foreground
    note: str = ""  # of NOTES
    earlier: list[MotionEvent] = field(default_factory=list)  # its pieces until the picture may have changed

    @property
    def age(self) -> float:
        """For how many seconds it was seen."""
        return self.last - (self.earlier or [self])[0].first

    def pieces(self, cuts: Collection[float]) -> list[MotionEvent]:
        """Return what lies between `cuts`, times at which the picture became another one."""
        found: list[MotionEvent] = []
        for each in (*self.earlier, replace(self, earlier=[])):
            whole = found and not any(found[-1].last < cut <= each.first for cut in cuts)
            found.append(_joined(found.pop(), each) if whole else each)
        return found


class EventBuilder:
    """Opens, extends and ends events by what counts as one, at the times of a :class:`.Timeline`.

    An event ends, and another begins, where the picture becomes another one; `watch` is given each frame first.
    """

    def __init__(self, settings: EventSettings, step: float, watch: Watch | None = None) -> None:
        self.settings, self.timeline, self._watch = settings, Timeline(step), watch or Watch(step)
        self.over: list[MotionEvent] = []  # events without another frame, until they are `settled`
        self._withheld, self._longest = 0, 0.0  # damaged frames in which none began; seconds of one that is too short
        self._unclear = False  # whether one was left out because it is nowhere seen alone
        self._before = 0.0
        self._continues = False  # whether an earlier run has seen frames before the first one

    def advance_to(self, part: Separated) -> None:
        """Take the time of the next frame."""
        self._continues |= self.timeline.count == 0 and part.index > 0
        self._before = self.timeline.time
        self.timeline.add(part.time)

    def unseen(self, event: MotionEvent) -> float:
        """Return for how many seconds an event, which is asked for in each frame, has not been seen."""
        if event.last == self._before:
            event.until = event.last + self.timeline.shown
        return self.timeline.time - event.until - ROUNDING

    def may_begin(self, part: Separated) -> bool:
        """Return whether an event may begin in a frame that shows something: none begins in a damaged one."""
        self._withheld += part.is_doubtful
        return not part.is_doubtful

    def open(self, frame: FrameArray, box: Box) -> MotionEvent:
        """Return an event that begins with this frame, a padding earlier, but not before the first frame."""
        now = self.timeline.time
        return MotionEvent(self._padded(now), first=now, last=now, until=now, box=box, thumbnail=frame)

    def _padded(self, time: float) -> float:
        """Return when an event starts of whose frames the first has this time."""
        return max(self.timeline.first, time - self.settings.padding)

    def extend(self, event: MotionEvent, frame: FrameArray, boxes: list[Box], area: float) -> None:
        """Add this frame and its boxes to an event; the one of the largest `area` becomes the thumbnail."""
        now, watch = self.timeline.time, self._watch
        if event.last < watch.jumped:
            event.earlier = event.pieces([*watch.cuts, *watch.doubt])
            event.start, event.first, event.frames = self._padded(now), now, 0
            event.box = boxes[0] if boxes else event.box
            event.peak_time, event.peak_area, event.thumbnail = now, 0.0, _thumbnail(frame, [event.box])
        event.last, event.until = now, self.timeline.end
        event.box = _around([event.box, *boxes])
        event.frames += 1
        if area > event.peak_area:
            event.peak_time, event.peak_area, event.thumbnail = event.last, area, _thumbnail(frame, boxes)

    def settled(self, *, at_end: bool = False) -> list[MotionEvent]:
        """Return the events that are over and not too short, unless it is in doubt whether the picture has changed."""
        if self._watch.doubt and not at_end and len(self.over) < WAITING:
            return []
        over, self.over = self.over, []
        return [piece for event in over for piece in event.pieces(self._watch.cuts) if self._finish(piece)]

    def _finish(self, event: MotionEvent) -> bool:
        """Set start, end and note of an event; return whether it is kept: long enough, and somewhere seen alone."""
        length = event.until - event.first
        if length < self.settings.min_length - ROUNDING:
            self._longest = max(self._longest, length)
            return False
        if not event.peak_area:  # the object of an earlier picture
            self._unclear = True
            return False
        cuts = [-math.inf, *self._watch.cuts, math.inf]
        changed = min(cut for cut in cuts if cut > event.last)
        event.start = max(event.start, *(cut for cut in cuts if cut <= event.first))
        event.end = min(event.until + self.settings.padding, self.timeline.end, changed)
        is_first = event.first == self.timeline.first and not self._continues
        note = NOTES.get((is_first, event.last == self.timeline.time), "")
        event.note = "; ".join(filter(None, (note, UNTIL_CHANGED if event.until >= changed - ROUNDING else "")))
        return True

    def why_none(self) -> str:
        """Return why no event came, in words: what was too short, what only damaged frames show, or nothing."""
        reasons = []
        if self._longest:
            least = f"min_length={self.settings.min_length:g} seconds"
            reasons.append(f"lasts {self._longest:.3g} s at most, less than {least}")
        if self._unclear:
            reasons.append("is nowhere seen alone after the whole picture changed")
        if self._withheld:
            reasons.append("is in frames that are damaged or depend on damaged ones, in which no event begins")
        area = f"min_area={self.settings.min_area:g} of the picture"
        return f"what covers {area} {'; or it '.join(reasons)}" if reasons else f"no part of a mask covers {area}"


class EventFinder:
    """Joins frames with foreground into events as they come, wherever it is; see :class:`EventBuilder`."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._open: MotionEvent | None = None  # the event that goes on

    def add(self, part: Separated, boxes: list[Box]) -> list[MotionEvent]:
        """Take the next frame and the boxes of its mask; return the event that has ended, if there is one."""
        builder = self._builder
        builder.advance_to(part)
        if self._open is not None and builder.unseen(self._open) > 2 * builder.settings.padding:
            self._close()
        if boxes and (self._open is not None or builder.may_begin(part)):
            self._open = self._open or builder.open(part.frame, boxes[0])
            builder.extend(self._open, part.frame, boxes, cv2.countNonZero(part.mask) / part.mask.size)
        return builder.settled()

    def end(self) -> list[MotionEvent]:
        """End the event that goes on; return it, and those that have waited, unless they are too short."""
        self._close()
        return self._builder.settled(at_end=True)

    def _close(self) -> None:
        """End the event that goes on, if there is one."""
        self._builder.over += [] if self._open is None else [self._open]
        self._open = None


def _joined(event: MotionEvent, later: MotionEvent) -> MotionEvent:
    """Return an event that has the frames of two."""
    peak = event if event.peak_area >= later.peak_area else later
    shown = {name: getattr(peak, name) for name in ("peak_time", "peak_area", "thumbnail")}
    box, frames = _around([event.box, later.box]), event.frames + later.frames
    return replace(later, start=event.start, first=event.first, box=box, frames=frames, **shown)


def _around(boxes: list[Box]) -> Box:
    """Return the box that holds all boxes."""
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
    return left, top, right - left, bottom - top


def _thumbnail(frame: FrameArray, boxes: list[Box]) -> FrameArray:
    """Return a frame, or what is around small boxes, at most 160 pixels wide, with its boxes drawn."""
    height, width = frame.shape[:2]
    shrink = min(1.0, THUMBNAIL_WIDTH / width)
    size = max(1, round(width * shrink)), max(1, round(height * shrink))
    left, top, wide, high = _around(boxes)
    part = min(1.0, max(SURROUNDINGS * wide / width, SURROUNDINGS * high / height, LEAST_PART * shrink))  # of the frame
    shown = max(1, round(part * width)), max(1, round(part * height))
    left = min(max(0, left + (wide - shown[0]) // 2), width - shown[0])
    top = min(max(0, top + (high - shown[1]) // 2), height - shown[1])
    window = frame[top : top + shown[1], left : left + shown[0]]
    scale = size[0] / shown[0]
    small = cv2.resize(window, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    for x, y, w, h in boxes:
        ends = ((x - left, y - top), (x - left + w - 1, y - top + h - 1))
        corners = [(round(a * scale), round(b * scale)) for a, b in ends]
        cv2.rectangle(small, corners[0], corners[1], (255, 64, 64), 1)
    return np.asarray(small, np.uint8)


def _encoded(open_part: Callable[..., Any], parts: dict[Path, tuple[float, float]], *, force: bool) -> list[float]:
    """Encode parts of what has no packets to copy, from start to end in seconds; return when each begins."""
    begun = []
    with together():
        for path, (start, end) in parts.items():
            with open_part(start=max(0.0, start - ROUNDING / 2), end=end) as reader:
                size = {"width": reader.width, "height": reader.height}
                rate, first = reader.frame_rate, math.inf
                with VideoWriter(path, **size, frame_rate=rate, codec="h264", timed=True, force=force) as writer:
                    for frame in reader.timed():
                        first = min(first, frame.time)
                        writer.write(frame.picture, frame.time - first)
            begun.append(first)
    return begun


def _captioned(picture: FrameArray, lines: tuple[str, str]) -> FrameArray:
    """Return a picture with two lines of text below it, 16 pixels apart."""
    below = np.full((CAPTION_HEIGHT, picture.shape[1], 3), 255, np.uint8)
    for row, line in enumerate(lines):
        cv2.putText(below, line, (2, 13 + 16 * row), cv2.FONT_HERSHEY_SIMPLEX, 0.38, (0, 0, 0), 1, cv2.LINE_AA)
    return np.vstack([picture, below])


class EventTable:
    """Writes ``STEM_events.csv``, ``STEM_events.png`` and ``STEM_event_001.png``; `rows` has what the table has."""

    def __init__(self, stem: Path, force: bool, held: IO[bytes] | None, watch: Watch) -> None:
        # Events are numbered by their end, as they come, or by their start if there is a file that holds the
        # thumbnails, all of one size, of those that wait for :meth:`number`.
        self._stem, self._force, self._held, self._watch = stem, force, held, watch
        self._waiting: list[MotionEvent] = []
        self.rows: list[dict[str, Any]] = []  # by EVENT_COLUMNS
        self._spans: list[tuple[float, float, str]] = []  # of each event without padding, and its note
        self._thumbnails: list[FrameArray] = []

    @staticmethod
    def paths(stem: Path) -> list[Path]:
        """Return the table, the sheet, and the thumbnails of an earlier run, which may be in the way."""
        before = sorted(stem.parent.glob(f"{glob.escape(stem.name)}_event_[0-9]*.png"))
        return [stem.with_name(f"{stem.name}_events{suffix}") for suffix in (".csv", ".png")] + before

    def add(self, event: MotionEvent) -> list[dict[str, Any]]:
        """Take an event that has ended; return its row, without clip until :meth:`cut`, unless it has to wait."""
        if self._held is None:
            return [self._number(event)]
        self._held.write(event.thumbnail.tobytes())
        self._shape, event.thumbnail = event.thumbnail.shape, np.empty(0, np.uint8)
        self._waiting.append(event)
        return []

    def number(self) -> None:
        """Give the events that wait their numbers."""
        if self._held is None:
            return
        for place, event in sorted(enumerate(self._waiting), key=lambda each: (each[1].start, each[1].end)):
            size = math.prod(self._shape)
            self._held.seek(place * size)
            event.thumbnail = np.frombuffer(self._held.read(size), np.uint8).reshape(self._shape)
            self._number(event)

    def _number(self, event: MotionEvent) -> dict[str, Any]:
        """Give an event the next number, write its thumbnail and return its row."""
        number = len(self.rows) + 1
        thumbnail = self._stem.with_name(f"{self._stem.name}_event_{number:03d}.png")
        write_image(thumbnail, event.thumbnail, force=self._force)
        times = (round(value, 6) for value in (event.start, event.end, event.peak_time, event.peak_area))
        # the last two are the name and the start of the clip
        values = (number, *times, *event.box, event.frames, event.note, thumbnail.name, None, None)
        self.rows.append(dict(zip(EVENT_COLUMNS, values, strict=True)))
        self._spans.append((event.first, event.until, event.note))
        self._mark(self.rows[-1:])
        if number <= SHEET_EVENTS:
            caption = (f"{number}: {time_code(event.start)}", f"{event.end - event.start:.1f} s, {event.peak_area:.1%}")
            self._thumbnails.append(_captioned(event.thumbnail, caption))
        return self.rows[-1]

    def _mark(self, rows: list[dict[str, Any]]) -> None:
        """Note on rows what the camera, as far as it is known, did not see during their events."""
        unseen = self._watch.stretches()
        for row in rows:
            first, until, note = self._spans[row["event"] - 1]
            marks = marks_of(unseen, first, until, is_live=self._held is None)
            row["note"] = "; ".join(filter(None, (note, *(marks or [LARGE * (row["peak_area"] >= LARGE_AREA)]))))

    def cut(self, source: str | Path | Callable[..., FrameReader]) -> tuple[list[Path], list[str]]:
        """Cut the events out of the video, into its container or Matroska; return files, and why if it failed.

        For pictures, a function that opens the frames from `start` to `end`, in seconds; they are encoded as H.264.
        """
        own, problem = "" if callable(source) else Path(source).suffix.lower(), ""
        suffixes = [".mp4"] if callable(source) else [own if own in CUT_FORMATS else MATROSKA, MATROSKA]
        for suffix in dict.fromkeys(suffixes):
            parts = [self._stem.with_name(row["thumbnail"]).with_suffix(suffix) for row in self.rows]
            cuts = {part: (row["start"], row["end"]) for part, row in zip(parts, self.rows, strict=True)}
            try:
                if callable(source):
                    starts = _encoded(source, cuts, force=self._force)
                else:
                    starts = cut_video(source, cuts, force=self._force)
            except OutputExistsError:
                raise
            except MediaError as error:
                problem = str(error)
                if not isinstance(error, UnsupportedError):  # it would come again; only the container can be changed
                    break
                continue
            for row, part, start in zip(self.rows, parts, starts, strict=True):
                row |= {"clip": part.name, "clip_start": round(start, 6)}
            return parts, []
        return [], [problem]

    def clear(self, written: list[Path]) -> None:
        """Remove the thumbnails and clips of an earlier run that this one has not `written` again."""
        for path in self._stem.parent.glob(f"{glob.escape(self._stem.name)}_event_*"):
            number = path.stem.removeprefix(f"{self._stem.name}_event_")
            if path.suffix in (".png", *CUT_FORMATS) and re.fullmatch("[0-9]{3,}", number) and path not in written:
                path.unlink(missing_ok=True)

    def write(self) -> list[Path]:
        """Write the table and the sheet; return all files, the thumbnails included."""
        table, sheet = self.paths(self._stem)[:2]
        self._mark(self.rows)
        write_csv(table, [EVENT_COLUMNS, *(row.values() for row in self.rows)], force=self._force)
        if not self._thumbnails:
            return [table]
        starts = range(0, len(self._thumbnails), SHEET_COLUMNS)
        write_image(sheet, tiled([self._thumbnails[at : at + SHEET_COLUMNS] for at in starts]), force=self._force)
        return [table, sheet, *(self._stem.with_name(row["thumbnail"]) for row in self.rows)]
