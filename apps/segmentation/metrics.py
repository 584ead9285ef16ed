"""How well a segmentation agrees with people's: covering, probabilistic Rand index, variation of information.

All three compare one label map with the label maps of several annotators, and need only the contingency table of the
two maps. Definitions: Arbelaez, Maire, Fowlkes and Malik (2011), "Contour detection and hierarchical image
segmentation", section 3.2; Unnikrishnan, Pantofaru and Hebert (2007) for the Rand index; Meila (2005) for the
variation of information.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError

__all__ = [
    "SegmentationScores",
    "contingency_table",
    "covering",
    "probabilistic_rand_index",
    "score_segmentation",
    "score_tables",
    "variation_of_information",
]


class SegmentationScores(NamedTuple):
    """The three scores of one label map against its annotators."""

    pri: float
    voi: float
    covering: float


def contingency_table(labels: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
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
    ParameterError
        If the shapes differ, or there is no pixel.
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
    """Return each pixel's place among the labels; small ones may leave gaps, as sorting all pixels takes long."""
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < 4096:
        return labels.ravel().astype(np.int64), int(labels.max()) + 1
    names, places = np.unique(labels, return_inverse=True)
    return places.ravel().astype(np.int64), len(names)


def _covering_parts(table: NDArray[Any]) -> tuple[float, int]:
    union = table.sum(axis=1)[:, None] + table.sum(axis=0)[None, :] - table
    best = (table / union).max(axis=0)
    return float(table.sum(axis=0) @ best), int(table.sum())


def _pairs(counts: NDArray[Any]) -> float:
    # in floating point, where a 12-megapixel image's squares would still fit in int64 but not much more
    counts = counts.astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)


def _rand_index(table: NDArray[Any]) -> float:
    total = _pairs(np.array([table.sum()]))
    if total == 0:
        return 1.0
    apart = _pairs(table.sum(axis=1)) + _pairs(table.sum(axis=0)) - 2 * _pairs(table)
    return 1.0 - apart / total


def _entropy(counts: NDArray[Any]) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum())


def _variation(table: NDArray[Any]) -> float:
    # H(S) + H(G) - 2 I(S; G) = 2 H(S, G) - H(S) - H(G); rounding may leave -1e-16
    return max(0.0, 2 * _entropy(table) - _entropy(table.sum(axis=1)) - _entropy(table.sum(axis=0)))


def _tables(labels: NDArray[Any], annotations: Iterable[NDArray[Any]]) -> list[NDArray[Any]]:
    tables = [contingency_table(labels, truth) for truth in annotations]
    if not tables:
        raise ParameterError("annotations must hold at least one label map; got none")
    return tables


def covering(labels: NDArray[Any], annotations: Iterable[NDArray[Any]]) -> float:
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


def probabilistic_rand_index(labels: NDArray[Any], annotations: Iterable[NDArray[Any]]) -> float:
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


def variation_of_information(labels: NDArray[Any], annotations: Iterable[NDArray[Any]]) -> float:
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


def score_segmentation(labels: NDArray[Any], annotations: Iterable[NDArray[Any]]) -> SegmentationScores:
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
    return score_tables(_tables(labels, annotations))


def score_tables(tables: Iterable[NDArray[Any]]) -> SegmentationScores:
    """Compute the three scores from contingency tables.

    Parameters
    ----------
    tables : iterable of ndarray, shape (n_labels, n_truth)
        One for each annotator, as from :func:`contingency_table`.

    Returns
    -------
    SegmentationScores
        ``pri``, ``voi`` (bits) and ``covering``.
    """
    tables = list(tables)
    parts = [_covering_parts(table) for table in tables]
    return SegmentationScores(
        pri=float(np.mean([_rand_index(table) for table in tables])),
        voi=float(np.mean([_variation(table) for table in tables])),
        covering=sum(part for part, _ in parts) / sum(size for _, size in parts),
    )
