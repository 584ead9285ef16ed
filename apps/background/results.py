"""The results of a run: their names, whether they may be written, and what writes them frame by frame."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

import cv2
import numpy as np

from visionnmf.exceptions import PASS_FORCE, MediaError, OutputExistsError, ParameterError
from visionnmf.io import VideoWriter, check_outputs, is_live, output_folder, pictures_of, write_image
from visionnmf.io.inputs import stem_of
from visionnmf.io.video.timeline import FrameReader

from .frame_arrays import FrameArray, Separated
from .reports import time_code
from .settings import EventSettings, OutputSettings
from .watch import Watch

QUEUED_FRAMES, QUEUED_PIXELS = 4, 4 << 20  # limits on what may wait for an encoder, but one frame is always allowed
HELD = 64 << 20  # bytes of thumbnails that wait for their events' numbers; more are kept in a file
# Pixels: the three panels of a wider video's preview are reduced to this, as many players refuse widths above 4096.
PREVIEW_WIDTH = 640
CAPTION_HEIGHT, CAPTION_WIDTH = 20, 150  # pixels of the line above a picture, and the least width that it needs
TINT = (255, 0, 255)


class ResultFiles:
    """The paths of the results of one run; an attribute is None where a result is not wanted."""

    def __init__(
        self,
        source: str | Path,
        out: Path,
        outputs: OutputSettings,
        *,
        first_frame: int | None = None,
        keep_model: bool = False,
    ) -> None:
        # Of a live run `first_frame` is how many frames earlier runs have done. `keep_model` says whether a batch
        # writes its model.
        self._source, self._out, self._outputs = source, out, outputs
        self.is_live = first_frame is not None
        live, resumed = self.is_live, bool(first_frame)
        name = stem_of(source)
        self.stem = out / (f"{name}_from{first_frame:06d}" if resumed else name)
        self.background = out / f"{name}_background.png"
        self.model = out / f"{name}_model.npz" if keep_model else None
        self._replaces_background = outputs.force or resumed  # a resumed run replaces that of the run before
        # If nothing is asked for, a batch with videos writes masks as a lossless one (ffv1), and other runs write none.
        masks = outputs.masks or ("ffv1" if outputs.videos and not live else None)
        names = {"background": "mp4", "preview": "mp4"} if outputs.videos and not live else {}
        if masks in ("ffv1", "h264"):
            names["foreground"] = "mkv" if masks == "ffv1" else "mp4"
        if outputs.overlay:
            names["overlay"] = "mp4"
        self.videos = {kind: self._named(f"{kind}.{suffix}") for kind, suffix in names.items()}
        self.masks = None
        if masks == "png":
            self.masks = MaskFolder(out / f"{name}_masks", force=self._replaces_background)
        self.frame_table = self._named("frames.csv") if outputs.frame_table else None
        self.coco = self._named("coco.json") if outputs.coco else None

    def _named(self, ending: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}_{ending}")

    def check(self) -> None:
        """Refuse to overwrite the input or, unless `force` of the outputs allows it, other files."""
        tables = [path for path in (self.model, self.frame_table, self.coco) if path is not None]
        if self._outputs.finds_events:
            from .event_tables import EventTable

            tables += EventTable.paths(self.stem)
        inputs = _input_files(self._source, self._out)  # which no result may replace
        check_outputs([self.background], self._replaces_background, inputs=inputs)
        check_outputs([*self.videos.values(), *tables], self._outputs.force, inputs=inputs)

    def listed(self, written: Sequence[Path]) -> list[str]:
        """Return all results as a report lists them; `written` are the tables and events."""
        folder = None if self.masks is None else self.masks.folder
        found = [self.background, self.model, *self.videos.values(), folder, *written]
        return [str(path) for path in found if path is not None]


def _input_files(source: str | Path, out: Path) -> list[str]:
    """Return the files of a source, which are several for pictures; refuse an `out` among these."""
    pictures = [] if is_live(source) else pictures_of(source)
    if os.path.realpath(out) in {os.path.realpath(os.path.dirname(picture)) for picture in pictures}:
        raise ParameterError(
            f"out must not be a folder of the pictures of {source}, where results would be frames the next time; "
            f"got {out}; give another"
        )
    return pictures or [str(source)]


class MaskFolder:
    """Masks as pictures, ``000000.png`` and so on; raises OutputExistsError for files without `force`."""

    def __init__(self, folder: Path, *, force: bool) -> None:
        self.folder, self._force = folder, force
        if os.path.lexists(folder) and not folder.is_dir():
            raise MediaError(f"{folder}: is not a folder; move it, or give another output folder")
        if not force and folder.is_dir() and any(folder.iterdir()):
            raise OutputExistsError(f"{folder}: holds files already; {PASS_FORCE}")

    def write(self, part: Separated) -> None:
        """Write the mask of a separated frame, under the number of the frame; `_force` says whether it may exist."""
        output_folder(self.folder)
        write_image(self.folder / f"{part.index:06d}.png", part.mask, force=self._force)

    def clear(self, first: int) -> None:
        """Remove the masks of an earlier run, numbered pictures such as ``000120.png``, from number `first` on."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        for path in list(found):
            if re.fullmatch(r"[0-9]{6,}\.png", path.name) and int(path.stem) >= first:
                path.unlink(missing_ok=True)


