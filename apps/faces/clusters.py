"""Clusters of faces by their codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from visionnmf import NMF, choices
from visionnmf._checks import RandomState, check_choice, check_count, check_seed

from .classifiers import whitening

__all__ = ["cluster_faces"]

Array = NDArray[Any]

STARTS = 10  # of k-means
WHITENING = 1.0  # chosen on splits 0 and 1 of ORL and Extended Yale B; docs/decisions/faces.md has figures


def cluster_faces(
    X: ArrayLike,
    n_clusters: int,
    *,
    model: Any = None,
    by: str = choices.FACE_CLUSTERING_DEFAULT,
    mask: ArrayLike | None = None,
    random_state: RandomState = 0,
) -> NDArray[np.intp]:
    """Group images by the codes of a model.

    Parameters
    ----------
    X : array-like [shape=(n_samples, n_pixels), >= 0]
        Images as rows.
    n_clusters : int
        Number of groups.
    model : estimator or None, default=None
        With ``fit_transform`` and ``components_``; None is the Manhattan loss with ``nuclear=1`` and, by "k-means",
        up to 100 components, else as many as clusters.
    by : {"k-means", "largest"}, default="k-means"
        K-means on the codes, whitened (with their mean power added to each direction's) and scaled to unit norm, or
        the component with the largest code.
    mask : array-like of bool [shape=(n_samples, n_pixels)], optional
        Missing pixels, which do not count; for models that take ``weights``.
    random_state : int, RandomState, Generator or None, default=0
        Of the default model and of k-means.

    Returns
    -------
    ndarray of int [shape=(n_samples,)]
        Groups from 0.

    Raises
    ------
    ParameterError
        When there is no such way, or there are more groups than images.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import cluster_faces
    >>> people = np.repeat(np.random.default_rng(0).random((2, 30)), 4, axis=0)
    >>> labels = cluster_faces(people, 2, random_state=0)
    >>> len(set(labels[:4])), len(set(labels))
    (1, 2)
    """
    data = np.asarray(X)
    check_choice(by, "by", choices.FACE_CLUSTERINGS)
    n_clusters = check_count(n_clusters, "n_clusters", 1, len(data))
    seed = check_seed(random_state)
    if model is None:
        n_components = n_clusters if by == "largest" else min(100, *data.shape)
        model = NMF(n_components, nuclear=1.0 if by == "k-means" else 0.0, max_iter=100, tol=0, random_state=seed)
    fitted = clone(model)
    known = {} if mask is None or not np.any(mask) else {"weights": ~np.asarray(mask, bool)}
    codes = fitted.fit_transform(data, **known) * np.linalg.norm(fitted.components_, axis=1)
    if by == "largest":
        return np.asarray(codes.argmax(axis=1))
    means = KMeans(n_clusters, n_init=STARTS, random_state=seed)
    return np.asarray(means.fit_predict(normalize(codes @ whitening(codes, WHITENING))))
