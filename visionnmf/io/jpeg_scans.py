"""Count the scans of a JPEG file: decoding each takes a pass over the whole picture, storing it twenty bytes."""

from __future__ import annotations

import re

from visionnmf.exceptions import UnreadableError

__all__ = ["check_scans"]

MOST_SCANS = 500  # progressive files have about ten
SCAN, END = 0xDA, 0xD9
# The markers between segments, without stuffed bytes, restarts of a scan, and the start of the picture.
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")


def check_scans(data: bytes, name: str, start: int = 0, stop: int | None = None) -> None:
    """Raise UnreadableError if the JPEG data in ``data[start:stop]`` have more than 500 scans."""
    stop = len(data) if stop is None else stop
    scans, place = 0, start
    while (found := _MARKER.search(data, place, stop)) is not None:
        kind, place = data[found.start() + 1], found.end()
        if kind == END:
            return
        if kind == SCAN:
            scans += 1
            if scans > MOST_SCANS:
                raise UnreadableError(f"{name}: a JPEG picture of more than {MOST_SCANS} scans; save it anew")
        place += int.from_bytes(data[place : place + 2])
