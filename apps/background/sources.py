"""Where frames come from, and when each is shown."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from visionnmf import choices
from visionnmf._checks import check_frames_wanted
from visionnmf._progress import Progress
from visionnmf._text import without_password
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import is_live, open_video
from visionnmf.io.inputs import stem_of

from .frame_arrays import FrameArray
from .settings import VideoSettings

if TYPE_CHECKING:
    from visionnmf.io import LiveReader, PictureSequence, VideoReader

__all__ = ["Clip", "SampleClip", "Timeline", "counted", "expected_frames", "open_clip", "recorded", "timed"]

# The sample: half a minute of a street while a cloud passes. Its illumination drifts enough for one picture to fail.
SAMPLE = "sample:surveillance"
SAMPLE_OPTIONS: dict[str, Any] = {"n_frames": 300, "height": 240, "width": 320, "illumination": 0.25, "random_state": 0}
SAMPLE_RATE = Fraction(10)

RAW_OPTIONS = ("frame_rate", "size", "pixel_format")
READ_OPTIONS = ("every", "max_frames", "scale", "start", "end")

ROUNDING = 0.001  # seconds that containers round away: Matroska counts milliseconds
SLOWEST, FASTEST = Fraction(1, 100), Fraction(1000)  # frames per second of results


def open_clip(source: str | Path, video: VideoSettings, until: Callable[[], bool] | None = None) -> Clip:
    """Open the sample, or whatever :func:`.open_video` opens; `until` ends the wait of a live source."""
    raw = _raw_options(source, video)  # rate, size and format of frames without a header; refused for the sample
    if str(source) == SAMPLE:
        return SampleClip(video)
    if str(source).startswith("sample:"):
        raise UnreadableError(f"{source}: there is no such sample; the one video is {SAMPLE}")
    return open_video(source, **{name: getattr(video, name) for name in READ_OPTIONS}, **raw, until=until)


def _raw_options(source: str | Path, video: VideoSettings) -> dict[str, Any]:
    """Return the options of raw frames, or refuse those that would be ignored."""
    # Those of files and pictures are judged by `open_video`.
    raw = {name: getattr(video, name) for name in RAW_OPTIONS}
    # The sample and live sources other than standard input say their own rate, size and format.
    own = str(source).startswith("sample:") or (is_live(source) and str(source) != "-")
    for name, value in raw.items():
        if value is not None and (own or (str(source) == "-" and video.size is None)):
            reason = "which has its own" if own else "without size: only raw frames have none of their own"
            raise ParameterError(f"{name} must be None for {without_password(source)}, {reason}; got {value}")
    return raw


@contextmanager
def recorded(source: str, video: VideoSettings, **options: Any) -> Iterator[tuple[Path, LiveReader]]:
    """Record a source that can be read only once, without loss, in a temporary file; yield the file and the reader.

    After an error an address is asked again only where `end` or `max_frames` bounds what is written: a file would start
    from its beginning each time. Raises ParameterError for a source without an end where none is given. `options` are
    passed to the reader.
    """
    from visionnmf.io import LiveReader, VideoWriter

    raw = _raw_options(source, video)
    # `max_frames` counts from `start` on; how many frames come before that is not known, so it bounds nothing then.
    max_frames = None if video.max_frames is None or video.start > 0 else video.every * video.max_frames
    endless = video.end is None and max_frames is None
    if endless and not source.lower().startswith(("-", "http")):  # standard input and HTTP may end by themselves
        raise ParameterError(
            f"end must be given for {without_password(source)}, which has no end of its own, or max_frames without "
            "start; got None"
        )
    patience = 0.0 if endless else choices.LIVE_PATIENCE
    limits: dict[str, Any] = {"end": video.end, "max_frames": max_frames}
    limits |= {"again_after_end": False, "patience": patience}
    with tempfile.TemporaryDirectory() as folder, LiveReader(source, **limits, **raw, **options) as reader:
        path = Path(folder) / f"{stem_of(source)}.mkv"
        shape: dict[str, Any] = {"width": reader.width, "height": reader.height}
        first: float | None = None
        # without loss (FFV1), and each frame at its own time
        with VideoWriter(path, **shape, frame_rate=float(reader.frame_rate), codec="ffv1", timed=True) as writer:
            for frame in reader:
                first = reader.time if first is None else first
                writer.write(frame, reader.time - first)
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


def counted(
    frames: Iterable[FrameArray], stage: str, total: int | None, progress: Progress | None
) -> Iterator[FrameArray]:
    """Pass frames on, and report to `progress` how many of `total` have been passed on."""
    for done, frame in enumerate(frames, start=1):
        yield frame
        if progress is not None:
            progress(stage, done, total)


def timed(clip: Clip, take: Callable[[float], Any]) -> Iterator[FrameArray]:
    """Pass the frames of a clip on, after calling `take` with the time of each in seconds."""
    for frame in clip:
        take(clip.time)
        yield frame


class Timeline:
    """Whether frames follow each other evenly, at a declared rate: `varies` if one is further off than rounding."""

    def __init__(self, frame_rate: Fraction) -> None:
        """Begin without frames; `frame_rate` is the declared one, in frames per second."""
        self._declared = frame_rate
        self._step = float(1 / frame_rate)  # seconds
        self.count = 0  # frames so far
        self._first = self._last = 0.0  # times of the first and the latest frame
        self.varies = False  # whether a frame was off the declared rate

    def add(self, time: float) -> None:
        """Take the time of the next frame, in seconds, and set `varies` if it is off the declared rate."""
        # `_step` is the time from one frame to the next at the declared rate, in seconds, and containers round by
        # ROUNDING.
        if self.count == 0:
            self._first = time
        self.varies = self.varies or abs(time - self._first - self.count * self._step) > ROUNDING
        self.count += 1
        self._last = time

    @property
    def frame_rate(self) -> Fraction:
        """The declared rate, or the mean rate from the first to the last of `count` frames where it varies."""
        rate = self._declared
        if self.varies:  # rounded to a fraction; the rates of television, such as 30000/1001, have this denominator
            rate = Fraction((self.count - 1) / (self._last - self._first)).limit_denominator(1001)
        return min(max(rate, SLOWEST), FASTEST)


class SampleClip:
    """The made clip, in the shape of a :class:`.VideoReader`."""

    frame_rate = SAMPLE_RATE
    has_sound = truncated = False
    begins_anew = True
    damaged = reconnections = 0
    problem = None
    notes: tuple[str, ...] = ()

    def __init__(self, video: VideoSettings) -> None:
        """Make the clip, and pick the frames that `video` asks for, at the size that it asks for."""
        from visionnmf.datasets import make_surveillance

        every, max_frames, scale, start, end = (getattr(video, name) for name in READ_OPTIONS)
        check_frames_wanted(every, max_frames, scale, start, end)
        made = make_surveillance(**SAMPLE_OPTIONS)
        first = math.ceil(start * SAMPLE_RATE)
        last = len(made.frames) if end is None else min(len(made.frames), math.ceil(end * SAMPLE_RATE))
        if first >= last:
            end_at = float(last / SAMPLE_RATE)
            raise ParameterError(f"start must lie in the video, before its end at {end_at:.3f} s; got {start:g}")
        picked = slice(first, last if max_frames is None else min(last, first + max_frames * every), every)
        height, width = made.frames.shape[1:3]
        self.width, self.height = max(1, round(width * scale)), max(1, round(height * scale))
        # The attributes of a reader of files: the frames that a header declares, those read, and the time in seconds of
        # the latest frame.
        self.declared_frames = self.frames_read = len(made.frames)
        self.time = 0.0
        size = (self.width, self.height)
        # Time of the first picked frame, and the time from one to the next, in seconds.
        self._first, self._step = float(first / SAMPLE_RATE), float(every / SAMPLE_RATE)
        self._frames = [cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in made.frames[picked]]
        self.masks = [
            cv2.resize(mask.astype(np.uint8) * 255, size, interpolation=cv2.INTER_NEAREST)
            for mask in made.masks[picked]
        ]

    def __iter__(self) -> Iterator[FrameArray]:
        """Yield the picked frames, after setting `time` to the time of each in seconds."""
        # `_first` is the time of the first of them, and `_step` that from one to the next.
        for index, frame in enumerate(self._frames):
            self.time = self._first + index * self._step
            yield frame


if TYPE_CHECKING:
    Clip = VideoReader | PictureSequence | LiveReader | SampleClip
