"""One schema for every model file: a model declares its state once, and saving, loading and checking follow from that.

A model file is an ``.npz`` archive that NumPy can read as well. Its member ``header`` is JSON: the kind of model, its
version, the version of visionnmf that wrote it, and the state. The other members are the arrays of the state, named by
their place in it. A store declares the state as a tree of fields and names the dimensions of the arrays::

    FILE = ModelFile(
        "visionnmf-scene", version=1, title="a scene", origin="make one with Scene.save", smaller="take smaller frames",
        state=Record({
            "threshold": Number(low=0),
            "scene": Array("float32", "height width", low=0, high=255),
            "places": Array("int64", "places", low=0, below="height*width", increasing=True),
        }, Scene),
    )
    FILE.save(scene, path)
    scene = FILE.load(path)

The name of a dimension stands for one number in the whole file. In an item of a `List` new names stand for a number of
that item, and an `Estimator` has names of its own. The same checks run when a file is written and when it is read.

Files may come from untrusted sources, and nothing in them is ever executed. Members are stored without compression and
the sizes in the archive's directory are checked first, so a file cannot ask for more memory than it is long. What the
JSON would take when it is decoded is bounded. A file holds exactly the members that its state needs.
"""

from __future__ import annotations

import json
import tokenize
import zipfile
import zlib
from collections import ChainMap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._text import one_line
from visionnmf._version import __version__
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError

from .inputs import regular_file
from .model_state import Field, Place, StateError
from .npz_files import NPY_HEADER, NUMBERS, check_directory, read_member, refuse_encrypted, write_members
from .outputs import output_file

MAX_HEADER = 32 << 20  # bytes of JSON
MAX_NESTED = 250_000  # lists and objects in the JSON: each takes 30 times the memory of its brackets
MAX_VALUES = 160 << 20  # bytes that the values of the JSON may take: short ones take 20 times their text
MAX_SHOWN = 160  # characters of an error at the end of a sentence
BLOCK = 1 << 20
ARCHIVE = b"PK\x03\x04"  # the first bytes of every .npz file

# What a damaged file can raise on its way through zipfile, numpy, json and the checks of what they found. The header of
# an array raises TokenError or SyntaxError.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, EOFError, LookupError, TypeError, ValueError),
    *(AttributeError, OverflowError, RecursionError, NotImplementedError, OSError),
)


# The kinds of files that users take for each other, and what reads them.
OTHERS = {
    "visionnmf-model": ("a model of an estimator such as NMF", "visionnmf.load_model"),
    "visionnmf-faces": ("a model of faces", "FaceRecognizer.load or load of visionnmf.apps.faces"),
    "visionnmf-masquerade": ("a model of sessions", "SessionScorer.load or load of visionnmf.apps.masquerade"),
    "visionnmf-annotation": ("a model of annotations", "load of visionnmf.apps.annotation"),
    "visionnmf-multiview": ("a model of several views", "load of visionnmf.apps.multiview"),
    "visionnmf-background": ("a background model", "BackgroundModel.load of visionnmf.apps.background"),
    "visionnmf-online-background": (
        "a background model of a stream",
        "OnlineBackgroundModel.load of visionnmf.apps.background",
    ),
}


