"""``.npz`` files of arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf._typing import Array
from visionnmf.exceptions import UnreadableError

from .decoding import apart

NUMBERS = "biuf"  # kinds of arrays: truth values, integers, floating point
# Opens an archive, whose arrays are read one by one; `numpy.load` would take other files, too.
open_npz: Callable[[Path], Any] = partial(np.lib.npyio.NpzFile, allow_pickle=False)


@apart
def read_arrays(path: Path, names: Iterable[str] | None = None, optional: Iterable[str] = ()) -> dict[str, Array]:
    """Read arrays of a ``.npz`` file, of any kind except objects: `names` (None: all), and `optional` ones if there.

    Raises UnreadableError if the file is damaged or one of `names` is missing.
    """
    with open_npz(path) as file:
        names = file.files if names is None else names
        check_names(path, names, set(file.files))
        found = {name: file[name] for name in (*names, *(name for name in optional if name in file.files))}
    for name, array in found.items():
        if not isinstance(array, np.ndarray):  # NumPy returns the bytes of other members
            raise ValueError(f"{name:.60} is not an array")
    return found


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as a ``.npz`` file of data, whatever its name ends with; a file that exists is replaced.

    `numpy.savez` is not used: it appends ``.npz`` to the name unless it is given an open file, and if a signal then
    interrupts it, the file is closed before the archive, which prints a traceback.
    """
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def check_names(path: Path, names: Iterable[str], held: set[str]) -> None:
    """Raise UnreadableError if one of the names is not among those that the file holds."""
    absent = sorted(set(names) - held)
    if absent:
        shown = ", ".join(repr(name[:40]) for name in sorted(held)[:10]) or "nothing"  # untrusted, so cut
        raise UnreadableError(f"{path} cannot be read: it has no {' and no '.join(absent)}, it holds {shown}.")


def holds_numbers(array: object) -> bool:
    """Return whether something is an array of real numbers."""
    return isinstance(array, np.ndarray) and array.dtype.kind in NUMBERS
