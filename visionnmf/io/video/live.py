"""Read video that can be read only once: standard input, URLs and cameras."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import chain
from typing import Any, Self

import av
import cv2
import numpy as np
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_count, check_flag, check_number
from visionnmf._text import without_password
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.inputs import ADDRESS, CAMERA, is_live

from .container import (
    CODEC_THREADS,
    CONTAINERS,
    FALLBACK_RATE,
    MAX_FRAME_PIXELS,
    MAX_STREAMS,
    METADATA_OPTIONS,
    length_of,
    rate_of,
    video_stream_of,
)
from .decoding import CODEC_ERRORS, Clock, Decoder, FramesWanted, reason_of, resized, turn_of, upright_frame

# The protocols and containers that FFmpeg may use for a URL. Files and playlists are left out: they name other URLs.
_PROTOCOLS = {"http": "http,https,tcp,tls", "rtsp": "rtsp,rtsps,rtp,srtp,udp,tcp,tls"}
_STREAMED = f"{CONTAINERS},rtsp,mpjpeg"

# Bytes of one piece of memory that FFmpeg may take. 50 million pixels with four channels of 16 bits have 400 MB.
MOST_MEMORY = 512 << 20

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds between two attempts to find a lost source
_STEP = 0.1  # seconds between two calls of `until` during a pause


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
    frame_rate, pixel_format : float, str, optional
        Of raw frames; 25 and FFmpeg's ``"rgb24"`` if not given.
    timeout, patience : float, default=10.0 and 60.0
        Seconds of silence after which a URL counts as lost, and seconds during which it is looked for again.
    again_after_end : bool, default=True
        Whether to connect again also when a stream ends without an error, as streams of cameras do. A file whose server
        does not say its length is then read again from the beginning.
    until : callable, optional
        Called while the reader waits for a lost source; the frames end when it returns True.
    **wanted
        `every`, `max_frames`, `scale`, `start` and `end`, as of :class:`.VideoReader`.

    Attributes
    ----------
    begins_anew, reconnections : bool, int
        False, because what has been read is gone, and how often a lost source was found again.
    notes : list of str
        What was lost, in words, and how the source ended.

    Raises
    ------
    UnreadableError, TooLargeError
        If nothing answers, the answer is not a video, there is no such camera, or frames have more than 50 million
        pixels.
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

    def __init__(
        self,
        source: str,
        *,
        size: tuple[int, int] | None = None,
        frame_rate: float | None = None,
        pixel_format: str | None = None,
        timeout: float = choices.LIVE_TIMEOUT,
        patience: float = choices.LIVE_PATIENCE,
        again_after_end: bool = True,
        until: Callable[[], bool] | None = None,
        **wanted: Any,
    ) -> None:
        """Check the arguments and keep them.

        `timeout` is how many seconds a frame is waited for, and `patience` how long a lost source is tried again, also
        after the end of a stream if `again_after_end`. Reading ends when `until` returns true. `wanted` are the fields
        of :class:`FramesWanted`.
        """
        self._wanted = FramesWanted(**wanted)
        check_number(timeout, "timeout", without_low=True)  # > 0
        check_number(patience, "patience")
        check_flag(again_after_end, "again_after_end")
        if frame_rate is not None:
            check_number(frame_rate, "frame_rate", 0, 1000, without_low=True)  # above 0, at most 1000 a second
        if not is_live(source):
            raise ParameterError(
                f"source must be '-', an address or a camera; got {source!r}; open others by open_video"
            )
        # Also set: `frame_rate` and `has_sound`, when the source is first opened (`_of_connection` and `_of_camera`).
        self._timeout, self._patience, self._again_after_end, self._until = timeout, patience, again_after_end, until
        # FFmpeg knows protocols in small letters only.
        self.source = ADDRESS.sub(lambda found: found[0].lower(), str(source))
        self._name = without_password(self.source)  # for messages
        # The options by which FFmpeg reads raw frames from standard input; None if the input describes itself.
        self._raw = None if size is None else _raw_options(size, frame_rate, pixel_format)
        self.time = 0.0
        self.frames_read = self.damaged = self.reconnections = 0
        self._said: list[str] = []  # sentences about what was lost
        self._is_url = ADDRESS.match(self.source) is not None
        self._frames = self._decoded()  # pairs of time and frame, which can be gone through once
        self._first = next(self._frames, None)  # only a decoded frame says the true size
        if self._first is None:
            raise UnreadableError(f"{self._name}: {self._no_frame_text}{self._why()}")
        self.width, self.height = self._wanted.scaled(self._first[1].shape[1::-1])

    @property
    def notes(self) -> list[str]:
        """What was lost, as sentences: the number of damaged packets, gaps and the end (`_said`), and `problem`."""
        damaged = [f"{self.damaged} damaged packets or frames were left out"] if self.damaged else []
        return [*damaged, *self._said, *([] if self.problem is None else [self.problem])]

    def close(self) -> None:
        """Close the source, by ending the generator of frames that holds it open."""
        self._frames.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the wanted frames, scaled; raise if there are none, or the second time, as nothing can be reread."""
        if self._first is None:
            raise ParameterError(f"source must be gone through once; got {self._name} again; open it again")
        first, self._first = self._first, None  # the constructor has read the first frame; None marks it as delivered
        height, width = first[1].shape[:2]
        for time_, frame in self._wanted.choose(chain([first], self._frames), may_be_none=self._asked_to_end):
            if frame.shape[:2] != (height, width):
                raise UnsupportedError(
                    f"{self._name}: the size changes from {width} x {height} to {frame.shape[1]} x {frame.shape[0]} at "
                    f"frame {self.frames_read}"
                )
            self.time = time_
            yield resized(frame, (self.width, self.height))

    def _decoded(self) -> Generator[tuple[float, NDArray[np.uint8]], None, None]:
        """Yield the time in seconds and the picture of every undamaged frame, and reconnect when a URL is lost.

        Times go on over all connections and include the gaps between them. Before the first frame, errors are raised.
        Later a lost source is tried again after pauses that double, until `_patience` seconds are over or `until`
        returns True. `_error` is the latest error in words, `_said` collects sentences about what was lost, and `_step`
        is the time between two frames. After a stream that ended by itself, `_again_after_end` decides whether to
        connect again.
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
                    if self._asked_to_end():
                        return
                    # A source with a length is a file: a new connection would start from its beginning.
                    # Here a duration that FFmpeg guesses counts as well.
                    duration = decoder.declared_duration(has_frame_count=True)
                    sized = duration is not None or length_of(decoder.container) is not None
                    if not self._is_url or sized:
                        self._judge_end(decoder)  # sets `problem` and `truncated` if it ended early
                        return
                    if not self._again_after_end and _came_to_its_end(decoder):
                        if self._wanted.max_frames is not None or self._wanted.end is not None:
                            self._said.append(f"the stream ended by itself at {last:.2f} s")
                        return
            except (UnreadableError, TooLargeError) as error:
                if not self.frames_read:
                    raise
                self._error = str(error)
            if not self.frames_read:  # connected, but no frame came: the caller raises the error
                return
            if time.monotonic() - heard + pause > self._patience:
                self._said.append(f"the source was lost{self._why()}")
                return
            if not self._waited(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)

    def _asked_to_end(self) -> bool:
        """Return whether the caller's `until` asks for the end of the frames."""
        return self._until is not None and self._until()

    def _waited(self, pause: float) -> bool:
        """Wait for `pause` seconds and return True, or return False as soon as `until` asks for the end."""
        over = time.monotonic() + pause
        while not self._asked_to_end():
            left = over - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(_STEP, left))
        return False

    def _judge_end(self, decoder: Decoder) -> None:
        """Set `problem` and `truncated` if the source ended early: before its declared duration, or by an error."""
        has_frame_count = bool(decoder.stream.frames)
        declared = None  # the declared duration in seconds, if packets end before it and it is not a guess of FFmpeg
        if has_frame_count or decoder.container_has_duration():
            declared = decoder.declared_if_cut_off(float(self.frame_rate), has_frame_count=has_frame_count)
        if declared is not None:
            read = f"read {decoder.end:.2f} of {declared:.2f} declared seconds ({self.frames_read} frames)"
            self.problem = f"{read}: the source is cut off or damaged"
        elif not _came_to_its_end(decoder):
            self.problem = f"read {self.frames_read} frames: the source broke off{self._why()}"
        self.truncated = self.problem is not None

    _no_frame_text = "no frame has come"  # the message if there is no frame
    _error: str | None = None  # the latest error of reading or decoding, in words
    _step = float(1 / FALLBACK_RATE)  # seconds between two frames of the current connection

    def _why(self) -> str:
        """Return the latest error in brackets, to be added to a message."""
        return "" if self._error is None else f" ({self._error})"

    def _of_connection(self, decoder: Decoder) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """Yield time and picture of each frame of a connection; the first sets `frame_rate` and `has_sound`.

        `_no_frame_text` begins the message if no frame comes, and `_error` keeps the connection's first error, in
        words, for the message if the source cannot be found again.
        """
        converter = VideoReformatter()
        if not self.frames_read:
            self.frame_rate = rate_of(decoder.stream)
            self.has_sound = bool(decoder.container.streams.audio)
        self._step = float(1 / self.frame_rate)  # seconds between two frames
        clock = Clock(decoder, self._step)
        bad = 0  # damaged packets that are counted already; the decoder counts them from its own beginning
        came = time.monotonic()  # when the last frame came, or when the caller asked for the next one

        def over() -> bool:
            """Return whether the caller asks for the end; raise UnreadableError after a long time without a frame.

            A server may send packets without a picture for ever. `_timeout` is that of opening and of one read,
            `_patience` that of a lost source; a read may last as long as either.
            """
            if self._is_url and time.monotonic() - came > max(self._timeout, self._patience):
                raise UnreadableError(f"{self._name}: {self._no_frame_text} for {time.monotonic() - came:.0f} s")
            return self._asked_to_end()

        for frame in decoder.frames(over):
            at = clock.read(frame)
            self.damaged, bad = self.damaged + decoder.bad_packets - bad, decoder.bad_packets
            if frame.is_corrupt:
                continue
            turn = turn_of(frame)  # (swap axes, mirror columns, mirror rows), by the rotation that the camera recorded
            # the size (width, height) of the upright picture: nothing is scaled
            size = (frame.height, frame.width) if turn[0] else (frame.width, frame.height)
            yield at, upright_frame(self._name, frame, converter, turn, size)
            came = time.monotonic()
        # The error that ended the connection is counted as a packet by the decoder, but is not a damaged one.
        self.damaged += decoder.bad_packets - bad - (decoder.reading_error is not None)
        self._error = decoder.first_error

    @contextmanager
    def _connected(self) -> Iterator[Decoder]:
        """Connect, with the protocols of that kind of source only, and yield a decoder; leaving disconnects."""
        _limit_memory()
        limit = {"max_pixels": str(MAX_FRAME_PIXELS)}
        options = limit | {"max_streams": str(MAX_STREAMS)}
        more = dict(METADATA_OPTIONS)
        if self.source == "-":
            file: Any = sys.stdin.buffer
            what = "not a video that can be read"
            if _is_mp4(file):  # reported where it cannot be opened and where no frame comes
                what = self._no_frame_text = _MP4_IN_A_PIPE
            options |= {"protocol_whitelist": "", "format_whitelist": f"{CONTAINERS},rawvideo"}
            if self._raw is not None:  # raw frames, which have no header
                more["format"] = "rawvideo"
                options |= self._raw
        else:
            file = self.source
            what = "no video comes from there"
            kind = self.source[:4]
            options |= {"protocol_whitelist": _PROTOCOLS[kind], "format_whitelist": _STREAMED}
            if kind == "rtsp":
                options["rtsp_transport"] = "tcp"  # over UDP, lost packets would damage frames
            more["timeout"] = (self._timeout,) * 2  # of opening, and of each read
        try:
            container = av.open(file, "r", options=options, **more)
        except CODEC_ERRORS as error:
            raise UnreadableError(f"{self._name}: {what} ({reason_of(error)})") from error
        with container:
            stream = video_stream_of(self._name, container, MAX_FRAME_PIXELS)
            stream.codec_context.thread_count = CODEC_THREADS
            stream.codec_context.options = {**stream.codec_context.options, **limit}
            yield Decoder(container, stream)

    def _of_camera(self, number: int) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """Yield seconds and picture of each frame of a camera, read by OpenCV, until it is lost."""
        if sys.platform == "linux" and not os.path.exists(f"/dev/video{number}"):
            raise UnreadableError(f"{self._name}: there is no camera {number}")
        camera = cv2.VideoCapture(number)
        try:
            if not camera.isOpened():
                raise UnreadableError(f"{self._name}: camera {number} cannot be opened; does another program have it?")
            rate = camera.get(cv2.CAP_PROP_FPS)
            self.frame_rate = Fraction(rate).limit_denominator(1001) if 0.01 <= rate <= 1000 else FALLBACK_RATE
            self.has_sound = False
            began, last = time.monotonic(), -1.0
            while True:
                good, frame = camera.read()
                if not good:
                    self._said.append("the camera was lost")  # sentences for `notes`
                    return
                last = max(time.monotonic() - began, last + 1e-3)  # times must increase, by 1 ms at least
                self.frames_read += 1
                yield last, np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), np.uint8)
        finally:
            camera.release()


