"""Cut parts out of a video by copying its packets."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import av
from av.packet import Packet

from visionnmf.exceptions import MediaError, ParameterError, UnsupportedError
from visionnmf.io.inputs import regular_file
from visionnmf.io.outputs import output_file, transaction

from .decoding import CODEC_ERRORS, reason_of
from .reader import MAX_FRAME_PIXELS, check_declared_size, container_of, video_stream_of

__all__ = ["CUT_FORMATS", "Cut", "cut_video"]

# The container by suffix. Matroska takes almost every codec.
CUT_FORMATS = {
    ".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm", ".avi": "avi", ".ts": "mpegts", ".mkv": "matroska"
}  # fmt: skip

ROUNDING = 1e-6  # seconds, to which times in tables are rounded
SOUND_BEHIND = 5.0  # seconds that sound may lie behind its pictures in a file


class Cut(NamedTuple):
    """A part of a video.

    Attributes
    ----------
    path : Path
        The file to write; its suffix, one of :data:`CUT_FORMATS`, names the container.
    start, end : float
        Seconds from the beginning of the video.
    """

    path: Path
    start: float
    end: float


class _Beginning(NamedTuple):
    """The key frame with which a part begins: its number among the packets of pictures, and its time."""

    number: int
    time: float


def cut_video(source: str | Path, cuts: Sequence[Cut], *, force: bool = False) -> list[float]:
    """Cut parts out of a video, with their sound, without encoding again.

    A part begins with the last key frame that is shown no later than the first picture of the part, because what
    follows cannot be decoded without it; if there is none, with the first key frame. The video is read twice, first to
    find these key frames.

    Parameters
    ----------
    source : str or Path
        The video.
    cuts : sequence of Cut
        In the order of time. They must not overlap.
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    list of float
        Where each part begins in the video, in seconds.

    Raises
    ------
    UnreadableError
        If the video cannot be read.
    TooLargeError
        If it declares frames of more than 50 million pixels.
    UnsupportedError
        If a container cannot hold the streams of the video, a part holds no frame, or the video has no times, such as
        raw H.264.
    OutputExistsError
        If a file exists and `force` is false.
    ParameterError
        If a suffix is not that of a container.
    MediaError
        If a file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from visionnmf.io import Cut, VideoWriter, cut_video
    >>> with VideoWriter("clip.mp4", width=32, height=32, frame_rate=25, codec="h264") as writer:
    ...     for level in range(50):
    ...         writer.write(np.full((32, 32, 3), level, np.uint8))
    >>> cut_video("clip.mp4", [Cut(Path("part.mp4"), 0.0, 1.0)], force=True)
    [0.0]
    """
    for cut in cuts:
        if cut.path.suffix.lower() not in CUT_FORMATS:
            raise ParameterError(f"path must end in one of {', '.join(CUT_FORMATS)}; got {str(cut.path)!r}")
    path = regular_file(source, "video")
    with _streams(path) as (container, streams):
        start = (container.start_time or 0) / av.time_base
        beginnings = _beginnings(path, container, streams[0], [start + cut.start for cut in cuts], start)
    with transaction(), ExitStack() as stack, _streams(path) as (container, streams):
        parts = [_Part(cut, beginning, start + cut.end, force) for cut, beginning in zip(cuts, beginnings, strict=True)]
        number = -1
        for packet in _packets(container, streams):
            number += packet.stream_index == streams[0].index
            for part in parts:
                if part.beginning.time > _time(packet, packet.pts):
                    break  # neither this part nor a later one has begun
                part.offer(packet, number, streams, stack)
            parts = [part for part in parts if not part.closed]
            if not parts:
                break
        for part in parts:
            part.close()
    return [beginning.time - start for beginning in beginnings]


@contextmanager
def _streams(path: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Open a video, and yield its container and the streams that are copied, pictures first."""
    limit = {"max_pixels": str(check_declared_size(path, MAX_FRAME_PIXELS))}  # opening decodes a few frames
    with container_of(path, limit) as container:
        yield container, [video_stream_of(path, container, MAX_FRAME_PIXELS), *container.streams.audio[:1]]


def _beginnings(path: Path, container: Any, video: Any, starts: list[float], zero: float) -> list[_Beginning]:
    """Find the key frame with which each part begins, by reading all picture packets of the video.

    `starts` are the first moments of the parts by the clock of the video, and `zero` is the time at which that clock
    starts. Raises UnsupportedError if the packets have no times, or a part starts after the last picture.
    """
    times = array("d")
    keys: list[_Beginning] = []
    for number, packet in enumerate(_packets(container, [video])):
        times.append(_time(packet, packet.pts))
        if packet.is_keyframe or not keys:  # some files do not mark their first packet
            keys.append(_Beginning(number, times[-1]))
    if not keys:
        raise UnsupportedError(
            f"{path}: cannot be cut, as it does not say when frames are shown; copy it into Matroska"
        )
    shown = sorted(times)
    places = [bisect_left(shown, start - ROUNDING) for start in starts]
    if late := [start for start, place in zip(starts, places, strict=True) if place == len(shown)]:
        raise UnsupportedError(f"{path}: holds no frame after {late[0] - zero:.3f} s, where a part begins")
    first = [shown[place] for place in places]
    # The last in the order of decoding: a key frame may come before pictures that are shown before it.
    return [next((key for key in reversed(keys) if key.time <= time + ROUNDING), keys[0]) for time in first]


