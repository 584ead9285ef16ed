"""Views in Dask arrays: what a fit learns from all samples, and the sample of them that judges the views."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import RandomState

from visionnmf._checks import shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import is_dask

from .views import listed_views

SAMPLE = 10_000  # maximum number of samples that judge the views: their scales, noise and errors
SAMPLED_BLOCKS = 32  # maximum number of blocks of rows that these come from, because each has to be read


def join_blocks(X: Any) -> Any:
    """Return views side by side as one Dask array (n_samples, n_features) whose blocks hold whole rows."""
    import dask.array as da

    given = _checked(X)
    # -1: whole rows in each block. `concatenate` leaves a block for each view, so rows are joined again at the end.
    chunks = {0: next(view for view in given if is_dask(view)).chunks[0], 1: -1}
    dtype = np.float32 if all(view.dtype == np.float32 for view in given) else np.float64
    return da.concatenate([da.asarray(view).rechunk(chunks).astype(dtype) for view in given], axis=1).rechunk({1: -1})


def hide_missing(X: Any, observed: Any, groups: Array) -> Any:
    """Return joined views with NaN in the views that `observed` (n_samples, n_views) marks as missing by False."""
    if observed is None:
        return X
    import dask.array as da

    mask, shape = da.asarray(observed), (X.shape[0], int(groups.max()) + 1)
    if mask.dtype != bool or mask.shape != shape:
        raise ParameterError(
            f"observed must be True or False for each sample and view, of shape {shape}; got {mask.dtype} of shape "
            f"{mask.shape}; pass a column for each view, in the order of the views"
        )
    return da.where(mask.rechunk({0: X.chunks[0], 1: -1})[:, groups], X, X.dtype.type(np.nan)).rechunk({1: -1})


def sample_views(X: Any, observed: Any, rng: RandomState) -> tuple[Any, Any]:
    """Return at most :data:`SAMPLE` random samples of views, in memory, and their rows of `observed`.

    The samples have the form of `X`. They are drawn from at most :data:`SAMPLED_BLOCKS` blocks of rows of the first
    Dask array. If there are no more than that, all are taken, in their order.
    """
    import dask

    first = next(view for view in _checked(X) if is_dask(view))
    rows = _drawn(np.array(first.chunks[0]), rng)
    arrays = [None if view is None else view[rows] for view in (*listed_views(X), observed)]
    *views, mask = dask.compute(*arrays)  # the last one is `observed`
    return _like(X, views), mask


def _checked(X: Any) -> list[Any]:
    """Return the views that are not None; raise ParameterError for those that do not fit together or are sparse."""
    from dask.array.utils import meta_from_array

    given = [view for view in listed_views(X) if view is not None]
    for view in given:
        if getattr(view, "ndim", 0) != 2 or not isinstance(meta_from_array(view), np.ndarray):
            raise ParameterError(f"views beside Dask arrays must be dense arrays with two axes; got {shown(view)}")
    sizes = [view.shape[0] for view in given]
    if any(size != size for size in sizes):  # Dask gives sizes that it does not know as NaN
        raise ParameterError("views must have chunks of known sizes; got unknown ones; call compute_chunk_sizes()")
    if len(set(sizes)) > 1:
        raise ParameterError(f"views must have the same number of samples; got {', '.join(map(str, sizes))}")
    return given


def _drawn(sizes: Array, rng: RandomState) -> Array:
    """Return the numbers of the rows that are drawn from blocks of so many rows, in increasing order."""
    if sizes.sum() <= SAMPLE:
        return np.arange(sizes.sum())
    starts = np.cumsum(sizes) - sizes
    chosen = np.sort(rng.permutation(len(sizes))[:SAMPLED_BLOCKS])
    candidates = np.concatenate([np.arange(starts[b], starts[b] + sizes[b]) for b in chosen])
    return np.sort(rng.permutation(candidates)[:SAMPLE])


def empty_views(X: Any) -> Any:
    """Return views without samples, in the form of `X`, with which names and numbers of features can be checked."""
    return _like(X, [None if view is None else np.empty((0, view.shape[1])) for view in listed_views(X)])


def transform_blocks(model: Any, X: Any, observed: Any) -> Any:
    """Return the codes (n_samples, n_components) of views in Dask arrays, computed block by block when they are needed.

    `model` is a fitted estimator, whose `transform` takes the blocks in the form of `X`. `observed` (n_samples,
    n_views) is an array or None.
    """
    import dask.array as da

    matrix = join_blocks(X)
    light = copy.copy(model)
    light.callback = None  # it may not be possible to send it to a worker
    arrays = [matrix]
    if observed is not None:
        arrays.append(da.asarray(observed).rechunk({0: matrix.chunks[0], 1: -1}))
    shape = (matrix.chunks[0], (len(model.components_),))
    meta = np.empty((0, 0), matrix.dtype)  # tells Dask what a block of codes is, so that it need not find out
    return da.map_blocks(_codes, *arrays, model=light, like=empty_views(X), dtype=matrix.dtype, chunks=shape, meta=meta)


def _codes(rows: Array, observed: Array | None = None, *, model: Any, like: Any) -> Array:
    """Return the codes of one block of `rows`, whose columns belong to the views in the form of `like`."""
    ends = np.cumsum([0 if view is None else view.shape[1] for view in listed_views(like)])
    starts = [0, *ends[:-1]]
    views = [
        None if view is None else rows[:, start:end]
        for view, start, end in zip(listed_views(like), starts, ends, strict=True)
    ]
    return np.asarray(model.transform(_like(like, views), observed))


def split_views(X: Any, groups: Array, names: list[Any], form: str) -> Any:
    """Return all features of all views, a Dask array (n_samples, n_features), in the `form` of the training data."""
    if form == "matrix":
        return X
    views = [X[:, groups == v] for v in range(len(names))]
    return views if form == "list" else dict(zip(names, views, strict=True))


def _like(X: Any, views: list[Any]) -> Any:
    """Return views in the form of `X`, which has as many."""
    if isinstance(X, Mapping):
        return dict(zip(X, views, strict=True))
    return list(views) if isinstance(X, list | tuple) else views[0]
