"""Classes of samples that have several views: a linear machine of the views and their codes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from visionnmf._checks import check_flag, check_labels, shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from .estimator import MultiviewNMF
from .missing_views import fill_entries
from .views import count_samples, new_views

COSTS = (1.0, 10.0, 100.0)  # of the support vector machine, for features whose rows have a norm of about 1
FOLDS = 3
RELATIVE_ROUNDING = 1e-5  # of a feature's largest value: a smaller deviation may be that of rounding in float32


class _Scaling(NamedTuple):
    """How views and codes become the features of a machine."""

    square_roots: bool  # of the values of the views, which reduce the weight of large ones
    equal_variance: bool  # of all features over the training samples


@dataclass(eq=False, repr=False)
class ViewClassifier(ClassifierMixin, BaseEstimator):
    """Linear support vector machine of views and codes side by side, which also takes samples that lack views.

    Each set of views that samples have has a machine of its own. It learns from these views of the training samples,
    and from codes that are found from these views alone. Views that are noise have no part. The machine of all views is
    learnt by :meth:`fit`, and each other one when it is first needed, which is why the training views are kept.
    Cross-validation with all views chooses the cost of errors, whether square roots of the views are taken, and whether
    features get an equal variance. There is none if a class has a single sample, or for marks of words.

    Parameters
    ----------
    model : MultiviewNMF, FrozenEstimator or None, default=None
        The model of the views, which `fit` clones and fits; None takes ``MultiviewNMF(random_state=0)``. One that was
        fitted before, perhaps to more samples than have a class, comes as ``sklearn.frozen.FrozenEstimator(model)``.
    roots : bool, default=True
        Whether square roots of codes are taken, and may be taken of the views, which reduce the weight of large values.
        Counts of words, whose logarithms are taken before, need none.

    Attributes
    ----------
    model_ : MultiviewNMF
        The fitted model.
    classes_ : ndarray [shape=(n_classes,)]
        The classes, or the numbers of the words.
    best_score_ : float
        The accuracy in cross-validation of the best settings, which it chose, so it is optimistic; NaN without one.
    n_features_in_, feature_names_in_
        As for :class:`MultiviewNMF`.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import MultiviewNMF, ViewClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> views = {"sounds": rng.random((60, 5)) + y[:, None], "images": rng.random((60, 8)) + y[:, None]}
    >>> classifier = ViewClassifier(MultiviewNMF(2, loss="frobenius", random_state=0)).fit(views, y)
    >>> float((classifier.predict({"images": views["images"]}) == y).mean()) > 0.9  # the sounds are missing
    True
    """

    model: Any = None
    _: KW_ONLY
    roots: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(MultiviewNMF() if self.model is None else self.model).input_tags
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the model to the views, and learn the classes.

        Parameters
        ----------
        X : list or dict of array-like [shape=(n_samples, n_features of the view), >= 0], or one matrix
            The views, as :meth:`MultiviewNMF.fit` takes them in memory.
        y : array-like [shape=(n_samples,) or (n_samples, n_words)]
            The class of each sample, or 1 for each word that it has and 0 for others.

        Raises
        ------
        ValueError
            If there are fewer than two classes, if `X` and `y` differ in their number of samples, or as for
            :meth:`MultiviewNMF.fit`.
        """
        check_flag(self.roots, "roots")
        y = _checked_targets(y, count_samples(X))
        self.model_ = model = _fitted_model(self.model, X)
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        self._X, self._y = X, y
        codes, own, _ = self._codes_and_views(X)
        whole = tuple((model.view_weights_ > 0).tolist())  # all views but those of noise
        # What views are divided by, so that each has an energy of 1, as have the codes, whose rows get a norm of 1.
        self._view_size = float(np.sqrt((own.astype(np.float64) ** 2).sum(axis=1).mean() / sum(whole))) or 1.0
        self.best_score_ = -1.0
        for flags in product((False, True) if self.roots else (False,), (False, True)):
            scaling = _Scaling(*flags)
            basis, features = self._features(codes, own, whole, scaling)
            # This C serves for several words a sample; for classes `chosen_machine` takes another one. The dual
            # problem, which "auto" takes for few samples, needs up to 15,000 iterations, the primal one 100.
            machine = make_pipeline(LinearSVC(C=0.1, dual=False, random_state=0))
            found, accuracy = chosen_machine(machine, {"linearsvc__C": COSTS}, features, y)
            if not accuracy <= self.best_score_:  # the first of the best; or NaN, without cross-validation
                # `found` is the search for C, or the SVM itself where there was none.
                self.best_score_, self._scaling = accuracy, scaling
                self._best = getattr(found, "best_estimator_", found)
                self._svms = {whole: (basis, self._best)}
            if np.isnan(accuracy):  # nothing to choose by: features as they are
                break
        self.classes_ = self._best.classes_
        return self

    def predict(self, X: Any) -> Array:
        """Return the classes of samples (n_samples,) from the views that they have; others are None, NaN or absent."""
        return self._judged("predict", X)

    def decision_function(self, X: Any) -> Array:
        """Return how much speaks for each class or word (n_samples, n_classes), or (n_samples,) for two classes."""
        return self._judged("decision_function", X)

    def _judged(self, method: str, X: Any) -> Array:
        """Return what a method, such as "predict", of the SVM for the views that a sample has says of each sample."""
        check_is_fitted(self)
        codes, own, there = self._codes_and_views(X)
        # Each set of views that count and that some sample has is a pattern.
        patterns, which = np.unique(there & (self.model_.view_weights_ > 0), axis=0, return_inverse=True)
        members = [np.flatnonzero(which.ravel() == p) for p in range(len(patterns))]
        found = []
        for pattern, rows in zip(patterns.tolist(), members, strict=True):
            basis, svm = self._svm_for(tuple(pattern))
            found.append(getattr(svm, method)(self._joined(codes[rows], own[rows], pattern, self._scaling) @ basis))
        return np.concatenate(found)[np.argsort(np.concatenate(members))]

    def _svm_for(self, pattern: tuple[bool, ...]) -> tuple[Array, Any]:
        """Return the SVM for samples that have the views that `pattern` marks, and the basis of its coordinates."""
        if pattern not in self._svms:
            there = new_views(self.model_, self._X).observed()
            seen = there & pattern
            # A training sample that has none of these views is coded from those that it has.
            seen = np.where(seen.any(axis=1, keepdims=True), seen, there)
            codes, own, _ = self._codes_and_views(self._X, seen)
            basis, features = self._features(codes, own, pattern, self._scaling)
            self._svms[pattern] = basis, clone(self._best).fit(features, self._y)
        return self._svms[pattern]

    def _features(self, codes: Array, own: Array, pattern: Sequence[bool], scaling: _Scaling) -> tuple[Array, Array]:
        """Return a basis (n_features, at most n_samples) and the coordinates of the training samples in it."""
        features = self._joined(codes, own, pattern, scaling)
        scales = np.ones(features.shape[1], features.dtype)
        if scaling.equal_variance:
            deviations = features.std(axis=0)
            varies = deviations > RELATIVE_ROUNDING * np.abs(features).max(axis=0)
            if varies.any():
                np.divide(len(scales) ** -0.5, deviations, out=scales, where=varies)
                scales[~varies] = 0  # these distinguish no samples
        basis = scales[:, None] * _row_basis(features * scales)
        return basis, features @ basis

    def _joined(self, codes: Array, own: Array, pattern: Sequence[bool], scaling: _Scaling) -> Array:
        """Return codes and the views that `pattern` marks side by side, of unit norm."""
        columns = np.asarray(pattern)[self.model_.view_groups_]  # `view_groups_` has the view of each feature
        # Roots reduce the weight of large values; the products of components make codes comparable. Counts need none.
        if self.roots:
            H = self.model_.components_ * self.model_.view_scales_[self.model_.view_groups_]
            codes = signed_roots(codes, H @ H.T)
        given = own[:, columns] / self._view_size
        if scaling.square_roots and given.size:
            given = np.sqrt(np.float32(sum(pattern))) * normalize(signed_roots(given))
        return normalize(np.hstack([normalize(codes), given]))

    def _codes_and_views(self, X: Any, observed: Array | None = None) -> tuple[Array, Array, Array]:
        """Return codes, the views side by side in the scale of the model, missing ones predicted, and what is there."""
        model, views = self.model_, new_views(self.model_, X, observed)
        codes = np.asarray(model.transform(X, observed))  # an array, whatever `set_output` says
        own = fill_entries(views, codes, model.components_)
        return codes, own * model.view_scales_[model.view_groups_].astype(own.dtype), views.observed()


