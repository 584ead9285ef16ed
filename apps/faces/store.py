"""Recognizers in files: the people, their cleaned images, thresholds, and the NMF's own section."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from visionnmf import NMF
from visionnmf.exceptions import ParameterError, TooLargeError, UnsupportedError
from visionnmf.io.archive import Archive, Format
from visionnmf.models._store import pack_model, unpack_model

from .recognizer import FaceRecognizer, restored

__all__ = ["FaceModel", "load", "load_estimator", "save"]

# Version 1 had thresholds for a ridge that did not follow the noise; in 2 the model was six numbers and two arrays; to
# version 3 nothing was said of the new images for which rates hold.
FORMAT = Format(
    "visionnmf-faces",
    version=4,
    title="a model of faces",
    origin="make one with 'visionnmf faces train'",
    smaller="train fewer people a model",
)
PARAMETERS = ("rule", "missing", "unknown_rate")
RATES = ("false_acceptance_rate_", "false_rejection_rate_")
NUMBERS = ("threshold_", *RATES, "scale_", "white_", "brightest_", "background_", "outliers_")
# which infinity, or NaN, they may be
SPECIAL = {"outliers_": math.inf} | dict.fromkeys((*RATES, "background_"), math.nan)

MOST_COMPONENTS = 100_000  # a fit takes no more than there are images or pixels, which are fewer
MOST_NAMES = 64 << 20  # bytes of the array of names, where each takes as many as the longest
SEEDS = 2**32  # what numpy takes


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

    @property
    def image_shape(self) -> tuple[int, int]:
        """Height and width of the images."""
        shape = self.recognizer.image_shape
        assert shape is not None
        return shape


def save(model: FaceModel | FaceRecognizer, path: str | Path, *, force: bool = False) -> None:
    """Write a recognizer.

    Parameters
    ----------
    model : FaceModel or FaceRecognizer
    path : str or Path
        The file to write, as a rule ``*.npz``; written whole or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        When the model is not an NMF, labels are no strings, or the image shape is not known.
    TooLargeError
        If there are many names and one is very long.
    OutputExistsError
        If `path` exists and `force` is false.
    MediaError
        If `path` cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.faces import load, save
    >>> save(load("people.npz"), "copy.npz", force=True)
    >>> load("copy.npz").recognizer.image_shape
    (12, 10)
    """
    if isinstance(model, FaceRecognizer):
        model = FaceModel(model)
    recognizer = model.recognizer
    nmf = recognizer.model_
    names = recognizer.classes_.tolist()
    if type(nmf) is not NMF or recognizer.image_shape is None or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            "recognizer must have named people, an image_shape and an NMF as its model to be saved; got "
            f"{type(nmf).__name__}, image_shape={recognizer.image_shape!r}, labels such as {names[0]!r:.40}"
        )
    if _size_of(names) > MOST_NAMES:
        raise TooLargeError(f"{path}: {len(names)} names, of which the longest has {max(map(len, names))} characters")
    _, people = np.unique(recognizer.labels_, return_inverse=True)
    arrays = {"cleaned": recognizer.cleaned_, "people": people.astype(np.int32)}
    header = {
        "names": names,
        "detect": model.detect,
        "image_shape": list(recognizer.image_shape),
        "parameters": {name: getattr(recognizer, name) for name in PARAMETERS} | {"missing": recognizer.missing_},
        "given": _given(recognizer),
        "numbers": {name: _plain(getattr(recognizer, name)) for name in NUMBERS},
        "noise": None if recognizer.noise_ is None else recognizer.noise_.tolist(),
        "model": pack_model(nmf, arrays, "model."),
    }
    FORMAT.write(path, header, arrays, force=force)


def _size_of(names: list[str]) -> int:
    """Return the bytes of an array of names: as many for each as for the longest."""
    return 4 * len(names) * max(map(len, names))


def _given(recognizer: FaceRecognizer) -> dict[str, Any]:
    """Return the parameters that a new fit would need, beside those that the fitted recognizer needs."""
    seed, outliers = recognizer.random_state, recognizer.outliers
    return {
        "missing": recognizer.missing,
        "n_components": min(int(recognizer.n_components), MOST_COMPONENTS),
        "outliers": outliers if isinstance(outliers, str) else float(outliers),
        "random_state": int(seed) if isinstance(seed, Integral) and 0 <= int(seed) < SEEDS else None,
        "model": recognizer.model is not None,
    }


def _plain(value: float) -> float | str:
    """Return what JSON knows: infinity and NaN have no number there."""
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
    TooLargeError
        If its header holds more values than are read.

    Examples
    --------
    >>> from visionnmf.apps.faces import load
    >>> load("people.npz").recognizer.classes_.tolist()
    ['ada', 'ben', 'cy']
    """
    with FORMAT.read(path) as archive:
        if archive.version < 2:
            raise UnsupportedError(f"{path}: written by an earlier version of visionnmf; train it again")
        nmf = _model_of_version_2(archive) if archive.version == 2 else unpack_model(archive.header["model"], archive)
        return _restored(archive.header, nmf, archive.array("cleaned"), archive.array("people"))


