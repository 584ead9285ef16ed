"""How well boundaries agree with those that people drew, by the protocol of the Berkeley benchmark.

Pixels are matched one to one with those of each annotator, no further apart than 0.0075 of the picture's diagonal
(Martin, Fowlkes and Malik 2004). A found pixel is right if it matches one of any annotator; recall is measured over the
pixels of all annotators together. The matching is the one of least cost, as in the official program: a pair costs its
distance, and a pixel left alone a hundred times the largest distance, so as many pixels as possible are matched.
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

from visionnmf.apps.segmentation.hierarchy import neighbour_pairs

TOLERANCE = 0.0075  # largest distance of matched boundary pixels, as a share of the diagonal
ALONE = 100.0  # cost of a pixel without a partner, in the largest distances that a pair may have


class BoundaryScores(NamedTuple):
    """How well boundaries agree with those of people."""

    ods: float  # F, the harmonic mean of precision and recall, at the scale that is best for all pictures
    ois: float  # F with the best scale of each picture
    ap: float  # the average precision
    precision: float  # at the scale of `ods`, as the recall is
    recall: float


def label_boundaries(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the pixels whose right or lower neighbour has another label, thinned to lines."""
    border = np.zeros(labels.shape, bool)
    for (marked, _), (label, neighbour) in zip(neighbour_pairs(border), neighbour_pairs(labels), strict=True):
        marked |= label != neighbour
    return np.asarray(thin(border), bool)


def match_boundaries(
    found: NDArray[np.bool_], truth: NDArray[np.bool_], *, tolerance: float = TOLERANCE
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Match the boundary pixels of two maps (height, width) one to one; return those of each that have a partner."""
    radius = tolerance * np.hypot(*found.shape)  # the largest distance of partners, in pixels
    ours, theirs = np.argwhere(found), np.argwhere(truth)
    matched = np.zeros(found.shape, bool), np.zeros(found.shape, bool)
    if not len(ours) or not len(theirs):
        return matched
    pairs = cKDTree(ours).query_ball_point(theirs, radius)  # for each true pixel, the found ones near it
    counts = np.array([len(near) for near in pairs])
    near = counts > 0
    theirs, counts = theirs[near], counts[near]  # true pixels without a possible partner are left out
    if not len(theirs):
        return matched
    rows = np.repeat(np.arange(len(theirs)), counts)
    columns = np.concatenate([np.asarray(found, np.int64) for found in pairs[near]])
    distances = np.hypot(*(theirs[rows] - ours[columns]).T)
    alone = np.arange(len(theirs))  # each pixel has a column of its own, for being left alone
    graph = csr_array(
        (
            np.concatenate([distances + 1e-3, np.full(len(theirs), ALONE * radius)]),  # a stored 0 would mean no pair
            (np.concatenate([rows, alone]), np.concatenate([columns, len(ours) + alone])),
        ),
        shape=(len(theirs), len(ours) + len(theirs)),
    )
    matching_rows, partner = min_weight_full_bipartite_matching(graph)
    paired = partner < len(ours)  # the columns after those of the found pixels mean that a pixel is alone
    matched[0][tuple(ours[partner[paired]].T)] = True
    matched[1][tuple(theirs[matching_rows[paired]].T)] = True
    return matched


def count_matches(found: NDArray[np.bool_], truths: Sequence[NDArray[np.bool_]]) -> list[int]:
    """Count the boundary pixels that match and all: those of the annotators, then those that were found."""
    right = np.zeros(found.shape, bool)
    matched = 0
    for truth in truths:
        ours, theirs = match_boundaries(found, truth)
        right |= ours
        matched += int(theirs.sum())
    return [matched, sum(int(truth.sum()) for truth in truths), int(right.sum()), int(found.sum())]


def score_boundaries(counts: ArrayLike) -> BoundaryScores:
    """Score what `count_matches` returns for several pictures at several scales (n_pictures, n_scales, 4)."""
    counts = np.asarray(counts, np.float64)
    precision, recall, f = _precision_recall_f(counts.sum(axis=0))  # of all together: long boundaries count more
    best = int(f.argmax())
    # for OIS the pixels of each picture are counted at the picture's own best scale
    best_of_each = np.array([_precision_recall_f(picture)[2].argmax() for picture in counts])
    ois = _precision_recall_f(counts[np.arange(len(counts)), best_of_each].sum(axis=0))[2]
    # the average precision: the mean height of the curve over 101 values of recall from 0 to 1
    order = np.unique(recall, return_index=True)[1]  # ascending, and each value once, for the interpolation
    curve = np.interp(np.linspace(0, 1, 101), recall[order], precision[order], left=0, right=0)
    return BoundaryScores(*map(float, (f[best], ois, curve.sum() / 100, precision[best], recall[best])))


def _precision_recall_f(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return precision, recall and F, (3, ...), of counts of boundary pixels (..., 4)."""
    precision = counts[..., 2] / np.maximum(counts[..., 3], 1)
    recall = counts[..., 0] / np.maximum(counts[..., 1], 1)
    return np.stack([precision, recall, 2 * precision * recall / np.maximum(precision + recall, 1e-12)])
