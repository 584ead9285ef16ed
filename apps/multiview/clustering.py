"""Clusters of samples from the codes of several fits, without labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

__all__ = ["agreement", "consensus"]

Array = NDArray[Any]

MULTIPLES = (1.0, 2.0, 3.0)  # ranks of the fits, as multiples of the number of clusters
MOST_COMPONENTS = 60
STARTS = 10  # of k-means


def agreement(
    model: Any,
    train: Any,
    others: Any,
    n_clusters: int,
    *,
    multiples: Sequence[float] = MULTIPLES,
    n_fits: int = 8,
    random_state: int = 0,
) -> Array:
    """Return how often two samples are in one cluster, 0 to 1, as a matrix with the training samples first.

    `model` is fitted to the training samples alone, `n_fits` times with each rank. Each time the codes of all samples,
    scaled to unit norm, are clustered by k-means. `others` may be None.
    """
    total: Array | None = None
    ranks = [max(2, min(MOST_COMPONENTS, round(multiple * n_clusters))) for multiple in multiples]
    for rank in ranks:
        for seed in range(random_state, random_state + n_fits):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # many fits vote, so one may be unfinished
                fitted = clone(model).set_params(n_components=rank, random_state=seed).fit(train)
                codes = [fitted.transform(samples) for samples in (train, others) if samples is not None]
                unit = normalize(np.vstack(codes))
                labels = KMeans(n_clusters, n_init=STARTS, random_state=seed).fit_predict(unit)
            same = (labels[:, None] == labels).astype(np.float32)
            total = same if total is None else total + same
    assert total is not None
    return total / (len(ranks) * n_fits)


def consensus(affinity: Array, n_clusters: int) -> Array:
    """Return clusters of the matrix of :func:`agreement`, by average linkage (Monti et al. 2003)."""
    tree = linkage(squareform(1 - affinity, checks=False), "average")
    return np.asarray(cut_tree(tree, n_clusters)).ravel()
