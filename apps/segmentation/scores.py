"""How well segmentations and boundaries agree with those that people drew.

Label maps are compared by covering, the probabilistic Rand index and the variation of information, which need only the
contingency tables (Arbelaez, Maire, Fowlkes and Malik 2011, section 3.2; Unnikrishnan, Pantofaru and Hebert 2007; Meila
2005). Boundaries follow the protocol of the Berkeley benchmark: pixels are matched one to one with those of each
annotator, no further apart than 0.0075 of the picture's diagonal (Martin, Fowlkes and Malik 2004). A found pixel is
right if it matches one of any annotator; recall is measured over the pixels of all annotators together. The matching is
the one of least cost, as in the official program: a pair costs its distance, and a pixel left alone a hundred times the
largest distance, so as many pixels as possible are matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import cKDTree
from skimage.morphology import thin

from visionnmf.exceptions import ParameterError

from .hierarchy import neighbour_pairs

TOLERANCE = 0.0075  # largest distance of matched boundary pixels, as a share of the diagonal
ALONE = 100.0  # cost of a pixel without a partner, in the largest distances that a pair may have

COUNTS = ("matched_truth", "all_truth", "matched_found", "all_found")
"""The names of the numbers of :func:`count_matches`, as columns of a table."""


class SegmentationScores(NamedTuple):
    """Covering in (0, 1], probabilistic Rand index in [0, 1] and variation of information in bits of one label map.

    A plain grid has a Rand index of about 0.7, so that score must not be read alone.
    """

    pri: float
    voi: float
    covering: float


def contingency_table(labels: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
    """Count the pixels that two label maps share: rows are the labels of the first in ascending order."""
    labels, truth = np.asarray(labels), np.asarray(truth)
    if labels.shape != truth.shape or labels.size == 0:
        raise ParameterError(
            f"labels must have the shape of the truth and a pixel; got {labels.shape} and {truth.shape}"
        )
    (rows, n_rows), (columns, n_columns) = _places(labels), _places(truth)
    table = np.bincount(rows * n_columns + columns, minlength=n_rows * n_columns).reshape(n_rows, n_columns)
    # without rows and columns of labels that do not occur
    return table[table.any(axis=1)][:, table.any(axis=0)]


def _places(labels: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Return a number from 0 for each pixel's label, the same for equal labels, and how many numbers there are."""
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < 4096:
        return labels.ravel().astype(np.int64), int(labels.max()) + 1
    names, places = np.unique(labels, return_inverse=True)
    return places.ravel().astype(np.int64), len(names)


def score_segmentation(labels: NDArray[Any], annotations: Iterable[NDArray[Any]]) -> SegmentationScores:
    """Score a label map against the label maps of annotators, of the same shape."""
    tables = [contingency_table(labels, truth) for truth in annotations]
    if not tables:
        raise ParameterError("annotations must hold at least one label map; got none")
    return score_tables(tables)


def covering(labels: NDArray[Any], annotations: Iterable[NDArray[Any]]) -> float:
    """Measure how well the best regions of `labels` cover the annotators' regions; 1 is perfect.

    ``sum_g sum_{R in g} |R| max_{R' in labels} IoU(R, R') / sum_g N``, with IoU the intersection over union and N the
    number of pixels.
    """
    return score_segmentation(labels, annotations).covering


def score_tables(tables: Iterable[NDArray[Any]]) -> SegmentationScores:
    """Score a label map by its contingency tables, one for each annotator, over whom the last two scores are means."""
    tables = list(tables)
    covered = 0.0
    for table in tables:
        union = table.sum(axis=1)[:, None] + table.sum(axis=0)[None, :] - table
        covered += float(table.sum(axis=0) @ np.asarray((table / union).max(axis=0), np.float64))
    return SegmentationScores(
        pri=float(np.mean([_rand_index(table) for table in tables])),
        # H(S) + H(G) - 2 I(S; G) = 2 H(S, G) - H(S) - H(G); rounding may leave -1e-16
        voi=float(
            np.mean([max(0.0, 2 * _entropy(t) - _entropy(t.sum(axis=1)) - _entropy(t.sum(axis=0))) for t in tables])
        ),
        covering=covered / sum(int(table.sum()) for table in tables),
    )


def _rand_index(table: NDArray[Any]) -> float:
    """Return the share of the pairs of pixels that both maps join or both part, from their contingency table."""
    total = _pairs(np.array([table.sum()]))
    if total == 0:
        return 1.0
    # pairs that one of the maps joins and the other parts
    apart = _pairs(table.sum(axis=1)) + _pairs(table.sum(axis=0)) - 2 * _pairs(table)
    return 1.0 - apart / total


def _pairs(counts: NDArray[Any]) -> float:
    """Return the number of unordered pairs of pixels that lie in the same cell, given the pixels of each cell."""
    counts = counts.astype(np.float64)  # the squares of large images do not fit into int64
    return float((counts * (counts - 1)).sum() / 2)


def _entropy(counts: NDArray[Any]) -> float:
    """Return the entropy in bits of the distribution that the counts, of any shape, describe."""
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum())


# --- boundaries -------------------------------------------------------------------------------------------------------


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
    """Count the boundary pixels from which precision and recall follow, in the order of COUNTS."""
    right = np.zeros(found.shape, bool)
    matched = 0
    for truth in truths:
        ours, theirs = match_boundaries(found, truth)
        right |= ours
        matched += int(theirs.sum())
    return [matched, sum(int(truth.sum()) for truth in truths), int(right.sum()), int(found.sum())]


def score_boundaries(counts: ArrayLike) -> BoundaryScores:
    """Score the counts of several pictures at several scales (n_pictures, n_scales, 4), in the order of COUNTS."""
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
