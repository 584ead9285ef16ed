"""The linear classifier that evaluates features, and what it may do to them first."""

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
    r"""Return signed square roots of the coordinates in an orthonormal basis of the components.

    Components overlap, so distances between codes are not distances between the data. ``W (H H^T)^{1/2}`` has the
    latter (symmetric orthogonalisation: Löwdin 1950). The roots reduce the weight of large values (power normalisation:
    Perronnin et al. 2010). `gram` is ``H H^T``, or None if the features are coordinates of an orthonormal basis.
    """
    if gram is not None:
        values, vectors = np.linalg.eigh(np.asarray(gram, np.float64))
        features = features @ ((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
    return np.asarray(np.sign(features) * np.sqrt(np.abs(features)))


def fit_classifier(features: Array, y: Array, gram: Array | None = None, *, roots: bool = True) -> tuple[Any, float]:
    """Return a linear support vector machine fitted to features of unit norm, and its accuracy in cross-validation.

    Cross-validation chooses its cost, whether features are scaled, and (with `roots`) whether :func:`signed_roots` of
    them are taken. There is none, and the accuracy is NaN, if `y` is a matrix of 0 and 1 with one column for each word,
    or if a class has a single sample.
    """
    scaler = StandardScaler(with_mean=False)
    pipeline = make_pipeline("passthrough", Normalizer(), scaler, LinearSVC(C=COSTS[0], dual="auto"))
    if y.ndim > 1:
        wide = y.astype(np.int64)  # scikit-learn numbers the words in the dtype of y; 300 words would overflow bytes
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
