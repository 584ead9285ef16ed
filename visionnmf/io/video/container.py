"""Open videos with FFmpeg: without protocols, and with every limit set before anything is decoded."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import av
from av.container import InputContainer
from av.video.stream import VideoStream
from PIL import Image

from visionnmf.exceptions import TooLargeError, UnreadableError
from visionnmf.io.images import PICTURE_FORMATS
from visionnmf.io.inputs import regular_file

from .decoding import CODEC_ERRORS, reason_of

MAX_FRAME_PIXELS = 50_000_000
MAX_STREAMS = 64  # opening prepares a decoder of up to a megabyte for each; FFmpeg's own limit is 1000
FEW_SAMPLES = 1 << 20  # FFmpeg's index of these takes about 50 MB
FALLBACK_RATE = Fraction(25)

# Containers that hold the video themselves. Left out on purpose: playlists and concatenations, which name other files
# and URLs, image sequences, text terminals, devices.
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,m4v,h263,h264,hevc,av1,obu,ivf,flv,asf,ogg,gif,"
    "apng,mjpeg,mxf,nut,yuv4mpegpipe,dv,rm,wtv,webp_anim,webp"
)
# PyAV 18 stops at metadata that are not UTF-8 unless this argument is given. PyAV 19 reads them and refuses it.
METADATA_OPTIONS: dict[str, Any] = {"metadata_errors": "replace"} if hasattr(InputContainer, "metadata_errors") else {}

# A fixed number, because the frames that survive before a cut and the bytes that x264 writes depend on it, and the same
# file should give the same result on every machine.
CODEC_THREADS = 2

MP4_HOLDERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf")  # boxes around the tables
MOST_BOXES = 100_000  # a fragmented file has about six for each fragment


@contextmanager
def container_of(path: Path, options: dict[str, str]) -> Iterator[InputContainer]:
    """Open a file with FFmpeg, without protocols and with a list of containers; leaving the block closes it."""
    options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "", **options}
    # An open file instead of its name, because FFmpeg interprets names such as "concat:..." or "img%d.png".
    with regular_file(path, "video").open("rb") as file:
        if most_samples(file) > max(FEW_SAMPLES, path.stat().st_size):
            raise UnreadableError(f"{path}: cut off or damaged (declares more frames than a file of its length holds)")
        try:
            container = av.open(file, "r", options=options, **METADATA_OPTIONS)
        except CODEC_ERRORS as error:
            if is_picture(path):
                raise still_picture(path) from error
            raise UnreadableError(
                f"{path}: not a video that can be read, or cut off or damaged ({reason_of(error)})"
            ) from error
        with container:
            yield container


def declared_limit(path: Path, max_pixels: int) -> dict[str, str]:
    """Check the sizes in a file's header, and return the FFmpeg option that limits them when it is opened.

    The videos of a file share `max_pixels`, because opening it can decode frames of all of them, if the header leaves
    questions open. So the file is opened without any decoder first.
    """
    with container_of(path, {"codec_whitelist": "none"}) as container:
        video_stream_of(path, container, max_pixels)
        return {"max_pixels": str(_max_pixels_per_video(container, max_pixels))}


def video_stream_of(path: object, container: InputContainer, max_pixels: int) -> VideoStream:
    """Return the first video stream of a container, after checking the number of streams and their declared sizes."""
    if len(container.streams) > MAX_STREAMS:
        raise TooLargeError(f"{path}: holds {len(container.streams)} streams; at most {MAX_STREAMS} are read")
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
                f"at most {each} are read{' of each of several videos in a file' if several else ''}"
            )
    return streams[0]


def _max_pixels_per_video(container: InputContainer, max_pixels: int) -> int:
    """Return the limit of pixels for each video stream: opening a file can decode frames of all of them."""
    return max_pixels // max(1, len(container.streams.video))


def rate_of(stream: VideoStream) -> Fraction:
    """Return the frames per second of a stream; 25 if it gives no rate between 0.01 and 1000."""
    rate = stream.average_rate or stream.guessed_rate  # an unknown rate is None or, in newer PyAV, 0/1
    return Fraction(rate) if rate and Fraction(1, 100) <= rate <= 1000 else FALLBACK_RATE


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
    return UnreadableError(f"{path}: a still picture, not a video; {cure}")


def most_samples(file: BinaryIO) -> int:
    """Return the largest number of samples that a table of an open file declares; 0 if it is not MP4 or QuickTime.

    FFmpeg makes an index of as many entries, while a true table declares no more samples than the file has bytes. Such
    a file consists of boxes, some of which hold others. A box begins with its size (4 bytes, including this header) and
    its kind (4 letters). The size 1 means that 8 bytes with the true size follow, and 0 that the box goes on to the end
    of what holds it.
    """
    began, length = file.tell(), file.seek(0, os.SEEK_END)
    # `left`: how many more boxes are looked at; `todo`: the ranges of bytes that are still to be searched for boxes
    most, left, todo = 0, MOST_BOXES, [(0, length)]
    while todo and left:
        start, stop = todo.pop()
        while start + 8 <= stop and left:
            left -= 1
            file.seek(start)
            head = file.read(28)
            size, kind = struct.unpack_from(">I4s", head)
            body = 8  # bytes of the header
            if size == 1 and len(head) >= 16:
                size, body = struct.unpack_from(">Q", head, 8)[0], 16
            elif size == 0:
                size = stop - start
            if size < body:
                break
            end = min(start + size, stop)
            if kind in MP4_HOLDERS:
                todo.append((start + body, end))
            elif kind in (b"stsz", b"stz2", b"trun") and len(head) >= body + 12:
                # A table begins with version and flags and two numbers; in stsz and stz2 a size comes first.
                _, first, second = struct.unpack_from(">3I", head, body)
                most = max(most, first if kind == b"trun" else second)
            start = end
    file.seek(began)
    return most