class VideoFormat(NamedTuple):
    """Size and timing of the videos; `varies` says that each frame is shown at a time of its own."""

    width: int
    height: int
    frame_rate: Fraction
    varies: bool


@contextmanager
def _encoder(writer: VideoWriter, room: int) -> Iterator[Callable[[FrameArray, float | None], None]]:
    """Encode a video in a thread of its own; yield what queues a frame and its time, and waits if many are queued."""
    waiting: deque[Future[None]] = deque()

    def give(frame: FrameArray, time: float | None) -> None:
        """Queue a frame for the thread that encodes."""
        waiting.append(pool.submit(writer.write, frame, time))
        if len(waiting) > room:
            waiting.popleft().result()

    with writer, ThreadPoolExecutor(1) as pool:  # the thread ends first, so that nothing is written to a closed writer
        yield give
        while waiting:
            waiting.popleft().result()


@contextmanager
def encoded_videos(paths: dict[str, Path], video: VideoFormat, *, force: bool) -> Iterator[Callable[[Separated], None]]:
    """Encode the videos of a run, by kind, beside the modelling; yield what takes the frames one by one."""
    # fewer large frames may wait for each encoder, to bound the memory
    room = min(QUEUED_FRAMES, max(1, QUEUED_PIXELS // (video.width * video.height)))
    panel = (video.width, video.height)  # of each of the three pictures of the preview
    if video.width > PREVIEW_WIDTH:
        # even, so that H.264 accepts it
        panel = (PREVIEW_WIDTH, max(2, 2 * round(video.height * PREVIEW_WIDTH / video.width / 2)))
    first: list[float] = []  # the time of the first frame, at which the videos begin

    def picture(kind: str, part: Separated) -> FrameArray:
        """Return what a kind of video shows of a frame: overlay, background, mask, or all three side by side."""
        if kind == "overlay":
            return tinted(part.frame, part.mask)
        if kind != "preview":
            return part.background if kind == "background" else part.mask
        panels = [part.frame, part.background, cv2.cvtColor(part.mask, cv2.COLOR_GRAY2RGB)]
        if panels[0].shape[1::-1] != panel:
            panels = [cv2.resize(each, panel, interpolation=cv2.INTER_AREA) for each in panels]
        words = (f"frame {part.index}, {time_code(part.time)}", "background", "foreground")
        return np.hstack([captioned(np.asarray(each), text) for each, text in zip(panels, words, strict=True)])

    def write(part: Separated) -> None:
        """Hand one frame to the encoders; wait while they are too far behind."""
        first[:] = first or [part.time]
        for kind, encode in encoders.items():
            encode(picture(kind, part), part.time - first[0] if video.varies else None)

    with ExitStack() as stack:
        encoders = {}
        for kind, path in paths.items():
            writer = VideoWriter(
                path,
                width=3 * panel[0] if kind == "preview" else video.width,
                height=panel[1] + CAPTION_HEIGHT if kind == "preview" else video.height,
                frame_rate=video.frame_rate,
                codec="ffv1" if path.suffix == ".mkv" else "h264",
                grey=kind == "foreground",  # masks have one channel
                timed=video.varies,  # each frame comes with its time
                force=force,
            )
            encoders[kind] = stack.enter_context(_encoder(writer, room))
        yield write


def tinted(frame: FrameArray, mask: FrameArray) -> FrameArray:
    """Return a frame (height, width, 3) whose foreground is outlined and half coloured."""
    colour = np.broadcast_to(np.array(TINT, np.uint8), frame.shape).copy()
    shown = np.where(mask[..., None] > 0, np.asarray(cv2.addWeighted(frame, 0.5, colour, 0.5, 0)), frame)
    outlines = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0]
    return np.asarray(cv2.drawContours(np.ascontiguousarray(shown), outlines, -1, TINT, 1), np.uint8)


def captioned(picture: FrameArray, text: str) -> FrameArray:
    """Return a picture with a line of text above it, which is left empty where the picture is too narrow."""
    above = np.zeros((CAPTION_HEIGHT, picture.shape[1], 3), np.uint8)
    if picture.shape[1] >= CAPTION_WIDTH:
        cv2.putText(above, text, (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
    return np.vstack([above, picture])


class ResultWriter:
    """Writes the results of one run; `events` has the rows of those that have ended, None if none are wanted."""

    def __init__(
        self,
        files: ResultFiles,
        video: VideoFormat,
        outputs: OutputSettings,
        events: EventSettings,
        watch: Watch,
        step: float,
    ) -> None:
        """Take the paths, what is written and counts as an event, and the declared seconds between two frames."""
        self._files, self._video, self._outputs, self._settings, self._step = files, video, outputs, events, step
        self._stack = ExitStack()
        self.events: list[dict[str, Any]] | None = None
        self.why_no_event = ""  # in words, once finished
        self.watch = watch  # gets each frame before `write` does

    def __enter__(self) -> ResultWriter:
        """Open the videos and the tables; if one cannot be opened, those before it are closed again."""
        files, outputs = self._files, self._outputs
        self._has_rows = outputs.finds_events or files.frame_table is not None
        with ExitStack() as stack:
            videos = encoded_videos(files.videos, self._video, force=outputs.force)
            self._encode = stack.enter_context(videos)
            if self._has_rows or files.coco is not None:  # a plain run loads nothing for tables
                from . import event_tables as tables
                from .object_events import ObjectFinder

                self._frame_row = tables.frame_row
                if files.frame_table is not None:
                    self._add_row = stack.enter_context(tables.frame_table(files.frame_table, outputs.force))
                if files.coco is not None:
                    opened = tables.coco_file(files.coco, self._settings.min_area, outputs.force)
                    self._add_annotations = stack.enter_context(opened)
                if outputs.finds_events:
                    kind = ObjectFinder if outputs.events == "objects" else tables.EventFinder
                    self._builder = tables.EventBuilder(self._settings, self._step, self.watch)
                    self._finder = kind(self._builder)
                    held = None if files.is_live else stack.enter_context(SpooledTemporaryFile(HELD))
                    self._event_table = tables.EventTable(files.stem, outputs.force, held, self.watch)
                    self.events = self._event_table.rows
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, part: Separated) -> list[dict[str, Any]]:
        """Write the next frame; return the rows of the events that have ended by then, if the run is live."""
        self._encode(part)
        if self._files.masks is not None:
            self._files.masks.write(part)
        if self._files.coco is not None:
            self._add_annotations(part)
        if not self._has_rows:
            return []
        row = self._frame_row(part, self._settings.min_area)
        if self._files.frame_table is not None:
            self._add_row(row)
        ended = [] if self.events is None else self._finder.add(part, row["boxes"])
        return [row for event in ended for row in self._event_table.add(event)]

    def end_events(self) -> list[dict[str, Any]]:
        """End the events that go on; return their rows, if the run is live."""
        ended = [] if self.events is None else self._finder.end()
        return [row for event in ended for row in self._event_table.add(event)]

    def clear(self, written: list[Path]) -> None:
        """Remove what an earlier run has left of other events than this one has `written`."""
        if self.events is not None and self._outputs.force:
            self._event_table.clear(written)

    def finish(self, cut_from: str | Path | Callable[..., FrameReader] | None = None) -> tuple[list[Path], list[str]]:
        """Write the tables of events, and cut them out of `cut_from`, if given; return files, and why if that fails."""
        tables = [path for path in (self._files.frame_table, self._files.coco) if path is not None]
        if self.events is None:
            return tables, []
        self.end_events()
        self.why_no_event = self._builder.why_none()
        self._event_table.number()
        cut, problems = self._event_table.cut(cut_from) if cut_from is not None and self.events else ([], [])
        return [*tables, *cut, *self._event_table.write()], problems
