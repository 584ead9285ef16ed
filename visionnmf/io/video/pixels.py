"""Frames of any pixel format as 8-bit RGB, with one white for all frames of a clip."""

from __future__ import annotations

from typing import Any

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from visionnmf._pixel_range import bits_of, declared_bits, exceeds, in_eight_bits, note_on, note_on_unused
from visionnmf.io.pixel_conversion import rgb_on_white

PQ = 16  # the number of SMPTE ST 2084 among transfer characteristics


def convert(converter: VideoReformatter, frame: VideoFrame, **options: Any) -> VideoFrame:
    """Return a frame in another format by PyAV's `options`; `converter` keeps what the next frame needs."""
    # One thread: waking a pool for each frame takes longer than the conversion.
    return converter.reformat(frame, threads=1, **options)


def has_16_bits(frame: VideoFrame) -> bool:
    """Return whether a frame has values of 16 bits, whose white is not known."""
    return all(c.bits == 16 and not c.is_alpha for c in frame.format.components)


class FrameConverter:
    """Converts the frames of a clip, whose white is that of `bits` where pixels have 16 bits.

    Without `bits` the first frames tell: those that fit into 8 bits are dark, unless all do. `notes` has a sentence on
    each range of values that is not the usual one.
    """

    def __init__(self, bits: int | None = None) -> None:
        self.reformatter = VideoReformatter()  # keeps what the next frame needs
        self.notes: dict[str, None] = {}  # as an ordered set
        self._bits = declared_bits() or bits  # of frames of 16 bits, once one has come
        self._unused = dict.fromkeys(filter(None, [note_on_unused()]))

    def bits_in(self, frame: VideoFrame) -> int:
        """Return into how many bits the values of a frame of 16 bits fit."""
        return bits_of(self._converted(frame, "rgb48le"))

    def rgb(self, frame: VideoFrame) -> NDArray[np.uint8]:
        """Return a frame as RGB (height, width, 3)."""
        if frame.color_trc == PQ:
            self.notes["HDR video (PQ) is read as if it were SDR, so its grey levels are wrong; convert it first"] = (
                None
            )
        if any(component.is_alpha for component in frame.format.components):
            pixels, said = self._converted(frame, "rgba"), list[str]()
            blended = rgb_on_white(pixels[..., :3], pixels[..., 3], said)
            self.notes |= dict.fromkeys(f"frames with {note.removeprefix('has ')}" for note in said)
            return np.asarray(blended, np.uint8)
        if not has_16_bits(frame):
            self.notes |= self._unused
            return np.asarray(self._converted(frame, "rgb24"), np.uint8)
        pixels = self._converted(frame, "rgb48le")
        bits = bits_of(pixels)
        self._bits = bits if self._bits in (None, 8) else self._bits
        if note := note_on(self._bits):
            self.notes[note] = None
        if exceeds(pixels, self._bits):
            self.notes[f"later frames have larger values, which are shown white; write the video with {bits} bits"] = (
                None
            )
        return in_eight_bits(pixels, self._bits)

    def _converted(self, frame: VideoFrame, name: str) -> NDArray[Any]:
        """Return a frame in a format of PyAV."""
        pixels: NDArray[Any] = convert(self.reformatter, frame, format=name).to_ndarray()
        return pixels