def _fitted_model(given: Any, X: Any) -> MultiviewNMF:
    """Return a model that was fitted to views `X`, or before, from the parameter `model` of a classifier."""
    frozen = isinstance(given, FrozenEstimator)
    model = given.estimator if frozen else MultiviewNMF(random_state=0) if given is None else given
    if not isinstance(model, MultiviewNMF):
        raise ParameterError(f"model must be a MultiviewNMF; got {shown(model)}")
    if not frozen:
        return clone(model).fit(X)
    check_is_fitted(model)
    return model


def _checked_targets(y: Any, n_samples: int) -> Array:
    """Return classes (n_samples,) or marks of words (n_samples, n_words); raise ValueError for other targets."""
    check_labels(y, n_samples, "sample")
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    if type_of_target(y) == "multilabel-indicator":
        # scikit-learn numbers words in this type; bytes would overflow
        return np.asarray(y.toarray() if sp.issparse(y) else y).astype(np.int64)
    y = column_or_1d(y, warn=True)
    if len(np.unique(y)) < 2:
        raise ParameterError("y must have two classes or more; got one class")
    return y


def signed_roots(features: Array, gram: Array | None = None) -> Array:
    """Return signed square roots of the coordinates in an orthonormal basis of the components.

    Distances between ``W (H H^T)^{1/2}`` are those between the data (Löwdin 1950); roots reduce the weight of large
    values (Perronnin et al. 2010). `gram` is ``H H^T``, or None if the features are such coordinates.
    """
    if gram is not None:
        values, vectors = np.linalg.eigh(np.asarray(gram, np.float64))
        features = features @ ((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
    return np.asarray(np.sign(features) * np.sqrt(np.abs(features)))


def chosen_machine(pipeline: Any, grid: dict[str, Any], features: Array, y: Array) -> tuple[Any, float]:
    """Return the pipeline with the best parameters of a grid, fitted, and its accuracy in cross-validation.

    There is none, and the accuracy is NaN, if `y` is a matrix of words, or if a class has a single sample.
    """
    if y.ndim > 1:
        wide = y.astype(np.int64)  # scikit-learn numbers the words in the dtype of y; 300 words would overflow bytes
        return OneVsRestClassifier(pipeline).fit(features, wide), float("nan")
    folds = min(FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    if folds < 2:
        return pipeline.set_params(linearsvc__C=1.0).fit(features, y), float("nan")
    search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(folds, shuffle=True, random_state=0))
    search.fit(features, y)
    return search, float(search.best_score_)


def _row_basis(features: Array) -> Array:
    """Return an orthonormal basis (n_features, at most n_samples) of what samples differ in."""
    if features.shape[1] <= len(features):
        return np.eye(features.shape[1], dtype=features.dtype)
    values, vectors = np.linalg.eigh(features.astype(np.float64) @ features.T)
    # ascending eigenvalues; what is small beside the largest is rounding
    kept = values > np.finfo(np.float32).eps * values[-1]
    return np.asarray(features.T @ (vectors[:, kept] / np.sqrt(values[kept])), features.dtype)
