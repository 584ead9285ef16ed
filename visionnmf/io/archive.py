"""ONE archive for every model file: arrays in ``.npz`` with a JSON header; nothing in it is ever executed.

An archive is a zip file of ``.npy`` members, as numpy writes them. The member ``header`` is JSON: ``format``, the name
of the kind of model, ``version``, ``written_by``, and what else the model's store puts there. The other members are
arrays of numbers. :class:`Format` writes and reads one kind of model; a store (``models/_store.py``, ``store.py`` of an
application) says what its model holds, and nothing about files.

Files come from strangers. The sizes in the directory are looked at before anything is read: members are stored, so that
a file cannot ask for more memory than it is long, or compressed with a bound on what they unpack to. An array is read
once, of the size that both the directory and its own header say, numbers only. :func:`read_arrays` reads ``.npz`` files
of data, which have no header, with the same care.
"""

from __future__ import annotations

import io
import json
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._text import one_line
from visionnmf._version import __version__
from visionnmf.exceptions import MediaError, TooLargeError, UnreadableError, UnsupportedError

from .inputs import check_bytes, regular_file
from .outputs import output_file

__all__ = ["Archive", "Format", "check_directory", "check_names", "check_npy", "read_arrays", "write_arrays"]

Array = NDArray[Any]

NUMBERS = "biuf"  # kinds of arrays: truth values, integers, floating point
NPY_HEADER = 128  # bytes before the data of an array
MOST_NPY_HEADER = 1 << 16  # bytes of it that are read; numpy reads as many as it says before it looks
MOST_DIRECTORY = 1 << 20  # bytes of a zip file's directory, which takes up to 20 times the memory when read
MOST_NESTED = 250_000  # lists and objects in a header: each takes 30 times its brackets' memory
MOST_VALUES = 160 << 20  # bytes that the values of a header may take: short ones take 20 times their text's
BLOCK = 1 << 20
END_BYTES = (1 << 16) + 22  # where a zip file says what it holds: its comment may be as long as 16 bits can say
ENCRYPTED = 1  # of a member's flags; zipfile asks for a password by a RuntimeError
MOST_SHOWN = 100  # characters of an error at the end of a sentence

