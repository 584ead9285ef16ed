"""Read video that can be read only once: standard input, URLs and cameras."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_flag, check_number
from visionnmf._text import counted, without_password
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.inputs import ADDRESS, CAMERA, is_live

from .decoding import (
    CODEC_ERRORS,
    CODEC_THREADS,
    CONTAINERS,
    MAX_FRAME_PIXELS,
    MAX_STREAMS,
    METADATA_OPTIONS,
    Decoder,
    length_of,
    limit_memory,
    rate_of,
    reason_of,
    resized,
    stamp_of,
    turn_of,
    upright_frame,
    video_stream_of,
)
from .pixels import FrameConverter
from .timeline import FrameReader, FramesWanted, TimedFrame, Timeline

# The protocols and containers that FFmpeg may use for a URL. Files and playlists are left out: they name other URLs.
_PROTOCOLS = {"http": "http,https,tcp,tls", "rtsp": "rtsp,rtsps,rtp,srtp,udp,tcp,tls"}
_STREAMED = f"{CONTAINERS},rtsp,mpjpeg"

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds between two attempts to find a lost source
_STEP = 0.1  # seconds between two calls of `until` during a pause

_MP4_IN_A_PIPE = (
    "an MP4 whose index stands at its end cannot be read from a pipe: save it to a file, or write it by "
    "ffmpeg -movflags +faststart or +frag_keyframe"
)
_RAW_IN_A_PIPE = "; give raw frames a header, for instance by: ffmpeg -f rawvideo -video_size WxH -i - -c copy -f nut -"
_MP4_FROM_A_SERVER = (
    "no frame has come; of an MP4 whose index stands at its end the server must send parts: download it, or write it "
    "by ffmpeg -movflags +faststart"
)


class LiveReader(FrameReader):
    """Read frames from standard input, a URL or a camera as they come; the attributes are those of `VideoReader`.

    A live source can be read once. Damaged frames are left out and counted. If a source is lost, by an error or by
    silence, the reader tries to connect again for a minute, and the times of the frames then include the gap. A URL
    whose server says how long the file is would start from the beginning, so its end, or the place where it breaks
    off, is the end of the frames.

    Parameters
    ----------
    source : str
        ``"-"``, a URL of the kinds ``http``, ``https``, ``rtsp`` and ``rtsps``, ``"camera:0"`` or ``"/dev/video0"``.
    timeout, patience : float, default=10.0 and 60.0
        Seconds of silence after which a source counts as lost, and seconds during which it is looked for again.
    again_after_end : bool, default=True
        Whether to connect again also when a stream ends without an error, as streams of cameras do.
    until : callable, optional
        Called while the reader waits for a lost source; the frames end when it returns True.
    **wanted
        `every`, `max_frames`, `scale`, `start` and `end`, as of :class:`.VideoReader`.

    Attributes
    ----------
    begins_anew, reconnections : bool, int
        False, because what has been read is gone, and how often a lost source was found again.

    Raises
    ------
    MediaError
        If nothing answers, the answer is not a video, or frames have more than 50 million pixels; while iterating, if
        the frame size changes.
    ParameterError
        If an argument is out of its range; while iterating, if the source ends before `start`.

    Examples
    --------
    >>> from visionnmf.io import LiveReader
    >>> for frame in LiveReader("rtsp://gate.example/1"):  # doctest: +SKIP
    ...     print(frame.mean())
    """

    begins_anew = False

    def __init__(
        self,
        source: str,
        *,
        timeout: float = choices.LIVE_TIMEOUT,
        patience: float = choices.LIVE_PATIENCE,
        again_after_end: bool = True,
        until: Callable[[], bool] | None = None,
        **wanted: Any,
    ) -> None:
        self._wanted = FramesWanted(**wanted)
        check_number(timeout, "timeout", without_low=True)  # > 0
        check_number(patience, "patience")
        check_flag(again_after_end, "again_after_end")
        if not is_live(source):
            raise ParameterError(
                f"source must be '-', an address or a camera; got {source!r}; open others by open_video"
            )
        self._timeout, self._patience, self._again_after_end = timeout, patience, again_after_end
        self._asked_to_end = until or (lambda: False)
        # FFmpeg knows protocols in small letters only.
        self.source = ADDRESS.sub(lambda found: found[0].lower(), str(source))
        self._name = without_password(self.source)  # for messages
        self._said: list[str] = []  # what was lost
        self._no_frame_text = "no frame has come"
        self._error: str | None = None  # the latest one in words
        self._converter = FrameConverter()
        self._timeline: Timeline | None = None
        self._frames = self._decoded()  # which can be gone through once
        self._first = next(self._frames, None)  # only a decoded frame says the true size; None once it was delivered
        if self._first is None:
            raise UnreadableError(f"{self._name}: {self._no_frame_text}{self._why()}")
        self.width, self.height = self._wanted.scaled(self._first.picture.shape[1::-1])

    @property
    def notes(self) -> list[str]:
        """What was lost, as sentences, and the problem."""
        left_out = counted(self.damaged, "damaged packet or frame", "damaged packets or frames")
        damaged = [f"left out: {left_out}"] if self.damaged else []
        late = None if self._timeline is None else self._timeline.late
        said = [note for note in (late, self.problem) if note is not None]
        return [*damaged, *self._said, *self._converter.notes, *said]

    def close(self) -> None:
        """Close the source."""
        self._frames.close()

    def timed(self) -> Iterator[TimedFrame]:
        """Yield the wanted frames, scaled, with their times; raise the second time, as nothing can be reread."""
        if self._first is None:
            raise ParameterError(f"source must be gone through once; got {self._name} again; open it again")
        first, self._first = self._first, None
        height, width = first.picture.shape[:2]
        for frame in self._wanted.choose(chain([first], self._frames), may_be_none=self._asked_to_end):
            if frame.picture.shape[:2] != (height, width):
                raise UnsupportedError(
                    f"{self._name}: the size changes from {width} x {height} to {frame.picture.shape[1]} x "
                    f"{frame.picture.shape[0]} at frame {self.frames_read}"
                )
            self.time = frame.time
            yield frame._replace(picture=resized(frame.picture, (self.width, self.height)))

    def _decoded(self) -> Generator[TimedFrame, None, None]:
        """Yield every undamaged frame of all connections; errors are raised before the first one only."""
        timeline: Timeline | None = None
        pause = FIRST_PAUSE  # before the next attempt
        heard = time.monotonic()  # when the last frame came
        while True:
            try:
                with self._connected() as decoder:
                    start = None if decoder.container.start_time is None else decoder.start
                    if timeline is None:
                        self.frame_rate = rate_of(decoder.stream)
                        self.has_sound = bool(decoder.container.streams.audio)
                        self._timeline = timeline = Timeline(float(1 / self.frame_rate), start)
                    is_new = self.frames_read > 0
                    for stamp, picture, is_doubtful in self._of_connection(decoder):
                        if is_new:
                            self.reconnections += 1
                            timeline.resume(max(time.monotonic() - heard, timeline.usual))
                        is_new, pause = False, FIRST_PAUSE
                        self.frames_read += 1
                        yield TimedFrame(picture, timeline.add(stamp), is_doubtful)
                        heard = time.monotonic()  # the time that the caller took is no silence of the source
                    if self._asked_to_end():
                        return
                    # A source with a length is a file: a new connection would start from its beginning.
                    length = decoder.stream.duration or decoder.container.duration or length_of(decoder.container)
                    if self.source == "-" or (length is not None and not CAMERA.fullmatch(self.source)):
                        self._judge_end(decoder)
                        return
                    if not self._again_after_end and _came_to_its_end(decoder):
                        if self._wanted.max_frames is not None or self._wanted.end is not None:
                            self._said.append(f"the stream ended by itself at {timeline.time:.2f} s")
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
            over = time.monotonic() + pause
            while (left := over - time.monotonic()) > 0:
                if self._asked_to_end():
                    return
                time.sleep(min(_STEP, left))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _judge_end(self, decoder: Decoder) -> None:
        """Set `problem` and `truncated` if the source ended before its declared duration, or by an error."""
        if (cut := decoder.cut_off(float(self.frame_rate))) is not None:
            read = f"read {cut[0]:.2f} of {cut[1]:.2f} declared seconds ({self.frames_read} frames)"
            self.problem = f"{read}: the source is cut off or damaged"
        elif not _came_to_its_end(decoder):
            self.problem = f"read {self.frames_read} frames: the source broke off{self._why()}"
        self.truncated = self.problem is not None

    def _why(self) -> str:
        """Return the latest error in brackets, to be added to a message."""
        return "" if self._error is None else f" ({self._error})"

    def _of_connection(self, decoder: Decoder) -> Iterator[tuple[float | None, NDArray[np.uint8], bool]]:
        """Yield the stamp in seconds, the picture, and whether it is doubtful, of each undamaged frame."""
        bad = 0  # damaged packets that are counted already
        came = time.monotonic()  # when the last frame came, or when the caller asked for the next one

        def over() -> bool:
            """Return whether the caller asks for the end; raise UnreadableError after a long time without a frame."""
            # A server may send packets without a picture for ever.
            if self.source != "-" and time.monotonic() - came > max(self._timeout, self._patience):
                raise UnreadableError(f"{self._name}: no frame has come for {time.monotonic() - came:.0f} s")
            return self._asked_to_end()

        for frame, is_doubtful in decoder.frames(over):
            self.damaged, bad = self.damaged + decoder.bad_packets - bad, decoder.bad_packets
            if frame.is_corrupt:
                continue
            turn, ticks, unit = turn_of(frame), stamp_of(frame), decoder.stream.time_base
            size = (frame.height, frame.width) if turn[0] else (frame.width, frame.height)
            picture = upright_frame(self._name, frame, self._converter, turn, size)
            yield None if ticks is None or not unit else float(ticks * unit), picture, is_doubtful
            came = time.monotonic()
        # The error that ended the connection is counted as a packet by the decoder, but is not a damaged one.
        self.damaged += decoder.bad_packets - bad - (decoder.reading_error is not None)
        self._error = decoder.first_error

    @contextmanager
    def _connected(self) -> Iterator[Decoder]:
        """Connect, with the protocols of that kind of source only; leaving the block disconnects."""
        limit_memory()
        limit = {"max_pixels": str(MAX_FRAME_PIXELS)}
        options = limit | {"max_streams": str(MAX_STREAMS), "format_whitelist": _STREAMED}
        more: dict[str, Any] = METADATA_OPTIONS | {"timeout": (self._timeout,) * 2}  # of opening, and of each read
        file: Any = self.source
        what = "no video comes from there"
        if self.source == "-":
            more.pop("timeout")
            file = sys.stdin.buffer
            what = "not a video that can be read"
            if _is_mp4(file):  # reported where it cannot be opened and where no frame comes
                what = self._no_frame_text = _MP4_IN_A_PIPE
            else:
                what += _RAW_IN_A_PIPE
            options |= {"protocol_whitelist": "", "format_whitelist": CONTAINERS}
        elif camera := CAMERA.fullmatch(self.source):
            number = camera[1] or camera[2]
            of_apple = sys.platform == "darwin"
            more["format"], file = ("avfoundation", number) if of_apple else ("v4l2", f"/dev/video{number}")
            options = dict(limit)
        else:
            kind = self.source[:4]
            options["protocol_whitelist"] = _PROTOCOLS[kind]
            if kind == "rtsp":
                options["rtsp_transport"] = "tcp"  # over UDP, lost packets would damage frames
        try:
            container = av.open(file, "r", options=options, **more)
        except CODEC_ERRORS as error:
            raise UnreadableError(f"{self._name}: {what} ({reason_of(error)})") from error
        with container:
            if file == self.source and "mp4" in container.format.name:
                self._no_frame_text = _MP4_FROM_A_SERVER
            stream = video_stream_of(self._name, container, MAX_FRAME_PIXELS)
            stream.codec_context.thread_count = CODEC_THREADS
            stream.codec_context.options = {**stream.codec_context.options, **limit}
            yield Decoder(container, stream)


def _is_mp4(file: Any) -> bool:
    """Return whether a file that can only be read once begins as an MP4 does, without reading from it."""
    peek = getattr(file, "peek", None)
    return peek is not None and not file.seekable() and peek(8)[4:8] == b"ftyp"


def _came_to_its_end(decoder: Decoder) -> bool:
    """Return whether the packets ended without an error, or with EIO, which FFmpeg reports if no length is known."""
    error = decoder.reading_error
    return error is None or (getattr(error, "errno", None) == errno.EIO and length_of(decoder.container) is None)
