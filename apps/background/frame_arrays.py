"""Frames as arrays: what is accepted as a frame, one that was separated, an even sample of a stream, and its median."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief, moved_axes, shown
from visionnmf._pixel_range import bits_of, in_eight_bits, note_on
from visionnmf._text import sized
from visionnmf.engine.blocks import blocks, map_blocks
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io.video.timeline import TimedFrame

from . import tuning
from .kernels import mean_over_channels, select_next_rank, select_rank

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]

SHAPES = "(height, width), or (height, width, channels) with 1, 3 or 4 channels"
CHANNELS = (1, 3, 4)
FEW = 5  # axes shorter than this are not judged
# A frame explains the others better, but for their brightness, than a column explains the other columns. The ratio of
# what they leave unexplained is at most 1.4 for 16 clips of the benchmarks; with time as last axis it is 2 or more
# for 15 of them, and 0.6 for one.
MOVED = 2
LEAST_UNEXPLAINED = 0.4  # below, frames are alike whatever their columns are; 15 of these 16 are above
BLOCK_VALUES = 8192  # their medians and counts stay in a first-level cache


@dataclass(frozen=True)
class Separated:
    """One frame, separated into background and foreground.

    Attributes
    ----------
    index : int
        Position in the iterable, from 0.
    frame : ndarray of uint8 [shape=(height, width) or (height, width, 3)]
        The frame itself.
    background : ndarray of uint8 [shape of the frame]
        What the model shows behind the foreground, in the illumination of this frame.
    mask : ndarray of uint8 [shape=(height, width)]
        255 foreground, 0 background.
    time : float
        When the frame is shown, in seconds; NaN where that is not known.
    is_doubtful : bool
        Whether the frame, or one since the last key frame, came damaged.
    shift : tuple of float
        How far the frame is displaced by camera shake, which is compensated, in pixels right and down.
    """

    index: int
    frame: FrameArray
    background: FrameArray
    mask: FrameArray
    time: float = math.nan
    is_doubtful: bool = False
    shift: tuple[float, float] = (0.0, 0.0)

    __repr__ = brief

    def _repr_html_(self) -> str:
        """Show frame, background and mask, in notebooks."""
        from visionnmf._html import table, thumbnail

        pictures = (thumbnail(getattr(self, name), name) for name in ("frame", "background", "mask"))
        share = f"{100 * np.count_nonzero(self.mask) / self.mask.size:.2f} %"
        return "".join(pictures) + table({"frame": self.index, "foreground": share})


class Region(NamedTuple):
    """Where foreground counts: 255 in a mask (height, width), or None; and a sentence for each part that is clipped."""

    mask: FrameArray | None
    notes: list[str]

    def within(self, part: Separated) -> Separated:
        """Return a frame whose mask is empty outside the region."""
        return replace(part, mask=self.inside(part.mask))

    def inside(self, mask: FrameArray) -> FrameArray:
        """Return a mask, empty outside the region."""
        return mask if self.mask is None else mask & self.mask


def known_bits(frames: Iterable[Any]) -> tuple[Iterable[Any], int]:
    """Return frames, and the bits of their 16-bit values: of all of an array or a list, or else of the first frame."""
    if isinstance(frames, Iterator):
        seen: Sequence[Any] = list(islice(frames, 1))
        frames = chain(seen, frames)
    else:
        seen = [frames] if isinstance(frames, np.ndarray) else frames if isinstance(frames, list | tuple) else []
    pictures = (frame.picture if isinstance(frame, TimedFrame) else frame for frame in seen)
    bits = max((bits_of(p) for p in pictures if isinstance(p, np.ndarray) and p.dtype == np.uint16), default=0)
    if bits and note_on(bits):
        warnings.warn(f"frames: {note_on(bits)}", UserWarning, stacklevel=4)
    return frames, bits


def warn_of_axes(frames: Any) -> None:
    """Warn if an array of grey frames looks as if its last axis were time."""
    if not isinstance(frames, np.ndarray) or frames.ndim != 3 or min(frames.shape) < FEW:
        return
    some = frames[tuple(slice(None, None, max(1, size // 64)) for size in frames.shape)].astype(np.float32)
    if _unexplained(some) > max(LEAST_UNEXPLAINED, MOVED * _unexplained(np.moveaxis(some, -1, 0))):
        warnings.warn(
            f"frames of shape {frames.shape} look as if their last axis were time; if it is, pass "
            "numpy.moveaxis(frames, -1, 0)",
            UserWarning,
            stacklevel=5,
        )


def _unexplained(frames: Floats) -> float:
    """Return the share of the variance that the mean of frames of equal brightness leaves, or 0 for even frames."""
    even = frames / np.maximum(frames.mean((1, 2), keepdims=True), 1e-9)
    variance = float(even.var())
    return 1 - float(even.mean(0).var()) / variance if variance > 0 else 0.0


def timed_frames(
    frames: Iterable[Any], shape: tuple[int, ...] | None = None, bits: int | None = None
) -> Iterator[TimedFrame]:
    """Yield frames as uint8 of one shape, with times, NaN if unknown; raise ParameterError for others, and for none."""
    index = -1
    if shape is None:
        warn_of_axes(frames)
    if not bits:
        frames, bits = known_bits(frames)
    for index, frame in enumerate(_several(frames, shape)):
        timed = frame if isinstance(frame, TimedFrame) else TimedFrame(frame, math.nan)
        picture = _as_uint8(timed.picture, index, bits or 16)
        shape = picture.shape if shape is None else shape
        if picture.shape != shape:
            raise ParameterError(
                f"frame {index} must have the shape of the first learnt, {shape}; got {picture.shape}; resize the "
                "frames first"
            )
        yield timed._replace(picture=picture)
    if index < 0:
        cure = "; an iterator is empty once it has been gone through, so pass a list" * isinstance(frames, Iterator)
        raise ParameterError(f"frames must hold at least one frame; got none{cure}")


def as_frames(frames: Iterable[Any]) -> Iterator[FrameArray]:
    """Yield the pictures of :func:`timed_frames`."""
    return (frame.picture for frame in timed_frames(frames))


def _several(frames: Iterable[Any], shape: tuple[int, ...] | None) -> Iterable[Any]:
    """Return an iterable of frames, also where a single frame is given."""
    if not isinstance(frames, Iterable):
        raise ParameterError(
            f"frames must be an array of frames, a video, or frames one after another; got {type(frames).__name__}"
        )
    if not isinstance(frames, np.ndarray):
        return frames
    # Grey frames are hardly ever 1, 3 or 4 pixels wide, except for a series of single pixels.
    coloured = frames.ndim == 3 and frames.shape[2] in CHANNELS and frames.shape[1:] != (1, 1)
    if frames.ndim == 2 or coloured or (frames.ndim == 3 and frames.shape == shape):
        return [frames]
    if frames.ndim not in (3, 4):
        raise ParameterError(f"frames must be frames of shape {SHAPES}, or a single one; got shape {frames.shape}")
    return frames


def _as_uint8(frame: Any, index: int, bits: int) -> FrameArray:
    """Return a frame as uint8, without opacity; raises ParameterError if its dtype, shape or range is wrong."""
    if not isinstance(frame, np.ndarray) or not (frame.dtype in (np.uint8, np.uint16) or frame.dtype.kind == "f"):
        found = frame.dtype if isinstance(frame, np.ndarray) else type(frame).__name__
        cure = "; a frame with a time of yours goes to OnlineBackgroundModel.partial_fit" * isinstance(frame, tuple)
        raise ParameterError(f"frame {index} must be uint8, uint16, or floating point from 0 to 1; got {found}{cure}")
    if frame.ndim not in (2, 3) or frame.size == 0 or (frame.ndim == 3 and frame.shape[2] not in CHANNELS):
        raise ParameterError(
            f"frame {index} must have shape {SHAPES}; got {frame.shape}{moved_axes(frame.shape, 'frame')}"
        )
    if frame.ndim == 3:
        frame = frame[..., 0] if frame.shape[2] == 1 else frame[..., :3]
    if frame.dtype == np.uint8:
        return frame
    if frame.dtype == np.uint16:
        if bits < 16 and bits_of(frame) > bits:
            raise ParameterError(
                f"frame {index} must have values of {bits} bits, as the frames before; got {int(frame.max())}; give "
                "all frames as one array, or as uint8"
            )
        return in_eight_bits(frame, bits)
    low, high = float(frame.min()), float(frame.max())
    if not (low >= 0 and high <= 1):
        raise ParameterError(
            f"frame {index} must be from 0 to 1 in floating point; got {low:g} to {high:g}; divide by its white"
        )
    return (frame * 255).round().astype(np.uint8)


def enlargement(shape: tuple[int, ...]) -> int:
    """Return how many times as high and wide frames of this shape are made: 1, or more if they are small."""
    small, pixels = tuning.TUNING.small_frames, shape[0] * shape[1]
    return 1 if pixels >= small.small else round(math.sqrt(small.enlarged / pixels))


def enlarged(picture: NDArray[Any], times: int) -> NDArray[Any]:
    """Return a picture (height, width[, channels]) in which each pixel is a square of `times` by `times` pixels."""
    return picture if times == 1 else picture.repeat(times, axis=0).repeat(times, axis=1)


def reduced(picture: NDArray[Any], times: int) -> NDArray[Any]:
    """Return the means of squares of `times` by `times` pixels. It undoes :func:`enlarged`."""
    height, width = picture.shape[0] // times, picture.shape[1] // times
    if times == 1:
        return picture
    return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), picture.dtype)


def reduced_mask(mask: FrameArray, times: int) -> FrameArray:
    """Return a mask (height, width) that is 255 where about half of a square of the enlarged one is, or more."""
    return mask if times == 1 else np.where(reduced(mask, times) > 127, np.uint8(255), np.uint8(0))


def check_frame_shape(shape: Any) -> None:
    """Raise ValueError unless a shape, which a file can give, is that of grey or colour frames."""
    fits = isinstance(shape, tuple) and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3))
    if not fits or not all(type(size) is int and size > 0 for size in shape):
        raise ValueError(f"frame_shape_ must be a height and a width, and 3 of colour frames; got {shown(shape)}")


def enlargement_of(noise: Floats, shape: tuple[int, ...]) -> int:
    """Return how many times as high and wide as frames of `shape` the noise of the learnt pixels (height, width) is."""
    times = noise.shape[0] // shape[0]
    if times < 1 or noise.shape != (times * shape[0], times * shape[1]):
        raise ValueError("the noise must be that of enlarged frames, a whole number of times as high and wide")
    return times


def to_uint8(values: NDArray[Any]) -> FrameArray:
    """Round grey levels to bytes, those above 255 to 255; the conversion cuts off decimals, hence the half."""
    return np.clip(values + 0.5, 0, 255).astype(np.uint8)


def channel_mean(picture: NDArray[Any]) -> NDArray[Any]:
    """Return the rounded mean over channels (height, width), in the dtype of the picture."""
    if picture.ndim == 3 and picture.shape[2] == 3:
        if picture.dtype == np.uint8:
            result = np.empty(picture.shape[:2], np.uint8)
            mean_over_channels(np.ascontiguousarray(picture).reshape(-1), result.reshape(-1))  # four times as fast
            return result
        picture = cv2.transform(picture, np.full((1, 3), 1 / 3, np.float32))
    return np.asarray(picture).reshape(picture.shape[:2])


def frame_difference(frame: FrameArray, before: FrameArray) -> FrameArray:
    """Return the rounded mean over channels of the absolute difference of two frames (height, width)."""
    return channel_mean(np.asarray(cv2.absdiff(frame, before), np.uint8))


def check_model_size(name: object, model: tuple[int, ...], source: tuple[int, ...]) -> None:
    """Raise UnsupportedError if the model in the file `name` has frames of another shape than the source has."""
    if model != source:
        raise UnsupportedError(
            f"{name}: the model has frames of {sized(model)}{', in grey' * (len(model) == 2)}, and the source of "
            f"{sized(source)}; name another file"
        )


class FrameSample:
    """At most `room` evenly spaced frames of a stream of unknown length, and how much each differs from its neighbours.

    One of every `step` frames is kept; when the room is full every other one is dropped and `step` doubles. The kept
    one is the first or the second of its `step`, by the Thue-Morse sequence, so that of clips whose frames alternate,
    such as interlaced ones, both kinds are seen. The difference is the larger of those from the frames before and
    after.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._step = 1  # one of so many frames is kept
        self._held = 0  # how many are kept at present
        self._positions: list[int] = []  # of the kept frames in the stream
        self._before: FrameArray | None = None  # the latest frame; None if the next one is not kept
        self._due = True  # whether the next frame is kept
        self.seen = 0
        self.bits = 0  # of the values of 16-bit frames; 0 for other frames

    @classmethod
    def of(cls, frames: Iterable[FrameArray], room: int) -> FrameSample:
        """Return a sample of at most `room` of the frames that users gave; raise ParameterError for none."""
        sample = cls(room)
        frames, sample.bits = known_bits(frames)
        for frame in timed_frames(frames, bits=sample.bits):
            sample.add(frame.picture)
        if sample.seen == 1:
            sentence = f"frames hold a single frame, of shape {sample.frame_shape}, all of which counts as background"
            warnings.warn(f"{sentence}; pass several, of which most show the background", UserWarning, stacklevel=3)
        return sample

    def add(self, frame: FrameArray) -> None:
        """Take the next frame of the stream, and keep it if its position is due."""
        if self.seen == 0:
            self._allocate(frame)
        # The frame before was kept: its change also counts the difference from this frame.
        if self._held and self._positions[-1] == self.seen - 1:
            last = self._changes[self._held - 1]
            np.maximum(last, frame_difference(frame, self._frames[self._held - 1]), out=last)
        # `_due` was found at the previous frame. A full sample is halved first, which doubles `_step`.
        due = self._due
        if due and self._held == self._room:
            self._halve()
            due = self._is_due(self.seen)  # it may no longer be
        if due:
            self._frames[self._held] = frame
            self._changes[self._held] = 0 if self._before is None else frame_difference(frame, self._before)
            self._held += 1
            self._positions.append(self.seen)
        self.seen += 1
        self._due = self._is_due(self.seen)
        # copied, because a caller may use one buffer for all frames
        self._before = frame.copy() if self._due else None

    def _is_due(self, position: int) -> bool:
        """Return whether the frame at a position of the stream is to be kept, one of each group of `_step` frames."""
        return _kept_of(position // self._step * self._step, self._step) == position

    def _allocate(self, frame: FrameArray) -> None:
        """Allocate the sample for frames like this one; large frames get less room, to bound the memory."""
        self.frame_shape = frame.shape
        pixels = frame.shape[0] * frame.shape[1]  # a byte of `_changes` each, beside those of the frame
        size = (frame.size + pixels) * enlargement(frame.shape) ** 2  # in the memory of learning
        self._room = max(2, min(self._room, tuning.TUNING.sample.max_bytes // size))
        # The operating system provides memory when it is first written to, so a short clip takes little. The second
        # array gets the larger of each frame's differences from its neighbours.
        self._frames = np.empty((self._room, *frame.shape), np.uint8)
        self._changes = np.empty((self._room, *frame.shape[:2]), np.uint8)

    def _halve(self) -> None:
        """Make room: double the step, and move the frames that are still due to the front of the sample."""
        self._step *= 2
        wanted = {_kept_of(start, self._step) for start in range(0, self.seen, self._step)}
        stay = [i for i, position in enumerate(self._positions) if position in wanted]
        for to, i in enumerate(stay):
            self._frames[to] = self._frames[i]
            self._changes[to] = self._changes[i]
        self._positions = [self._positions[i] for i in stay]
        self._held = len(stay)

    def taken(self) -> tuple[FrameArray, NDArray[np.intp]]:
        """Return the kept frames (n, n_pixels, channels), the first `_held`, and their positions in the stream (n,)."""
        height, width = self.frame_shape[:2]
        frames = self._frames[: self._held].reshape(self._held, height * width, -1)
        return frames, np.array(self._positions, np.intp)

    def hand_over_changes(self) -> FrameArray:
        """Return the kept frames' differences from their neighbours (n, height, width), and free their memory."""
        changes = self._changes[: self._held]
        del self._changes
        return changes


def _kept_of(start: int, step: int) -> int:
    """Return which of `step` frames from `start` on is kept: the first or the second, by the Thue-Morse sequence."""
    # That is the parity of the bits of `start`, so that no regular pattern of frames is missed.
    return start + (start.bit_count() % 2 if step > 1 else 0)


def temporal_median(frames: FrameArray) -> Floats:
    """Return the median over contiguous frames of uint8 (n, ...), by counting, ten times faster than by sorting."""
    n = len(frames)
    flat = frames.reshape(n, -1)
    result = np.empty(flat.shape[1], np.float32)
    counter: Any = np.min_scalar_type(n)  # the smallest dtype that can count the frames

    def fill(block: tuple[int, int]) -> None:
        """Write the medians of values block[0] to block[1]; of an even number, the mean of the middle two ranks."""
        start, stop = block
        low, high = np.empty((2, stop - start), np.uint8)
        count = np.empty(stop - start, counter)
        select_rank(flat, low, count, (n - 1) // 2, start)
        if n % 2:
            result[start:stop] = low
            return
        select_next_rank(flat, low, count, high, (n - 1) // 2, start)
        np.add(low, high, out=result[start:stop], dtype=np.float32)
        result[start:stop] /= 2

    map_blocks(fill, blocks(flat.shape[1], BLOCK_VALUES))
    return result.reshape(frames.shape[1:])
