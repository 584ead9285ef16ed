"""The lines of text files, of standard input, and of logs that grow.

Any bytes become text, and no more than 64 KiB of a line are kept.
"""

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

Line = str | None  # None: a followed log has nothing new at the moment

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


class CurrentLine:
    """Which line a reader of a log is at: the name of the log, the line number from 1, and the text of the line."""

    __slots__ = ("number", "source", "text")

    def __init__(self, source: str = "") -> None:
        self.source, self.number, self.text = source, 0, ""  # 0: no line has been read

    def watch(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the same lines, and record each as the current one before it is yielded.

        None, which stands for a moment in which a followed log has nothing new, is passed on but not counted.
        """
        for line in lines:
            if line is not None:
                self.number += 1
                self.text = line
            yield line


def follow(
    path: str | Path,
    *,
    poll: float = 0.5,
    stop: Callable[[], bool] | None = None,
    place: CurrentLine | None = None,
) -> Iterator[Line]:
    """Yield the lines of a growing log as they are written, and None at each poll that finds nothing new.

    After a rotation by renaming, the old file is read to its end, and then the new one from its start; after one by
    truncation, it is read from its start again. A file that grows beyond its old length between two polls cannot be
    told from one that has grown. `stop` is called at each poll, every `poll` seconds; the iteration ends when it
    returns True. Lines that exist already are left out; the line number of `place` is set to where the reading begins.
    Raises UnreadableError if the file cannot be read at first, or is a folder.
    """
    check_number(poll, "poll", without_low=True)  # > 0
    path = Path(path)
    file: BinaryIO | None = _open(path)  # None while the log does not exist
    splitter = _LineSplitter()
    if file is not None:
        if place is not None:
            place.number = _count_lines(file)
        splitter.skipping = _seek_end(file)
        if place is not None:
            place.number += splitter.skipping  # a line that is half written counts, although its rest is skipped
    try:
        while True:
            data = file.read(CHUNK_BYTES) if file is not None else b""
            if data:
                yield from splitter.feed(data)
                if stop is not None and stop():
                    return
                continue
            change = _rotation(path, file)
            if change:
                if file is not None:
                    late = file.read(CHUNK_BYTES)  # written between the last read and the rotation
                    if late and change == "renamed":
                        yield from splitter.feed(late)
                        continue
                    yield from splitter.finish()  # a last line without an end is complete now
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
    """Open a log; return None if it does not exist, or, after a rotation (`again`), may not be read yet."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        if again and isinstance(error, PermissionError):  # created first, given to its readers a moment later
            return None
        raise UnreadableError(f"{path}: cannot be read ({error.strerror})") from error


def _seek_end(file: BinaryIO) -> bool:
    """Go to the end of a file, and return whether this is in the middle of a line, one that is still being written."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 2))
    last = file.read(min(2, size)).rstrip(b"\0")  # in UTF-16 a NUL follows the end of the line
    return bool(last) and not last.endswith(b"\n")


def _count_lines(file: BinaryIO) -> int:
    """Return the number of line ends from the current position to the end of a file."""
    return sum(data.count(b"\n") for data in iter(lambda: file.read(CHUNK_BYTES), b""))


def _rotation(path: Path, file: BinaryIO | None) -> str:
    """Return "renamed" if another file is at the path now, "truncated" if the file is shorter, else an empty text."""
    try:
        there = path.stat()
    except OSError:
        return ""  # between renaming the old file and creating the new one
    if file is None:
        return "renamed"
    here = os.fstat(file.fileno())
    if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        return "renamed"
    return "truncated" if there.st_size < file.tell() else ""


class _LineSplitter:
    """Turns bytes into lines; keeps the beginning of an unfinished line, up to `LINE_BYTES`."""

    def __init__(self) -> None:
        """Begin at the start of a line; after a beginning within one, the caller sets `skipping` to leave it out."""
        self.rest = b""  # the beginning of a line whose end has not come
        # the first line is skipped, because its beginning was not seen
        self.skipping = False

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that `data` completes; `skipping` leaves out the rest of a line that was not begun here."""
        if self.skipping:
            _, end, data = data.partition(b"\n")
            self.skipping = not end  # the end of the skipped line may come with later data
        *whole, rest = data.split(b"\n")  # `self.rest` is the beginning of a line whose end had not come
        for part in whole:
            yield _text(self.rest + part[:LINE_BYTES])  # _text cuts the sum again
            self.rest = b""
        self.rest += rest[: max(0, LINE_BYTES - len(self.rest))]

    def finish(self) -> Iterator[str]:
        """Yield the last line if it has no line end, and reset the state for the next file."""
        if self.rest:  # empty while the rest of a line whose beginning was not seen is being skipped
            yield _text(self.rest)
        self.rest = b""
        self.skipping = False


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
