"""Read tables of numbers (``.npy``, ``.npz``, ``.csv``, ``.parquet``), and write CSV."""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from visionnmf._typing import Array
from visionnmf.exceptions import UnreadableError, UnsupportedError, installed_by

from .decoding import apart
from .inputs import check_bytes, in_utf8, regular_file
from .npz_files import NUMBERS, read_arrays
from .outputs import output_file

TABLE_SUFFIXES = (".npy", ".npz", ".csv", ".parquet")
MISSING = ("", "nan", "na", "null", "none")  # texts of cells without a number, in small letters
PREFIX = "view_"  # of the names of arrays that are views, in some collections
LABELS = "labels"
LONGEST_NAME = 200  # of an array
SAMPLE_ROWS = 20  # of a CSV file that show its form
SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas"}
FEW_COLUMNS = 3  # of whole numbers, where a first row 0, 1, 2 may be a sample
LEAST_CELLS = 2  # fractions by which numbers with decimal commas are recognised
IDENTIFIERS = ("id", "index", "no", "nr", "number", "sample", "row")  # names of columns that are no features
INDEX = "Unnamed: "  # how pandas names a column without a name
WHOLE = re.compile("[+-]?[0-9]+")
WORDS = re.compile(r"[^\W\d]\s*[;,|]\s*[^\W\d]")  # in a cell with several
COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
# Spreadsheets take a text that begins with one of these for a formula. A leading apostrophe makes it text; one that is
# there already is doubled, so that reading can take one off again.
FORMULA = re.compile("'*[=+\\-@\\t\\r\\n]")


@dataclass(frozen=True)
class Table:
    """One matrix of a table, with NaN where a cell is empty; what its rows are called, and the array ``labels``.

    `columns` are the names of its columns, if the file has some, without that of the keys. `note` says what was taken
    for granted about a CSV file.
    """

    name: str
    X: Array
    keys: list[str] | None = None
    labels: Array | None = None
    columns: list[str] | None = None
    note: str = ""


@apart
def read_tables(path: str | Path, *, key: str | None = None) -> list[Table]:
    """Read the matrices of a ``.npy``, ``.csv``, ``.parquet`` or ``.npz`` file; an ``.npz`` file can hold several.

    `key` is the column, or array, that names the rows. Separator, decimal mark, header and the index that pandas writes
    are found in a CSV file. Raises a MediaError if the file is damaged, ambiguous or too large, has no such key, or
    holds no finite numbers.
    """
    file = regular_file(path, "table")
    check_bytes(file, file.stat().st_size)
    suffix = file.suffix.lower()
    if suffix == ".npz":
        found = _read_npz(file, key)
    elif suffix == ".npy":
        found = [Table(file.stem, _numbers(np.load(file, allow_pickle=False), str(file)))]
    elif suffix == ".csv":
        with in_utf8(file):
            found = [_read_csv(file, key)]
    elif suffix == ".parquet":
        found = [_read_parquet(file, key)]
    else:
        raise UnsupportedError(f"{file}: must be one of {', '.join(TABLE_SUFFIXES)}, or a folder of images")
    for table in found:
        name = f"{file}: {table.name}" if suffix == ".npz" else str(file)
        if not table.X.size:
            raise UnreadableError(f"{name}: must hold a number at least; got a matrix of shape {table.X.shape}")
        if np.isinf(table.X).any():
            raise UnsupportedError(f"{name}: must hold finite numbers, NaN where one is missing; got infinity")
    return found


@apart
def read_column(path: str | Path, column: str | None = None) -> tuple[list[str], list[str] | None]:
    """Read a column of text of a ``.csv`` file, the last one by default, or a text file with one value a line.

    Returns the values, and the first column as keys if there are several columns.
    """
    file = regular_file(path, "table")
    check_bytes(file, file.stat().st_size)
    with in_utf8(file):
        frame = _frame(file, _form_of(file), header=None, dtype=str, na_filter=False)
    rows = [[text_of_cell(cell) for cell in row] for row in frame.to_numpy().tolist()]
    place = -1
    if column is not None:
        first, *rows = rows
        if column not in first:
            raise UnreadableError(f"{file}: has no column {column!r}; it has {_listed(first)}")
        place = first.index(column)
    several = frame.shape[1] > 1
    return [row[place] for row in rows], [row[0] for row in rows] if several else None