def load_estimator(path: str | Path) -> FaceRecognizer:
    """Read a recognizer alone; see :func:`load`."""
    return load(path).recognizer


def _model_of_version_2(archive: Archive) -> NMF:
    header, H = archive.header["model"], archive.array("components")
    nmf = NMF(len(H), loss=header["loss"], nuclear=float(header["nuclear"]))
    nmf.components_, nmf.component_norms_ = H, archive.array("component_norms")
    nmf.n_components_, nmf.n_features_in_ = H.shape
    nmf.loss_parameter_, nmf.ridge_ = float(header["loss_parameter_"]), float(header["ridge_"])
    nmf.solver_ = header["solver_"]
    return nmf


def _restored(header: dict[str, Any], nmf: NMF, cleaned: NDArray[Any], people: NDArray[Any]) -> FaceModel:
    names, (height, width) = header["names"], header["image_shape"]
    _require(isinstance(names, list) and names and all(isinstance(name, str) for name in names), "names")
    _require(names == sorted(set(names)), "names")
    _require(_size_of(names) <= MOST_NAMES, "names")
    _require(all(type(side) is int and side > 0 for side in (height, width)), "image_shape")
    _require(people.dtype == np.int32 and people.shape == (len(cleaned),), "people")
    _require(np.array_equal(np.unique(people), np.arange(len(names))), "people")
    _require(cleaned.dtype.name in ("float32", "float64") and cleaned.shape == (len(people), height * width), "images")
    _require(np.isfinite(cleaned).all() and (cleaned >= 0).all(), "images")
    _check_model(nmf, height * width)
    given = {"false_acceptance_rate_": "nan", "background_": "nan"} | header[
        "numbers"
    ]  # to version 3 nothing was known
    numbers = {name: float(given[name]) for name in NUMBERS}
    noise = None if header.get("noise") is None else np.array(header["noise"], float)
    _require(noise is None or (noise.shape in ((2, 3), (2, 4)) and np.isfinite(noise).all()), "noise")
    for name, number in numbers.items():
        _require(0 <= number < math.inf or str(number) == str(SPECIAL.get(name)), "numbers")
    parameters = {name: header["parameters"][name] for name in PARAMETERS}
    recognizer = restored(
        parameters | {"image_shape": (height, width), "n_components": nmf.n_components_},
        numbers | {"noise_": noise, "model_": nmf, "cleaned_": cleaned},
        np.array(names),
        people.astype(np.intp),
        _checked(header["given"], nmf) if "given" in header else None,  # older files have none
    )
    return FaceModel(recognizer, bool(header["detect"]))


def _checked(given: Any, nmf: NMF) -> dict[str, Any]:
    """Return what `_given` wrote: another name would undo what has been checked."""
    names = {"missing", "n_components", "outliers", "random_state", "model"}
    _require(isinstance(given, dict) and set(given) == names, "parameters")
    count, seed, outliers = given["n_components"], given["random_state"], given["outliers"]
    # no bool, which is an int
    _require(type(count) is int and 1 <= count <= MOST_COMPONENTS, "n_components")
    _require(seed is None or (type(seed) is int and 0 <= seed < SEEDS), "random_state")
    _require(type(outliers) is float or outliers == "auto", "outliers")
    _require(isinstance(given["missing"], str) and isinstance(given["model"], bool), "parameters")
    return given | {"model": clone(nmf) if given["model"] else None}


def _check_model(nmf: NMF, n_pixels: int) -> None:
    """Make sure that an NMF can make pictures of so many pixels."""
    _require(type(nmf) is NMF, "model")
    H, norms = nmf.components_, nmf.component_norms_
    _require(H.dtype.name in ("float32", "float64") and H.ndim == 2 and H.shape[1] == n_pixels and len(H), "components")
    _require(np.isfinite(H).all() and (H >= 0).all(), "components")
    _require(norms.shape == (len(H),) and np.isfinite(norms).all() and (norms > 0).all(), "component norms")
    _require(all(isinstance(text, str) for text in (nmf.loss, nmf.solver_)), "model")
    _require(all(0 <= value < math.inf for value in (nmf.nuclear, nmf.loss_parameter_, nmf.ridge_)), "model")


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")
