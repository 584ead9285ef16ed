"""Count the samples that the tables of an MP4 or QuickTime file declare, before FFmpeg allocates an index for them."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

__all__ = ["most_samples"]

HOLDERS = (
    b"moov",
    b"trak",
    b"mdia",
    b"minf",
    b"stbl",
    b"moof",
    b"traf",
)  # boxes around the tables
MOST_BOXES = 100_000  # a fragmented file has about six for each fragment


def most_samples(file: BinaryIO) -> int:
    """Return the largest number of samples that a table of an open file declares; 0 if it is not MP4.

    FFmpeg makes an index of as many entries, while a true table declares no more samples than the file has bytes.
    """
    began, length = file.tell(), file.seek(0, os.SEEK_END)
    most, left, todo = 0, MOST_BOXES, [(0, length)]
    while todo and left:
        start, stop = todo.pop()
        while start + 8 <= stop and left:
            left -= 1
            file.seek(start)
            head = file.read(28)
            size, kind = struct.unpack_from(">I4s", head)
            body = 8
            if size == 1 and len(head) >= 16:
                size, body = struct.unpack_from(">Q", head, 8)[0], 16
            elif size == 0:
                size = stop - start
            if size < body:
                break
            end = min(start + size, stop)
            if kind in HOLDERS:
                todo.append((start + body, end))
            elif kind in (b"stsz", b"stz2", b"trun"):
                most = max(most, _declared(kind, head[body:]))
            start = end
    file.seek(began)
    return most


def _declared(kind: bytes, content: bytes) -> int:
    """Return the number of samples of a table, which begins with version and flags and two numbers."""
    if len(content) < 12:
        return 0
    _, first, second = struct.unpack_from(">3I", content)
    return int(first if kind == b"trun" else second)  # in the others a size comes first
