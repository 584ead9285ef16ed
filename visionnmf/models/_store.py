"""Models in files: a section of an archive for each, its class, parameters and fitted attributes as JSON.

An object of one key stands for what JSON does not have::

    {"array": "components_"}            an array of numbers, the archive's member of that name
    {"csr": [shape, data, indices, indptr]}   a sparse array
    {"strings": [...]}                  an array of text, such as feature names
    {"tuple": [...]}, {"dict": {...}}, {"slice": [start, stop, step]}
    {"float": "inf"}                    or "-inf" or "nan"
    {"object": "Penalty", "parameters": {...}}

:func:`pack_model` and :func:`unpack_model` are for the files of applications that hold an estimator among other things;
what such a file adds to the names of the arrays is their `prefix`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from visionnmf.engine.solvers import SOLVERS
from visionnmf.exceptions import ParameterError
from visionnmf.io.archive import NUMBERS, Archive, Format

__all__ = [
    "FITTED",
    "FORMAT",
    "Saveable",
    "load_model",
    "pack_model",
    "pack_parameters",
    "unpack_model",
]

Array = NDArray[Any]

FORMAT = Format(
    "visionnmf-model",
    version=1,
    title="a model of visionnmf's estimators",
    origin="write one with model.save",
    smaller="fit without feature names",
)

# Class: module. Those with `save` can be the model of a file, the others are parameters of one.
CLASSES = {
    "NMF": ".nmf",
    "ConservativeNMF": ".conservative",
    "MultiviewNMF": ".multiview",
    "OnlineNMF": ".online",
    "GoDec": ".robust_pca",
    "ProjectiveNMF": ".projective",
    "RPCA": ".robust_pca",
    "SymmetricNMF": ".symmetric",
    "Penalty": ".penalty",
}

# Attributes without which a fitted model of a class cannot work.
NEEDED = {
    "NMF": ("component_norms_", "loss_parameter_", "ridge_", "solver_"),
    "MultiviewNMF": (
        *("component_norms_", "loss_parameter_", "ridge_", "solver_"),
        *("view_form_", "view_groups_", "view_scales_", "views_"),
    ),
}

SIGNED = ("GoDec", "RPCA")  # components of both signs

# What a fit leaves, of whichever class. Nothing else is written, nor set when a stranger's file asks for it.
FITTED = (
    "best_error_",
    "chunk_loss_",
    "codes_covariance_",
    "codes_mean_",
    "component_norms_",
    "components_",
    "encoder_",
    "errors_",
    "feature_names_in_",
    "last_components_",
    "last_encoder_",
    "loss_parameter_",
    "n_components_",
    "n_features_in_",
    "n_iter_",
    "n_samples_seen_",
    "n_steps_",
    "objective_history_",
    "objectives_",
    "optimality_",
    "reconstruction_err_",
    "ridge_",
    "singular_values_",
    "solver_",
    "view_errors_",
    "view_form_",
    "view_groups_",
    "view_noise_",
    "view_residuals_",
    "view_scales_",
    "view_usage_",
    "view_weights_",
    "views_",
    "_open_batch",  # of a stream that has not come to an end
    "state_",
    "_sklearn_output_config",  # what set_output has chosen
)


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
        arrays: dict[str, Array] = {}
        FORMAT.write(path, pack_model(self, arrays), arrays, force=force)


def load_model(path: str | Path) -> Any:
    """Read a model that its ``save`` has written.

    Files of strangers are safe to read: nothing in them is executed, and their arrays cannot ask for more memory than
    they are long.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    NMF, ConservativeNMF, GoDec, MultiviewNMF, OnlineNMF, ProjectiveNMF, RPCA or SymmetricNMF
        The fitted model; its ``transform`` returns what that of the saved one did, to the bit.

    Raises
    ------
    UnreadableError
        If the file is missing, damaged, or no model of visionnmf.
    UnsupportedError
        If a later version of visionnmf wrote it.
    TooLargeError
        If its header has more than 16 MiB, 250,000 lists and objects, or values of 160 MiB.

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
    with FORMAT.read(path) as archive:
        return unpack_model(archive.header, archive)


def pack_model(model: Any, arrays: dict[str, Array], prefix: str = "") -> dict[str, Any]:
    """Return a fitted estimator as the section of a header.

    Parameters
    ----------
    model : NMF, OnlineNMF, ProjectiveNMF or SymmetricNMF
    arrays : dict
        Gets the model's arrays.
    prefix : str, default=""
        Begins the names of the arrays.

    Returns
    -------
    dict
        For JSON.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Before `fit`.
    ParameterError
        If a parameter is of a kind that files do not hold, or the class is not one of visionnmf's own.
    """
    check_is_fitted(model)
    name = type(model).__name__
    if name not in CLASSES or type(model) is not _class(name):
        raise ParameterError(f"model must be one of {sorted(_models())} to be saved; got a {name}; save its parts")
    fitted = ((key, vars(model)[key]) for key in FITTED if key in vars(model))
    return {
        "class": name,
        "parameters": pack_parameters(model, arrays, prefix),
        "fitted": {key: _encode(value, f"{prefix}{key}", arrays) for key, value in fitted},
    }


