"""How many samples the tables of an MP4 or QuickTime file declare."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

__all__ = ["most_samples"]

HOLDERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf")  # boxes of boxes, on the way to the tables
MOST_BOXES = 100_000  # looked at; a long fragmented file has some six for each of its fragments


def most_samples(file: BinaryIO) -> int:
    """Return the most samples that a table of a file declares; 0 for files of another kind.

    FFmpeg makes an index of as many entries. A true table declares no more samples than the file has bytes.

    Parameters
    ----------
    file : binary file
        Left where it was.

    Returns
    -------
    int
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
    """Return how many samples a table declares: its first bytes are version and flags, and two numbers."""
    if len(content) < 12:
        return 0
    _, first, second = struct.unpack_from(">3I", content)
    return int(first if kind == b"trun" else second)  # the others tell a size first
