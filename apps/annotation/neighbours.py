"""Nearest rows by the Manhattan distance: exact, by blocks, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import blocks, map_blocks

__all__ = ["distances_of", "manhattan", "mutual", "nearest", "nearest_and"]

Array = NDArray[Any]

BLOCK_BYTES = 1 << 19  # of rows that stay in a second-level cache while queries pass over them
QUERIES = 64  # at once: their distances to all rows are in memory


def nearest(rows: Array, queries: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    """Find the nearest rows of each query.

    Parameters
    ----------
    rows : ndarray of float32 [shape=(n_rows, n_features)]
    queries : ndarray of float32 [shape=(n_queries, n_features)]
    k : int
        How many; all where there are fewer.

    Returns
    -------
    which : ndarray of int [shape=(n_queries, k)]
        Nearest first; of equal distance the one that comes first.
    distance : ndarray of float32 [shape=(n_queries, k)]
    """
    which, distance, _ = nearest_and(rows, queries, k, np.empty(0, np.intp), np.array)
    return which, distance


def nearest_and(
    rows: Array, queries: Array, k: int, some: NDArray[Any], function: Callable[[Array], Array]
) -> tuple[NDArray[np.intp], Array, Array]:
    """Find the nearest rows, and a function of the distances to some rows, which are not kept.

    Parameters
    ----------
    rows : ndarray of float32 [shape=(n_rows, n_features)]
    queries : ndarray of float32 [shape=(n_queries, n_features)]
    k : int
    some : ndarray of int [shape=(n_some,)]
    function : callable
        Of distances, an ndarray of float32 [shape=(n, n_some)], to an ndarray [shape=(n, m)].

    Returns
    -------
    which, distance : ndarray
        As from :func:`nearest`.
    values : ndarray [shape=(n_queries, m)]
    """
    k = min(k, len(rows))

    def search(block: tuple[int, int]) -> tuple[NDArray[np.intp], Array, Array]:
        D = manhattan(rows, queries[slice(*block)])
        return *_smallest(D, k), function(D[:, some])

    found = map_blocks(search, blocks(len(queries), QUERIES) or [(0, 0)])
    which, distance, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return which, distance, values


def distances_of(rows: Array, queries: Array, which: NDArray[np.intp]) -> Array:
    """Return the Manhattan distances of queries to some rows each.

    Parameters
    ----------
    rows : ndarray of float32 [shape=(n_rows, n_features)]
    queries : ndarray of float32 [shape=(n_queries, n_features)]
    which : ndarray of int [shape=(n_queries, k)]

    Returns
    -------
    ndarray of float32 [shape=(n_queries, k)]
    """
    found = np.empty(which.shape, np.float32)
    for i, query in enumerate(queries):
        found[i] = np.abs(rows[which[i]] - query).sum(axis=1)
    return found


def mutual(rows: Array) -> Array:
    """Return the Manhattan distances of all rows to each other.

    Parameters
    ----------
    rows : ndarray of float32 [shape=(n_rows, n_features)]

    Returns
    -------
    ndarray of float32 [shape=(n_rows, n_rows)]
    """
    D = np.empty((len(rows), len(rows)), np.float32)

    def fill(block: tuple[int, int]) -> None:
        D[slice(*block)] = manhattan(rows, rows[slice(*block)])

    map_blocks(fill, blocks(len(rows), QUERIES))
    return D


def manhattan(rows: Array, queries: Array) -> Array:
    """Return the Manhattan distances of queries to all rows; one query at a time passes over rows that lie in cache.

    Parameters
    ----------
    rows : ndarray of float32 [shape=(n_rows, n_features)]
    queries : ndarray of float32 [shape=(n_queries, n_features)]

    Returns
    -------
    ndarray of float32 [shape=(n_queries, n_rows)]
    """
    n_features = rows.shape[1]
    step = max(1, BLOCK_BYTES // (4 * max(1, n_features)))
    D = np.empty((len(queries), len(rows)), np.float32)
    scratch = np.empty((step, n_features), np.float32)
    ones = np.ones(n_features, np.float32)
    for start, stop in blocks(len(rows), step):
        part, difference = rows[start:stop], scratch[: stop - start]
        for i, query in enumerate(queries):
            np.subtract(part, query, out=difference)
            np.abs(difference, out=difference)
            np.dot(difference, ones, out=D[i, start:stop])
    return D


def _smallest(D: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    which = np.argpartition(D, k - 1, axis=1)[:, :k] if k < D.shape[1] else np.tile(np.arange(k), (len(D), 1))
    which.sort(axis=1)  # so that equal distances stay in the order of the rows
    distance = np.take_along_axis(D, which, axis=1)
    order = np.argsort(distance, axis=1, kind="stable")
    return np.take_along_axis(which, order, axis=1), np.take_along_axis(distance, order, axis=1)
