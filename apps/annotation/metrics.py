"""How well words fit images: the three scores of the OR-NMF paper, and the usual ones for each word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief

__all__ = ["Scores", "score_words"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Scores:
    """Scores of annotated images.

    Attributes
    ----------
    accuracy, recall, normalized : float
        ``AC = r / (r + w)``, ``RC = r / n`` and ``NS = r / n - w / (N - n)`` of Guan et al. (2012, section V.C), as
        means over images; r and w are the numbers of right and wrong words of an image with n words, and N is the size
        of the vocabulary.
    word_precision, word_recall : float
        Means over the words that some image has. A word that was never given has precision 0.
    f1 : float
        Harmonic mean of the two.
    n_plus : int
        Number of words that were given rightly at least once.
    mean_average_precision : float
        Mean over the same words of the average precision of the images ranked by the word's score; NaN without scores.
    n_words : int
        Number of words that some image has.
    table : ndarray of float [shape=(n_vocabulary, 4)]
        For each word: number of images that have it, number of images that got it, precision, recall.
    """

    accuracy: float
    recall: float
    normalized: float
    word_precision: float
    word_recall: float
    f1: float
    n_plus: int
    mean_average_precision: float
    n_words: int
    table: Array

    __repr__ = brief


def score_words(truth: Array, given: Array, scores: Array | None = None) -> Scores:
    """Score words that were given to images.

    Parameters
    ----------
    truth, given : ndarray of bool [shape=(n_images, n_words)]
        Which words the images have, and which they got.
    scores : ndarray [shape=(n_images, n_words)], optional
        High if a word fits; for the mean average precision.

    Returns
    -------
    Scores
        The scores. Images without a word of the vocabulary count in precisions only.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.annotation import score_words
    >>> truth = np.array([[1, 0], [0, 1], [1, 1]], bool)
    >>> score_words(truth, truth).f1
    1.0
    """
    hits = truth & given
    have, got, right = truth.sum(0), given.sum(0), hits.sum(0)
    occurs = have > 0
    precision = right / np.maximum(got, 1)
    recall = right / np.maximum(have, 1)
    mean_precision = _mean(precision[occurs])
    mean_recall = _mean(recall[occurs])
    both = mean_precision + mean_recall
    per_image = _per_image(truth, given, hits)
    average = float("nan") if scores is None else _mean(average_precisions(truth[:, occurs], scores[:, occurs]))
    return Scores(
        *per_image,
        mean_precision,
        mean_recall,
        2 * mean_precision * mean_recall / both if both else 0.0,
        int((right[occurs] > 0).sum()),
        average,
        int(occurs.sum()),
        np.stack([have, got, precision, recall], axis=1),
    )


def average_precisions(truth: Array, scores: Array) -> Array:
    """Return the average precision of each column of `truth`, which needs a true entry, with images ranked by score."""
    order = np.argsort(-scores, axis=0, kind="stable")
    found = np.take_along_axis(truth, order, axis=0)
    precision = np.cumsum(found, axis=0) / np.arange(1, len(found) + 1)[:, None]
    return np.asarray((precision * found).sum(0) / found.sum(0))


def _per_image(truth: Array, given: Array, hits: Array) -> tuple[float, float, float]:
    """Return the mean precision, recall and normalised score (recall minus false alarm rate) over images with words."""
    labelled = truth.any(axis=1)
    n, r = truth[labelled].sum(1), hits[labelled].sum(1)
    w = given[labelled].sum(1) - r
    others = np.maximum(truth.shape[1] - n, 1)
    return _mean(r / np.maximum(r + w, 1)), _mean(r / n), _mean(r / n - w / others)


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else 0.0
