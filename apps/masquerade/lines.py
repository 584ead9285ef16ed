"""Lines of logs: from a file, or from one that grows; any bytes become text, and no line is longer than 64 KiB."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from visionnmf._checks import check_number
from visionnmf.exceptions import UnreadableError

__all__ = ["Line", "Place", "check_is_log", "file_lines", "follow", "standard_input"]

LOOKED_AT = 4096  # bytes by which a file is known to be no log
MOST_CONTROLS = 0.05  # share of control characters in them ...
LEAST_TOLD = 1000  # ... where there are so many
# What files begin with that are no logs.
_OTHERS = {
    b"\xff\xd8\xff": "a JPEG picture",
    b"\x89PNG\r\n": "a PNG picture",
    b"GIF8": "a GIF picture",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "compressed by gzip; unpack it first",
    b"BZh": "compressed by bzip2; unpack it first",
    b"\xfd7zXZ\x00": "compressed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; unpack it first",
    b"%PDF-": "a PDF document",
    b"\x7fELF": "a program",
    b"SQLite format 3\x00": "an SQLite database",
    b"LPKSHHRH": "a journal of systemd; give the output of journalctl",
}

Line = str | None  # None: nothing new for the moment, from a log that is followed

LINE_BYTES = 1 << 16  # of a line that are looked at
CHUNK_BYTES = 1 << 18


def follow(
    path: str | Path,
    *,
    poll: float = 0.5,
    from_start: bool = False,
    stop: Callable[[], bool] | None = None,
    place: Place | None = None,
) -> Iterator[Line]:
    """Yield the lines of a growing log as they are written.

    A file that is replaced (rotation by renaming) is read to its end, then the new one from its start; one that has
    become shorter (rotation by truncation) is read from its start. A missing file is waited for. A file that is
    truncated and grows beyond its old length between two looks cannot be told from one that has grown.

    Parameters
    ----------
    path : str or Path
        The log.
    poll : float > 0, default=0.5
        Seconds between two looks.
    from_start : bool, default=False
        Whether lines that are there already are yielded too; if not, neither is the rest of one that is being written.
    stop : callable or None, default=None
        Asked at each look; true ends the iteration.
    place : Place, optional
        Told at which line the reading begins.

    Yields
    ------
    str or None
        A line without its end; None at each look that finds nothing new.

    Raises
    ------
    ParameterError
        If `poll` is not above 0.
    UnreadableError
        If the file may not be read at first, or is a folder. One that may not be read for a while after a rotation is
        waited for.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import follow
    >>> lines = follow("ada.txt", from_start=True)  # goes on for ever, as lines are appended
    >>> next(lines) is not None
    True
    """
    check_number(poll, "poll", without_low=True)
    path = Path(path)
    file: BinaryIO | None = _open(path)
    splitter = _Splitter()
    if file is not None and not from_start:
        if place is not None:
            place.number = _count_lines(file)
        splitter.skipping = _seek_end(file)
        if place is not None:
            place.number += splitter.skipping
    try:
        while True:
            data = file.read(CHUNK_BYTES) if file is not None else b""
            if data:
                yield from splitter.feed(data)
                if stop is not None and stop():
                    return
                continue
            replaced = _replaced(path, file)
            if replaced:
                if file is not None:
                    late = file.read(CHUNK_BYTES)  # written between the last look and the rotation
                    if late and replaced == "renamed":
                        yield from splitter.feed(late)
                        continue
                    yield from splitter.finish()
                    file.close()
                file = _open(path, again=True)
                if place is not None:
                    place.number = 0
                if file is not None:
                    continue
            yield None
            if stop is not None and stop():
                return
            time.sleep(poll)
    finally:
        if file is not None:
            file.close()


def _open(path: Path, again: bool = False) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        if again and isinstance(error, PermissionError):  # rotated: made first, given to its readers a moment later
            return None
        raise UnreadableError(f"{path}: cannot be read ({error.strerror})") from error


def _seek_end(file: BinaryIO) -> bool:
    """Go to the end; return whether that is within a line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 2))
    last = file.read(min(2, size)).rstrip(b"\0")  # in UTF-16 a NUL follows the end of the line
    return bool(last) and not last.endswith(b"\n")


