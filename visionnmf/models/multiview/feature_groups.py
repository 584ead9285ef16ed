"""Which features of a single matrix make a view, as a user names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from visionnmf._checks import shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import are_labels


def named_groups(groups: Any, n_features: int) -> tuple[list[str], Array]:
    """Return the names of the views of a single matrix, and the number of the view of each feature."""
    if groups is None:
        return ["0"], np.zeros(n_features, int)
    if hasattr(groups, "reindex"):  # a series of pandas, whose labels would not be looked at
        raise ParameterError("groups must be a list, an array or a dict; got a series; pass groups.to_numpy()")
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
