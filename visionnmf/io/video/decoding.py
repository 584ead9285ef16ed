"""Decode video with PyAV, count damage, and turn frames upright."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import av
import cv2
import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from visionnmf._checks import check_frames_wanted
from visionnmf.exceptions import ParameterError, UnsupportedError

Frame = TypeVar("Frame")

# Containers with a duration in their header; for others FFmpeg guesses it from the bit rate.
_TIMED_CONTAINERS = {"matroska", "webm", "mov", "mp4", "flv"}

# Seconds; a longer gap between two frames is a damaged timestamp.
_LONGEST_GAP = 86_400

# What PyAV raises on damaged files: its own errors, errors of reading, and of texts that are not UTF-8.
CODEC_ERRORS = (av.error.FFmpegError, OSError, ValueError, RuntimeError)


@dataclass(frozen=True)
class FramesWanted:
    """Which frames of a source are delivered, and by what factor they are scaled; see :class:`.VideoReader`."""

    every: int = 1
    max_frames: int | None = None
    scale: float = 1.0
    start: float = 0.0
    end: float | None = None

    def __post_init__(self) -> None:
        check_frames_wanted(self.every, self.max_frames, self.scale, self.start, self.end)

    def scaled(self, size: tuple[int, ...]) -> tuple[int, int]:
        """Return the size, (width, height), in which frames are delivered: both sides times `scale`, >= 1."""
        width, height = size
        return max(1, round(width * self.scale)), max(1, round(height * self.scale))

    def choose(
        self,
        timed: Iterator[tuple[float, Frame]],
        *,
        counting: bool = True,
        may_be_none: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[float, Frame]]:
        """Yield those frames that are wanted, of all that come with their times in seconds.

        With `counting` false the caller counts them. Raises ParameterError if there is none, unless `may_be_none`
        returns True then.
        """
        passed = delivered = 0  # how many frames lie between start and end, and how many of them were yielded
        time = 0.0
        for time, frame in timed:
            if time < self.start:
                continue
            if self.end is not None and time >= self.end:
                break
            passed += 1
            if (passed - 1) % self.every == 0:
                delivered += 1
                yield time, frame
                if counting and delivered == self.max_frames:
                    return
        if not passed and not may_be_none():
            raise ParameterError(f"start must lie in the video, before its end at {time:.3f} s; got {self.start:g}")


class Decoder:
    """Demux and decode one video stream, and count what goes wrong instead of raising it."""

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        """Take an open container and its video stream; `reading_error` is the error that ends the frames."""
        self.container = container
        self.stream = stream
        self.packets = 0  # how many packets of the video stream were read
        self.bad_packets = 0  # corrupt packets and frames, and errors of reading and decoding
        self.end = 0.0  # the latest end of a packet of any stream, in seconds
        self.first_error: str | None = None  # what the first error said, on one line
        # the error that ended the packets
        self.reading_error: Exception | None = None

    def frames(self, until: Callable[[], bool] = lambda: False) -> Iterator[VideoFrame]:
        """Yield the frames that can be decoded, up to the end, an error of reading, or a true `until()`.

        `packets` counts those of the video stream and `bad_packets` corrupt ones, corrupt frames and errors.
        """
        packets = self.container.demux()  # also sound, which shows how far the file goes
        while not until():
            try:
                packet = next(packets, None)
            except IndexError:
                # PyAV raises this at the end of a file whose streams are not all declared at its beginning.
                packet = None
            except CODEC_ERRORS as error:
                self._count(error)
                self.reading_error = error
                packet = None
            if packet is None:
                yield from self._decode(None)
                return
            if packet.size == 0:
                continue  # a dropped frame or PyAV's end mark; a decoder would end at either
            self._follow_time(packet)
            if packet.stream_index == self.stream.index:
                self.packets += 1
                self.bad_packets += bool(packet.is_corrupt)
                yield from self._decode(packet)

    def _decode(self, packet: Any) -> Iterator[VideoFrame]:
        """Yield the frames that a packet completes, and count errors; None yields the remaining frames."""
        try:
            for frame in self.stream.codec_context.decode(packet):
                assert isinstance(frame, VideoFrame)
                self.bad_packets += bool(frame.is_corrupt)
                yield frame
        except CODEC_ERRORS as error:
            self._count(error)

    def _count(self, error: Exception) -> None:
        """Count an error of reading or decoding in `bad_packets`, and keep the first one's text."""
        self.bad_packets += 1
        self.first_error = self.first_error or reason_of(error)

    def _follow_time(self, packet: Any) -> None:
        """Move `end` to the end of a packet, if that is later."""
        ticks = packet.pts if packet.pts is not None else packet.dts
        if ticks is not None and packet.time_base:
            self.end = max(self.end, float((ticks + (packet.duration or 0)) * packet.time_base))

    def declared_duration(self, *, has_frame_count: bool) -> float | None:
        """Return the duration in seconds from the header; None if it has none, or would be a guess.

        FFmpeg guesses the duration of a container without one from the bit rate. If the header has a number of frames,
        `has_frame_count`, the container's duration is not a guess.
        """
        if self.stream.duration and self.stream.time_base:
            return float(self.stream.duration * self.stream.time_base)
        if self.container.duration and (has_frame_count or self.container_has_duration()):
            return self.container.duration / av.time_base
        return None

    def declared_if_cut_off(self, frame_rate: float, *, has_frame_count: bool) -> float | None:
        """Return the declared duration in seconds if the packets end more than 1 % and two frames before it, else None.

        `end` is where the packets end, in seconds, and `has_frame_count` whether the header has a number of frames.
        """
        # the headers of good files are a little off
        duration = self.declared_duration(has_frame_count=has_frame_count)
        return duration if duration is not None and self.end < 0.99 * duration - 2 / frame_rate else None

    def container_has_duration(self) -> bool:
        """Return whether containers of this format have a duration in their header; for others FFmpeg guesses it."""
        return bool(_TIMED_CONTAINERS & set(self.container.format.name.split(",")))


