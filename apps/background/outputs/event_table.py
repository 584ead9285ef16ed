"""The table of events, their thumbnails, a sheet of these, and the events cut out of the video."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import MediaError, OutputExistsError, UnsupportedError
from visionnmf.io import Cut, cut_video, write_csv, write_image
from visionnmf.io.video.cutting import CUT_FORMATS

from .events import Event
from .frame_table import time_code

__all__ = ["EventTable"]

FrameArray = NDArray[np.uint8]

COLUMNS = (
    "event", "start", "end", "peak_time", "peak_area", "x", "y", "width", "height", "frames", "thumbnail",
    "clip", "clip_start",
)  # fmt: skip
MATROSKA = ".mkv"
SHEET_COLUMNS = 5
SHEET_EVENTS = 100  # on the sheet, at most
CAPTION_HEIGHT = 34  # pixels of two lines


class EventTable:
    """Writes ``STEM_events.csv``, ``STEM_events.png`` and ``STEM_event_001.png``; `rows` has what the table has."""

    def __init__(self, stem: Path, force: bool) -> None:
        self._stem, self._force = stem, force
        self.rows: list[dict[str, Any]] = []
        self._sheet: list[FrameArray] = []

    @staticmethod
    def paths(stem: Path) -> list[Path]:
        """Return the table, the sheet, and the thumbnails of an earlier run, which may be in the way."""
        before = sorted(stem.parent.glob(f"{glob.escape(stem.name)}_event_[0-9]*.png"))
        return [stem.with_name(f"{stem.name}_events{suffix}") for suffix in (".csv", ".png")] + before

    def add(self, event: Event) -> dict[str, Any]:
        """Take an event that has ended, write its thumbnail and return its row."""
        number = len(self.rows) + 1
        thumbnail = self._stem.with_name(f"{self._stem.name}_event_{number:03d}.png")
        write_image(thumbnail, event.thumbnail, force=self._force)
        times = (round(value, 6) for value in (event.start, event.end, event.peak_time, event.peak_area))
        values = (number, *times, *event.box, event.frames, thumbnail.name, None, None)
        row = dict(zip(COLUMNS, values, strict=True))
        self.rows.append(row)
        if number <= SHEET_EVENTS:
            caption = (f"{number}: {time_code(event.start)}", f"{event.end - event.start:.1f} s, {event.peak_area:.1%}")
            self._sheet.append(_captioned(event.thumbnail, caption))
        return row

    def cut(self, source: str | Path) -> tuple[list[Path], list[str]]:
        """Cut the events out of the video, into its own container or, where that is not possible, Matroska.

        Returns the files, and a sentence if the video could not be cut.
        """
        suffix = Path(source).suffix.lower()
        suffixes = dict.fromkeys([suffix if suffix in CUT_FORMATS else MATROSKA, MATROSKA])
        problem = ""
        for suffix in suffixes:
            try:
                return self._cut(source, suffix), []
            except OutputExistsError:
                raise
            except UnsupportedError as error:
                problem = str(error)
            except MediaError as error:
                return [], [str(error)]
        return [], [problem]

    def _cut(self, source: str | Path, suffix: str) -> list[Path]:
        parts = [self._stem.with_name(row["thumbnail"]).with_suffix(suffix) for row in self.rows]
        cuts = [Cut(part, row["start"], row["end"]) for part, row in zip(parts, self.rows, strict=True)]
        starts = cut_video(source, cuts, force=self._force)
        for row, part, start in zip(self.rows, parts, starts, strict=True):
            row |= {"clip": part.name, "clip_start": round(start, 6)}
        return parts

    def write(self) -> list[Path]:
        """Write the table and the sheet; return all files, the thumbnails included."""
        table, sheet = self.paths(self._stem)[:2]
        write_csv(table, [COLUMNS, *(row.values() for row in self.rows)], force=self._force)
        if not self._sheet:
            return [table]
        write_image(sheet, _grid(self._sheet), force=self._force)
        return [table, sheet, *(self._stem.with_name(row["thumbnail"]) for row in self.rows)]


def _captioned(picture: FrameArray, lines: tuple[str, str]) -> FrameArray:
    """Return a picture with two lines of text below it."""
    below = np.full((CAPTION_HEIGHT, picture.shape[1], 3), 255, np.uint8)
    for row, line in enumerate(lines):
        cv2.putText(below, line, (2, 13 + 16 * row), cv2.FONT_HERSHEY_SIMPLEX, 0.38, (0, 0, 0), 1, cv2.LINE_AA)
    return np.vstack([picture, below])


def _grid(pictures: list[FrameArray]) -> FrameArray:
    """Return pictures of one size in rows, on white."""
    height, width = pictures[0].shape[:2]
    columns = min(SHEET_COLUMNS, len(pictures))
    rows = -(-len(pictures) // columns)
    sheet = np.full((rows * (height + 4) + 4, columns * (width + 4) + 4, 3), 255, np.uint8)
    for number, picture in enumerate(pictures):
        top, left = 4 + number // columns * (height + 4), 4 + number % columns * (width + 4)
        sheet[top : top + height, left : left + width] = picture
    return sheet
