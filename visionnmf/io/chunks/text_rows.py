"""Rows of numbers as lines of text, from a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import TooLargeError, UnreadableError
from visionnmf.io.inputs import regular_file

from .base import Sequential

Array = NDArray[Any]

LONGEST_LINE = 16 << 20  # bytes: about a million numbers
STANDARD_INPUT = "-"
QUOTED = 20  # characters that a message quotes of a field that is not a number


class TextRows(Sequential):
    """Lines of numbers, separated by commas, semicolons, tabs or blanks; ``"-"`` is standard input.

    Empty lines, lines that begin with ``#``, and a first line without a number, the names of columns, are passed over.
    """

    def __init__(self, path: str | Path) -> None:
        """Take the file `path`, or standard input for "-", which can be read only once (`repeatable` is then false)."""
        super().__init__()
        # The file; None stands for standard input.
        self._path = None if str(path) == STANDARD_INPUT else regular_file(path, "table")
        self.name = "standard input" if self._path is None else str(path)
        self.repeatable = self._path is not None

    def pieces(self, size: int) -> Iterator[Array]:
        """Yield arrays (`size`, n_features) of the next lines as they come; the last one may have fewer rows."""
        rows: list[list[float]] = []
        with nullcontext(sys.stdin.buffer) if self._path is None else self._path.open("rb") as file:
            for row in self._rows(file):
                rows.append(row)
                if len(rows) == size:
                    yield np.array(rows)
                    rows = []
        if rows:
            yield np.array(rows)

    def _rows(self, file: BinaryIO) -> Iterator[list[float]]:
        """Yield the numbers of each line, except empty lines, comments and one line with the names of the columns."""
        width, number = 0, 0  # the number of columns, 0 until it is known, and the number of the line, from 1
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise TooLargeError(f"{self.name}: line {number} has more than {LONGEST_LINE >> 20} MiB")
            fields = _fields(line)
            if not fields or fields[0].startswith(b"#"):
                continue
            if not width and not any(map(_is_number, fields)):
                width = len(fields)  # this line names the columns
                continue
            row = self._numbers(fields, number)
            if width and len(row) != width:
                raise UnreadableError(f"{self.name}: line {number} has {len(row)} fields, those before have {width}")
            width = len(row)
            yield row

    def _numbers(self, fields: list[bytes], number: int) -> list[float]:
        """Return the fields of a line as numbers; raise UnreadableError with the number of the line."""
        try:
            return [float(field) for field in fields]
        except ValueError:
            odd = next(field for field in fields if not _is_number(field))
            text = odd.decode("utf-8", "replace")[:QUOTED]
            raise UnreadableError(f"{self.name}: line {number}: {text!r} is not a number") from None


def _fields(line: bytes) -> list[bytes]:
    """Split a line at commas; if it has none, at semicolons; if it has none either, at blanks."""
    line = line.removeprefix(b"\xef\xbb\xbf").strip()  # the byte order mark of UTF-8, with which files may begin
    for comma in (b",", b";"):
        if comma in line:
            return [field.strip() for field in line.split(comma)]
    return line.split()


def _is_number(field: bytes) -> bool:
    """Return whether a field of a line is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True
