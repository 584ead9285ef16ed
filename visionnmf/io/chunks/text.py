"""Rows of numbers as lines of text, from a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import TooLargeError, UnreadableError
from visionnmf.io.inputs import regular_file

from .base import Sequential

__all__ = ["LONGEST_LINE", "TextRows"]

Array = NDArray[Any]

LONGEST_LINE = 16 << 20  # bytes: a million numbers
STANDARD_INPUT = "-"
SHOWN = 20  # characters of what is no number


class TextRows(Sequential):
    """Lines of numbers, divided by commas, semicolons, tabulators or blanks.

    Empty lines and those that begin with ``#`` are passed over, and so is a first line without a number: the names of
    the columns.

    Parameters
    ----------
    path : str or Path
        A file; ``"-"`` is standard input, which can be read but once.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._path = None if str(path) == STANDARD_INPUT else regular_file(path, "table")
        self.name = "standard input" if self._path is None else str(path)
        self.repeatable = self._path is not None

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        if self._path is None:
            yield sys.stdin.buffer
            return
        with self._path.open("rb") as file:
            yield file

    def pieces(self, size: int) -> Iterator[Array]:
        """Yield rows as they come; see :meth:`Sequential.pieces`.

        Parameters
        ----------
        size : int

        Yields
        ------
        ndarray [shape=(n, n_features)]

        Raises
        ------
        UnreadableError
            If a line holds what is no number, or another number of them than the first.
        TooLargeError
            If a line has more than 16 MiB.
        """
        rows: list[list[float]] = []
        with self._opened() as file:
            for row in self._rows(file):
                rows.append(row)
                if len(rows) == size:
                    yield np.array(rows)
                    rows = []
        if rows:
            yield np.array(rows)

    def _rows(self, file: BinaryIO) -> Iterator[list[float]]:
        width, number = 0, 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise TooLargeError(f"{self.name}: line {number} has more than {LONGEST_LINE >> 20} MiB")
            fields = _fields(line)
            if not fields or fields[0].startswith(b"#"):
                continue
            if not width and not any(map(_is_number, fields)):
                width = len(fields)  # the names of the columns
                continue
            row = self._numbers(fields, number)
            if width and len(row) != width:
                raise UnreadableError(f"{self.name}: line {number} has {len(row)} fields, those before have {width}")
            width = len(row)
            yield row

    def _numbers(self, fields: list[bytes], number: int) -> list[float]:
        try:
            return [float(field) for field in fields]
        except ValueError:
            odd = next(field for field in fields if not _is_number(field))
            text = odd.decode("utf-8", "replace")[:SHOWN]
            raise UnreadableError(f"{self.name}: line {number}: {text!r} is not a number") from None


def _fields(line: bytes) -> list[bytes]:
    """Split a line at its commas, else at its semicolons, else where it is blank."""
    line = line.removeprefix(b"\xef\xbb\xbf").strip()
    for comma in (b",", b";"):
        if comma in line:
            return [field.strip() for field in line.split(comma)]
    return line.split()


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
