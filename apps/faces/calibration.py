"""The threshold of unknown people and its error rates, from images and people that recognisers had not seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from . import likeness
from .classifiers import Labels

Array = NDArray[Any]

PEOPLE_FOLDS = 10  # for the threshold; with more folds, the remaining people are more like all people
MANY, FOLDS_OF_MANY = 2000, 5  # fewer folds if there are more images than this
GRID_PIXELS = 1300  # of the grid that sets the threshold of clean images: every second, third, ... row and column
MOST_TESTED = 200  # images of unknown people, and of known people, per fold
UNKNOWN_LEAST = 3  # people; with fewer, none can play unknown
CONFIDENCE = 0.9  # of the intervals of error rates
NOMINAL = np.linspace(0, 1, 201)  # candidate quantiles of the threshold, as shares of the rate
ENOUGH_ALIKE = 50  # left-out images; with fewer, the quantiles of their noise say little
MEASURES_OF_RESIDUALS = 2  # the first noise measures: the scale of the residuals, and the share of outlying pixels
ALIKE = (0.01, 0.99)  # quantiles of each noise measure between which new images count as like the training images


class LeftOut(NamedTuple):
    """Left-out images of all folds, as recognizers judged them that had not seen the images or unknown people.

    `people` holds who is on them, `unknown` whether that person was left out too, `distances` the relative distances,
    `noise` the noise measures (n_images, n_measures), and `unlike` how unlike the other images they are. `unexplained`
    is the share of their coarse contrast that the model leaves, noise included, and `corrupted` the share of their
    pixels that were judged corrupted.
    """

    people: Labels
    unknown: NDArray[np.bool_]
    distances: Array
    noise: Array
    unlike: Array
    unexplained: Array
    corrupted: Array


class Rate(NamedTuple):
    """An error rate, and its confidence interval from `low` to `high`; NaN and 0 to 1 if nothing tells it."""

    mean: float = math.nan
    low: float = 0.0
    high: float = 1.0


class Calibration(NamedTuple):
    """A threshold of relative distances, and its error rates on images like the training images.

    `acceptance` is the rate of unknown people who pass and `rejection` that of known people who do not. `noise`
    (2, n_measures) is the range of the noise measures of images like the training images, for which the rates hold;
    None if there are too few images to tell. Pictures whose :func:`.unlikeness` is above `unlike` are not named, and
    those above `faceless` are probably not faces; those of which more than `unexplained` is left are noise. These
    limits are infinite if there are too few images to tell. `corrupted` is the mean share of the pixels of left-out
    images of known people that were judged corrupted; NaN if none were left out.
    """

    threshold: float
    acceptance: Rate
    rejection: Rate
    noise: Array | None
    unlike: float
    faceless: float
    unexplained: float
    corrupted: float


NONE = Calibration(math.nan, Rate(), Rate(), None, math.inf, math.inf, math.inf, math.nan)  # of a fit without one


def holds(noise_range: Array | None, noise: Array) -> NDArray[np.bool_] | None:
    """Return which new images are, by their `noise` measures (n_images, n_measures), like the training images.

    `noise_range` (2, n_measures) has the least and the largest value that is allowed for each measure. If it is None,
    too few images were left out in training to tell, and so is the result.
    """
    if noise_range is None:
        return None
    return np.asarray(((noise >= noise_range[0]) & (noise <= noise_range[1])).all(axis=1))


def people_folds(people: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Yield for each fold the images of people who are left out, and left-out images of people who stay.

    `people` (n_images,) says who is on each image; both results are rows. Everybody is left out once. At least two
    people stay in each fold; otherwise no people are left out.
    """
    rng = np.random.default_rng(0)
    n_people = int(people.max()) + 1
    folds = PEOPLE_FOLDS if len(people) <= MANY else FOLDS_OF_MANY
    # `fold_of` is the fold in which each person is left out, `image_fold` that in which an image is left out while its
    # person stays; -1 for none.
    fold_of = rng.permutation(n_people) % folds if n_people >= UNKNOWN_LEAST else np.full(n_people, -1)
    image_fold = np.full(len(people), -1)
    for person in range(n_people):
        own = rng.permutation(np.flatnonzero(people == person))  # this person's images
        if len(own) > 1:  # a person's only image always stays
            # the folds in which this person stays
            others = np.delete(np.arange(folds), fold_of[person]) if fold_of[person] >= 0 else np.arange(folds)
            # Each person begins at another fold, so that people with few images do not all use the first folds.
            image_fold[own] = np.roll(others, person)[np.arange(len(own)) % len(others)]
    for fold in range(folds):
        unknown = np.flatnonzero(fold_of[people] == fold)
        known = rng.permutation(np.flatnonzero(image_fold == fold))[:MOST_TESTED]
        if len(unknown) or len(known):
            yield unknown, np.sort(known)