def write_csv(path: str | Path, rows: Iterable[Iterable[Any]], *, force: bool = False) -> None:
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
        csv.writer(file).writerows(map(_cell, row) for row in rows)


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
    arrays = read_arrays(file)
    names = list(arrays)
    if key is not None and key not in arrays:
        raise UnreadableError(f"{file}: has no array {key!r}; it has {_listed(names)}")
    keys = None
    if key is not None:
        values = arrays.pop(key)
        if values.ndim != 1:
            raise UnreadableError(f"{file}: {key} must name the rows; got an array of shape {values.shape}")
        keys = list(map(str, values))
    labels = arrays.pop(LABELS, None)
    if {"X", "groups", "views"} <= set(arrays):  # what `visionnmf features` writes
        X, groups, views = _numbers(arrays["X"], f"{file}: X"), arrays["groups"], arrays["views"]
        if groups.shape != X.shape[1:] or views.ndim != 1 or len(views) > len(groups):
            raise UnreadableError(f"{file}: its groups and views do not fit X, of shape {X.shape}")
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


def _table(name: str, X: Array, keys: list[str] | None, labels: Array | None, file: Path) -> Table:
    """Return a table after checking its name and that there is a key for each row of `X`."""
    if not name.isprintable() or len(name) > LONGEST_NAME:  # because it appears in messages
        raise UnreadableError(f"{file}: names must be printable, of at most {LONGEST_NAME} letters; got {name!r:.60}")
    if keys is not None and len(keys) != len(X):
        raise UnreadableError(f"{file}: {name}: must have {len(keys)} rows, one for each key; got {len(X)}")
    return Table(name, X, keys, labels)


# --- tables of pandas -------------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """The form of a CSV file: separator, decimal mark, and the first rows, of which the first may be the header."""

    separator: str
    decimal: str
    rows: list[list[str]]


def _form_of(file: Path) -> _Form:
    """Return the form in which all first rows have the same width and most cells are numbers."""
    forms = [_Form(separator, ",", list(islice(_rows(file, separator), SAMPLE_ROWS))) for separator in SEPARATORS]
    if not forms[-1].rows:
        raise UnreadableError(f"{file}: has no rows")

    def fit(form: _Form) -> tuple[float, int]:
        """Return the share of numbers among the cells, and the width; less than nothing for rows that differ."""
        widths = {len(row) for row in form.rows}
        cells = [cell for row in form.rows for cell in row]
        numbers = sum(_number(cell, ".") is not None or _number(cell, ",") is not None for cell in cells)
        return (numbers / len(cells), max(widths)) if len(widths) == 1 and max(widths) > 1 else (-1.0, 0)

    form = max(reversed(forms), key=fit)  # the first of equal ones is that of commas
    if form.separator == "," and _is_divided(form.rows):
        raise UnreadableError(
            f"{file}: commas seem to be decimal marks (1,05 for 1.05) and separate columns; write decimal points, or "
            "semicolons between columns"
        )
    commas = any(COMMA_NUMBER.fullmatch(cell.strip()) for row in form.rows for cell in row)
    return form._replace(decimal="," if commas else ".")


def _is_divided(rows: list[list[str]]) -> bool:
    """Return whether commas seem to be decimal marks as well, so that 1.05 and -2.5 are four cells: 1,05,-2,5."""
    width = max(map(len, rows))
    body = rows if len(rows[0]) == width else rows[1:]  # the header has a name for each number
    left, right = ([cell.strip() for row in body for cell in row[side::2]] for side in (0, 1))
    if width % 2 or len(right) < LEAST_CELLS or not all(map(WHOLE.fullmatch, left)):
        return False
    if len({len(row) for row in body}) > 1 or not all(map(str.isdecimal, right)):
        return False
    if body is not rows:
        return 2 * len(rows[0]) == width
    # whole numbers do not begin with 0, but fractions do
    return [any(re.match("[+-]?0[0-9]", cell) for cell in side) for side in (left, right)] == [False, True]