# What a damaged file can raise on its way through zipfile, numpy, json and the checks of what they found.
DAMAGE = (
    zipfile.BadZipFile,
    tokenize.TokenError,  # both of the header of an array
    SyntaxError,
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


class Archive:
    """An open archive.

    Attributes
    ----------
    path : Path
    header : dict
        Not yet checked, but for ``format`` and ``version``.
    version : int
    """

    def __init__(self, path: Path, file: zipfile.ZipFile, header: dict[str, Any]) -> None:
        self.path = path
        self.header = header
        self.version = int(header["version"])
        self._file = file
        self._read: set[str] = set()

    def array(self, name: str) -> Array:
        """Read an array of numbers.

        Parameters
        ----------
        name : str

        Returns
        -------
        ndarray
            In the machine's byte order, writable.

        Raises
        ------
        Exception
            One of `DAMAGE`: the array is missing, damaged, not of numbers, or has been read before.
        """
        if name in self._read:
            raise ValueError(f"{name:.60} stands for two things")
        self._read.add(name)
        array = read_member(self._file, name)
        if array.dtype.kind not in NUMBERS or array.dtype.itemsize > 8:
            raise ValueError(f"{name:.60} is not an array of numbers")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def later(self, what: str) -> UnsupportedError:
        """Return the error to raise where the file holds what only a later version can have written."""
        return UnsupportedError(f"{self.path}: written by a later version of visionnmf ({what}); upgrade visionnmf")


@dataclass(frozen=True)
class Format:
    """One kind of model file.

    Attributes
    ----------
    name : str
        Stands in the header, for instance ``"visionnmf-faces"``.
    version : int
        What is written, and the latest that is read.
    title : str
        For messages: ``"a model of faces"``.
    origin : str
        For messages: how to make such a file.
    smaller : str
        For messages: how to make a smaller one.
    header_bytes : int
        The longest header. What its values take when decoded is bounded beside.
    unpacked_bytes : int or None
        None: members are stored, and cannot be larger than the file. Otherwise they are compressed, and the most
        that they may unpack to.
    """

    name: str
    version: int
    title: str
    origin: str
    smaller: str
    header_bytes: int = 16 << 20
    unpacked_bytes: int | None = None

    def write(
        self, path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Array], *, force: bool = False
    ) -> None:
        """Write a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
        header : mapping
            JSON: text, finite numbers, NumPy's too, truth values, None, lists and dicts of those.
        arrays : mapping of str to ndarray
            Numbers of at most eight bytes.
        force : bool, default=False
            Whether an existing file may be replaced.

        Raises
        ------
        TooLargeError
            If the header, its values, or what is compressed, is larger than would be read.
        OutputExistsError
            If `path` exists and `force` is false.
        MediaError
            If `path` cannot be written.
        """
        told = {"format": self.name, "version": self.version, "written_by": __version__, **header}
        encoded = json.dumps(told, allow_nan=False, default=_plain).encode()
        self._check_values(path, encoded)
        members = {"header": np.frombuffer(encoded, np.uint8), **arrays}
        self._check_sizes(path, {name: array.nbytes + NPY_HEADER for name, array in members.items()})
        method = zipfile.ZIP_STORED if self.unpacked_bytes is None else zipfile.ZIP_DEFLATED
        with output_file(path, force=force) as temporary, zipfile.ZipFile(temporary, "w", method) as file:
            write_members(file, members)

    @contextmanager
    def read(self, path: str | Path) -> Iterator[Archive]:
        """Open a file; what the block raises because of damage becomes one sentence.

        Parameters
        ----------
        path : str or Path

        Yields
        ------
        Archive

        Raises
        ------
        UnreadableError
            If the file is missing, damaged, or no model of this kind, and where the block raises one of `DAMAGE`.
        UnsupportedError
            If a later version of visionnmf wrote it.
        TooLargeError
            If the header, its values, or what is compressed, is too large.
        """
        path = regular_file(path, "model")
        try:
            check_directory(path)
            with zipfile.ZipFile(path) as file:
                self._check_members(path, file)
                yield self._opened(path, file)
        except DAMAGE as error:
            told = f"{type(error).__name__}: {one_line(error)}"[:MOST_SHOWN]
            raise UnreadableError(f"{path}: damaged, or not {self.title} ({told})") from error

    def _opened(self, path: Path, file: zipfile.ZipFile) -> Archive:
        text = read_member(file, "header").tobytes()
        self._check_values(path, text)
        header = json.loads(text.decode("ascii"))  # one character beyond would make four bytes of each
        if not isinstance(header, dict) or header.get("format") != self.name:
            raise UnreadableError(f"{path}: not {self.title}; {self.origin}")
        archive = Archive(path, file, header)
        if archive.version > self.version:
            raise archive.later(f"model version {archive.version}, this one reads up to {self.version}")
        return archive

    def _check_members(self, path: Path, file: zipfile.ZipFile) -> None:
        members = file.infolist()
        refuse_encrypted(members)
        if self.unpacked_bytes is None:
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("it is compressed")
            if sum(member.file_size for member in members) > path.stat().st_size:
                raise ValueError("its members are larger than the file")
        self._check_sizes(path, {member.filename.removesuffix(".npy"): member.file_size for member in members})

    def _check_sizes(self, path: str | Path, sizes: dict[str, int]) -> None:
        """Refuse the same when a file is written and when it is read."""
        for what, size, allowed in (
            ("it unpacks to", sum(sizes.values()), self.unpacked_bytes),
            ("its header has", sizes["header"], self.header_bytes + NPY_HEADER),
        ):
            if allowed is not None and size > allowed:
                raise TooLargeError(f"{path}: {what} {size >> 20} MiB, {allowed >> 20} are allowed; {self.smaller}")

    def _check_values(self, path: str | Path, text: bytes) -> None:
        """Refuse a header whose values take much memory, the same when a file is written and when it is read."""
        counts = _outside_strings(text)
        nested, values, entries = (sum(counts[ord(mark)] for mark in marks) for marks in ("[{", ",", ":"))
        if nested > MOST_NESTED:
            raise TooLargeError(f"{path}: its header has more than {MOST_NESTED} lists and objects; {self.smaller}")
        # measured: short strings, the worst, take some 80 bytes each, as a key as much again
        wide = 4 if b"\\ud" in text or b"\\uD" in text else 2 if b"\\u" in text else 1
        size = wide * len(text) + 64 * nested + 90 * values + 80 * entries
        if size > MOST_VALUES:
            what = f"the values of its header take {size >> 20} MiB, {MOST_VALUES >> 20} are allowed"
            raise TooLargeError(f"{path}: {what}; {self.smaller}")


def _outside_strings(text: bytes) -> list[int]:
    """Return how often each byte stands in JSON, what stands in strings left out."""
    counts, inside = np.zeros(256, np.int64), np.False_
    plain = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    for start in range(0, len(plain), BLOCK):
        block = plain[start : start + BLOCK]
        within = np.logical_xor.accumulate(block == ord('"')) ^ inside
        counts += np.bincount(block[~within], minlength=256)
        inside = within[-1]
    return counts.tolist()


