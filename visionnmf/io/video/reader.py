"""Read video files with PyAV, and pictures as if they were one; open any source of frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from visionnmf._checks import check_number
from visionnmf._pixel_range import bits_of, declared_bits, exceeds, in_eight_bits, note_on, note_on_unused
from visionnmf._text import counted, one_line, without_password
from visionnmf.choices import IMAGE_SUFFIXES
from visionnmf.exceptions import MediaError, ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.images import TIFF_STARTS, read_with_notes
from visionnmf.io.inputs import check_path, dated, fuller_folders, is_live, numbered, pictures_of, regular_file
from visionnmf.io.pixel_conversion import rgb_on_white

from .decoding import (
    CODEC_ERRORS,
    CODEC_THREADS,
    FALLBACK_RATE,
    MAX_FRAME_PIXELS,
    Decoder,
    container_of,
    declared_limit,
    is_picture,
    rate_of,
    resized,
    stamp_of,
    still_picture,
    turn_of,
    upright_frame,
    video_stream_of,
)
from .pixels import FrameConverter, has_16_bits
from .timeline import DAY, FrameReader, FramesWanted, TimedFrame, Timeline

if TYPE_CHECKING:
    from .live import LiveReader

SHOWN = 3  # names of unreadable pictures in a message
MARKED = ("h264", "mpeg1video", "mpeg2video", "mpeg4")  # codecs whose decoders conceal damage, and mark these frames
AUTHORED = ("gif", "apng")  # formats in which each frame has a duration of its own, so none is missing
MOST_PAGES = 1_000_000
ASKED_PAGES = 20  # of a stack or a folder, evenly spaced, that tell how many bits it uses


class VideoReader(FrameReader):
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
    time, frames_read, has_sound : float, int, bool
        When the last delivered frame is shown, in seconds from the beginning of the file; the frames that the current
        or last loop decoded, including those that `every` skips; whether the file has sound, which is not delivered.
    truncated, damaged, problem, notes : bool, int, str or None, list of str
        After a loop: whether the file is cut off or damaged (see Notes), the number of damaged packets and frames, what
        is wrong in one line, and how many frames are missing or doubtful.
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
    all streams, sound included, end more than 2 frames and 1 % before the declared duration (in AVI, which counts
    frames, more than 2 frames). MPEG streams, Ogg and GIF declare no duration, so a clean cut of such a file cannot be
    seen. A loop that ends early does not judge.

    Examples
    --------
    >>> with VideoReader("clip.mp4", scale=0.5) as reader:  # doctest: +SKIP
    ...     mean = sum(frame.mean() for frame in reader) / reader.frames_read
    """

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
        self._wanted = FramesWanted(every, max_frames, scale, start, end)
        self._max_pixels = max_pixels
        self.path = regular_file(path, "video")
        self.notes: list[str] = []
        self._loop: Generator[TimedFrame, None, None] | None = None  # the current or last one
        with self._opened() as decoder:
            frames = decoder.frames()
            first = next(frames, None)
            # A still picture also gives one frame; two frames are a video, whatever the header looks like.
            if (first is None or next(frames, None) is None) and is_picture(self.path):
                raise still_picture(self.path)
            if first is None:
                reason = decoder.first_error or "it holds no frame"
                raise UnreadableError(f"{self.path}: no frame can be decoded ({reason})")
            self._coded_size = (first[0].width, first[0].height)  # before rotation and scaling
            self._turn = turn_of(first[0])
            upright_size = self._coded_size[::-1] if self._turn[0] else self._coded_size
            self.width, self.height = self._wanted.scaled(upright_size)
            self.frame_rate = rate_of(decoder.stream)
            self.declared_frames = decoder.stream.frames or None
            self.has_sound = bool(decoder.container.streams.audio)
            self._deep = has_16_bits(first[0])
            self._bits: int | None = None  # of the values of a deep clip, once it is read

    @contextmanager
    def _opened(self) -> Iterator[Decoder]:
        """Open the file for decoding, with every limit set."""
        with container_of(self.path, declared_limit(self.path, self._max_pixels)) as container:
            stream = video_stream_of(self.path, container, self._max_pixels)
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = CODEC_THREADS
            options = {**stream.codec_context.options, "max_pixels": str(self._max_pixels)}
            if stream.codec_context.name == "hevc":  # it leaves out frames whose damage it sees, in silence otherwise
                options["err_detect"] = "explode"
            stream.codec_context.options = options
            yield Decoder(container, stream)

    def _bits_of_clip(self) -> int:
        """Return into how many bits the values of all frames fit, which are decoded for this."""
        bits, converter = 8, FrameConverter()
        with self._opened() as decoder:
            for frame, _ in decoder.frames():
                with suppress(*CODEC_ERRORS):  # reported when the frame is wanted
                    bits = max(bits, converter.bits_in(frame))
                if bits == 16:
                    break
        return bits

    def close(self) -> None:
        """Close the file if a loop was left early."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def timed(self) -> Generator[TimedFrame, None, None]:
        """Begin a loop over the frames with their times, which opens the file again; one left early is closed."""
        self.close()
        self._loop = self._frames()
        return self._loop

    def _frames(self) -> Generator[TimedFrame, None, None]:
        """Yield the wanted frames as upright RGB, and judge the file at its end."""
        self.frames_read = self.damaged = 0
        self.truncated, self.problem, self.notes = False, None, []
        if self._deep and self._bits is None:
            self._bits = self._bits_of_clip()
        converter = FrameConverter(self._bits)
        with self._opened() as decoder:
            for frame in self._wanted.choose(self._decoded(decoder)):
                self.time = frame.time
                picture = upright_frame(self.path, frame.picture, converter, self._turn, (self.width, self.height))
                yield frame._replace(picture=picture)
            if decoder.stream.metadata.get("alpha_mode") == "1":  # VP8 and VP9 keep it in a second stream
                self.notes.append("transparency is not read")
        self.notes += converter.notes

    def _decoded(self, decoder: Decoder) -> Iterator[TimedFrame]:
        """Yield all frames as they were decoded; they must have the first one's size."""
        unit = float(decoder.stream.time_base or 0)  # not that of the frames, because the last ones have none
        timeline = Timeline(float(1 / self.frame_rate), None if decoder.container.start_time is None else decoder.start)
        n_doubtful, first_doubtful = 0, 0.0
        for frame, is_doubtful in decoder.frames():
            if (frame.width, frame.height) != self._coded_size:
                raise UnsupportedError(
                    f"{self.path}: the size changes from {self._coded_size[0]} x {self._coded_size[1]} to "
                    f"{frame.width} x {frame.height} at frame {self.frames_read + 1}; re-encode it to one size"
                )
            self.frames_read += 1
            stamp = stamp_of(frame)
            time = timeline.add(None if stamp is None or not unit else stamp * unit)
            if is_doubtful:
                first_doubtful = first_doubtful if n_doubtful else time
                n_doubtful += 1
            yield TimedFrame(frame, time, is_doubtful)
        lost = None if decoder.container.format.name in AUTHORED else timeline.hole_note
        self._judge_file(decoder)
        self.notes = [note for note in (self.problem, lost, timeline.late) if note is not None]
        if n_doubtful:
            codec = decoder.stream.codec_context.name
            unseen = (
                ""
                if codec in MARKED
                else f"; {codec} does not mark all damage, so an event may begin in a damaged frame that is not counted"
            )
            self.notes.append(
                f"damaged, or dependent on damaged frames: {counted(n_doubtful, 'frame')} from {first_doubtful:.2f} s "
                f"on, in which no event begins{unseen}"
            )

    def _judge_file(self, decoder: Decoder) -> None:
        """Set `damaged` for bad packets or an early end, and then also `truncated` and `problem`."""
        self.damaged = decoder.bad_packets
        declared = self.declared_frames
        cut = decoder.cut_off(float(self.frame_rate))
        if cut is None and decoder.bad_packets == 0:
            return
        self.truncated = True
        if declared is not None and self.frames_read < declared:
            read = f"read {self.frames_read} of {declared} declared frames"
        elif cut is not None:
            read = f"read {cut[0]:.2f} of {cut[1]:.2f} declared seconds ({self.frames_read} frames)"
        else:
            read = f"read {self.frames_read} frames, {decoder.bad_packets} of them damaged or lost"
        self.problem = f"{read}: the file is cut off or damaged"
        if decoder.container.format.name == "avi" and self.frames_read < (declared or 0):
            self.problem += "; AVI seldom says where frames are missing, and all times after them are too early"