def pack_parameters(model: Any, arrays: dict[str, Array], prefix: str = "") -> dict[str, Any]:
    """Return the parameters of an estimator, fitted or not, for JSON; their arrays go to `arrays`.

    Parameters
    ----------
    model : estimator
    arrays : dict
    prefix : str, default=""

    Returns
    -------
    dict
    """
    parameters = model.get_params(deep=False).items()
    return {key: _encode(value, f"{prefix}parameters.{key}", arrays) for key, value in parameters}


def unpack_model(section: dict[str, Any], archive: Archive) -> Any:
    """Return the estimator of a header's section, checked.

    Parameters
    ----------
    section : dict
        What :func:`pack_model` returned.
    archive : Archive
        Holds the arrays.

    Returns
    -------
    NMF, OnlineNMF, ProjectiveNMF or SymmetricNMF

    Raises
    ------
    UnsupportedError
        If a later version of visionnmf wrote the section.
    Exception
        One of the archive's `DAMAGE`.
    """
    name = section["class"]
    if name not in _models():
        raise archive.later(f"it has no estimator {name!r:.60}")
    reader = _Reader(archive)
    model = reader.object({"object": name, "parameters": section["parameters"]})
    for key, item in section["fitted"].items():
        if key not in FITTED:
            raise ValueError(f"{key!r:.60} is no fitted attribute")
        setattr(model, key, reader.value(item))
    _check_fitted(model)
    return model


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
    name = name.split("parameters.", 1)[-1]
    return ParameterError(f"{name} must be a number, text, an array or a penalty to be saved; got {what}")


class _Reader:
    """Turns the JSON of a section into values."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.forms: dict[str, Callable[[Any], Any]] = {
            "array": archive.array,
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
            raise self.archive.later(f"{item['object']} has no parameter {unknown[0]!r:.60} in this one")
        return cls(**parameters)

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


def _check_fitted(model: Any) -> None:
    """Raise ValueError when a parameter is not allowed, or fitted attributes do not fit together."""
    model._check_parameters()
    H = model.components_
    if not isinstance(H, np.ndarray) or H.ndim != 2 or H.dtype.name not in ("float32", "float64") or not len(H):
        raise ValueError("components_ is not a matrix of float32 or float64")
    signed = type(model).__name__ in SIGNED or getattr(model, "solver_", None) == "svd"
    if not np.isfinite(H).all() or (not signed and (H < 0).any()):
        raise ValueError("components_ is not finite and non-negative")
    absent = [name for name in NEEDED.get(type(model).__name__, ()) if not hasattr(model, name)]
    if absent:
        raise ValueError(f"{absent[0]} is missing")
    expected = {"n_features_in_": H.shape[1], "n_components_": len(H)}
    for name, size in expected.items():
        if (name == "n_features_in_" or hasattr(model, name)) and getattr(model, name) != size:
            raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
    if hasattr(model, "_check_state"):  # what it learns on from
        model._check_state()
    for name, size in (("feature_names_in_", H.shape[1]), ("component_norms_", len(H))):
        if hasattr(model, name) and np.shape(getattr(model, name)) != (size,):
            raise ValueError(f"{name} does not fit components_ of shape {H.shape}")
    for name in set(vars(model)) & set(CHECKS):
        if not CHECKS[name](getattr(model, name)):
            raise ValueError(f"{name} cannot be")


def _fits(value: Any) -> bool:
    """Return whether compiled code takes a number: floating point, or an integer of 64 bits."""
    return isinstance(value, float) or abs(value) < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iuf"


# Whether the value of a fitted attribute can be what a fit has left.
CHECKS: dict[str, Callable[[Any], bool]] = {
    "component_norms_": lambda value: _is_list(value) and bool((np.isfinite(value) & (value > 0)).all()),
    "loss_parameter_": lambda value: _is_number(value) and math.isfinite(value) and _fits(value),
    "n_iter_": lambda value: isinstance(value, int) and value >= 0,
    "objective_history_": _is_list,
    "objectives_": _is_list,
    "optimality_": _is_number,
    "reconstruction_err_": _is_number,
    "singular_values_": _is_list,
    "ridge_": lambda value: _is_number(value) and math.isfinite(value) and value >= 0,
    "solver_": lambda value: isinstance(value, str) and value in SOLVERS,
}