def _rows(file: Path, separator: str) -> Iterator[list[str]]:
    """Yield the rows of a CSV file that are not empty."""
    with file.open(newline="", encoding="utf-8-sig") as text:
        yield from filter(None, csv.reader(text, delimiter=separator, skipinitialspace=True))


def _frame(file: Path, form: _Form, **options: Any) -> Any:
    """Read a CSV file as a data frame, whose rows have all the same number of cells."""
    import pandas as pd

    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # later versions always read the nearest number
        options["float_precision"] = "round_trip"
    width = len(form.rows[0])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # about cells that the header does not name
            frame = pd.read_csv(
                file, sep=form.separator, decimal=form.decimal, encoding="utf-8-sig", index_col=False, **options
            )
        last = frame.iloc[:, -1]
        doubtful = frame.shape[1] != width or last.isna().any() or (last == "").any()  # pandas fills short rows up
    except (pd.errors.ParserWarning, pd.errors.ParserError):  # of rows that are too long, among the first or later
        frame, doubtful = None, True
    for number, row in enumerate(_rows(file, form.separator) if doubtful else (), 1):
        if len(row) != width:
            cure = f"; put texts that hold {SEPARATORS[form.separator]} in quotes" if len(row) > width else ""
            raise UnreadableError(f"{file}: row {number} must have {width} cells as the first; got {len(row)}{cure}")
    if frame is None:
        raise UnreadableError(f"{file}: its rows cannot be told apart; look for a quote that is not closed")
    return frame


def _read_csv(file: Path, key: str | None) -> Table:
    """Read a CSV file, after finding out whether its first row is a header."""
    form = _form_of(file)
    found = [SEPARATORS[form.separator]] if form.separator != "," else []
    found += ["decimal commas"] if form.decimal == "," else []
    first = form.rows[0]
    named = any(_number(cell, form.decimal) is None for cell in first)
    if not named and _names_columns(form, file):
        named = True
        found.append(f"the first row, {', '.join(first[:3])}..., as names of columns")
    if key is not None and not named:
        raise UnreadableError(f"{file}: its first row holds numbers, so no column is called {key!r}; name them there")
    missing = [text for each in MISSING for text in {each, each.upper(), each.title(), "NaN"}]
    options: dict[str, Any] = {"converters": {first.index(key): str}} if key is not None and key in first else {}
    frame = _frame(
        file,
        form,
        header=0 if named else None,
        skipinitialspace=True,
        keep_default_na=False,
        na_values=missing,
        **options,
    )
    frame.columns = [text_of_cell(str(name)) for name in frame.columns]
    rows = None
    if len(first) > 1 and not first[-1].strip() and frame.iloc[:, -1].isna().all():
        frame = frame.iloc[:, :-1]
        found.append("the empty column at the end left out")
    if named and frame.columns[0].startswith(INDEX) and frame.shape[1] > 1 and key != frame.columns[0]:
        if frame.iloc[:, 0].dtype.kind == "f":
            raise UnreadableError(f"{file}: its first column has no name; give it one, or remove it if it is an index")
        rows = [text_of_cell(str(value)) for value in frame.iloc[:, 0]]
        frame = frame.iloc[:, 1:]
        found.append("the column without a name as an index, which is left out")
    table = _of_frame(file, frame, key, form.decimal, 1 + named)
    note = f"{file}: read with {', '.join(found)}" if found else ""
    return replace(table, keys=table.keys or rows, columns=table.columns if named else None, note=note)


