"""How well a segmentation agrees with those that people drew: by its regions, and by its boundaries.

Regions are compared with the label maps of several annotators by covering, the probabilistic Rand index and the
variation of information, which need only the contingency tables (Arbelaez, Maire, Fowlkes and Malik 2011, "Contour
detection and hierarchical image segmentation", section 3.2; Unnikrishnan, Pantofaru and Hebert 2007; Meila 2005).

Boundaries are compared by the protocol of the Berkeley benchmark (Martin, Fowlkes and Malik 2004; Arbelaez et al.
2011): boundary pixels are matched one to one with those of each annotator, no further apart than 0.0075 of the
picture's diagonal. A found pixel is right if it matches one of any annotator; recall is measured over the pixels of all
annotators together. The matching is the one of least cost, as in the official program: a pair costs its distance, and a
pixel left alone costs a hundred times the largest distance, so as many pixels as possible are matched.
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

__all__ = [
    "BoundaryScores",
    "SegmentationScores",
    "contingency_table",
    "count_matches",
    "covering",
    "label_boundaries",
    "match_boundaries",
    "score_boundaries",
    "score_segmentation",
    "score_tables",
]

TOLERANCE = 0.0075  # largest distance of matched boundary pixels, as a share of the diagonal
ALONE = 100.0  # cost of a pixel without a partner, in the largest distances that a pair may have


class SegmentationScores(NamedTuple):
    """Covering in (0, 1], probabilistic Rand index in [0, 1] and variation of information in bits of one label map.

    A plain grid has a Rand index of about 0.7, so that score must not be read alone.
    """

    pri: float
    voi: float
    covering: float


class BoundaryScores(NamedTuple):
    """F at the best threshold for all pictures (ODS) and for each (OIS), average precision, and the ODS threshold."""

    ods: float
    ois: float
    ap: float
    threshold: float


# --- regions ----------------------------------------------------------------------------------------------------------


def contingency_table(labels: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
    """Count the pixels that two label maps share: rows are the labels of the first in ascending order.

    The values are names only, so gaps and negative values are allowed. Raises ParameterError if the shapes differ or
    there is no pixel.
    """
    labels, truth = np.asarray(labels), np.asarray(truth)
    if labels.shape != truth.shape or labels.size == 0:
        raise ParameterError(
            f"labels must have the shape of the truth and a pixel; got {labels.shape} and {truth.shape}"
        )
    (rows, n_rows), (columns, n_columns) = _places(labels), _places(truth)
    table = np.bincount(rows * n_columns + columns, minlength=n_rows * n_columns).reshape(n_rows, n_columns)
    return table[table.any(axis=1)][:, table.any(axis=0)]


def _places(labels: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Return the place of each pixel among the labels; small labels may leave gaps, which saves sorting all pixels."""
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
    """Score contingency tables, one for each annotator; the Rand index and the variation are means over them."""
    tables = list(tables)
    covered = sum(float(table.sum(axis=0) @ _best_overlaps(table)) for table in tables)
    return SegmentationScores(
        pri=float(np.mean([_rand_index(table) for table in tables])),
        voi=float(np.mean([_variation(table) for table in tables])),
        covering=covered / sum(int(table.sum()) for table in tables),
    )


def _best_overlaps(table: NDArray[Any]) -> NDArray[np.float64]:
    """Return the intersection over union of each true region with the label that fits it best."""
    union = table.sum(axis=1)[:, None] + table.sum(axis=0)[None, :] - table
    return np.asarray((table / union).max(axis=0), np.float64)


def _rand_index(table: NDArray[Any]) -> float:
    """Return the share of the pairs of pixels that both maps join or both part."""
    total = _pairs(np.array([table.sum()]))
    if total == 0:
        return 1.0
    apart = _pairs(table.sum(axis=1)) + _pairs(table.sum(axis=0)) - 2 * _pairs(table)
    return 1.0 - apart / total


def _pairs(counts: NDArray[Any]) -> float:
    counts = counts.astype(np.float64)  # the squares of large images do not fit into int64
    return float((counts * (counts - 1)).sum() / 2)


def _variation(table: NDArray[Any]) -> float:
    """Return H(S) + H(G) - 2 I(S; G) = 2 H(S, G) - H(S) - H(G); rounding may leave -1e-16."""
    return max(0.0, 2 * _entropy(table) - _entropy(table.sum(axis=1)) - _entropy(table.sum(axis=0)))


def _entropy(counts: NDArray[Any]) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum())


# --- boundaries -------------------------------------------------------------------------------------------------------


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


def count_matches(
    boundary_map: NDArray[Any], truths: Sequence[NDArray[np.bool_]], thresholds: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Count, for each threshold on a map of boundary strengths, what precision and recall are made of.

    The four columns are the annotators' pixels that are matched, all annotators' pixels, the found pixels that are
    matched, and all found pixels. `truths` has one map of boundary pixels for each annotator.
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
    """Score the counts of several pictures (n_pictures, n_thresholds, 4), as :func:`count_matches` returns them."""
    counts = np.asarray(counts, np.float64)
    precision, recall = _ratios(counts.sum(axis=0))
    f = _f_measure(precision, recall)
    best = int(f.argmax())
    # for OIS each picture is counted at its own best threshold
    each = np.stack([_f_measure(*_ratios(picture)) for picture in counts])
    chosen = counts[np.arange(len(counts)), each.argmax(axis=1)].sum(axis=0)
    order = np.unique(recall, return_index=True)[1]
    levels = np.linspace(0, 1, 101)
    curve = np.interp(levels, recall[order], precision[order], left=0, right=0)
    return BoundaryScores(
        float(f[best]), float(_f_measure(*_ratios(chosen[np.newaxis]))[0]), float(curve.sum() / 100), thresholds[best]
    )


def _ratios(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return precision and recall."""
    return counts[:, 2] / np.maximum(counts[:, 3], 1), counts[:, 0] / np.maximum(counts[:, 1], 1)


def _f_measure(precision: NDArray[np.float64], recall: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2 * precision * recall / np.maximum(precision + recall, 1e-12)