@functools.cache
def _limit_memory() -> None:
    """Let FFmpeg take at most MOST_MEMORY bytes at once in this process, because a live source need not have an end.

    FFmpeg collects a packet, such as a part of a multipart stream, until its end comes. No option bounds that, and PyAV
    has no binding for this function of FFmpeg.
    """
    with suppress(OSError, AttributeError):  # on Windows, the module of PyAV does not lead to FFmpeg's functions
        ctypes.CDLL(av.packet.__file__).av_max_alloc(ctypes.c_size_t(MOST_MEMORY))


_MP4_IN_A_PIPE = (
    "an MP4 whose index stands at its end cannot be read from a pipe: save it to a file, or write it by "
    "ffmpeg -movflags +faststart or +frag_keyframe"
)


def _is_mp4(file: Any) -> bool:
    """Return whether a file that can only be read once begins as an MP4 does, without reading from it."""
    peek = getattr(file, "peek", None)
    return peek is not None and not file.seekable() and peek(8)[4:8] == b"ftyp"


def _came_to_its_end(decoder: Decoder) -> bool:
    """Return whether the packets ended without an error, or with EIO, which FFmpeg reports if no length is known."""
    error = decoder.reading_error
    return error is None or (getattr(error, "errno", None) == errno.EIO and length_of(decoder.container) is None)


def _raw_options(size: tuple[int, int], frame_rate: float | None, pixel_format: str | None) -> dict[str, str]:
    """Return FFmpeg's options for raw frames, which have no header; the defaults are 25 frames/s and "rgb24"."""
    width, height = (check_count(side, "size", high=1 << 16) for side in size)
    if width * height > MAX_FRAME_PIXELS:
        raise ParameterError(f"size must be of at most {MAX_FRAME_PIXELS} pixels; got {width} x {height}")
    name = pixel_format or "rgb24"
    try:
        av.VideoFormat(name)
    except ValueError:
        known = "one that FFmpeg knows, such as rgb24 or yuv420p"
        raise ParameterError(f"pixel_format must be {known}; got {name!r}") from None
    rate = Fraction(frame_rate or FALLBACK_RATE).limit_denominator(1001)
    return {"video_size": f"{width}x{height}", "pixel_format": name, "framerate": str(rate)}
