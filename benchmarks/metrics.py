"""How well a segmentation agrees with people's: covering, probabilistic Rand index, variation of information.

All three compare one label map with the label maps of several annotators, and need only the contingency table of the
two maps. Definitions: Arbelaez, Maire, Fowlkes and Malik (2011), "Contour detection and hierarchical image
segmentation", section 3.2; Unnikrishnan, Pantofaru and Hebert (2007) for the Rand index; Meila (2005) for the
variation of information.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

__all__ = [
    "SegmentationScores",
    "contingency_table",
    "covering",
    "probabilistic_rand_index",
    "score_segmentation",
    "variation_of_information",
]


class SegmentationScores(NamedTuple):
    """The three scores of one label map against its annotators."""

    pri: float
    voi: float
    covering: float


def contingency_table(labels: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Count the pixels that two label maps share.

    Parameters
    ----------
    labels, truth : ndarray of int, same shape
        Two label maps. The values are names only: gaps and negative values are allowed.

    Returns
    -------
    ndarray of int64, shape (n_labels, n_truth)
        Pixels with the row's label in `labels` and the column's in `truth`, labels in ascending order.

    Raises
    ------
    ValueError
        The shapes differ, or there is no pixel.
    """
    labels, truth = np.asarray(labels), np.asarray(truth)
    if labels.shape != truth.shape or labels.size == 0:
        raise ValueError(f"two label maps of one shape, not empty, are needed; got {labels.shape} and {truth.shape}")
    names, rows = np.unique(labels, return_inverse=True)
    others, columns = np.unique(truth, return_inverse=True)
    table = np.bincount(rows.ravel() * others.size + columns.ravel(), minlength=names.size * others.size)
    return table.reshape(names.size, others.size).astype(np.int64)


def _covering_parts(table: np.ndarray) -> tuple[float, int]:
    union = table.sum(axis=1)[:, None] + table.sum(axis=0)[None, :] - table
    best = (table / union).max(axis=0)
    return float(table.sum(axis=0) @ best), int(table.sum())


def _pairs(counts: np.ndarray) -> float:
    # in floating point, where a 12-megapixel image's squares would still fit in int64 but not much more
    counts = counts.astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)


def _rand_index(table: np.ndarray) -> float:
    total = _pairs(np.array([table.sum()]))
    if total == 0:
        return 1.0
    apart = _pairs(table.sum(axis=1)) + _pairs(table.sum(axis=0)) - 2 * _pairs(table)
    return 1.0 - apart / total


def _entropy(counts: np.ndarray) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum())


def _variation(table: np.ndarray) -> float:
    # H(S) + H(G) - 2 I(S; G) = 2 H(S, G) - H(S) - H(G); rounding may leave -1e-16
    return max(0.0, 2 * _entropy(table) - _entropy(table.sum(axis=1)) - _entropy(table.sum(axis=0)))


def _tables(labels: np.ndarray, annotations: Iterable[np.ndarray]) -> list[np.ndarray]:
    tables = [contingency_table(labels, truth) for truth in annotations]
    if not tables:
        raise ValueError("at least one annotator's label map is needed")
    return tables


def covering(labels: np.ndarray, annotations: Iterable[np.ndarray]) -> float:
    """Measure how well the best regions of `labels` cover the annotators' regions.

    ``sum_g sum_{R in g} |R| max_{R' in labels} IoU(R, R') / sum_g N``, with IoU the intersection over union and N the
    number of pixels.

    Parameters
    ----------
    labels : ndarray of int, shape (height, width)
        The label map to judge.
    annotations : iterable of ndarray of int, each of shape (height, width)
        One label map for each annotator.

    Returns
    -------
    float
        In (0, 1]; 1 is perfect.
    """
    parts = [_covering_parts(table) for table in _tables(labels, annotations)]
    return sum(part for part, _ in parts) / sum(size for _, size in parts)


def probabilistic_rand_index(labels: np.ndarray, annotations: Iterable[np.ndarray]) -> float:
    """Average the Rand index over the annotators: the share of pixel pairs that both maps join, or both part.

    Parameters
    ----------
    labels, annotations
        As in :func:`covering`.

    Returns
    -------
    float
        In [0, 1]; 1 is perfect. A plain grid scores about .7: not to be read alone.
    """
    return float(np.mean([_rand_index(table) for table in _tables(labels, annotations)]))


def variation_of_information(labels: np.ndarray, annotations: Iterable[np.ndarray]) -> float:
    """Average the variation of information over the annotators, ``H(S) + H(G) - 2 I(S; G)``.

    Parameters
    ----------
    labels, annotations
        As in :func:`covering`.

    Returns
    -------
    float
        In bits, at least 0; 0 is perfect.
    """
    return float(np.mean([_variation(table) for table in _tables(labels, annotations)]))


def score_segmentation(labels: np.ndarray, annotations: Iterable[np.ndarray]) -> SegmentationScores:
    """Compute the three scores from one set of contingency tables.

    Parameters
    ----------
    labels, annotations
        As in :func:`covering`.

    Returns
    -------
    SegmentationScores
        ``pri``, ``voi`` (bits) and ``covering``.
    """
    tables = _tables(labels, annotations)
    parts = [_covering_parts(table) for table in tables]
    return SegmentationScores(
        pri=float(np.mean([_rand_index(table) for table in tables])),
        voi=float(np.mean([_variation(table) for table in tables])),
        covering=sum(part for part, _ in parts) / sum(size for _, size in parts),
    )
