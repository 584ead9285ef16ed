"""Nearest rows by the Manhattan distance: exact, in blocks, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import blocks, map_blocks

__all__ = ["distances_of", "manhattan", "mutual", "nearest", "nearest_and"]

Array = NDArray[Any]

BLOCK_BYTES = 1 << 19  # of rows, which stay in a second-level cache while queries are compared with them
QUERIES = 64  # at once; their distances to all rows are in memory


def nearest(rows: Array, queries: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    """Return indices and distances (n_queries, k) of the `k` nearest rows of each query, or of all if there are fewer.

    The nearest comes first, and among equal distances the first row.
    """
    which, distance, _ = nearest_and(rows, queries, k, np.empty(0, np.intp), np.array)
    return which, distance


def nearest_and(
    rows: Array, queries: Array, k: int, some: NDArray[Any], function: Callable[[Array], Array]
) -> tuple[NDArray[np.intp], Array, Array]:
    """Return the result of :func:`nearest`, and a function of the distances to the rows `some`.

    The function maps distances (n, n_some) to values (n, m). It is called block by block, so that the distances need
    not be stored.
    """
    k = min(k, len(rows))

    def search(block: tuple[int, int]) -> tuple[NDArray[np.intp], Array, Array]:
        D = manhattan(rows, queries[slice(*block)])
        return *_smallest(D, k), function(D[:, some])

    found = map_blocks(search, blocks(len(queries), QUERIES) or [(0, 0)])
    which, distance, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return which, distance, values


def distances_of(rows: Array, queries: Array, which: NDArray[np.intp]) -> Array:
    """Return the Manhattan distances (n_queries, k) of each query to the rows `which` (n_queries, k)."""
    found = np.empty(which.shape, np.float32)
    for i, query in enumerate(queries):
        found[i] = np.abs(rows[which[i]] - query).sum(axis=1)
    return found


def mutual(rows: Array) -> Array:
    """Return the Manhattan distances (n_rows, n_rows) of all rows to each other."""
    D = np.empty((len(rows), len(rows)), np.float32)

    def fill(block: tuple[int, int]) -> None:
        D[slice(*block)] = manhattan(rows, rows[slice(*block)])

    map_blocks(fill, blocks(len(rows), QUERIES))
    return D


def manhattan(rows: Array, queries: Array) -> Array:
    """Return the Manhattan distances (n_queries, n_rows) of queries to all rows.

    Queries are compared one by one with a block of rows that stays in the cache.
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
    """Return the columns and values of the `k` smallest distances in each row of `D`, in increasing order."""
    which = np.argpartition(D, k - 1, axis=1)[:, :k] if k < D.shape[1] else np.tile(np.arange(k), (len(D), 1))
    which.sort(axis=1)  # keeps equal distances in the order of the rows
    distance = np.take_along_axis(D, which, axis=1)
    order = np.argsort(distance, axis=1, kind="stable")
    return np.take_along_axis(which, order, axis=1), np.take_along_axis(distance, order, axis=1)