class Clock:
    """The times of frames in seconds from the beginning of a file; `step` is used where the file has no valid time."""

    def __init__(self, decoder: Decoder, step: float) -> None:
        """Take the decoder whose frames are timed, and `step`, the seconds between two frames."""
        start = decoder.container.start_time
        self._start = None if start is None else start / av.time_base  # the stamp, in seconds, that counts as time 0
        # seconds of a tick of the time stamps
        self._unit = decoder.stream.time_base  # not that of the frames, because the last ones have none
        self._step = step  # is added to the time before where a frame has no valid time
        # the time that was returned last
        self._last: float | None = None

    def read(self, frame: VideoFrame) -> float:
        """Return the time of the next frame in seconds from the beginning of the file; times always increase.

        A time stamp counts ticks of `_unit` seconds. A frame without one, or whose time is not later than the last one
        or is more than a day after it, gets the last time, `_last`, plus `_step`. A first frame that lies before the
        declared beginning (`_start`) becomes the beginning, and a first frame without a valid time gets 0.
        """
        ticks = frame.pts if frame.pts is not None else frame.dts
        if ticks is None or not self._unit:
            time = None
        else:
            time = float(ticks * self._unit)
            self._start = time if self._start is None or (self._last is None and time < self._start) else self._start
            time -= self._start
        if self._last is None:
            self._last = 0.0 if time is None or time > _LONGEST_GAP else time
        elif time is None or not self._last < time <= self._last + _LONGEST_GAP:
            self._last += self._step
        else:
            self._last = time
        return self._last


def convert(converter: VideoReformatter, frame: VideoFrame, **options: Any) -> VideoFrame:
    """Return a frame in another format by PyAV's `options`; `converter` keeps what the next frame needs."""
    # One thread: waking a pool for each frame takes longer than the conversion.
    return converter.reformat(frame, threads=1, **options)


def upright_frame(
    name: object,
    frame: VideoFrame,
    converter: VideoReformatter,
    turn: tuple[bool, bool, bool],
    size: tuple[int, int],
) -> NDArray[np.uint8]:
    """Return a frame as RGB, turned by the result of `turn_of` and scaled to `size`, (width, height)."""
    try:
        image: NDArray[Any] = convert(converter, frame, format="rgb24").to_ndarray()
    except CODEC_ERRORS as error:
        raise UnsupportedError(f"{name}: frames of format {frame.format.name} are not supported") from error
    swap, flip_columns, flip_rows = turn  # applied in this order
    if swap:
        image = image.swapaxes(0, 1)
    if flip_columns:
        image = image[:, ::-1]
    if flip_rows:
        image = image[::-1]
    return resized(np.ascontiguousarray(image), size)


def resized(image: NDArray[Any], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a frame in a size, (width, height), with pixels averaged over areas."""
    if image.shape[1::-1] == size:
        return image
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def turn_of(frame: VideoFrame) -> tuple[bool, bool, bool]:
    """Read the display matrix: (swap axes, then mirror columns, then mirror rows) makes the frame upright.

    The matrix maps (x, y) to (a x + c y, b x + d y), stored as a b u c d v x y w in 16.16 fixed point; other angles are
    ignored.
    """
    data: Any = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return False, False, False
    a, b, _, c, d = np.frombuffer(bytes(data), np.int32)[:5].tolist()
    if a == d == 0 and b and c:
        return True, c < 0, b < 0
    if b == c == 0 and a and d:
        return False, a < 0, d < 0
    return False, False, False


def reason_of(error: Exception) -> str:
    """Return the message of an error on one line."""
    if isinstance(error, av.error.ExitError):  # FFmpeg's word for a reading that PyAV ended
        return "no answer within the time allowed"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())
