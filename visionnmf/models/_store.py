"""Models in files: arrays in ``.npz`` with a JSON header; nothing in them is ever executed.

The header names the class and has its parameters and fitted attributes as JSON, in which an object of one key stands
for what JSON does not have::

    {"array": "components_"}            an array of numbers, the member components_.npy
    {"csr": [shape, data, indices, indptr]}   a sparse array
    {"strings": [...]}                  an array of text, such as feature names
    {"tuple": [...]}, {"dict": {...}}, {"slice": [start, stop, step]}
    {"float": "inf"}                    or "-inf" or "nan"
    {"object": "Penalty", "parameters": {...}}

Members are stored, not compressed, so that a file cannot ask for more memory than it is long.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from visionnmf._version import __version__
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.archive import DAMAGE, one_line, read_raw
from visionnmf.io.files import output_file, regular_file

__all__ = ["Saveable", "load_model"]

Array = NDArray[Any]

FORMAT = "visionnmf-model"
VERSION = 1
HEADER_BYTES = 16 << 20  # of the JSON, which takes up to 25 times the memory when decoded
NUMBERS = "biuf"  # kinds of arrays: truth values, integers, floating point

# Class: module. Those with `save` can be the model of a file, the others are parameters of one.
CLASSES = {"NMF": ".nmf", "ProjectiveNMF": ".projective", "SymmetricNMF": ".symmetric", "Penalty": ".penalty"}
ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_|_sklearn_output_config")  # the latter is what set_output has chosen


class Saveable:
    """Gives an estimator ``save``; :func:`load_model` is the way back."""

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted model to a file that :func:`visionnmf.load_model` reads.

        Parameters, fitted attributes and the output that ``set_output`` has chosen are kept: the loaded model's
        ``transform`` returns the same to the bit. A `callback`, and a `random_state` that is a generator, are saved as
        None, since ``transform`` needs neither.

        Parameters
        ----------
        path : str or Path
            The file to write, as a rule ``*.npz``; written whole or not at all.
        force : bool, default=False
            Whether an existing file may be replaced.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ParameterError
            If a parameter is of a kind that files do not hold, or the class is not one of visionnmf's own.
        TooLargeError
            If there are too many names for one file.
        OutputExistsError
            If `path` exists and `force` is false.
        MediaError
            If `path` is a folder, or its folder is missing or cannot be written.
        """
        check_is_fitted(self)
        name = type(self).__name__
        if name not in CLASSES or type(self) is not _class(name):
            raise ParameterError(f"only models of {sorted(_models())} can be saved; got a {name}; save its parts")
        arrays: dict[str, Array] = {}
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        fitted = {key: value for key, value in vars(self).items() if key not in parameters and ATTRIBUTE.fullmatch(key)}
        header = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": __version__,
            "class": name,
            "parameters": {key: _encode(value, f"parameters.{key}", arrays) for key, value in parameters.items()},
            "fitted": {key: _encode(value, key, arrays) for key, value in fitted.items()},
        }
        text = json.dumps(header, allow_nan=False).encode()
        if len(text) > HEADER_BYTES:
            raise TooLargeError(
                f"{path}: the model's parameters and names take {len(text) >> 20} MiB, {HEADER_BYTES >> 20} are "
                "allowed; fit without feature names"
            )
        members = {"header": np.frombuffer(text, np.uint8), **arrays}
        cure = "pass force=True to replace it"
        with output_file(path, force=force, cure=cure) as temporary, temporary.open("wb") as file:
            np.savez(file, **members)  # type: ignore[arg-type]


def load_model(path: str | Path) -> Any:
    """Read a model that its ``save`` has written.

    Files of strangers are safe to read: nothing in them is executed, and they cannot ask for more memory than they are
    long.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    NMF, ProjectiveNMF or SymmetricNMF
        The fitted model; its ``transform`` returns what that of the saved one did, to the bit.

    Raises
    ------
    UnreadableError
        If the file is missing, damaged, or no model of visionnmf.
    UnsupportedError
        If a later version of visionnmf wrote it.
    TooLargeError
        If its header has more than 16 MiB.

    Examples
    --------
    >>> import numpy as np, tempfile, visionnmf
    >>> X = np.random.default_rng(0).random((20, 9))
    >>> model = visionnmf.NMF(2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.npz")
    ...     again = visionnmf.load_model(f"{folder}/model.npz")
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    path = regular_file(path, "model")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, path)
            header = json.loads(_header(archive, path))
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise UnreadableError(f"{path}: not a model of visionnmf's estimators; write one with model.save")
            if int(header["version"]) > VERSION:
                raise _from_the_future(path, f"model version {int(header['version'])}, this one reads up to {VERSION}")
            return _model(archive, path, header)
    except DAMAGE as error:
        raise UnreadableError(f"{path}: damaged, or not a model of visionnmf ({one_line(error)})") from error


def _from_the_future(path: Path, what: str) -> UnsupportedError:
    return UnsupportedError(f"{path}: written by a later version of visionnmf ({what}); upgrade visionnmf")


def _class(name: str) -> Any:
    return getattr(import_module(CLASSES[name], __package__), name)


def _models() -> list[str]:
    return [name for name in CLASSES if issubclass(_class(name), Saveable)]


# --- values as JSON, and back -----------------------------------------------------------------------------------------


def _encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """Return a value as JSON; its arrays go to `arrays`, under `name`."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [_encode(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": _encode(list(value), name, arrays)}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode(item, f"{name}.{key}", arrays) for key, item in value.items()}}
    if isinstance(value, slice):
        return {"slice": _encode([value.start, value.stop, value.step], name, arrays)}
    if sp.issparse(value):
        csr = sp.csr_array(value)
        parts = (csr.data, csr.indices, csr.indptr)
        return {"csr": [list(csr.shape), *(_encode(part, f"{name}.{i}", arrays) for i, part in enumerate(parts))]}
    if isinstance(value, np.ndarray):
        return _encode_array(value, name, arrays)
    if type(value).__name__ in CLASSES and type(value) is _class(type(value).__name__):
        parameters = value.get_params(deep=False).items()
        encoded = {key: _encode(item, f"{name}.{key}", arrays) for key, item in parameters}
        return {"object": type(value).__name__, "parameters": encoded}
    if callable(value) or isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # callbacks and generators: the result does not need them
    raise _not_kept(name, f"a {type(value).__name__}")


