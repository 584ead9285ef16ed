"""Arrays in files that are mapped into memory, for blocks that are together larger than the memory of their process.

The pages of a mapped file belong to the cache of the operating system. :meth:`Mapped.release` gives them back, so that
they do not count as memory of the process; what was written stays in the file.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import tempfile
import weakref
from typing import Any, NamedTuple

import numpy as np

from visionnmf._typing import Array

MADV_POPULATE_WRITE = 23  # of Linux; Python has no name for it


class ArrayFile(NamedTuple):
    """An array in a file of this machine, which disappears with the last :class:`Mapped` of it."""

    path: str
    shape: tuple[int, ...]
    dtype: str


def store(array: Array, directory: str) -> ArrayFile:
    """Write an array to a new file of a directory, and return its path, shape and dtype."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix="visionnmf-", suffix=".raw", delete=False) as file:
        np.ascontiguousarray(array).tofile(file)
    return ArrayFile(file.name, array.shape, array.dtype.str)


def zeros(shape: tuple[int, ...], dtype: Any, directory: str) -> ArrayFile:
    """Make a sparse file of zeros in a directory, and return its path, shape and dtype."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix="visionnmf-", suffix=".raw", delete=False) as file:
        file.truncate(int(np.prod(shape)) * np.dtype(dtype).itemsize)
    return ArrayFile(file.name, shape, np.dtype(dtype).str)


class Mapped:
    """The arrays of a block in mapped files."""

    def __init__(self) -> None:
        self._maps: list[tuple[mmap.mmap, Array]] = []

    def open(self, stored: ArrayFile) -> Array:
        """Map a file of :func:`store` or :func:`zeros`, removed with this object, and return its array."""
        with open(stored.path, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        weakref.finalize(self, _remove, stored.path)
        array = np.frombuffer(mapped, stored.dtype).reshape(stored.shape)
        self._maps.append((mapped, array))
        return array

    def load(self, array: Array | None) -> None:
        """Map all pages of an array for writing in one call, if possible, which the first pass would do one by one."""
        if sys.platform == "linux":
            for mapped, opened in self._maps:
                if opened is array:
                    with contextlib.suppress(OSError):  # Linux before 5.14
                        mapped.madvise(MADV_POPULATE_WRITE)

    def release(self) -> None:
        """Give back the memory of all arrays to the system, which reads it from the files again when it is needed."""
        for mapped, _ in self._maps:  # the memory maps of all arrays that were opened
            mapped.madvise(mmap.MADV_DONTNEED)


def _remove(path: str) -> None:
    """Remove a file that may already have gone."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def stored_fields(values: dict[str, Any], directory: str) -> dict[str, Any]:
    """Write the matrices among some values (by name) to files of a directory; return their places by name."""
    return {
        name: store(value, directory)
        for name, value in values.items()
        if isinstance(value, np.ndarray) and value.ndim == 2
    }
