"""Images as features: a folder, by extractors; or a table that was made before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.features import FeatureExtraction
from visionnmf.io import expand_inputs, read_arrays, regular_file

__all__ = ["Described", "describe", "images_of"]

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Described:
    """Features of images.

    Attributes
    ----------
    X : ndarray of float32 [shape=(n_images, n_features), >= 0]
    files : list of str
        The image of each row.
    views : dict of str to slice
    extraction : FeatureExtraction or None
        None: the features come from a table.
    skipped : list of str
        A sentence for each image that could not be read.
    """

    X: Array
    files: list[str]
    views: dict[str, slice]
    extraction: FeatureExtraction | None
    skipped: list[str]


def describe(
    source: str | Path | Sequence[str],
    extraction: FeatureExtraction | None,
    *,
    fit: bool = False,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Described:
    """Describe images by features.

    Parameters
    ----------
    source : str, Path or sequence of str
        A folder, all of whose images are taken, also those of the folders below; images, patterns; or one table of
        features (``.npz``).
    extraction : FeatureExtraction or None
        Needed for images.
    fit : bool, default=False
        Whether the extractors learn from these images first.
    n_jobs : int or None, default=None
        Processes; -1 takes as many as there are processors.
    progress : callable, optional
        Called with ("extracting", images done, images in all).

    Returns
    -------
    Described

    Raises
    ------
    ParameterError
        If there are images and no extractors.
    MediaError
        If nothing can be read.
    """
    sources = [str(source)] if isinstance(source, str | Path) else [str(item) for item in source]
    if len(sources) == 1 and Path(sources[0]).suffix.lower() == ".npz":
        return _table(Path(sources[0]))
    images = images_of(sources)
    if extraction is None:
        raise ParameterError(
            f"source must be a table of features (.npz), as in training; got {len(images)} images; train on images"
        )
    extraction.set_params(n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of transparency, once an image
        found = extraction.extract(images, fit=fit, progress=progress)
    return Described(found.X, [images[i] for i in found.readable], extraction.views_, extraction, found.skipped)


def images_of(sources: Sequence[str]) -> list[str]:
    """Return the images that arguments mean.

    Parameters
    ----------
    sources : sequence of str
        Folders, files, patterns, samples.

    Returns
    -------
    list of str

    Raises
    ------
    UnreadableError
        If a folder holds no image, or a pattern matches nothing.
    """
    found: list[str] = []
    for source in sources:
        if Path(source).is_dir():
            inside = sorted(path for path in Path(source).rglob("*") if path.suffix.lower() in choices.IMAGE_SUFFIXES)
            if not inside:
                raise UnreadableError(f"{source}: holds no image ({', '.join(choices.IMAGE_SUFFIXES)})")
            found += map(str, inside)
        else:
            found += expand_inputs([source])
    return list(dict.fromkeys(found))


def _table(path: Path) -> Described:
    held = read_arrays(regular_file(path, "table of features"), ("X", "files", "groups", "views"))
    X, files, groups, names = (held[name] for name in ("X", "files", "groups", "views"))
    fits = X.ndim == 2 and X.dtype.kind in "iuf" and 0 not in X.shape and files.shape == X.shape[:1]
    fits = fits and groups.shape == X.shape[1:] and groups.dtype.kind in "iu" and names.ndim == 1
    fits = fits and files.dtype.kind == "U" and names.dtype.kind == "U" and len(set(names.tolist())) == len(names)
    fits = fits and np.array_equal(np.unique(groups), np.arange(len(names))) and bool((np.diff(groups) >= 0).all())
    if not fits or not np.isfinite(X).all() or (X < 0).any():
        raise UnreadableError(f"{path}: no table of features; write one with 'visionnmf features'")
    ends = np.searchsorted(groups, np.arange(len(names) + 1)).tolist()
    views = {name: slice(*ends[i : i + 2]) for i, name in enumerate(names.tolist())}
    return Described(X.astype(np.float32, copy=False), files.tolist(), views, None, [])
