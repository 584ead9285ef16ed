"""Joint equal contribution (JEC): words are transferred from the nearest images, greedily."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["transfer_greedy", "transfer_joint"]

Array = NDArray[Any]


def transfer_joint(neighbours: Array, Y: Array, n_words: int) -> Array:
    """Transfer words as Makadia et al. (2008) do.

    The words of the nearest image come first, in the order of their frequency in the training set. Missing words come
    from the other neighbours, by the number of these that have a word times the number of training images that have it
    together with the words already chosen. Then come the most frequent words.

    `neighbours` (n_images, k) holds rows of `Y` (n_rows, n_vocabulary), the nearest first. In the returned scores
    (n_images, n_vocabulary) the chosen words have `n_words` down to 1 in their order, and the others have shares below
    1 of the neighbours with this word.
    """
    counts = Y.sum(axis=0)
    together = Y.T.astype(np.float32) @ Y.astype(np.float32)
    scores = np.empty((len(neighbours), Y.shape[1]), np.float32)
    for i, row in enumerate(neighbours):
        chosen = _by(counts, np.flatnonzero(Y[row[0]]))[:n_words]
        if len(chosen) < n_words:
            local = Y[row[1:]].sum(axis=0).astype(float)
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
    return words[np.argsort(-values[words], kind="stable")]


def _filled(chosen: Array, fits: Array, counts: Array, n_words: int) -> Array:
    """Add the words that fit best, then the most frequent ones."""
    left = np.ones(len(counts), bool)
    left[chosen] = False
    fitting = _by(fits, np.flatnonzero(left & (fits > 0)))
    left[fitting] = False
    return np.concatenate([chosen, fitting, _by(counts, np.flatnonzero(left))])[:n_words]


def _scored(chosen: Array, share: Array, n_words: int) -> Array:
    scores = share.astype(np.float32) * np.float32(0.999)
    scores[chosen] = np.arange(n_words, n_words - len(chosen), -1)
    return scores
