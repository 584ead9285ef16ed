"""Background models in files: the components, their codes, and the noise of each pixel."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from visionnmf.io.archive import Archive, Format

from .fit import Learnt
from .model import BackgroundModel
from .recurring import LEVELS, Recurring
from .shake import SMALLEST, Anchors
from .sway import Sway

__all__ = ["load_estimator", "save"]

FORMAT = Format(
    "visionnmf-background",
    version=3,  # 2: sway and anchors; 3: what comes back
    title="a background model",
    origin="make one with BackgroundModel.save",
    smaller="work on smaller frames",
)
PARAMETERS = ("n_components", "n_frames", "threshold")
SWAY = ("share", "noise", "smooth_noise")
RECURRING = ("pixels", "share", "levels")


def save(model: BackgroundModel, path: str | Path, *, force: bool = False) -> None:
    """Write a fitted model; see :meth:`.BackgroundModel.save`. A `random_state` that is no number is saved as None."""
    if not hasattr(model, "_learnt"):
        raise NotFittedError("of partial_fit alone nothing is written; save model.online_")
    learnt = model._learnt
    seed = model.random_state if isinstance(model.random_state, int) else None
    header = {
        "shape": list(model._shape),
        "n_frames_seen": model.n_frames_seen_,
        "parameters": {**{name: getattr(model, name) for name in PARAMETERS}, "random_state": seed},
    }
    arrays: dict[str, NDArray[Any]] = {
        "components": learnt.H,
        "codes": learnt.Wt,
        "noise_scale": learnt.noise_scale,
        "median": learnt.median,
        "chosen": learnt.chosen.astype(np.int64),
        "learnt_frames": model.learnt_frames_.astype(np.int64),
    }
    if learnt.sway is not None:
        arrays |= {f"sway_{name}": getattr(learnt.sway, name) for name in SWAY}
    if learnt.anchors is not None:
        arrays["anchors"] = learnt.anchors.scene
    if learnt.recurring is not None:
        arrays |= {f"recurring_{name}": getattr(learnt.recurring, name) for name in RECURRING}
    header["parts"] = [name for name in ("sway", "anchors", "recurring") if getattr(learnt, name) is not None]
    FORMAT.write(path, header, arrays, force=force)


def load_estimator(path: str | Path) -> BackgroundModel:
    """Read a model; see :meth:`.BackgroundModel.load`."""
    with FORMAT.read(path) as archive:
        return _restored(archive)


def _restored(archive: Archive) -> BackgroundModel:
    header = archive.header
    shape, parameters = tuple(header["shape"]), header["parameters"]
    _require(len(shape) in (2, 3) and all(isinstance(side, int) and side > 0 for side in shape), "shape")
    _require(len(shape) == 2 or shape[2] == 3, "shape")
    n_pixels, channels = shape[0] * shape[1], math.prod(shape[2:])
    H, Wt, scale, median, chosen, frames = (
        archive.array(name) for name in ("components", "codes", "noise_scale", "median", "chosen", "learnt_frames")
    )
    _require(H.shape == (len(H), n_pixels, channels) and len(H) > 0, "components")
    _require(Wt.shape == (len(H), len(frames)) and len(frames) > 0 and frames.ndim == 1, "codes")
    _require(scale.shape == shape[:2] and median.shape == (n_pixels, channels), "pixels")
    for array in (H, Wt, scale):
        _require(array.dtype == np.float32 and np.isfinite(array).all() and (array >= 0).all(), "numbers")
    _require((scale > 0).all() and median.dtype == np.uint8, "numbers")
    _require(chosen.dtype == frames.dtype == np.int64 and chosen.ndim == 1 and len(chosen) > 0, "places")
    _require(0 <= chosen.min() and chosen.max() < n_pixels and (np.diff(chosen) > 0).all(), "places")
    _require(isinstance(header["n_frames_seen"], int) and header["n_frames_seen"] > 0, "frames")
    model = BackgroundModel(**{name: parameters[name] for name in (*PARAMETERS, "random_state")})
    model._check_parameters()
    _require(parameters["random_state"] is None or isinstance(parameters["random_state"], int), "random_state")
    parts = header.get("parts", [])  # version 1 had none
    sway = Sway(**{name: archive.array(f"sway_{name}") for name in SWAY}) if "sway" in parts else None
    anchors = Anchors(archive.array("anchors")) if "anchors" in parts else None
    for array in (sway.share, sway.noise, sway.smooth_noise) if sway is not None else ():
        _require(array.shape == shape[:2] and array.dtype == np.float32 and np.isfinite(array).all(), "sway")
        _require((array >= 0).all(), "sway")
    _require(sway is None or ((sway.share <= 1).all() and min(sway.noise.min(), sway.smooth_noise.min()) >= 1), "sway")
    if anchors is not None:
        scene = anchors.scene
        _require(scene.shape == shape[:2] and scene.dtype == np.float32 and min(scene.shape) >= SMALLEST, "anchors")
        _require(0 <= scene.min() <= scene.max() <= 255, "anchors")
    recurring = _recurring(archive, n_pixels, channels) if "recurring" in parts else None
    learnt = Learnt(H, Wt, scale, median, chosen, sway, anchors, recurring)
    model._restore(shape, learnt, frames.astype(np.intp), header["n_frames_seen"])
    return model


def _recurring(archive: Archive, n_pixels: int, channels: int) -> Recurring:
    pixels, share, levels = (archive.array(f"recurring_{name}") for name in RECURRING)
    _require(pixels.dtype == np.int64 and pixels.ndim == 1 and len(pixels) > 0, "recurring")
    _require(0 <= pixels.min() and pixels.max() < n_pixels and (np.diff(pixels) > 0).all(), "recurring")
    _require(share.dtype == np.float32 and share.shape == pixels.shape, "recurring")
    _require(0 <= share.min() <= share.max() <= 1, "recurring")
    _require(levels.dtype == np.int16 and levels.shape == (len(pixels), LEVELS, channels), "recurring")
    return Recurring(pixels, share, levels)


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")
