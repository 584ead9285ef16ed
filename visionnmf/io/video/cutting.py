"""Cut parts out of a video by copying its packets."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from visionnmf.exceptions import MediaError, ParameterError, UnsupportedError
from visionnmf.io.inputs import regular_file
from visionnmf.io.outputs import output_file, together

from .decoding import (
    CODEC_ERRORS,
    MAX_FRAME_PIXELS,
    container_of,
    declared_limit,
    has_data,
    packets_of,
    reason_of,
    video_stream_of,
)
from .timeline import DAY, JUMP

# The container by suffix. Matroska takes almost every codec.
CUT_FORMATS = {
    ".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm", ".avi": "avi", ".ts": "mpegts", ".mkv": "matroska"
}  # fmt: skip

ROUNDING = 1e-6  # seconds, to which times in tables are rounded
SOUND_BEHIND = 5.0  # seconds that sound may lie behind its pictures in a file, before a part is finished


def cut_video(source: str | Path, parts: Mapping[Path, tuple[float, float]], *, force: bool = False) -> list[float]:
    """Cut parts out of a video, with their sound, without encoding again.

    A part begins with the last key frame that is shown no later than the first picture of the part, because what
    follows cannot be decoded without it; if there is none, with the first key frame. The video is read twice, first to
    find these key frames.

    Parameters
    ----------
    source : str or Path
        The video.
    parts : mapping of Path to (float, float)
        Start and end in seconds, by the file to write, whose suffix names the container. Parts may overlap.
    force : bool, default=False
        Whether existing files may be replaced.

    Returns
    -------
    list of float
        Where each part begins in the video, in seconds.

    Raises
    ------
    UnsupportedError
        If a container cannot hold the streams of the video, a part holds no frame, or the video has no times, or times
        that begin again.
    MediaError
        If the video cannot be read, or a file exists and `force` is false, or cannot be written.
    ParameterError
        If a suffix is not that of a container.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from visionnmf.io import VideoWriter, cut_video
    >>> with VideoWriter("clip.mp4", width=32, height=32, frame_rate=25, codec="h264") as writer:
    ...     for level in range(50):
    ...         writer.write(np.full((32, 32, 3), level, np.uint8))
    >>> cut_video("clip.mp4", {Path("part.mp4"): (0.0, 1.0)}, force=True)
    [0.0]
    """
    if not isinstance(parts, Mapping):
        raise ParameterError(f"parts must be a dictionary of a path to its start and end; got {parts!r:.80}")
    for target in parts:
        if target.suffix.lower() not in CUT_FORMATS:
            raise ParameterError(f"path must end in one of {', '.join(CUT_FORMATS)}; got {str(target)!r}")
    path = regular_file(source, "video")
    with _packets(path, sound=False) as (zero, _, packets):
        shown, keys, before = array("d"), list[tuple[int, float]](), math.nan
        for packet, number, time, decoded in packets:
            # Matroska leaves out the first decoding times, and times of showing are in another order than packets.
            if packet.dts is None and not packet.is_keyframe:
                decoded = before
            if decoded < before - JUMP or decoded > before + DAY:  # which a reader takes for another recording
                raise UnsupportedError(
                    f"{path}: cannot be cut, as its time stamps begin again; rewrite the file, for instance by: ffmpeg "
                    "-i video -c copy one.mkv"
                )
            before = decoded
            shown.append(time)
            if packet.is_keyframe or not keys:  # some files do not mark their first packet
                keys.append((number, time))
    if not keys:
        raise UnsupportedError(
            f"{path}: cannot be cut, as it does not say when frames are shown; copy it into Matroska"
        )
    times, left = sorted(shown), list[_Part]()
    for target, (start, end) in parts.items():
        place = bisect_left(times, zero + start - ROUNDING)
        if place == len(times):
            raise UnsupportedError(f"{path}: holds no frame after {start:.3f} s, where a part begins")
        # The last in the order of decoding: a key frame may come before pictures that are shown before it.
        key = next((key for key in reversed(keys) if key[1] <= times[place] + ROUNDING), keys[0])
        left.append(_Part(target, *key, zero + end, force))
    begun = [part.begin - zero for part in left]
    with together(), ExitStack() as stack, _packets(path, sound=True) as (_, streams, packets):
        for part in left:
            stack.enter_context(part.files)
        for packet, number, time, decoded in packets:
            for part in left:
                is_picture = packet.stream_index == streams[0].index
                if part.begin <= time and part.wants(is_picture, number, time, decoded):
                    part.write(packet, streams)
            left = [part for part in left if not part.closed]
            if not left:
                break
    return begun


@contextmanager
def _packets(
    path: Path, *, sound: bool
) -> Iterator[tuple[float, list[Any], Iterator[tuple[Packet, int, float, float]]]]:
    """Open a video; yield its beginning, the streams to copy, and their packets with number and times in seconds."""
    with container_of(path, declared_limit(path, MAX_FRAME_PIXELS)) as container:
        pictures = video_stream_of(path, container, MAX_FRAME_PIXELS)
        streams = [pictures, *(container.streams.audio[:1] if sound else ())]

        def timed() -> Iterator[tuple[Packet, int, float, float]]:
            """Yield the packets that have times, up to the first damage."""
            number = -1
            with suppress(*CODEC_ERRORS):
                for packet in filter(has_data, packets_of(container, *streams)):
                    number += packet.stream_index == pictures.index
                    shown = packet.pts if packet.pts is not None else packet.dts
                    if shown is not None and packet.time_base:
                        unit, decoded = float(packet.time_base), packet.dts if packet.dts is not None else shown
                        yield packet, number, shown * unit, decoded * unit

        yield (container.start_time or 0) / av.time_base, streams, timed()


class _Part:
    """One output file of a cut, which is created with its first packet and finished after its last one."""

    def __init__(self, path: Path, first: int, begin: float, end: float, force: bool) -> None:
        self.begin, self._first, self._end = begin, first, end  # seconds; the number of the key frame; seconds
        self.files = ExitStack()
        self.closed = False  # whether no later packet can belong to the part
        self._path, self._force = path, force
        self._last = -math.inf  # the latest time of a picture that was written
        self._container: Any = None
        self._targets: dict[int, Any] = {}  # output streams by the index of the stream they copy

    def wants(self, is_picture: bool, number: int, shown: float, decoded: float) -> bool:
        """Return whether a packet that is shown after the beginning belongs to the part; close it after the last."""
        if not is_picture:
            return shown <= self._end
        # Packets come in the order of decoding. Pictures after the end are needed if others depend on them.
        wanted = number >= self._first and (decoded <= self._end or shown <= self._last)
        self._last = max(self._last, shown) if wanted else self._last
        self.closed = decoded > max(self._end, self._last) + SOUND_BEHIND
        if self.closed:
            self.files.close()
        return wanted

    def write(self, packet: Packet, streams: list[Any]) -> None:
        """Copy a packet, with times from the part's beginning, to the output file, which is made if need be."""
        if self._container is None:
            temporary = self.files.enter_context(output_file(self._path, force=self._force))
            try:
                output = av.open(str(temporary.absolute()), "w", format=CUT_FORMATS[self._path.suffix.lower()])
                self._container = self.files.enter_context(output)
                self._targets = {each.index: self._container.add_stream_from_template(each) for each in streams}
                self._container.start_encoding()
            except CODEC_ERRORS as error:
                raise UnsupportedError(
                    f"{self._path}: cannot hold what is in the video ({reason_of(error)})"
                ) from error
        assert packet.time_base
        copy, begin = Packet(bytes(packet)), round(self.begin / packet.time_base)
        copy.pts, copy.dts = (None if stamp is None else stamp - begin for stamp in (packet.pts, packet.dts))
        copy.duration, copy.time_base, copy.is_keyframe = packet.duration, packet.time_base, packet.is_keyframe
        copy.stream = self._targets[packet.stream_index]
        try:
            self._container.mux(copy)
        except CODEC_ERRORS as error:
            raise MediaError(f"{self._path}: cannot be written ({reason_of(error)})") from error
