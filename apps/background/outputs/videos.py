"""The videos that are written: background, masks, preview and overlay, each encoded in a thread of its own."""

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

from visionnmf.apps.background.frame_arrays import Separated
from visionnmf.io import VideoWriter

from .frame_table import time_code

__all__ = ["VideoEncoders", "VideoFormat", "captioned", "tinted"]

FrameArray = NDArray[np.uint8]

QUEUED_FRAMES, QUEUED_PIXELS = 4, 4 << 20  # limits on what may wait for an encoder, but one frame is always allowed
# Pixels: the three panels of a wider video's preview are reduced to this, as many players refuse widths above 4096.
PREVIEW_WIDTH = 640
CAPTION_HEIGHT, CAPTION_WIDTH = 20, 150  # pixels of the line above a picture, and the least width that it needs
TINT = (255, 0, 255)


class VideoFormat(NamedTuple):
    """Size and timing of the videos; `varies` says that each frame is shown at a time of its own."""

    width: int
    height: int
    frame_rate: Fraction
    varies: bool


class _Encoder(NamedTuple):
    """One video, its thread, and the frames that wait."""

    writer: VideoWriter
    pool: ThreadPoolExecutor
    waiting: deque[Future[None]]


class VideoEncoders:
    """Encodes the videos `paths`, by kind, beside the modelling; the files begin with their first frame.

    `force` replaces existing files, and `alpha` is the share of the colour of foreground in the overlay.
    """

    def __init__(self, paths: dict[str, Path], video: VideoFormat, *, force: bool, alpha: float = 0.5) -> None:
        self._varies, self._alpha = video.varies, alpha
        self._start: float | None = None  # time of the first frame, in seconds, so that the videos begin at 0
        self._room = min(QUEUED_FRAMES, max(1, QUEUED_PIXELS // (video.width * video.height)))
        self._stack = ExitStack()
        self._panel = (video.width, video.height)
        if video.width > PREVIEW_WIDTH:
            # even, so that H.264 accepts it
            self._panel = (PREVIEW_WIDTH, max(2, 2 * round(video.height * PREVIEW_WIDTH / video.width / 2)))
        self._encoders: dict[str, _Encoder] = {}
        for kind, path in paths.items():
            preview = kind == "preview"
            writer = VideoWriter(
                path,
                width=3 * self._panel[0] if preview else video.width,
                height=self._panel[1] + CAPTION_HEIGHT if preview else video.height,
                frame_rate=video.frame_rate,
                codec="ffv1" if path.suffix == ".mkv" else "h264",
                grey=kind == "foreground",
                timed=video.varies,
                force=force,
            )
            self._encoders[kind] = _Encoder(writer, ThreadPoolExecutor(1), deque())

    def __enter__(self) -> VideoEncoders:
        with ExitStack() as stack:
            for encoder in self._encoders.values():
                stack.enter_context(encoder.writer)
                stack.enter_context(encoder.pool)  # left first, so that nothing is written to a closed writer
            stack.push(self._flush)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, part: Separated, time: float) -> None:
        """Hand one frame, shown at `time` seconds, to the encoders; wait while they are too far behind."""
        self._start = time if self._start is None else self._start
        self._time = time - self._start if self._varies else None
        self._give("background", part.background)
        self._give("foreground", part.mask)
        if "preview" in self._encoders:
            mask = cv2.cvtColor(part.mask, cv2.COLOR_GRAY2RGB)
            panels = [part.frame, part.background, mask]
            if panels[0].shape[1::-1] != self._panel:
                panels = [cv2.resize(panel, self._panel, interpolation=cv2.INTER_AREA) for panel in panels]
            words = (f"frame {part.index}, {time_code(time)}", "background", "foreground")
            shown = [captioned(np.asarray(panel), text) for panel, text in zip(panels, words, strict=True)]
            self._give("preview", np.hstack(shown))
        if "overlay" in self._encoders:
            self._give("overlay", tinted(part.frame, part.mask, self._alpha))

    def _give(self, kind: str, frame: FrameArray) -> None:
        """Queue a frame for the encoder of one kind of video, or do nothing if this kind is not written.

        If too many frames are queued, wait until the oldest is encoded, which bounds the memory and raises its error.
        """
        if kind not in self._encoders:
            return
        encoder = self._encoders[kind]
        encoder.waiting.append(encoder.pool.submit(encoder.writer.write, frame, self._time))
        if len(encoder.waiting) > self._room:
            encoder.waiting.popleft().result()

    def _flush(self, kind: type[BaseException] | None, *_: Any) -> None:
        """Wait for all queued frames and raise an encoder's error; after an earlier error (`kind`) do not wait."""
        for encoder in self._encoders.values():
            while encoder.waiting and kind is None:
                encoder.waiting.popleft().result()


def tinted(frame: FrameArray, mask: FrameArray, alpha: float) -> FrameArray:
    """Return a frame (height, width, 3) whose foreground is outlined and has the share `alpha` of a colour."""
    colour = np.broadcast_to(np.array(TINT, np.uint8), frame.shape).copy()
    shown = np.where(mask[..., None] > 0, np.asarray(cv2.addWeighted(frame, 1 - alpha, colour, alpha, 0)), frame)
    outlines = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0]
    return np.asarray(cv2.drawContours(np.ascontiguousarray(shown), outlines, -1, TINT, 1), np.uint8)


def captioned(picture: FrameArray, text: str) -> FrameArray:
    """Return a picture with a line of text above it, which is left empty where the picture is too narrow."""
    above = np.zeros((CAPTION_HEIGHT, picture.shape[1], 3), np.uint8)
    if picture.shape[1] >= CAPTION_WIDTH:
        cv2.putText(above, text, (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
    return np.vstack([above, picture])
