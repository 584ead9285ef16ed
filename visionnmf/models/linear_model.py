"""The base of estimators that describe data as codes times components."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import moved, to_numpy
from visionnmf.exceptions import ParameterError

from .data_checks import is_dask, is_on_device
from .model_files import Saveable


class LinearModel(Saveable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of estimators that reconstruct non-negative data as ``codes @ components_``."""

    components_: Array

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Any:
        """Find the components of `X`, and return the estimator."""

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Return ``W @ H`` (n_samples, n_features) for codes `X`, as an array of the same library or of Dask."""
        check_is_fitted(self)
        if is_dask(X):
            return X @ to_numpy(self.components_)
        if is_on_device(X):
            check_shape(X, self._n_features_out)
            return X @ moved(to_numpy(self.components_), X)
        return np.asarray(check_code_matrix(X, self.get_feature_names_out()) @ to_numpy(self.components_))

    @property
    def _n_features_out(self) -> int:
        """The number of columns of `transform`, for which scikit-learn makes names."""
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that `X` must be >= 0, and that float32 codes belong to float32 data."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_code_matrix(X: ArrayLike, names: Sequence[str]) -> Array:
    """Return codes as an array; raise ParameterError unless they have a column, in order, for each component."""
    W = np.asarray(X)
    check_shape(W, len(names))
    columns = list(getattr(X, "columns", ()))
    for known, cure in (
        ([*names], "X[model.get_feature_names_out()]"),
        ([*range(len(names))], "X.sort_index(axis=1)"),
    ):
        if columns != known and {*columns} == {*known}:
            raise ParameterError(
                f"X must have its columns in the order of the components; got {columns[0]!r} first; pass {cure}"
            )
    return W


def check_shape(W: Any, n_components: int) -> None:
    """Raise ParameterError if codes, an array of any library, do not have one column for each component."""
    if W.ndim != 2 or W.shape[1] != n_components:
        raise ParameterError(f"X must have shape (n_samples, {n_components}); got {tuple(W.shape)}")
