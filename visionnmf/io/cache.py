"""Results that are kept between runs: arrays by keys, in one SQLite file that may come from anybody."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, UnreadableError

AT_ONCE = 500  # keys of a query
MOST_DATA = 64 << 20  # bytes of a packed array
TABLE = "arrays (key TEXT PRIMARY KEY, size INTEGER, data BLOB)"
SCHEMA = [("table", "arrays", f"CREATE TABLE {TABLE}"), ("index", "sqlite_autoindex_arrays_1", None)]
WAIT = 60.0  # seconds to wait for another process that writes
MOST_SECONDS = 20.0  # of the processor that one query may take
STEPS = 100_000  # instructions of SQLite between two looks at the clock; signals are answered there, too


class ArrayCache:
    """Rows of float32 by keys; several processes can share one file, and killing one of them leaves the file whole.

    A file that holds anything but the table of this class is refused, and entries that are damaged or too long count
    as missing. `path` is created if it is missing. Raises UnreadableError if it is not a cache, and MediaError if it
    cannot be created or a query takes more than 20 s.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the cache file, which is created if it is missing; raise UnreadableError for any other file."""
        self.path = Path(path)
        # Also set: `_deadline`, by `_querying`, the processor time at which the queries of a block must have ended.
        self._lock = Lock()  # threads share the connection and take turns
        # SQLite opens the files of these names beside it, and a pipe would block it beyond the reach of signals.
        for name in (f"{path}{suffix}" for suffix in ("", "-journal", "-wal", "-shm")):
            with suppress(OSError):
                if not stat.S_ISREG(os.stat(name).st_mode):
                    raise UnreadableError(f"{name}: not a cache, or damaged (not a regular file)")
        with self._querying():
            self._file = sqlite3.connect(self.path, timeout=WAIT, check_same_thread=False)
        try:
            with self._querying(), self._file:
                self._file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_DATA)
                # SQLite calls this every STEPS instructions, and ends the query if it returns True.
                self._file.set_progress_handler(lambda: time.process_time() > self._deadline, STEPS)
                self._file.execute("PRAGMA trusted_schema = OFF")  # the schema of a foreign file may run nothing
                if not self._is_ours():
                    self._file.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
        except BaseException:
            self._file.close()
            raise

    def get(self, keys: Sequence[str], most: int) -> dict[str, NDArray[np.float32]]:
        """Return those of the arrays (n,) that are in the cache, whole, and have at most `most` numbers.

        `_file` is the connection to SQLite, and `_lock` lets one thread use it at a time.
        """
        found: dict[str, NDArray[np.float32]] = {}
        # Entries that are too long are left out by the query itself, so that they never come into memory.
        most_packed = 4 * most + most // 64 + 1024  # zlib adds less than that to what it cannot compress
        for start in range(0, len(keys), AT_ONCE):
            part = keys[start : start + AT_ONCE]
            marks = ",".join("?" * len(part))
            # `_querying` turns errors of SQLite into ours, and ends a query that takes too long
            with self._lock, self._querying():
                rows = self._file.execute(
                    f"SELECT key, size, data FROM arrays WHERE key IN ({marks}) AND typeof(size) = 'integer' "
                    "AND typeof(data) = 'blob' AND size <= ? AND length(data) <= ?",
                    (*part, most, most_packed),
                ).fetchall()
            for key, size, data in rows:
                array = _unpacked(size, data, most)
                if array is not None:
                    found[key] = array
        return found

    def put(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep arrays (n,) by their keys, packed by zlib; raise MediaError if the file cannot be written.

        An array that packs to 32 MiB or more, half of what SQLite is allowed to read, is not kept. `_lock` lets one
        thread at a time use the connection `_file`, whose block commits at its end or, after an error, undoes all.
        """
        packed = {key: zlib.compress(np.ascontiguousarray(array, "<f4").tobytes(), 1) for key, array in arrays.items()}
        rows = [(key, arrays[key].size, data) for key, data in packed.items() if len(data) < MOST_DATA // 2]
        with self._lock, self._querying(), self._file:
            self._file.executemany("INSERT OR REPLACE INTO arrays VALUES (?, ?, ?)", rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def _is_ours(self) -> bool:
        """Return whether the file has our table, False if it is empty; raise if it has anything else.

        A view or trigger of a hostile file would run its own SQL in our queries, so every row of the schema counts.
        """
        found = self._file.execute("SELECT type, name, sql FROM sqlite_master LIMIT 3").fetchall()
        if found and found != SCHEMA:
            raise sqlite3.DatabaseError("it holds other tables")
        return bool(found)

    @contextmanager
    def _querying(self) -> Iterator[None]:
        """Turn SQLite's errors into ours, and end the queries of the block at `_deadline`, in processor seconds."""
        # the progress handler that `__init__` sets interrupts a query after this time, an OperationalError
        self._deadline = time.process_time() + MOST_SECONDS
        try:
            yield
        except sqlite3.OperationalError as error:
            raise MediaError(f"{self.path}: the cache cannot be used ({one_line(error)})") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise UnreadableError(f"{self.path}: not a cache, or damaged ({one_line(error)}); remove it") from error


def _unpacked(size: Any, data: Any, most: int) -> NDArray[np.float32] | None:
    """Return `size` float32 numbers (at most `most`) unpacked by zlib from `data`, or None if they are damaged."""
    if not isinstance(size, int) or not 0 <= size <= most or not isinstance(data, bytes):
        return None
    try:
        unpacked = zlib.decompressobj().decompress(data, 4 * size + 1)  # one byte more shows that it is too long
    except zlib.error:
        return None
    return np.frombuffer(unpacked, "<f4").astype(np.float32) if len(unpacked) == 4 * size else None
