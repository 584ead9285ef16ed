"""Groups of samples from the codes of several fits, without labels."""

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

MULTIPLES = (1.0, 2.0, 3.0)  # of the number of clusters: ranks of the fits
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
    """Return how often two samples are in one cluster.

    Fits are made of the training samples alone, with several ranks and seeds; each time the codes of all samples,
    scaled to unit norm, are clustered by k-means.

    Parameters
    ----------
    model : MultiviewNMF
    train, others : what `model` takes
        Samples; `others` may be None.
    n_clusters : int
    multiples : sequence of float
        Ranks, as multiples of `n_clusters`, 60 at most.
    n_fits : int, default=8
        With each rank.
    random_state : int, default=0

    Returns
    -------
    ndarray [shape=(n_samples, n_samples), 0 to 1]
        Training samples first.
    """
    total: Array | None = None
    ranks = [max(2, min(MOST_COMPONENTS, round(multiple * n_clusters))) for multiple in multiples]
    for rank in ranks:
        for seed in range(random_state, random_state + n_fits):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # one of several
                fitted = clone(model).set_params(n_components=rank, random_state=seed).fit(train)
                codes = [fitted.transform(samples) for samples in (train, others) if samples is not None]
                unit = normalize(np.vstack(codes))
                labels = KMeans(n_clusters, n_init=STARTS, random_state=seed).fit_predict(unit)
            same = (labels[:, None] == labels).astype(np.float32)
            total = same if total is None else total + same
    assert total is not None
    return total / (len(ranks) * n_fits)


def consensus(affinity: Array, n_clusters: int) -> Array:
    """Cluster by how often samples agree, by average linkage (Monti et al. 2003).

    Parameters
    ----------
    affinity : ndarray [shape=(n_samples, n_samples), 0 to 1]
        Of :func:`agreement`.
    n_clusters : int

    Returns
    -------
    ndarray of int [shape=(n_samples,)]
    """
    tree = linkage(squareform(1 - affinity, checks=False), "average")
    return np.asarray(cut_tree(tree, n_clusters)).ravel()
