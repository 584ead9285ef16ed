"""Features of images: extracted from files, or read from a table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief
from visionnmf._progress import Progress
from visionnmf.apps.cluster import open_workers
from visionnmf.apps.feature_tables import FeatureTable, read_table
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.features import Extractor, FeatureExtraction, make_extractor
from visionnmf.io import expand_images

Array = NDArray[Any]
Sources = str | Path | Sequence[str]  # a folder, images or patterns, or a table of features


@dataclass(frozen=True)
class Described:
    """Features of images: a row of `X` for each of `files`, and the columns of each view.

    `extraction` holds the fitted extractors; None if the features come from a table. `skipped` says what was not read.
    """

    X: Array
    files: list[str]
    views: dict[str, slice]
    extraction: FeatureExtraction | None
    skipped: list[str]

    __repr__ = brief


def describe(
    source: Sources,
    extraction: FeatureExtraction | None,
    *,
    fit: bool = False,
    views: Mapping[str, slice] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Described:
    """Return the features of images, or those of a table; with `fit` the extraction learns from the images first.

    Raises ParameterError for images without extractors and for a table with other `views` than these, those that a
    model was trained with, and MediaError if nothing can be read.
    """
    if is_table(source):
        (name,) = names_of(source)
        table = read_table(name)
        found_views = _views(name, table)
        if views is not None and found_views != dict(views):
            raise ParameterError(f"source must have the features {_listed(views)}; got {_listed(found_views)}")
        return Described(table.X, table.files, found_views, None, [])
    images = expand_images(names_of(source))
    if extraction is None:
        raise ParameterError(
            f"source must be a table of features (.npz), as in training; got {len(images)} images; train on images"
        )
    extraction.set_params(n_jobs=n_jobs)
    with warnings.catch_warnings(), open_workers() as pool:
        warnings.simplefilter("ignore", UserWarning)  # about transparency, for each image
        found = extraction.extract(images, fit=fit, progress=progress, pool=pool)
    return Described(found.X, [images[i] for i in found.readable], extraction.views_, extraction, found.skipped)


def usual_extractors() -> list[Extractor]:
    """Return the default extractors: colours and visual words in three bands, and whole images; not fitted."""
    bands = {"layout": (3, 1)}
    in_bands = {"dense-sift": {}, "dense-hue": {}, "rgb": {"n_bins": 8}, "lab": {"n_bins": 12}, "hsv": {"n_bins": 8}}
    made = [make_extractor(kind, **bands, **parameters) for kind, parameters in in_bands.items()]
    return [*made, *map(make_extractor, ("gist", "lbp", "centrist"))]


def files_of(source: Sources) -> list[str]:
    """Return the files that :func:`describe` reads; raises MediaError if there are none."""
    return names_of(source) if is_table(source) else expand_images(names_of(source))


def names_of(source: Sources) -> list[str]:
    """Return one or several sources as a list."""
    return [str(source)] if isinstance(source, str | Path) else [str(item) for item in source]


def is_table(source: Sources) -> bool:
    """Return whether a source is one table of features (``.npz``) instead of images."""
    sources = names_of(source)
    return len(sources) == 1 and Path(sources[0]).suffix.lower() == ".npz"


def _listed(views: Mapping[str, slice]) -> str:
    """Return the names of views and their numbers of columns, for messages."""
    return f"{', '.join(f'{view} {columns.stop - columns.start}' for view, columns in views.items()):.200}"


def _views(name: str, table: FeatureTable) -> dict[str, slice]:
    """Return the columns of each view of a table; raise UnreadableError unless they are next to each other."""
    # Views without columns are left out.
    if (np.diff(table.groups) < 0).any() or len(set(table.views)) < len(table.views):
        raise UnreadableError(f"{name}: the columns of a view are not next to each other")
    # `groups` holds the number of the view of each column, in rising order, so this is where each view begins.
    ends = np.searchsorted(table.groups, np.arange(len(table.views) + 1)).tolist()
    spans = zip(table.views, pairwise(ends), strict=True)
    return {view: slice(*span) for view, span in spans if span[0] < span[1]}
