"""Views of the same samples, however they are given: arrays, frames, or column groups of one matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from visionnmf._checks import check_number, shown
from visionnmf.exceptions import ParameterError

from ._begin import check_room
from ._data import check_data, check_kind

__all__ = [
    "Given",
    "check_loaded",
    "check_views",
    "named_groups",
    "observed_views",
    "part_views",
    "row_blocks",
    "same_views",
    "split_views",
]

Array = NDArray[Any]

FORMS = ("matrix", "list", "dict")
BLOCK = 1 << 21  # entries of new samples whose copies are in memory at once
FEWEST_ROWS = 512  # of such a block: for each, the components are scaled anew


@dataclass(frozen=True)
class Given:
    """Views as one matrix.

    Attributes
    ----------
    X : ndarray, sparse array or data frame [shape=(n_samples, n_features)]
        The views side by side; NaN where a view is missing for all samples.
    names : list of str
        Of the views.
    groups : ndarray of int [shape=(n_features,)]
        The view of each feature.
    form : {"matrix", "list", "dict"}
        How they came.
    absent : list of int
        Views that were not given at all.
    """

    X: Any
    names: list[str]
    groups: Array
    form: str
    absent: list[int]


def split_views(X: Any, groups: Any) -> Given:
    """Return the views of training data as one matrix.

    Parameters
    ----------
    X : list or dict of arrays, data frame, array-like or sparse matrix
        See :meth:`.MultiviewNMF.fit`.
    groups : None, sequence of (array-like of int or slice), array-like or mapping
        Which features of a single matrix make a view; None where views come apart.

    Returns
    -------
    Given

    Raises
    ------
    ParameterError
        For views of different numbers of samples, or groups that are not of the features.
    """
    parts = _parts(X)
    if parts is None:
        matrix = check_kind(X)
        if not hasattr(matrix, "shape"):
            matrix = np.asarray(matrix)
        shape = matrix.shape
        if len(shape) != 2:  # as scikit-learn says
            return Given(matrix, ["0"], np.zeros(shape[-1] if shape else 0, int), "matrix", [])
        columns = list(matrix.columns) if hasattr(matrix, "columns") else None
        names, labels = named_groups(groups, shape[1], columns)
        return Given(matrix, names, labels, "matrix", [])
    if groups is not None:
        raise ParameterError("groups must be None where views come apart; got some; leave them out")
    form, views = parts
    given = {name: view for name, view in views.items() if view is not None}
    if not given or len(given) < len(views):
        missing = [name for name in views if name not in given]
        raise ParameterError(f"X must hold every view in training; got none of {', '.join(missing) or 'them'}")
    return Given(_joined(given), list(given), _labels([np.shape(view)[1] for view in given.values()]), form, [])


def same_views(X: Any, names: Sequence[str], groups: Array) -> Given:
    """Return new data as one matrix in the order of the training views.

    Parameters
    ----------
    X : as for :func:`split_views`
        A view may be None, or its key absent: missing for all samples.
    names : sequence of str
        Of the training views.
    groups : ndarray of int [shape=(n_features,)]
        The view of each training feature.

    Returns
    -------
    Given

    Raises
    ------
    ParameterError
        For views that were not there in training, or that have other numbers of features.
    """
    parts = _parts(X)
    if parts is None:
        return Given(check_kind(X), list(names), groups, "matrix", [])
    form, views = parts
    if form == "list" and len(views) != len(names):
        raise ParameterError(
            f"X must hold {len(names)} views as in training; got {len(views)}; None stands for one that is missing"
        )
    if form == "list":
        views = dict(zip(names, views.values(), strict=True))
    unknown = [name for name in views if name not in names]
    if unknown:
        raise ParameterError(f"X must hold the training views {list(names)}; got {unknown[0]!r:.60}")
    given = {name: views.get(name) for name in names}
    there = [view for view in given.values() if view is not None]
    if not there:
        raise ParameterError("X must hold at least one view; got none")
    sizes = np.bincount(groups, minlength=len(names))
    for name, size in zip(names, sizes, strict=True):
        view = given[name]
        if view is not None and np.shape(view)[1] != size:
            raise ParameterError(f"view {name} must have {size} features as in training; got {np.shape(view)[1]}")
    absent = [i for i, view in enumerate(given.values()) if view is None]
    n_samples = np.shape(there[0])[0]
    blank = np.float32 if all(_dtype(view) == np.float32 for view in there) else np.float64
    full = {
        name: np.full((n_samples, size), np.nan, blank) if given[name] is None else given[name]
        for name, size in zip(names, sizes, strict=True)
    }
    joined = _joined(full)
    places = np.argsort(np.argsort(groups, kind="stable"), kind="stable")
    if (np.diff(groups) < 0).any():  # a matrix whose views are not side by side
        joined = joined[:, places]
    return Given(joined, list(names), groups, form, absent)


def check_views(
    estimator: Any, given: Given, observed: ArrayLike | None, *, reset: bool, missing: float | None
) -> tuple[Any, Array | None]:
    """Return checked data with 0 for missing entries, and the weights of the entries.

    Parameters
    ----------
    estimator : MultiviewNMF
        For its name and its number of features.
    given : Given
    observed : array-like of bool [shape=(n_samples, n_views)] or None
        False where a sample's view is missing.
    reset : bool
        Whether this is a fit, which sets the number of features.
    missing : float or None
        What a missing entry is; None: there are none.

    Returns
    -------
    X : ndarray or csr_array
    entries : ndarray of bool [shape=(n_samples, n_features)] or None
        False for missing ones; None when nothing is missing.

    Raises
    ------
    ParameterError
        As :meth:`.MultiviewNMF.fit`.
    """
    X, n_views = given.X, len(given.names)
    mask = None
    if observed is not None:
        mask = np.asarray(observed)
        shape = np.shape(X)[0], n_views
        if mask.dtype != bool or mask.shape != shape:
            raise ParameterError(
                f"observed must be True or False for each sample and view, of shape {shape}; got {mask.dtype}, "
                f"{mask.shape}"
            )
        X = np.where(mask[:, given.groups], X.toarray() if sp.issparse(X) else np.asarray(X), np.nan)
    missing = np.nan if mask is not None or given.absent else missing
    data, entries = check_data(estimator, X, reset=reset, missing=missing, sparse=True)
    if reset:
        check_room(data, 2)
    if entries is None:
        return data, None
    there = observed_views(entries, given.groups, len(entries), n_views)
    if not there.any(axis=1).all():
        sample = int(there.any(axis=1).argmin())
        raise ParameterError(f"X must have a view of each sample; got none of sample {sample}; leave it out")
    if reset and not there.any(axis=0).all():
        view = given.names[int(there.any(axis=0).argmin())]
        raise ParameterError(f"X must have samples of each view in training; got none of view {view}")
    return data, entries


def row_blocks(shape: tuple[int, int]) -> Iterator[slice]:
    """Yield the rows of new samples that are worked on together, so that copies of them take little memory.

    Parameters
    ----------
    shape : tuple of int
        Of the samples.

    Yields
    ------
    slice
    """
    step = max(FEWEST_ROWS, BLOCK // shape[1])
    for start in range(0, shape[0], step):
        yield slice(start, start + step)


def observed_views(entries: Array | None, groups: Array, n_samples: int, n_views: int) -> Array:
    """Return which views of which samples have an entry that counts.

    Parameters
    ----------
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for those that do not; None: all count.
    groups : ndarray of int [shape=(n_features,)]
        The view of each feature.
    n_samples, n_views : int

    Returns
    -------
    ndarray of bool [shape=(n_samples, n_views)]
    """
    if entries is None:
        return np.ones((n_samples, n_views), bool)
    return np.array([entries[:, groups == v].any(axis=1) for v in range(n_views)]).T


def part_views(matrix: Array, names: Array, groups: Array, form: str) -> Any:
    """Return a matrix in the form in which views came.

    Parameters
    ----------
    matrix : ndarray [shape=(n_samples, n_features)]
    names : ndarray of str [shape=(n_views,)]
    groups : ndarray of int [shape=(n_features,)]
    form : {"matrix", "list", "dict"}

    Returns
    -------
    ndarray, or list or dict of ndarray
    """
    if form == "matrix":
        return matrix
    parts = {str(name): matrix[:, groups == v] for v, name in enumerate(names)}
    return parts if form == "dict" else list(parts.values())


def check_loaded(model: Any) -> None:
    """Check what a file says about the views of a model.

    Parameters
    ----------
    model : MultiviewNMF

    Raises
    ------
    ValueError
        When no fit can have left its attributes.
    """
    names, groups, scales, form = model.views_, model.view_groups_, model.view_scales_, model.view_form_
    n_features = model.components_.shape[1]
    if not isinstance(names, np.ndarray) or names.ndim != 1 or not all(isinstance(name, str) for name in names):
        raise ValueError("views_ is no list of names")
    if len(set(names)) < len(names):
        raise ValueError("views_ has a name twice")
    if not isinstance(groups, np.ndarray) or groups.dtype.kind != "i" or groups.shape != (n_features,):
        raise ValueError(f"view_groups_ is not the view of each of {n_features} features")
    if groups.min() != 0 or groups.max() != len(names) - 1 or not np.bincount(groups).all():
        raise ValueError(f"view_groups_ does not number {len(names)} views")
    if not isinstance(scales, np.ndarray) or scales.dtype.kind != "f" or scales.shape != names.shape:
        raise ValueError(f"view_scales_ is not a number for each of {len(names)} views")
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError("view_scales_ is not finite and > 0")
    if form not in FORMS:
        raise ValueError("view_form_ is unknown")
    _check_prior(model)
    if model.view_outliers is not None:
        check_number(model.view_outliers, "view_outliers", without_low=True)
        residuals = getattr(model, "view_residuals_", None)
        if not isinstance(residuals, np.ndarray) or residuals.dtype.kind != "f" or residuals.shape != (len(names), 2):
            raise ValueError(f"view_residuals_ is not two numbers for each of {len(names)} views")
        if not (np.isfinite(residuals[:, 0]) & (residuals >= 0).all(axis=1)).all():
            raise ValueError("view_residuals_ is not finite and >= 0")


def _check_prior(model: Any) -> None:
    """Check what codes of samples without a view are found by; files of earlier versions have nothing of it."""
    n_components, n_views = len(model.components_), len(model.views_)
    shapes = {
        "codes_mean_": (n_components,),
        "codes_covariance_": (n_components, n_components),
        "view_noise_": (n_views,),
    }
    if not any(hasattr(model, name) for name in shapes):
        return
    for name, shape in shapes.items():
        values = getattr(model, name, None)
        if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.shape != shape:
            raise ValueError(f"{name} is not {shape} numbers")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} is not finite")
    covariance = model.codes_covariance_ / max(np.abs(model.codes_covariance_).max(), np.finfo(np.float64).tiny)
    if np.abs(covariance - covariance.T).max() > 1e-8 or np.linalg.eigvalsh(covariance).min() < -1e-8 * n_components:
        raise ValueError("codes_covariance_ is no covariance")
    if not (model.view_noise_ > 0).all():
        raise ValueError("view_noise_ is not > 0")


def named_groups(groups: Any, n_features: int, columns: list[Any] | None) -> tuple[list[str], Array]:
    """Return names of the views and the view of each feature.

    Parameters
    ----------
    groups : None, sequence of (array-like of int or slice), array-like [shape=(n_features,)] or mapping
        None is one view; a mapping has the name of each view and its indices, slice, or names of columns.
    n_features : int
    columns : list or None
        Names of the features.

    Returns
    -------
    names : list of str
    labels : ndarray of int [shape=(n_features,)]

    Raises
    ------
    ParameterError
        Where a feature is in two views, or in none.
    """
    if groups is None:
        return ["0"], np.zeros(n_features, int)
    if not isinstance(groups, Mapping | Sequence | np.ndarray):
        raise ParameterError(
            f"groups must be index sets, slices, labels of the features or a dict; got {shown(groups)}"
        )
    if isinstance(groups, Mapping):
        names, sets = [str(name) for name in groups], list(groups.values())
    elif len(groups) == n_features and all(np.ndim(label) == 0 and not isinstance(label, slice) for label in groups):
        found, labels = np.unique(np.asarray(groups), return_inverse=True)
        return [str(name) for name in found], labels
    else:
        names, sets = [str(i) for i in range(len(groups))], list(groups)
    labels = np.full(n_features, -1)
    for i, indices in enumerate(sets):
        chosen = _indices(indices, n_features, columns, names[i])
        if not len(chosen) or len(set(chosen)) < len(chosen) or (labels[chosen] >= 0).any():
            raise ParameterError(f"groups must put each feature into one view; got {names[i]}: {shown(indices)}")
        labels[chosen] = i
    if (labels < 0).any():
        raise ParameterError(f"groups must put each feature into one view; got feature {int(labels.argmin())} in none")
    return names, labels


def _indices(given: Any, n_features: int, columns: list[Any] | None, name: str) -> Array:
    if isinstance(given, slice):
        return np.arange(n_features)[given]
    listed = list(given)
    if columns is not None and listed and all(isinstance(item, str) for item in listed):
        places = {column: i for i, column in enumerate(columns)}
        absent = [item for item in listed if item not in places]
        if absent:
            raise ParameterError(f"groups must name columns of X; got {absent[0]!r:.60} in {name}")
        return np.array([places[item] for item in listed])
    array = np.asarray(listed)
    if array.dtype.kind not in "iu" or array.ndim != 1 or (array < 0).any() or (array >= n_features).any():
        raise ParameterError(f"groups must hold indices from 0 to {n_features - 1}; got {name}: {shown(given)}")
    return array


def _parts(X: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the form and the views of data that come in several arrays; None for one matrix."""
    if sp.issparse(X):  # some formats are mappings
        return None
    if isinstance(X, Mapping):
        form, views = "dict", {str(name): view for name, view in X.items()}
    elif getattr(getattr(X, "columns", None), "nlevels", 1) > 1:  # a frame whose columns are (view, feature)
        form, views = "dict", {str(name): X[name] for name in dict.fromkeys(X.columns.get_level_values(0))}
    elif isinstance(X, list | tuple) and X and (any(map(_is_view, X)) or all(item is None for item in X)):
        form, views = "list", {str(i): view for i, view in enumerate(X)}
    else:
        return None
    if len(views) < len(X.columns.unique(0) if hasattr(X, "columns") else X):
        raise ParameterError(f"X must name each view differently, as text too; got {shown([*X])}")
    for name, view in views.items():
        if view is not None and (len(np.shape(view)) != 2 or not np.shape(view)[1]):
            raise ParameterError(f"view {name} must be an array of shape (n_samples, n_features); got {shown(view)}")
    sizes = {name: np.shape(view)[0] for name, view in views.items() if view is not None}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise ParameterError(f"views must have the same number of samples; got {listed}")
    return form, {name: None if view is None else _checked(view, name) for name, view in views.items()}


