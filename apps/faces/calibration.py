"""Cross-validation on training images: what is said of images, and of people, that were left out of everything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from .classifiers import ClassResidual, Labels, Nearest, relative_distance

__all__ = [
    "Calibration",
    "LeftOut",
    "calibrated",
    "can_choose",
    "image_folds",
    "left_out",
    "people_folds",
    "some_people",
]

Array = NDArray[Any]

FOLDS = 5  # of the choice of the limit
PEOPLE_FOLDS = 10  # of the threshold: the more, the more the people of a fold are like all people
MANY, FOLDS_OF_MANY = 2000, 5  # where there are more images: fewer folds
MOST_TESTED = 200  # images of strangers, and of the known, a fold
STRANGERS_LEAST = 3  # people, without whom no threshold can be set by strangers
ANNOUNCED_LEAST = 15  # people, without whom nothing is announced: the rates of fewer strangers say little of others'
SURE = 1.64  # standard errors over people, nine times in ten: within them a rate must be known to a factor of two
NOMINAL = np.linspace(0, 1, 201)  # shares of the rate, among which the threshold's is sought
ALIKE = (0.01, 0.99)  # of each measure of noise of left-out images: new images between these are like them


class LeftOut(NamedTuple):
    """What was said of images, fold by fold, by recognizers that had seen neither them nor, of strangers, the person.

    Attributes
    ----------
    people : ndarray of int [shape=(n_images,)]
    strangers : ndarray of bool [shape=(n_images,)]
    distances : ndarray [shape=(n_images,)]
        Relative.
    noise : ndarray [shape=(n_images, n_measures)]
        See :meth:`Calibration.holds`.
    """

    people: Labels
    strangers: NDArray[np.bool_]
    distances: Array
    noise: Array


class Calibration(NamedTuple):
    """A threshold, and what it does with images like the training images.

    Attributes
    ----------
    threshold : float
        Of relative distances; larger ones are rejected.
    acceptance : float
        Share of strangers who pass; NaN where it cannot be told to a factor of two.
    rejection : float
        Share of images of the known that are rejected, likewise.
    noise : ndarray or None [shape=(2, n_measures)]
        Between which values the measures of noise of new images lie that are like the training images; None where
        nothing is announced.
    """

    threshold: float
    acceptance: float
    rejection: float
    noise: Array | None

    def holds(self, noise: Array) -> NDArray[np.bool_]:
        """Say of which new images the rates hold: of those whose noise is that of left-out training images.

        Parameters
        ----------
        noise : ndarray [shape=(n_images, n_measures)]
            Measures of noise.

        Returns
        -------
        ndarray of bool [shape=(n_images,)]
        """
        if self.noise is None:
            return np.zeros(len(noise), bool)
        return np.asarray(((noise >= self.noise[0]) & (noise <= self.noise[1])).all(axis=1))


def can_choose(people: Labels) -> bool:
    """Say whether images can be left out to choose by: there are two people, and two images of everybody.

    Parameters
    ----------
    people : ndarray of int [shape=(n_samples,)]

    Returns
    -------
    bool
    """
    counts = np.bincount(people)
    return len(counts) > 1 and bool(counts.min() > 1)


def image_folds(people: Labels) -> Iterator[Labels]:
    """Yield, fold by fold, images that are left out; some of everybody's stay, with at least two images each."""
    folds = StratifiedKFold(min(FOLDS, int(np.bincount(people).min())), shuffle=True, random_state=0)
    for _, new in folds.split(people, people):
        yield new


def people_folds(people: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Yield, fold by fold, images of people who are left out, and images of others who stay with other images.

    Over the folds, everybody is left out once. At least two people stay, or no folds are made of people.
    """
    rng = np.random.default_rng(0)
    n_people = int(people.max()) + 1
    folds = PEOPLE_FOLDS if len(people) <= MANY else FOLDS_OF_MANY
    fold_of = rng.permutation(n_people) % folds if n_people >= STRANGERS_LEAST else np.full(n_people, -1)
    image_fold = np.full(len(people), -1)
    for person in range(n_people):
        own = rng.permutation(np.flatnonzero(people == person))
        if len(own) > 1:  # somebody with one image would have none left
            others = np.delete(np.arange(folds), fold_of[person]) if fold_of[person] >= 0 else np.arange(folds)
            image_fold[own] = np.roll(others, person)[np.arange(len(own)) % len(others)]
    for fold in range(folds):
        strangers = np.flatnonzero(fold_of[people] == fold)
        known = rng.permutation(np.flatnonzero(image_fold == fold))[:MOST_TESTED]
        if len(strangers) or len(known):
            yield strangers, np.sort(known)


def some_people(people: Labels, most: int) -> Labels:
    """Return the images of people drawn at random, two people at least, until there are `most`.

    Parameters
    ----------
    people : ndarray of int [shape=(n_samples,)]
    most : int

    Returns
    -------
    ndarray of int
        Rows, in their order.
    """
    order = np.random.default_rng(0).permutation(people.max() + 1)
    counts = np.cumsum(np.bincount(people)[order])
    return np.flatnonzero(np.isin(people, order[: max(2, int(np.searchsorted(counts, most, side="right")))]))


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


def calibrated(found: LeftOut, n_people: int, rate: float) -> Calibration:
    """Set the threshold so that a share `rate` of strangers' images passes, in expectation over people.

    A quantile of the strangers at hand lets more of others' images pass, as images of one person resemble each other.
    So the quantile is the one that, taken without a person, lets the share of that person's images pass, on average
    over the people. With one or two people there are no strangers: the threshold then rejects the share of the known.

    Parameters
    ----------
    found : LeftOut
    n_people : int
        People who are trained.
    rate : float

    Returns
    -------
    Calibration
    """
    known, strange = (found.distances[found.strangers == kind] for kind in (False, True))
    acceptance = math.nan
    if len(strange):
        threshold, passed = _threshold(strange, found.people[found.strangers], rate)
        acceptance = _known_rate(passed)
    elif n_people == 1 or not len(known):
        return Calibration(0.0, math.nan, math.nan, None)
    else:
        threshold = float(np.quantile(known, 1 - rate))
    if n_people < ANNOUNCED_LEAST or math.isnan(acceptance):
        return Calibration(threshold, math.nan, math.nan, None)
    owners = found.people[~found.strangers]
    rejection = _known_rate(np.array([(known[owners == person] > threshold).mean() for person in np.unique(owners)]))
    return Calibration(threshold, acceptance, rejection, np.quantile(found.noise, ALIKE, axis=0))


def _known_rate(shares: Array) -> float:
    """Return the mean of people's shares; NaN where these people do not tell it to a factor of two of all others'.

    People, not images, are what is drawn: images of one person are alike.
    """
    if len(shares) < 2:
        return math.nan
    mean, error = shares.mean(), shares.std(ddof=1) / math.sqrt(len(shares))
    return float(mean) if 0 < mean and SURE * error <= mean / 2 else math.nan


def _threshold(distances: Array, people: Labels, rate: float) -> tuple[float, Array]:
    """Return the threshold, and of each person the share of images that pass one so made of the others'."""
    levels = rate * NOMINAL
    present = np.unique(people)
    passed = np.empty((len(levels), len(present)))
    for column, person in enumerate(present):
        own = people == person
        thresholds = np.quantile(distances[~own], levels)
        passed[:, column] = (distances[own] <= thresholds[:, None]).mean(axis=1)
    best = int(np.searchsorted(passed.mean(axis=1), rate, side="right")) - 1  # the mean never falls
    best = max(best, 0)
    return float(np.quantile(distances, levels[best])), passed[best]
