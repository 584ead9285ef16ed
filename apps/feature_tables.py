"""Tables of image features in files, ``.npz``, ``.csv`` and ``.parquet``, for the applications that share them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError, installed_by
from visionnmf.io import output_file, read_arrays, regular_file, write_arrays, write_csv
from visionnmf.io.inputs import MAX_BYTES

SUFFIXES = (".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class FeatureTable:
    """Features of images."""

    X: NDArray[np.float32]  # (n_images, n_features), >= 0
    files: list[str]  # the image of each row
    feature_names: list[str]  # of the columns: the view, "_", and a number
    groups: NDArray[np.intp]  # (n_features,), the number of the view of each column
    views: list[str]  # their names

    __repr__ = brief


def check_format(path: str | Path) -> None:
    """Raise ParameterError for a name of another form than tables have, UnsupportedError if pyarrow is missing."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ParameterError(f"out must end in {', '.join(SUFFIXES)}; got {str(path)!r}")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UnsupportedError(f"{path}: Parquet needs pyarrow; {installed_by('parquet')}")


def check_table_size(path: Path, count: int) -> None:
    """Raise TooLargeError if a table of `count` bytes could not be read again."""
    if path.suffix.lower() == ".npz" and count > MAX_BYTES:
        raise TooLargeError(
            f"{path}: the table has {count} bytes, and .npz files may have {MAX_BYTES}; "
            f"describe fewer images at once, or write .parquet"
        )


def write_table(table: FeatureTable, path: str | Path, *, force: bool = False) -> None:
    """Write a table in the form that the name of the file asks for: ``.npz``, ``.csv`` or ``.parquet``."""
    check_format(path)
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        pairs = zip(table.files, table.X, strict=True)
        rows = ([name, *(f"{value:.7g}" for value in row.tolist())] for name, row in pairs)
        write_csv(path, chain([["file", *table.feature_names]], rows), force=force)
        return
    with output_file(path, force=force) as temporary:
        (_write_npz if suffix == ".npz" else _write_parquet)(table, temporary)


def read_table(path: str | Path) -> FeatureTable:
    """Read a table that ``visionnmf features`` wrote; raise UnreadableError or TooLargeError, whatever the file."""
    path = regular_file(path, "table of features")
    held = read_arrays(path, ("X", "files", "feature_names", "groups", "views"))
    X, groups = held["X"], held["groups"]
    texts = [held[name] for name in ("files", "feature_names", "views")]
    # The file may come from anybody: types and sizes must fit together before anything is used. X (n_images,
    # n_features) needs a file for each row, and for each column a name and a group, the number of its view in `views`.
    fits = X.ndim == 2 and X.dtype == np.float32 and all(text.ndim == 1 and text.dtype.kind == "U" for text in texts)
    fits = fits and (len(texts[0]), len(texts[1])) == X.shape and groups.shape == X.shape[1:]
    fits = fits and groups.dtype.kind == "i" and groups.size > 0 and 0 <= groups.min() <= groups.max() < len(texts[2])
    if not fits or not np.isfinite(X).all() or (X < 0).any():
        raise UnreadableError(f"{path} cannot be read: it is not a table of features.")
    files, names, views = (text.tolist() for text in texts)
    return FeatureTable(X, files, names, groups.astype(np.intp), views)


def _write_npz(table: FeatureTable, path: Path) -> None:
    """Write a table as arrays; raise TooLargeError if :func:`read_table` would refuse the file."""
    arrays: dict[str, NDArray[Any]] = {
        "X": table.X,
        "files": np.array(table.files, str),
        "feature_names": np.array(table.feature_names, str),
        "groups": table.groups.astype(np.int64),
        "views": np.array(table.views, str),
    }
    check_table_size(path, sum(array.nbytes for array in arrays.values()))
    write_arrays(path, arrays)


def _write_parquet(table: FeatureTable, path: Path) -> None:
    """Write a table as Parquet, with a column `file` and one for each feature."""
    import pyarrow
    from pyarrow import parquet

    # Names of files need not be valid Unicode on Linux, but texts in Parquet must be.
    names = [name.encode("utf-8", "backslashreplace").decode("utf-8") for name in table.files]
    columns = [pyarrow.array(names), *map(pyarrow.array, table.X.T)]
    parquet.write_table(pyarrow.table(columns, names=["file", *table.feature_names]), path)
