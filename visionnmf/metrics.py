"""Scores of clusterings against known classes."""

from __future__ import annotations

from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

__all__ = ["clustering_accuracy", "clustering_information"]


def clustering_accuracy(truth: ArrayLike, found: ArrayLike) -> float:
    """Return the share of samples in the cluster of their class, with clusters matched to classes as well as possible.

    The matching is one to one (Hungarian algorithm).

    Parameters
    ----------
    truth, found : array-like [shape=(n_samples,)]
        The class and the cluster of each sample.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from visionnmf.metrics import clustering_accuracy
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    table = contingency_matrix(truth, found)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / table.sum())


def clustering_information(truth: ArrayLike, found: ArrayLike) -> float:
    """Return the mutual information of classes and clusters over the larger of their entropies (Xu, Liu, Gong 2003).

    Parameters
    ----------
    truth, found : array-like [shape=(n_samples,)]
        The class and the cluster of each sample.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from visionnmf.metrics import clustering_information
    >>> round(clustering_information([0, 0, 1, 1], [1, 1, 0, 0]), 3)
    1.0
    """
    return float(normalized_mutual_info_score(truth, found, average_method="max"))
