"""Write video with PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from visionnmf._checks import check_choice, check_count, check_number
from visionnmf.exceptions import MediaError, ParameterError
from visionnmf.io.outputs import output_file, record_text

from .decoding import CODEC_ERRORS, reason_of
from .pixels import convert

# Units of the times of frames: MPEG's clock, and the only one that Matroska has.
# An MP4 frame lasts less than 2**31 units: with these a day, the longest pause (`timeline.DAY`).
_TIME_BASES = {"h264": Fraction(1, 24_000), "ffv1": Fraction(1, 1000)}

# x264 holds about fifteen frames (160 MB at 1920 x 1080) before it writes the first; large pictures get fewer.
_LARGE = 1 << 20  # pixels
_FEWER_HELD = {"rc-lookahead": "2", "bf": "1"}
_THREADS = 2  # the bytes that x264 writes depend on it, and should be the same on every machine


class VideoWriter:
    """Write a video, whole or not at all.

    ``"h264"`` makes an MP4 file that browsers play. It uses H.264 if PyAV has libx264 and both sides are even,
    otherwise VP9, which keeps odd sizes; colours are 4:2:0 BT.709 in limited range. H.264 of more than a megapixel is
    encoded with a shorter look-ahead: half the memory, and 2 to 3 dB less on still backgrounds. ``"ffv1"`` makes a
    lossless Matroska file. The file gets its name when the ``with`` block ends without an error and the finished file
    holds every frame; otherwise nothing is left.

    Parameters
    ----------
    path : str or Path
        The file: ``.mp4`` for ``"h264"``, ``.mkv`` for ``"ffv1"``.
    width, height : int
        Size of the frames in pixels.
    frame_rate : Fraction, int or float
        Frames per second, above 0 and at most 1000.
    codec : {"h264", "ffv1"}
        What to write.
    grey : bool, default=False
        Frames are (height, width) instead of (height, width, 3).
    timed : bool, default=False
        Whether each frame comes with its own time, in units of 1/24000 s in MP4 and 1/1000 s in Matroska; `frame_rate`
        is then only declared in the header. Otherwise frames follow each other at `frame_rate`.
    force : bool, default=False
        Whether an existing file may be replaced.

    Attributes
    ----------
    encoder, frames_written : str, int
        The encoder in use, ``"libx264"``, ``"libvpx-vp9"`` or ``"ffv1"``, and the number of frames given so far.

    Raises
    ------
    ParameterError
        If an argument or a frame has the wrong type, shape or range.
    OutputExistsError, MediaError
        If the file exists and `force` is false, or cannot be written, or no frame was given.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import VideoReader, VideoWriter
    >>> with VideoWriter("clip.mp4", width=32, height=32, frame_rate=25, codec="h264") as writer:
    ...     for level in range(0, 100, 10):
    ...         writer.write(np.full((32, 32, 3), level, np.uint8))
    >>> len(list(VideoReader("clip.mp4")))
    10
    """

    def __init__(
        self,
        path: str | Path,
        *,
        width: int,
        height: int,
        frame_rate: Fraction | float,
        codec: Literal["h264", "ffv1"],
        grey: bool = False,
        timed: bool = False,
        force: bool = False,
    ) -> None:
        self.path = Path(path)
        suffixes = {"h264": ".mp4", "ffv1": ".mkv"}
        check_choice(codec, "codec", suffixes)
        if self.path.suffix.lower() != suffixes[codec]:
            raise ParameterError(f"path must end in {suffixes[codec]} for {codec} video; got {str(path)!r}")
        check_number(frame_rate, "frame_rate", 0, 1000, without_low=True)  # above 0, at most 1000 a second
        self.width, self.height = check_count(width, "width"), check_count(height, "height")
        self.grey, self.timed, self.force = grey, timed, force
        self.frame_rate = Fraction(frame_rate).limit_denominator(1001)
        self._time_base = _TIME_BASES[codec] if timed else 1 / self.frame_rate  # seconds, the unit of frames' times
        self._pts = -1  # the time of the last frame in that unit; -1 before the first
        self.encoder, self._pixel_format, self._options = _encoding(codec, self.width, self.height, grey)
        limited = {"dst_colorspace": 1, "dst_color_range": 1, "interpolation": "AREA"}  # BT.709 in limited range
        self._colours: dict[str, Any] = {} if codec == "ffv1" else limited  # lossless video keeps RGB
        self.frames_written = 0
        self._converter = VideoReformatter()
        self._lifetime: AbstractContextManager[None] | None = None  # of the open file (`_open`); None outside `with`
        self._container: Any = None  # the output file of PyAV, set by `_open`
        self._stream: Any = None

    def __enter__(self) -> VideoWriter:
        lifetime = self._open()
        lifetime.__enter__()
        self._lifetime = lifetime
        return self

    def __exit__(self, *error: Any) -> None:
        lifetime, self._lifetime = self._lifetime, None
        assert lifetime is not None
        lifetime.__exit__(*error)

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Open the file, which gets its name only if the block, the encoder's last frames and a check succeed."""
        with output_file(self.path, force=self.force) as temporary:
            # "bitexact" leaves out random identifiers, so that equal frames give equal files. "faststart" puts the
            # index of an MP4 file at its beginning, so that browsers can play while they load.
            container_options = {"fflags": "+bitexact"}
            if self.path.suffix.lower() == ".mp4":
                container_options["movflags"] = "+faststart"
            with self._encoding_errors():
                self._container = av.open(str(temporary.absolute()), "w", options=container_options)
                if made := record_text():
                    self._container.metadata["comment"] = made
            try:
                with self._encoding_errors():
                    self._start()
                yield
                if self.frames_written == 0:
                    raise MediaError(f"{self.path}: no frame was given, so no video is written")
                with self._encoding_errors():
                    self._container.mux(self._stream.encode(None))  # None asks for the frames that the encoder holds
            except BaseException:
                with suppress(*CODEC_ERRORS):  # the file is removed, and this exception matters more
                    self._container.close()
                raise
            with self._encoding_errors():
                self._container.close()
                self._verify(temporary)

    def _start(self) -> None:
        """Add the video stream to the open container, with the chosen encoder, size and colours."""
        stream = self._container.add_stream(self.encoder, rate=self.frame_rate, options=self._options)
        stream.width, stream.height, stream.pix_fmt = self.width, self.height, self._pixel_format
        context = stream.codec_context
        context.time_base = self._time_base
        context.thread_count = _THREADS
        if self._colours:
            # 1 = BT.709 (matrix, primaries, transfer) and 1 = limited range: ITU-T H.273, tables 2 to 4
            context.colorspace = context.color_primaries = context.color_trc = context.color_range = 1
        self._stream = stream

    @contextmanager
    def _encoding_errors(self) -> Iterator[None]:
        """Turn errors of FFmpeg within the block into MediaError."""
        try:
            yield
        except CODEC_ERRORS as error:
            raise MediaError(f"{self.path}: cannot be written ({reason_of(error)})") from error

    def write(self, frame: NDArray[np.uint8], time: float | None = None) -> None:
        """Append a frame.

        Parameters
        ----------
        frame : ndarray [shape=(height, width, 3), or (height, width) with ``grey``; uint8]
        time : float, optional
            When the frame is shown, in seconds; only with ``timed``. A frame that is not later than the one before it
            gets the next time that the file can express.

        Raises
        ------
        ParameterError, MediaError
            If shape, dtype or `time` is wrong, the writer is not open, or the encoder fails.
        """
        if self._lifetime is None:
            raise ParameterError("the writer must be open; got one that is not; use `with VideoWriter(...) as writer`")
        expected = (self.height, self.width) if self.grey else (self.height, self.width, 3)
        if not isinstance(frame, np.ndarray) or frame.shape != expected or frame.dtype != np.uint8:
            raise ParameterError(
                f"frame {self.frames_written + 1} must have shape {expected} and dtype uint8; got {np.shape(frame)} "
                f"and {getattr(frame, 'dtype', type(frame).__name__)}"
            )
        if self.timed:
            check_number(time, "time", 0)
        elif time is not None:
            raise ParameterError(f"time must be None; got {time}; make the writer with timed=True")
        # The time in units of `_time_base`: without a time, that is the number of the frame.
        due = self.frames_written if time is None else round(Fraction(time) / self._time_base)
        self._pts = max(due, self._pts + 1)
        with self._encoding_errors():
            source = "gray" if self.grey else "rgb24"
            picture = VideoFrame.from_ndarray(np.ascontiguousarray(frame), format=source)
            if source != self._pixel_format:
                picture = convert(self._converter, picture, format=self._pixel_format, **self._colours)
            picture.pts = self._pts
            picture.time_base = self._time_base
            self._container.mux(self._stream.encode(picture))
        self.frames_written += 1

    def _verify(self, temporary: Path) -> None:
        """Raise MediaError if the written file does not hold as many frames as were given."""
        with av.open(str(temporary.absolute())) as container:
            held = sum(packet.size > 0 for packet in container.demux(video=0))
        if held != self.frames_written:
            raise MediaError(
                f"{self.path}: the encoder kept {held} of {self.frames_written} frames; the file was not written"
            )


def _encoding(codec: str, width: int, height: int, grey: bool) -> tuple[str, str, dict[str, str]]:
    """Return encoder, pixel format and options: libx264 for "h264", or VP9 if that is missing or a side is odd."""
    if codec == "ffv1":
        # Version 3 with checksums, so that damage is noticed when the file is read.
        options = {"level": "3", "slicecrc": "1"}
        # by default the encoder makes two slices a row, which a width of one pixel does not allow
        return "ffv1", "gray" if grey else "bgr0", options | ({"slices": "1"} if width == 1 else {})
    # H.264 with colours at half resolution takes even sides only
    if "libx264" in av.codecs_available and width % 2 == 0 and height % 2 == 0:
        fewer_held = _FEWER_HELD if width * height > _LARGE else {}
        return "libx264", "yuv420p", {"preset": "veryfast", "crf": "20", **fewer_held}
    return "libvpx-vp9", "yuv420p", {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "crf": "24", "b": "0"}
