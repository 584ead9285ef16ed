"""The table of frames: number, time, share of foreground, boxes; as CSV or JSON Lines."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import cv2

from visionnmf.apps.background.frame_arrays import Separated
from visionnmf.io import output_file

from .events import find_boxes

__all__ = ["FrameTable", "frame_row", "time_code"]

COLUMNS = ("frame", "time", "foreground_share", "boxes")


def time_code(seconds: float) -> str:
    """Return a time as 00:01:02.345."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def frame_row(part: Separated, time: float, min_area: float) -> dict[str, Any]:
    """Return the row of a frame that is shown at `time` seconds; smaller parts than `min_area` have no box."""
    share = cv2.countNonZero(part.mask) / part.mask.size
    values = (part.index, round(time, 6), round(share, 6), find_boxes(part.mask, min_area))
    return dict(zip(COLUMNS, values, strict=True))


class FrameTable:
    """A file with a row for each frame, ``.csv`` or ``.jsonl`` by its suffix; `force` replaces an existing file."""

    def __init__(self, path: Path, force: bool) -> None:
        self._path, self._force = path, force

    def __enter__(self) -> FrameTable:
        with ExitStack() as stack:
            temporary = stack.enter_context(output_file(self._path, force=self._force))
            self._file: TextIO = stack.enter_context(temporary.open("w", newline="", encoding="utf-8"))
            self._stack = stack.pop_all()
        if self._path.suffix == ".csv":
            self._file.write(",".join(COLUMNS) + "\r\n")
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, row: dict[str, Any]) -> None:
        """Write a row of :func:`frame_row`."""
        if self._path.suffix == ".csv":
            text = ";".join(" ".join(map(str, box)) for box in row["boxes"])
            self._file.write(f"{row['frame']},{row['time']:.6f},{row['foreground_share']:.6f},{text}\r\n")
        else:
            self._file.write(json.dumps(row) + "\n")
