"""How well boundaries agree with those that people drew, by the protocol of the Berkeley benchmark.

Boundary pixels are matched one to one with those of each annotator, no further apart than 0.0075 of the picture's
diagonal (Martin, Fowlkes and Malik 2004; Arbelaez et al. 2011). A found pixel is right if it matches one of any
annotator; recall is measured over the pixels of all annotators together. The matching is the one of least cost, as in
the official program: a pair costs its distance, and a pixel left alone costs a hundred times the largest distance, so
as many pixels as possible are matched.
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

TOLERANCE = 0.0075  # largest distance of matched boundary pixels, as a share of the diagonal
ALONE = 100.0  # cost of a pixel without a partner, in the largest distances that a pair may have


class BoundaryScores(NamedTuple):
    """F at the best scale for all pictures (ODS) and for each (OIS), and average precision."""

    ods: float
    ois: float
    ap: float


def label_boundaries(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the pixels whose right or lower neighbour has another label, thinned to lines."""
    border = np.zeros(labels.shape, bool)
    border[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    border[:-1] |= labels[1:] != labels[:-1]
    return np.asarray(thin(border), bool)


def match_boundaries(
    found: NDArray[np.bool_], truth: NDArray[np.bool_], *, tolerance: float = TOLERANCE
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Match the boundary pixels of two maps one to one, and return those of each that have a partner."""
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
    alone = np.arange(len(theirs))  # each pixel has a column of its own, for being left alone
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


def count_matches(found: NDArray[np.bool_], truths: Sequence[NDArray[np.bool_]]) -> list[int]:
    """Count what precision and recall of boundary pixels are made of.

    The counts are the annotators' pixels that are matched, all annotators' pixels, the found pixels that are matched,
    and all found pixels. `truths` has the boundary pixels of each annotator.
    """
    right = np.zeros(found.shape, bool)
    matched = 0
    for truth in truths:
        ours, theirs = match_boundaries(found, truth)
        right |= ours
        matched += int(theirs.sum())
    return [matched, sum(int(truth.sum()) for truth in truths), int(right.sum()), int(found.sum())]


def score_boundaries(counts: ArrayLike) -> BoundaryScores:
    """Score the counts of several pictures at several scales (n_pictures, n_scales, 4); see :func:`count_matches`."""
    counts = np.asarray(counts, np.float64)
    precision, recall = _ratios(counts.sum(axis=0))
    # for OIS each picture is counted at its own best scale
    each = np.stack([_f_measure(*_ratios(picture)) for picture in counts])
    chosen = counts[np.arange(len(counts)), each.argmax(axis=1)].sum(axis=0)
    order = np.unique(recall, return_index=True)[1]
    levels = np.linspace(0, 1, 101)
    curve = np.interp(levels, recall[order], precision[order], left=0, right=0)
    ois = _f_measure(*_ratios(chosen[np.newaxis]))
    return BoundaryScores(float(_f_measure(precision, recall).max()), float(ois[0]), float(curve.sum() / 100))


def _ratios(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return precision and recall."""
    return counts[:, 2] / np.maximum(counts[:, 3], 1), counts[:, 0] / np.maximum(counts[:, 1], 1)


def _f_measure(precision: NDArray[np.float64], recall: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2 * precision * recall / np.maximum(precision + recall, 1e-12)
