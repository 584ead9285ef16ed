"""What all estimators with codes and components share: reconstruction, and the names of the codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf.exceptions import ParameterError

__all__ = ["LinearModel", "check_code_matrix"]

Array = NDArray[Any]


class LinearModel(ClassNamePrefixFeaturesOutMixin):
    """Mixin for estimators that reconstruct the data as ``codes @ components_``."""

    components_: Array

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Return the reconstruction ``W @ H`` that belongs to codes.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_components)]
            Codes ``W``.

        Returns
        -------
        ndarray [shape=(n_samples, n_features), >= 0]

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If `X` does not have one column for each component.
        """
        check_is_fitted(self)
        return np.asarray(check_code_matrix(X, len(self.components_)) @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def check_code_matrix(X: ArrayLike, n_components: int) -> Array:
    """Return codes as an array, or raise ParameterError if they do not have one column for each component."""
    W = np.asarray(X)
    if W.ndim != 2 or W.shape[1] != n_components:
        raise ParameterError(f"X must have shape (n_samples, {n_components}); got {W.shape}")
    return W
