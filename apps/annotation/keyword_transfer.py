"""Joint equal contribution (JEC): words are transferred from the nearest images, greedily."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["transfer_greedy", "transfer_joint"]

Array = NDArray[Any]


def transfer_joint(neighbours: Array, Y: Array, n_words: int) -> Array:
    """Annotate images with the words of their nearest training images, as Makadia et al. (2008) do.

    `neighbours` (n_images, k) lists for each image the rows of its nearest training images in `Y`, the nearest first.
    `Y` (n_rows, n_vocabulary) is 1 where a training image has a word. `n_words` words are chosen for each image:

    1. The words of the nearest image, those that are frequent in the training set first.
    2. If these are too few, words of the other neighbours. Their order is the number of neighbours that have the word,
       times how often it occurs in the training set together with the words chosen in step 1.
    3. If these are still too few, the most frequent words of the training set.

    Returns scores (n_images, n_vocabulary): the chosen words have `n_words`, `n_words` - 1, ... in their order. Each
    other word has a score below 1, which grows with the share of the neighbours that have it.
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
    """Transfer words as Guan et al. (2012, section V.C) describe it; arguments and scores as in `transfer_joint`.

    The words of the nearest image come first, in the order of their frequency in the training set. Missing words are
    the most frequent words of the second neighbour, then of the third, and so on.
    """
    counts = Y.sum(axis=0)
    scores = np.empty((len(neighbours), Y.shape[1]), np.float32)
    for i, row in enumerate(neighbours):
        chosen = np.empty(0, np.intp)
        for j in row:
            chosen = np.concatenate([chosen, np.setdiff1d(_by(counts, np.flatnonzero(Y[j])), chosen, True)])
            if len(chosen) >= n_words:
                break
        chosen = _filled(chosen[:n_words], np.zeros(Y.shape[1]), counts, n_words)
        scores[i] = _scored(chosen, Y[row].mean(axis=0), n_words)
    return scores


def _by(values: Array, words: Array) -> Array:
    """Return `words` (indices) in decreasing order of their `values`; equal values keep the order of the indices."""
    return words[np.argsort(-values[words], kind="stable")]


def _filled(chosen: Array, fits: Array, counts: Array, n_words: int) -> Array:
    """Fill `chosen` up to `n_words`: words with positive `fits` in decreasing order, then the most frequent ones."""
    left = np.ones(len(counts), bool)
    left[chosen] = False
    fitting = _by(fits, np.flatnonzero(left & (fits > 0)))
    left[fitting] = False
    return np.concatenate([chosen, fitting, _by(counts, np.flatnonzero(left))])[:n_words]


def _scored(chosen: Array, share: Array, n_words: int) -> Array:
    """Score the chosen words from `n_words` downwards, and the others by the share of neighbours that have them."""
    scores = share.astype(np.float32) * np.float32(0.999)  # below 1, which is the lowest score of a chosen word
    scores[chosen] = np.arange(n_words, n_words - len(chosen), -1)
    return scores
