"""Read video that comes but once: standard input, addresses, cameras."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
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

# What FFmpeg may speak and read for an address. Left out on purpose: files, and playlists, which name other addresses.
_PROTOCOLS = {"http": "http,https,tcp,tls", "rtsp": "rtsp,rtsps,rtp,srtp,udp,tcp,tls"}
_STREAMED = f"{CONTAINERS},rtsp,mpjpeg"

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds between two attempts to find a lost source
_STEP = 0.1  # seconds of a pause in which nobody asks whether to end


class LiveReader:
    """Frames of standard input, an address or a camera, as they come; with the attributes of :class:`.VideoReader`.

    It is gone through once. Damaged frames are left out and counted. An address that is lost, by an error or silence,
    is looked for again, for a minute, and frames go on with the time that has passed meanwhile; a file that says how
    long it is would begin anew, so that its end, or where it breaks off, is the end.

    Parameters
    ----------
    source : str
        ``"-"``, a ``http``, ``https``, ``rtsp`` or ``rtsps`` address, ``"camera:0"`` or ``"/dev/video0"``.
    size : (int, int), optional
        Width and height, where ``"-"`` is of raw frames; without it, of what says its format itself, such as
        YUV4MPEG, MPEG-TS or Matroska.
    frame_rate : float, optional
        Of raw frames; 25 when not given.
    pixel_format : str, optional
        Of raw frames, as FFmpeg names it; ``"rgb24"`` when not given.
    every, max_frames, scale, start, end, max_pixels : optional
        See :class:`.VideoReader`.
    timeout : float, default=10.0
        Seconds that an address may say nothing.
    patience : float, default=60.0
        Seconds in which a lost one is looked for.
    again_after_end : bool, default=True
        Whether an address is also looked for where its stream ends without an error, as cameras end it; a file that
        does not say how long it is comes anew then.
    until : callable, optional
        Asked while a lost source is looked for; true ends the frames.

    Attributes
    ----------
    begins_anew : bool
        False: what has been read is gone.
    damaged : int
        Frames that could not be decoded whole, and were left out.
    truncated : bool
        At the end: the frames end clearly before the declared duration, as :class:`.VideoReader` has it.
    problem : str or None
        The same in words.
    reconnections : int
        How often the source was found again.
    notes : list of str
        The same in words, and how the source ended.

    Raises
    ------
    UnreadableError
        Nothing answers, it is no video, or there is no such camera.
    TooLargeError
        If frames have more than `max_pixels`.
    UnsupportedError
        While iterating: if the frame size changes.
    ParameterError
        If an argument is out of its range; while iterating: if the source ends before `start`.

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
        every: int = 1,
        max_frames: int | None = None,
        scale: float = 1.0,
        start: float = 0.0,
        end: float | None = None,
        max_pixels: int = MAX_FRAME_PIXELS,
        timeout: float = choices.LIVE_TIMEOUT,
        patience: float = choices.LIVE_PATIENCE,
        again_after_end: bool = True,
        until: Callable[[], bool] | None = None,
    ) -> None:
        check_frames_wanted(every, max_frames, scale, start, end)
        check_number(timeout, "timeout", without_low=True)
        check_number(patience, "patience")
        if frame_rate is not None:
            check_number(frame_rate, "frame_rate", 0, 1000, without_low=True)
        if not is_live(source):
            raise ParameterError(
                f"source must be '-', an address or a camera; got {source!r}; open others by open_video"
            )
        # FFmpeg knows protocols by small letters.
        self.source = ADDRESS.sub(lambda found: found[0].lower(), str(source))
        self._name = without_password(self.source)
        self._again_after_end, self._until = check_flag(again_after_end, "again_after_end"), until
        self._raw = None if size is None else _raw_options(size, frame_rate, pixel_format)
        self._wanted = (every, max_frames, scale, start, end)
        self._max_pixels, self._timeout, self._patience = max_pixels, timeout, patience
        self.time = 0.0
        self.frames_read = self.damaged = self.reconnections = 0
        self._said: list[str] = []
        self._again = ADDRESS.match(self.source) is not None
        self._frames = self._decoded()
        self._first = next(self._frames, None)  # which alone tells the true size
        if self._first is None:
            raise UnreadableError(f"{self._name}: no frame has come{self._why()}")
        height, width = self._first[1].shape[:2]
        self._size = (width, height)
        self.width, self.height = max(1, round(width * scale)), max(1, round(height * scale))

    @property
    def notes(self) -> list[str]:
        """What was lost, in words."""
        damaged = [f"{self.damaged} damaged packets or frames were left out"] if self.damaged else []
        return [*damaged, *self._said, *([] if self.problem is None else [self.problem])]

    def close(self) -> None:
        """Let the source go."""
        self._frames.close()

    def __enter__(self) -> LiveReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        if self._first is None:
            raise ParameterError(f"source must be gone through once; got {self._name} again; open it anew")
        every, max_frames, _, start, end = self._wanted
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
        """Yield time and picture of each whole frame, over all connections."""
        if camera := CAMERA.fullmatch(self.source):
            yield from self._of_camera(int(camera[1] or camera[2]))
            return
        before = 0.0  # seconds up to the present connection
        last, heard, pause = 0.0, time.monotonic(), FIRST_PAUSE
        while True:
            try:
                with self._connected() as decoder:
                    for at, frame in self._of_connection(decoder):
                        if self.frames_read and pause > FIRST_PAUSE:
                            self.reconnections += 1
                            before = last + max(time.monotonic() - heard, self._step)
                        pause = FIRST_PAUSE
                        self.frames_read += 1
                        last, heard = before + at, time.monotonic()
                        yield last, frame
                        heard = time.monotonic()
                    sized = decoder.declared_duration(True) is not None or decoder.container.size >= 0
                    if not self._again or sized:
                        self._judge(decoder)
                        return
                    if not self._again_after_end and _came_to_its_end(decoder):
                        if self._wanted[1] is not None or self._wanted[4] is not None:
                            self._said.append(f"the stream ended by itself at {last:.2f} s")
                        return
            except (UnreadableError, TooLargeError) as error:
                if not self.frames_read:
                    raise
                self._error = str(error)
            if not self.frames_read:
                return
            if time.monotonic() - heard + pause > self._patience:
                self._said.append(f"the source was lost{self._why()}")
                return
            if not self._waited(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)

    def _asked_to_end(self) -> bool:
        return self._until is not None and self._until()

    def _waited(self, pause: float) -> bool:
        """Wait; returns False where the end is asked for meanwhile."""
        over = time.monotonic() + pause
        while not self._asked_to_end():
            left = over - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(_STEP, left))
        return False

    def _judge(self, decoder: Decoder) -> None:
        """Compare what was read to the end with what the header declares, as :class:`.VideoReader` does."""
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

    _error: str | None = None
    _step = float(1 / FALLBACK_RATE)

    def _why(self) -> str:
        return "" if self._error is None else f" ({self._error})"

    def _of_connection(self, decoder: Decoder) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        converter = VideoReformatter()
        rate = decoder.stream.average_rate or decoder.stream.guessed_rate
        if not self.frames_read:
            self.frame_rate_known = rate is not None and Fraction(1, 100) <= rate <= 1000
            self.frame_rate = Fraction(rate) if rate is not None and self.frame_rate_known else FALLBACK_RATE
            self.has_sound = bool(decoder.container.streams.audio)
        self._step = float(1 / self.frame_rate)
        clock = Clock(decoder, self._step)
        bad = 0
        for frame in decoder.frames():
            at = clock.read(frame)
            self.damaged, bad = self.damaged + decoder.bad_packets - bad, decoder.bad_packets
            if frame.is_corrupt:
                continue
            yield at, self._picture(frame, converter)
        self.damaged += decoder.bad_packets - bad - (decoder.reading_error is not None)
        self._error = decoder.first_error

    def _picture(self, frame: VideoFrame, converter: VideoReformatter) -> NDArray[np.uint8]:
        turn = turn_of(frame)
        size = (frame.height, frame.width) if turn[0] else (frame.width, frame.height)
        return upright(self._name, frame, converter, turn, size)

    @contextmanager
    def _connected(self) -> Iterator[Decoder]:
        limit = {"max_pixels": str(self._max_pixels)}
        with self._opened(limit | {"max_streams": str(MAX_STREAMS)}) as container:
            stream = video_stream_of(self._name, container, self._max_pixels)
            stream.codec_context.thread_count = CODEC_THREADS
            stream.codec_context.options = {**stream.codec_context.options, **limit}
            yield Decoder(container, stream)

    @contextmanager
    def _opened(self, limit: dict[str, str]) -> Iterator[InputContainer]:
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
                options["rtsp_transport"] = "tcp"
            more["timeout"] = (self._timeout, self._timeout)
        with ExitStack() as stack:
            try:
                container = stack.enter_context(av.open(file, "r", options=options, **more))
            except CODEC_ERRORS as error:
                what = "not a video that can be read" if self.source == "-" else "no video comes from there"
                raise UnreadableError(f"{self._name}: {what} ({reason_of(error)})") from error
            yield container

    def _of_camera(self, number: int) -> Iterator[tuple[float, NDArray[np.uint8]]]:
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
                last = max(time.monotonic() - began, last + 1e-3)
                self.frames_read += 1
                yield last, np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), np.uint8)
        finally:
            camera.release()


def _came_to_its_end(decoder: Decoder) -> bool:
    """Return whether packets ended without an error; where HTTP tells no length, FFmpeg takes any end for EIO."""
    error = decoder.reading_error
    return error is None or (getattr(error, "errno", None) == errno.EIO and decoder.container.size < 0)


def _raw_options(size: tuple[int, int], frame_rate: float | None, pixel_format: str | None) -> dict[str, str]:
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
