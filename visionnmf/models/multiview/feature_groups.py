"""Which features of a single matrix make a view, as a user names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import shown
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import are_labels

__all__ = ["named_groups"]

Array = NDArray[Any]


def named_groups(groups: Any, n_features: int, columns: list[Any]) -> tuple[list[str], Array]:
    """Return the names of the views of a single matrix, and the number of the view of each feature.

    `columns` are the names of the features of a data frame, by which `groups` may name them.
    """
    if groups is None:
        return ["0"], np.zeros(n_features, int)
    if hasattr(groups, "reindex") and hasattr(groups, "index"):  # a series of pandas
        groups = _ordered_series(groups, n_features, columns)
    if hasattr(groups, "__array__"):  # also an index of pandas
        groups = np.asarray(groups)
    if not isinstance(groups, Mapping):
        if not isinstance(groups, Sequence | np.ndarray) or (are_labels(groups) and len(groups) != n_features):
            raise ParameterError(
                f"groups must be index sets, or a label for each of {n_features} features; got {shown(groups)}"
            )
        if are_labels(groups):
            blank = next((j for j, name in enumerate(groups) if name is None or name != name), None)  # None or NaN
            if blank is not None:
                raise ParameterError(
                    f"groups must name the view of each feature; got {groups[blank]} for feature {blank}; give it a "
                    "name, or leave the feature out of X"
                )
            found, labels = np.unique(np.asarray(groups), return_inverse=True)
            return [str(name) for name in found], labels
        groups = dict(enumerate(groups))
    labels = np.full(n_features, -1)
    for v, (name, members) in enumerate(groups.items()):
        if isinstance(members, slice):
            chosen = np.arange(n_features)[members]
        elif isinstance(members, str) or (len(members) and all(isinstance(member, str) for member in members)):
            chosen = _columns_of(name, members, columns)
        else:
            chosen = np.asarray(members)
            if chosen.dtype == bool and chosen.shape == (n_features,):
                chosen = np.flatnonzero(chosen)
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or (chosen < 0).any() or (chosen >= n_features).any():
            raise ParameterError(f"groups must hold indices from 0 to {n_features - 1}; got {name}: {shown(members)}")
        if not len(chosen) or len(set(chosen)) < len(chosen) or (labels[chosen] >= 0).any():
            raise ParameterError(f"groups must put each feature into one view; got {name}: {shown(members)}")
        labels[chosen] = v
    if (labels < 0).any():
        raise ParameterError(f"groups must put each feature into one view; got feature {int(labels.argmin())} in none")
    return [str(name) for name in groups], labels


def _ordered_series(groups: Any, n_features: int, columns: list[Any]) -> Any:
    """Return a series of the views of features in the order of `columns`; one that only numbers them stays as it is."""
    labels = list(groups.index)
    if len(labels) == len(columns) and {*labels} == {*columns}:
        return groups.reindex(columns)
    if labels != list(range(n_features)):
        odd = next((label for label in labels if label not in columns), labels[0] if labels else "nothing")
        raise ParameterError(
            f"groups must have the columns of X as its index; got {odd!r:.60}; pass groups.to_numpy() if its order is "
            "that of the features"
        )
    return groups


def _columns_of(name: Any, members: Any, columns: list[Any]) -> Array:
    """Return the indices of the `columns` of a data frame that are called like the `members` of the view `name`."""
    if isinstance(members, str):
        raise ParameterError(f"groups must list the features of each view; got {name}: {members!r}; pass [{members!r}]")
    unknown = [member for member in members if member not in columns]
    if unknown:
        cure = "the columns are in X.columns" if columns else "X has no column names, so pass indices or a data frame"
        raise ParameterError(f"groups must name columns of X; got {unknown[0]!r:.60} in {name}; {cure}")
    return np.array([columns.index(member) for member in members])