class _Part:
    """One output file of a cut, to which all packets of the video are offered in turn.

    The file is created with the first packet that belongs to the part. `beginning` is the key frame that the part
    starts with, and `end` its last moment, in seconds by the clock of the video. `force` allows replacing a file.
    """

    def __init__(self, cut: Cut, beginning: _Beginning, end: float, force: bool) -> None:
        self.beginning = beginning
        self._cut, self._end, self._force = cut, end, force
        self._last = -math.inf  # the latest time of a picture that was written
        # Whether no later packet of pictures, or of sound, can belong to the part; when both are, the file is closed.
        self._pictures_over = self._sound_over = self.closed = False
        self._lifetime: ExitStack | None = None  # closes the output file; None until the first packet
        self._container: Any = None  # the open output
        self._targets: dict[int, Any] = {}  # output streams by the index of the stream they copy

    def offer(self, packet: Packet, number: int, streams: list[Any], stack: ExitStack) -> None:
        """Write a packet if it belongs to the part, and close the part after the last one.

        `number` counts the picture packets of the video, and `streams` holds the copied streams, pictures first. An
        output is opened on `stack`. Three kinds of packets are left out: sound outside the part; pictures shown before
        its key frame, which cannot be decoded; and pictures after its end, unless others in the part depend on them.
        """
        time, decoded = _time(packet, packet.pts), _time(packet, packet.dts)
        if packet.stream_index == streams[0].index:
            if number < self.beginning.number:
                return
            # Packets come in the order of decoding. Once that is past the end and past all that was written, no later
            # picture is needed.
            self._pictures_over = self._pictures_over or decoded > max(self._end, self._last)
            self._sound_over = self._sound_over or len(streams) == 1 or decoded > self._end + SOUND_BEHIND
            wanted = time >= self.beginning.time and (decoded <= self._end or time <= self._last)
            self._last = max(self._last, time) if wanted else self._last
        else:
            self._sound_over = self._sound_over or time > self._end
            wanted = self.beginning.time <= time <= self._end
        if wanted:
            if self._lifetime is None:
                self._open(streams, stack)
            self._write(packet)
        if self._pictures_over and self._sound_over:
            self.close()

    def _open(self, streams: list[Any], stack: ExitStack) -> None:
        """Create the output file, with one stream for each of `streams`."""
        path = self._cut.path
        self._lifetime = stack.enter_context(ExitStack())  # ends with the work on the whole video, if not earlier
        temporary = self._lifetime.enter_context(output_file(path, force=self._force))
        try:
            self._container = av.open(str(temporary.absolute()), "w", format=CUT_FORMATS[path.suffix.lower()])
            self._lifetime.enter_context(self._container)
            self._targets = {each.index: self._container.add_stream_from_template(each) for each in streams}
            self._container.start_encoding()
        except CODEC_ERRORS as error:
            raise UnsupportedError(f"{path}: cannot hold what is in the video ({reason_of(error)})") from error

    def _write(self, packet: Packet) -> None:
        """Copy a packet; its times count from the beginning of the part."""
        assert packet.time_base is not None
        shift = round(self.beginning.time / packet.time_base)
        copy = Packet(bytes(packet))
        copy.pts = None if packet.pts is None else packet.pts - shift
        copy.dts = None if packet.dts is None else packet.dts - shift
        copy.duration, copy.time_base, copy.is_keyframe = packet.duration, packet.time_base, packet.is_keyframe
        copy.stream = self._targets[packet.stream_index]
        try:
            self._container.mux(copy)
        except CODEC_ERRORS as error:
            raise MediaError(f"{self._cut.path}: cannot be written ({reason_of(error)})") from error

    def close(self) -> None:
        """Finish the file."""
        self.closed = True
        if self._lifetime is not None:
            self._lifetime.close()


def _packets(container: Any, streams: list[Any]) -> Iterator[Packet]:
    """Yield the packets with times, up to the end or the first damage."""
    packets = container.demux(streams)
    while True:
        try:
            packet = next(packets, None)
        except (*CODEC_ERRORS, IndexError):
            return
        if packet is None:
            return
        if packet.size and (packet.pts is not None or packet.dts is not None):
            yield packet


def _time(packet: Packet, ticks: int | None) -> float:
    """Return a time of a packet in seconds: `ticks`, or its other time if `ticks` is None."""
    known = ticks if ticks is not None else packet.pts if packet.pts is not None else packet.dts
    assert known is not None and packet.time_base is not None
    return float(known * packet.time_base)
