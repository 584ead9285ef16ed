"""How well boundaries agree with those that people drew: precision, recall and F of matched pixels.

Protocol of the Berkeley benchmark (Martin, Fowlkes and Malik 2004; Arbelaez et al. 2011): a boundary map is cut at many
thresholds and thinned; its pixels are matched one to one with those of each annotator, no further apart than .0075 of
the picture's diagonal. A drawn pixel counts as right when it matches one of any annotator; recall is of the pixels of
all annotators together. The matching is the one of least cost, as in the official program: a pair costs its distance,
a pixel left alone a hundred times the largest distance, so as many as possible are matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import cKDTree
from skimage.morphology import thin

__all__ = ["BoundaryScores", "count_matches", "label_boundaries", "match_boundaries", "score_boundaries"]

TOLERANCE = 0.0075  # of the diagonal
ALONE = 100.0  # cost of a pixel without a partner, in the largest distances that a pair may have


class BoundaryScores(NamedTuple):
    """F at the best threshold for all pictures (ODS) and for each (OIS), and average precision (AP)."""

    ods: float
    ois: float
    ap: float
    threshold: float


def label_boundaries(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the pixels whose right or lower neighbour has another label, thinned to lines.

    Parameters
    ----------
    labels : ndarray of int [shape=(height, width)]

    Returns
    -------
    ndarray of bool [shape=(height, width)]
    """
    border = np.zeros(labels.shape, bool)
    border[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    border[:-1] |= labels[1:] != labels[:-1]
    return np.asarray(thin(border), bool)


def match_boundaries(
    found: NDArray[np.bool_], truth: NDArray[np.bool_], *, tolerance: float = TOLERANCE
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Match boundary pixels one to one, as many as possible and as near as possible.

    Parameters
    ----------
    found, truth : ndarray of bool [shape=(height, width)]
        Boundary pixels.
    tolerance : float, > 0, default=0.0075
        Pixels may be this share of the picture's diagonal apart.

    Returns
    -------
    found_matched, truth_matched : ndarray of bool [shape=(height, width)]
        The pixels that have a partner; as many in both.
    """
    radius = tolerance * np.hypot(*found.shape)
    ours, theirs = np.argwhere(found), np.argwhere(truth)
    matched = np.zeros(found.shape, bool), np.zeros(found.shape, bool)
    if not len(ours) or not len(theirs):
        return matched
    pairs = cKDTree(ours).query_ball_point(theirs, radius)
    counts = np.array([len(near) for near in pairs])
    near = counts > 0
    theirs, counts = theirs[near], counts[near]
    if not len(theirs):
        return matched
    rows = np.repeat(np.arange(len(theirs)), counts)
    columns = np.concatenate([np.asarray(found, np.int64) for found in pairs[near]])
    distances = np.hypot(*(theirs[rows] - ours[columns]).T)
    alone = np.arange(len(theirs))  # each has a column of its own, for being left alone
    graph = csr_array(
        (
            np.concatenate([distances + 1e-3, np.full(len(theirs), ALONE * radius)]),  # a stored 0 would mean no pair
            (np.concatenate([rows, alone]), np.concatenate([columns, len(ours) + alone])),
        ),
        shape=(len(theirs), len(ours) + len(theirs)),
    )
    matching_rows, partner = min_weight_full_bipartite_matching(graph)
    paired = partner < len(ours)
    matched[0][tuple(ours[partner[paired]].T)] = True
    matched[1][tuple(theirs[matching_rows[paired]].T)] = True
    return matched


def count_matches(
    boundary_map: NDArray[Any], truths: Sequence[NDArray[np.bool_]], thresholds: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Count what precision and recall of one picture are made of.

    Parameters
    ----------
    boundary_map : ndarray [shape=(height, width)]
        How strong the boundary at each pixel is.
    truths : sequence of ndarray of bool [shape=(height, width)]
        Boundary pixels, one map an annotator.
    thresholds : ndarray [shape=(n,)]
        A pixel is a boundary where the map is above the threshold.

    Returns
    -------
    ndarray of int64 [shape=(n, 4)]
        Annotators' pixels matched, annotators' pixels, found pixels matched, found pixels.
    """
    counts = np.zeros((len(thresholds), 4), np.int64)
    for row, threshold in zip(counts, thresholds, strict=True):
        found = np.asarray(thin(boundary_map > threshold), bool)
        right = np.zeros(found.shape, bool)
        for truth in truths:
            ours, theirs = match_boundaries(found, truth)
            right |= ours
            row[0] += theirs.sum()
            row[1] += truth.sum()
        row[2], row[3] = right.sum(), found.sum()
    return counts


def score_boundaries(counts: ArrayLike, thresholds: NDArray[np.float64]) -> BoundaryScores:
    """Score the counts of several pictures.

    Parameters
    ----------
    counts : array-like of int [shape=(n_pictures, n_thresholds, 4)]
        As from :func:`count_matches`.
    thresholds : ndarray [shape=(n_thresholds,)]

    Returns
    -------
    BoundaryScores
    """
    counts = np.asarray(counts, np.float64)
    precision, recall = _ratios(counts.sum(axis=0))
    f = _f_measure(precision, recall)
    best = int(f.argmax())
    # each picture at its own best threshold, the counts added
    each = np.stack([_f_measure(*_ratios(picture)) for picture in counts])
    chosen = counts[np.arange(len(counts)), each.argmax(axis=1)].sum(axis=0)
    order = np.unique(recall, return_index=True)[1]
    levels = np.linspace(0, 1, 101)
    curve = np.interp(levels, recall[order], precision[order], left=0, right=0)
    return BoundaryScores(
        float(f[best]), float(_f_measure(*_ratios(chosen[np.newaxis]))[0]), float(curve.sum() / 100), thresholds[best]
    )


def _ratios(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    precision = counts[:, 2] / np.maximum(counts[:, 3], 1)
    recall = counts[:, 0] / np.maximum(counts[:, 1], 1)
    return precision, recall


def _f_measure(precision: NDArray[np.float64], recall: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2 * precision * recall / np.maximum(precision + recall, 1e-12)
