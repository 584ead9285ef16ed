"""Data frames among the views: the names of their features, the labels of their samples, and frames of results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from sklearn import get_config

from visionnmf.exceptions import ParameterError

__all__ = ["as_frames", "check_feature_names", "check_sample_labels", "feature_names", "labelled_codes"]

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
            got = "them in another order"
            for odd, words in ((set(found) - set(expected), "also"), (set(expected) - set(found), "none called")):
                if odd:
                    got = f"{words} {min(odd)!r:.60}"
            raise ParameterError(
                f"view {name} must have the feature names of training in their order, which view_feature_names_ holds; "
                f"got {got}; pass frame[names]"
            )


def check_sample_labels(views: Mapping[str, Any]) -> None:
    """Raise ParameterError if data frames label their rows differently, because rows are matched by position.

    Frames that only number their rows from 0 have no labels. They are refused only beside a frame that has the same
    numbers in another order.
    """
    labels = {name: view.index for name, view in views.items() if _is_frame(view)}
    first = next((name for name, index in labels.items() if not _is_count(index)), None)
    if first is None:
        return
    for name, index in labels.items():
        if index.equals(labels[first]):
            continue
        same = set(index) == set(labels[first])
        if same or not _is_count(index):
            got = "the same labels in another order" if same else "other labels"
            raise ParameterError(
                f"view {name} must have the index of view {first}, because rows are matched by position; got {got}; "
                "pass frame.reindex(other.index), or both after reset_index(drop=True) if their rows match as they are"
            )


def as_frames(
    arrays: Mapping[str, Array], given: Mapping[str, Any], known: Mapping[str, Sequence[str] | None]
) -> dict[str, Any]:
    """Return views as data frames like those given in their place; other views stay arrays.

    A view that was not given becomes a frame beside other frames if it had feature names in training (`known`).
    """
    frame = next((view for view in given.values() if _is_frame(view)), None)
    result: dict[str, Any] = dict(arrays)
    for name, array in arrays.items():
        own: Any = given.get(name)
        names = known.get(name)
        if _is_frame(own):
            result[name] = type(own)(array, index=own.index, columns=own.columns)
        elif frame is not None and own is None and names is not None:
            result[name] = type(frame)(array, index=frame.index, columns=names)
    return result


def labelled_codes(codes: Array, X: Any, estimator: Any) -> Any:
    """Return the codes of separate views `X`, as a data frame with the index of theirs if pandas output was asked for.

    scikit-learn makes the frames of ``set_output``, and names their columns, but it finds no index in a list or a dict.
    Frames that only number their rows give way to others, as in :func:`check_sample_labels`. In all other cases the
    codes (n_samples, n_components) are returned as they are.
    """
    views = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else ()
    frames = [view for view in views if _is_frame(view)]
    chosen = getattr(estimator, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
    if not frames or chosen != "pandas":
        return codes
    frame = next((frame for frame in frames if not _is_count(frame.index)), frames[0])
    return type(frame)(codes, index=frame.index)


def _is_frame(view: Any) -> bool:
    """Return whether a view is a data frame of pandas, whose rows have labels."""
    return hasattr(view, "columns") and hasattr(view, "index")


def _is_count(index: Any) -> bool:
    """Return whether the labels of rows are their numbers, as where none were given."""
    return getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1
