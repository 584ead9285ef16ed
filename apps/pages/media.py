"""Pictures and short videos as addresses that hold them ("data:"), for pages without files beside them."""

from __future__ import annotations

import base64
import io
import tempfile
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from visionnmf._html import reduced
from visionnmf.io import VideoWriter, open_video, read_image

QUALITY = 85  # of JPEG
VECTOR = "image/svg+xml"
SMALL = 1 << 14  # pixels; smaller pictures are kept without loss


class Image(NamedTuple):
    """A picture as an address, its size in pixels as shown (0: its own), and what it shows, in words."""

    src: str
    width: int
    height: int
    alt: str


def as_image(picture: Any, longest: int, alt: str = "") -> Image:
    """Return a grey or RGB picture as JPEG, small ones as PNG, and a figure of matplotlib, or such a file, as SVG."""
    if hasattr(picture, "savefig"):  # its letters are drawn, so that it needs no font
        buffer = io.BytesIO()
        picture.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
        return Image(address(buffer.getvalue(), VECTOR), 0, 0, alt)
    if isinstance(picture, str) and picture.endswith(".svg"):
        return Image(address(Path(picture).read_bytes(), VECTOR), 0, 0, alt)
    small = reduced(read_image(picture) if isinstance(picture, str) else picture, longest)
    height, width = small.shape[:2]
    kind, options = ("png", []) if small.size <= SMALL else ("jpeg", [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    stored = np.ascontiguousarray(small[..., ::-1] if small.ndim == 3 else small)
    content = cv2.imencode(f".{kind}", stored, options)[1].tobytes()
    return Image(address(content, f"image/{kind}"), width, height, alt)


def address(content: bytes, kind: str) -> str:
    """Return the address that holds a content of a MIME type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


class Clip(NamedTuple):
    """The panels of a preview as short videos of one length, and the time of each shown frame, from the first one."""

    panels: list[str]
    width: int
    height: int
    rate: float
    times: list[float]


def as_clip(preview: str | Path, n_panels: int, caption: int, *, frames: int, most: int, width: int) -> Clip:
    """Return the `n_panels` beside each other of a preview, without their `caption` rows, as videos in the page.

    Of a preview with `frames`, at most `most` evenly spaced ones are shown; `width` is the largest of a panel.
    """
    every = -(-frames // most)
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.mp4" for number in range(n_panels)]
        with open_video(preview) as reader, ExitStack() as stack:
            rate = max(1.0, float(reader.frame_rate) / every)
            writers: list[VideoWriter] = []
            for frame in islice(reader.timed(), 0, every * most, every):
                parts = [reduced(part, width) for part in np.split(frame.picture[caption:], n_panels, axis=1)]
                high, wide = (max(2, side // 2 * 2) for side in parts[0].shape[:2])  # H.264 takes even sides
                if not writers:
                    shape = {"width": wide, "height": high, "frame_rate": rate}
                    made = [VideoWriter(file, codec="h264", force=True, **shape) for file in files]
                    writers = [stack.enter_context(writer) for writer in made]
                times.append(frame.time)
                for writer, part in zip(writers, parts, strict=True):
                    writer.write(np.ascontiguousarray(part[:high, :wide]))
        panels = [address(file.read_bytes(), "video/mp4") for file in files]
    return Clip(panels, wide, high, rate, times)
