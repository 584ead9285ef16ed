"""Multi-view models in files: the model, what is done to views before it, and what describes images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import MultiviewNMF
from visionnmf.features.store import pack_extraction, unpack_extraction
from visionnmf.io.archive import Format
from visionnmf.models._store import pack_model, unpack_model

from .preparation import Preparation

__all__ = ["ViewModel", "load", "save"]

FORMAT = Format(
    "visionnmf-multiview",
    version=1,
    title="a multi-view model",
    origin="make one with 'visionnmf multiview fit'",
    smaller="fit fewer components",
)


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


def save(model: ViewModel, path: str | Path, *, force: bool = False) -> None:
    """Write a model.

    Parameters
    ----------
    model : ViewModel
        Fitted.
    path : str or Path
    force : bool, default=False

    Raises
    ------
    MediaError
        If the file exists and `force` is false, or cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.multiview import load, save
    >>> save(load("views.npz"), "copy.npz", force=True)
    """
    arrays: dict[str, NDArray[Any]] = {}
    prepared = model.preparation
    header: dict[str, Any] = {"model": pack_model(model.model, arrays, "model.")}
    header["prepare"], header["kinds"] = prepared.prepare, prepared.kinds_
    for name in prepared.lows_:
        place = list(prepared.kinds_).index(name)
        arrays[f"low.{place}"], arrays[f"width.{place}"] = prepared.lows_[name], prepared.widths_[name]
    if model.extraction is not None:
        header["extraction"] = pack_extraction(model.extraction, arrays, "extraction.")
    FORMAT.write(path, header, arrays, force=force)


def load(path: str | Path) -> ViewModel:
    """Read a model that :func:`save` has written; files of strangers are safe to read.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ViewModel

    Raises
    ------
    MediaError
        If the file is missing, damaged, no such model, or of a later version.

    Examples
    --------
    >>> from visionnmf.apps.multiview import load
    >>> type(load("views.npz")).__name__
    'ViewModel'
    """
    with FORMAT.read(path) as archive:
        header = archive.header
        model = unpack_model(header["model"], archive)
        if not isinstance(model, MultiviewNMF):
            raise TypeError("its model is of another kind")
        preparation = Preparation(header["prepare"])
        preparation.kinds_ = {str(name): str(kind) for name, kind in header["kinds"].items()}
        sizes = dict(zip(model.views_.tolist(), np.bincount(model.view_groups_).tolist(), strict=True))
        if list(preparation.kinds_) != list(sizes) or not set(preparation.kinds_.values()) <= {"range", "rows", "none"}:
            raise ValueError("its views do not fit its model")
        preparation.lows_, preparation.widths_ = {}, {}
        for place, (name, kind) in enumerate(preparation.kinds_.items()):
            if kind == "range":
                low, width = archive.array(f"low.{place}"), archive.array(f"width.{place}")
                fits = low.shape == (sizes[name],) and width.shape == low.shape
                if not fits or not (np.isfinite(low) & np.isfinite(width) & (width > 0)).all():
                    raise ValueError(f"the ranges of view {place} do not fit its model")
                preparation.lows_[name], preparation.widths_[name] = low, width
        extraction = unpack_extraction(header["extraction"], archive) if "extraction" in header else None
        return ViewModel(model, preparation, extraction)
