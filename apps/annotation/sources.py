"""Images as features: a folder, by extractors; or a table that was made before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief
from visionnmf.apps.features import FeatureTable, read_table
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.features import Extractor, FeatureExtraction, make_extractor
from visionnmf.io import expand_images

__all__ = ["Described", "describe", "files_of", "usual_extractors"]

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

    __repr__ = brief


def describe(
    source: str | Path | Sequence[str],
    extraction: FeatureExtraction | None,
    *,
    fit: bool = False,
    views: Mapping[str, slice] | None = None,
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
    views : mapping of str to slice, optional
        What the features must be, as a model has learnt them; anything if left out.
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
        If there are images and no extractors, or a table of other features than `views`.
    MediaError
        If nothing can be read.

    Examples
    --------
    >>> from visionnmf.apps.annotation import describe
    >>> from visionnmf.features import FeatureExtraction
    >>> describe("photos", FeatureExtraction(["lab"]), fit=True).X.shape[0]
    12
    """
    if _is_table(source):
        (name,) = _named(source)
        table = read_table(name)
        found_views = _views(name, table)
        if views is not None and found_views != dict(views):
            raise ParameterError(f"source must have the features {_told(views)}; got {_told(found_views)}")
        return Described(table.X, table.files, found_views, None, [])
    images = expand_images(_named(source))
    if extraction is None:
        raise ParameterError(
            f"source must be a table of features (.npz), as in training; got {len(images)} images; train on images"
        )
    extraction.set_params(n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of transparency, once an image
        found = extraction.extract(images, fit=fit, progress=progress)
    return Described(found.X, [images[i] for i in found.readable], extraction.views_, extraction, found.skipped)


def usual_extractors() -> list[Extractor]:
    """Return extractors of what tells photographs apart: colours and words in three bands, and whole images.

    Returns
    -------
    list of Extractor
        Not fitted.

    Examples
    --------
    >>> from visionnmf.apps.annotation import usual_extractors
    >>> len(usual_extractors()) > 3
    True
    """
    bands = {"layout": (3, 1)}
    in_bands = {"dense-sift": {}, "dense-hue": {}, "rgb": {"n_bins": 8}, "lab": {"n_bins": 12}, "hsv": {"n_bins": 8}}
    made = [make_extractor(kind, **bands, **parameters) for kind, parameters in in_bands.items()]
    return [*made, *map(make_extractor, ("gist", "lbp", "centrist"))]


def files_of(source: str | Path | Sequence[str]) -> list[str]:
    """Return the files that :func:`describe` reads.

    Parameters
    ----------
    source : str, Path or sequence of str

    Returns
    -------
    list of str

    Raises
    ------
    MediaError
        If there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> from visionnmf.apps.annotation.sources import files_of
    >>> files_of(["*.png"])
    ['photo.png']
    """
    return _named(source) if _is_table(source) else expand_images(_named(source))


def _named(source: str | Path | Sequence[str]) -> list[str]:
    return [str(source)] if isinstance(source, str | Path) else [str(item) for item in source]


def _is_table(source: str | Path | Sequence[str]) -> bool:
    sources = _named(source)
    return len(sources) == 1 and Path(sources[0]).suffix.lower() == ".npz"


def _told(views: Mapping[str, slice]) -> str:
    told = ", ".join(f"{view} {columns.stop - columns.start}" for view, columns in views.items())
    return f"{told:.200}"


def _views(name: str, table: FeatureTable) -> dict[str, slice]:
    """Return the columns of each view, which must lie side by side."""
    if (np.diff(table.groups) < 0).any() or len(set(table.views)) < len(table.views):
        raise UnreadableError(f"{name}: the columns of a view do not lie side by side")
    ends = np.searchsorted(table.groups, np.arange(len(table.views) + 1)).tolist()
    spans = zip(table.views, pairwise(ends), strict=True)
    return {view: slice(*span) for view, span in spans if span[0] < span[1]}
