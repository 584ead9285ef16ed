"""What ``visionnmf multiview fit`` learns: how views are prepared, the model, and the file that keeps both."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from visionnmf import MultiviewNMF, choices
from visionnmf._checks import check_choice, check_saved, check_texts, check_type, shown
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.features.store import find_extractor, make_extraction, taken_apart
from visionnmf.io.model_file import ModelFile, check_model, class_finder
from visionnmf.models.model_files import find_class

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

SPARSE = 0.1  # a view with at most this share of observed entries above 0 is taken for counts of words


KINDS = ("range", "rows", "none")


@dataclass(eq=False, repr=False)
class Preparation(BaseEstimator):
    """Makes views non-negative and comparable; NaN stay.

    "range" scales each feature to 0 ... 1 over the training samples, which removes signs and units. "rows" takes the
    logarithm of 1 + x and then scales each sample to unit norm, as text is compared. "auto" takes "rows" for views of
    counts, which are 0 nearly everywhere, and "range" for the others. "none" leaves views unchanged. After `fit`,
    `kinds_` says what is done to each view by name, and `lows_` and `widths_` hold the least value and the range of
    each feature of the views that are scaled.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.multiview import Preparation
    >>> signed = {"sounds": np.array([[-1.0, 4], [1, 8]])}
    >>> Preparation("range").fit(signed).transform(signed)["sounds"].tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """

    saved_attributes = ("kinds_", "lows_", "widths_")

    prepare: str = "auto"

    def fit(self, views: ViewArrays, y: Any = None) -> Self:
        """Learn from training samples, a mapping of names to arrays of shape (n_samples, n_features)."""
        check_choice(self.prepare, "prepare", choices.VIEW_PREPARATIONS)
        views = {name: _checked(name, view) for name, view in _named(views)}
        self.kinds_ = {name: self._kind(view) for name, view in views.items()}
        scaled = {name: view for name, view in views.items() if self.kinds_[name] == "range"}
        self.lows_ = {name: _over_samples(np.fmin, view) for name, view in scaled.items()}
        self.widths_ = {name: _over_samples(np.fmax, view) - self.lows_[name] for name, view in scaled.items()}
        for width in self.widths_.values():
            width[~(width > 0)] = 1  # a constant feature has no range to divide by
        return self

    def transform(self, views: ViewArrays) -> dict[str, Array]:
        """Return prepared samples, >= 0, of all or some views; UnsupportedError for negative ones unless by range."""
        return {name: self._prepared(name, view) for name, view in self._known(views)}

    def inverse_transform(self, views: ViewArrays) -> dict[str, Array]:
        """Return prepared views in their own units; UnsupportedError for views prepared by "rows"."""
        back = {}
        for name, view in self._known(views):
            if self.kinds_[name] == "rows":
                raise UnsupportedError(
                    f"{name}: cannot be converted back from prepare='rows'; fit with prepare='range'"
                )
            back[name] = view if self.kinds_[name] == "none" else view * self.widths_[name] + self.lows_[name]
        return back

    def _check_state(self) -> None:
        """Raise ValueError unless what a file gave can be used; the file of a model compares it with the views."""
        check_choice(self.prepare, "prepare", choices.VIEW_PREPARATIONS)
        scaled = [name for name, kind in self.kinds_.items() if check_choice(kind, "kinds_", KINDS) == "range"]
        if not list(self.lows_) == list(self.widths_) == scaled:
            raise ValueError("lows_ and widths_ must be of the views that are scaled")
        for name in scaled:
            check_saved(self.lows_[name], "lows_", (None,))
            check_saved(self.widths_[name], "widths_", (None,), positive=True)

    def _kind(self, view: Array) -> str:
        """Return how a view is prepared: the parameter, or with "auto" by what it looks like."""
        if self.prepare != "auto":
            return self.prepare
        signed = bool((view < 0).any())
        return "rows" if not signed and is_sparse(view) else "range"

    def _known(self, views: ViewArrays) -> Iterator[tuple[str, Array]]:
        """Yield views as numbers by their names, which must be those of training, as must be their widths."""
        check_is_fitted(self, "kinds_")
        for name, given in _named(views):
            if name not in self.kinds_:
                raise ParameterError(f"views must be of training, {', '.join(self.kinds_)}; got {name!r:.60}")
            view, size = _checked(name, given), len(self.lows_.get(name, ()))
            if size not in (0, view.shape[1]):
                raise ParameterError(f"view {name} must have {size} features as in training; got {view.shape[1]}")
            yield name, view

    def _prepared(self, name: str, view: Array) -> Array:
        """Return a view as ``kinds_[name]`` says: scaled to 0 ... 1 ("range"), as logarithms ("rows"), or unchanged."""
        kind = self.kinds_[name]
        if kind == "range":  # `lows_` and `widths_`: least value and range of each feature in training
            return np.maximum((view - self.lows_[name]) / self.widths_[name], 0)
        if (view < 0).any():
            how = "if it is not prepared" if kind == "none" else "to be prepared by rows"
            raise UnsupportedError(f"{name}: must be >= 0 {how}; got {np.nanmin(view):g}; fit with prepare='range'")
        if kind == "none":
            return view
        logs = np.log1p(view)
        norms = np.sqrt(np.nansum(logs**2, axis=1, keepdims=True))
        return logs / np.where(norms > 0, norms, 1)


def _named(views: Any) -> ItemsView[str, Any]:
    """Return views with their names, or raise ParameterError for anything but a mapping."""
    if not isinstance(views, Mapping):
        raise ParameterError(f"views must be a dict of names and arrays; got {shown(views)}")
    return views.items()


def _checked(name: str, view: Any) -> Array:
    """Return a view in floating point, in which nothing wraps around; NaN stay."""
    return check_array(
        view,
        dtype=(np.float64, np.float32),
        ensure_all_finite="allow-nan",
        ensure_min_samples=0,
        input_name=f"view {name}",
    )


def is_sparse(view: Array) -> bool:
    """Return whether at least nine of ten observed entries of a view are 0."""
    return bool(np.count_nonzero(view > 0) <= SPARSE * np.count_nonzero(~np.isnan(view)))


def default_loss(views: ViewArrays) -> str:
    """Return the loss for prepared views: that of Manhattan is smallest for a model of zeros if one is nearly 0."""
    return "frobenius" if any(map(is_sparse, views.values())) else "manhattan"


def _over_samples(extreme: np.ufunc, view: Array) -> Array:
    """Return the least or the largest value of each feature without NaN, or 0 if all are NaN."""
    found = np.asarray(extreme.reduce(view, axis=0))
    return np.where(np.isfinite(found), found, 0)


def observed(views: ViewArrays) -> Array:
    """Return which samples have an entry in any of the views, as bool of shape (n_samples,)."""
    return np.asarray(np.array([~np.isnan(view).all(axis=1) for view in views.values()]).any(axis=0))


@dataclass
class ViewModel:
    """What ``visionnmf multiview fit`` learns: what is done to views first, and the model of prepared views.

    `extraction` describes images, where some views came from them, and `columns` names the features of other views,
    where their files did. `key` is the column by which the rows of the files were matched.
    """

    model: MultiviewNMF
    preparation: Preparation
    extraction: Any = None
    columns: dict[str, list[str]] = field(default_factory=dict)
    key: str | None = None


def _check(state: Any) -> ViewModel:
    """Return the model of a file; raise an error if its parts are not possible or do not fit together."""
    model, preparation = check_model(MultiviewNMF)(state["model"]), check_model(Preparation)(state["preparation"])
    if list(preparation.kinds_) != model.views_.tolist():
        raise ValueError("kinds_ must be those of the views of the model")
    sizes = dict(zip(preparation.kinds_, np.bincount(model.view_groups_).tolist(), strict=True))
    columns = check_type(state["columns"], "columns", dict)
    for name, names in columns.items():
        check_texts(names, "columns", sizes[name])
    for name, size in sizes.items():
        if preparation.kinds_[name] == "range":
            for values in (preparation.lows_, preparation.widths_):
                check_saved(values[name], "lows_ and widths_", (size,))
    extraction = None if state["extraction"] is None else make_extraction(state["extraction"])
    key = None if state["key"] is None else check_type(state["key"], "key", str)
    return ViewModel(model, preparation, extraction, columns, key)


def _state(model: ViewModel) -> dict[str, Any]:
    """Return what a file holds of a model."""
    extraction = None if model.extraction is None else taken_apart(model.extraction)
    return vars(model) | {"extraction": extraction}


FILE = ModelFile(
    "multiview",
    version=5,
    title="a multi-view model",
    origin="make one with 'visionnmf multiview fit'",
    smaller="fit fewer components",
    find_class=class_finder(Preparation, others=(find_class, find_extractor)),
    check=_check,
    taken_apart=_state,
)
save, load = FILE.save, FILE.load
