"""Arrays that are accepted as frames, all made uint8 and grey or colour; and a frame that was separated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief
from visionnmf.exceptions import ParameterError, UnsupportedError

__all__ = ["Separated", "as_frames", "check_model_size", "to_uint8"]

FrameArray = NDArray[np.uint8]

SHAPES = "(height, width), or (height, width, channels) of 1, 3 or 4 channels"
CHANNELS = (1, 3, 4)


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
    """

    index: int
    frame: FrameArray
    background: FrameArray
    mask: FrameArray

    __repr__ = brief


def as_frames(frames: Iterable[Any], shape: tuple[int, ...] | None = None) -> Iterator[FrameArray]:
    """Yield frames as uint8 arrays (height, width) or (height, width, 3) of one shape.

    Frames are arrays (height, width) or (height, width, channels) of uint8, uint16, or floating point from 0 to 1. One
    channel is grey; of four the last, opacity, is left out. An array of all frames or a single frame are allowed, too.
    `shape` is the shape that they must have, by default that of the first. Raises ParameterError for other arrays.
    """
    for index, frame in enumerate(_several(frames, shape)):
        converted = _as_uint8(frame, index)
        shape = converted.shape if shape is None else shape
        if converted.shape != shape:
            raise ParameterError(
                f"frame {index} must have the shape of the first learnt, {shape}; got {converted.shape}; resize the "
                "frames first"
            )
        yield converted


def _several(frames: Iterable[Any], shape: tuple[int, ...] | None) -> Iterable[Any]:
    """Return several frames, also of a single one; videos are wider than 1, 3 or 4 pixels, unless they have 1 x 1."""
    if not isinstance(frames, Iterable):
        kind = type(frames).__name__
        raise ParameterError(f"frames must be an array of frames, a video, or frames one after another; got {kind}")
    if not isinstance(frames, np.ndarray):
        return frames
    coloured = frames.ndim == 3 and frames.shape[2] in CHANNELS and frames.shape[1:] != (1, 1)
    single = frames.ndim == 2 or coloured or (frames.ndim == 3 and frames.shape == shape)
    if single:
        return [frames]
    if frames.ndim not in (3, 4):
        raise ParameterError(f"frames must be frames of shape {SHAPES}, or a single one; got shape {frames.shape}")
    return frames


def _as_uint8(frame: Any, index: int) -> FrameArray:
    """Return a frame as uint8, without opacity; ParameterError if its dtype, shape or range is wrong."""
    kind = getattr(frame, "dtype", None)
    if not isinstance(frame, np.ndarray) or kind is None or not (kind in (np.uint8, np.uint16) or kind.kind == "f"):
        found = kind if kind is not None else type(frame).__name__
        raise ParameterError(f"frame {index} must be uint8, uint16, or floating point from 0 to 1; got {found}")
    if frame.ndim not in (2, 3) or 0 in frame.shape or (frame.ndim == 3 and frame.shape[2] not in CHANNELS):
        raise ParameterError(f"frame {index} must have shape {SHAPES}; got {frame.shape}")
    if frame.ndim == 3:
        frame = frame[..., 0] if frame.shape[2] == 1 else frame[..., :3]
    if kind == np.uint8:
        return frame
    if kind == np.uint16:
        return ((frame.astype(np.uint32) + 128) // 257).astype(np.uint8)
    low, high = float(frame.min()), float(frame.max())
    if not (low >= 0 and high <= 1):
        raise ParameterError(
            f"frame {index} must be from 0 to 1 in floating point; got {low:g} to {high:g}; divide by its white"
        )
    return (frame * 255).round().astype(np.uint8)


def to_uint8(values: NDArray[Any]) -> FrameArray:
    """Round grey levels to bytes."""
    return np.clip(values + 0.5, 0, 255).astype(np.uint8)


def check_model_size(name: object, model: tuple[int, ...], source: tuple[int, ...]) -> None:
    """Refuse the file `name` of a model whose frames have another shape than those of the source."""
    if model != source:
        colour = ["colour" if len(shape) > 2 else "grey" for shape in (model, source)]
        raise UnsupportedError(
            f"{name}: the model has {colour[0]} frames of {model[1]} x {model[0]} pixels, and the source has "
            f"{colour[1]} frames of {source[1]} x {source[0]}; name another file"
        )
