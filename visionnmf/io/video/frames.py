"""A video file as an array of frames that are decoded when they are looked at."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import UnreadableError

from . import decoding
from .pixels import FrameConverter
from .reader import VideoReader

KEPT = 256 << 20  # bytes of frames that were looked at last
AHEAD = 50  # frames that are decoded one after another without seeking again


class VideoFrames:
    """The frames of a video file, (n_frames, height, width, 3), uint8; indexing decodes those that are asked for.

    The file is entered at the key frame before a frame. A file whose time stamps do not allow this is read from its
    beginning, also to count its frames.
    """

    ndim = 4
    dtype = np.dtype(np.uint8)

    def __init__(self, path: str | Path) -> None:
        """Read the header of a video and the time stamp of each frame."""
        self._open = ExitStack()
        self._reader = VideoReader(path)  # raises an error of one line for anything else
        self._path = Path(path)
        self._limit = decoding.declared_limit(self._path, decoding.MAX_FRAME_PIXELS)
        stamps: list[int | None] = []
        with decoding.container_of(self._path, self._limit) as container:
            stream = decoding.video_stream_of(self._path, container, decoding.MAX_FRAME_PIXELS)
            unit = float(stream.time_base or 0)
            with suppress(*decoding.CODEC_ERRORS):  # cut off: what came before is shown
                stamps += (packet.pts for packet in decoding.packets_of(container, stream) if decoding.has_data(packet))
        # packets come in the order of decoding; some of MPEG-4 in AVI hold no frame, or two
        self._stamps = sorted({stamp for stamp in stamps if stamp is not None})
        self._can_enter = len(self._stamps) == len(stamps) == (self._reader.declared_frames or len(stamps))
        if self._can_enter:
            times = [stamp * unit for stamp in self._stamps]
        else:
            times = [frame.time for frame in self._reader.timed()]
        self.times = [time - times[0] for time in times]  # when frames are shown, in seconds from the first
        self.shape = (len(times), self._reader.height, self._reader.width, 3)
        self._kept: OrderedDict[int, NDArray[np.uint8]] = OrderedDict()
        self._loop: Iterator[tuple[int, NDArray[np.uint8]]] = iter(())
        self._next: int | None = None  # the number of the frame that the loop yields next
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self._open.close()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[np.uint8]:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, slice):
            numbers = range(*first.indices(len(self)))
            found = np.stack([self._frame(number) for number in numbers]) if numbers else np.empty((0, *self.shape[1:]))
            return np.asarray(found[(slice(None), *rest)], np.uint8)
        return np.asarray(self._frame(range(len(self))[int(first)])[tuple(rest)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype)

    def _frame(self, number: int) -> NDArray[np.uint8]:
        """Return one frame, from those that were kept if it is there."""
        with self._lock:  # one loop serves all threads
            if number not in self._kept:
                if self._next is None or not 0 <= number - self._next <= (AHEAD if self._can_enter else len(self)):
                    self._open.close()
                    self._loop = self._frames_from(number)
                for at, picture in self._loop:
                    self._kept[at], self._next = picture, at + 1
                    if len(self._kept) > max(1, KEPT // picture.nbytes):
                        self._kept.popitem(last=False)
                    if at >= number:
                        break
            if number not in self._kept:
                raise UnreadableError(f"{self._path}: frame {number} cannot be decoded; the file is damaged")
            self._kept.move_to_end(number)
            return self._kept[number]

    def _frames_from(self, number: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Yield frames with their numbers, from one that is not behind `number`."""
        if self._can_enter:
            numbers = {stamp: at for at, stamp in enumerate(self._stamps)}
            container = self._open.enter_context(decoding.container_of(self._path, self._limit))
            stream = decoding.video_stream_of(self._path, container, decoding.MAX_FRAME_PIXELS)
            stream.thread_type, stream.codec_context.thread_count = "AUTO", decoding.CODEC_THREADS
            converter, size, before = FrameConverter(), (self._reader.width, self._reader.height), -1
            with suppress(*decoding.CODEC_ERRORS):  # damaged: the reader goes on behind the damage
                container.seek(self._stamps[number], stream=stream)
                for frame in container.decode(stream):
                    at = numbers.get(decoding.stamp_of(frame) or 0, -1)
                    if (at > number) if before < 0 else (at != before + 1):
                        break  # it was entered too late, or stamps are not those of packets
                    before = at
                    if at >= number - AHEAD:  # earlier ones are not worth converting
                        yield at, decoding.upright_frame(self._path, frame, converter, decoding.turn_of(frame), size)
            self._can_enter = before == len(self) - 1
        if not self._can_enter:
            self._kept.clear()  # the reader leaves damaged frames out, and so counts in another way
            yield from enumerate(self._reader)
