"""The base of estimators that describe data as codes times components."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf.exceptions import ParameterError

from .model_files import Saveable

__all__ = ["LinearModel", "check_code_matrix"]

Array = NDArray[Any]


class LinearModel(Saveable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of estimators that reconstruct non-negative data as ``codes @ components_``."""

    components_: Array

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Any:
        """Find the components of `X`, and return the estimator."""

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Return the reconstruction ``W @ H`` (n_samples, n_features) that belongs to the codes ``W`` given as `X`."""
        check_is_fitted(self)
        return np.asarray(check_code_matrix(X, len(self.components_)) @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_code_matrix(X: ArrayLike, n_components: int) -> Array:
    """Return codes as an array, or raise ParameterError if they do not have one column for each component."""
    W = np.asarray(X)
    if W.ndim != 2 or W.shape[1] != n_components:
        raise ParameterError(f"X must have shape (n_samples, {n_components}); got {W.shape}")
    return W
