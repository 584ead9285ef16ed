"""The lines of text files and of standard input.

Any bytes become text, and no more than 64 KiB of a line are kept.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from visionnmf.exceptions import UnreadableError

Line = str | None  # None: standard input has nothing new at the moment

LINE_BYTES = 1 << 16  # kept of a line
CHUNK_BYTES = 1 << 18
EXAMINED_BYTES = 4096  # of the beginning of a file, to recognise that it is not text ...
MAX_CONTROL_SHARE = 0.05  # ... by its share of control characters ...
MIN_EXAMINED = 1000  # ... if it has at least so many characters
# How pictures, archives, compressed files, documents, programs, databases and journals of systemd begin.
_OTHER_FILES = (
    *(b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"),
    *(b"\x28\xb5\x2f\xfd", b"%PDF-", b"\x7fELF", b"SQLite format 3\x00", b"LPKSHHRH"),
)


class _LineSplitter:
    """Turns bytes into lines; keeps the beginning of an unfinished line, up to `LINE_BYTES`."""

    def __init__(self) -> None:
        self.rest = b""  # the beginning of a line whose end has not come

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that `data` completes."""
        *whole, rest = data.split(b"\n")  # `self.rest` is the beginning of a line whose end had not come
        for part in whole:
            yield _text(self.rest + part[:LINE_BYTES])  # _text cuts the sum again
            self.rest = b""
        self.rest += rest[: max(0, LINE_BYTES - len(self.rest))]

    def finish(self) -> Iterator[str]:
        """Yield the last line if it has no line end."""
        if self.rest:
            yield _text(self.rest)


def _text(line: bytes) -> str:
    """Return a line as text, also if it is UTF-16 of ASCII characters."""
    if b"\0" in line:  # UTF-16 of ASCII characters reads as ASCII without its NULs and byte order mark
        line = line.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    return line[:LINE_BYTES].decode("utf-8", "replace").strip("\r\ufeff")


def check_is_text(path: Path) -> None:
    """Raise UnreadableError if a file begins like a file of another kind, or has too many control characters."""
    with path.open("rb") as file:
        start = file.read(EXAMINED_BYTES)
    # In UTF-16 of ASCII characters every second byte is NUL; with more than 40 % of them, NULs are not counted.
    text = start.replace(b"\0", b"") if start.count(b"\0") * 5 > len(start) * 2 else start  # UTF-16
    controls = sum(text.count(bytes([code])) for code in range(32) if code not in b"\t\n\r\f\x1b\x07\x08")
    if start.startswith(_OTHER_FILES) or (len(text) >= MIN_EXAMINED and controls > MAX_CONTROL_SHARE * len(text)):
        raise UnreadableError(f"{path}: not a text file; unpack it first if it is compressed")


def standard_input(*, poll: float = 0.5, stop: Callable[[], bool] | None = None) -> Iterator[Line]:
    """Yield the lines of standard input, and None after each `poll` seconds without any, until `stop()` is true."""
    splitter = _LineSplitter()
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
    splitter = _LineSplitter()
    with path.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            yield from splitter.feed(data)
    yield from splitter.finish()
