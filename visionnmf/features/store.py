"""Fitted extractors in files: parameters as JSON, what was learnt as arrays; no pickle.

:func:`pack_extraction` and :func:`unpack_extraction` are for the files of applications that hold a
:class:`.FeatureExtraction` among other things.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from visionnmf.exceptions import ParameterError
from visionnmf.io.archive import Archive, Format

from .extraction import FeatureExtraction
from .extractor import Extractor
from .extractor_kinds import KINDS

__all__ = ["load_extraction", "pack_extraction", "save_extraction", "unpack_extraction"]

FORMAT = Format(
    "visionnmf-features",
    version=1,
    title="feature extractors of visionnmf",
    origin="write them with save_extraction",
    smaller="take fewer kinds",
)

CLASSES = {entry.name: entry.module for entry in KINDS.values()}


def save_extraction(extraction: FeatureExtraction, path: str | Path, *, force: bool = False) -> None:
    """Write fitted extractors to a file that :func:`load_extraction` reads.

    Parameters
    ----------
    extraction : FeatureExtraction
        Fitted.
    path : str or Path
        As a rule ``*.npz``; written whole or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Before `fit`.
    OutputExistsError
        If `path` exists and `force` is false.
    MediaError
        If `path` cannot be written.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction, load_extraction, save_extraction
    >>> images = [make_mosaic(32, 32, random_state=seed).image for seed in range(3)]
    >>> extraction = FeatureExtraction(["lab"]).fit(images)
    >>> save_extraction(extraction, "extraction.npz", force=True)
    >>> bool((load_extraction("extraction.npz").transform(images) == extraction.transform(images)).all())
    True
    """
    arrays: dict[str, NDArray[Any]] = {}
    FORMAT.write(path, pack_extraction(extraction, arrays), arrays, force=force)


def load_extraction(path: str | Path) -> FeatureExtraction:
    """Read extractors that :func:`save_extraction` has written; files of strangers are safe to read.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FeatureExtraction
        Fitted; its ``transform`` returns what that of the saved one did, to the bit.

    Raises
    ------
    UnreadableError
        If the file is missing, damaged, or holds no extractors.
    UnsupportedError
        If a later version of visionnmf wrote it.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction, load_extraction, save_extraction
    >>> images = [make_mosaic(32, 32, random_state=seed).image for seed in range(3)]
    >>> extraction = FeatureExtraction(["lab"]).fit(images)
    >>> save_extraction(extraction, "extraction.npz", force=True)
    >>> bool((load_extraction("extraction.npz").transform(images) == extraction.transform(images)).all())
    True
    """
    with FORMAT.read(path) as archive:
        return unpack_extraction(archive.header, archive)


def pack_extraction(extraction: FeatureExtraction, arrays: dict[str, NDArray[Any]], prefix: str = "") -> dict[str, Any]:
    """Return fitted extractors as the section of a header.

    Parameters
    ----------
    extraction : FeatureExtraction
    arrays : dict
        Gets what was learnt.
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
        If an extractor is not one of visionnmf's own.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import FeatureExtraction, pack_extraction
    >>> images = [make_mosaic(32, 32, random_state=seed).image for seed in range(3)]
    >>> arrays: dict = {}
    >>> isinstance(pack_extraction(FeatureExtraction(["lab"]).fit(images), arrays), dict)
    True
    """
    check_is_fitted(extraction)
    return {
        "max_pixels": extraction.max_pixels,
        "extractors": [_pack(extractor, arrays, prefix) for extractor in extraction.extractors_.values()],
    }


def _pack(extractor: Extractor, arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, Any]:
    name = type(extractor).__name__
    if name not in CLASSES or type(extractor) is not _class(name):
        raise ParameterError(f"extractors must be of {sorted(CLASSES)} to be saved; got a {name}")
    parameters = dict(extractor.get_params(deep=False))
    if not isinstance(parameters.get("random_state"), int):
        parameters.pop("random_state", None)  # what was drawn is learnt
    for attribute in extractor.LEARNT:
        arrays[f"{prefix}{extractor.view}.{attribute}"] = np.ascontiguousarray(getattr(extractor, attribute))
    return {"class": name, "parameters": parameters}


def unpack_extraction(section: dict[str, Any], archive: Archive, prefix: str = "") -> FeatureExtraction:
    """Return the extractors of a header's section, checked.

    Parameters
    ----------
    section : dict
        What :func:`pack_extraction` returned.
    archive : Archive
        Holds the arrays.
    prefix : str, default=""
        As when they were packed.

    Returns
    -------
    FeatureExtraction

    Raises
    ------
    UnsupportedError
        If a later version of visionnmf wrote the section.
    Exception
        One of the archive's `DAMAGE`.
    """
    extraction = FeatureExtraction(
        [_made(item, archive) for item in section["extractors"]], max_pixels=section["max_pixels"]
    )
    extraction._begin()
    for view, extractor in extraction.extractors_.items():
        extractor._check_parameters()
        for attribute in extractor.LEARNT:
            setattr(extractor, attribute, archive.array(f"{prefix}{view}.{attribute}"))
        extractor._check_learnt()
        extractor._count()
    extraction._record()
    return extraction


def _made(item: dict[str, Any], archive: Archive) -> Extractor:
    name = item["class"]
    if name not in CLASSES:
        raise archive.later(f"it has no extractor {name!r:.60}")
    parameters = {key: tuple(value) if isinstance(value, list) else value for key, value in item["parameters"].items()}
    cls = _class(name)
    unknown = sorted(set(parameters) - set(signature(cls).parameters))
    if unknown:
        raise archive.later(f"{name} has no parameter {unknown[0]!r:.60} in this one")
    made: Extractor = cls(**parameters)
    return made


def _class(name: str) -> type[Extractor]:
    cls: type[Extractor] = getattr(import_module(f".{CLASSES[name]}", __package__), name)
    return cls
