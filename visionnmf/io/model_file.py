"""Model files: the arguments of constructors and fitted attributes, as JSON and arrays.

A model file is an ``.npz`` archive that NumPy can read as well. Its member ``header`` is JSON: ``format`` and ``kind``
say what the file is, ``version`` changes with what a kind holds, ``written_by`` is the version of visionnmf, and
``state`` is the model. The other members are its arrays, named by their place in it, such as ``model.components_``.

A class can be in a file if its kind finds it by name. Of an estimator the arguments of the constructor and the fitted
attributes that its ``saved_attributes`` names are kept, of other objects the arguments alone. Estimators have a method
``_check_state``: it raises ValueError (or an error of wrong types) unless what a file gave can be used, and computes
what files do not hold. Saving reads back what it is about to write, so that the same checks hold.

Files may come from untrusted sources, and nothing in them is ever executed. Members are stored without compression and
the sizes in the archive's directory are checked first, so a file cannot ask for more memory than it is long. What the
JSON would take when it is decoded is bounded. A file holds exactly the members that its state needs.
"""

from __future__ import annotations

import json
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_saved, check_type
from visionnmf._text import one_line
from visionnmf._version import __version__
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError

from .inputs import regular_file
from .npz_files import NUMBERS, open_npz, write_arrays
from .outputs import output_file

FORMAT = "visionnmf"
HEADER = "header.npy"  # the member without which a file is no model
MAX_HEADER = 8 << 20  # bytes of JSON, of which short texts take 15 times the memory
MAX_NESTED = 250_000  # lists and objects in the JSON: each takes 40 times the memory of its brackets
NPY_HEADER = 128  # bytes of NumPy before the data of an array
MAX_DEPTH = 50  # true states have less than ten levels; Python's own limit differs from version to version
MAX_SHOWN = 160  # characters of an error at the end of a sentence
ARCHIVE = b"PK\x03\x04"  # the first bytes of every .npz file

# What a damaged file can raise on its way through zipfile, numpy, json and the checks of what they found. The header of
# an array raises TokenError or SyntaxError.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, EOFError, LookupError, TypeError, ValueError),
    *(AttributeError, ArithmeticError, MemoryError, RuntimeError, OSError),
)

# What reads the kinds of files, which users take for each other.
KINDS = {
    "model": "visionnmf.load_model",
    "faces": "FaceRecognizer.load or load of visionnmf.apps.faces",
    "masquerade": "SessionScorer.load or load of visionnmf.apps.masquerade",
    "annotation": "load of visionnmf.apps.annotation",
    "multiview": "load of visionnmf.apps.multiview",
    "background": "BackgroundModel.load of visionnmf.apps.background",
    "online-background": "OnlineBackgroundModel.load of visionnmf.apps.background",
    "features": "load_extraction of visionnmf.features",
}

FindClass = Callable[[str], type]
T = TypeVar("T")


# --- values -----------------------------------------------------------------------------------------------------------


class Checked(Protocol):
    """An estimator that files hold."""

    saved_attributes: tuple[str, ...]  # the fitted attributes that files hold

    def _check_state(self) -> None: ...


