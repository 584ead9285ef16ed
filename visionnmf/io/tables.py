"""Read tables of numbers (``.npy``, ``.npz``, ``.csv``, ``.parquet``), and write CSV."""

from __future__ import annotations

import csv
import math
import re
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, TooLargeError, UnreadableError, UnsupportedError, installed_by

from .inputs import MAX_BYTES, check_bytes, regular_file
from .npz_files import NUMBERS, check_directory, read_arrays
from .outputs import output_file

Array = NDArray[Any]

TABLE_SUFFIXES = (".npy", ".npz", ".csv", ".parquet")
MISSING = ("", "nan", "na", "null", "none")  # texts of cells without a number, in small letters
PREFIX = "view_"  # of the names of arrays that are views, in some collections
LABELS = "labels"
MOST_NUMBERS = MAX_BYTES // 8  # of a text file or packed columns, where a number may take one byte or less
MOST_TEXT = 256 << 20  # bytes of memory for the keys or labels of a file
LONGEST_NAME = 200  # of an array
TEXT_BYTES = 64  # of memory that a text takes besides its letters
LONGEST_ROW = 16 << 20  # letters: a million numbers
ROWS = 4096  # of keys that are read together
# Spreadsheets take a text that begins with one of these for a formula. A leading apostrophe makes it text; one that is
# there already is doubled, so that reading can take one off again.
FORMULA = re.compile("'*[=+\\-@\\t\\r\\n]")


@dataclass(frozen=True)
class Table:
    """One matrix of a table, with NaN where a cell is empty; what its rows are called, and the array ``labels``."""

    name: str
    X: Array
    keys: list[str] | None = None
    labels: Array | None = None


def read_tables(path: str | Path, *, key: str | None = None) -> list[Table]:
    """Read the matrices of a ``.npy``, ``.csv``, ``.parquet`` or ``.npz`` file; an ``.npz`` file can hold several.

    `key` is the column, or array, that names the rows. Raises a MediaError if the file is damaged, too large, has no
    such key, or holds no finite numbers.
    """
    file = regular_file(path, "table")
    check_bytes(file, file.stat().st_size)
    suffix = file.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise UnsupportedError(f"{file}: must be one of {', '.join(TABLE_SUFFIXES)}, or a folder of images")
    try:
        found = _read(file, suffix, key)
    except MediaError:
        raise
    except Exception as error:  # numpy, csv and pyarrow raise many kinds of errors on damaged files
        reason = one_line(error).split(" To allow loading")[0]  # numpy advises to trust the file
        raise UnreadableError(f"{file}: cannot be read ({reason:.200})") from error
    for table in found:
        name = f"{file}: {table.name}" if suffix == ".npz" else str(file)
        if not table.X.size:
            raise UnreadableError(f"{name}: must hold a number at least; got a matrix of shape {table.X.shape}")
        if np.isinf(table.X).any():
            raise UnsupportedError(f"{name}: must hold finite numbers, NaN where one is missing; got infinity")
    return found


def _read(file: Path, suffix: str, key: str | None) -> list[Table]:
    """Read the tables of a file of the kind `suffix`; `key` names the column or array that names the rows."""
    if suffix == ".npz":
        return _read_npz(file, key)
    if suffix == ".npy":
        with np.errstate(over="ignore"):  # also for a size that is refused
            array = np.load(file, allow_pickle=False, mmap_mode="r")
        return [Table(file.stem, _numbers(array, str(file)))]  # without keys and labels of rows
    return [_read_csv(file, key) if suffix == ".csv" else _read_parquet(file, key)]


def read_column(path: str | Path, column: str | None = None) -> tuple[list[str], list[str] | None]:
    """Read a column of text of a ``.csv`` file, the last one by default, or a text file with one value a line.

    Returns the values, and the first column as keys if there are several columns.
    """
    file = regular_file(path, "table")
    check_bytes(file, file.stat().st_size)
    rows = _rows(file)
    first = next(rows)  # the names of the columns if `column` is given; otherwise a row like the others
    if column is not None and column not in first:
        raise UnreadableError(f"{file}: has no column {column!r}; it has {_listed(first)}")
    place = -1 if column is None else first.index(column)
    values, keys = _Texts(file), _Texts(file)
    for row in rows if column is not None else chain([first], rows):
        values.add(row[place])
        keys.add(row[0])
    return values.values, keys.values if len(first) > 1 else None


