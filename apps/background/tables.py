"""What ``visionnmf background`` writes about frames and events: tables, thumbnails, a sheet of them."""

from __future__ import annotations

import csv
import glob
import io
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import MediaError, OutputExistsError, UnsupportedError
from visionnmf.io import Cut, cut_video, output_file, write_image
from visionnmf.io.video.cutting import CUT_FORMATS

from .coco import CocoFile
from .events import Event, EventFinder, EventSettings, find_boxes
from .frames import Separated

__all__ = ["EventTable", "FrameTable", "Recorder", "coco_path", "frame_row", "time_code"]

FrameArray = NDArray[np.uint8]

FRAME_COLUMNS = ("frame", "time", "foreground_share", "boxes")
EVENT_COLUMNS = (
    "event", "start", "end", "peak_time", "peak_area", "x", "y", "width", "height", "frames", "thumbnail",
    "clip", "clip_start",
)  # fmt: skip
MATROSKA = ".mkv"
SHEET_COLUMNS = 5
SHEET_EVENTS = 100  # on the sheet, at most
CAPTION_HEIGHT = 34  # pixels, of two lines


def time_code(seconds: float) -> str:
    """Return a time as 00:01:02.345."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


class FrameTable:
    """A row a frame: number, time, share of foreground, boxes; as CSV or JSON Lines, by the suffix.

    Parameters
    ----------
    path : Path
        ``.csv`` or ``.jsonl``.
    force : bool
        Replace what exists.
    """

    def __init__(self, path: Path, force: bool) -> None:
        self._path, self._force = path, force

    def __enter__(self) -> FrameTable:
        with ExitStack() as stack:
            temporary = stack.enter_context(output_file(self._path, force=self._force))
            self._file: TextIO = stack.enter_context(temporary.open("w", newline="", encoding="utf-8"))
            self._stack = stack.pop_all()
        if self._path.suffix == ".csv":
            self._file.write(",".join(FRAME_COLUMNS) + "\r\n")
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, row: dict[str, Any]) -> None:
        """Write the row of a frame; see :func:`frame_row`."""
        if self._path.suffix == ".csv":
            text = ";".join(" ".join(map(str, box)) for box in row["boxes"])
            self._file.write(f"{row['frame']},{row['time']:.6f},{row['foreground_share']:.6f},{text}\r\n")
        else:
            self._file.write(json.dumps(row) + "\n")


def frame_row(part: Separated, time: float, min_area: float) -> dict[str, Any]:
    """Return what the table of frames has of a frame: number, time, share of foreground, boxes of its parts."""
    share = cv2.countNonZero(part.mask) / part.mask.size
    values = (part.index, round(time, 6), round(share, 6), find_boxes(part.mask, min_area))
    return dict(zip(FRAME_COLUMNS, values, strict=True))


class EventTable:
    """A row an event, its thumbnail beside it, and at the end a sheet of thumbnails.

    Parameters
    ----------
    stem : Path
        What the names of the files begin with: ``STEM_events.csv``, ``STEM_events.png``, ``STEM_event_001.png``.
    force : bool
        Replace what exists.

    Attributes
    ----------
    rows : list of dict
        For each event what the table has.
    """

    def __init__(self, stem: Path, force: bool) -> None:
        self._stem, self._force = stem, force
        self.rows: list[dict[str, Any]] = []
        self._sheet: list[FrameArray] = []

    @staticmethod
    def paths(stem: Path) -> list[Path]:
        """Return the table, the sheet, and the thumbnails of a run before: what may be in the way."""
        before = sorted(stem.parent.glob(f"{glob.escape(stem.name)}_event_[0-9]*.png"))
        return [stem.with_name(f"{stem.name}_events{suffix}") for suffix in (".csv", ".png")] + before

    def add(self, event: Event) -> None:
        """Take an event that is over."""
        number = len(self.rows) + 1
        thumbnail = self._stem.with_name(f"{self._stem.name}_event_{number:03d}.png")
        write_image(thumbnail, event.thumbnail, force=self._force)
        times = (round(value, 6) for value in (event.start, event.end, event.peak_time, event.peak_area))
        row = (number, *times, *event.box, event.frames, thumbnail.name, None, None)
        self.rows.append(dict(zip(EVENT_COLUMNS, row, strict=True)))
        if number <= SHEET_EVENTS:
            caption = (f"{number}: {time_code(event.start)}", f"{event.end - event.start:.1f} s, {event.peak_area:.1%}")
            self._sheet.append(_captioned(event.thumbnail, caption))

    def cut(self, source: str | Path) -> list[Path]:
        """Cut the events out of the video, into its own container or, where that does not do, Matroska."""
        suffix = Path(source).suffix.lower()
        try:
            return self._cut(source, suffix if suffix in CUT_FORMATS else MATROSKA)
        except UnsupportedError:
            if suffix not in CUT_FORMATS or suffix == MATROSKA:
                raise
            return self._cut(source, MATROSKA)

    def _cut(self, source: str | Path, suffix: str) -> list[Path]:
        stems = [self._stem.with_name(Path(row["thumbnail"]).stem) for row in self.rows]
        parts = [stem.with_suffix(suffix) for stem in stems]
        cuts = [Cut(part, row["start"], row["end"]) for part, row in zip(parts, self.rows, strict=True)]
        begun = cut_video(source, cuts, force=self._force)
        for row, part, start in zip(self.rows, parts, begun, strict=True):
            row |= {"clip": part.name, "clip_start": round(start, 6)}
        return parts

    def write(self) -> list[Path]:
        """Write table and sheet; return all files, the thumbnails too."""
        table, sheet = self.paths(self._stem)[:2]
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, EVENT_COLUMNS)
        writer.writeheader()
        writer.writerows(self.rows)
        with output_file(table, force=self._force) as temporary:
            temporary.write_text(text.getvalue(), encoding="utf-8", newline="")
        if not self._sheet:
            return [table]
        write_image(sheet, _grid(self._sheet), force=self._force)
        return [table, sheet, *(self._stem.with_name(row["thumbnail"]) for row in self.rows)]


class Recorder:
    """Writes both tables while frames come.

    Parameters
    ----------
    stem : Path
        What the names of the files begin with.
    settings : EventSettings or None
        None writes no events.
    frames : {"csv", "jsonl"} or None
        None writes no table of frames.
    step : float
        Seconds that a frame is shown.
    force : bool
        Replace what exists.
    coco : bool, default=False
        Also write boxes in COCO's form.
    min_area : float, optional
        Of boxes; by default that of `settings`.
    """

    def __init__(
        self,
        stem: Path,
        settings: EventSettings | None,
        frames: str | None,
        step: float,
        *,
        force: bool,
        coco: bool = False,
        min_area: float | None = None,
    ) -> None:
        self._min_area = (settings or EventSettings()).min_area if min_area is None else min_area
        self._finder = None if settings is None else EventFinder(settings, step)
        self._events = EventTable(stem, force)
        path = frame_table_path(stem, frames)
        self._frames = None if path is None else FrameTable(path, force)
        self._coco = CocoFile(coco_path(stem), self._min_area, force) if coco else None
        self._paths = [] if path is None else [path]
        self._paths += [] if self._coco is None else [self._coco.path]
        self._stack = ExitStack()

    def __enter__(self) -> Recorder:
        for each in (self._frames, self._coco):
            if each is not None:
                self._stack.enter_context(each)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, part: Separated, time: float) -> dict[str, Any] | None:
        """Take the next frame; return the row of an event that is over by now."""
        if self._coco is not None:
            self._coco.add(part, time)
        if self._frames is None and self._finder is None:
            return None
        row = frame_row(part, time, self._min_area)
        if self._frames is not None:
            self._frames.add(row)
        if self._finder is not None:
            event = self._finder.add(time, part.frame, part.mask, row["boxes"])
            if event is not None:
                self._events.add(event)
                return self._events.rows[-1]
        return None

    def finish(self, clips_of: str | Path | None) -> tuple[list[Path], list[dict[str, Any]] | None, list[str]]:
        """Cut events out of the video `clips_of`, unless None; write what is left to be written.

        Returns
        -------
        (list of Path, list of dict or None, list of str)
            The files, the events, None where none were wanted, and a sentence if the video could not be cut.
        """
        paths = list(self._paths)
        if self._finder is None:
            return paths, None, []
        last = self._finder.end()
        if last is not None:
            self._events.add(last)
        said = []
        if clips_of is not None and self._events.rows:
            try:
                paths += self._events.cut(clips_of)
            except OutputExistsError:
                raise
            except MediaError as error:
                said.append(str(error))
        return [*paths, *self._events.write()], self._events.rows, said


def frame_table_path(stem: Path, kind: str | None) -> Path | None:
    """Return the file of the table of frames."""
    return None if kind is None else stem.with_name(f"{stem.name}_frames.{kind}")


def coco_path(stem: Path) -> Path:
    """Return the file of boxes in COCO's form."""
    return stem.with_name(f"{stem.name}_coco.json")


def _captioned(picture: FrameArray, lines: tuple[str, str]) -> FrameArray:
    """Return a picture with two lines below it."""
    below = np.full((CAPTION_HEIGHT, picture.shape[1], 3), 255, np.uint8)
    for row, line in enumerate(lines):
        cv2.putText(below, line, (2, 13 + 16 * row), cv2.FONT_HERSHEY_SIMPLEX, 0.38, (0, 0, 0), 1, cv2.LINE_AA)
    return np.vstack([picture, below])


def _grid(pictures: list[FrameArray]) -> FrameArray:
    """Return pictures of one size in rows, white where there is none."""
    height, width = pictures[0].shape[:2]
    columns = min(SHEET_COLUMNS, len(pictures))
    rows = -(-len(pictures) // columns)
    sheet = np.full((rows * (height + 4) + 4, columns * (width + 4) + 4, 3), 255, np.uint8)
    for number, picture in enumerate(pictures):
        top, left = 4 + number // columns * (height + 4), 4 + number % columns * (width + 4)
        sheet[top : top + height, left : left + width] = picture
    return sheet