@dataclass(frozen=True)
class Values:
    """Turns values into JSON and arrays, which stand in `arrays` by the names of their places, and back.

    None, numbers, text, lists, tuples, dicts, slices, arrays and sparse matrices are kept, and objects of the classes
    that `find_class` returns by their names. Callables and random generators become None.
    """

    find_class: FindClass
    arrays: MutableMapping[str, Any]

    def pack(self, value: Any, place: str) -> Any:
        """Return a value as JSON; what JSON cannot hold becomes a dict, its form the only key."""
        import scipy.sparse as sp

        value = value.item() if isinstance(value, np.generic) else value
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if self._knows(type(value)):
            arguments = {name: getattr(value, name) for name in signature(type(value)).parameters}
            saved = getattr(value, "saved_attributes", ())
            fitted = {name: vars(value)[name] for name in saved if name in vars(value)}
            parts = [self._pack_items(each, place) for each in ((arguments, fitted) if fitted else (arguments,))]
            return {"object": [type(value).__name__, *parts]}
        if isinstance(value, list):
            return [self.pack(item, join(place, i)) for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": self.pack(list(value), place)}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": self._pack_items(value, place)}
        if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS and value.dtype.itemsize <= 8:
            # ascontiguousarray gives an array without dimensions one; reshape takes it away again
            self.arrays[place] = np.ascontiguousarray(value).reshape(value.shape)
            return {"array": place}
        if isinstance(value, np.ndarray) and value.ndim == 1 and all(isinstance(item, str) for item in value.tolist()):
            return {"strings": value.tolist()}
        if sp.issparse(value):
            csr = sp.csr_array(value)
            return {"csr": [list(csr.shape), self.pack([csr.data, csr.indices, csr.indptr], place)]}
        if callable(value) or isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # a fitted model does not need them
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise ValueError(f"{place} must be a number, text, an array or an object of visionnmf; got {kind}")

    def _pack_items(self, items: dict[str, Any], place: str) -> dict[str, Any]:
        """Return the values of a dict, or the attributes of an object, as JSON."""
        return {name: self.pack(item, join(place, _part(name, i))) for i, (name, item) in enumerate(items.items())}

    def _knows(self, kind: type) -> bool:
        """Return whether `find_class` finds a class, so that objects of it can be made again."""
        try:
            return self.find_class(kind.__name__) is kind
        except KeyError:
            return False

    def unpack(self, item: Any, place: str) -> Any:
        """Return the value that :meth:`pack` made `item` of at the same place; raise an error of DAMAGE for others."""
        if isinstance(item, list):
            return [self.unpack(part, join(place, i)) for i, part in enumerate(item)]
        if not isinstance(item, dict):
            if isinstance(item, float) and not math.isfinite(item):  # 1e999, and the words that JSON does not have
                raise ValueError(f"{place} must be a finite number")
            return item
        ((form, content),) = item.items()  # always one key
        match form:
            case "float" if content in ("inf", "-inf", "nan"):
                return np.nan if content == "nan" else float(content)  # the object, as parameters are compared
            case "tuple" if isinstance(content, list):
                return tuple(self.unpack(content, place))
            case "slice" if all(part is None or type(part) is int for part in content):
                return slice(*content)
            case "dict":
                return self._unpack_items(content, place)
            case "array" if content == place:
                return self.arrays[place]
            case "strings" if isinstance(content, list) and all(isinstance(part, str) for part in content):
                return np.array(content, object)
            case "csr":
                return self._unpack_sparse(place, *content)
            case "object":
                return self._unpack_object(place, *content)
        raise ValueError(f"{place} is of an unknown form")

    def _unpack_items(self, items: Any, place: str) -> dict[str, Any]:
        """Return the values of a dict, or the attributes of an object."""
        return {name: self.unpack(item, join(place, _part(name, i))) for i, (name, item) in enumerate(items.items())}

    def _unpack_sparse(self, place: str, shape: Any, parts: Any) -> Any:
        """Return a sparse matrix, after checking that its arrays fit together."""
        import scipy.sparse as sp

        if not (len(shape) == 2 and all(type(size) is int for size in shape) and isinstance(parts, list)):
            raise ValueError(f"{place} must be a sparse matrix")
        data, indices, indptr = self.unpack(parts, place)
        # SciPy would convert short integers, and take memory for the shape
        check_saved(indptr, place, (shape[0] + 1,), "int32 int64")
        check_saved(indices, place, (len(data),), "int32 int64", empty=True)
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _unpack_object(self, place: str, name: Any, arguments: Any, fitted: Any = None) -> Any:
        """Return an object made of its arguments, with its fitted attributes, which the object checks itself."""
        kind: Any = self.find_class(name)
        unknown = sorted({*arguments} - {*signature(kind).parameters})
        if unknown:
            raise ValueError(f"{name} must have parameters that this version knows; got {unknown[0]!s:.40}")
        values = self._unpack_items(arguments, place)
        seed = values.get("random_state")  # generators were not stored
        if seed is not None and type(seed) is not int:
            raise ValueError("random_state must be a whole number")
        made: Checked = kind(**values)
        if fitted is None:
            return made
        unknown = sorted({*fitted} - {*made.saved_attributes})
        if unknown:
            raise ValueError(f"{name} must have attributes that this version knows; got {unknown[0]!s:.40}")
        vars(made).update(self._unpack_items(fitted, place))
        made._check_state()
        return made


