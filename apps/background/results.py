"""The files that ``visionnmf background`` writes."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import OutputExistsError
from visionnmf.io import VideoWriter, check_outputs, output_folder, write_image

from .frames import Separated

__all__ = ["Encoders", "MaskWriter", "output_paths"]

FrameArray = NDArray[np.uint8]

QUEUED_FRAMES = 4  # frames that may wait for an encoder
# Pixels: the three parts of a wider video's preview are reduced to this, as many players refuse widths above 4096.
PREVIEW_WIDTH = 640


def output_paths(stem: Path, write_video: bool, keep_model: bool) -> dict[str, Path]:
    """Return the file of each result, whose names begin with `stem`."""
    names = {"image": "background.png"}
    if keep_model:
        names["model"] = "model.npz"
    if write_video:
        names |= {"background": "background.mp4", "foreground": "foreground.mkv", "preview": "preview.mp4"}
    return {kind: stem.with_name(f"{stem.name}_{name}") for kind, name in names.items()}


class _Encoder(NamedTuple):
    """One video, its thread, and the frames that wait."""

    writer: VideoWriter
    pool: ThreadPoolExecutor
    waiting: deque[Future[None]]


class Encoders:
    """The three videos, each encoded in a thread of its own, beside the modelling; they begin with their first frame.

    Parameters
    ----------
    paths : dict of str to Path
        Of "background", "foreground" and "preview", those that are wanted.
    width, height : int
        Of the frames, in pixels.
    frame_rate : Fraction
    varies : bool
        Frames are shown at times of their own.
    force : bool
        Replace what exists.
    """

    def __init__(
        self, paths: dict[str, Path], width: int, height: int, frame_rate: Fraction, *, varies: bool, force: bool
    ) -> None:
        self._varies = varies
        self._start: float | None = None
        self._stack = ExitStack()
        self._panel = (width, height)
        if width > PREVIEW_WIDTH:
            # even, so that H.264 takes it
            self._panel = (PREVIEW_WIDTH, max(2, 2 * round(height * PREVIEW_WIDTH / width / 2)))
        self._encoders: dict[str, _Encoder] = {}
        for kind in ("background", "foreground", "preview"):
            if kind in paths:
                preview = kind == "preview"
                writer = VideoWriter(
                    paths[kind],
                    width=3 * self._panel[0] if preview else width,
                    height=self._panel[1] if preview else height,
                    frame_rate=frame_rate,
                    codec="ffv1" if kind == "foreground" else "h264",
                    grey=kind == "foreground",
                    timed=varies,
                    force=force,
                )
                self._encoders[kind] = _Encoder(writer, ThreadPoolExecutor(1), deque())

    def __enter__(self) -> Encoders:
        with ExitStack() as stack:
            for encoder in self._encoders.values():
                stack.enter_context(encoder.writer)
                stack.enter_context(encoder.pool)  # left first: no write goes to a closed writer
            stack.push(self._flush)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, part: Separated, time: float) -> None:
        """Hand one frame, shown at `time` seconds, to the encoders; waits while they are too far behind."""
        self._start = time if self._start is None else self._start
        self._time = time - self._start if self._varies else None
        self._give("background", part.background)
        self._give("foreground", part.mask)
        if "preview" in self._encoders:
            mask = cv2.cvtColor(part.mask, cv2.COLOR_GRAY2RGB)
            panels = [part.frame, part.background, mask]
            if panels[0].shape[1::-1] != self._panel:
                panels = [cv2.resize(panel, self._panel, interpolation=cv2.INTER_AREA) for panel in panels]
            self._give("preview", np.hstack(panels))

    def _give(self, kind: str, frame: FrameArray) -> None:
        if kind not in self._encoders:
            return
        encoder = self._encoders[kind]
        encoder.waiting.append(encoder.pool.submit(encoder.writer.write, frame, self._time))
        if len(encoder.waiting) > QUEUED_FRAMES:
            encoder.waiting.popleft().result()

    def _flush(self, kind: type[BaseException] | None, *_: Any) -> None:
        """Wait for every frame and raise what an encoder has raised, if all went well so far."""
        for encoder in self._encoders.values():
            while encoder.waiting and kind is None:
                encoder.waiting.popleft().result()


class MaskWriter:
    """Masks as they come: pictures in a folder, or one video.

    Parameters
    ----------
    kind : {"png", "ffv1", "h264"}
        ``STEM_masks/000000.png``, ``STEM_foreground.mkv`` or ``STEM_foreground.mp4``.
    stem : Path
    width, height : int
        Of the frames, in pixels.
    frame_rate : float
        What the header of a video declares; each frame keeps its time.
    force : bool
        Replace what exists.

    Attributes
    ----------
    path : Path
        The file, or the folder.
    """

    def __init__(self, kind: str, stem: Path, width: int, height: int, frame_rate: float, *, force: bool) -> None:
        names = {"png": "masks", "ffv1": "foreground.mkv", "h264": "foreground.mp4"}
        self.path = stem.with_name(f"{stem.name}_{names[kind]}")
        self._force = force
        self._start: float | None = None
        self._video: VideoWriter | None = None
        if kind == "png":
            if not force and self.path.is_dir() and any(self.path.iterdir()):
                raise OutputExistsError(f"{self.path}: holds files already; pass force=True to replace them")
            return
        check_outputs([self.path], force)
        codec: Any = kind
        self._video = VideoWriter(
            self.path,
            width=width,
            height=height,
            frame_rate=frame_rate,
            codec=codec,
            grey=True,
            timed=True,
            force=force,
        )

    def __enter__(self) -> MaskWriter:
        if self._video is None:
            output_folder(self.path)
        else:
            self._video.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._video is not None:
            self._video.__exit__(*error)

    def write(self, part: Separated, time: float) -> None:
        """Write the mask of a frame that is shown at `time` seconds."""
        if self._video is None:
            write_image(self.path / f"{part.index:06d}.png", part.mask, force=self._force)
            return
        self._start = time if self._start is None else self._start
        self._video.write(part.mask, time - self._start)