def _is_view(item: Any) -> bool:
    return not isinstance(item, list | tuple) and len(getattr(item, "shape", ())) == 2


def _checked(view: Any, name: str) -> Any:
    try:
        view = check_kind(view)
    except ParameterError as error:
        raise ParameterError(str(error).replace("X", f"view {name}", 1)) from None
    if np.iscomplexobj(view):  # whose imaginary parts would be lost
        raise ParameterError(f"view {name} must hold real numbers; got complex ones")
    return view


def _dtype(view: Any) -> Any:
    return view.dtype if hasattr(view, "dtype") else np.asarray(view).dtype


def _joined(views: Mapping[str, Any]) -> Any:
    """Put views side by side, sparse where all are; float32 where all are."""
    arrays: list[Any] = [view if sp.issparse(view) else _array(view) for view in views.values()]
    single = all(array.dtype == np.float32 for array in arrays)
    if all(sp.issparse(array) for array in arrays):
        return sp.hstack(arrays, format="csr", dtype=np.float32 if single else np.float64)
    dense = [array.toarray() if sp.issparse(array) else array for array in arrays]
    return np.hstack([array.astype(np.float32 if single else np.float64, copy=False) for array in dense])


def _array(view: Any) -> Array:
    array = np.asarray(view)
    if array.dtype == object and hasattr(view, "to_numpy"):  # a frame that may hold pandas.NA
        array = view.to_numpy(np.float64, na_value=np.nan)
    return array


def _labels(sizes: Sequence[int]) -> Array:
    return np.repeat(np.arange(len(sizes)), sizes)