def join(place: str, part: str | int) -> str:
    """Return the place of a part, such as "model.penalty_W"; raise ValueError if it is nested too deeply."""
    name = f"{place}.{part}".lstrip(".")
    if name.count(".") > MAX_DEPTH:
        raise ValueError(f"{name:.60} is nested more than {MAX_DEPTH} levels deep")
    return name


def _part(name: str, number: int) -> str | int:
    """Return a name for places: keys that are not plain names, which may be of any length, are numbered."""
    return name if name.isidentifier() and name.isascii() and len(name) <= 40 else number


class _Members(dict[str, Any]):
    """The arrays of an open file by name. Each is read when it is asked for, and only once."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file
        self.unread = set(file.files)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Read an array of the archive; raise KeyError if it is missing or was read before."""
        self.unread.remove(name)
        array = self._file[name]
        if array.dtype.kind not in NUMBERS or array.dtype.itemsize > 8:
            raise ValueError(f"{name:.60} must be an array of numbers; got {array.dtype}")
        return array.astype(array.dtype.newbyteorder("="), copy=False)


# --- files ------------------------------------------------------------------------------------------------------------


def kind_of(path: str | Path) -> str:
    """Return which of KINDS a file says that it is, or ""; nothing else of it is read, and nothing is checked."""
    path = regular_file(path, "model")
    with suppress(*DAMAGE), open_npz(path) as file:
        if file.zip.getinfo(HEADER).file_size <= MAX_HEADER + NPY_HEADER:
            kind = json.loads(file["header"].tobytes())["kind"]
            return kind if kind in KINDS else ""
    return ""


def class_finder(*classes: type, others: tuple[FindClass, ...] = ()) -> FindClass:
    """Return a function that finds `classes` by their names, and what `others` find."""
    known = {kind.__name__: kind for kind in classes}

    def find(name: str) -> type:
        for other in (known.__getitem__, *others):
            with suppress(KeyError):
                return other(name)
        raise KeyError(name)

    return find


def check_model(kind: type) -> Callable[[Any], Any]:
    """Return a function that returns a fitted model of a class, and raises an error of DAMAGE for anything else."""

    def check(model: Any) -> Any:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(check_type(model, "the model", kind))
        return model

    return check


