"""Tables of numbers: ``.npy``, ``.npz``, ``.csv`` and ``.parquet``, whole."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import MediaError, UnreadableError, UnsupportedError

from .archive import NUMBERS, check_directory, read_arrays
from .inputs import check_bytes, one_line, regular_file

__all__ = ["TABLE_SUFFIXES", "Table", "read_column", "read_tables"]

Array = NDArray[Any]

TABLE_SUFFIXES = (".npy", ".npz", ".csv", ".parquet")
MISSING = ("", "nan", "na", "null", "none")  # cells without a number, in small letters
PREFIX = "view_"  # of arrays that are views, in some collections
LABELS = "labels"


@dataclass(frozen=True)
class Table:
    """One matrix.

    Attributes
    ----------
    name : str
    X : ndarray of float [shape=(n_rows, n_columns)]
        NaN where a cell is empty.
    keys : list of str or None
        What the rows are called.
    labels : ndarray or None
        The array ``labels`` of a ``.npz`` file.
    """

    name: str
    X: Array
    keys: list[str] | None = None
    labels: Array | None = None


def read_tables(path: str | Path, *, key: str | None = None) -> list[Table]:
    """Read the matrices of a file.

    Parameters
    ----------
    path : str or Path
        ``.npy`` and ``.csv`` and ``.parquet`` hold one, ``.npz`` as many as it has arrays of two dimensions.
    key : str or None, default=None
        The column of a ``.csv`` or ``.parquet`` file, or the array of a ``.npz`` file, that says what the rows are
        called.

    Returns
    -------
    list of Table
        At least one.

    Raises
    ------
    UnreadableError
        If the file is missing or damaged, or has no such key.
    UnsupportedError
        If it holds no numbers, or is of another kind.
    TooLargeError
        If it has more than 1 GiB.
    """
    file = regular_file(path, "table")
    check_bytes(file, file.stat().st_size)
    suffix = file.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise UnsupportedError(f"{file}: must be one of {', '.join(TABLE_SUFFIXES)}, or a folder of images")
    try:
        if suffix == ".npz":
            return _read_npz(file, key)
        if suffix == ".npy":
            return [Table(file.stem, _numbers(np.load(file, allow_pickle=False, mmap_mode="r"), str(file)))]
        return [_read_csv(file, key) if suffix == ".csv" else _read_parquet(file, key)]
    except MediaError:
        raise
    except Exception as error:  # numpy, csv and pyarrow have many ways to say that a file is damaged
        raise UnreadableError(f"{file}: cannot be read ({one_line(error):.200})") from error


def read_column(path: str | Path, column: str | None = None) -> tuple[list[str], list[str] | None]:
    """Read a column of text, such as labels.

    Parameters
    ----------
    path : str or Path
        A ``.csv`` file, or a text file of a value a line.
    column : str or None, default=None
        None: the last one.

    Returns
    -------
    values : list of str
    keys : list of str or None
        The first column, where there are others.

    Raises
    ------
    UnreadableError
        If the file cannot be read, or has no such column.
    """
    file = regular_file(path, "table")
    check_bytes(file, file.stat().st_size)
    rows = _rows(file)
    header = rows[0] if column is not None else None
    if header is not None and column not in header:
        raise UnreadableError(f"{file}: has no column {column!r}; it has {', '.join(header[:10])}")
    place = -1 if header is None else header.index(str(column))
    body = rows if header is None else rows[1:]
    return [row[place] for row in body], [row[0] for row in body] if len(rows[0]) > 1 else None


def _numbers(array: Any, name: str) -> Array:
    if array.ndim != 2 or array.dtype.kind not in NUMBERS:
        raise UnsupportedError(f"{name}: must hold a matrix of numbers; got {array.dtype} of shape {array.shape}")
    return np.asarray(array, np.float32 if array.dtype == np.float32 else np.float64)


def _read_npz(file: Path, key: str | None) -> list[Table]:
    check_directory(file)
    with zipfile.ZipFile(file) as opened:
        names = [name.removesuffix(".npy") for name in opened.namelist() if name.endswith(".npy")]
    arrays = read_arrays(file, names)
    if key is not None and key not in arrays:
        raise UnreadableError(f"{file}: has no array {key!r}; it has {', '.join(names[:10])}")
    keys = None if key is None else [str(value) for value in arrays[key].tolist()]
    if {"X", "groups", "views"} <= set(arrays):  # what `visionnmf features` writes
        X, groups = _numbers(arrays["X"], f"{file}: X"), arrays["groups"]
        return [Table(str(name), X[:, groups == v], keys, arrays.get(LABELS)) for v, name in enumerate(arrays["views"])]
    views = {name: array for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in NUMBERS}
    named = {name: array for name, array in views.items() if name.startswith(PREFIX)} or views
    named.pop(LABELS, None)
    if not named:
        raise UnsupportedError(f"{file}: must hold a matrix of numbers; got {', '.join(names[:10]) or 'nothing'}")
    labels = arrays.get(LABELS)
    return [
        Table(name.removeprefix(PREFIX), _numbers(array, f"{file}: {name}"), keys, labels)
        for name, array in named.items()
    ]


def _rows(file: Path) -> list[list[str]]:
    with file.open(newline="", encoding="utf-8-sig", errors="strict") as text:
        try:
            rows = [row for row in csv.reader(text) if row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise UnreadableError(f"{file}: cannot be read ({one_line(error):.200})") from error
    if not rows:
        raise UnreadableError(f"{file}: has no rows")
    width = len(rows[0])
    odd = next((i for i, row in enumerate(rows) if len(row) != width), None)
    if odd is not None:
        raise UnreadableError(f"{file}: row {odd + 1} must have {width} cells as the first; got {len(rows[odd])}")
    return rows


def _read_csv(file: Path, key: str | None) -> Table:
    rows = _rows(file)
    has_header = key is not None or any(_is_text(cell) for cell in rows[0])
    header, body = (rows[0], rows[1:]) if has_header else ([str(i) for i in range(len(rows[0]))], rows)
    if key is not None and key not in header:
        raise UnreadableError(f"{file}: has no column {key!r}; it has {', '.join(header[:10])}")
    place = None if key is None else header.index(key)
    keys = None if place is None else [row[place] for row in body]
    columns = [i for i in range(len(header)) if i != place]
    X = np.empty((len(body), len(columns)))
    for i, row in enumerate(body):
        for j, column in enumerate(columns):
            cell = row[column].strip()
            if _is_text(cell):
                raise UnsupportedError(
                    f"{file}: row {i + 1 + has_header}, column {header[column]}: must be a number; got {cell:.40}"
                )
            X[i, j] = np.nan if cell.lower() in MISSING else float(cell)
    return Table(file.stem, X, keys)


def _is_text(cell: str) -> bool:
    if cell.strip().lower() in MISSING:
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _read_parquet(file: Path, key: str | None) -> Table:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UnsupportedError(f"{file}: reading it needs pyarrow; pip install 'visionnmf[parquet]'") from error
    check_bytes(file, sum(size.total_byte_size for size in _groups(parquet.ParquetFile(file))))
    table = parquet.read_table(file)
    if key is not None and key not in table.column_names:
        raise UnreadableError(f"{file}: has no column {key!r}; it has {', '.join(islice(table.column_names, 10))}")
    keys = None if key is None else [str(value) for value in table.column(key).to_pylist()]
    names = [name for name in table.column_names if name != key]
    columns = [np.asarray(table.column(name).to_numpy()) for name in names]
    odd = next((name for name, column in zip(names, columns, strict=True) if column.dtype.kind not in NUMBERS), None)
    if odd is not None:
        raise UnsupportedError(f"{file}: column {odd:.40} must hold numbers; name it as the key where it is one")
    return Table(file.stem, np.column_stack([column.astype(np.float64) for column in columns]), keys)


def _groups(file: Any) -> list[Any]:
    return [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
