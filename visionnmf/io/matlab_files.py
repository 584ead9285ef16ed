"""Read matrices of numbers from MATLAB files of the versions 5 to 7.

scipy.io.loadmat is not used, because damaged files end the process by a segmentation fault (SciPy 1.17.1), and because
it inflates without a limit. Source of the format: "MAT-File Format", The MathWorks, Level 5.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, UnreadableError, UnsupportedError

from .inputs import check_bytes
from .npz_files import check_names

_HEADER = 128  # bytes
_MATRIX, _COMPRESSED = 14, 15  # types of elements
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CELL, _STRUCTURE = 1, 2
_NUMERIC_CLASSES = range(6, 16)  # double to uint64; below are cells, structures, texts and sparse matrices
_DEEPEST = 20  # cells within cells
_COMPLEX = 0x800


def read_mat(path: Path, names: list[str], *, nested: bool = False) -> dict[str, Any]:
    """Read matrices by name; every size is checked before memory is taken for it.

    Parameters
    ----------
    path : Path
    names : list of str
    nested : bool, default=False
        Whether to read cells and structures too.

    Returns
    -------
    dict of str to ndarray
        Arrays in the types in which they are stored. A cell array becomes a list, column by column, and an array of
        structures a list of dicts; inside them None stands for anything that is not a matrix of real numbers.

    Raises
    ------
    UnreadableError, UnsupportedError
        If the file is damaged or not of MATLAB 5 to 7, or a name is missing or not that of a matrix of real numbers.
    TooLargeError
        If the file has more than 1 GiB, compressed or not.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from visionnmf.io import read_mat
    >>> savemat("data.mat", {"X": np.eye(3)})
    >>> read_mat(Path("data.mat"), ["X"])["X"].shape
    (3, 3)
    """
    try:
        check_bytes(path, path.stat().st_size)
        data = path.read_bytes()
        # The header ends with the version, bytes 124 and 125, and a mark from which the byte order can be seen.
        order = {b"IM": "<", b"MI": ">"}.get(data[126:_HEADER])
        if order is None or struct.unpack_from(f"{order}H", data, 124) != (0x0100,):
            raise UnsupportedError(f"{path} is no file of MATLAB 5 to 7; save it in MATLAB with the option -v7.")
        matrices = dict(_matrices(path, data, order, _DEEPEST if nested else 0))
        check_names(path, names, set(matrices))
        arrays = {}
        for name in names:
            content = matrices[name]
            if content is None:
                raise UnsupportedError(f"{path}: {name} is no matrix of real numbers.")
            arrays[name] = content
        return arrays
    except MediaError:
        raise
    except (OSError, ValueError, TypeError, struct.error, zlib.error, MemoryError) as error:
        raise UnreadableError(f"{path} cannot be read as a MATLAB file: {one_line(error)}.") from error


def _matrices(path: Path, data: bytes, order: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each variable, None unless real numbers; `order` is "<" or ">", `depth` of nesting."""
    total = 0  # bytes that were unpacked so far, which are limited for the whole file
    for kind, content in _elements(memoryview(data)[_HEADER:], order):
        if kind == _COMPRESSED:
            inflated = _inflate(path, content, total)
            total += len(inflated)
            kind, content = next(_elements(memoryview(inflated), order), (0, content))
        if kind == _MATRIX:
            yield _matrix(content, order, depth)


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of each data element: two 4-byte numbers, then the content, padded to 8 bytes."""
    position = 0
    while position + 8 <= len(data):
        kind, count = struct.unpack_from(f"{order}II", data, position)
        if kind >> 16:  # small format: type and count share four bytes, the content has the next four
            kind, count = kind & 0xFFFF, kind >> 16
            start, padded, room = position + 4, 4, 4
        else:
            start, room = position + 8, len(data) - position - 8
            padded = count if kind == _COMPRESSED else count + -count % 8
        if count > room:
            raise ValueError(f"an element of {count} bytes where there are {room}")
        yield kind, data[start : start + count]
        position = start + padded


def _inflate(path: Path, content: memoryview, before: int) -> bytes:
    """Decompress an element by steps of 1 MiB; raise TooLargeError if it and `before` bytes are too large."""
    inflater = zlib.decompressobj()
    parts = []
    rest: bytes | memoryview = content
    while rest and not inflater.eof:
        parts.append(inflater.decompress(rest, 1 << 20))
        before += len(parts[-1])
        check_bytes(f"{path}, inflated,", before)
        rest = inflater.unconsumed_tail
    return b"".join(parts)


def _matrix(content: memoryview, order: str, depth: int) -> tuple[str, Any]:
    """Return name and value of a matrix element: array, list for cells, dict for structures, None for other kinds."""
    # The parts of a matrix, in this order: flags with the class, dimensions, name, values.
    parts = _elements(content, order)
    flags, shape, name = (next(parts, (0, content[:0]))[1] for _ in range(3))
    (first,) = struct.unpack_from(f"{order}I", flags)  # the lowest byte is the class; _COMPLEX is one of the flags
    text = bytes(name).decode("latin-1")
    if depth and first & 0xFF == _CELL:  # these are read only down to `depth` levels
        return text, [_inner(part, order, depth - 1) for part in parts]
    if depth and first & 0xFF == _STRUCTURE:
        return text, _structures(parts, order, depth - 1)
    if first & 0xFF not in _NUMERIC_CLASSES or first & _COMPLEX:
        return text, None
    dimensions = np.frombuffer(shape, f"{order}i4").tolist()
    # The type of the stored values may be smaller than that of the class: MATLAB stores whole numbers in few bytes.
    kind, values = next(parts, (0, content[:0]))
    if kind not in _STORED or min(dimensions, default=-1) < 0:
        raise ValueError(f"{text} has no values")
    array = np.frombuffer(values, f"{order}{_STORED[kind]}")
    return text, array.reshape(dimensions, order="F").astype(array.dtype.newbyteorder("="))


def _inner(part: tuple[int, memoryview], order: str, depth: int) -> Any:
    """Return the value of an element, its type and content, within a cell or a structure, `depth` levels deep."""
    kind, content = part
    if kind != _MATRIX:
        raise ValueError(f"an element of type {kind} where a matrix is due")
    return _matrix(content, order, depth)[1] if len(content) else np.empty((0, 0))  # without the matrix's name


def _structures(parts: Iterator[tuple[int, memoryview]], order: str, depth: int) -> list[dict[str, Any]]:
    """Return the elements of a structure array as dicts from field to value.

    Its parts are the width of a name in bytes, all names, padded to it, and the values of all fields, element by
    element.
    """
    (width,) = struct.unpack_from(f"{order}i", next(parts, (0, memoryview(b"")))[1])
    text = bytes(next(parts, (0, memoryview(b"")))[1])
    if width < 1:
        raise ValueError("a structure has no names of fields")
    fields = [text[start : start + width].split(b"\0")[0].decode("latin-1") for start in range(0, len(text), width)]
    values = [_inner(part, order, depth) for part in parts]
    if not fields or len(values) % len(fields):
        raise ValueError(f"a structure has {len(values)} values of {len(fields)} fields")
    rows = range(0, len(values), len(fields))
    return [dict(zip(fields, values[start : start + len(fields)], strict=True)) for start in rows]
