"""Frames of any pixel format as 8-bit RGB: one white for all frames of a clip, and HDR shown as SDR."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from visionnmf._pixel_range import bits_of, declared_bits, exceeds, in_eight_bits, note_on, note_on_unused
from visionnmf.io.pixel_conversion import rgb_on_white

PQ = 16  # the number of SMPTE ST 2084 among transfer characteristics
PAPER, BRIGHTEST = 203.0, 1000.0  # nits: of white paper in HDR (ITU-R BT.2408), and of what is shown white here


def convert(converter: VideoReformatter, frame: VideoFrame, **options: Any) -> VideoFrame:
    """Return a frame in another format by PyAV's `options`; `converter` keeps what the next frame needs."""
    # One thread: waking a pool for each frame takes longer than the conversion.
    return converter.reformat(frame, threads=1, **options)


def has_16_bits(frame: VideoFrame) -> bool:
    """Return whether a frame has values of 16 bits, whose white is not known."""
    return frame.color_trc != PQ and all(c.bits == 16 and not c.is_alpha for c in frame.format.components)


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
            self.notes["HDR video (PQ) is shown as SDR, in which 1000 nits are white"] = None
            return np.asarray(_shown_pq()[self._converted(frame, "rgb48le")], np.uint8)
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


@cache
def _shown_pq() -> NDArray[np.uint8]:
    """Return the 8-bit value by which each 16-bit value of PQ is shown."""
    root = np.linspace(0, 1, 65536) ** (32 / 2523)  # SMPTE ST 2084: nits are 10000 times the power that follows
    nits = 10_000 * (np.maximum(root - 3424 / 4096, 0) / (2413 / 128 - 2392 / 128 * root)) ** (16384 / 2610)
    light, most = nits / PAPER, BRIGHTEST / PAPER
    # Reinhard's curve keeps differences up to the brightest, and 2.4 is the gamma of television (ITU-R BT.1886)
    shown = np.minimum(light * (1 + light / most**2) / (1 + light), 1) ** (1 / 2.4)
    return np.rint(255 * shown).astype(np.uint8)
