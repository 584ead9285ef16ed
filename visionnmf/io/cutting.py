"""Cut parts out of a video without encoding it anew; :mod:`visionnmf.io` is the public name of what stands here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import av
from av.packet import Packet

from visionnmf.exceptions import MediaError, ParameterError, UnsupportedError

from .decoding import CODEC_ERRORS, reason_of
from .inputs import regular_file
from .outputs import output_file, transaction
from .video import MAX_FRAME_PIXELS, check_declared_size, container_of, video_stream_of

__all__ = ["CUT_FORMATS", "Cut", "cut_video"]

# By suffix. Matroska takes almost every codec.
CUT_FORMATS = {
    ".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm", ".avi": "avi", ".ts": "mpegts", ".mkv": "matroska"
}  # fmt: skip

ROUNDING = 1e-6  # seconds, to which times in tables are rounded
MOST_HELD = 256 << 20  # bytes of packets since the last key frame


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


def cut_video(source: str | Path, cuts: Sequence[Cut], *, force: bool = False) -> list[float]:
    """Cut parts out of a video, with their sound, without encoding anything anew.

    A part begins with the last key frame before its start, as what follows cannot be shown without it. The video is
    read once; of it at most 256 MiB are held.

    Parameters
    ----------
    source : str or Path
        The video.
    cuts : sequence of Cut
        In the order of time, not overlapping.
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
        If a container does not take what is in the video, key frames are too far apart, or a part holds no frame.
    OutputExistsError
        If a file exists and `force` is false.
    ParameterError
        If a suffix names no container.
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
    begun: list[float] = []
    waiting = list(cuts)
    part: _Part | None = None
    # opening decodes a few frames where the header leaves questions open
    limit = {"max_pixels": str(check_declared_size(path, MAX_FRAME_PIXELS))}
    with transaction(), ExitStack() as stack, container_of(path, limit) as container:
        streams = [video_stream_of(path, container, MAX_FRAME_PIXELS), *container.streams.audio[:1]]
        start = (container.start_time or 0) / av.time_base
        held: list[Packet] = []
        size = 0
        for packet in _packets(container, streams):
            is_video = packet.stream_index == streams[0].index
            if is_video and packet.is_keyframe:
                held, size = [], 0
            held.append(packet)
            size += packet.size
            if size > MOST_HELD:
                raise UnsupportedError(f"{path}: cannot be cut, as its key frames are too far apart")
            if part is not None and is_video and _time(packet, packet.dts) > max(part.end, part.last):
                part.finished()
                part = None
                if not waiting:
                    break
            if part is not None:
                part.write(packet)
            elif waiting and is_video and _time(packet, packet.pts) - start >= waiting[0].start - ROUNDING:
                cut = waiting.pop(0)
                part = _Part(stack, cut, streams, held, start + cut.end, force)
                begun.append(part.begun - start)
        if part is not None:
            part.finished()
        if waiting:
            raise UnsupportedError(f"{path}: holds no frame after {waiting[0].start:.3f} s, where a part shall begin")
    return begun


class _Part:
    """A part that is being written.

    Parameters
    ----------
    stack : ExitStack
        Ends the part when the work on the whole video ends early.
    cut : Cut
    streams : list of Stream
        Of the video, pictures first.
    held : list of Packet
        What comes since the last key frame.
    end : float
        Of the part, by the file's own clock.
    force : bool
    """

    def __init__(
        self, stack: ExitStack, cut: Cut, streams: list[Any], held: list[Packet], end: float, force: bool
    ) -> None:
        self._path, self.end = cut.path, end
        self.last = -math.inf  # the latest time of a picture written
        self._stack = stack.enter_context(ExitStack())
        temporary = self._stack.enter_context(output_file(cut.path, force=force))
        container_format = CUT_FORMATS[cut.path.suffix.lower()]
        first = next(packet for packet in held if packet.stream_index == streams[0].index)
        self.begun = _time(first, first.pts)
        try:
            self._container = av.open(str(temporary.absolute()), "w", format=container_format)
            self._stack.enter_context(self._container)
            self._streams = {s.index: self._container.add_stream_from_template(s) for s in streams}
            self._container.start_encoding()
        except CODEC_ERRORS as error:
            raise UnsupportedError(f"{cut.path}: cannot hold what is in the video ({reason_of(error)})") from error
        for packet in held:
            self.write(packet)

    def write(self, packet: Packet) -> None:
        """Write a packet, its times counted from the beginning of the part.

        Sound beyond either end is left out. So are pictures after the end, but for those that are shown before one that
        is written: it was decoded before them.
        """
        time = _time(packet, packet.pts)
        target = self._streams[packet.stream_index]
        if target.type == "audio":
            if not self.begun <= time <= self.end:
                return
        elif _time(packet, packet.dts) > self.end and time > self.last:
            return
        else:
            self.last = max(self.last, time)
        assert packet.time_base is not None
        shift = round(self.begun / packet.time_base)
        copy = Packet(bytes(packet))
        copy.pts = None if packet.pts is None else packet.pts - shift
        copy.dts = None if packet.dts is None else packet.dts - shift
        copy.duration, copy.time_base, copy.is_keyframe = packet.duration, packet.time_base, packet.is_keyframe
        copy.stream = target
        try:
            self._container.mux(copy)
        except CODEC_ERRORS as error:
            raise MediaError(f"{self._path}: cannot be written ({reason_of(error)})") from error

    def finished(self) -> None:
        """Close the file, which gets its name."""
        self._stack.close()


def _packets(container: Any, streams: list[Any]) -> Iterator[Packet]:
    """Yield what can be read, up to the end or the first damage."""
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
    """Return a time of a packet in seconds: what `ticks` count, or the other of its two times."""
    known = ticks if ticks is not None else packet.pts if packet.pts is not None else packet.dts
    assert known is not None and packet.time_base is not None
    return float(known * packet.time_base)
