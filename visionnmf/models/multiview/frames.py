"""Data frames among the views: the names of their features, the labels of their samples, and frames of results."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from numpy.typing import NDArray
from sklearn import get_config

from visionnmf._checks import shown
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import is_frame

__all__ = [
    "FittedForm",
    "check_feature_names",
    "check_same_labels",
    "check_sample_labels",
    "feature_names",
    "labelled_codes",
    "labels_of",
]

Array = NDArray[Any]


def feature_names(view: Any) -> list[str] | None:
    """Return the names of the columns of a data frame; None if they are not all text, and for other views."""
    names = list(getattr(view, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def check_feature_names(views: Mapping[str, Any], known: Mapping[str, list[str] | None]) -> None:
    """Raise ParameterError if a view has other feature names than in training (`known`), or has them in another order.

    As in scikit-learn, a warning is issued if a view has names in only one of these two cases.
    """
    for name, view in views.items():
        found, expected = feature_names(view), known.get(name)
        if found is None and expected is None:
            continue
        if found is None or expected is None:
            when = "has no feature names, but had some" if found is None else "has feature names, but had none"
            warnings.warn(f"view {name} {when} in training", UserWarning, stacklevel=5)
        elif found != expected:
            got = "them in another order"  # unless one of the two has a name that the other has not
            for odd, words in ((set(found) - set(expected), "also"), (set(expected) - set(found), "none called")):
                if odd:
                    got = f"{words} {min(odd)!r:.60}"
            raise ParameterError(
                f"view {name} must have the feature names of training in their order, which view_feature_names_ holds; "
                f"got {got}; pass frame[names]"
            )


def check_sample_labels(views: Mapping[str, Any]) -> None:
    """Raise ParameterError if data frames label their rows differently, because rows are matched by position.

    :func:`check_same_labels` says which labels differ.
    """
    check_same_labels({f"view {name}": view.index for name, view in views.items() if is_frame(view)})


def check_same_labels(labels: Mapping[str, Any]) -> None:
    """Raise ParameterError if indexes, by what they belong to, are different.

    An index that only numbers the rows from 0 holds no labels, and is right beside labels of another kind. Beside other
    whole numbers it is refused, because slices of one frame have such indexes.
    """
    first = next((name for name, index in labels.items() if not _is_count(index)), None)
    if first is None:
        return
    for name, index in labels.items():
        if index.equals(labels[first]):
            continue
        same = set(index) == set(labels[first])
        # other labels are refused, but not numbers of rows (`_is_count`) beside labels that are no whole numbers
        if same or not _is_count(index) or labels[first].dtype.kind in "iu":
            got = "the same labels in another order" if same else "other labels"
            cure = "both after reset_index(drop=True) if their rows match as they are"
            twice = next((index[index.duplicated()] for index in (index, labels[first]) if not index.is_unique), None)
            if twice is None:
                cure = f"frame.reindex(other.index), or {cure}"
            else:  # reindex cannot tell such rows apart
                got += f", and {shown(twice[0])} for several rows"
            raise ParameterError(
                f"{name} must have the index of {first}, because rows are matched by position; got {got}; pass {cure}"
            )


class FittedForm(NamedTuple):
    """How the training views were given, which is the form of the views that a model returns.

    `form` is that of :class:`.views.Views`, `names` (n_views,) and `groups` (n_features,) are those of the views.
    `features` has the names of the features of each view, or one item for a single matrix; None: they are numbered.
    `framed` says of each view whether it was a data frame, and `numbered` whether its name was a whole number.
    """

    form: str
    names: Sequence[str]
    groups: Array
    features: Sequence[list[str] | None]
    framed: Sequence[bool]
    numbered: Sequence[bool]

    def restore(self, matrix: Array, index: Any, given: Mapping[str, Any] | None = None, X: Any = None) -> Any:
        """Return a matrix (n_samples, n_features) as views in this form.

        Views that were data frames in training, or are in `given`, the views from which the matrix was made, become
        data frames. Their rows have the labels `index`, or numbers, and their columns those of the view in `given`, if
        it is there. `X` are the views as the caller passed them, whose order of columns a frame of all views keeps.
        Without pandas, to which a model file may have been brought, views of training frames are arrays.
        """
        # `form` is "matrix", "list", "dict", or "frame": one data frame of all views, whose columns have the levels
        # view and feature. `groups` (n_features,) has the view of each feature, and for each view there are `names`,
        # the `features` it had by name, and whether it was a data frame, and its name a number.
        known = self.framed if find_spec("pandas") else ()
        single = self.form == "matrix"
        columns = [slice(None)] if single else [self.groups == v for v in range(len(self.names))]
        parts: dict[str, Any] = {}
        for v, (name, own) in enumerate(zip([""] if single else self.names, columns, strict=True)):
            names = self.features[v] if v < len(self.features) else None
            framed = v < len(known) and bool(known[v])
            parts[name] = _like(matrix[:, own], (given or {}).get(name), index, names, framed)
        if single:
            return parts[""]
        if self.form == "list":
            return list(parts.values())
        numbers = {name for name, is_one in zip(self.names, self.numbered, strict=False) if is_one}
        # a file may call a name a number that is none
        keyed = {int(name) if name in numbers and name.isdecimal() else name: part for name, part in parts.items()}
        # `_levels` joins the frames of the views to one with two levels of columns, in the order of `X`
        return _levels(keyed, X) if self.form == "frame" and any(known) else keyed


def _like(array: Array, given: Any, index: Any, names: list[str] | None, framed: bool) -> Any:
    """Return a view as a data frame, if the view `given` in its place is one or the training view was one (`framed`).

    Without a `given` frame the rows have the labels `index`, and the columns the `names` of training.
    """
    if is_frame(given):
        return type(given)(array, index=given.index, columns=given.columns)
    return import_module("pandas").DataFrame(array, index=index, columns=names) if framed else array


def _levels(parts: Mapping[Any, Any], X: Any) -> Any:
    """Return data frames side by side with their names as the outer level, if possible in the order of the frame `X`.

    A frame `X` without this level, and what is no frame, say nothing of the order.
    """
    if getattr(getattr(X, "columns", None), "nlevels", 1) == 1:
        return import_module("pandas").concat(parts, axis=1)
    labels = {str(label): label for label in X.columns.unique(0)}
    joined = import_module("pandas").concat({labels.get(str(name), name): part for name, part in parts.items()}, axis=1)
    joined.columns.names = X.columns.names
    return joined[list(X.columns)] if len(joined.columns) == len(X.columns) else joined


def labels_of(views: Iterable[Any]) -> Any:
    """Return the index of the first data frame that labels its rows, or numbers them; None without a data frame."""
    frames = [view for view in views if is_frame(view)]
    return next((frame.index for frame in frames if not _is_count(frame.index)), frames[0].index if frames else None)


def labelled_codes(codes: Array, X: Any, estimator: Any) -> Any:
    """Return the codes of separate views `X`, as a data frame with the index of theirs if pandas output was asked for.

    scikit-learn makes the frames of ``set_output``, and names their columns, but it finds no index in a list or a dict.
    Frames that only number their rows give way to others, as in :func:`check_sample_labels`. In all other cases the
    codes (n_samples, n_components) are returned as they are.
    """
    views = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else ()
    index = labels_of(views)
    # the choice of `set_output`, or that of scikit-learn's global setting
    chosen = getattr(estimator, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
    return codes if index is None or chosen != "pandas" else import_module("pandas").DataFrame(codes, index=index)


def _is_count(index: Any) -> bool:
    """Return whether the labels of rows are their numbers from 0, as pandas counts them where none were given."""
    return getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1
