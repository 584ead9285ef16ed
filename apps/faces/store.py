"""Recognizers in files: arrays in ``.npz`` with a JSON header; nothing in them is ever executed."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import NMF
from visionnmf.exceptions import ParameterError, UnreadableError, UnsupportedError
from visionnmf.io.archive import DAMAGE, one_line, read_raw
from visionnmf.io.inputs import output_file, regular_file

from .model import FaceRecognizer

__all__ = ["FaceModel", "load", "save"]

FORMAT = "visionnmf-faces"
VERSION = 2  # 1 had thresholds for a ridge that did not follow the noise
HEADER_BYTES = 16 << 20
ARRAYS = {"components": 2, "component_norms": 1, "cleaned": 2, "people": 1}  # and their dimensions
PARAMETERS = ("rule", "missing", "unknown_rate")
NUMBERS = ("threshold_", "false_rejection_rate_", "scale_", "white_", "brightest_", "outliers_")
MODEL = ("loss", "nuclear", "solver_", "loss_parameter_", "ridge_")


@dataclass(frozen=True)
class FaceModel:
    """A recognizer, and how its images were made.

    Attributes
    ----------
    recognizer : FaceRecognizer
        Fitted with names as labels, the default model, and an image shape.
    detect : bool
        Whether faces were cut out of photographs.
    """

    recognizer: FaceRecognizer
    detect: bool = False


def save(model: FaceModel, path: str | Path, *, force: bool = False) -> None:
    """Write a recognizer.

    Parameters
    ----------
    model : FaceModel
    path : str or Path
        The file to write, as a rule ``*.npz``; written whole or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        When the model is not an NMF, labels are no strings, or the image shape is not known.
    OutputExistsError
        If `path` exists and `force` is false.
    MediaError
        If `path` cannot be written.
    """
    recognizer = model.recognizer
    nmf = recognizer.model_
    names = recognizer.classes_.tolist()
    if type(nmf) is not NMF or recognizer.image_shape is None or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            "only recognizers of named people with an image_shape and an NMF as their model can be saved; got "
            f"{type(nmf).__name__}, image_shape={recognizer.image_shape!r}, labels such as {names[0]!r:.40}"
        )
    header = {
        "format": FORMAT,
        "version": VERSION,
        "names": names,
        "detect": model.detect,
        "image_shape": list(recognizer.image_shape),
        "parameters": {name: getattr(recognizer, name) for name in PARAMETERS},
        "numbers": {name: _plain(getattr(recognizer, name)) for name in NUMBERS},
        "model": {name: _plain(getattr(nmf, name)) for name in MODEL},
    }
    _, people = np.unique(recognizer.labels_, return_inverse=True)
    arrays = {
        "components": nmf.components_,
        "component_norms": nmf.component_norms_,
        "cleaned": recognizer.cleaned_,
        "people": people.astype(np.int32),
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with output_file(path, force=force) as temporary, temporary.open("wb") as file:
        np.savez(file, header=text, **arrays)  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    """Return what JSON knows: infinity and NaN have no number there."""
    if isinstance(value, str):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def load(path: str | Path) -> FaceModel:
    """Read a recognizer.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save` wrote.

    Returns
    -------
    FaceModel

    Raises
    ------
    UnreadableError
        If the file is missing, damaged or no recognizer.
    UnsupportedError
        If a later version of visionnmf wrote it, or one before the first release.
    """
    path = regular_file(path, "model")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # so that a file cannot ask for more memory than it is long
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("it is compressed")
            if sum(member.file_size for member in members) > path.stat().st_size:
                raise ValueError("its members are larger than the file")
            if archive.getinfo("header.npy").file_size > HEADER_BYTES:
                raise ValueError("its header is too long")
            header = json.loads(read_raw(archive, "header").data)
            if header["format"] != FORMAT:
                raise UnreadableError(f"{path}: not a model of faces; make one with 'visionnmf faces train'")
            if int(header["version"]) > VERSION:
                raise UnsupportedError(
                    f"{path}: written by a later version of visionnmf (model version {int(header['version'])}, this "
                    f"one reads up to {VERSION}); upgrade visionnmf"
                )
            if int(header["version"]) < VERSION:
                raise UnsupportedError(f"{path}: written by an earlier version of visionnmf; train it again")
            return _restored(header, {name: _array(archive, name) for name in ARRAYS})
    except DAMAGE as error:
        raise UnreadableError(f"{path}: damaged, or not a model of faces ({one_line(error)})") from error


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    raw = read_raw(archive, name)
    kind = np.dtype("int32") if name == "people" else raw.dtype
    if raw.dtype != kind or raw.dtype.name not in ("float32", "float64", "int32") or len(raw.shape) != ARRAYS[name]:
        raise ValueError(f"{name} is not what it should be")
    if raw.fortran_order or math.prod(raw.shape) * raw.dtype.itemsize != len(raw.data):
        raise ValueError(f"{name} is not of the size it says")
    array = np.frombuffer(bytearray(raw.data), raw.dtype).reshape(raw.shape)
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"{name} is not finite and non-negative")
    return array


def _restored(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FaceModel:
    names, (height, width) = header["names"], header["image_shape"]
    H, cleaned, people = arrays["components"], arrays["cleaned"], arrays["people"]
    _require(isinstance(names, list) and names and all(isinstance(name, str) for name in names), "names")
    _require(len(set(names)) == len(names) and names == sorted(names), "names")
    _require(all(isinstance(side, int) and side > 0 for side in (height, width)), "image_shape")
    _require(H.shape[1] == height * width == cleaned.shape[1] and len(H) > 0, "components")
    _require(len(arrays["component_norms"]) == len(H) and (arrays["component_norms"] > 0).all(), "component norms")
    _require(len(people) == len(cleaned) and np.array_equal(np.unique(people), np.arange(len(names))), "people")
    numbers = {name: float(header["numbers"][name]) for name in NUMBERS}
    special = {"outliers_": math.inf, "false_rejection_rate_": math.nan}  # which infinity, or NaN, they may be
    for name, number in numbers.items():
        _require(0 <= number < math.inf or str(number) == str(special.get(name)), "numbers")
    recognizer = FaceRecognizer(
        image_shape=(height, width), n_components=len(H), **{name: header["parameters"][name] for name in PARAMETERS}
    )
    recognizer._restore(_model(header["model"], arrays), np.array(names), people.astype(np.intp), cleaned, numbers)
    return FaceModel(recognizer, bool(header["detect"]))


def _model(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NMF:
    H = arrays["components"]
    _require(all(isinstance(header[name], str) for name in ("loss", "solver_")), "model")
    values = {name: float(header[name]) for name in ("nuclear", "loss_parameter_", "ridge_")}
    _require(all(0 <= value < math.inf for value in values.values()), "model")
    nmf = NMF(len(H), loss=header["loss"], nuclear=values["nuclear"])
    nmf.components_, nmf.component_norms_ = H, arrays["component_norms"]
    nmf.n_components_, nmf.n_features_in_ = len(H), H.shape[1]
    nmf.solver_, nmf.loss_parameter_, nmf.ridge_ = header["solver_"], values["loss_parameter_"], values["ridge_"]
    return nmf


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")
