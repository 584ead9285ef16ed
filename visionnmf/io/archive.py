"""Arrays from ``.npz`` files of strangers: nothing is executed, and nothing allocated that the file does not hold."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any, NamedTuple

import numpy as np

__all__ = ["DAMAGE", "RawArray", "one_line", "read_raw"]

# What a damaged file can raise on its way through zipfile, numpy, json and the checks of what they found.
DAMAGE = (
    zipfile.BadZipFile,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    OSError,
    zlib.error,
)


class RawArray(NamedTuple):
    """An array as a file says it is, not yet checked.

    Attributes
    ----------
    shape : tuple of int
    fortran_order : bool
    dtype : dtype
    data : bytes
        As many as the archive's directory says, or fewer; the shape may ask for more.
    """

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    data: bytes


def read_raw(archive: zipfile.ZipFile, name: str) -> RawArray:
    """Read an array without numpy's loader, which allocates what a header asks for before it looks at the file.

    Parameters
    ----------
    archive : ZipFile
        Its caller limits the sizes in its directory.
    name : str

    Returns
    -------
    RawArray

    Raises
    ------
    Exception
        One of :data:`DAMAGE`.
    """
    size = archive.getinfo(f"{name}.npy").file_size
    with archive.open(f"{name}.npy") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name} has an unknown array version")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        return RawArray(shape, fortran_order, dtype, file.read(size))


def one_line(error: BaseException) -> str:
    """Return the kind and the beginning of an error's message, at most 100 characters, for the end of a sentence."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:100]
