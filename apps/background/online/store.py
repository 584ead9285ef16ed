"""Online background models in files: all that the next frame needs, so that a stream goes on as if nothing had been."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.io.archive import Archive, Format

from .model import OnlineBackgroundModel

__all__ = ["load_estimator", "save"]

FORMAT = Format(
    "visionnmf-online-background",
    version=1,
    title="an online background model",
    origin="make one with OnlineBackgroundModel.save",
    smaller="work on smaller frames",
)
PARAMETERS = ("forgetting", "warm_up", "frame_rate", "threshold")
FLOATS = ("scene", "rival", "support", "rivalry", "noise")


def save(model: OnlineBackgroundModel, path: str | Path, *, force: bool = False) -> None:
    """Write a model; see :meth:`.OnlineBackgroundModel.save`. A `random_state` that is no number is saved as None."""
    seed = model.random_state if isinstance(model.random_state, int) else None
    header = {
        "shape": list(model._shape),
        "n_frames_seen": model.n_frames_seen_,
        "time": None if model.time_ == -math.inf else model.time_,
        "gain": model.gain_,
        "unexplained": model._unexplained,
        "source": getattr(model, "_source", None),  # where :func:`.follow_source` wrote it
        "parameters": {**{name: getattr(model, name) for name in PARAMETERS}, "random_state": seed},
    }
    arrays: dict[str, NDArray[Any]] = {name: getattr(model, f"_{name}") for name in FLOATS}
    arrays["chosen"] = model._chosen.astype(np.int64)
    if model._before is not None:
        arrays["before"] = model._before
    FORMAT.write(path, header, arrays, force=force)


def load_estimator(path: str | Path) -> OnlineBackgroundModel:
    """Read a model; see :meth:`.OnlineBackgroundModel.load`."""
    with FORMAT.read(path) as archive:
        return _restored(archive)


def _restored(archive: Archive) -> OnlineBackgroundModel:
    header = archive.header
    shape, parameters = tuple(header["shape"]), header["parameters"]
    _require(len(shape) in (2, 3) and all(isinstance(side, int) and side > 0 for side in shape), "shape")
    _require(len(shape) == 2 or shape[2] == 3, "shape")
    deep, flat = (*shape[:2], math.prod(shape[2:])), shape[:2]
    model = OnlineBackgroundModel(**{name: parameters[name] for name in (*PARAMETERS, "random_state")})
    model._check_parameters()
    _require(parameters["random_state"] is None or isinstance(parameters["random_state"], int), "random_state")
    arrays = {name: archive.array(name) for name in FLOATS}
    for name, array in arrays.items():
        _require(array.shape == (deep if name in ("scene", "rival") else flat), name)
        _require(array.dtype == np.float32 and np.isfinite(array).all() and (array >= 0).all(), name)
    model.begin_from(arrays["scene"].reshape(shape), arrays["noise"], 0.0)
    model._rival, model._support, model._rivalry = (arrays[name] for name in ("rival", "support", "rivalry"))
    chosen = archive.array("chosen")
    _require(chosen.dtype == np.int64 and chosen.ndim == 1 and 0 < len(chosen) <= math.prod(flat), "places")
    _require(0 <= chosen.min() and chosen.max() < math.prod(flat), "places")
    model._chosen = chosen.astype(np.intp)
    seen, time, gain, unexplained = (header[name] for name in ("n_frames_seen", "time", "gain", "unexplained"))
    _require(isinstance(seen, int) and seen >= 0, "frames")
    _require(time is None or (isinstance(time, float | int) and math.isfinite(time)), "time")
    _require(isinstance(gain, float) and 0 < gain < math.inf, "gain")
    _require(isinstance(unexplained, float) and 0 <= unexplained < math.inf, "light")
    source = header.get("source")
    _require(source is None or (isinstance(source, dict) and _is_source(source)), "source")
    model._source = source
    model.n_frames_seen_, model.time_ = seen, -math.inf if time is None else float(time)
    model.gain_, model._unexplained = gain, unexplained
    if seen:
        before = archive.array("before")
        _require(before.shape == shape and before.dtype == np.uint8, "frame")
        model._before = before
    return model


def _is_source(source: dict[str, Any]) -> bool:
    numbers = [value for name, value in source.items() if name != "name"]
    return isinstance(source.get("name"), str) and all(isinstance(value, int | float) for value in numbers)


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")
