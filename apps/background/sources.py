"""Where frames come from."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from visionnmf import choices
from visionnmf._text import without_password
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import open_video
from visionnmf.io.inputs import stem_of

from .frame_arrays import FrameArray
from .settings import VideoSettings

if TYPE_CHECKING:
    from visionnmf.io import LiveReader, PictureSequence, VideoReader

SAMPLE = "sample:surveillance"

READ_OPTIONS = ("every", "max_frames", "scale", "start", "end")


def open_clip(source: str | Path, video: VideoSettings, until: Callable[[], bool] | None = None) -> Clip:
    """Open the sample, or whatever :func:`.open_video` opens; `until` ends the wait of a live source."""
    return open_video(file_of(source), **_read_options(video), frame_rate=video.frame_rate, until=until)


def file_of(source: str | Path) -> str | Path:
    """Return what a name stands for: the file of the sample, and any other source itself."""
    if not str(source).startswith("sample:"):
        return source
    if str(source) != SAMPLE:
        raise UnreadableError(f"{source}: there is no such sample; the one video is {SAMPLE}")
    from visionnmf.datasets import load_surveillance

    return load_surveillance().path


def true_masks(source: str | Path, clip: Clip, video: VideoSettings) -> list[FrameArray] | None:
    """Return the true masks, 0 and 255, of the frames that `video` asks for, as large as those; None if not known."""
    if str(source) != SAMPLE:
        return None
    from visionnmf.datasets import load_surveillance
    from visionnmf.io.video.timeline import FramesWanted, TimedFrame

    timed = (TimedFrame(mask, float(number / clip.frame_rate)) for number, mask in enumerate(load_surveillance().masks))
    wanted = FramesWanted(**_read_options(video)).choose(timed)
    masks = (mask.picture.astype(np.uint8) * 255 for mask in wanted)
    return [cv2.resize(mask, (clip.width, clip.height), interpolation=cv2.INTER_NEAREST) for mask in masks]


def _read_options(video: VideoSettings) -> dict[str, Any]:
    """Return which frames are wanted, as keyword arguments of a reader."""
    return {name: getattr(video, name) for name in READ_OPTIONS}


@contextmanager
def recorded(source: str, video: VideoSettings, **options: Any) -> Iterator[tuple[Path, LiveReader]]:
    """Record a source that can be read only once, without loss, in a temporary file; yield the file and the reader.

    After an error an address is asked again only where `end` or `max_frames` bounds what is written: a file would start
    from its beginning each time. Raises ParameterError for a source without an end where none is given. `options` are
    passed to the reader.
    """
    from visionnmf.io import LiveReader, VideoWriter

    if video.frame_rate is not None:
        name = without_password(source)
        raise ParameterError(f"frame_rate must be left out for {name}, which has its own; got {video.frame_rate:g}")
    # `max_frames` counts from `start` on; how many frames come before that is not known, so it bounds nothing then.
    max_frames = None if video.max_frames is None or video.start > 0 else video.every * video.max_frames
    endless = video.end is None and max_frames is None
    if endless and not source.lower().startswith(("-", "http")):  # standard input and HTTP may end by themselves
        raise ParameterError(
            f"end must be given for {without_password(source)}, which has no end of its own; or give "
            "max_frames=1000, from its beginning on"
        )
    patience = 0.0 if endless else choices.LIVE_PATIENCE
    limits: dict[str, Any] = {"end": video.end, "max_frames": max_frames}
    limits |= {"again_after_end": False, "patience": patience}
    with tempfile.TemporaryDirectory() as folder, LiveReader(source, **limits, **options) as reader:
        path = Path(folder) / f"{stem_of(source)}.mkv"
        shape: dict[str, Any] = {"width": reader.width, "height": reader.height}
        first: float | None = None
        # without loss (FFV1), and each frame at its own time
        with VideoWriter(path, **shape, frame_rate=float(reader.frame_rate), codec="ffv1", timed=True) as writer:
            for frame in reader.timed():
                first = frame.time if first is None else first
                writer.write(frame.picture, frame.time - first)
        yield path, reader


def expected_frames(clip: Clip, video: VideoSettings) -> int | None:
    """Return how many frames a clip will deliver, or None where it does not say."""
    if clip.declared_frames is None:
        return None
    # From the first frame that is not before `start` to the last before `end`, every `every`-th is taken, rounded up.
    rate = float(clip.frame_rate)
    last = clip.declared_frames if video.end is None else min(clip.declared_frames, math.ceil(video.end * rate))
    delivered = max(1, -(-(last - math.ceil(video.start * rate)) // video.every))
    return delivered if video.max_frames is None else min(delivered, video.max_frames)


if TYPE_CHECKING:
    Clip = VideoReader | PictureSequence | LiveReader