def pixel_grid(image_shape: tuple[int, int] | None, n_pixels: int) -> Labels:
    """Return a grid of at most :data:`GRID_PIXELS` pixels: all, or every second, third, ... row and column.

    The pixels are numbered as in a row of `n_pixels`. Without a shape it is every second, third, ... of these numbers.
    """
    if image_shape is None:  # the step is a quotient, rounded up
        return np.arange(0, n_pixels, -(-n_pixels // GRID_PIXELS))
    numbers, step = np.arange(n_pixels).reshape(image_shape), 1
    while numbers[::step, ::step].size > GRID_PIXELS:
        step += 1
    return numbers[::step, ::step].ravel()


def calibrated(found: LeftOut, n_people: int, rate: float) -> Calibration:
    """Set the threshold at which a share `rate` of the images of unknown people is expected to pass.

    `found` has the left-out images of all folds, and `n_people` is the number of people of the model. The quantile is
    chosen so that, computed without a person, it lets a share `rate` of that person's images pass, on average, because
    images of one person resemble each other. With two people nobody can play unknown, and the threshold rejects a share
    `rate` of the known people's images instead. With one, or with nothing to judge by, it is 0, which nobody passes.
    """
    # `found` has for each image its relative `distances`, its `noise` measures, `unlike`, how unlike other images it
    # is, `unexplained`, what the model leaves of it, and `corrupted`, its share of corrupted pixels.
    known, unknown = (found.distances[found.unknown == kind] for kind in (False, True))
    noise_limit = likeness.noise_limit(found.unexplained, found.unknown)
    corrupted = float(found.corrupted[~found.unknown].mean()) if len(known) else math.nan
    # The last four fields of the result: `unlike`, up to which an image is named, `faceless`, beyond which it is not a
    # face, `unexplained`, beyond which it is noise, and the mean of `corrupted`.
    of_images = *likeness.limits(found.unlike, found.unknown), noise_limit, corrupted
    acceptance = Rate()
    if len(unknown):
        # `passed` (n_unknown_people,) are the shares of each person's images that pass.
        threshold, passed = _threshold(unknown, found.people[found.unknown], rate)
        acceptance = rate_of(passed, len(unknown))
    elif n_people == 1 or not len(known):
        return Calibration(0.0, Rate(), Rate(), None, *of_images)
    else:
        threshold = float(np.quantile(known, 1 - rate))
    noise = _noise_range(found.noise) if len(found.noise) >= ENOUGH_ALIKE else None  # None: too few images to tell
    owners = found.people[~found.unknown]
    rejected = np.array([(known[owners == person] > threshold).mean() for person in np.unique(owners)])
    return Calibration(threshold, acceptance, rate_of(rejected, len(known)), noise, *of_images)


def _noise_range(noise: Array) -> Array:
    """Return the range (2, n_measures) of the noise measures (n_images, n_measures) of left-out images.

    The measures are the scale of the residuals, the shares of outlying and of missing pixels, and, if images have a
    shape, the scale of the finest detail. If there is the fourth, it alone judges whether an image has too little
    noise, and the lower limits of the first two, of residuals, are 0: residuals of training images are smaller than
    those of left-out images, because the model was fitted to them.
    """
    found = np.quantile(noise, ALIKE, axis=0)  # the least and the largest quantile that count as usual
    has_finest_detail = noise.shape[1] > MEASURES_OF_RESIDUALS + 1
    if has_finest_detail:
        found[0, :MEASURES_OF_RESIDUALS] = 0
    return np.asarray(found)


def rate_of(shares: Array, n_images: int) -> Rate:
    """Return the mean of people's `shares` (n_people,) of `n_images`, with the interval in which that of others lies.

    The sample is one of people, not of images, because images of one person are alike. So the interval is that of
    Clopper and Pearson (1934) for the number of independent images that would have the same variance, reduced for the
    uncertainty of the variance itself (Korn and Graubard, "Confidence intervals for proportions with small expected
    number of positive counts estimated from survey data", 1998). Fewer than two people tell nothing.
    """
    n_people = len(shares)
    if n_people < 2:
        return Rate()
    mean, variance = float(shares.mean()), float(shares.var(ddof=1)) / n_people
    # People with equal shares tell no variance; then each counts as one image.
    size = min(mean * (1 - mean) / variance, n_images) if variance > 0 else n_people
    tail = (1 - CONFIDENCE) / 2
    size *= float(special.ndtri(tail) / special.stdtrit(n_people - 1, tail)) ** 2  # a normal quantile over Student's
    count = mean * size  # the bounds of Clopper and Pearson for so many of `size` images are quantiles of beta
    low = float(special.betaincinv(count, size - count + 1, tail)) if count > 0 else 0.0
    high = float(special.betaincinv(count + 1, size - count, 1 - tail)) if count < size else 1.0
    return Rate(mean, low, high)


def _threshold(distances: Array, people: Labels, rate: float) -> tuple[float, Array]:
    """Return the threshold that the share `rate` of unknown people's images passes, and the share of each person.

    `distances` (n_images,) are those of images of unknown `people` (n_images,). The threshold is a quantile of them.
    Its level is chosen by leaving out one person at a time: the shares (n_people,) are those of each person's images
    that pass the quantile of the distances of all others, and their mean should not exceed `rate`.
    """
    # The candidate levels are `rate` times numbers from 0 to 1; passed (n_levels, n_people) has the shares of all.
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
