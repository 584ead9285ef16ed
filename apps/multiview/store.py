"""Files of multi-view models: the model, what is done to views before it, and what describes images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visionnmf import MultiviewNMF, choices
from visionnmf.features.store import EXTRACTION
from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import Maybe, Record, Text, Value
from visionnmf.models.model_files import estimator_of

from .preparation import Preparation

__all__ = ["ViewModel", "load", "save"]


@dataclass
class ViewModel:
    """What ``visionnmf multiview fit`` learns.

    Attributes
    ----------
    model : MultiviewNMF
    preparation : Preparation
    extraction : FeatureExtraction or None
        What describes images, where some views came from them.
    """

    model: MultiviewNMF
    preparation: Preparation
    extraction: Any = None


def _restored(model: MultiviewNMF, preparation: dict[str, Any], extraction: Any = None) -> ViewModel:
    """Return the model of a file, after the checks that the fields do not make."""
    sizes = dict(zip(model.views_.tolist(), np.bincount(model.view_groups_).tolist(), strict=True))
    prepared = Preparation(preparation.pop("prepare"))
    for name, values in preparation.items():
        setattr(prepared, name, dict(values))
    if list(prepared.kinds_) != list(sizes) or not set(prepared.kinds_.values()) <= {"range", "rows", "none"}:
        raise ValueError("kinds_ must be those of the views of the model")
    scaled = {name: size for name, size in sizes.items() if prepared.kinds_[name] == "range"}
    for values in (prepared.lows_, prepared.widths_):
        if {name: np.shape(value) for name, value in values.items()} != {name: (n,) for name, n in scaled.items()}:
            raise ValueError("lows_ and widths_ must be of the features of the views")
        if not all(value.dtype.kind == "f" and np.isfinite(value).all() for value in values.values()):
            raise ValueError("lows_ and widths_ must be finite")
    if not all((width > 0).all() for width in prepared.widths_.values()):
        raise ValueError("widths_ must be > 0")
    return ViewModel(model, prepared, extraction)


PREPARATION = {
    "prepare": Text(tuple(choices.VIEW_PREPARATIONS)),
    "kinds_": Value(),
    "lows_": Value(),
    "widths_": Value(),
}

FILE = ModelFile(
    "visionnmf-multiview",
    version=2,
    title="a multi-view model",
    origin="make one with 'visionnmf multiview fit'",
    smaller="fit fewer components",
    state=Record(
        {
            "model": estimator_of("MultiviewNMF"),
            "preparation": Record(PREPARATION),
            "extraction": Maybe(EXTRACTION),
        },
        _restored,
    ),
)


def save(model: ViewModel, path: str | Path, *, force: bool = False) -> None:
    """Write a model.

    Parameters
    ----------
    model : ViewModel
        Fitted.
    path : str or Path
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    MediaError
        If the file exists and `force` is false, or cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.multiview import load, save
    >>> save(load("views.npz"), "copy.npz", force=True)
    """
    FILE.save(model, path, force=force)


def load(path: str | Path) -> ViewModel:
    """Read a model that :func:`save` has written. Untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ViewModel

    Raises
    ------
    MediaError
        If the file is missing, damaged, of another kind, or of another version.

    Examples
    --------
    >>> from visionnmf.apps.multiview import load
    >>> type(load("views.npz")).__name__
    'ViewModel'
    """
    model: ViewModel = FILE.load(path)
    return model
