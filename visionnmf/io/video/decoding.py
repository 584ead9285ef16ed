"""Open videos with PyAV, without protocols and with every limit set; decode them, count damage, turn frames upright."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray
from PIL import Image

from visionnmf.exceptions import TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.images import BIG_TIFF, PICTURE_FORMATS, UNREAD_TIFF
from visionnmf.io.inputs import regular_file

from .pixels import FrameConverter
from .timeline import LONG

MAX_FRAME_PIXELS = 50_000_000
MAX_STREAMS = 64  # opening prepares a decoder of up to a megabyte for each; FFmpeg's own limit is 1000
# Bytes of one piece of memory that FFmpeg may take. 50 million pixels with four channels of 16 bits have 400 MB.
MOST_MEMORY = 512 << 20
FALLBACK_RATE = Fraction(25)

# Containers that hold the video themselves. Left out on purpose: playlists and concatenations, which name other files
# and URLs, image sequences, text terminals, devices.
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,m4v,h263,h264,hevc,av1,obu,ivf,flv,asf,ogg,gif,"
    "apng,mjpeg,mxf,nut,yuv4mpegpipe,dv,rm,wtv"
)
# Containers with a duration in their header; for others FFmpeg guesses it from the bit rate or the last time stamp.
_TIMED_CONTAINERS = {"matroska", "webm", "mov", "mp4", "flv"}
# PyAV 18 stops at metadata that are not UTF-8 unless this argument is given. PyAV 19 reads them and refuses it.
METADATA_OPTIONS: dict[str, Any] = {"metadata_errors": "replace"} if hasattr(InputContainer, "metadata_errors") else {}

# With more threads, what FFmpeg makes of damaged frames depends on which of them is ahead: the same file would not give
# the same frames twice.
CODEC_THREADS = 1

# What PyAV raises on damaged files: its own errors, errors of reading, and of texts that are not UTF-8.
CODEC_ERRORS = (av.error.FFmpegError, OSError, ValueError, RuntimeError)


@contextmanager
def container_of(path: Path, options: dict[str, str]) -> Iterator[InputContainer]:
    """Open a file with FFmpeg, without protocols and with a list of containers; leaving the block closes it."""
    options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "", **options}
    # An open file instead of its name, because FFmpeg interprets names such as "concat:..." or "img%d.png".
    with regular_file(path, "video").open("rb") as file:
        limit_memory()
        try:
            container = av.open(file, "r", options=options, **METADATA_OPTIONS)
        except CODEC_ERRORS as error:
            if is_picture(path):
                raise still_picture(path) from error
            file.seek(0)
            if file.read(len(BIG_TIFF)) == BIG_TIFF:
                raise UnsupportedError(f"{path}: {UNREAD_TIFF}") from error
            reason = reason_of(error)
            raise UnreadableError(f"{path}: not a video that can be read, or cut off or damaged ({reason})") from error
        with container:
            yield container


def declared_limit(path: Path, max_pixels: int) -> dict[str, str]:
    """Check the sizes in a file's header, and return the FFmpeg option that limits them when it is opened.

    The videos of a file share `max_pixels`, because opening it can decode frames of all of them. So the file is opened
    without any decoder first.
    """
    with container_of(path, {"codec_whitelist": "none"}) as container:
        video_stream_of(path, container, max_pixels)
        return {"max_pixels": str(_max_pixels_per_video(container, max_pixels))}


def video_stream_of(path: object, container: InputContainer, max_pixels: int) -> VideoStream:
    """Return the first video stream of a container, after checking the number of streams and their declared sizes."""
    if len(container.streams) > MAX_STREAMS:
        raise TooLargeError(
            f"{path}: holds {len(container.streams)} streams; at most {MAX_STREAMS} are "
            "read; take one out, for instance by: ffmpeg -i video -map 0:v:0 -c copy one.mkv"
        )
    # Cover pictures of music are video streams as well, but not videos.
    streams = [stream for stream in container.streams.video if "attached_pic" not in str(stream.disposition)]
    if not streams:
        what = "it holds only sound" if container.streams.audio else "it holds no video, or is cut off before it"
        raise UnreadableError(f"{path}: not a video: {what}")
    if streams[0].codec_context is None:
        raise UnreadableError(f"{path}: the codec of the video is not known, or the file is cut off before it is named")
    each, several = _max_pixels_per_video(container, max_pixels), len(container.streams.video) > 1
    for stream in streams:
        if stream.codec_context is not None and stream.width * stream.height > each:
            raise TooLargeError(
                f"{path}: declares frames of {stream.width} x {stream.height} = {stream.width * stream.height} pixels; "
                f"at most {each} are read{' of each of several videos in a file' if several else ''}; make it smaller "
                "first, for instance by: ffmpeg -i video -vf scale=iw/2:-2 smaller.mp4"
            )
    return streams[0]


def _max_pixels_per_video(container: InputContainer, max_pixels: int) -> int:
    return max_pixels // max(1, len(container.streams.video))


def rate_of(stream: VideoStream) -> Fraction:
    """Return the frames per second of a stream; 25 if it gives no rate from one in a day to 1000."""
    rate = stream.average_rate or stream.guessed_rate  # an unknown rate is None or, in newer PyAV, 0/1
    return Fraction(rate) if rate and Fraction(1, 86_400) <= rate <= 1000 else FALLBACK_RATE


def length_of(container: InputContainer) -> int | None:
    """Return the bytes of what a container is read from; None where they are not known, as of a pipe."""
    length = container.size
    return length if length is not None and length >= 0 else None  # PyAV before 19 passes a negative error code on


def is_picture(path: Path) -> bool:
    """Return whether Pillow recognises a file as a picture."""
    try:
        with Image.open(path, formats=PICTURE_FORMATS):
            return True
    except Exception:  # whatever the error, it is not a picture
        return False


def still_picture(path: Path) -> UnreadableError:
    """Return the error for a picture in place of a video."""
    cure = "name the folder of its frames, or quote their pattern"
    return UnreadableError(f"{path}: a picture, not a video; {cure}")


@functools.cache
def limit_memory() -> None:
    """Let FFmpeg take at most MOST_MEMORY bytes at once in this process."""
    # It makes an index of as many frames as an MP4 declares, and collects a packet, such as a part of a multipart
    # stream, until its end comes. No option bounds that, and PyAV has no binding for this function.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(av.packet.__file__).av_max_alloc(ctypes.c_size_t(MOST_MEMORY))


def packets_of(container: InputContainer, *streams: Any) -> Iterator[Packet]:
    """Yield the packets of some streams, or of all, up to the end or an error of reading; some hold no data."""
    packets = container.demux(*streams)
    while True:
        try:
            packet = next(packets, None)
        except IndexError:  # PyAV raises it at the end of a file whose streams are not all declared at its beginning
            return
        if packet is None:
            return
        yield packet


def has_data(packet: Packet) -> bool:
    """Return whether a packet is none of a dropped frame, nor PyAV's end mark; a decoder would end at either."""
    return packet.size > 0