class _Members(dict[str, Any]):
    """The arrays of an open file by name. Each is read when it is asked for, and only once."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        """Take the open archive `file`; `unread` has the names of the members that nothing has asked for."""
        super().__init__()
        self._file = file
        # names of members that nothing has asked for
        self.unread = {member.filename for member in file.infolist()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Read an array of the archive; raise KeyError if it is missing or was read before, StateError if damaged."""
        self.unread.remove(f"{name}.npy")
        array = read_member(self._file, name)
        if array.dtype.kind not in NUMBERS or array.dtype.itemsize > 8:
            raise StateError(f"{name:.60} must be an array of numbers; got {array.dtype}")
        return array.astype(array.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class ModelFile:
    """One kind of model file, of one `version`, which changes with the declared `state`.

    `name` stands in the header. The messages say what a file of this kind is (`title`: "a model of faces"), how to make
    one (`origin`) and how to make a smaller one (`smaller`).
    """

    name: str
    version: int
    title: str
    origin: str
    smaller: str
    state: Field

    def save(self, model: Any, path: str | Path, *, force: bool = False) -> None:
        """Write a file, completely or not at all; `force` allows to replace one.

        The header is JSON, and arrays are members of the file, named by their place in the state. Raises ParameterError
        if a part of the state does not fit its field, TooLargeError if the header is larger than would be read, and
        MediaError if the file exists or cannot be written.
        """
        arrays: dict[str, NDArray[Any]] = {}
        try:
            # a `Place` has the name of a part of the state, at first empty, the arrays of the file and known dimensions
            packed = self.state.pack(model, Place("", arrays, ChainMap()))
        except StateError as error:
            raise ParameterError(f"{error}; {self.title} cannot be saved like this") from error
        header = {"format": self.name, "version": self.version, "written_by": __version__, "state": packed}
        encoded = json.dumps(header, allow_nan=False).encode()
        self._check_header(path, encoded)
        with output_file(path, force=force) as temporary, zipfile.ZipFile(temporary, "w") as file:
            write_members(file, {"header": np.frombuffer(encoded, np.uint8), **arrays})

    def load(self, path: str | Path) -> Any:
        """Read a file, check it against the declared state, and return what `state` builds.

        Raises UnreadableError if the file is missing, damaged, of another kind or has a member that nothing needs,
        UnsupportedError if another version wrote it, and TooLargeError if its header is too large.
        """
        path = regular_file(path, "model")
        with path.open("rb") as opened:
            if not ARCHIVE.startswith(opened.read(len(ARCHIVE))):  # the beginning of an archive is damaged, not foreign
                raise UnreadableError(f"{path}: not {self.title}, because it is not an .npz file; {self.origin}")
        try:
            check_directory(path)
            with zipfile.ZipFile(path) as file:
                self._check_members(path, file)
                members = _Members(file)
                # a `Place` has the name of a part of the state, at first empty, the file's arrays, and known dimensions
                state = self.state.unpack(self._header(path, members)["state"], Place("", members, ChainMap()))
                if members.unread:
                    raise StateError(f"nothing needs its member {min(members.unread):.60}")
                return state
        except DAMAGE as error:
            kind = "" if isinstance(error, StateError) else f"{type(error).__name__}: "
            told = f"{kind}{one_line(error)}"[:MAX_SHOWN]
            raise UnreadableError(f"{path}: damaged, or not {self.title} ({told})") from error

    def _check_members(self, path: Path, file: zipfile.ZipFile) -> None:
        """Refuse members that are compressed, encrypted, longer than the file, or a header that is too long."""
        members = file.infolist()
        refuse_encrypted(members)
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise StateError("it is compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise StateError("its members are larger than the file")
        # the JSON of the header is stored as an array of bytes, after NumPy's own header
        self._check_size(path, file.getinfo("header.npy").file_size - NPY_HEADER)

    def _header(self, path: Path, members: _Members) -> dict[str, Any]:
        """Return the header of a model file; raise if it is not of this format or of another version.

        `origin` says how to make such a file. The caller turns StateError and KeyError into UnreadableError.
        """
        text = members["header"].tobytes()
        # before it is decoded: TooLargeError if the decoded values, above all many short ones, would fill the memory
        self._check_header(path, text)
        header = json.loads(text.decode("ascii"))  # a character beyond ASCII would double or quadruple the memory
        found = header.get("format") if isinstance(header, dict) else None
        if found != self.name:
            cure = self.origin
            if isinstance(found, str) and found in OTHERS:
                cure = f"it is {OTHERS[found][0]}; read it with {OTHERS[found][1]}"
            raise UnreadableError(f"{path}: not {self.title}; {cure}")
        version = header["version"]
        if type(version) is not int:
            raise StateError("its version is not a number")
        if version == self.version:
            return header
        which, cure = ("a later", "upgrade visionnmf") if version > self.version else ("an earlier", self.origin)
        told = f"written by {which} version of visionnmf (model version {version!s:.20}, this one reads {self.version})"
        raise UnsupportedError(f"{path}: {told}; {cure}")

    def _check_header(self, path: str | Path, text: bytes) -> None:
        """Refuse a header, JSON `text`, whose values take much memory; the same for writing and reading."""
        self._check_size(path, len(text))
        counts = count_outside_strings(text)
        nested, values, entries = (sum(counts[ord(mark)] for mark in marks) for marks in ("[{", ",", ":"))
        if nested > MAX_NESTED:
            raise TooLargeError(f"{path}: its header has more than {MAX_NESTED} lists and objects; {self.smaller}")
        # Measured: short strings are the worst, they take some 80 bytes each, and as much again as a key.
        # A decoded text takes 1, 2 or 4 bytes for each character, by the widest; "\ud..." begins one of 4 bytes.
        wide = 4 if b"\\ud" in text or b"\\uD" in text else 2 if b"\\u" in text else 1
        size = wide * len(text) + 64 * nested + 90 * values + 80 * entries
        if size > MAX_VALUES:
            what = f"the values of its header take {size >> 20} MiB, {MAX_VALUES >> 20} are allowed"
            raise TooLargeError(f"{path}: {what}; {self.smaller}")

    def _check_size(self, path: str | Path, size: int) -> None:
        """Raise TooLargeError if a header of `size` bytes is larger than allowed; `smaller` says what to do then."""
        if size > MAX_HEADER:
            what = f"its header has {size >> 20} MiB, {MAX_HEADER >> 20} are allowed"
            raise TooLargeError(f"{path}: {what}; {self.smaller}")


def count_outside_strings(text: bytes) -> list[int]:
    """Return how often each byte value, 0 to 255, stands in JSON outside its strings.

    Without escaped backslashes and quotation marks, a byte lies within a string if the number of marks up to it is odd.
    """
    counts, inside = np.zeros(256, np.int64), np.False_
    plain = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    for start in range(0, len(plain), BLOCK):
        block = plain[start : start + BLOCK]
        within = np.logical_xor.accumulate(block == ord('"')) ^ inside
        counts += np.bincount(block[~within], minlength=256)
        inside = within[-1]
    return counts.tolist()