class PictureSequence(FrameReader):
    """Read the pictures of a folder or a pattern, or a stack in one TIFF file, as frames.

    The attributes are those of :class:`.VideoReader`. A picture that cannot be read, or has another size than the
    first, is left out and counted in `damaged`. The frames after it keep their times, also where numbers are missing
    in the names of pictures, which `notes` say.

    Parameters
    ----------
    source : str or Path
        A folder, a pattern such as ``"frames/*.png"``, or a TIFF file of several pictures. Grey levels of more than 8
        bits in a TIFF file are divided so that the bits that its brightest pixels use become 8.
    frame_rate : float, optional
        Frames per second. By default the times are those in the names, such as 20261129_095800, if all have one
        and they grow; else 25 frames per second, which `notes` say.
    **wanted
        `every`, `max_frames`, `scale`, `start` and `end`, as of :class:`.VideoReader`.

    Raises
    ------
    UnreadableError, TooLargeError
        If there is no picture, the first one cannot be read, or a stack has pictures of more than 50 million pixels.
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

    def __init__(self, source: str | Path, *, frame_rate: float | None = None, **wanted: Any) -> None:
        self._wanted = FramesWanted(**wanted)
        self.path = Path(source)
        self._pictures: _Folder | _Stack = _Stack(self.path) if is_stack(source) else _Folder(source)
        self._said: dict[str, list[str]] = {}  # the pictures of which a note tells
        self.frame_rate, self._seconds = self._rate_and_times(frame_rate)
        try:
            self._size = self._read(0).shape[1::-1]  # (width, height) of the files' pictures
        finally:
            self._pictures.close()
        self.width, self.height = self._wanted.scaled(self._size)
        self.declared_frames = len(self._pictures.names)

    def _rate_and_times(self, wanted: float | None) -> tuple[Fraction, list[float]]:
        """Return the frame rate and the time of each picture: by the wanted rate, by their names, or by 25 a second."""
        pictures, lowest = self._pictures, 1 / DAY  # from one a day to a thousand a second
        if wanted is not None:
            check_number(wanted, "frame_rate", lowest, 1000)
        stamps = dated([os.path.splitext(name)[0] for name in pictures.names])
        rate, said = FALLBACK_RATE if wanted is None else _near(wanted), ""
        if stamps is None:
            said = f"{FALLBACK_RATE} pictures a second are assumed" if wanted is None else ""
        elif wanted is not None:
            said = f"times in their names are not used, but {wanted:g} pictures a second"
        elif len(stamps[1]) > 1 and 0 < min(steps := np.diff(stamps[1])) and max(steps) <= DAY:
            pictures.notes.append(f"times are those in the names, from {stamps[0]} on")
            return _near(min(max(1 / float(np.median(steps)), lowest), 1000)), stamps[1]
        else:
            said = f"times in their names do not grow by at most a day; {FALLBACK_RATE} pictures a second are assumed"
        pictures.notes += [said] * bool(said)
        return rate, [float(position / rate) for position in pictures.positions]

    @property
    def notes(self) -> list[str]:
        """The problem of the last loop, and each note on pictures, with the first that has it."""
        return [
            *([] if self.problem is None else [self.problem]),
            *(f"{self.path}: {note}" for note in self._pictures.notes),
            *(
                f"{self.path}: {names[0]}: {note}{f' (and {len(names) - 1} more)' * (len(names) > 1)}"
                for note, names in self._said.items()
            ),
        ]

    def close(self) -> None:
        """Close the file of a stack."""
        self._pictures.close()

    def _read(self, number: int) -> NDArray[np.uint8]:
        """Return a picture as 8-bit RGB, and remember the notes on it."""
        picture, notes = self._pictures.read(number)
        for note in notes:
            self._said.setdefault(note, []).append(self._pictures.names[number])
        return picture

    def timed(self) -> Iterator[TimedFrame]:
        """Yield the wanted pictures as RGB with their times, from the first again in each loop."""
        self.frames_read = self.damaged = 0
        self.problem = None
        pictures = self._pictures
        self._said = {}
        left_out: list[str] = []
        times = self._seconds
        try:
            # Counted below, where unreadable ones are known.
            for number, time, _ in self._wanted.choose(map(TimedFrame, range(len(times)), times), counting=False):
                try:
                    picture = self._read(number)
                except MediaError:
                    picture = None
                if picture is None or picture.shape[1::-1] != self._size:
                    left_out.append(pictures.names[number])
                    self.damaged = len(left_out)
                    more = ", ..." if self.damaged > SHOWN else ""
                    self.problem = (
                        f"{self.damaged} of {len(times)} pictures cannot be read or are of another size, and were "
                        f"left out ({', '.join(left_out[:SHOWN])}{more})"
                    )
                    continue
                self.frames_read += 1
                self.time = time
                yield TimedFrame(resized(picture, (self.width, self.height)), time)
                if self.frames_read == self._wanted.max_frames:
                    return
        finally:
            pictures.close()


class _Folder:
    """The pictures of a folder or a pattern."""

    def __init__(self, source: str | Path) -> None:
        self._paths = pictures_of(source)
        if not self._paths:
            raise UnreadableError(f"{source}: no picture in it ({', '.join(IMAGE_SUFFIXES)})")
        self.names = [os.path.basename(path) for path in self._paths]
        self.positions, missing = numbered(self._paths)  # in the clip
        self.notes = [note for note in (fuller_folders(source, len(self._paths)), missing) if note]  # on all pictures
        self._bits = declared_bits()  # of the values of 16-bit pictures, once one has come

    def close(self) -> None:
        """Do nothing: the pictures are read one by one."""

    def read(self, number: int) -> tuple[NDArray[np.uint8], list[str]]:
        """Read a picture as 8-bit RGB, with notes on it; white is found by some pictures, at the first of 16 bits."""
        picture, notes = read_with_notes(self._paths[number])
        if picture.dtype == np.uint16:
            if self._bits is None:
                found = [bits_of(picture)]
                for asked in _asked(len(self._paths)):
                    with suppress(MediaError):
                        found.append(bits_of(read_with_notes(self._paths[asked])[0]))
                self._bits = max(found)
            if exceeds(picture, self._bits):
                notes.append(f"has values of more than {self._bits} bits, which are shown white")
            elif note := note_on(self._bits):
                notes.append(note)
        elif note := note_on_unused():
            notes.append(note)
        return in_eight_bits(picture, self._bits), notes


class _Stack:
    """The pages of a TIFF file, which is open between `read` and `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._image: Image.Image | None = None
        self._bits, self.notes = 8, list[str]()  # notes on all pictures
        try:
            self._look()
        except MediaError:
            self.close()
            raise

    def _look(self) -> None:
        """Find how many pictures there are, and how many bits they use."""
        image = self._at(0)
        count = self._count
        if count > MOST_PAGES:
            raise TooLargeError(f"{self._path}: holds {count} pictures; at most {MOST_PAGES} are read; divide it")
        self.positions = range(count)
        self.names = [f"picture {number}" for number in self.positions]
        note = note_on_unused()
        if image.mode[0] in "IF":
            pages = [self._checked(number) for number in _asked(count)]
            if image.mode == "F" and max(float(page.max()) for page in pages) <= 1:
                self._bits, note = 1, "grey levels from 0 to 1 became 8 bits"
            else:
                self._bits = declared_bits() or max(bits_of(page.astype(np.uint16)) for page in pages)
                note = note_on(self._bits)
        self.notes = [note] if note else []

    def _at(self, number: int) -> Image.Image:
        """Return the file at one of its pictures, decoded."""
        try:
            if self._image is None:
                self._image = Image.open(self._path, formats=("TIFF",))
                self._count = getattr(self._image, "n_frames", 1)
            self._image.seek(number)
            width, height = self._image.size
            if width * height > MAX_FRAME_PIXELS:
                pixels = f"{width} x {height} pixels; at most {MAX_FRAME_PIXELS} are read; make them smaller first"
                raise TooLargeError(f"{self._path}: holds pictures of {pixels}")
            self._image.load()
        except (MediaError, MemoryError):
            raise
        except Exception as error:  # decoders raise nearly anything on damaged files
            raise UnreadableError(f"{self._path}: the file is cut off or damaged ({one_line(error)})") from error
        return self._image

    def _checked(self, number: int) -> NDArray[Any]:
        """Read grey levels of more than 8 bits; raise UnsupportedError for those that are no light of a camera."""
        levels = np.asarray(self._at(number))
        if not np.isfinite(levels).all() or levels.min() < 0 or levels.max() > 65535:
            raise UnsupportedError(
                f"{self._path}: picture {number} has values that are NaN, infinite, negative or above 65535; save "
                "it with 8 or 16 bits"
            )
        return levels

    def read(self, number: int) -> tuple[NDArray[np.uint8], list[str]]:
        """Read a picture as 8-bit RGB, transparent parts on white, with notes on it."""
        image, notes = self._at(number), list[str]()
        if image.mode[0] not in "IF":
            assert isinstance(image, TiffImageFile)
            bits = image.tag_v2.get(258, (8,))
            if max(bits) > 8:  # of which Pillow would keep the upper byte
                raise UnsupportedError(
                    f"{self._path}: a TIFF stack in colours of {max(bits)} bits; save each picture as a file of its own"
                )
            if not image.has_transparency_data:
                return np.asarray(image.convert("RGB")), notes
            pixels = np.asarray(image.convert("RGBA"))
            return np.asarray(rgb_on_white(pixels[..., :3], pixels[..., 3], notes), np.uint8), notes
        white, levels = 2**self._bits - 1, self._checked(number)
        if exceeds(levels, self._bits):
            notes = [f"has values above {white}, the white of some pictures that were asked, which are shown white"]
        grey = np.clip(levels * np.float32(255 / white) + 0.5, 0, 255).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2), notes

    def close(self) -> None:
        """Close the file."""
        if self._image is not None:
            self._image.close()
        self._image = None


def _asked(count: int) -> list[int]:
    """Return the numbers of the pictures that tell how many bits all use."""
    return sorted({number * (count - 1) // (ASKED_PAGES - 1) for number in range(ASKED_PAGES)})


def is_stack(source: str | Path) -> bool:
    """Return whether a source is a TIFF file of several pictures."""
    if not os.path.isfile(source):  # a named pipe would never answer
        return False
    try:
        with open(source, "rb") as file:
            if not file.read(4).startswith(TIFF_STARTS):
                return False
        with Image.open(source, formats=("TIFF",)) as image:
            return bool(getattr(image, "is_animated", False))  # without a walk through all pages
    except Exception:  # whatever the error: another reader reports it
        return False


def _near(rate: float) -> Fraction:
    """Return a rate as a fraction: whole, of television such as 30000/1001, or one in many seconds."""
    return Fraction(rate).limit_denominator(1001) if rate >= 1 else 1 / Fraction(1 / rate).limit_denominator(1001)


def open_video(
    source: str | Path,
    *,
    frame_rate: float | None = None,
    until: Callable[[], bool] | None = None,
    **options: Any,
) -> VideoReader | PictureSequence | LiveReader:
    """Open a source of frames with the reader for its kind.

    Parameters
    ----------
    source : str or Path
        A video file; a stack in a TIFF file; a folder or a pattern of pictures; ``"-"`` for standard input; a
        ``http(s)`` or ``rtsp(s)`` URL; a camera, ``"camera:0"`` or ``"/dev/video0"``.
    frame_rate : float, optional
        Frames per second of pictures.
    until : callable, optional
        As of :class:`.LiveReader`.
    **options
        `every`, `max_frames`, `scale`, `start` and `end`, as of :class:`.VideoReader`.

    Returns
    -------
    VideoReader, PictureSequence or LiveReader

    Raises
    ------
    MediaError
        If the source cannot be used.
    ParameterError
        If an argument is out of its range or does not apply to this kind of source.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import open_video, write_image
    >>> Path("frames").mkdir(exist_ok=True)
    >>> for number in (9, 10):
    ...     write_image(f"frames/{number}.png", np.full((8, 9, 3), number, np.uint8), force=True)
    >>> open_video("frames/*.png", frame_rate=5).declared_frames
    2
    """
    check_path(source, "source")
    if not is_live(source) and (pictures_of(source) or is_stack(source)):
        return PictureSequence(source, frame_rate=frame_rate, **options)
    if frame_rate is not None:
        name = without_password(source)
        raise ParameterError(f"frame_rate must be left out for {name}, which has its own; got {frame_rate:g}")
    if not is_live(source):
        return VideoReader(source, **options)
    from .live import LiveReader  # not needed for files

    return LiveReader(str(source), until=until, **options)
