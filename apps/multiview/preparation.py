"""How views are made non-negative and comparable before they are factorised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from visionnmf import choices
from visionnmf._checks import check_choice
from visionnmf.exceptions import UnsupportedError

__all__ = ["Preparation", "is_sparse"]

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

SPARSE = 0.1  # a view with at most this share of observed entries above 0 is taken for counts of words


class Preparation(BaseEstimator):
    """Makes views non-negative and comparable; NaN stay.

    "range" scales each feature to 0 ... 1 over the training samples, which removes signs and units. "rows" takes the
    logarithm of 1 + x and then scales each sample to unit norm, as text is compared. "auto" takes "rows" for views of
    counts, which are 0 nearly everywhere, and "range" for the others. "none" leaves views unchanged.

    Parameters
    ----------
    prepare : {"auto", "range", "rows", "none"}, default="auto"

    Attributes
    ----------
    kinds_ : dict of str to str
        What is done to each view: "range", "rows" or "none".
    lows_, widths_ : dict of str to ndarray [shape=(n_features of the view,)]
        Least value and range of each feature, for the views whose features are scaled.
    """

    def __init__(self, prepare: str = "auto") -> None:
        self.prepare = prepare

    def fit(self, views: ViewArrays, y: Any = None) -> Self:
        """Learn from training samples, a mapping of names to arrays of shape (n_samples, n_features)."""
        check_choice(self.prepare, "prepare", choices.VIEW_PREPARATIONS)
        self.kinds_ = {name: self._kind(view) for name, view in views.items()}
        scaled = {name: view for name, view in views.items() if self.kinds_[name] == "range"}
        self.lows_ = {name: _over_samples(np.fmin, view) for name, view in scaled.items()}
        self.widths_ = {name: _over_samples(np.fmax, view) - self.lows_[name] for name, view in scaled.items()}
        for width in self.widths_.values():
            width[~(width > 0)] = 1
        return self

    def transform(self, views: ViewArrays) -> dict[str, Array]:
        """Return prepared samples, >= 0, of all or some of the views; values below the training range become 0.

        Raises UnsupportedError for negative numbers in views that are not prepared by range.
        """
        return {name: self._prepared(name, view) for name, view in views.items()}

    def inverse_transform(self, views: ViewArrays) -> dict[str, Array]:
        """Return prepared views in their own units.

        Raises UnsupportedError for views prepared by "rows", which loses the size of the samples.
        """
        back = {}
        for name, view in views.items():
            if self.kinds_[name] == "rows":
                raise UnsupportedError(
                    f"{name}: cannot be converted back from prepare='rows'; fit with prepare='range'"
                )
            back[name] = view if self.kinds_[name] == "none" else view * self.widths_[name] + self.lows_[name]
        return back

    def _kind(self, view: Array) -> str:
        if self.prepare != "auto":
            return self.prepare
        signed = bool((view < 0).any())
        return "rows" if not signed and is_sparse(view) else "range"

    def _prepared(self, name: str, view: Array) -> Array:
        """Return a view scaled to its training range, as logarithms with rows of unit norm, or as it is."""
        kind = self.kinds_[name]
        if kind == "range":
            return np.maximum((view - self.lows_[name]) / self.widths_[name], 0)
        if (view < 0).any():
            how = "if it is not prepared" if kind == "none" else "to be prepared by rows"
            raise UnsupportedError(f"{name}: must be >= 0 {how}; got {np.nanmin(view):g}; fit with prepare='range'")
        if kind == "none":
            return view
        logs = np.log1p(view)
        norms = np.sqrt(np.nansum(logs**2, axis=1, keepdims=True))
        return logs / np.where(norms > 0, norms, 1)


def is_sparse(view: Array) -> bool:
    """Return whether at least nine of ten observed entries of a view are 0."""
    return bool(np.count_nonzero(view > 0) <= SPARSE * np.count_nonzero(~np.isnan(view)))


def _over_samples(extreme: np.ufunc, view: Array) -> Array:
    """Return the least or the largest value of each feature without NaN, or 0 if all are NaN."""
    found = np.asarray(extreme.reduce(view, axis=0))
    return np.where(np.isfinite(found), found, 0)
