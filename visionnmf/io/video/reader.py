"""Read video files with PyAV."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray
from PIL import Image

from visionnmf._checks import check_count, check_frames_wanted
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.images import PICTURE_FORMATS
from visionnmf.io.inputs import regular_file

from .decoding import CODEC_ERRORS, Clock, Decoder, reason_of, turn_of, upright
from .mp4_index import most_samples

__all__ = ["VideoReader", "sample_frames"]

MAX_FRAME_PIXELS = 50_000_000
MAX_STREAMS = 64  # opening prepares a decoder of up to a megabyte for each; FFmpeg's own limit is 1000
FEW_SAMPLES = 1 << 20  # FFmpeg's index of these takes about 50 MB
_STILL = "a still picture, not a video; name the folder of its frames, or quote their pattern"
FALLBACK_RATE = Fraction(25)

# Containers that hold the video themselves. Left out on purpose: playlists and concatenations, which name other files
# and URLs, image sequences, text terminals, devices.
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,m4v,h263,h264,hevc,av1,obu,ivf,flv,asf,ogg,gif,"
    "apng,mjpeg,mxf,nut,yuv4mpegpipe,dv,rm,wtv,webp_anim,webp"
)
# A fixed number, because the frames that survive before a cut and the bytes that x264 writes depend on it, and the same
# file should give the same result on every machine.
CODEC_THREADS = 2


class VideoReader:
    """Read a video as a stream of upright RGB frames.

    Frames are decoded one at a time, so memory does not grow with the length. Each ``for`` loop opens the file again,
    so the reader can be iterated as often as wanted, one loop at a time. Rotation and mirroring in the metadata, as
    phones write them, are applied. Pixels are taken as square.

    Parameters
    ----------
    path : str or Path
        The file.
    every : int, default=1
        Deliver every `every`-th frame, starting with the first.
    max_frames : int, optional
        Stop after this many delivered frames.
    scale : float in (0, 1], default=1.0
        Factor on width and height; pixels are averaged over areas.
    start, end : float, default=0.0 and None
        Deliver only frames that are shown from `start` on and before `end`, in seconds. Earlier frames are decoded and
        dropped, because not every file can be entered in the middle.
    max_pixels : int, default=50_000_000
        Largest width times height that is decoded.

    Attributes
    ----------
    width, height : int
        Size of the delivered frames, in pixels: after rotation and `scale`.
    frame_rate : Fraction
        Frames per second of the file, not divided by `every`; the mean where the rate varies.
    frame_rate_known : bool
        False where the file gives no rate between 0.01 and 1000; `frame_rate` is then 25.
    declared_frames : int or None
        Number of frames in the file according to its header, None where it does not say.
    has_sound : bool
        Whether the file has sound, which is not delivered.
    time : float
        During a loop: when the last delivered frame is shown, in seconds from the beginning of the file. It grows with
        every frame: if the time in the file is missing, in the past or a day away, a frame comes ``1 / frame_rate``
        after the one before it.
    frames_read : int
        Frames that the current or last loop decoded, including those that `every` skips.
    truncated : bool
        After a loop: whether the file is cut off or damaged. See Notes.
    problem : str or None
        After a loop: what is wrong with the file, in one line.
    damaged : int
        After a loop: the number of damaged packets and frames.
    begins_anew, reconnections : bool, int
        True and 0 for a file; see :class:`.LiveReader`.

    Raises
    ------
    UnreadableError
        If the file is missing, a folder, empty, damaged, without video, a still picture, or no frame can be decoded.
    TooLargeError
        If frames have more than `max_pixels`, divided by the number of videos in the file, or it holds more than 64
        streams.
    UnsupportedError
        While iterating: if the frame size changes.
    ParameterError
        If `every`, `max_frames`, `scale`, `start` or `end` is out of range; while iterating: if the video ends before
        `start`, or has no frame before `end`.

    Notes ----- A loop over a damaged file delivers what can be decoded and does not raise. At its end it sets
    `truncated` if (a) reading stopped with an error, or packets or frames were corrupt or could not be decoded; or (b)
    the timestamps of all streams, sound included, end more than 2 frames and 1 % before the declared duration. The
    number of frames is not evidence: headers of good files are often off by one, and files with a variable rate,
    dropped frames or edit lists give fewer frames than they declare. MPEG streams, Ogg and GIF declare no duration, so
    a clean cut of such a file cannot be seen. A loop that ends early does not judge.

    Examples
    --------
    >>> with VideoReader("clip.mp4", scale=0.5) as reader:  # doctest: +SKIP
    ...     mean = sum(frame.mean() for frame in reader) / reader.frames_read
    """

    begins_anew = True
    reconnections = 0

    def __init__(
        self,
        path: str | Path,
        *,
        every: int = 1,
        max_frames: int | None = None,
        scale: float = 1.0,
        start: float = 0.0,
        end: float | None = None,
        max_pixels: int = MAX_FRAME_PIXELS,
    ) -> None:
        check_frames_wanted(every, max_frames, scale, start, end)
        self.path = regular_file(path, "video")
        self.every = every
        self.max_frames = max_frames
        self.scale = scale
        self.start, self.end = start, end
        self.max_pixels = max_pixels
        self.time = 0.0
        self.frames_read = 0
        self.truncated = False
        self.damaged = 0
        self.problem: str | None = None
        self._loop: Generator[NDArray[np.uint8], None, None] | None = None
        self._probe()

    @property
    def notes(self) -> list[str]:
        """The problem of the last loop, if there was one, as a list."""
        return [] if self.problem is None else [self.problem]

    def _probe(self) -> None:
        """Set the size, rotation, frame rate and similar attributes from the first frame, which must be decoded for it.

        Only a decoded frame has the true size and rotation. Raises UnreadableError if there is none, or the file is a
        still picture.
        """
        with _opened(self.path, self.max_pixels) as decoder:
            frames = decoder.frames()
            first = next(frames, None)
            # A still picture also gives one frame; two frames are a video, whatever the header looks like.
            if (first is None or next(frames, None) is None) and _is_picture(self.path):
                raise UnreadableError(f"{self.path}: {_STILL}")
            if first is None:
                reason = decoder.first_error or "it holds no frame"
                raise UnreadableError(f"{self.path}: no frame can be decoded ({reason})")
            self._coded_size = (first.width, first.height)
            self._turn = turn_of(first)
            width, height = self._coded_size[::-1] if self._turn[0] else self._coded_size
            self.width = max(1, round(width * self.scale))
            self.height = max(1, round(height * self.scale))
            rate = decoder.stream.average_rate or decoder.stream.guessed_rate
            self.frame_rate_known = rate is not None and Fraction(1, 100) <= rate <= 1000
            self.frame_rate = Fraction(rate) if rate is not None and self.frame_rate_known else FALLBACK_RATE
            self.declared_frames = decoder.stream.frames or None
            self.has_sound = bool(decoder.container.streams.audio)

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file if a loop was left early."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        self.close()
        self._loop = self._frames()
        return self._loop

    def _frames(self) -> Generator[NDArray[np.uint8], None, None]:
        """Yield the wanted frames as RGB, and set `frames_read`, `time` and, at the end, `problem` as it goes.

        `passed` counts the frames between `start` and `end`, and `delivered` those of them that were yielded.
        """
        self.frames_read, self.truncated, self.problem = 0, False, None
        delivered = passed = 0
        converter = VideoReformatter()
        with _opened(self.path, self.max_pixels) as decoder:
            time = 0.0
            clock = Clock(decoder, float(1 / self.frame_rate))
            for frame in decoder.frames():
                if (frame.width, frame.height) != self._coded_size:
                    raise UnsupportedError(
                        f"{self.path}: the size changes from {self._coded_size[0]} x {self._coded_size[1]} to "
                        f"{frame.width} x {frame.height} at frame {self.frames_read + 1}; re-encode it to one size"
                    )
                self.frames_read += 1
                time = clock.read(frame)
                if time < self.start:
                    continue
                if self.end is not None and time >= self.end:
                    break
                passed += 1
                if (passed - 1) % self.every == 0:
                    delivered += 1
                    self.time = time
                    yield upright(self.path, frame, converter, self._turn, (self.width, self.height))
                    if delivered == self.max_frames:
                        return
            else:
                self._judge(decoder)
        if not passed:
            raise ParameterError(f"start must lie in the video, before its end at {time:.3f} s; got {self.start:g}")

    def _judge(self, decoder: Decoder) -> None:
        """Compare what was read with what the header declares."""
        self.damaged = decoder.bad_packets
        declared = self.declared_frames
        missed = decoder.missed(declared is not None, float(self.frame_rate))
        if missed is None and decoder.bad_packets == 0:
            return
        self.truncated = True
        if declared is not None and self.frames_read < declared:
            read = f"read {self.frames_read} of {declared} declared frames"
        elif missed is not None:
            read = f"read {decoder.end:.2f} of {missed:.2f} declared seconds ({self.frames_read} frames)"
        else:
            read = f"read {self.frames_read} frames, {decoder.bad_packets} of them damaged or lost"
        self.problem = f"{read}: the file is cut off or damaged"


@contextmanager
def _opened(path: Path, max_pixels: int) -> Iterator[Decoder]:
    """Open a file for decoding, with every limit set before anything is decoded."""
    each = check_declared_size(path, max_pixels)
    with container_of(path, {"max_pixels": str(each)}) as container:
        stream = video_stream_of(path, container, max_pixels)
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = CODEC_THREADS
        stream.codec_context.options = {**stream.codec_context.options, "max_pixels": str(max_pixels)}
        yield Decoder(container, stream)


def check_declared_size(path: Path, max_pixels: int) -> int:
    """Check the sizes in the header, and return the limit of pixels for opening the file.

    Opening decodes a few frames if the header leaves questions open, and drops a size above FFmpeg's `max_pixels`, so
    the file is opened without any decoder first.
    """
    with container_of(path, {"codec_whitelist": "none"}) as container:
        video_stream_of(path, container, max_pixels)
        return pixels_of_each(container, max_pixels)


@contextmanager
def container_of(path: Path, options: dict[str, str]) -> Iterator[InputContainer]:
    """Open a file with FFmpeg, without protocols and with a list of containers."""
    options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "", **options}
    # An open file instead of its name, because FFmpeg interprets names such as "concat:..." or "img%d.png".
    with regular_file(path, "video").open("rb") as file:
        if most_samples(file) > max(FEW_SAMPLES, path.stat().st_size):
            raise UnreadableError(f"{path}: cut off or damaged (declares more frames than a file of its length holds)")
        try:
            container = av.open(file, "r", options=options, metadata_errors="replace")
        except CODEC_ERRORS as error:
            if _is_picture(path):
                raise UnreadableError(
                    f"{path}: a still picture, not a video; name the folder of its frames, or quote their pattern"
                ) from error
            raise UnreadableError(
                f"{path}: not a video that can be read, or cut off or damaged ({reason_of(error)})"
            ) from error
        with container:
            yield container


def video_stream_of(path: object, container: InputContainer, max_pixels: int) -> VideoStream:
    """Return the first video stream of a container, after checking the number of streams and their declared sizes."""
    if len(container.streams) > MAX_STREAMS:
        raise TooLargeError(f"{path}: holds {len(container.streams)} streams; at most {MAX_STREAMS} are read")
    streams = [stream for stream in container.streams.video if not _is_cover(stream)]
    if not streams:
        what = "it holds only sound" if container.streams.audio else "it holds no video, or is cut off before it"
        raise UnreadableError(f"{path}: not a video: {what}")
    if streams[0].codec_context is None:
        raise UnreadableError(f"{path}: the codec of the video is not known, or the file is cut off before it is named")
    each, several = pixels_of_each(container, max_pixels), len(container.streams.video) > 1
    for stream in streams:
        if stream.codec_context is not None and stream.width * stream.height > each:
            raise TooLargeError(
                f"{path}: declares frames of {stream.width} x {stream.height} = {stream.width * stream.height} pixels; "
                f"at most {each} are read{' of each of several videos in a file' if several else ''}"
            )
    return streams[0]


def pixels_of_each(container: InputContainer, max_pixels: int) -> int:
    """Return the limit of pixels for each video stream: opening a file can decode frames of all of them."""
    return max_pixels // max(1, len(container.streams.video))


def _is_cover(stream: VideoStream) -> bool:
    return "attached_pic" in str(stream.disposition)


def _is_picture(path: Path) -> bool:
    """Return whether Pillow recognises a file as a picture."""
    try:
        with Image.open(path, formats=PICTURE_FORMATS):
            return True
    except Exception:  # whatever the error, it is not a picture
        return False


def sample_frames(frames: Iterable[NDArray[np.uint8]], n: int) -> NDArray[np.uint8]:
    """Pick evenly spaced frames from a whole clip in one pass, without knowing its length.

    Every k-th frame is kept. When 2 `n` are kept, every other one is dropped and k doubles. Of the `n` to 2 `n` - 1
    that remain, `n` at even distances are returned, so gaps between neighbours differ by at most a factor of two.

    Parameters
    ----------
    frames : iterable of ndarray [shape=(height, width, 3), uint8]
        For instance a :class:`VideoReader`.
    n : int
        Number of frames wanted.

    Returns
    -------
    ndarray [shape=(min(n, number of frames), height, width, 3), uint8]
        They include the first frame. At most 2 `n` frames are in memory at a time.

    Raises
    ------
    ParameterError
        If `n` is below 1, or there is no frame.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import sample_frames
    >>> frames = np.arange(10, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 2), np.uint8)
    >>> sample_frames(frames, 3)[:, 0, 0].tolist()
    [0, 4, 8]
    """
    n = check_count(n, "n")
    held: list[NDArray[np.uint8]] = []
    step = 1
    for index, frame in enumerate(frames):
        if index % step == 0:
            held.append(frame)
            if len(held) == 2 * n:
                del held[1::2]
                step *= 2
    if not held:
        raise ParameterError("frames must hold at least one frame; got none")
    picked = np.linspace(0, len(held) - 1, min(n, len(held))).round().astype(int)
    return np.stack([held[index] for index in picked])
