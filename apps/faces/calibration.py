"""Cross-validation on training images: what classifiers say of images that they have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from .classifiers import ClassResidual, Labels, Nearest, relative_distance

__all__ = ["image_folds", "left_out", "people_folds"]

Array = NDArray[np.floating]

FOLDS = 5


def image_folds(people: Labels) -> Iterator[Labels]:
    """Yield, fold by fold, images that are left out; some of everybody's stay, with at least two images each."""
    folds = StratifiedKFold(min(FOLDS, int(np.bincount(people).min())), shuffle=True, random_state=0)
    for _, new in folds.split(people, people):
        yield new


def people_folds(people: Labels) -> Iterator[Labels]:
    """Yield, fold by fold, the images of people who are left out."""
    folds = min(FOLDS, people.max() + 1)
    for fold in range(folds):
        yield np.flatnonzero(people % folds == fold)


def left_out(
    classifier: ClassResidual | Nearest, features: Array, people: Labels, folds: Iterable[Labels]
) -> tuple[Labels, Array]:
    """Return the nearest person of each image and its relative distance, from a classifier that never saw it.

    Parameters
    ----------
    classifier : ClassResidual or Nearest
        Not fitted.
    features : ndarray [shape=(n_samples, n_features)]
    people : ndarray of int [shape=(n_samples,)]
        From 0 without gaps.
    folds : iterable of ndarray of int
        Rows that are left out together; together all rows.

    Returns
    -------
    nearest : ndarray of int [shape=(n_samples,)]
    distances : ndarray [shape=(n_samples,)]
    """
    nearest, relative = np.empty_like(people), np.empty(len(people), features.dtype)
    folds = list(folds)
    for new, (fitted, present) in zip(folds, _fitted(classifier, features, people, folds), strict=True):
        distances = fitted.distances(features[new])
        nearest[new], relative[new] = present[distances.argmin(axis=1)], relative_distance(distances)
    return nearest, relative


def _fitted(
    classifier: ClassResidual | Nearest, features: Array, people: Labels, folds: list[Labels]
) -> Iterator[tuple[ClassResidual | Nearest, Labels]]:
    if isinstance(classifier, ClassResidual):
        yield from classifier.folds(features, people, folds)
        return
    for new in folds:
        rest = np.delete(np.arange(len(people)), new)
        present, numbers = np.unique(people[rest], return_inverse=True)
        yield clone(classifier).fit(features[rest], numbers), present