def _encode_array(value: Array, name: str, arrays: dict[str, Array]) -> Any:
    if value.dtype.kind in NUMBERS and value.dtype.itemsize <= 8:
        arrays[name] = np.ascontiguousarray(value).reshape(value.shape)
        return {"array": name}
    strings = value.tolist()
    if value.ndim == 1 and all(isinstance(item, str) for item in strings):
        return {"strings": strings}
    raise _not_kept(name, f"an array of {value.dtype}")


def _not_kept(name: str, what: str) -> ParameterError:
    name = name.removeprefix("parameters.")
    return ParameterError(f"{name} cannot be saved: got {what}; files hold numbers, text, arrays and penalties")


class _Reader:
    """Turns the JSON of a header into values; each array is read once."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive = archive
        self.path = path
        self.forms: dict[str, Callable[[Any], Any]] = {
            "array": self.array,
            "csr": self.csr,
            "strings": lambda items: np.array([_expect(item, str) for item in items], object),
            "tuple": lambda items: tuple(self.value(_expect(items, list))),
            "dict": lambda items: {key: self.value(item) for key, item in items.items()},
            "slice": lambda items: slice(*(_expect(item, int | None) for item in items)),
            "float": lambda text: float(_expect(text, str)),
        }

    def value(self, item: Any) -> Any:
        if isinstance(item, list):
            return [self.value(part) for part in item]
        if not isinstance(item, dict):
            return item
        if set(item) == {"object", "parameters"}:
            return self.object(item)
        ((form, content),) = item.items()
        return self.forms[form](content)

    def object(self, item: dict[str, Any]) -> Any:
        """Make an estimator of its class and parameters."""
        cls = _class(_expect(item["object"], str))
        parameters = {key: self.value(part) for key, part in item["parameters"].items()}
        unknown = sorted(set(parameters) - set(signature(cls).parameters))
        if unknown:
            raise _from_the_future(self.path, f"{item['object']} has no parameter {unknown[0]!r:.60} in this one")
        return cls(**parameters)

    def array(self, name: str) -> Array:
        raw = read_raw(self.archive, name)
        if raw.dtype.kind not in NUMBERS or raw.dtype.itemsize > 8:
            raise ValueError(f"{name:.60} is not an array of numbers")
        if math.prod(raw.shape) * raw.dtype.itemsize != len(raw.data):
            raise ValueError(f"{name:.60} is not of the size it says")
        order: Any = "F" if raw.fortran_order else "C"
        array = np.frombuffer(bytearray(raw.data), raw.dtype).reshape(raw.shape, order=order)
        return array.astype(raw.dtype.newbyteorder("="), copy=False)

    def csr(self, content: list[Any]) -> Any:
        rows, columns = (_expect(size, int) for size in content[0])
        data, indices, indptr = (self.value(part) for part in content[1:])
        matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
        return matrix


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} where another kind of value belongs")
    return value


# --- a file, checked --------------------------------------------------------------------------------------------------


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse members that would unpack to more than the file holds."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise UnreadableError(f"{path}: compressed, or not a model of visionnmf; model files are not compressed")
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise ValueError("the members are larger than the file")


def _header(archive: zipfile.ZipFile, path: Path) -> bytes:
    size = archive.getinfo("header.npy").file_size
    if size > HEADER_BYTES + 128:
        raise TooLargeError(f"{path}: its header has {size >> 20} MiB, {HEADER_BYTES >> 20} are allowed")
    return read_raw(archive, "header").data


def _model(archive: zipfile.ZipFile, path: Path, header: dict[str, Any]) -> Any:
    name = header["class"]
    if name not in _models():
        raise _from_the_future(path, f"it has no estimator {name!r:.60}")
    reader = _Reader(archive, path)
    model = reader.object({"object": name, "parameters": header["parameters"]})
    for key, item in header["fitted"].items():
        if not ATTRIBUTE.fullmatch(key):
            raise ValueError(f"{key!r:.60} is no fitted attribute")
        setattr(model, key, reader.value(item))
    _check_fitted(model)
    return model


def _check_fitted(model: Any) -> None:
    """Raise ValueError when the fitted attributes do not fit together."""
    H = model.components_
    if not isinstance(H, np.ndarray) or H.ndim != 2 or H.dtype.name not in ("float32", "float64") or not len(H):
        raise ValueError("components_ is not a matrix of float32 or float64")
    if not np.isfinite(H).all() or (H < 0).any():
        raise ValueError("components_ is not finite and non-negative")
    expected = {"n_features_in_": H.shape[1], "n_components_": len(H)}
    for name, size in expected.items():
        if (name == "n_features_in_" or hasattr(model, name)) and getattr(model, name) != size:
            raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
    for name, size in (("feature_names_in_", H.shape[1]), ("component_norms_", len(H))):
        if hasattr(model, name) and np.shape(getattr(model, name)) != (size,):
            raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
