"""Cut parts out of a video without encoding it anew."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
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

# By suffix. Matroska takes almost every codec.
CUT_FORMATS = {
    ".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm", ".avi": "avi", ".ts": "mpegts", ".mkv": "matroska"
}  # fmt: skip

ROUNDING = 1e-6  # seconds, to which times in tables are rounded
SOUND_BEHIND = 5.0  # seconds that sound may lie behind its pictures in a file
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

    A part begins with the last key frame that is not shown after its first picture, as what follows cannot be shown
    without it; where there is none, with the first. The video is read once; of it at most 256 MiB are held.

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
        If a container does not take what is in the video, key frames are too far apart, a part holds no frame, or the
        video has no times, as raw H.264.
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
    # opening decodes a few frames where the header leaves questions open
    limit = {"max_pixels": str(check_declared_size(path, MAX_FRAME_PIXELS))}
    with transaction(), ExitStack() as stack, container_of(path, limit) as container:
        streams = [video_stream_of(path, container, MAX_FRAME_PIXELS), *container.streams.audio[:1]]
        video, start = streams[0].index, (container.start_time or 0) / av.time_base
        held = _Held(video)
        parts: list[_Part] = []  # several, where the sound of one comes after the pictures of the next
        timed = False

        def begin() -> None:
            cut = waiting.pop(0)
            held.drop_before(held.first_from(start + cut.start))
            parts.append(_Part(stack, cut, streams, held.packets, start + cut.end, force))
            begun.append(parts[-1].begun - start)

        for packet in _packets(container, streams):
            timed = True
            for part in parts:
                part.write(packet)
            if waiting:
                held.add(packet, start + waiting[0].start)
                if held.size > MOST_HELD:
                    raise UnsupportedError(f"{path}: cannot be cut, as its key frames are too far apart")
            decoded = _time(packet, packet.dts) if packet.stream_index == video else -math.inf
            # what is still to come is shown later than it is decoded
            while waiting and decoded > held.first_from(start + waiting[0].start):
                begin()
            for part in [part for part in parts if part.over]:
                part.finished()
                parts.remove(part)
            if not waiting and not parts:
                break
        while waiting and held.first_from(start + waiting[0].start) < math.inf:
            begin()
        for part in parts:
            part.finished()
        if waiting and not timed:
            raise UnsupportedError(
                f"{path}: cannot be cut, as it does not say when frames are shown; copy it into Matroska"
            )
        if waiting:
            raise UnsupportedError(f"{path}: holds no frame after {waiting[0].start:.3f} s, where a part shall begin")
    return begun


class _Held:
    """What the next part may need: all since the last key frame that is shown before it.

    Parameters
    ----------
    video : int
        Index of the stream of pictures.

    Attributes
    ----------
    packets : list of Packet
    size : int
        Their bytes.
    """

    def __init__(self, video: int) -> None:
        self._video = video
        self.packets: list[Packet] = []
        self.size = 0
        self._last = -math.inf

    def add(self, packet: Packet, start: float) -> None:
        """Take a packet; the next part starts at `start`."""
        self.packets.append(packet)
        self.size += packet.size
        if packet.stream_index == self._video:
            self._last = max(self._last, _time(packet, packet.pts))
            if packet.is_keyframe:
                self.drop_before(start)

    def first_from(self, start: float) -> float:
        """Return when the first picture at `start` or later is shown, infinity where there is none yet."""
        if self._last < start - ROUNDING:
            return math.inf
        times = (_time(each, each.pts) for each in self.packets if each.stream_index == self._video)
        return min((time for time in times if time >= start - ROUNDING), default=math.inf)

    def drop_before(self, start: float) -> None:
        """Drop what a part that starts at `start` does not need: of sound, only what is heard before its first picture.

        A key frame may come, in the order of decoding, before pictures that are shown before it and need the ones
        before; a part that starts with one of these needs the key frame before.
        """
        keys = [n for n, each in enumerate(self.packets) if each.stream_index == self._video and each.is_keyframe]
        if not keys:
            return
        shown = {n: _time(self.packets[n], self.packets[n].pts) for n in keys}
        first = max((n for n in keys if shown[n] <= start + ROUNDING), default=keys[0])
        begun = shown[first]
        sound = [each for each in self.packets[:first] if each.stream_index != self._video]
        self.packets = [each for each in sound if _time(each, each.pts) >= begun] + self.packets[first:]
        self.size = sum(each.size for each in self.packets)


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

    Attributes
    ----------
    begun : float
        When its first picture is shown, by the file's own clock.
    over : bool
        All of it has come.
    """

    def __init__(
        self, stack: ExitStack, cut: Cut, streams: list[Any], held: list[Packet], end: float, force: bool
    ) -> None:
        self._path, self.end = cut.path, end
        self._last = -math.inf  # the latest time of a picture written
        self._pictures_over, self._sound_over = False, len(streams) == 1
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

        Sound beyond either end is left out. So are pictures that are shown before the key frame, which need what is not
        there, and after the end, but for those that are shown before one that is written: it was decoded before them.
        """
        time, decoded = _time(packet, packet.pts), _time(packet, packet.dts)
        target = self._streams[packet.stream_index]
        if target.type == "audio":
            self._sound_over = self._sound_over or time > self.end
            if not self.begun <= time <= self.end:
                return
        else:
            self._pictures_over = self._pictures_over or decoded > max(self.end, self._last)
            self._sound_over = self._sound_over or decoded > self.end + SOUND_BEHIND
            if time < self.begun or (decoded > self.end and time > self._last):
                return
            self._last = max(self._last, time)
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

    @property
    def over(self) -> bool:
        return self._pictures_over and self._sound_over

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
