"""Results that are kept between runs: arrays of numbers by keys, in one SQLite file."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, UnreadableError

__all__ = ["ArrayCache"]

AT_ONCE = 500  # keys of a question
MOST_DATA = 64 << 20  # bytes of an array, packed
TABLE = "arrays (key TEXT PRIMARY KEY, size INTEGER, data BLOB)"
WAIT = 60.0  # seconds for another process that writes


class ArrayCache:
    """Rows of float32 by keys; several processes can use one file, and a killed one leaves it whole.

    Parameters
    ----------
    path : str or Path
        Made where it is missing.

    Raises
    ------
    UnreadableError
        If the file is there and is no cache.
    MediaError
        If it cannot be made.

    Examples
    --------
    >>> from visionnmf.io import ArrayCache
    >>> with ArrayCache("features.sqlite") as cache:
    ...     found = cache.get(["photo"], 10)
    >>> found
    {}
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()  # the connection serves several threads, one after the other
        with self._complaining():
            self._file = sqlite3.connect(self.path, timeout=WAIT, check_same_thread=False)
        try:
            with self._complaining(), self._file:
                self._file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_DATA)
                if not self._is_ours():
                    self._file.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
        except MediaError:
            self._file.close()
            raise

    def get(self, keys: Sequence[str], most: int) -> dict[str, NDArray[np.float32]]:
        """Return what is kept.

        Parameters
        ----------
        keys : sequence of str
        most : int
            Numbers of an array; a longer one is taken for none.

        Returns
        -------
        dict of str to ndarray of float32
            Those of the keys that are there, and whole.
        """
        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(keys), AT_ONCE):
            part = keys[start : start + AT_ONCE]
            marks = ",".join("?" * len(part))
            with self._complaining(), self._lock:
                rows = self._file.execute(
                    f"SELECT key, size, data FROM arrays WHERE key IN ({marks}) AND typeof(size) = 'integer' "
                    "AND typeof(data) = 'blob' AND size <= ? AND length(data) <= ?",
                    (*part, most, _most_packed(most)),
                ).fetchall()
            for key, size, data in rows:
                array = _unpacked(size, data, most)
                if array is not None:
                    found[key] = array
        return found

    def put(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep arrays.

        Parameters
        ----------
        arrays : mapping of str to ndarray of float32 [shape=(n,)]

        Raises
        ------
        MediaError
            If the file cannot be written.
        """
        packed = {key: zlib.compress(_bytes(array), 1) for key, array in arrays.items()}
        rows = [(key, arrays[key].size, data) for key, data in packed.items() if len(data) < MOST_DATA // 2]
        with self._complaining(), self._lock, self._file:
            self._file.executemany("INSERT OR REPLACE INTO arrays VALUES (?, ?, ?)", rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def _is_ours(self) -> bool:
        """Return whether the file has our table; raise where it has anything else, such as a view of that name."""
        found = self._file.execute("SELECT type, sql FROM sqlite_master LIMIT 3").fetchall()
        if found and set(found) != {("table", f"CREATE TABLE {TABLE}"), ("index", None)}:
            raise sqlite3.DatabaseError("it holds other tables")
        return bool(found)

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise MediaError(f"{self.path}: the cache cannot be used ({one_line(error)})") from error
        except sqlite3.Error as error:
            raise UnreadableError(f"{self.path}: not a cache, or damaged ({one_line(error)}); remove it") from error


def _bytes(array: NDArray[np.float32]) -> bytes:
    return np.ascontiguousarray(array, "<f4").tobytes()


def _most_packed(size: int) -> int:
    """Return bytes that so many numbers never have more of, where they cannot be compressed."""
    return 4 * size + size // 64 + 1024


def _unpacked(size: Any, data: Any, most: int) -> NDArray[np.float32] | None:
    """Return an array of a file that a stranger may have made, when it is one."""
    if not isinstance(size, int) or not 0 <= size <= most or not isinstance(data, bytes):
        return None
    try:
        unpacked = zlib.decompressobj().decompress(data, 4 * size + 1)
    except zlib.error:
        return None
    return np.frombuffer(unpacked, "<f4").astype(np.float32) if len(unpacked) == 4 * size else None
