"""Views of the same samples as one record, however they are given."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_rows, shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import check_data, check_kind, feature_names, index_sets, is_dask, is_frame

from .frames import check_feature_names, check_sample_labels

BLOCK = 1 << 21  # entries of new samples whose copies are in memory at the same time
FEWEST_ROWS = 512  # of a block, because the components are scaled again for each block
RESIDUAL_ROWS = 1024  # rows whose dense residuals are in memory at the same time


@dataclass(frozen=True, eq=False)
class Views:
    """Checked views of the same samples, side by side in one matrix."""

    # (n_samples, n_features) >= 0, and 0 where an entry does not count; a csr_array only if all count. An array of Dask
    # has NaN there, and no `entries`.
    data: Any
    entries: Array | None  # bool, of the same shape: False for missing entries, which do not count; None: all count
    groups: Array  # (n_features,), the number of the view of each feature
    names: tuple[str, ...]
    form: str = "matrix"  # how the views were given: or "list", "dict"

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @property
    def n_views(self) -> int:
        """The number of views."""
        return len(self.names)

    def columns(self) -> list[Array]:
        """Return the indices of the features of each view."""
        return [np.flatnonzero(self.groups == v) for v in range(self.n_views)]

    def observed(self) -> Array:
        """Return which views of which samples have an entry that counts, as bool of shape (n_samples, n_views)."""
        if self.entries is None:
            return np.ones((len(self), self.n_views), bool)
        return np.array([self.entries[:, self.groups == v].any(axis=1) for v in range(self.n_views)]).T

    def weights(self) -> Array | None:
        """Return the weights of the entries for a fit, 1 if they count and 0 if not; None if all count."""
        return None if self.entries is None else self.entries.astype(self.data.dtype)

    def rows(self, rows: Array | slice) -> Views:
        """Return some of the samples: rows of the data and of `entries`, bool, which says what counts (None: all)."""
        return replace(self, data=self.data[rows], entries=None if self.entries is None else self.entries[rows])

    def only(self, used: Array) -> Views:
        """Return the views where `used`, bool of shape (n_views,), is true, numbered anew."""
        columns = used[self.groups]  # `groups` (n_features,) has the view of each feature, numbered from 0
        return replace(
            self,
            data=self.data[:, columns],
            entries=None if self.entries is None else self.entries[:, columns],
            groups=(np.cumsum(used) - 1)[self.groups[columns]],
            names=tuple(np.array(self.names, object)[used]),
        )

    def blocks(self) -> Iterator[tuple[slice, Array, Array | None]]:
        """Yield slices of rows, their dense data, and which entries of these count (bool, or None: all)."""
        for start in range(0, len(self), RESIDUAL_ROWS):
            rows = slice(start, start + RESIDUAL_ROWS)
            yield rows, dense(self.data[rows]), None if self.entries is None else self.entries[rows]

    def scaled(self, factors: Array) -> Views:
        """Return views whose features are multiplied by `factors` (n_features,); sparse data stay sparse."""
        factors = factors.astype(self.data.dtype)
        if not sp.issparse(self.data):
            return replace(self, data=self.data * factors)
        parts = self.data.data * factors[self.data.indices], self.data.indices, self.data.indptr
        return replace(self, data=sp.csr_array(parts, shape=self.data.shape))


def dense(data: Any) -> Array:
    """Return data as an array."""
    return data.toarray() if sp.issparse(data) else data


def row_slices(shape: tuple[int, int]) -> Iterator[slice]:
    """Yield slices of the rows of new samples, few enough for copies of them to take little memory."""
    step = max(FEWEST_ROWS, BLOCK // shape[1])
    for start in range(0, shape[0], step):
        yield slice(start, start + step)


class JoinedViews(NamedTuple):
    """Views side by side that are not checked yet; NaN if a view is missing for all samples."""

    X: Any
    names: tuple[str, ...]
    groups: Array
    form: str
    feature_names: Sequence[list[str] | None] = ()  # of each view, None without names; of separate views only
    absent: tuple[str, ...] = ()  # names of new views that are missing for all samples
    framed: tuple[bool, ...] = ()  # whether each separate training view was a data frame, as results then are


def join_training(X: Any, groups: Any) -> JoinedViews:
    """Put the views of training samples side by side, in any of the forms that `fit` accepts."""
    if isinstance(X, list | tuple | Mapping) and not len(X):
        raise ParameterError("X must hold at least one view; got none")
    if groups is None and isinstance(X, list | tuple) and all(len(getattr(view, "shape", ())) == 1 for view in X):
        raise ParameterError(
            f"view 0 must be an array of shape (n_samples, n_features); got one of shape {X[0].shape}; a view of one "
            "feature is numpy.reshape(view, (-1, 1))"
        )
    _check_not_samples(X)  # a list must hold the views, not the samples
    parts = _parts(X)  # the form ("dict" or "list") and the views by name, or None for a single matrix
    if parts is None:
        matrix = check_kind(X)
        if not hasattr(matrix, "shape"):
            matrix = np.asarray(matrix)
        shape = matrix.shape
        if len(shape) != 2:  # scikit-learn's check of the data will say so
            return JoinedViews(matrix, ("0",), np.zeros(shape[-1] if shape else 0, int), "matrix")
        if groups is None:
            warnings.warn(
                "MultiviewNMF takes X for a single view, because groups is None; pass groups, or the views as a list "
                "or a dict, or use NMF",
                UserWarning,
                stacklevel=5,
            )
        names, labels = _named_groups(groups, shape[1])
        return JoinedViews(matrix, tuple(names), labels, "matrix")
    if groups is not None:
        raise ParameterError("groups must be None if the views are given separately; got some; leave them out")
    form, views = parts
    given = {name: view for name, view in views.items() if view is not None}
    if not given or len(given) < len(views):
        missing = [name for name in views if name not in given]
        raise ParameterError(f"X must hold every view in training; got none of {', '.join(missing) or 'them'}")
    labels = np.repeat(np.arange(len(given)), [np.shape(view)[1] for view in given.values()])
    features = [feature_names(view) if hasattr(view, "columns") else None for view in given.values()]
    return JoinedViews(
        _side_by_side(given), tuple(given), labels, form, features, framed=tuple(map(is_frame, given.values()))
    )


def _named_groups(groups: Any, n_features: int) -> tuple[list[str], Array]:
    """Return the names of the views of a single matrix, and the number of the view of each feature."""
    if groups is None:
        return ["0"], np.zeros(n_features, int)
    views = index_sets(groups, n_features, "groups", "features")
    labels = np.full(n_features, -1)
    for v, chosen in enumerate(views.values()):
        labels[chosen] = v
    if (labels < 0).any():
        raise ParameterError(f"groups must put each feature into one view; got feature {int(labels.argmin())} in none")
    return [*views], labels


def new_views(model: Any, X: Any, observed: ArrayLike | None = None) -> Views:
    """Return the checked views of new samples in the order of training by a fitted `model`; see :func:`check_views`."""
    check_is_fitted(model)
    return check_views(model, join_new(model, X), observed, reset=False, missing=model.missing_values)


def join_new(model: Any, X: Any) -> JoinedViews:
    """Put the views of new samples side by side in the order of training; raise ParameterError for other views."""
    names, groups, known_features = model.views_.tolist(), model.view_groups_, model.view_feature_names_
    if model.view_form_ == "matrix" and hasattr(model, "feature_names_in_"):  # share out the columns of one frame
        known_features = [list(model.feature_names_in_[groups == v]) for v in range(len(names))]
    _check_not_samples(X)
    parts = _parts(X)
    if parts is None:
        return JoinedViews(check_kind(X), tuple(names), groups, "matrix")
    form, views = parts
    if form == "list" and len(views) != len(names):
        raise ParameterError(
            f"X must hold {len(names)} views as in training; got {len(views)}; None stands for a missing view"
        )
    if form == "list":
        views = dict(zip(names, views.values(), strict=True))
    unknown = [name for name in views if name not in names]
    if unknown:
        raise ParameterError(f"X must hold the training views {list(names)}; got {unknown[0]!r:.60}")
    there = {name: view for name, view in views.items() if view is not None}
    if not there:
        raise ParameterError("X must hold at least one view; got none")
    if known_features:
        check_feature_names(there, dict(zip(names, known_features, strict=True)))
    sizes = dict(zip(names, np.bincount(groups, minlength=len(names)), strict=True))
    for name in names:
        if name in there and np.shape(there[name])[1] != sizes[name]:
            raise ParameterError(
                f"view {name} must have {sizes[name]} features as in training; got {np.shape(there[name])[1]}"
            )
    n_samples = np.shape(next(iter(there.values())))[0]
    # The type of the blocks of NaN: they must not turn float32 views into float64.
    blank = np.float32 if all(_dtype(view) == np.float32 for view in there.values()) else np.float64
    full = {name: there[name] if name in there else np.full((n_samples, sizes[name]), np.nan, blank) for name in names}
    joined = _side_by_side(full)
    # The columns of `joined` are sorted by view. The inverse of that permutation restores the order of training.
    if (np.diff(groups) < 0).any():  # the views of the training matrix were not side by side
        joined = joined[:, np.argsort(np.argsort(groups, kind="stable"), kind="stable")]
    absent = tuple(name for name in names if name not in there)
    return JoinedViews(joined, tuple(names), groups, form, absent=absent)


def check_views(
    estimator: Any, given: JoinedViews, observed: ArrayLike | None, *, reset: bool, missing: float | None
) -> Views:
    """Return the checked views, after NaN has replaced what `observed` (n_samples, n_views) marks as missing by False.

    `given` are views side by side, with the names of views and of those that are `absent`, the view of each feature,
    `groups`, and the `form` in which they came, such as "dict". `reset` is true in a fit: it sets the estimator's
    number of features, and needs a sample of every view. `missing` is NaN if NaN stand for missing entries.
    """
    X = given.X
    if observed is not None or given.absent:
        mask = (
            np.ones((np.shape(X)[0], len(given.names)), bool) if observed is None else _check_observed(observed, given)
        )
        there = (mask & ~np.isin(given.names, given.absent))[:, given.groups]
        X = dense(X) if sp.issparse(X) else _array(X)
        # the false `out` stays where nothing is there, so NaN only count where the caller says that something is
        if missing is None and np.isnan(X, where=there, out=np.zeros(X.shape, bool)).any():
            # the error that names the view, if that can be told
            raise _refused_value(np.where(there, X, 0), given, with_nan=False) or ParameterError(
                "X must not hold NaN where it is observed; got some; pass missing_values=numpy.nan to the estimator if "
                "they are missing entries"
            )
        # NaN now marks what the caller declared missing, even if NaN in the data themselves are not allowed.
        X, missing = np.where(there, X, np.nan), np.nan
    try:
        data, entries = check_data(estimator, X, reset=reset, missing=missing, sparse=True)  # None: all entries count
    except ValueError as error:
        raise (_refused_value(X, given, with_nan=missing is not None) or error) from None
    views = Views(data, entries, given.groups, given.names, given.form)
    if entries is None:
        return views
    there = views.observed()
    if not there.any(axis=1).all():
        sample = int(there.any(axis=1).argmin())
        raise ParameterError(f"X must have a view of each sample; got none of sample {sample}; leave it out")
    if reset and not there.any(axis=0).all():
        view = given.names[int(there.any(axis=0).argmin())]
        raise ParameterError(f"X must have samples of each view in training; got none of view {view}")
    if reset and not entries.any(axis=0).all():
        _warn_unknown(int(entries.any(axis=0).argmin()), given)
    return views


def _warn_unknown(feature: int, given: JoinedViews) -> None:
    """Warn that a feature of training views, numbered over all views, has no entry that is there."""
    v = given.groups[feature]
    number = int(np.count_nonzero(given.groups[:feature] == v))
    names = given.feature_names[v] if given.feature_names else None
    label = f" ({names[number]!r:.60})" if names else ""
    warnings.warn(
        f"view {given.names[v]} has no entry of feature {number}{label} in training, so it is predicted as 0; leave it "
        "out",
        UserWarning,
        stacklevel=6,
    )


def _check_not_samples(X: Any) -> None:
    """Raise ParameterError for what holds no views, and for a list of the views of each sample."""
    if getattr(getattr(X, "columns", None), "nlevels", 1) > 1:
        raise ParameterError(
            "X must be a list or a dict of views, or one matrix; got a data frame whose columns have levels; pass "
            "{name: X[name] for name in X.columns.unique(0)}"
        )
    if X is None or isinstance(X, str | Real):
        raise ParameterError(
            f"X must hold the views, a list or a dict of arrays, or one matrix; got {shown(X)}; pass for example "
            "{'sounds': sounds, 'images': images}"
        )
    first = X[0] if isinstance(X, list | tuple) and X else None
    if isinstance(first, Mapping):
        raise ParameterError(
            "X must be a list or a dict of views; got a list of samples, each a dict of views; pass "
            "{name: numpy.array([sample[name] for sample in X]) for name in X[0]}"
        )
    if isinstance(first, list | tuple) and any(hasattr(part, "shape") for part in first):
        raise ParameterError(
            "X must be a list of views, each of shape (n_samples, n_features); got a list of samples, each a list of "
            "views; pass [numpy.array(view) for view in zip(*X)]"
        )


def _check_observed(observed: Any, given: JoinedViews) -> Array:
    """Return which views of which samples are there, bool of shape (n_samples, n_views); else raise ParameterError."""
    names, shape = list(given.names), (np.shape(given.X)[0], len(given.names))
    if isinstance(observed, Mapping) or is_frame(observed):  # whose columns may be in another order
        got = "a dict" if isinstance(observed, Mapping) else "a data frame"
        cure = f"numpy.column_stack([observed[name] for name in {names}])"
    else:
        try:
            mask = np.asarray(observed)
        except ValueError:  # rows of different lengths
            mask = np.empty(0, object)
        if mask.dtype == bool and mask.shape == shape:
            return mask
        got, cure = f"{mask.dtype} of shape {mask.shape}", "a column for each view, in the order of views_"
        if mask.shape == shape[::-1] != shape:
            cure = "observed.T"
        elif mask.shape == np.shape(given.X):
            cure = "NaN in the views for single entries, with missing_values=numpy.nan"
        elif mask.shape == shape:
            cure = "observed.astype(bool)"
    raise ParameterError(
        f"observed must be True or False for each sample and view, of shape {shape}; got {got}; pass {cure}"
    )


def _refused_value(X: Any, given: JoinedViews, *, with_nan: bool) -> ParameterError | None:
    """Return the error for the first view that holds negative numbers, infinity or, unless allowed, NaN; or None."""
    if (given.form == "matrix" and len(given.names) == 1) or np.shape(X)[1:] != given.groups.shape:
        return None
    for v, name in enumerate(given.names):
        own = np.flatnonzero(given.groups == v)
        view = X[:, own].toarray() if sp.issparse(X) else _array(X)[:, own].astype(np.float64)
        for bad, must, cure in (
            (
                np.isnan(view) & (not with_nan),
                "not hold NaN",
                "remove them from the sparse view"
                if sp.issparse(X)
                else "pass missing_values=numpy.nan to the estimator if they are missing entries",
            ),
            (np.isinf(view), "be finite", "leave such samples out, or put NaN there, with missing_values=numpy.nan"),
            (
                view < 0,
                "be >= 0",
                "scale each feature of this view to 0 ... 1, for example by its own "
                "sklearn.preprocessing.MinMaxScaler(clip=True)",
            ),
        ):
            if bad.any():
                sample, feature = np.argwhere(bad)[0]
                return ParameterError(
                    f"view {name} must {must}; got {view[sample, feature]:g} in sample {sample}, feature {feature}; "
                    f"{cure}"
                )
    return None


def _parts(X: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the form and the views of data that are given as several arrays, or None for a single matrix."""
    if sp.issparse(X):  # some sparse formats are mappings
        return None
    if isinstance(X, Mapping):
        odd = [name for name in X if not isinstance(name, str)]
        if odd:
            raise ParameterError(
                f"X must have text as names of views; got {shown(odd[0])}; pass {{str(name): X[name] for name in X}}"
            )
        form, views = "dict", dict(X)
    elif isinstance(X, list | tuple) and X and (any(map(_is_view, X)) or all(item is None for item in X)):
        form, views = "list", {str(i): view for i, view in enumerate(X)}
    else:
        return None
    for name, view in views.items():
        check_rows(view, name=f"view {name}")
        try:
            shape = np.shape(view)
        except ValueError:  # NumPy's sentence does not name the view
            raise ParameterError(
                f"view {name} must be an array of shape (n_samples, n_features); got rows of different lengths"
            ) from None
        if view is not None and (len(shape) != 2 or not shape[1]):
            got = shown(view)
            if len(shape) == 1:
                got = f"one of shape {shape}; numpy.reshape(view, (1, -1)) is one sample, and (-1, 1) is one feature"
            raise ParameterError(f"view {name} must be an array of shape (n_samples, n_features); got {got}")
    sizes = {name: np.shape(view)[0] for name, view in views.items() if view is not None}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise ParameterError(f"views must have the same number of samples; got {listed}")
    if any(map(is_frame, views.values())):
        check_sample_labels(views)
    return form, {name: None if view is None else _checked(view, name) for name, view in views.items()}


