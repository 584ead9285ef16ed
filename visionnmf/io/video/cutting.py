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
from visionnmf.io.outputs import output_file, together

from .container import MAX_FRAME_PIXELS, container_of, declared_limit, video_stream_of
from .decoding import CODEC_ERRORS, reason_of

# The container by suffix. Matroska takes almost every codec.
CUT_FORMATS = {
    ".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm", ".avi": "avi", ".ts": "mpegts", ".mkv": "matroska"
}  # fmt: skip

ROUNDING = 1e-6  # seconds, to which times in tables are rounded
SOUND_BEHIND = 5.0  # seconds that sound may lie behind its pictures in a file, before a part is finished


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
    UnreadableError, TooLargeError
        If the video cannot be read, or declares frames of more than 50 million pixels.
    UnsupportedError
        If a container cannot hold the streams of the video, a part holds no frame, or the video has no times, such as
        raw H.264.
    OutputExistsError, MediaError
        If a file exists and `force` is false, or cannot be written.
    ParameterError
        If a suffix is not that of a container.

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
        # The time of the video's clock, in seconds, at which the video begins; cuts count from there.
        zero = (container.start_time or 0) / av.time_base
        beginnings = _beginnings(path, container, streams[0], [zero + cut.start for cut in cuts], zero)
    with together(), ExitStack() as stack, _streams(path) as (container, streams):
        parts = [
            _Part(cut.path, beginning, zero + cut.end, stack.enter_context(ExitStack()), force)
            for cut, beginning in zip(cuts, beginnings, strict=True)
        ]
        number = -1  # of the latest picture packet, from 0
        for packet in _packets(container, streams):
            number += packet.stream_index == streams[0].index
            for part in parts:
                if part.beginning.time > _time(packet, packet.pts):
                    break  # neither this part nor a later one has begun
                part.offer(packet, number, streams)
            parts = [part for part in parts if not part.closed]
            if not parts:
                break
    return [beginning.time - zero for beginning in beginnings]


@contextmanager
def _streams(path: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Open a video, and yield its container and the streams that are copied, pictures first."""
    with container_of(path, declared_limit(path, MAX_FRAME_PIXELS)) as container:
        yield container, [video_stream_of(path, container, MAX_FRAME_PIXELS), *container.streams.audio[:1]]


def _beginnings(path: Path, container: Any, video: Any, starts: list[float], zero: float) -> list[_Beginning]:
    """Find the key frame that begins each part, from the picture packets; `starts` are seconds by the video's clock."""
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
        # `zero` is where the video's clock begins, and users count from there
        raise UnsupportedError(f"{path}: holds no frame after {late[0] - zero:.3f} s, where a part begins")
    first = [shown[place] for place in places]
    # The last in the order of decoding: a key frame may come before pictures that are shown before it.
    return [next((key for key in reversed(keys) if key.time <= time + ROUNDING), keys[0]) for time in first]


class _Part:
    """One output file of a cut, to which all packets are offered in turn.

    It is created on the stack `files` with its first packet and finished after its last, so that few files are open at
    a time.
    """

    def __init__(self, path: Path, beginning: _Beginning, end: float, files: ExitStack, force: bool) -> None:
        """Take the output file of a part of the video, the key frame that begins the part, and its end in seconds.

        The file is opened on the stack `files`, which finishes it when it is closed, or removes it after an error.
        """
        self.beginning = beginning
        self.closed = False  # whether no later packet can belong to the part
        self._path, self._end, self._files, self._force = path, end, files, force
        self._last = -math.inf  # the latest time of a picture that was written
        self._container: Any = None  # the open output
        # output streams by the index of the stream they copy
        self._targets: dict[int, Any] = {}

    def offer(self, packet: Packet, number: int, streams: list[Any]) -> None:
        """Write a packet if it belongs to the part, and close the part after the last one.

        Left out are sound outside the part, pictures before its key frame, which cannot be decoded, and pictures after
        its end, unless others in the part depend on them. `number` counts the picture packets, and `streams` has the
        copied streams, pictures first.
        """
        time = _time(packet, packet.pts)
        wanted = self.beginning.time <= time
        if packet.stream_index == streams[0].index:
            # Packets come in the order of decoding. Once that is past the end and past all that was written, no later
            # picture is needed.
            decoded = _time(packet, packet.dts)
            wanted = wanted and number >= self.beginning.number and (decoded <= self._end or time <= self._last)
            self._last = max(self._last, time) if wanted else self._last  # the latest picture that was written
            # sound of the part may follow in the file after its pictures, by up to SOUND_BEHIND seconds
            self.closed = decoded > max(self._end, self._last) + SOUND_BEHIND
        else:
            wanted = wanted and time <= self._end
        if wanted:
            self._write(packet, streams)
        if self.closed:
            # finishes the file of this part
            self._files.close()

    def _write(self, packet: Packet, streams: list[Any]) -> None:
        """Copy a packet into its output stream; its times count from the beginning of the part."""
        if self._container is None:
            self._open(streams)
        assert packet.time_base
        shift = round(self.beginning.time / packet.time_base)
        copy = Packet(bytes(packet))
        # `pts` is when a picture is shown, `dts` when it is decoded, both in units of `time_base`
        copy.pts = None if packet.pts is None else packet.pts - shift
        copy.dts = None if packet.dts is None else packet.dts - shift
        copy.duration, copy.time_base, copy.is_keyframe = packet.duration, packet.time_base, packet.is_keyframe
        copy.stream = self._targets[packet.stream_index]  # output streams, by the index of the copied one
        try:
            self._container.mux(copy)
        except CODEC_ERRORS as error:
            raise MediaError(f"{self._path}: cannot be written ({reason_of(error)})") from error

    def _open(self, streams: list[Any]) -> None:
        """Create the output file, with one stream for each of `streams`, on the stack that will finish it."""
        temporary = self._files.enter_context(output_file(self._path, force=self._force))
        try:
            output = av.open(str(temporary.absolute()), "w", format=CUT_FORMATS[self._path.suffix.lower()])
            self._container = self._files.enter_context(output)
            self._targets = {each.index: self._container.add_stream_from_template(each) for each in streams}
            self._container.start_encoding()
        except CODEC_ERRORS as error:
            raise UnsupportedError(f"{self._path}: cannot hold what is in the video ({reason_of(error)})") from error


def _packets(container: Any, streams: list[Any]) -> Iterator[Packet]:
    """Yield the packets with times, up to the end or the first damage."""
    packets = container.demux(streams)
    while True:
        try:
            packet = next(packets, None)
        except (*CODEC_ERRORS, IndexError):  # PyAV raises IndexError at the end of some files
            return
        if packet is None:
            return
        if packet.size and (packet.pts is not None or packet.dts is not None):
            yield packet


def _time(packet: Packet, ticks: int | None) -> float:
    """Return `ticks`, the packet's ``pts`` or ``dts``, in seconds, or its other time if that is None."""
    known = ticks if ticks is not None else packet.pts if packet.pts is not None else packet.dts
    assert known is not None and packet.time_base
    return float(known * packet.time_base)
