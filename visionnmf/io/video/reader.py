"""Read video files with PyAV, and the pictures of a folder as if they were one."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from visionnmf._checks import check_number
from visionnmf.choices import IMAGE_SUFFIXES
from visionnmf.exceptions import MediaError, UnreadableError, UnsupportedError
from visionnmf.io.images import read_with_notes
from visionnmf.io.inputs import pictures_of, regular_file

from .container import (
    CODEC_THREADS,
    FALLBACK_RATE,
    MAX_FRAME_PIXELS,
    container_of,
    declared_limit,
    is_picture,
    rate_of,
    still_picture,
    video_stream_of,
)
from .decoding import Clock, Decoder, FramesWanted, resized, turn_of, upright_frame

SHOWN = 3  # names of unreadable pictures in a message


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
        Frames per second of the file, not divided by `every`; the mean where the rate varies, and 25 where the file
        gives no rate between 0.01 and 1000.
    declared_frames : int or None
        Number of frames in the file according to its header, None where it does not say.
    has_sound : bool
        Whether the file has sound, which is not delivered.
    time : float
        When the last delivered frame is shown, in seconds from the beginning of the file. If the time in the file is
        missing, in the past or a day away, a frame comes ``1 / frame_rate`` after the one before it.
    frames_read : int
        Frames that the current or last loop decoded, including those that `every` skips.
    truncated, damaged, problem, notes : bool, int, str or None, list of str
        After a loop: whether the file is cut off or damaged (see Notes), the number of damaged packets and frames, and
        what is wrong in one line.
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

    Notes
    -----
    A loop over a damaged file delivers what can be decoded and does not raise. At its end it sets `truncated` if (a)
    reading stopped with an error, or packets or frames were corrupt or could not be decoded; or (b) the timestamps of
    all streams, sound included, end more than 2 frames and 1 % before the declared duration. The number of frames is
    not evidence, because headers of good files are often off by one. MPEG streams, Ogg and GIF declare no duration, so
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
        """Check the arguments and decode the first frame, from which the size and the rate are known.

        Every `every`-th frame from `start` on and before `end`, in seconds, is delivered, `max_frames` at most, with
        both sides multiplied by `scale`. Frames of more than `max_pixels` are refused.
        """
        # `_probe` sets the other attributes, which follow from the first frame. `FramesWanted` checks the arguments and
        # chooses frames by their times.
        self._wanted = FramesWanted(every, max_frames, scale, start, end)
        self._max_pixels = max_pixels
        self.path = regular_file(path, "video")
        self.time = 0.0
        self.frames_read = self.damaged = 0
        self.truncated = False
        self.problem: str | None = None
        self._loop: Generator[NDArray[np.uint8], None, None] | None = None  # the frames of the current or last loop
        self._probe()

    @property
    def notes(self) -> list[str]:
        """The problem of the last loop, if there was one, as a list."""
        return [] if self.problem is None else [self.problem]

    def _probe(self) -> None:
        """Set the size, rotation, frame rate and so on from the first frame; raise UnreadableError without one."""
        with self._opened() as decoder:
            frames = decoder.frames()
            first = next(frames, None)
            # A still picture also gives one frame; two frames are a video, whatever the header looks like.
            if (first is None or next(frames, None) is None) and is_picture(self.path):
                raise still_picture(self.path)
            if first is None:
                reason = decoder.first_error or "it holds no frame"
                raise UnreadableError(f"{self.path}: no frame can be decoded ({reason})")
            self._coded_size = (first.width, first.height)  # before rotation and scaling
            self._turn = turn_of(first)  # whether to swap axes, mirror columns and mirror rows
            upright_size = self._coded_size[::-1] if self._turn[0] else self._coded_size
            self.width, self.height = self._wanted.scaled(upright_size)
            self.frame_rate = rate_of(decoder.stream)
            self.declared_frames = decoder.stream.frames or None
            self.has_sound = bool(decoder.container.streams.audio)

    @contextmanager
    def _opened(self) -> Iterator[Decoder]:
        """Open the file for decoding, with every limit set; the Decoder counts errors instead of raising."""
        with container_of(self.path, declared_limit(self.path, self._max_pixels)) as container:
            stream = video_stream_of(self.path, container, self._max_pixels)
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = CODEC_THREADS
            stream.codec_context.options = {**stream.codec_context.options, "max_pixels": str(self._max_pixels)}
            yield Decoder(container, stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file if a loop was left early, by ending its generator of frames, which holds the file open."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Begin a loop over the frames, which opens the file again; a loop that was left early is closed."""
        self.close()
        self._loop = self._frames()
        return self._loop

    def _frames(self) -> Generator[NDArray[np.uint8], None, None]:
        """Yield the wanted frames as upright RGB, and set `time`.

        `_decoded` counts `frames_read` and, at the end of the file, sets `truncated` if the file is cut off or damaged,
        and `problem` to a sentence about it.
        """
        self.frames_read, self.truncated, self.problem = 0, False, None
        converter = VideoReformatter()
        with self._opened() as decoder:
            for time, frame in self._wanted.choose(self._decoded(decoder)):
                self.time = time
                # `_turn`: whether to swap axes, mirror columns and mirror rows
                yield upright_frame(self.path, frame, converter, self._turn, (self.width, self.height))

    def _decoded(self, decoder: Decoder) -> Iterator[tuple[float, VideoFrame]]:
        """Yield all frames, which must have the first one's size, with their times in seconds.

        At the end `_judge_file` sets `damaged`, `truncated` and `problem` by what went wrong.
        """
        clock = Clock(decoder, float(1 / self.frame_rate))  # the times of frames; those without one come a step later
        for frame in decoder.frames():
            if (frame.width, frame.height) != self._coded_size:  # that of the first, before rotation and scaling
                raise UnsupportedError(
                    f"{self.path}: the size changes from {self._coded_size[0]} x {self._coded_size[1]} to "
                    f"{frame.width} x {frame.height} at frame {self.frames_read + 1}; re-encode it to one size"
                )
            self.frames_read += 1
            yield clock.read(frame), frame
        self._judge_file(decoder)

    def _judge_file(self, decoder: Decoder) -> None:
        """Set `damaged` for bad packets or an early end, and then also `truncated` and `problem`."""
        self.damaged = decoder.bad_packets
        declared = self.declared_frames
        # the declared duration in seconds, or None if the file was read up to there
        duration = decoder.declared_if_cut_off(float(self.frame_rate), has_frame_count=declared is not None)
        if duration is None and decoder.bad_packets == 0:
            return
        self.truncated = True
        if declared is not None and self.frames_read < declared:
            read = f"read {self.frames_read} of {declared} declared frames"
        elif duration is not None:
            read = f"read {decoder.end:.2f} of {duration:.2f} declared seconds ({self.frames_read} frames)"
        else:
            read = f"read {self.frames_read} frames, {decoder.bad_packets} of them damaged or lost"
        self.problem = f"{read}: the file is cut off or damaged"