def count_samples(X: Any) -> int:
    """Return the number of samples of views in any form that a fit takes."""
    _check_not_samples(X)
    parts = _parts(X)
    given = [X] if parts is None else [view for view in parts[1].values() if view is not None]
    shape = (getattr(given[0], "shape", None) or np.asarray(given[0]).shape) if given else ()
    return int(shape[0]) if shape else 0


def in_dask(X: Any) -> bool:
    """Return whether views, in any form that a fit takes, hold at least one Dask array."""
    return any(map(is_dask, listed_views(X)))


def listed_views(X: Any) -> list[Any]:
    """Return the views of data in any form that may hold Dask arrays; a single matrix counts as one."""
    if isinstance(X, Mapping):
        return list(X.values())
    return list(X) if isinstance(X, list | tuple) else [X]


def given_views(X: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the views that a caller passed by the `names` of training; a single matrix has an empty name."""
    parts = _parts(X)
    if parts is None:
        return {"": X}
    form, views = parts
    return dict(zip(names, views.values(), strict=True)) if form == "list" else views


def _is_view(item: Any) -> bool:
    """Return whether an item of a list is a view, and not a row of a matrix that is given as nested lists."""
    return not isinstance(item, list | tuple) and len(getattr(item, "shape", ())) >= 2


def _checked(view: Any, name: str) -> Any:
    """Return a view of a kind that can be read; errors name the view instead of X."""
    try:
        view = check_kind(view)
    except ParameterError as error:
        raise ParameterError(str(error).replace("X", f"view {name}", 1)) from None
    if np.iscomplexobj(view):  # the imaginary parts would be lost
        raise ParameterError(f"view {name} must hold real numbers; got complex ones")
    return view


def _dtype(view: Any) -> Any:
    """Return the type of the numbers of a view, which may be a nested list."""
    return view.dtype if hasattr(view, "dtype") else np.asarray(view).dtype


def _side_by_side(views: Mapping[str, Any]) -> Any:
    """Put views side by side, sparse if all are sparse and float32 if all are float32."""
    arrays: list[Any] = [view if sp.issparse(view) else _array(view) for view in views.values()]
    single = all(array.dtype == np.float32 for array in arrays)
    if all(sp.issparse(array) for array in arrays):
        return sp.hstack(arrays, format="csr", dtype=np.float32 if single else np.float64)
    dense = [array.toarray() if sp.issparse(array) else array for array in arrays]
    return np.hstack([array.astype(np.float32 if single else np.float64, copy=False) for array in dense])


def _array(view: Any) -> Array:
    """Return a dense view, such as a data frame or a nested list, as an array."""
    array = np.asarray(view)
    if array.dtype == object and hasattr(view, "to_numpy"):  # a frame that may hold pandas.NA
        array = view.to_numpy(np.float64, na_value=np.nan)
    return array
