"""Data frames among the views: the names of their features, the labels of their samples, and frames of results."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn import get_config

from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import feature_names, is_frame, other_names


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
            raise ParameterError(
                f"view {name} must have the feature names of training in their order, which view_feature_names_ holds; "
                f"got {other_names(found, expected)}; pass frame[names]"
            )


def check_sample_labels(views: Mapping[str, Any]) -> None:
    """Raise ParameterError if data frames have different indexes, because rows are matched by position."""
    labels = {name: view.index for name, view in views.items() if is_frame(view)}
    for name, index in labels.items():
        first = next(iter(labels))
        if not index.equals(labels[first]):
            raise ParameterError(
                f"view {name} must have the index of view {first}, because rows are matched by position; got another; "
                "pass frame.reindex(other.index) or parts of a pandas.merge, or both after reset_index(drop=True) if "
                "their rows match as they are"
            )


def as_frame(view: Array, given: Any, index: Any, names: list[str] | None) -> Any:
    """Return a view as a data frame with the columns of the frame `given`, or else the `names` of training."""
    if not find_spec("pandas"):
        return view
    return import_module("pandas").DataFrame(view, index, given.columns if is_frame(given) else names)


def labels_of(views: Iterable[Any]) -> Any:
    """Return the index of the first data frame; None without one."""
    return next((view.index for view in views if is_frame(view)), None)


def labelled_codes(codes: Array, X: Any, estimator: Any) -> Any:
    """Return the codes of separate views `X`, as a data frame with the index of theirs if pandas output was asked for.

    scikit-learn makes the frames of ``set_output``, and names their columns, but it finds no index in a list or a dict.
    In all other cases the codes (n_samples, n_components) are returned as they are.
    """
    index = labels_of(X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else ())
    # the choice of `set_output`, or that of scikit-learn's global setting
    chosen = getattr(estimator, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
    return codes if index is None or chosen != "pandas" else import_module("pandas").DataFrame(codes, index=index)
