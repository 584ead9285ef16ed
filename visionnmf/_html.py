"""What notebooks show of results: tables and small pictures, as HTML."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._pixel_range import in_eight_bits

SIDE = 320  # pixels of a thumbnail's longer side
MOST_LABELS = 127  # up to this value 16-bit pixels are labels, which would be black
MOST = 160  # characters of a value


def table(rows: Mapping[str, Any]) -> str:
    """Return names and values as a table; texts are escaped, and long ones are cut."""
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(_short(value))}</td></tr>" for name, value in rows.items())
    return f"<table>{''.join(cells)}</table>"


def thumbnail(picture: NDArray[Any], title: str = "") -> str:
    """Return a grey or RGB picture of uint8 or uint16 as an image of at most 320 pixels, in the page itself."""
    picture = reduced(picture, SIDE)
    stored = picture[..., ::-1] if picture.ndim == 3 else picture
    content = base64.b64encode(cv2.imencode(".png", np.ascontiguousarray(stored))[1].tobytes()).decode()
    name = escape(title, quote=True)
    return f'<img alt="{name}" title="{name}" src="data:image/png;base64,{content}"/>'


def reduced(picture: NDArray[Any], longest: int) -> NDArray[np.uint8]:
    """Return a picture of uint8 or uint16 in 8 bits, whose longer side has at most so many pixels."""
    labels = picture.dtype == np.uint16 and picture.max(initial=0) <= MOST_LABELS
    shrink = longest / max(picture.shape[:2])
    if shrink < 1:
        size = [max(1, round(side * shrink)) for side in picture.shape[1::-1]]
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_NEAREST if labels else cv2.INTER_AREA)
    if picture.dtype == np.uint16:
        picture = stretched(picture) if labels else in_eight_bits(picture)
    return np.asarray(picture, np.uint8)


def stretched(labels: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Return labels of segments as grey levels that can be told apart."""
    return (labels * (255 // max(1, int(labels.max(initial=0))))).astype(np.uint8)


def _short(value: Any) -> str:
    """Return a value as text, with four digits and at most 160 characters."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST else text[: MOST - 3] + "..."
