"""Classes of samples that have several views: a linear machine of the views and their codes side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler, normalize
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from visionnmf import MultiviewNMF
from visionnmf.exceptions import ParameterError

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

COSTS = (0.1, 1.0, 10.0)  # of the support vector machine, chosen on training samples
WHOLE_COSTS = (1.0, 10.0, 100.0)  # of that of views and codes, whose rows have a norm of about 1
FOLDS = 3
RELATIVE_ROUNDING = 1e-5  # of a feature's largest value: a smaller deviation may be that of rounding in float32


class _Scaling(NamedTuple):
    """How views and codes become the features of a machine."""

    square_roots: bool  # of the values of the views, which reduce the weight of large ones
    equal_variance: bool  # of all features over the training samples


class ViewClassifier:
    """Linear support vector machine of views and codes side by side, which also takes samples that lack views.

    Each set of views that samples have has a machine of its own. It learns from these views of the training samples,
    and from codes that are found from these views alone. Views that are noise have no part. The machine of all views is
    learnt by :meth:`fit`, and each other one when it is first needed, which is why the training views are kept.
    Cross-validation with all views chooses the cost of errors, whether square roots of the views are taken, and whether
    features get an equal variance. There is none if a class has a single sample, or for marks of words.

    Parameters
    ----------
    model : MultiviewNMF
        A model that was fitted to a dict of views, such as that of :func:`load`.
    roots : bool, default=True
        Whether square roots of codes are taken, and may be taken of the views, which reduce the weight of large values.
        Counts of words, whose logarithms are taken before, need none.

    Attributes
    ----------
    classes_ : ndarray [shape=(n_classes,)]
    inner_ : float
        The accuracy in cross-validation on the training samples; NaN without one.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import MultiviewNMF
    >>> from visionnmf.apps.multiview import ViewClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> views = {"sounds": rng.random((60, 5)) + y[:, None], "images": rng.random((60, 8)) + y[:, None]}
    >>> model = MultiviewNMF(2, loss="frobenius", random_state=0).fit(views)
    >>> classifier = ViewClassifier(model).fit(views, y)
    >>> float((classifier.predict({"images": views["images"]}) == y).mean()) > 0.9  # the sounds are missing
    True
    """

    def __init__(self, model: MultiviewNMF, *, roots: bool = True) -> None:
        """Keep the fitted model, and whether square roots of codes and views may be taken."""
        self.model, self.roots = model, roots

    def fit(self, views: ViewArrays, y: Any) -> Self:
        """Learn from training samples, prepared as those of the model were.

        `views` are by name (n_samples, n_features), with NaN for what is missing if the model takes that. `y` holds the
        class of each sample (n_samples,), or marks for each of several words (n_samples, n_words).
        """
        y = np.asarray(y)
        y = y.astype(np.int64) if y.ndim > 1 else y  # scikit-learn numbers words in this type; bytes would overflow
        n_samples = len(next(iter(views.values())))
        if len(y) != n_samples:
            raise ParameterError(f"y must have a class for each of the {n_samples} samples; got {len(y)}")
        if y.ndim == 1 and len(np.unique(y)) < 2:
            raise ParameterError("y must have two classes or more; got one")
        check_is_fitted(self.model)
        self._views, self._y = dict(views), y
        # `own` are the views side by side, where the model has filled in what is missing.
        codes, own = self._codes_and_views(views)
        whole = tuple((self.model.view_weights_ > 0).tolist())  # all views but those of noise
        # What views are divided by, so that each has an energy of 1, as have the codes, whose rows get a norm of 1.
        self._view_size = float(np.sqrt((own.astype(np.float64) ** 2).sum(axis=1).mean() / sum(whole))) or 1.0
        self.inner_ = -1.0
        for flags in product((False, True) if self.roots else (False,), (False, True)):
            scaling = _Scaling(*flags)
            basis, features = self._features(codes, own, whole, scaling)
            # This C serves for several words a sample; for classes `_chosen` takes another one.
            machine = make_pipeline(LinearSVC(C=COSTS[0], dual="auto", random_state=0))
            found, accuracy = _chosen(machine, {"linearsvc__C": WHOLE_COSTS}, features, y)
            if not accuracy <= self.inner_:  # the first of the best; or NaN, without cross-validation
                # `found` is the search for C, or the SVM itself where there was none.
                self.inner_, self._scaling, self._best = accuracy, scaling, getattr(found, "best_estimator_", found)
                self._svms = {whole: (basis, self._best)}
            if np.isnan(accuracy):  # nothing to choose by: features as they are
                break
        self.classes_ = self._best.classes_
        return self

    def predict(self, views: ViewArrays) -> Array:
        """Return the classes of samples (n_samples,) from the views that they have; others are NaN or absent."""
        return self._judged("predict", views)

    def decision_function(self, views: ViewArrays) -> Array:
        """Return how much speaks for each class or word (n_samples, n_classes), or (n_samples,) for two classes."""
        return self._judged("decision_function", views)

    def _judged(self, method: str, views: ViewArrays) -> Array:
        """Return what a method, such as "predict", of the SVM for the views that a sample has says of each sample."""
        if not hasattr(self, "classes_"):
            raise NotFittedError("ViewClassifier must be fitted first; call fit")
        if not views:
            raise ParameterError("views must hold at least one view; got none")
        codes, own = self._codes_and_views(views)
        # Each set of views that count and that some sample has is a pattern.
        patterns, which = np.unique(self._there(views) & (self.model.view_weights_ > 0), axis=0, return_inverse=True)
        members = [np.flatnonzero(which.ravel() == p) for p in range(len(patterns))]
        found = []
        for pattern, rows in zip(patterns.tolist(), members, strict=True):
            basis, svm = self._svm_for(tuple(pattern))
            found.append(getattr(svm, method)(self._joined(codes[rows], own[rows], pattern, self._scaling) @ basis))
        return np.concatenate(found)[np.argsort(np.concatenate(members))]

    def _svm_for(self, pattern: tuple[bool, ...]) -> tuple[Array, Any]:
        """Return the SVM for samples that have the views that `pattern` marks, and the basis of its coordinates."""
        if pattern not in self._svms:
            there = self._there(self._views)
            seen = there & pattern
            # A training sample that has none of these views is coded from those that it has.
            seen = np.where(seen.any(axis=1, keepdims=True), seen, there)
            codes, own = self._codes_and_views(self._views, seen)
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
        columns = np.asarray(pattern)[self.model.view_groups_]  # `view_groups_` has the view of each feature
        # Roots reduce the weight of large values; the products of components make codes comparable. Counts need none.
        if self.roots:
            # `view_scales_` is what the model multiplies each view by, and `view_groups_` the view of each feature
            H = self.model.components_ * self.model.view_scales_[self.model.view_groups_]
            codes = signed_roots(codes, H @ H.T)
        given = own[:, columns] / self._view_size
        if scaling.square_roots and given.size:
            given = np.sqrt(np.float32(sum(pattern))) * normalize(signed_roots(given))
        return normalize(np.hstack([normalize(codes), given]))

    def _codes_and_views(self, views: ViewArrays, observed: Array | None = None) -> tuple[Array, Array]:
        """Return codes, and the views side by side in the scale of the model, with its prediction of missing ones."""
        model = self.model
        kept = self._there(views) if observed is None else observed
        codes = model.transform(dict(views), observed)
        own = codes @ model.components_  # the model's prediction, in the units of the data; given entries replace it
        for v, name in enumerate(model.views_):
            X = views.get(name)
            if X is not None:
                columns = model.view_groups_ == v
                own[:, columns] = np.where(kept[:, [v]] & ~np.isnan(X), X, own[:, columns])
        scales = model.view_scales_[model.view_groups_]
        return codes, own * scales.astype(own.dtype)

    def _there(self, views: ViewArrays) -> Array:
        """Return which samples have which view, as bool of shape (n_samples, n_views)."""
        n_samples = len(next(iter(views.values())))
        nothing = np.zeros(n_samples, bool)
        return np.column_stack(
            [~np.isnan(views[name]).all(axis=1) if name in views else nothing for name in self.model.views_]
        )


def signed_roots(features: Array, gram: Array | None = None) -> Array:
    """Return signed square roots of the coordinates in an orthonormal basis of the components.

    Distances between ``W (H H^T)^{1/2}`` are those between the data (Löwdin 1950); roots reduce the weight of large
    values (Perronnin et al. 2010). `gram` is ``H H^T``, or None if the features are such coordinates.
    """
    if gram is not None:
        values, vectors = np.linalg.eigh(np.asarray(gram, np.float64))
        features = features @ ((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
    return np.asarray(np.sign(features) * np.sqrt(np.abs(features)))


def fit_classifier(features: Array, y: Array, gram: Array | None = None, *, roots: bool = True) -> tuple[Any, float]:
    """Return a linear support vector machine fitted to features of unit norm, and its accuracy in cross-validation.

    That chooses its cost, whether features are scaled, and (with `roots`) whether :func:`signed_roots` are taken. There
    is none, and the accuracy is NaN, if `y` is a matrix of words, or if a class has a single sample.
    """
    # make_pipeline names a step by its class in lower case, and "passthrough" by that word
    scaler = StandardScaler(with_mean=False)
    pipeline = make_pipeline("passthrough", Normalizer(), scaler, LinearSVC(C=COSTS[0], dual="auto", random_state=0))
    turned = [FunctionTransformer(signed_roots, kw_args={"gram": gram})] if roots else []
    grid = {
        "passthrough": ["passthrough", *turned],
        "standardscaler": [scaler, "passthrough"],
        "linearsvc__C": COSTS,
    }
    return _chosen(pipeline, grid, features, y)


def _chosen(pipeline: Any, grid: dict[str, Any], features: Array, y: Array) -> tuple[Any, float]:
    """Return the pipeline with the best parameters of a grid, fitted, and its accuracy; see :func:`fit_classifier`."""
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