def write_csv(path: str | Path, rows: Iterable[Iterable[Any]], *, force: bool = False, verbatim: bool = False) -> None:
    """Write a table as a CSV file, whole or not at all, that a spreadsheet opens without running anything.

    A text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break would be taken for a formula, so it gets a
    leading apostrophe. Numbers stay as they are, also where they come as text. Tables that visionnmf reads are read
    without these apostrophes.

    Parameters
    ----------
    path : str or Path
        The file. Its encoding is UTF-8; names of files that are not keep their bytes.
    rows : iterable of iterable
        Texts and numbers; the first row names the columns.
    force : bool, default=False
        Whether an existing file may be replaced.
    verbatim : bool, default=False
        Write every text as it is, for programs that are not spreadsheets.

    Raises
    ------
    OutputExistsError, MediaError
        If the file exists and `force` is false, or cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from visionnmf.io import write_csv
    >>> write_csv("table.csv", [("file", "score"), ("=1+1.png", -0.5)], force=True)
    >>> Path("table.csv").read_text().splitlines()
    ['file,score', "'=1+1.png,-0.5"]
    """
    with (
        output_file(path, force=force) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        csv.writer(file).writerows(rows if verbatim else (map(_cell, row) for row in rows))


def _cell(value: Any) -> Any:
    """Return a value for a CSV file, with an apostrophe before text that a spreadsheet would run as a formula."""
    # a number such as "-1" stays; apostrophes before such a sign get another one, because reading takes one off
    if isinstance(value, str) and FORMULA.match(value) and (value[0] == "'" or _number(value) is None):
        return f"'{value}"
    return value


def text_of_cell(cell: str) -> str:
    """Return the text that `write_csv` wrote as this cell, with an apostrophe before what spreadsheets take for code.

    FORMULA matches such text, and any apostrophes before it; one is taken off.
    """
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def _shown(name: str) -> str:
    """Return a text of the file, shortened and on one line."""
    return f"{' '.join(name[:LONGEST_NAME].split()):.40}"


def _listed(names: Sequence[str]) -> str:
    """Return the first ten names for a message, shortened."""
    return ", ".join(map(_shown, names[:10]))


def _numbers(given: Any, name: str) -> Array:
    """Return a matrix as float32 or float64; raise UnsupportedError if it is not one of numbers."""
    if given.ndim != 2 or given.dtype.kind not in NUMBERS:
        cure = "; make rows of it by reshape(len(array), -1)" if given.ndim > 2 else ""
        raise UnsupportedError(f"{name}: must hold a matrix of numbers; got {given.dtype} of shape {given.shape}{cure}")
    return np.asarray(given, np.float32 if given.dtype == np.float32 else np.float64)


def _read_npz(file: Path, key: str | None) -> list[Table]:
    """Read the tables of a ``.npz`` file, one a matrix; `key` is the array that names the rows, or None."""
    check_directory(file)
    with zipfile.ZipFile(file) as opened:
        names = [name.removesuffix(".npy") for name in opened.namelist() if name.endswith(".npy")]
    arrays = read_arrays(file, names)
    if key is not None and key not in arrays:
        raise UnreadableError(f"{file}: has no array {key!r}; it has {_listed(names)}")
    keys = None if key is None else _array_keys(arrays.pop(key), key, file)
    labels = arrays.pop(LABELS, None)
    if {"X", "groups", "views"} <= set(arrays):  # what `visionnmf features` writes
        X, groups, views = _numbers(arrays["X"], f"{file}: X"), arrays["groups"], arrays["views"]
        if groups.shape != X.shape[1:] or views.ndim != 1 or len(views) > len(groups):
            raise UnreadableError(f"{file}: its groups and views do not fit X, of shape {X.shape}")
        # `groups` (n_columns,) holds the number of the view that each column of X belongs to.
        return [_table(str(name), X[:, groups == v], keys, labels, file) for v, name in enumerate(views)]
    found = {name: array for name, array in arrays.items() if array.ndim >= 2 and array.dtype.kind in NUMBERS}
    # If some matrices have names that begin with "view_", only those are tables. Arrays of more axes are refused below,
    # if no matrix is there in their place.
    named = {name: array for name, array in found.items() if name.startswith(PREFIX)}
    named = named or {name: array for name, array in found.items() if array.ndim == 2} or found
    if not named:
        raise UnsupportedError(f"{file}: must hold a matrix of numbers; got {', '.join(names[:10]) or 'nothing'}")
    return [
        _table(name.removeprefix(PREFIX), _numbers(array, f"{file}: {name}"), keys, labels, file)
        for name, array in named.items()
    ]


def _array_keys(names: Array, key: str, file: Path) -> list[str]:
    """Return the keys of the rows as texts, from the array called `key`."""
    if names.ndim != 1:
        raise UnreadableError(f"{file}: {key} must name the rows; got an array of shape {names.shape}")
    keys = _Texts(file)  # refuses more texts than may come into memory
    keys.check(names.size)
    for value in names:
        keys.add(str(value))
    return keys.values


def _table(name: str, X: Array, keys: list[str] | None, labels: Array | None, file: Path) -> Table:
    """Return a table after checking its name and that there is a key for each row of `X`."""
    if not name.isprintable() or len(name) > LONGEST_NAME:  # because it appears in messages
        raise UnreadableError(f"{file}: names must be printable, of at most {LONGEST_NAME} letters; got {name!r:.60}")
    if keys is not None and len(keys) != len(X):
        raise UnreadableError(f"{file}: {name}: must have {len(keys)} rows, one for each key; got {len(X)}")
    return Table(name, X, keys, labels)


class _Texts:
    """A list of texts of a file that is bounded in memory; `values` holds them."""

    def __init__(self, file: Path) -> None:
        """Begin with an empty list of texts from `file`, which is named in messages."""
        self.values: list[str] = []
        # The file, for messages, and the memory that the texts take in bytes: TEXT_BYTES each, and their letters.
        self._file, self._size = file, 0

    def add(self, text: str) -> None:
        """Append a text, and add the memory that it takes to `_size`; raise TooLargeError if there is no room."""
        self.check(1, len(text))
        self._size += TEXT_BYTES + len(text)
        self.values.append(text)

    def check(self, count: int, letters: int = 0) -> None:
        """Raise TooLargeError if there is no room for `count` more texts of `letters` letters in all."""
        if self._size + TEXT_BYTES * count + letters > MOST_TEXT:  # `_size`: bytes of the texts so far
            raise TooLargeError(f"{self._file}: has keys or labels of more than {MOST_TEXT >> 20} MiB")


def _rows(file: Path) -> Iterator[list[str]]:
    """Yield the non-empty rows of a ``.csv`` file, all of one width. A row's length is limited, as it is in memory."""
    count = width = letters = 0  # rows so far, cells of the first row, letters of the current row

    def lines() -> Iterator[str]:
        """Yield the lines of the file, and raise as soon as a row, which may span several lines, is too long."""
        nonlocal letters  # of the current row, which can have several lines; the loop below sets it to 0 after a row
        while line := text.readline(LONGEST_ROW + 1 - letters):
            letters += len(line)
            if letters > LONGEST_ROW:
                raise TooLargeError(f"{file}: has a row of more than {LONGEST_ROW >> 20} MiB")
            yield line

    with file.open(newline="", encoding="utf-8-sig", errors="strict") as text:
        try:
            for row in csv.reader(lines()):
                letters = 0
                if not row:
                    continue
                count, width = count + 1, width or len(row)
                if len(row) != width:
                    raise UnreadableError(f"{file}: row {count} must have {width} cells as the first; got {len(row)}")
                yield [text_of_cell(cell) for cell in row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise UnreadableError(f"{file}: cannot be read ({one_line(error):.200})") from error
    if not count:
        raise UnreadableError(f"{file}: has no rows")


def _read_csv(file: Path, key: str | None) -> Table:
    """Read a CSV file, whose first row is a header if there is a `key` column or one of its cells is not a number."""
    rows = _rows(file)
    first = next(rows)
    has_header = key is not None or any(_number(cell) is None for cell in first)
    header, body = (first, rows) if has_header else ([str(i) for i in range(len(first))], chain([first], rows))
    if key is not None and key not in header:
        raise UnreadableError(f"{file}: has no column {key!r}; it has {_listed(header)}")
    place = None if key is None else header.index(key)
    columns = [i for i in range(len(header)) if i != place]
    # Numbers are collected in one flat array, which takes 8 bytes each instead of the 24 of a Python float.
    keys, numbers, count = _Texts(file), array("d"), 0
    for row in body:
        count += 1
        if place is not None:
            keys.add(row[place])
        for column in columns:
            number = _number(row[column])
            if number is None:
                cure = "; if this column names the samples, give it as the key" if key is None else ""
                raise UnsupportedError(
                    f"{file}: row {count + has_header}, column {_shown(header[column])}: must be a number; got "
                    f"{_shown(row[column])}{cure}"
                )
            numbers.append(number)
        _check_size(file, len(numbers))
    X = np.frombuffer(numbers, np.float64).reshape(count, len(columns)) if numbers else np.empty((count, len(columns)))
    return Table(file.stem, X, None if place is None else keys.values)


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN if it is empty, None if it is text."""
    try:
        return float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in MISSING else None


def _check_size(file: Path, numbers: int) -> None:
    """Raise TooLargeError if a text file or packed columns hold too many numbers."""
    if numbers > MOST_NUMBERS:
        raise TooLargeError(f"{file}: has more than {MOST_NUMBERS} numbers; write them as .npy")


def _read_parquet(file: Path, key: str | None) -> Table:
    """Read a Parquet file column by column; its size is checked from its metadata before anything is decoded."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UnsupportedError(f"{file}: reading it needs pyarrow; {installed_by('parquet')}") from error
    opened = parquet.ParquetFile(file)
    metadata, schema = opened.metadata, opened.schema_arrow
    check_bytes(file, sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)))
    if key is not None and key not in schema.names:
        raise UnreadableError(f"{file}: has no column {key!r}; it has {_listed(schema.names)}")
    names = [name for name in schema.names if name != key]
    for name in names:
        if not _is_numeric(schema.field(name).type):
            raise UnsupportedError(f"{file}: column {_shown(name)} must hold numbers; name it as the key if it is one")
    if key is not None and schema.field(key).type.num_fields:
        raise UnsupportedError(f"{file}: column {_shown(key)} must hold texts or numbers; got {schema.field(key).type}")
    _check_size(file, metadata.num_rows * len(names))  # equal numbers take no space in the file
    table = opened.read(columns=names, use_threads=False)
    X = np.empty((metadata.num_rows, len(names)))
    for j, name in enumerate(names):
        X[:, j] = table.column(name).to_numpy()
    return Table(file.stem, X, None if key is None else _parquet_keys(file, key))


def _is_numeric(kind: Any) -> bool:
    """Return whether a type of Arrow can be read as numbers."""
    import pyarrow

    types = pyarrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _parquet_keys(file: Path, key: str) -> list[str]:
    """Return the values of the column `key` as texts, read in batches."""
    from pyarrow import parquet

    opened = parquet.ParquetFile(file, read_dictionary=[key])  # a long text that is repeated is kept once
    keys = _Texts(file)  # a list that raises TooLargeError before it takes too much memory
    for batch in opened.iter_batches(ROWS, columns=[key], use_threads=False):
        for value in batch.column(0):
            keys.add(str(value.as_py()))
    return keys.values
