"""Choices by cross-validation on training images: how probable the right person is on images that were left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from . import cleaning
from .classifiers import ClassResidual, Labels, Nearest, relative_distances
from .comparison import Comparison
from .discriminants import Discriminant
from .mixture import MIXTURES, Weights, mixed

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Classifier = ClassResidual | Discriminant | Nearest

FOLDS = 5
MOST_CHOOSING = 500  # images by which a search for missing pixels, a limit of cleaning and a mixture are chosen
DIGITS = 3  # of probabilities
POWERS = 2.0 ** np.arange(7)  # of one over the distance, to which probabilities may be proportional


def can_choose(people: Labels) -> bool:
    """Return whether images can be left out: there are two people or more, and two images or more of each.

    `people` (n_images,) says who is on each image, numbered from 0 without gaps.
    """
    counts = np.bincount(people)
    return len(counts) > 1 and bool(counts.min() > 1)


def image_folds(people: Labels) -> Iterator[Labels]:
    """Yield the rows that are left out in each fold; `people` (n_images,) says who is on each image.

    Some of everybody's images stay if there are two of each or more.
    """
    folds = StratifiedKFold(min(FOLDS, int(np.bincount(people).min())), shuffle=True, random_state=0)
    for _, new in folds.split(people, people):  # of the first argument only the length counts
        yield new


def rows_to_choose_by(people: Labels) -> tuple[Labels, Labels]:
    """Return the rows of at most :data:`MOST_CHOOSING` images, and who is on them, numbered without gaps.

    Settings of the recogniser are tried on these images alone, to bound the time; `people` says who is on all images.
    """
    rows = some_people(people, MOST_CHOOSING)
    if len(rows) > MOST_CHOOSING:  # two people with more images: some of each, evenly spread
        most = MOST_CHOOSING // 2
        both = [rows[people[rows] == person] for person in np.unique(people[rows])]
        rows = np.sort(np.concatenate([own[:: -(-len(own) // most)] for own in both]))
    return rows, np.unique(people[rows], return_inverse=True)[1]


def some_people(people: Labels, most: int) -> Labels:
    """Return the sorted rows of people drawn at random: at least two people, and up to `most` images."""
    order = np.random.default_rng(0).permutation(people.max() + 1)
    counts = np.cumsum(np.bincount(people)[order])  # images of the first person drawn, of the first two, and so on
    return np.flatnonzero(np.isin(people, order[: max(2, int(np.searchsorted(counts, most, side="right")))]))


def limit_scores(
    comparison: Comparison,
    images: Array,
    reconstructions: Array,
    missing: Mask,
    people: Labels,
    limits: dict[float, float],
) -> dict[float, float]:
    """Return for each limit of cleaning the :func:`probability` of the right person on images that are left out.

    The `images`, their `reconstructions` by the model and the mask of `missing` pixels are (n_images, n_pixels).
    `limits` has what :func:`.cleaning.pull_limit` returns, by the number of standard deviations. The model is not
    fitted again: only the classifiers are, to the cleaned images without one fold at a time. Rules that are slow and
    the rule "auto" are judged by residuals alone.
    """
    scores = {}
    for outliers, limit in limits.items():
        features = comparison.features(cleaning.winsorise(images, reconstructions, limit, missing))
        scores[outliers] = probability(left_out(comparison.classifier(choosing=True), features, people), people)
    return scores


def mixture_scores(images: Array, people: Labels) -> dict[Weights, float]:
    """Return for each mixture of distances the :func:`probability` of the right person on cleaned images left out.

    `images` are (n_images, n_pixels), and `people` (n_images,) says who is on them.
    """
    classifiers = ClassResidual(adaptive=True), Discriminant()
    found = [left_out(one, images, people) for one in classifiers]
    return {weights: probability(mixed(found, weights), people) for weights in MIXTURES}


def left_out(classifier: Classifier, features: Array, people: Labels) -> Array:
    """Return the logarithms of relative distances (n_images, n_people) by a classifier fitted without an image's fold.

    `features` (n_images, n_features) are what the unfitted `classifier` compares; `people` (n_images,) are two or more,
    with two images of each or more.
    """
    result = np.empty((len(people), people.max() + 1))
    folds = list(image_folds(people))
    for new, fitted in zip(folds, _fitted(classifier, features, people, folds), strict=True):
        result[new] = np.log(relative_distances(fitted.distances(features[new])))
    return result


def _fitted(classifier: Classifier, features: Array, people: Labels, folds: list[Labels]) -> Iterator[Classifier]:
    """Yield for each fold a classifier fitted without it."""
    if isinstance(classifier, ClassResidual):  # it multiplies images once for all folds
        yield from classifier.folds(features, people, folds)
        return
    for new in folds:
        rest = np.delete(np.arange(len(people)), new)
        yield clone(classifier).fit(features[rest], people[rest])


def probability(logarithms: Array, people: Labels) -> float:
    """Return the geometric mean of the probabilities of the right people, 0 to 1.

    `logarithms` (n_images, n_people) are those of distances, and `people` (n_images,) says who is right. The
    probability of a person is proportional to a power of one over the distance, the most likely one of several. The
    result is rounded, so that of choices that serve equally well the first is taken.
    """
    # How much further than the right person everybody is, on a logarithmic scale.
    further = logarithms - np.take_along_axis(logarithms, people[:, None], axis=1)
    return round(float(np.exp(max(-logsumexp(-power * further, axis=1).mean() for power in POWERS))), DIGITS)