def _names_columns(form: _Form, file: Path) -> bool:
    """Return whether a first row of numbers is a header, such as 0, 1, 2 of pandas; raise if that stays open."""
    # column names that were numbers of a computer may end in .0
    first, *body = ([cell.strip().removesuffix(".0") for cell in row] for row in form.rows)
    counted = list(map(str, range(len(first))))
    if first == ["", *counted[:-1]] and len(first) > 1:
        return True
    whole = len(set(first)) == len(first) and all(cell.isdecimal() for cell in first)
    below = [cell for row in body for cell in row if cell.strip().lower() not in MISSING]
    even = [_is_even(row) for row in (first, *body)] if len(first) > FEW_COLUMNS else []
    if not below or not (whole or even == [True, *[False] * len(body)]):
        return False
    fractions = not any(cell.strip().lstrip("+-").isdecimal() for cell in below)
    rising = [_is_rising(row) for row in (first, *body)]  # as 0, 1, 2 and years are
    if len(first) > FEW_COLUMNS or (fractions and first == counted):
        if whole and (fractions or rising == [True, *[False] * len(body)]):
            return True
    elif first != counted:
        return False
    if rising[0] or not whole:
        raise UnreadableError(
            f"{file}: its first row, {', '.join(first)}, may be a sample or name the columns; name them by words, or "
            "save the matrix as .npy"
        )
    return False


def _is_rising(row: list[str]) -> bool:
    """Return whether the cells of a row are whole numbers, each one more than the one before."""
    return all(map(WHOLE.fullmatch, row)) and all(int(b) - int(a) == 1 for a, b in pairwise(row))


def _is_even(row: list[str]) -> bool:
    """Return whether the cells of a row are numbers that rise in equal steps."""
    values = [_number(cell) for cell in row]
    steps = np.diff([math.nan if value is None else value for value in values])
    return bool((steps > 0).all() and np.allclose(steps, steps[0]))


def _of_frame(file: Path, frame: Any, key: str | None, decimal: str, above: int) -> Table:
    """Return the table of a data frame whose first row is row `above` of the file, counted from 0."""
    if key is not None and key not in frame.columns:
        raise UnreadableError(f"{file}: has no column {key!r}; it has {_listed(list(frame.columns))}")
    keys = None
    if key is not None:
        place = list(frame.columns).index(key)
        keys = [text_of_cell(str(value)) for value in frame.iloc[:, place]]
        frame = frame.iloc[:, [i for i in range(frame.shape[1]) if i != place]]
    X = np.empty(frame.shape)
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        if getattr(column.dtype, "kind", "O") in NUMBERS:
            X[:, j] = column.to_numpy(np.float64, na_value=np.nan)
            continue
        for row, cell in enumerate(column):  # a text, or a number that pandas keeps as text, such as 1_000
            number = math.nan if cell != cell else _number(str(cell), decimal)
            if number is None:
                name = _shown(frame.columns[j])
                cure = f"; if this column names the samples, give key={name!r}" if key is None else ""
                if any(WORDS.search(str(each)) for each in column):
                    cure = f"; words need a column each, with 1 where a sample has the word and 0 where not{cure}"
                where = f"{file}: row {row + above}, column {name}"
                raise UnsupportedError(f"{where}: must be a number; got {_shown(str(cell))}{cure}")
            X[row, j] = number
    if key is None and len(X) > 2 and X.shape[1] > 1:
        column, name = X[:, 0], str(frame.columns[0])
        known = column[~np.isnan(column)]
        names = name.lower() in IDENTIFIERS and len({*known}) == len(known) and (known % 1 == 0).all()
        if names or (np.diff(column) == 1).all():
            raise UnreadableError(
                f"{file}: column {(shown := _shown(name))} counts or names the rows; remove it, give key={shown!r}, or "
                "save the matrix as .npy if it is a feature"
            )
    return Table(file.stem, X, keys, columns=list(frame.columns))


def _number(cell: str, decimal: str = ".") -> float | None:
    """Return the number in a cell, NaN if it is empty, None if it is text."""
    try:
        return float(cell) if decimal == "." else float(cell.replace(".", "_.").replace(decimal, "."))
    except ValueError:
        return math.nan if cell.strip().lower() in MISSING else None


def _read_parquet(file: Path, key: str | None) -> Table:
    """Read a Parquet file; an index that pandas has stored is not a column, unless it is the key."""
    import pandas as pd

    try:
        frame = pd.read_parquet(file, engine="pyarrow", use_threads=False)
    except ImportError as error:
        raise UnsupportedError(f"{file}: reading it needs pyarrow; {installed_by('parquet')}") from error
    if key is not None and key in frame.index.names:
        frame = frame.reset_index()
    frame.columns = list(map(str, frame.columns))
    return _of_frame(file, frame, key, ".", 1)