@dataclass(frozen=True)
class ModelFile(Generic[T]):
    """One kind of model file, of one `version`, which changes with what is saved.

    The messages say what a file of this kind is (`title`: "a model of faces"), how to make one (`origin`) and how to
    make a smaller one (`smaller`). `find_class` returns a class by its name, or raises KeyError. `check` returns the
    model for the value in a file, or raises ValueError or TypeError if it is not of this kind. `taken_apart` returns
    this value for a model; by default it is the model.
    """

    kind: str
    version: int
    title: str
    origin: str
    smaller: str
    find_class: FindClass
    check: Callable[[Any], T]
    taken_apart: Callable[[Any], Any] = lambda model: model

    def save(self, model: Any, path: str | Path, *, force: bool = False) -> None:
        """Write a model to a file, usually ``*.npz``, completely or not at all; `force` allows to replace one.

        Raises ParameterError if the model could not be read back, TooLargeError if the header is larger than would be
        read, and MediaError if the file exists or cannot be written.
        """
        arrays: dict[str, NDArray[Any]] = {}
        values, whole = Values(self.find_class, arrays), self.taken_apart(model)
        try:
            state = values.pack(whole, "")
            self.check(values.unpack(state, ""))
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ParameterError(f"{one_line(error)}; {self.title} cannot be saved like this") from error
        header = {"format": FORMAT, "kind": self.kind, "version": self.version, "written_by": __version__}
        encoded = json.dumps({**header, "state": state}, allow_nan=False).encode()
        self._check_header(path, encoded)
        with output_file(path, force=force) as temporary:
            write_arrays(temporary, {"header": np.frombuffer(encoded, np.uint8), **arrays})

    def load(self, path: str | Path) -> T:
        """Read a model that :meth:`save` has written. Untrusted files are safe to read.

        Raises UnreadableError if the file is missing, damaged, of another kind or has a member that nothing needs,
        UnsupportedError if another version wrote it, and TooLargeError if its header is too large.
        """
        path = regular_file(path, "model")
        with path.open("rb") as opened:
            if not ARCHIVE.startswith(opened.read(len(ARCHIVE))):  # the beginning of an archive is damaged, not foreign
                raise UnreadableError(f"{path}: not {self.title}, because it is not an .npz file; {self.origin}")
        try:
            with open_npz(path) as file:
                if HEADER not in file.zip.namelist():
                    raise UnreadableError(f"{path}: not {self.title}, because it has no header; {self.origin}")
                self._check_members(path, file.zip.infolist())
                members = _Members(file)
                model = self.check(Values(self.find_class, members).unpack(self._header(path, members)["state"], ""))
                if members.unread:
                    raise ValueError(f"nothing needs its member {min(members.unread):.60}")
                return model
        except DAMAGE as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            told = f"{kind}{one_line(error)}"[:MAX_SHOWN]
            raise UnreadableError(f"{path}: damaged, or not {self.title} ({told})") from error

    def _check_members(self, path: Path, members: list[zipfile.ZipInfo]) -> None:
        """Refuse members that are compressed or longer than the file, and a header that is too long."""
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its members are larger than the file")
        # the JSON of the header is stored as an array of bytes, after NumPy's own header
        self._check_size(path, sum(each.file_size for each in members if each.filename == HEADER) - NPY_HEADER)

    def _header(self, path: Path, members: _Members) -> dict[str, Any]:
        """Return the header of a model file; raise if it is of another kind or version.

        `origin` says how to make such a file. The caller turns ValueError and KeyError into UnreadableError.
        """
        text = members["header"].tobytes()
        self._check_header(path, text)
        header = json.loads(text.decode("ascii"))  # other characters would double or quadruple the memory
        found = header.get("kind") if isinstance(header, dict) and header.get("format") == FORMAT else None
        if found != self.kind:
            cure = self.origin
            if isinstance(found, str) and found in KINDS:
                cure = f"it is of the kind {found!r}, which {KINDS[found]} reads; {self.origin}"
            raise UnreadableError(f"{path}: not {self.title}; {cure}")
        version = header["version"]
        if type(version) is not int:
            raise ValueError("its version is not a number")
        if version == self.version:
            return header
        which, cure = ("a later", "upgrade visionnmf") if version > self.version else ("an earlier", self.origin)
        told = f"written by {which} version of visionnmf (model version {version!s:.20}, this one reads {self.version})"
        raise UnsupportedError(f"{path}: {told}; {cure}")

    def _check_header(self, path: str | Path, text: bytes) -> None:
        """Raise TooLargeError if a header is larger than allowed, or has too many lists and objects."""
        self._check_size(path, len(text))
        if text.count(b"[") + text.count(b"{") > MAX_NESTED:
            raise TooLargeError(f"{path}: its header has more than {MAX_NESTED} lists and objects; {self.smaller}")

    def _check_size(self, path: str | Path, size: int) -> None:
        """Raise TooLargeError if a header of `size` bytes is larger than allowed; `smaller` says what to do then."""
        if size > MAX_HEADER:
            what = f"its header has {size / (1 << 20):.1f} MiB, {MAX_HEADER >> 20} are allowed"
            raise TooLargeError(f"{path}: {what}; {self.smaller}")
