"""Scores of clusterings against known classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from visionnmf.exceptions import ParameterError

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

    Raises
    ------
    ParameterError
        If the two are not of the same samples, or of none.

    Examples
    --------
    >>> from visionnmf.metrics import clustering_accuracy
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    table = contingency_matrix(*_labels(truth, found))
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

    Raises
    ------
    ParameterError
        If the two are not of the same samples, or of none.

    Examples
    --------
    >>> from visionnmf.metrics import clustering_information
    >>> round(clustering_information([0, 0, 1, 1], [1, 1, 0, 0]), 3)
    1.0
    """
    return float(normalized_mutual_info_score(*_labels(truth, found), average_method="max"))


def _labels(truth: ArrayLike, found: ArrayLike) -> tuple[Any, Any]:
    """Return the classes and the clusters of samples, or raise ParameterError if they are not one of each a sample."""
    classes, clusters = np.asarray(truth), np.asarray(found)
    if classes.ndim != 1 or classes.shape != clusters.shape or not classes.size:
        raise ParameterError(
            f"truth and found must be lists of the same samples; got shapes {classes.shape} and {clusters.shape}"
        )
    return classes, clusters