def _count_lines(file: BinaryIO) -> int:
    return sum(data.count(b"\n") for data in iter(lambda: file.read(CHUNK_BYTES), b""))


def _replaced(path: Path, file: BinaryIO | None) -> str:
    """Say whether another file has taken the path ("renamed"), or the file has become shorter ("truncated")."""
    try:
        there = path.stat()
    except OSError:
        return ""  # between renaming and making anew
    if file is None:
        return "renamed"
    here = os.fstat(file.fileno())
    if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        return "renamed"
    return "truncated" if there.st_size < file.tell() else ""


class _Splitter:
    """Bytes in, lines out; the beginning of an unfinished line is kept, of a long line no more than `LINE_BYTES`."""

    def __init__(self) -> None:
        self.rest = b""
        self.skipping = False  # the first line, of which the beginning has not been seen

    def feed(self, data: bytes) -> Iterator[str]:
        if self.skipping:
            _, end, data = data.partition(b"\n")
            self.skipping = not end
        *whole, rest = data.split(b"\n")
        for part in whole:
            yield _text(self.rest + part[:LINE_BYTES])
            self.rest = b""
        self.rest += rest[: max(0, LINE_BYTES - len(self.rest))]

    def finish(self) -> Iterator[str]:
        if self.rest:
            yield _text(self.rest)
        self.rest = b""
        self.skipping = False


def _text(line: bytes) -> str:
    if b"\0" in line:  # without its NULs and its mark, UTF-16 of ASCII reads as ASCII
        line = line.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    return line[:LINE_BYTES].decode("utf-8", "replace").strip("\r\ufeff")


class Place:
    """Where a reader of a log is.

    Attributes
    ----------
    source : str
        The log.
    number : int
        The line, from 1.
    text : str
        Its text.
    """

    __slots__ = ("number", "source", "text")

    def __init__(self, source: str = "") -> None:
        self.source, self.number, self.text = source, 0, ""

    def watch(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Hand lines on, and know which one was the last."""
        for line in lines:
            if line is not None:
                self.number += 1
                self.text = line
            yield line


def check_is_log(path: Path) -> None:
    """Refuse what is no text.

    Raises
    ------
    UnreadableError
        If the file begins as another kind of file does, or a twentieth of its beginning are control characters.
    """
    with path.open("rb") as file:
        start = file.read(LOOKED_AT)
    what = next((what for mark, what in _OTHERS.items() if start.startswith(mark)), "")
    text = start.replace(b"\0", b"") if start.count(b"\0") * 5 > len(start) * 2 else start  # UTF-16
    controls = sum(text.count(bytes([code])) for code in range(32) if code not in b"\t\n\r\f\x1b\x07\x08")
    if not what and len(text) >= LEAST_TOLD and controls > MOST_CONTROLS * len(text):
        what = "a file of some program, not text"
    if what:
        raise UnreadableError(f"{path}: no log of commands: it looks like {what}")


def standard_input(*, poll: float = 0.5, stop: Callable[[], bool] | None = None) -> Iterator[Line]:
    """Yield the lines of standard input as they come, and None while there are none; arguments as in :func:`follow`."""
    splitter = _Splitter()
    number = sys.stdin.fileno()
    while stop is None or not stop():
        if not select.select([number], [], [], poll)[0]:
            yield None
            continue
        data = os.read(number, CHUNK_BYTES)
        if not data:
            break
        yield from splitter.feed(data)
    yield from splitter.finish()


def file_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file."""
    splitter = _Splitter()
    with path.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            yield from splitter.feed(data)
    yield from splitter.finish()
