"""The linear classifier that judges features, with what it may do to them before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

__all__ = ["fit_classifier", "signed_roots"]

Array = NDArray[Any]

COSTS = (0.1, 1.0, 10.0)  # of the support vector machine, chosen on training samples
FOLDS = 3


def signed_roots(features: Array, gram: Array | None = None) -> Array:
    r"""Return square roots, with the sign, of coordinates in an orthonormal basis of the components.

    Components overlap, so distances of codes are not those of the data; ``W (H H^T)^{1/2}`` has them (symmetric
    orthogonalisation: Löwdin 1950). The roots even large values out (power normalisation: Perronnin et al. 2010).

    Parameters
    ----------
    features : ndarray [shape=(n_samples, n_features)]
    gram : ndarray [shape=(n_features, n_features)] or None, default=None
        ``H H^T``; None where features are coordinates of an orthonormal basis.

    Returns
    -------
    ndarray [shape=(n_samples, n_features)]
    """
    if gram is not None:
        values, vectors = np.linalg.eigh(np.asarray(gram, np.float64))
        features = features @ ((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
    return np.asarray(np.sign(features) * np.sqrt(np.abs(features)))


def fit_classifier(features: Array, y: Array, gram: Array | None = None, *, roots: bool = True) -> tuple[Any, float]:
    """Fit a linear support vector machine to features of unit norm.

    Its cost, whether features are scaled, and whether :func:`signed_roots` of them are taken, are chosen by
    cross-validation; not for words, and not for classes of one sample.

    Parameters
    ----------
    features : ndarray [shape=(n_samples, n_features)]
    y : ndarray [shape=(n_samples,)] or of 0 and 1 [shape=(n_samples, n_words)]
    gram : ndarray [shape=(n_features, n_features)] or None, default=None
        See :func:`signed_roots`.
    roots : bool, default=True
        Whether those are an alternative.

    Returns
    -------
    classifier : estimator
        Fitted.
    score : float
        Accuracy in cross-validation on these samples; NaN without one.
    """
    scaler = StandardScaler(with_mean=False)
    pipeline = make_pipeline("passthrough", Normalizer(), scaler, LinearSVC(C=COSTS[0], dual="auto"))
    if y.ndim > 1:
        wide = y.astype(np.int64)  # scikit-learn numbers words in the type of y: of 300 in bytes 44 would be mixed up
        return OneVsRestClassifier(pipeline).fit(features, wide), float("nan")
    folds = min(FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    if folds < 2:
        return pipeline.set_params(linearsvc__C=1.0).fit(features, y), float("nan")
    turned = [FunctionTransformer(signed_roots, kw_args={"gram": gram})] if roots else []
    grid = {
        "passthrough": ["passthrough", *turned],
        "standardscaler": [scaler, "passthrough"],
        "linearsvc__C": COSTS,
    }
    search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(folds, shuffle=True, random_state=0))
    search.fit(features, y)
    return search, float(search.best_score_)
