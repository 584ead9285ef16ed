"""What estimators with codes and components share: the way back, and the names of the codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf.exceptions import ParameterError

__all__ = ["LinearModel"]

Array = NDArray[Any]


class LinearModel(ClassNamePrefixFeaturesOutMixin):
    """Mixin for estimators whose model of the data is ``codes @ components_``."""

    components_: Array

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Return the model ``W @ H`` of codes.

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
            Before `fit`.
        ValueError
            When `X` has another number of columns than there are components.
        """
        check_is_fitted(self)
        W = np.asarray(X)
        if W.ndim != 2 or W.shape[1] != len(self.components_):
            raise ParameterError(f"X must have shape (n_samples, {len(self.components_)}); got {W.shape}")
        return np.asarray(W @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