class Decoder:
    """Demux and decode one video stream, and count what goes wrong instead of raising it.

    `bad_packets` are corrupt packets and frames, and errors.
    `end` is the latest end of a packet of any stream, in seconds. `first_error` says the first error on one line, and
    `reading_error` is the one that ended the packets.
    """

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self.container = container
        self.stream = stream
        self.bad_packets = 0
        self.start = (container.start_time or 0) / av.time_base
        self.end = self.start
        self.first_error: str | None = None
        self.reading_error: Exception | None = None
        self._hurt_at: float | None = None  # the stamp up to which a key frame does not end the doubt
        self._sent: set[int] = set()  # stamps of packets whose frames are still to come
        self._stamps = (0, 0)  # of the two latest frames
        # AVI holds no times but counts packets, of which FFmpeg derives those of shown frames, wrongly with B frames.
        self._counted = container.format.name == "avi"
        self._delay: int | None = None  # packets of AVI before the first frame is complete

    def frames(self, until: Callable[[], bool] = lambda: False) -> Iterator[tuple[VideoFrame, bool]]:
        """Yield the frames that can be decoded, and whether they are doubtful, up to the end or a true `until()`.

        A frame is doubtful if it, or anything since the key frame before it, came damaged.
        """
        packets = packets_of(self.container)  # also sound, which shows how far the file goes
        while not until():
            try:
                packet = next(packets, None)
            except CODEC_ERRORS as error:
                self._count(error)
                self.reading_error = error
                packet = None
            if packet is None:
                yield from self._decode(None)
                return
            if not has_data(packet):
                continue
            at = packet.pts if packet.pts is not None else packet.dts
            if at is not None and packet.time_base:
                self.end = max(self.end, float((at + (packet.duration or 0)) * packet.time_base))
            if packet.stream_index == self.stream.index:
                if self._counted:
                    packet.pts = packet.dts
                if packet.pts is not None:
                    self._sent.add(packet.pts)
                if packet.is_corrupt:
                    self.bad_packets += 1
                    self._doubt(packet)
                yield from self._decode(packet)

    def _decode(self, packet: Packet | None) -> Iterator[tuple[VideoFrame, bool]]:
        """Yield the frames that a packet completes, and whether they are doubtful; None yields the remaining ones."""
        try:
            for frame in self.stream.codec_context.decode(packet):
                assert isinstance(frame, VideoFrame)
                stamp = self._count_of(frame) if self._counted else stamp_of(frame)
                self._look_for_lost(stamp)
                if frame.is_corrupt:
                    self.bad_packets += 1
                    self._doubt(frame)
                elif self._hurt_at is not None and frame.key_frame and stamp is not None:
                    # later, or of a clock that begins again
                    self._hurt_at = self._hurt_at if self._stamps[0] <= stamp <= self._hurt_at else None
                yield frame, self._hurt_at is not None
        except CODEC_ERRORS as error:
            self._count(error)
            self._doubt(packet)

    def _count_of(self, frame: VideoFrame) -> int:
        """Give a frame of AVI its place in the order of showing as its time; return it with the decoder's delay."""
        before, latest = self._stamps
        stamp = frame.dts if frame.dts is not None else latest + max(1, latest - before)  # the last ones have none
        if self._delay is None:
            self._delay = stamp - (stamp if frame.pts is None else frame.pts)
        frame.pts = stamp - self._delay
        return stamp

    def _look_for_lost(self, stamp: int | None) -> None:
        """Doubt frames from `stamp` on if those of packets before it never came, without an error."""
        if stamp is None:
            return
        lost = {each for each in self._sent if each < stamp}
        self._sent -= {*lost, stamp}
        before, latest = self._stamps
        self._stamps = latest, stamp
        if lost and latest - before < (stamp - latest) / LONG:  # packets without a picture leave no gap
            self._hurt_at = max(*lost, -math.inf if self._hurt_at is None else self._hurt_at)

    def _count(self, error: Exception) -> None:
        """Count an error of reading or decoding, and keep the first one's text."""
        self.bad_packets += 1
        self.first_error = self.first_error or reason_of(error)

    def _doubt(self, damaged: VideoFrame | Packet | None) -> None:
        """Doubt all frames up to the next key frame after a damaged frame or packet."""
        stamp = None if damaged is None else damaged.pts if damaged.pts is not None else damaged.dts
        self._hurt_at = max(
            -math.inf if stamp is None else stamp, -math.inf if self._hurt_at is None else self._hurt_at
        )

    def cut_off(self, frame_rate: float) -> tuple[float, float] | None:
        """Return how many seconds were read and declared, if the packets end early, or None.

        That is 1 % and two frames early, because headers of good files are a little off; in AVI, which counts frames,
        two frames.
        """
        kind = self.container.format.name
        start, unit = self.stream.start_time, self.stream.time_base
        if self.stream.duration and unit:
            begin = self.start if start is None else float(start * unit)
            declared = float(self.stream.duration * unit)
        elif self.container.duration:
            begin, declared = self.start, self.container.duration / av.time_base
            if kind.startswith("matroska") and declared > begin:  # counted from 0, wherever the first frame is
                declared -= begin
        else:
            return None
        if kind == "avi":  # FFmpeg counts what is in the index, even if a part of it lies beyond the end
            declared = max(declared, self.stream.frames / frame_rate)
        early = declared - (self.end - begin)
        # without a duration, or a number of frames, in the header FFmpeg guesses the duration
        declares_end = self.stream.frames or _TIMED_CONTAINERS & set(kind.split(","))
        if not declares_end or early <= (0 if kind == "avi" else 0.01 * declared) + 2 / frame_rate:
            return None
        return self.end - begin, declared


def stamp_of(frame: VideoFrame) -> int | None:
    """Return when a frame is shown, in ticks of its stream, or None."""
    return frame.pts if frame.pts is not None else frame.dts


def upright_frame(
    name: object,
    frame: VideoFrame,
    converter: FrameConverter,
    turn: tuple[bool, bool, bool],
    size: tuple[int, int],
) -> NDArray[np.uint8]:
    """Return a frame as RGB, turned by the result of `turn_of` and scaled to `size`, (width, height)."""
    try:
        image: NDArray[Any] = converter.rgb(frame)
    except CODEC_ERRORS as error:
        raise UnsupportedError(f"{name}: frames of format {frame.format.name} are not supported") from error
    swap, flip_columns, flip_rows = turn
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
