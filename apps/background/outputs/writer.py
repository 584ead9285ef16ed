"""Everything that a run writes, frame by frame."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from visionnmf.apps.background.frame_arrays import Separated
from visionnmf.apps.background.settings import EventSettings, OutputSettings

from .coco import CocoFile
from .event_table import EventTable
from .events import EventFinder
from .frame_table import FrameTable, frame_row
from .result_files import ResultFiles
from .videos import VideoEncoders, VideoFormat

__all__ = ["ResultWriter"]


class ResultWriter:
    """Writes the videos, masks, tables and events of one run while frames come.

    `step` is the time that a frame is shown, in seconds.

    Attributes
    ----------
    events : list of dict or None
        The rows of the events that have ended, or None where none are looked for.
    """

    def __init__(
        self, files: ResultFiles, video: VideoFormat, outputs: OutputSettings, events: EventSettings, step: float
    ) -> None:
        self._min_area = events.min_area
        self._finder = EventFinder(events, step) if outputs.finds_events else None
        self._event_table = EventTable(files.stem, outputs.force)
        self.events = None if self._finder is None else self._event_table.rows
        self._masks = files.masks
        self._videos = VideoEncoders(files.videos, video, force=outputs.force, alpha=outputs.alpha)
        self._frames = None if files.frame_table is None else FrameTable(files.frame_table, outputs.force)
        self._coco = None if files.coco is None else CocoFile(files.coco, self._min_area, outputs.force)
        self._tables = [path for path in (files.frame_table, files.coco) if path is not None]
        self._stack = ExitStack()

    def __enter__(self) -> ResultWriter:
        with ExitStack() as stack:
            for each in (self._videos, self._frames, self._coco):
                if each is not None:
                    stack.enter_context(each)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, part: Separated, time: float) -> dict[str, Any] | None:
        """Write the next frame, shown at `time` seconds; return the row of an event that has ended by then."""
        self._videos.write(part, time)
        if self._masks is not None:
            self._masks.write(part)
        if self._coco is not None:
            self._coco.add(part, time)
        if self._frames is None and self._finder is None:
            return None
        row = frame_row(part, time, self._min_area)
        if self._frames is not None:
            self._frames.add(row)
        event = None if self._finder is None else self._finder.add(time, part.frame, part.mask, row["boxes"])
        return None if event is None else self._event_table.add(event)

    def finish(self, cut_from: str | Path | None = None) -> tuple[list[Path], list[str]]:
        """Write the tables of events, and cut the events out of the video `cut_from` unless it is None.

        Returns the files beside videos and masks, and a sentence if the video could not be cut.
        """
        if self._finder is None:
            return self._tables, []
        last = self._finder.end()
        if last is not None:
            self._event_table.add(last)
        cut: list[Path] = []
        problems: list[str] = []
        if cut_from is not None and self._event_table.rows:
            cut, problems = self._event_table.cut(cut_from)
        return [*self._tables, *cut, *self._event_table.write()], problems
