"""How well segmentations agree with those that people drew.

Label maps are compared by covering, the probabilistic Rand index and the variation of information, which need only the
contingency tables (Arbelaez, Maire, Fowlkes and Malik 2011, section 3.2; Unnikrishnan, Pantofaru and Hebert 2007; Meila
2005).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError


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
