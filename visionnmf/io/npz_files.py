"""``.npz`` files with bounded memory: arrays of data, and the members of model files.

A ``.npz`` file is a zip file of ``.npy`` members. Files may come from untrusted sources, so the sizes in the directory
are checked before anything is read, and an array is read only if its own header asks for as many bytes as the directory
says.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, UnreadableError

from .inputs import check_bytes

Array = NDArray[Any]

NUMBERS = "biuf"  # kinds of arrays: truth values, integers, floating point
NPY_HEADER = 128  # bytes before the data of an array
MAX_NPY_HEADER = 1 << 16  # bytes of that; NumPy allocates as many as the file says before it looks at them
MAX_DIRECTORY = 1 << 20  # bytes of a zip file's directory, which takes up to 20 times the memory when it is read
BLOCK = 1 << 20  # bytes that are read at a time
END_BYTES = (1 << 16) + 22  # the end of a zip file: a record of 22 bytes, and a comment whose length has 16 bits
ENCRYPTED = 1  # a bit of a member's flags; zipfile asks for a password by raising RuntimeError


def read_arrays(path: Path, names: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Array]:
    """Read arrays of a ``.npz`` file of data, of any kind except objects.

    `names` must be there, and `optional` are read if they are there. Raises UnreadableError if the file is damaged or
    one of `names` is missing, and TooLargeError if the arrays have more than 1 GiB, or their headers say so.
    """
    try:
        check_directory(path)
        with zipfile.ZipFile(path) as file:
            refuse_encrypted(file.infolist())
            sizes = {member.filename.removesuffix(".npy"): member.file_size for member in file.infolist()}
            check_names(path, names, set(sizes))
            wanted = [*names, *(name for name in optional if name in sizes)]
            check_bytes(path, sum(sizes[name] for name in wanted))
            return {name: read_member(file, name, bounded=True) for name in wanted}  # at most 1 GiB each
    except MediaError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds of errors for damaged files
        raise UnreadableError(f"{path} cannot be read: {one_line(error)}.") from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as a ``.npz`` file of data, whatever its name ends with; a file that exists is replaced.

    `numpy.savez` is not used: it appends ``.npz`` to the name unless it is given an open file, and if a signal then
    interrupts it, the file is closed before the archive, which prints a traceback.
    """
    with zipfile.ZipFile(path, "w") as file:
        write_members(file, arrays)


def write_members(file: zipfile.ZipFile, arrays: Mapping[str, Array]) -> None:
    """Write arrays as members of an open archive."""
    for name, array in arrays.items():
        with file.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


def refuse_encrypted(members: Iterable[zipfile.ZipInfo]) -> None:
    """Raise ValueError if a member is encrypted."""
    if any(member.flag_bits & ENCRYPTED for member in members):
        raise ValueError("it is encrypted")


def check_directory(path: Path) -> None:
    """Raise ValueError if a zip file's directory is too large to be read with little memory.

    The end record of 22 bytes holds the size in its bytes 12 to 15; a zip64 file has, before it, a locator of 20 bytes
    and elsewhere a record of 56 bytes with the true size. All sizes count. `zipfile` refuses what is not a zip file.
    """
    with path.open("rb") as file:
        length = file.seek(0, io.SEEK_END)
        start = file.seek(max(0, length - END_BYTES))
        tail = file.read()
        at = tail.rfind(b"PK\5\6", 0, max(0, len(tail) - 18))  # the end record, which has 22 bytes
        if at < 0:
            return
        sizes = list(struct.unpack_from("<L", tail, at + 12))
        if at >= 20 and tail[at - 20 : at - 16] == b"PK\6\7":  # a zip64 file: its record lies before, or where it says
            for position in (start + at - 76, *struct.unpack_from("<Q", tail, at - 12)):
                file.seek(min(max(0, position), length))
                record = file.read(56)
                if record[:4] == b"PK\6\6" and len(record) == 56:
                    sizes += struct.unpack_from("<Q", record, 40)
    if max(sizes) > MAX_DIRECTORY and max(sizes) != 0xFFFFFFFF:  # this number means: see the zip64 record
        raise ValueError(f"its directory has {max(sizes)} bytes")


def check_npy(file: IO[bytes]) -> None:
    """Raise ValueError if the header of an array is larger than any that NumPy writes; read 12 bytes of the file."""
    start = file.read(12)
    # Byte 6 is the version of the format. From version 2 on the length of the header has four bytes, else two.
    if len(start) == 12 and start[6] > 1:
        (length,) = struct.unpack_from("<L", start, 8)
        if length > MAX_NPY_HEADER:
            raise ValueError(f"its header has {length} bytes")


def check_names(path: Path, names: Iterable[str], held: set[str]) -> None:
    """Raise UnreadableError if one of the names is not among those that the file holds."""
    absent = sorted(set(names) - held)
    if absent:
        shown = ", ".join(repr(name[:40]) for name in sorted(held)[:10]) or "nothing"  # untrusted, so cut
        raise UnreadableError(f"{path} cannot be read: it has no {' and no '.join(absent)}, it holds {shown}.")


def read_member(file: zipfile.ZipFile, name: str, *, bounded: bool = False) -> Array:
    """Read the array `name` of an open archive, after checking that its header and the file's directory agree.

    NumPy's own loader would allocate what the header asks for, so that a small malicious file could use up the memory.
    With `bounded`, arrays of more than 1 GiB raise TooLargeError. Raises ValueError for objects, or another size than
    declared.
    """
    member = file.getinfo(f"{name}.npy")
    with file.open(member) as content:
        check_npy(content)
    with file.open(member) as content:  # from the beginning again: the check has read a few bytes
        version = np.lib.format.read_magic(content)
        # A version that is not in this table raises KeyError, which the callers report as damage.
        headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran_order, dtype = headers[version](content)
        if dtype.hasobject:
            raise ValueError(f"{name:.60} holds objects")
        size = math.prod(shape) * dtype.itemsize
        if bounded:
            check_bytes(f"{file.filename}: {name}.npy", size)
        if size != member.file_size - content.tell():
            raise ValueError(f"{name:.60} is not of the size it says")
        data = np.empty(size, np.uint8)
        # Block by block, so that the bytes are not in memory twice.
        for start in range(0, size, BLOCK):
            data[start : start + BLOCK] = np.frombuffer(content.read(min(BLOCK, size - start)), np.uint8)
    return data.view(dtype).reshape(shape, order="F" if fortran_order else "C")
