"""How many scans a JPEG file has: each is a pass over the whole picture, and takes twenty bytes."""

from __future__ import annotations

import re

from visionnmf.exceptions import UnreadableError

__all__ = ["check_scans"]

MOST_SCANS = 500  # of a picture; progressive files have some ten
SCAN, END = 0xDA, 0xD9
# What divides a file into segments; not stuffed bytes, restarts of a scan, or the start of the picture.
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")


def check_scans(data: bytes, name: str, start: int = 0, stop: int | None = None) -> None:
    """Raise UnreadableError where a picture has more scans than any that is meant to be looked at.

    Parameters
    ----------
    data : bytes
    name : str
        Of the file.
    start, stop : int, optional
        Where the JPEG data begin and end.
    """
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