def _plain(value: Any) -> Any:
    """Return what JSON does not know as what it knows: NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a header must hold numbers and text; got a {type(value).__name__}")


def read_arrays(path: Path, names: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Array]:
    """Read arrays of a ``.npz`` file of data, of whatever kind but objects.

    Parameters
    ----------
    path : Path
    names, optional : iterable of str
        What must be there, and what is read where it is.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    UnreadableError
        If the file is damaged, or one of `names` is missing.
    TooLargeError
        If the arrays have more than 1 GiB, or say that they have.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import read_arrays
    >>> np.savez("data.npz", X=np.eye(3))
    >>> read_arrays(Path("data.npz"), ["X"])["X"].shape
    (3, 3)
    """
    try:
        check_directory(path)
        with zipfile.ZipFile(path) as file:
            refuse_encrypted(file.infolist())
            sizes = {member.filename.removesuffix(".npy"): member.file_size for member in file.infolist()}
            check_names(path, names, set(sizes))
            wanted = [*names, *(name for name in optional if name in sizes)]
            check_bytes(path, sum(sizes[name] for name in wanted))
            return {name: read_member(file, name, bounded=True) for name in wanted}
    except MediaError:
        raise
    except Exception as error:  # zipfile, zlib and numpy have many ways to say that a file is damaged
        raise UnreadableError(f"{path} cannot be read: {one_line(error)}.") from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as a ``.npz`` file of data, whatever its name ends with.

    Not `numpy.savez`, which only leaves the name as it is where it is given an open file: a signal in its midst is then
    followed by a traceback, as the file is closed before the archive.

    Parameters
    ----------
    path : Path
        Replaced; as a rule of :func:`.output_file`.
    arrays : mapping of str to ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import read_arrays, write_arrays
    >>> write_arrays(Path("data.npz"), {"X": np.eye(3)})
    >>> read_arrays(Path("data.npz"), ["X"])["X"].shape
    (3, 3)
    """
    with zipfile.ZipFile(path, "w") as file:
        write_members(file, arrays)


def write_members(file: zipfile.ZipFile, arrays: Mapping[str, Array]) -> None:
    for name, array in arrays.items():
        with file.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


def refuse_encrypted(members: Iterable[zipfile.ZipInfo]) -> None:
    if any(member.flag_bits & ENCRYPTED for member in members):
        raise ValueError("it is encrypted")


def check_directory(path: Path) -> None:
    """Raise ValueError where a zip file's directory is too large to be read with little memory.

    Parameters
    ----------
    path : Path
        A file; what is no zip file passes, for `zipfile` to refuse.
    """
    with path.open("rb") as file:
        length = file.seek(0, io.SEEK_END)
        start = file.seek(max(0, length - END_BYTES))
        tail = file.read()
        at = tail.rfind(b"PK\5\6", 0, max(0, len(tail) - 18))  # of 22 bytes
        if at < 0:
            return
        sizes = list(struct.unpack_from("<L", tail, at + 12))
        if at >= 20 and tail[at - 20 : at - 16] == b"PK\6\7":  # a zip64 file: its record lies before, or where it says
            for position in (start + at - 76, *struct.unpack_from("<Q", tail, at - 12)):
                file.seek(min(max(0, position), length))
                record = file.read(56)
                if record[:4] == b"PK\6\6" and len(record) == 56:
                    sizes += struct.unpack_from("<Q", record, 40)
    if max(sizes) > MOST_DIRECTORY and max(sizes) != 0xFFFFFFFF:  # which stands for: see the record
        raise ValueError(f"its directory has {max(sizes)} bytes")


def check_npy(file: IO[bytes]) -> None:
    """Raise ValueError where an array's header is larger than any that numpy writes.

    Parameters
    ----------
    file : binary file
        At its beginning, of which 12 bytes are read.
    """
    start = file.read(12)
    if len(start) == 12 and start[6] > 1:  # from version 2 on the length has four bytes, else two
        (length,) = struct.unpack_from("<L", start, 8)
        if length > MOST_NPY_HEADER:
            raise ValueError(f"its header has {length} bytes")


def check_names(path: Path, names: Iterable[str], held: set[str]) -> None:
    """Raise UnreadableError where one of the names is not among those that the file holds."""
    absent = sorted(set(names) - held)
    if absent:
        shown = ", ".join(repr(name[:40]) for name in sorted(held)[:10]) or "nothing"  # a stranger chose them
        raise UnreadableError(f"{path} cannot be read: it has no {' and no '.join(absent)}, it holds {shown}.")


def read_member(file: zipfile.ZipFile, name: str, *, bounded: bool = False) -> Array:
    """Read an array; not by numpy's loader, which allocates what a header asks for before it looks at the file."""
    member = file.getinfo(f"{name}.npy")
    with file.open(member) as content:
        check_npy(content)
    with file.open(member) as content:
        version = np.lib.format.read_magic(content)
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
        for start in range(0, size, BLOCK):
            data[start : start + BLOCK] = np.frombuffer(content.read(min(BLOCK, size - start)), np.uint8)
    return data.view(dtype).reshape(shape, order="F" if fortran_order else "C")
