"""Nearest images, by exact search with bounded memory, and words transferred from them (JEC)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import additive_chi2_kernel, euclidean_distances

from visionnmf.engine.blocks import blocks, map_blocks

Array = NDArray[Any]
Distance = Callable[[Array, Array], Array]  # rows (n_rows, n) and queries (n_queries, n) to (n_queries, n_rows)

BLOCK_BYTES = 1 << 19  # of rows, which stay in a second-level cache while queries are compared with them
QUERIES = 64  # at once; their distances to all rows are in memory
SMOOTHING = 0.01  # of zeros for the Kullback-Leibler divergence, relative to the mean of a row


def nearest(rows: Array, queries: Array, k: int, distance_of: Distance | None = None) -> tuple[NDArray[np.intp], Array]:
    """Return indices and distances (n_queries, k) of the nearest rows of each query, nearest and first ones first."""
    which, distance, _ = nearest_and(rows, queries, k, np.empty(0, np.intp), np.array, distance_of or manhattan)
    return which, distance


def nearest_and(
    rows: Array,
    queries: Array,
    k: int,
    some: NDArray[Any],
    function: Callable[[Array], Array],
    distance_of: Distance | None = None,
) -> tuple[NDArray[np.intp], Array, Array]:
    """Return the result of :func:`nearest`, and what `function` makes of distances (n, n_some) to `some` rows."""
    k = min(k, len(rows))

    def search(block: tuple[int, int]) -> tuple[NDArray[np.intp], Array, Array]:
        """Return nearest rows (n, k), their distances, and what the caller wants of the distances, for n queries."""
        D = (distance_of or manhattan)(rows, queries[slice(*block)])
        found = np.argpartition(D, k - 1, axis=1)[:, :k] if k < D.shape[1] else np.tile(np.arange(k), (len(D), 1))
        found.sort(axis=1)  # keeps equal distances in the order of the rows
        distance = np.take_along_axis(D, found, axis=1)
        order = np.argsort(distance, axis=1, kind="stable")
        found, distance = np.take_along_axis(found, order, axis=1), np.take_along_axis(distance, order, axis=1)
        return found, distance, function(D[:, some])

    # an empty block gives empty results their shapes
    found = map_blocks(search, blocks(len(queries), QUERIES) or [(0, 0)])
    which, distance, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return which, distance, values


def distances_of(rows: Array, queries: Array, which: NDArray[np.intp]) -> Array:
    """Return the Manhattan distances (n_queries, k) of each query to the rows `which` (n_queries, k)."""
    found = np.empty(which.shape, np.float32)
    for i, query in enumerate(queries):
        found[i] = np.abs(rows[which[i]] - query).sum(axis=1)
    return found


def mutual_distances(rows: Array) -> Array:
    """Return the Manhattan distances (n_rows, n_rows) of all rows to each other."""
    D = np.empty((len(rows), len(rows)), np.float32)

    def fill(block: tuple[int, int]) -> None:
        """Write the distances of the rows from block[0] to block[1] to all rows into `D` (n_rows, n_rows)."""
        D[slice(*block)] = manhattan(rows, rows[slice(*block)])

    map_blocks(fill, blocks(len(rows), QUERIES))  # in threads, QUERIES rows at a time
    return D


def manhattan(rows: Array, queries: Array) -> Array:
    """Return the Manhattan distances (n_queries, n_rows), by blocks of rows that stay in the cache."""
    n_features = rows.shape[1]
    step = max(1, BLOCK_BYTES // (4 * max(1, n_features)))  # rows of float32 in a block
    D = np.empty((len(queries), len(rows)), np.float32)
    scratch = np.empty((step, n_features), np.float32)
    ones = np.ones(n_features, np.float32)
    for start, stop in blocks(len(rows), step):
        part, difference = rows[start:stop], scratch[: stop - start]
        for i, query in enumerate(queries):
            np.subtract(part, query, out=difference)
            np.abs(difference, out=difference)
            # The sums of the rows; BLAS adds faster than `sum`.
            np.dot(difference, ones, out=D[i, start:stop])
    return D


def euclidean(rows: Array, queries: Array) -> Array:
    """Return the Euclidean distances (n_queries, n_rows) of queries to all rows."""
    return np.asarray(euclidean_distances(queries, rows), np.float32)


def chi_squared(rows: Array, queries: Array) -> Array:
    """Return the sums of ``(q - r)^2 / (q + r)`` (n_queries, n_rows) over the features of queries `q` and rows `r`."""
    return np.asarray(-additive_chi2_kernel(queries, rows), np.float32)


def kullback_leibler(rows: Array, queries: Array) -> Array:
    """Return the divergences (n_queries, n_rows), ``sum q log(q / r) - q + r``, of queries from all rows."""
    R, Q = (np.maximum(X + SMOOTHING * X.mean(axis=1, keepdims=True), np.float32(1e-30)) for X in (rows, queries))
    # sum of q log q - q, of each query alone
    own = (Q * (np.log(Q) - 1)).sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(own - Q @ np.log(R).T + R.sum(axis=1), 0), np.float32)


METRICS: dict[str, Distance] = {
    "manhattan": manhattan,
    "euclidean": euclidean,
    "chi-squared": chi_squared,
    "kullback-leibler": kullback_leibler,
}


def joint_distance(parts: Sequence[tuple[slice, str]]) -> Distance:
    """Return the sum of distances; `parts` are the columns and the metric of each, a key of METRICS."""

    def distance_of(rows: Array, queries: Array) -> Array:
        """Return the sums (n_queries, n_rows) of the distances that `parts` names, over its columns each."""
        return sum(
            (METRICS[metric](rows[:, columns], queries[:, columns]) for columns, metric in parts),
            np.zeros((len(queries), len(rows)), np.float32),
        )

    return distance_of


def transfer_joint(neighbours: Array, Y: Array, n_words: int) -> Array:
    """Annotate images with the words of their nearest training images, as Makadia et al. (2008) do.

    `neighbours` (n_images, k) are rows of `Y` (n_rows, n_vocabulary), the nearest first. `n_words` words are chosen:

    1. The words of the nearest image, those that are frequent in the training set first.
    2. If these are too few, words of the other neighbours. Their order is the number of neighbours that have the word,
       times how often it occurs in the training set together with the words chosen in step 1.
    3. If these are still too few, the most frequent words of the training set.

    Returns scores (n_images, n_vocabulary): the chosen words have `n_words`, `n_words` - 1, ... in their order, others
    less than 1.
    """
    counts = Y.sum(axis=0)
    # How many training images have both words. The product is in float32 because BLAS does not multiply integers.
    together = Y.T.astype(np.float32) @ Y.astype(np.float32)
    scores = np.empty((len(neighbours), Y.shape[1]), np.float32)
    for i, row in enumerate(neighbours):
        chosen = _by(counts, np.flatnonzero(Y[row[0]]))[:n_words]
        if len(chosen) < n_words:
            local = Y[row[1:]].sum(axis=0).astype(float)
            # If the nearest image has no words, the number of neighbours decides alone.
            fits = local * together[:, chosen].sum(axis=1) if len(chosen) else local
            chosen = _filled(chosen, fits, counts, n_words)
        scores[i] = _scored(chosen, Y[row].mean(axis=0), n_words)
    return scores


def transfer_greedy(neighbours: Array, Y: Array, n_words: int) -> Array:
    """Transfer words as Guan et al. (2012, section V.C) describe it; see :func:`transfer_joint`."""
    counts = Y.sum(axis=0)
    scores = np.empty((len(neighbours), Y.shape[1]), np.float32)
    for i, row in enumerate(neighbours):
        chosen = np.empty(0, np.intp)
        for j in row:
            words = _by(counts, np.flatnonzero(Y[j]))  # of image j, the most frequent first
            new = np.setdiff1d(words, chosen, assume_unique=True)  # which keeps this order; the default would sort
            chosen = np.concatenate([chosen, new])
            if len(chosen) >= n_words:
                break
        # no word fits better than another here, so the most frequent ones come next
        chosen = _filled(chosen[:n_words], np.zeros(Y.shape[1]), counts, n_words)
        scores[i] = _scored(chosen, Y[row].mean(axis=0), n_words)
    return scores


def _by(values: Array, words: Array) -> Array:
    """Return `words` (indices) in decreasing order of their `values`; equal values keep the order of the indices."""
    return words[np.argsort(-values[words], kind="stable")]


def _filled(chosen: Array, fits: Array, counts: Array, n_words: int) -> Array:
    """Fill `chosen` up to `n_words` words: next those of positive `fits`, decreasing, then the most frequent."""
    left = np.ones(len(counts), bool)
    left[chosen] = False
    fitting = _by(fits, np.flatnonzero(left & (fits > 0)))
    left[fitting] = False
    return np.concatenate([chosen, fitting, _by(counts, np.flatnonzero(left))])[:n_words]


def _scored(chosen: Array, share: Array, n_words: int) -> Array:
    """Return scores (n_vocabulary,): `n_words`, `n_words` - 1, ... for the words `chosen`, `share` for the others."""
    scores = share.astype(np.float32) * np.float32(0.999)  # below 1, which is the lowest score of a chosen word
    scores[chosen] = np.arange(n_words, n_words - len(chosen), -1)
    return scores


TRANSFERS = {"jec": transfer_joint, "jec-greedy": transfer_greedy}