class PictureSequence:
    """Read the pictures of a folder or a pattern as frames; the attributes are those of :class:`.VideoReader`.

    A picture that cannot be read, or has another size than the first, is left out and counted in `damaged`. The frames
    after it keep their times.

    Parameters
    ----------
    source : str or Path
        A folder, or a pattern such as ``"frames/*.png"``.
    frame_rate : float, optional
        Frames per second; 25 if not given.
    **wanted
        `every`, `max_frames`, `scale`, `start` and `end`, as of :class:`.VideoReader`.

    Raises
    ------
    UnreadableError
        If there is no picture, or the first one cannot be read.
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import PictureSequence, write_image
    >>> Path("frames").mkdir(exist_ok=True)
    >>> for number in (9, 10):
    ...     write_image(f"frames/{number}.png", np.full((8, 9, 3), number, np.uint8), force=True)
    >>> [int(frame[0, 0, 0]) for frame in PictureSequence("frames")]
    [9, 10]
    """

    begins_anew, has_sound, truncated, reconnections = True, False, False, 0

    def __init__(self, source: str | Path, *, frame_rate: float | None = None, **wanted: Any) -> None:
        """List the pictures of a folder or pattern, and read the first one, whose size all others must have.

        `wanted` are the fields of :class:`FramesWanted`; `frame_rate`, in frames per second, gives the pictures times.
        """
        self._wanted = FramesWanted(**wanted)
        self.path = Path(source)
        self._pictures = pictures_of(source)
        if not self._pictures:
            raise UnreadableError(f"{source}: no picture in it ({', '.join(IMAGE_SUFFIXES)})")
        self.frame_rate = FALLBACK_RATE
        if frame_rate is not None:
            check_number(frame_rate, "frame_rate", 0, 1000, without_low=True)  # above 0, at most 1000 a second
            self.frame_rate = Fraction(frame_rate).limit_denominator(1001)
        self._said: dict[str, tuple[str, int]] = {}  # by note: the first picture that has it, and how many have
        self._size = self._read(self._pictures[0]).shape[1::-1]  # (width, height) of the files' pictures
        self.width, self.height = self._wanted.scaled(self._size)
        self.declared_frames = len(self._pictures)
        self.time = 0.0
        self.frames_read = self.damaged = 0
        self.problem: str | None = None

    @property
    def notes(self) -> list[str]:
        """Sentences about the last loop: its problem, and each note with the first picture that has it.

        `_said` has, by note, that picture and the number of pictures that have it.
        """
        said = [f"{first}: {note}{f' (and {n - 1} more)' * (n > 1)}" for note, (first, n) in self._said.items()]
        return [*([] if self.problem is None else [self.problem]), *said]

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the wanted pictures as RGB frames, from the first again in each loop; damaged ones are left out."""
        self.frames_read = self.damaged = 0
        self.problem = None
        self._said = {}  # by note: the first picture that has it, and how many
        left_out: list[str] = []
        timed = ((float(number / self.frame_rate), path) for number, path in enumerate(self._pictures))
        for time, path in self._wanted.choose(timed, counting=False):  # counted below, where unreadable ones are known
            try:
                frame = self._read(path)
            except MediaError:
                frame = None
            if frame is None or frame.shape[1::-1] != self._size:  # (width, height) of the first picture
                left_out.append(os.path.basename(path))
                self.damaged = len(left_out)
                more = ", ..." if self.damaged > SHOWN else ""
                self.problem = (
                    f"{self.damaged} of {len(self._pictures)} pictures cannot be read or are of another size, and were "
                    f"left out ({', '.join(left_out[:SHOWN])}{more})"
                )
                continue
            self.frames_read += 1
            self.time = time
            yield resized(frame, (self.width, self.height))
            if self.frames_read == self._wanted.max_frames:
                return

    def _read(self, path: str) -> NDArray[np.uint8]:
        """Read a picture as 8-bit RGB (16-bit values are divided by 257), and remember the notes on it."""
        picture, notes = read_with_notes(path)
        for note in notes:
            # the first picture with this note, and how many
            first, count = self._said.get(note, (os.path.basename(path), 0))
            self._said[note] = first, count + 1
        return picture if picture.dtype == np.uint8 else ((picture.astype(np.uint32) + 128) // 257).astype(np.uint8)
