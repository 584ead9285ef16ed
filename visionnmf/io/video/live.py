"""Read video that can be read only once: standard input, URLs and cameras."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import cv2
import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_count, check_flag, check_frames_wanted, check_number
from visionnmf._text import without_password
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.inputs import ADDRESS, CAMERA, is_live

from .decoding import CODEC_ERRORS, Clock, Decoder, reason_of, turn_of, upright
from .reader import CODEC_THREADS, CONTAINERS, FALLBACK_RATE, MAX_FRAME_PIXELS, MAX_STREAMS, video_stream_of

__all__ = ["LiveReader"]

# The protocols and containers that FFmpeg may use for a URL. Files and playlists are left out: they name other URLs.
_PROTOCOLS = {"http": "http,https,tcp,tls", "rtsp": "rtsp,rtsps,rtp,srtp,udp,tcp,tls"}
_STREAMED = f"{CONTAINERS},rtsp,mpjpeg"

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds between two attempts to find a lost source
_STEP = 0.1  # seconds between two calls of `until` during a pause


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """How a live source is read; the keyword arguments of :class:`LiveReader`, which documents them."""

    size: tuple[int, int] | None = None
    frame_rate: float | None = None
    pixel_format: str | None = None
    every: int = 1
    max_frames: int | None = None
    scale: float = 1.0
    start: float = 0.0
    end: float | None = None
    max_pixels: int = MAX_FRAME_PIXELS
    timeout: float = choices.LIVE_TIMEOUT
    patience: float = choices.LIVE_PATIENCE
    again_after_end: bool = True
    until: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        check_frames_wanted(self.every, self.max_frames, self.scale, self.start, self.end)
        check_number(self.timeout, "timeout", without_low=True)
        check_number(self.patience, "patience")
        check_flag(self.again_after_end, "again_after_end")
        if self.frame_rate is not None:
            check_number(self.frame_rate, "frame_rate", 0, 1000, without_low=True)


class LiveReader:
    """Read frames from standard input, a URL or a camera as they come; the attributes are those of `VideoReader`.

    A live source can be read once. Damaged frames are left out and counted. If a URL is lost, by an error or by
    silence, the reader tries to connect again for a minute, and the times of the frames then include the gap. A URL
    whose server says how long the file is would start from the beginning, so its end, or the place where it breaks
    off, is the end of the frames.

    Parameters
    ----------
    source : str
        ``"-"``, a URL of the kinds ``http``, ``https``, ``rtsp`` and ``rtsps``, ``"camera:0"`` or ``"/dev/video0"``.
    size : (int, int), optional
        Width and height of raw frames on standard input. Without it standard input must be a container that describes
        itself, such as YUV4MPEG, MPEG-TS or Matroska.
    frame_rate : float, optional
        Of raw frames; 25 if not given.
    pixel_format : str, optional
        Of raw frames, by its name in FFmpeg; ``"rgb24"`` if not given.
    every, max_frames, scale, start, end, max_pixels : optional
        See :class:`.VideoReader`.
    timeout : float, default=10.0
        Seconds of silence after which a URL counts as lost.
    patience : float, default=60.0
        Seconds during which the reader tries to find a lost URL again.
    again_after_end : bool, default=True
        Whether to connect again also when a stream ends without an error, as streams of cameras do. A file whose server
        does not say its length is then read again from the beginning.
    until : callable, optional
        Called while the reader waits for a lost source; the frames end when it returns True.

    Attributes
    ----------
    begins_anew : bool
        False: what has been read is gone.
    damaged : int
        The number of frames that could not be decoded completely and were left out.
    truncated : bool
        At the end: whether the frames end clearly before the declared duration, as for :class:`.VideoReader`.
    problem : str or None
        The same in words.
    reconnections : int
        How often a lost source was found again.
    notes : list of str
        All of this in words, and how the source ended.

    Raises
    ------
    UnreadableError
        If nothing answers, the answer is not a video, or there is no such camera.
    TooLargeError
        If frames have more than `max_pixels`.
    UnsupportedError
        While iterating, if the frame size changes.
    ParameterError
        If an argument is out of its range; while iterating, if the source ends before `start`.

    Examples
    --------
    >>> from visionnmf.io import LiveReader
    >>> for frame in LiveReader("rtsp://gate.example/1"):  # doctest: +SKIP
    ...     print(frame.mean())
    """

    begins_anew = False
    truncated = False
    problem: str | None = None
    declared_frames: int | None = None

    def __init__(self, source: str, **options: Any) -> None:
        self._settings = LiveSettings(**options)
        if not is_live(source):
            raise ParameterError(
                f"source must be '-', an address or a camera; got {source!r}; open others by open_video"
            )
        # FFmpeg knows protocols in small letters only.
        self.source = ADDRESS.sub(lambda found: found[0].lower(), str(source))
        self._name = without_password(self.source)
        self._raw = None if self._settings.size is None else _raw_options(self._settings)
        self.time = 0.0
        self.frames_read = self.damaged = self.reconnections = 0
        self._said: list[str] = []
        self._again = ADDRESS.match(self.source) is not None
        self._frames = self._decoded()
        self._first = next(self._frames, None)  # only a decoded frame says the true size
        if self._first is None:
            raise UnreadableError(f"{self._name}: no frame has come{self._why()}")
        height, width = self._first[1].shape[:2]
        self._size = (width, height)
        scale = self._settings.scale
        self.width, self.height = max(1, round(width * scale)), max(1, round(height * scale))

    @property
    def notes(self) -> list[str]:
        """What was lost, as sentences."""
        damaged = [f"{self.damaged} damaged packets or frames were left out"] if self.damaged else []
        return [*damaged, *self._said, *([] if self.problem is None else [self.problem])]

    def close(self) -> None:
        """Close the source."""
        self._frames.close()

    def __enter__(self) -> LiveReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        if self._first is None:
            raise ParameterError(f"source must be gone through once; got {self._name} again; open it anew")
        wanted = self._settings
        every, max_frames, start, end = wanted.every, wanted.max_frames, wanted.start, wanted.end
        (at, frame), self._first = self._first, None
        delivered = passed = 0
        while True:
            if frame.shape[1::-1] != self._size:
                raise UnsupportedError(
                    f"{self._name}: the size changes from {self._size[0]} x {self._size[1]} to {frame.shape[1]} x "
                    f"{frame.shape[0]} at frame {self.frames_read}"
                )
            if end is not None and at >= end:
                break
            if at >= start:
                passed += 1
                if (passed - 1) % every == 0:
                    self.time = at
                    delivered += 1
                    if self._size != (self.width, self.height):
                        size = (self.width, self.height)
                        frame = np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)
                    yield frame
                    if delivered == max_frames:
                        return
            following = next(self._frames, None)
            if following is None:
                break
            at, frame = following
        if not passed and not self._asked_to_end():
            raise ParameterError(f"start must lie before the end of {self._name} at {at:.3f} s; got {start:g}")

    def _decoded(self) -> Generator[tuple[float, NDArray[np.uint8]], None, None]:
        """Yield the time in seconds and the picture of every undamaged frame, and reconnect when a URL is lost.

        Times go on over all connections and include the gaps between them. Before the first frame, errors are raised.
        Later a lost source is tried again after pauses that double, until `patience` is over or `until` returns True.
        """
        if camera := CAMERA.fullmatch(self.source):
            yield from self._of_camera(int(camera[1] or camera[2]))
            return
        before = 0.0  # seconds until the current connection began
        # The time of the last frame, the clock when it came, and the seconds to wait before the next attempt. A longer
        # pause than the first also means that no frame has come since the source was lost.
        last, heard, pause = 0.0, time.monotonic(), FIRST_PAUSE
        while True:
            try:
                with self._connected() as decoder:
                    for at, frame in self._of_connection(decoder):
                        if self.frames_read and pause > FIRST_PAUSE:  # the first frame after a reconnection
                            self.reconnections += 1
                            before = last + max(time.monotonic() - heard, self._step)
                        pause = FIRST_PAUSE
                        self.frames_read += 1
                        last, heard = before + at, time.monotonic()
                        yield last, frame
                        heard = time.monotonic()  # the time that the caller took is no silence of the source
                    # A source with a length is a file: a new connection would start from its beginning.
                    sized = decoder.declared_duration(True) is not None or decoder.container.size >= 0
                    if not self._again or sized:
                        self._judge(decoder)
                        return
                    if not self._settings.again_after_end and _came_to_its_end(decoder):
                        if self._settings.max_frames is not None or self._settings.end is not None:
                            self._said.append(f"the stream ended by itself at {last:.2f} s")
                        return
            except (UnreadableError, TooLargeError) as error:
                if not self.frames_read:
                    raise
                self._error = str(error)
            if not self.frames_read:  # connected, but no frame came: the caller raises the error
                return
            if time.monotonic() - heard + pause > self._settings.patience:
                self._said.append(f"the source was lost{self._why()}")
                return
            if not self._waited(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)

    def _asked_to_end(self) -> bool:
        """Return whether the caller's `until` asks for the end of the frames."""
        return self._settings.until is not None and self._settings.until()

    def _waited(self, pause: float) -> bool:
        """Wait for `pause` seconds and return True, or return False as soon as `until` asks for the end."""
        over = time.monotonic() + pause
        while not self._asked_to_end():
            left = over - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(_STEP, left))
        return False

    def _judge(self, decoder: Decoder) -> None:
        """Set `problem` and `truncated` if the source ended early: before its declared duration, or by an error."""
        counted = bool(decoder.stream.frames)
        missed = None
        if counted or decoder.declares_itself():
            missed = decoder.missed(counted, float(self.frame_rate))
        if missed is not None:
            read = f"read {decoder.end:.2f} of {missed:.2f} declared seconds ({self.frames_read} frames)"
            self.problem = f"{read}: the source is cut off or damaged"
        elif not _came_to_its_end(decoder):
            self.problem = f"read {self.frames_read} frames: the source broke off{self._why()}"
        self.truncated = self.problem is not None

    _error: str | None = None  # the latest error of reading or decoding, in words
    _step = float(1 / FALLBACK_RATE)  # seconds between two frames of the current connection

    def _why(self) -> str:
        """Return the latest error in brackets, to be added to a message."""
        return "" if self._error is None else f" ({self._error})"

    def _of_connection(self, decoder: Decoder) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """Yield the time since the connection began and the picture of each frame, and count damaged ones."""
        converter = VideoReformatter()
        rate = decoder.stream.average_rate or decoder.stream.guessed_rate
        if not self.frames_read:
            self.frame_rate_known = rate is not None and Fraction(1, 100) <= rate <= 1000
            self.frame_rate = Fraction(rate) if rate is not None and self.frame_rate_known else FALLBACK_RATE
            self.has_sound = bool(decoder.container.streams.audio)
        self._step = float(1 / self.frame_rate)
        clock = Clock(decoder, self._step)
        bad = 0  # damaged packets that are counted already; the decoder counts them from its own beginning
        for frame in decoder.frames():
            at = clock.read(frame)
            self.damaged, bad = self.damaged + decoder.bad_packets - bad, decoder.bad_packets
            if frame.is_corrupt:
                continue
            yield at, self._picture(frame, converter)
        # The error that ended the connection is counted as a packet by the decoder, but is not a damaged one.
        self.damaged += decoder.bad_packets - bad - (decoder.reading_error is not None)
        self._error = decoder.first_error

    def _picture(self, frame: VideoFrame, converter: VideoReformatter) -> NDArray[np.uint8]:
        """Return a frame as RGB, turned upright as its metadata ask."""
        turn = turn_of(frame)
        size = (frame.height, frame.width) if turn[0] else (frame.width, frame.height)
        return upright(self._name, frame, converter, turn, size)

    @contextmanager
    def _connected(self) -> Iterator[Decoder]:
        """Connect to the source, and yield a decoder of its video stream; leaving the block disconnects."""
        limit = {"max_pixels": str(self._settings.max_pixels)}
        with self._opened(limit | {"max_streams": str(MAX_STREAMS)}) as container:
            stream = video_stream_of(self._name, container, self._settings.max_pixels)
            stream.codec_context.thread_count = CODEC_THREADS
            stream.codec_context.options = {**stream.codec_context.options, **limit}
            yield Decoder(container, stream)

    @contextmanager
    def _opened(self, limit: dict[str, str]) -> Iterator[InputContainer]:
        """Open standard input or the URL by FFmpeg, allowing only the protocols and containers of that kind of source.

        `limit` holds FFmpeg options against untrusted sources. Raises UnreadableError if no video can be opened.
        """
        options = {**limit}
        more: dict[str, Any] = {"metadata_errors": "replace"}
        if self.source == "-":
            file: Any = sys.stdin.buffer
            options |= {"protocol_whitelist": "", "format_whitelist": f"{CONTAINERS},rawvideo"}
            if self._raw is not None:
                more["format"] = "rawvideo"
                options |= self._raw
        else:
            file = self.source
            kind = self.source[:4].lower()
            options |= {"protocol_whitelist": _PROTOCOLS[kind], "format_whitelist": _STREAMED}
            if kind == "rtsp":
                options["rtsp_transport"] = "tcp"  # over UDP, lost packets would damage frames
            more["timeout"] = (self._settings.timeout,) * 2  # of opening, and of each read
        with ExitStack() as stack:
            try:
                container = stack.enter_context(av.open(file, "r", options=options, **more))
            except CODEC_ERRORS as error:
                what = "not a video that can be read" if self.source == "-" else "no video comes from there"
                raise UnreadableError(f"{self._name}: {what} ({reason_of(error)})") from error
            yield container

    def _of_camera(self, number: int) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """Yield the time since the camera was opened, in seconds, and the picture of each frame, until it is lost."""
        if sys.platform == "linux" and not os.path.exists(f"/dev/video{number}"):
            raise UnreadableError(f"{self._name}: there is no camera {number}")
        camera = cv2.VideoCapture(number)
        try:
            if not camera.isOpened():
                raise UnreadableError(f"{self._name}: camera {number} cannot be opened; does another program have it?")
            rate = camera.get(cv2.CAP_PROP_FPS)
            self.frame_rate_known = 0.01 <= rate <= 1000
            self.frame_rate = Fraction(rate).limit_denominator(1001) if self.frame_rate_known else FALLBACK_RATE
            self.has_sound = False
            began, last = time.monotonic(), -1.0
            while True:
                good, frame = camera.read()
                if not good:
                    self._said.append("the camera was lost")
                    return
                last = max(time.monotonic() - began, last + 1e-3)  # times must increase, by 1 ms at least
                self.frames_read += 1
                yield last, np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), np.uint8)
        finally:
            camera.release()


def _came_to_its_end(decoder: Decoder) -> bool:
    """Return whether the packets ended without an error; without a length in HTTP, FFmpeg reports any end as EIO."""
    error = decoder.reading_error
    return error is None or (getattr(error, "errno", None) == errno.EIO and decoder.container.size < 0)


def _raw_options(wanted: LiveSettings) -> dict[str, str]:
    """Return what FFmpeg must know about raw frames."""
    assert wanted.size is not None
    width, height = (check_count(side, "size", high=1 << 16) for side in wanted.size)
    if width * height > MAX_FRAME_PIXELS:
        raise ParameterError(f"size must be of at most {MAX_FRAME_PIXELS} pixels; got {width} x {height}")
    name = wanted.pixel_format or "rgb24"
    try:
        av.VideoFormat(name)
    except ValueError:
        known = "one that FFmpeg knows, such as rgb24 or yuv420p"
        raise ParameterError(f"pixel_format must be {known}; got {name!r}") from None
    rate = Fraction(wanted.frame_rate or FALLBACK_RATE).limit_denominator(1001)
    return {"video_size": f"{width}x{height}", "pixel_format": name, "framerate": str(rate)}
