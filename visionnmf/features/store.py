"""Files of fitted extractors, and the part of other model files that describes images."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_type
from visionnmf.io.model_file import ModelFile

from .extraction import FeatureExtraction
from .extractor import Extractor
from .extractor_kinds import KINDS

MODULES = {entry.name: entry.module for entry in KINDS.values()}


def find_extractor(name: str) -> type[Extractor]:
    """Return the class of an extractor by its name, or raise KeyError; its module is imported only now."""
    cls: type[Extractor] = getattr(import_module(f".{MODULES[name]}", __package__), name)
    return cls


def taken_apart(extraction: FeatureExtraction) -> dict[str, Any]:
    """Return what a model file holds of fitted extractors."""
    check_is_fitted(extraction)
    return {"extractors": list(extraction.extractors_.values()), "max_pixels": extraction.max_pixels}


def make_extraction(parts: Any) -> FeatureExtraction:
    """Return the extractors that :func:`taken_apart` took apart; raise an error for what a damaged file gives."""
    for extractor in parts["extractors"]:
        check_is_fitted(check_type(extractor, "an extractor", Extractor))
    return FeatureExtraction.from_fitted(**parts)


FILE = ModelFile(
    "features",
    version=3,
    title="feature extractors of visionnmf",
    origin="write them with save_extraction",
    smaller="take fewer kinds",
    find_class=find_extractor,
    check=make_extraction,
)


def save_extraction(extraction: FeatureExtraction, path: str | Path, *, force: bool = False) -> None:
    """Write fitted extractors to a file that :func:`load_extraction` reads.

    Parameters
    ----------
    extraction : FeatureExtraction
        Fitted.
    path : str or Path
        Usually ``*.npz``. The file is written completely or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    MediaError
        If `path` exists and `force` is false, or it cannot be written.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction, load_extraction, save_extraction
    >>> save_extraction(FeatureExtraction(["lab"]).fit([make_mosaic(32, 32).image]), "extraction.npz", force=True)
    >>> load_extraction("extraction.npz").n_features_out_
    4096
    """
    FILE.save(taken_apart(extraction), path, force=force)


def load_extraction(path: str | Path) -> FeatureExtraction:
    """Read extractors that :func:`save_extraction` has written. Untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FeatureExtraction
        Fitted; it returns exactly what the saved one did.

    Raises
    ------
    UnreadableError, UnsupportedError
        If the file is missing, damaged, or holds no extractors, or another version of visionnmf wrote it.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction, load_extraction, save_extraction
    >>> save_extraction(FeatureExtraction(["lab"]).fit([make_mosaic(32, 32).image]), "extraction.npz", force=True)
    >>> load_extraction("extraction.npz").n_features_out_
    4096
    """
    extraction: FeatureExtraction = FILE.load(path)
    return extraction
