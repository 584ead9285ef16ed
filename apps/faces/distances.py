"""Distances of images from people, and what images that were left out say: which distance serves, and up to where."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from .images import Decomposition, winsorise

Array = NDArray[Any]
Labels = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
RIDGE_IMAGES = 700  # the ridge is given for so many images, and grows in proportion to their number
SPARED = 10.0  # ridges that the evidence also asks for on clean images, which are better off with one
GRID = 2.0 ** np.arange(0, 16, 0.5)  # (n_grid,) candidate ridges, in units of the smallest
SPAN = 1e-9  # of the largest power, or variance between people; directions with less are rounding errors
FURTHEST = 1e-6  # the nearest distance over the largest one of an image
BATCH = 512  # new images at a time; each needs a row of coefficients of all training images
SHRINKAGE = 0.3  # share of the covariance within people that is that of pixels with equal variances
# Choices
FOLDS = 5
MOST_CHOOSING = 500  # images by which a search for missing pixels, a limit of cleaning and a mixture are chosen
DIGITS = 3  # of probabilities, so that of choices that serve equally well the first is taken
POWERS = 2.0 ** np.arange(7)  # of one over the distance, to which probabilities may be proportional
# The threshold
PEOPLE_FOLDS = 10  # with more folds, the remaining people are more like all people
MANY, FOLDS_OF_MANY = 2000, 5  # fewer folds if there are more images than this
GRID_PIXELS = 1300  # of the grid that sets the threshold of clean images: every second, third, ... row and column
MOST_TESTED = 200  # images of unknown people, and of known people, per fold
UNKNOWN_LEAST = 3  # people; with fewer, none can play unknown
CONFIDENCE = 0.9  # of the intervals of error rates
NOMINAL = np.linspace(0, 1, 201)  # candidate quantiles of the threshold, as shares of the rate
ENOUGH_ALIKE = 50  # left-out images; with fewer, the quantiles of their noise say little
MEASURES_OF_RESIDUALS = 2  # the first noise measures: the scale of the residuals, and the share of outlying pixels
ALIKE = (0.01, 0.99)  # quantiles of each noise measure between which new images count as like the training images
QUANTILE, MARGIN = 0.99, 1.1  # a limit of unlikeness is this quantile of images, times the margin
ENOUGH = 10  # left-out images; with fewer of them there is no limit
UNEXPLAINED = 0.7  # an image of which less is left unexplained is never called noise


# --- distances --------------------------------------------------------------------------------------------------------


def relative_distance(distances: Array) -> Array:
    """Return the distance from the nearest person over the harmonic mean of those from all people, (n_images,)."""
    least = np.maximum(distances.min(axis=1), np.finfo(distances.dtype).tiny)
    # The mean of least / distance over the people is `least` over the harmonic mean of the distances.
    return np.asarray((least[:, None] / np.maximum(distances, least[:, None])).mean(axis=1))


def relative_distances(distances: Array) -> Array:
    """Return distances (n_images, n_people) in units in which each image's least is :func:`relative_distance`."""
    least = np.maximum(distances.min(axis=1, keepdims=True), np.finfo(distances.dtype).tiny)
    return np.asarray(
        relative_distance(distances)[:, None] / np.maximum(least / np.maximum(distances, least), FURTHEST)
    )


class ClassResidual:
    """Collaborative representation: which person's images explain the new one (Zhang, Yang, Feng 2011).

    The new image is written as a linear combination of all images, with a `ridge`, that for 700 images of unit norm, on
    the coefficients. The distance from a person is the residual of that person's part over the norm of its
    coefficients. With `adaptive`, noisy new images get a larger ridge: the ratio of the variances of noise and of
    coefficients that is most likely (evidence maximisation, MacKay 1992), minus ten times `ridge`, which clean images
    also get.
    """

    def __init__(self, ridge: float = 0.01, *, adaptive: bool = False) -> None:
        self.ridge, self.adaptive = ridge, adaptive

    def fit(self, X: Array, y: Labels) -> ClassResidual:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        images = normalize(X)
        return self._fit(images, y, *_products(images))

    def folds(self, X: Array, y: Labels, folds: Iterable[Labels]) -> Iterator[ClassResidual]:
        """Yield for each fold, rows left out, a classifier fitted without it, whose products are taken away."""
        images = normalize(X)
        products, of_pixels = _products(images)
        for new in folds:
            rest = np.delete(np.arange(len(images)), new)
            if of_pixels:  # the products of pixels are sums over the images
                left_out = images[new].astype(np.float64)
                remaining = products - left_out.T @ left_out
            else:
                remaining = products[np.ix_(rest, rest)]
            yield ClassResidual(self.ridge, adaptive=self.adaptive)._fit(images[rest], y[rest], remaining, of_pixels)

    def _fit(self, images: Array, y: Labels, products: Array, of_pixels: bool) -> ClassResidual:
        """Learn people from images of unit norm and the products of all pairs of images or of pixels."""
        # With the eigenvectors, the coefficients of a new image for any ridge cost two products of matrices.
        powers, directions = np.linalg.eigh(products)
        self.powers_ = np.maximum(powers, 0)
        order = np.argsort(y, kind="stable")
        self.images_ = images[order]  # (n_images, n_pixels), person by person
        self.starts_ = np.searchsorted(y[order], np.arange(y.max() + 2))  # each person's first row, and the end
        self.directions_ = (directions if of_pixels else directions[order]).astype(images.dtype)
        self.gram_ = None if of_pixels else products[np.ix_(order, order)].astype(images.dtype)
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        new = normalize(X)
        result = np.empty((len(X), len(self.starts_) - 1), new.dtype)
        for start in range(0, len(X), BATCH):
            result[start : start + BATCH] = self._distances(new[start : start + BATCH])
        return result

    def _distances(self, new: Array) -> Array:
        """Return the distances (n_new, n_people) of images of unit norm from all people."""
        products = new @ self.images_.T  # (n_new, n_images)
        # With A the gallery, the coefficients are new A' (A A' + ridge)^-1 = new (A' A + ridge)^-1 A'. Of both inverses
        # only the eigenvalues depend on the ridge, so the new images are rotated to the eigenvectors first.
        rotated = new @ self.directions_ if self.gram_ is None else products @ self.directions_
        shrunk = rotated / (self.powers_ + self._ridges(rotated)).astype(new.dtype)
        coefficients = shrunk @ self.directions_.T
        if self.gram_ is None:
            coefficients = coefficients @ self.images_.T
        result = np.empty((len(new), len(self.starts_) - 1), new.dtype)
        for person in range(result.shape[1]):
            own = slice(*self.starts_[person : person + 2])
            part = coefficients[:, own]
            # |x - sum c_i a_i|^2 from the products that are already computed
            if self.gram_ is None:
                square = ((part @ self.images_[own]) ** 2).sum(axis=1)
            else:
                square = ((part @ self.gram_[own, own]) * part).sum(axis=1)
            left = np.sqrt(np.maximum(1 - 2 * (part * products[:, own]).sum(axis=1) + square, 0))
            result[:, person] = left / np.maximum(np.linalg.norm(part, axis=1), np.finfo(new.dtype).eps)
        return result

    def _ridges(self, rotated: Array) -> Array:
        """Return a ridge for each new image (n_new, 1), from its products with the eigenvectors."""
        least = self.ridge * len(self.images_) / RIDGE_IMAGES
        if not self.adaptive:
            return np.full((len(rotated), 1), least)
        features = self.images_.shape[1]
        spanned = self.powers_ > SPAN * self.powers_.max()
        powers, grid = self.powers_[spanned, None], least * GRID  # their sums are (n_spanned, n_grid)
        # energy of the image, of norm 1, along each direction of the training images, and outside their span
        energies = rotated[:, spanned].astype(np.float64) ** 2
        if self.gram_ is not None:  # products with the images are larger by the root of the power of a direction
            energies /= powers[:, 0]
        beside = np.maximum(1 - energies.sum(axis=1, keepdims=True), 0)
        misfits = np.maximum(energies @ (1 / (powers + grid)) + beside / grid, np.finfo(np.float64).tiny)
        # minus twice the log-likelihood (n_new, n_grid), at the most likely variance of the coefficients
        costs = features * np.log(misfits) + np.log(powers + grid).sum(axis=0)
        costs += (features - len(powers)) * np.log(grid)  # directions outside the span have no power but the ridge
        likeliest = grid[costs.argmin(axis=1)]
        return np.asarray(np.maximum(likeliest - SPARED * least, least)[:, None])


def _products(images: Array) -> tuple[Array, bool]:
    """Return the products, in double precision, of all images or, if fewer, pixels, and whether of pixels."""
    of_pixels = len(images) > images.shape[1]
    rows = images.astype(np.float64)
    return (rows.T @ rows if of_pixels else rows @ rows.T), of_pixels


class Discriminant:
    """The Mahalanobis distance from each person's mean image, in the space of the linear discriminants (Fisher 1936).

    The covariance is that within people, shrunk towards equal variances of all pixels.
    """

    def fit(self, X: Array, y: Labels) -> Discriminant:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        images = X.astype(np.float64)
        counts = np.bincount(y)
        means = np.zeros((len(counts), images.shape[1]))
        np.add.at(means, y, images)
        means /= counts[:, None]
        freedom = len(images) - len(counts)  # 0 with one image of each, where the variance of all images is taken
        deviations = images - (means[y] if freedom else images.mean(axis=0))
        between = means - means.mean(axis=0)
        # Deviations divided so have as products the covariance times 1 - SHRINKAGE, to which `_solve` adds the rest.
        solved = _solve(deviations / np.sqrt(max(freedom, len(counts) - 1, 1) / (1 - SHRINKAGE)), between)
        # Discriminants are combinations of these (n_people, n_pixels) rows, so a system of people is enough. Its
        # eigenvalues, in ascending order, are sums of squares of the means in units of the variance within people.
        powers, directions = np.linalg.eigh(between @ solved.T)
        kept = powers > SPAN * max(powers[-1], np.finfo(np.float64).tiny)
        # The covariance is the identity along these directions (n_pixels, n_kept).
        projection = solved.T @ (directions[:, kept] / np.sqrt(powers[kept]))
        self.projection_ = projection.astype(X.dtype)
        self.means_ = (means @ projection).astype(X.dtype)  # (n_people, n_kept)
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        return np.asarray(cdist(X @ self.projection_, self.means_), X.dtype)


def _solve(deviations: Array, rows: Array) -> Array:
    """Return the rows times the inverse of the covariance ``deviations.T @ deviations``, after it was shrunk."""
    # The products of the deviations are 1 - SHRINKAGE of it; the rest is the identity times the pixels' mean variance.
    least = SHRINKAGE / (1 - SHRINKAGE) * (deviations**2).sum() / deviations.shape[1]
    least = max(least, np.finfo(np.float32).tiny)
    if deviations.shape[1] <= len(deviations):
        system = deviations.T @ deviations + least * np.eye(deviations.shape[1])
        return np.asarray(cho_solve(cho_factor(system), rows.T).T)
    # With fewer images than pixels, the identity of Woodbury takes a system of images.
    system = deviations @ deviations.T + least * np.eye(len(deviations))
    return np.asarray((rows - cho_solve(cho_factor(system), deviations @ rows.T).T @ deviations) / least)


class Weights(NamedTuple):
    """The exponents of the two distances in their product; they are 0 to 1, and their sum is 1."""

    residual: float = 1.0  # class residuals
    discriminant: float = 0.0  # linear discriminants


ALONE = Weights()
# Cross-validation chooses among these, a grid set on splits 0 and 1 of ORL, Extended Yale B, MNIST and digits.
MIXTURES = tuple(Weights(1 - share, share) for share in (0.5, 0.3, 0.7, 1.0, 0.0))  # of equals the first is taken


class Mixture:
    """The weighted geometric mean of the relative distances of :class:`ClassResidual` and :class:`Discriminant`."""

    def __init__(self, weights: Weights = ALONE) -> None:
        self.weights = weights

    def fit(self, X: Array, y: Labels) -> Mixture:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        parts: tuple[ClassResidual | Discriminant, ...] = ClassResidual(adaptive=True), Discriminant()
        self.parts_ = [part.fit(X, y) for part, weight in zip(parts, self.weights, strict=True) if weight > 0]
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        found = [part.distances(X) for part in self.parts_]
        if len(found) == 1:
            return found[0]
        weights = [weight for weight in self.weights if weight > 0]
        return np.asarray(np.exp(mixed([np.log(relative_distances(one)) for one in found], weights)))


def mixed(logarithms: Iterable[Array], weights: Iterable[float]) -> Array:
    """Return the weighted sum of logarithms of relative distances, which have no unit and can be multiplied."""
    return np.asarray(sum(weight * one for one, weight in zip(logarithms, weights, strict=True) if weight))


def distances_of(classifier: Any, data: Array, missing: Mask, parts: Decomposition, white: float) -> Array:
    """Return the distances (n_images, n_people) of new images by a mixture or by :class:`.CoveredFaces`."""
    if isinstance(classifier, Mixture):
        return classifier.distances(parts.cleaned)
    images, noise = np.where(missing, parts.reconstructions, data), parts.noise[:, 0] * white
    return np.asarray(classifier.distances(parts.cleaned, images, noise))


# --- choices by images that are left out ------------------------------------------------------------------------------


def can_choose(people: Labels) -> bool:
    """Return whether images can be left out: there are two people or more, and two images or more of each."""
    counts = np.bincount(people)
    return len(counts) > 1 and bool(counts.min() > 1)


def image_folds(people: Labels) -> list[Labels]:
    """Return the rows that are left out in each fold; some of everybody's images stay if there are two of each."""
    folds = StratifiedKFold(min(FOLDS, int(np.bincount(people).min())), shuffle=True, random_state=0)
    return [new for _, new in folds.split(people, people)]


def rows_to_choose_by(people: Labels) -> tuple[Labels, Labels]:
    """Return the rows of at most 500 images of people drawn at random, and who is on them, numbered without gaps."""
    order = np.random.default_rng(0).permutation(people.max() + 1)
    counts = np.cumsum(np.bincount(people)[order])  # images of the first person drawn, of the first two, and so on
    enough = max(2, int(np.searchsorted(counts, MOST_CHOOSING, side="right")))
    rows = np.flatnonzero(np.isin(people, order[:enough]))
    if len(rows) > MOST_CHOOSING:  # two people with more images: some of each, evenly spread
        most = MOST_CHOOSING // 2
        both = [rows[people[rows] == person] for person in np.unique(people[rows])]
        rows = np.sort(np.concatenate([own[:: -(-len(own) // most)] for own in both]))
    return rows, np.unique(people[rows], return_inverse=True)[1]


def limit_scores(
    images: Array, reconstructions: Array, missing: Mask, people: Labels, scale: float, limits: Iterable[float]
) -> dict[float, float]:
    """Return for each limit of cleaning the :func:`probability` of the right person by class residuals."""
    scores, classifier = {}, ClassResidual(adaptive=True)
    for limit in limits:
        cleaned = winsorise(images, reconstructions, limit, scale, missing)
        scores[limit] = probability(left_out(classifier, cleaned, people), people)
    return scores


def mixture_scores(images: Array, people: Labels) -> dict[Weights, float]:
    """Return for each mixture of distances the :func:`probability` of the right person on cleaned images."""
    found = [left_out(one, images, people) for one in (ClassResidual(adaptive=True), Discriminant())]
    return {weights: probability(mixed(found, weights), people) for weights in MIXTURES}


def left_out(classifier: ClassResidual | Discriminant, images: Array, people: Labels) -> Array:
    """Return logarithms of relative distances (n_images, n_people) by what was fitted without an image's fold."""
    result = np.empty((len(people), people.max() + 1))
    folds = image_folds(people)
    if isinstance(classifier, ClassResidual):
        fitted: Iterable[Any] = classifier.folds(images, people, folds)
    else:
        rest = [np.delete(np.arange(len(people)), new) for new in folds]
        fitted = (Discriminant().fit(images[rows], people[rows]) for rows in rest)
    for new, one in zip(folds, fitted, strict=True):
        result[new] = np.log(relative_distances(one.distances(images[new])))
    return result


def probability(logarithms: Array, people: Labels) -> float:
    """Return the geometric mean of the probabilities of the right people, from `logarithms` of distances."""
    # How much further than the right person everybody is, on a logarithmic scale.
    further = logarithms - np.take_along_axis(logarithms, people[:, None], axis=1)
    return round(float(np.exp(max(-special.logsumexp(-power * further, axis=1).mean() for power in POWERS))), DIGITS)


# --- the threshold of unknown people, and its error rates -------------------------------------------------------------


class LeftOut(NamedTuple):
    """Left-out images of all folds, as judged by what was learnt without the images and the unknown people."""

    people: Labels
    unknown: Mask  # whether that person was left out, too
    distances: Array  # relative, from the nearest person
    noise: Array  # (n_images, n_measures)
    unlike: Array  # the results of :func:`.images.unlikeness`: this one and the next
    unexplained: Array
    corrupted: Array  # shares of pixels


NOBODY = LeftOut(np.zeros(0, np.intp), np.zeros(0, bool), np.zeros(0), np.zeros((0, 4)), *np.zeros((3, 0)))


class Rate(NamedTuple):
    """An error rate, and its confidence interval from `low` to `high`; NaN and 0 to 1 if nothing tells it."""

    mean: float = math.nan
    low: float = 0.0
    high: float = 1.0


class Calibration(NamedTuple):
    """A threshold of relative distances, and limits; the attributes of :class:`.FaceRecognizer` explain them."""

    threshold: float = math.nan
    acceptance: Rate = Rate()
    rejection: Rate = Rate()
    noise: Array | None = None
    unlike: float = math.inf
    faceless: float = math.inf
    unexplained: float = math.inf
    corrupted: float = math.nan


def people_folds(people: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Yield for each fold the images of people who are left out, once each, and left-out images of people who stay."""
    rng = np.random.default_rng(0)
    n_people = int(people.max()) + 1
    folds = PEOPLE_FOLDS if len(people) <= MANY else FOLDS_OF_MANY
    # `fold_of` is the fold in which each person is left out, `image_fold` that in which an image is left out while its
    # person stays; -1 for none.
    fold_of = rng.permutation(n_people) % folds if n_people >= UNKNOWN_LEAST else np.full(n_people, -1)
    image_fold = np.full(len(people), -1)
    for person in range(n_people):
        own = rng.permutation(np.flatnonzero(people == person))
        if len(own) > 1:  # a person's only image always stays
            others = np.delete(np.arange(folds), fold_of[person]) if fold_of[person] >= 0 else np.arange(folds)
            # Each person begins at another fold, so that people with few images do not all use the first folds.
            image_fold[own] = np.roll(others, person)[np.arange(len(own)) % len(others)]
    for fold in range(folds):
        unknown = np.flatnonzero(fold_of[people] == fold)
        known = rng.permutation(np.flatnonzero(image_fold == fold))[:MOST_TESTED]
        if len(unknown) or len(known):
            yield unknown, np.sort(known)


def pixel_grid(image_shape: tuple[int, int] | None, n_pixels: int) -> tuple[Labels, tuple[int, int] | None]:
    """Return a grid of at most 1300 pixels, all, or every second, third, ... row and column, and its shape."""
    if image_shape is None:  # every second, third, ... number; the step is a quotient, rounded up
        return np.arange(0, n_pixels, -(-n_pixels // GRID_PIXELS)), None
    numbers, step = np.arange(n_pixels).reshape(image_shape), 1
    while numbers[::step, ::step].size > GRID_PIXELS:
        step += 1
    grid = numbers[::step, ::step]
    return grid.ravel(), (len(grid), grid.shape[1])


def calibrated(found: LeftOut, n_people: int, rate: float) -> Calibration:
    """Set the threshold at which a share `rate` of the images of unknown people is expected to pass.

    With two people nobody can play unknown, and the threshold rejects a share `rate` of the known people's images
    instead. With one, or with nothing to judge by, it is 0, which nobody passes.
    """
    known, unknown = (found.distances[found.unknown == kind] for kind in (False, True))
    name, face = unlike_limit(found.unlike[~found.unknown]), unlike_limit(found.unlike[found.unknown])
    name = face if math.isinf(name) else name  # people who stay set the limit of a name, if they are enough
    limits: dict[str, Any] = {
        "unlike": name,
        "faceless": max(name, face),  # what is near enough for a name is never reported as not a face
        "unexplained": noise_limit(found.unexplained, found.unknown),
        "corrupted": float(found.corrupted[~found.unknown].mean()) if len(known) else math.nan,
    }
    acceptance = Rate()
    if len(unknown):
        threshold, passed = _threshold(unknown, found.people[found.unknown], rate)
        acceptance = rate_of(passed, len(unknown))
    elif n_people == 1 or not len(known):
        return Calibration(0.0, **limits)
    else:
        threshold = float(np.quantile(known, 1 - rate))
    noise = _noise_range(found.noise) if len(found.noise) >= ENOUGH_ALIKE else None  # None: too few images to tell
    owners = found.people[~found.unknown]
    rejected = np.array([(known[owners == person] > threshold).mean() for person in np.unique(owners)])
    return Calibration(threshold, acceptance, rate_of(rejected, len(known)), noise, **limits)


def _threshold(distances: Array, people: Labels, rate: float) -> tuple[float, Array]:
    """Return the threshold that a share `rate` of unknown people's images passes, and the share of each person."""
    # The threshold is a quantile. Images of one person resemble each other, so its level is chosen by leaving out one
    # person at a time: `passed` has the shares of each person's images that pass the quantile of all others.
    levels = rate * NOMINAL
    present = np.unique(people)
    passed = np.empty((len(levels), len(present)))
    for column, person in enumerate(present):
        own = people == person
        thresholds = np.quantile(distances[~own], levels)
        passed[:, column] = (distances[own] <= thresholds[:, None]).mean(axis=1)
    best = max(int(np.searchsorted(passed.mean(axis=1), rate, side="right")) - 1, 0)  # the mean never falls
    return float(np.quantile(distances, levels[best])), passed[best]


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


def _noise_range(noise: Array) -> Array:
    """Return the range (2, n_measures) of the noise measures (n_images, n_measures) of left-out images."""
    found = np.quantile(noise, ALIKE, axis=0)
    # If there is the scale of the finest detail, it alone judges whether an image has too little noise: residuals of
    # training images are smaller than those of left-out images, because the model was fitted to them.
    if noise.shape[1] > MEASURES_OF_RESIDUALS + 1:
        found[0, :MEASURES_OF_RESIDUALS] = 0
    return np.asarray(found)


def other_noise(noise_range: Array | None, noise: Array) -> list[str | None]:
    """Return for each new image "less" or "more" if the training images are noisier or less noisy, otherwise None."""
    if noise_range is None:  # too few images were left out to tell
        return [None] * len(noise)
    less, more = (noise < noise_range[0]).any(axis=1), (noise > noise_range[1]).any(axis=1)
    # An image without fine detail may also leave large residuals, so "less" comes first.
    return ["less" if low else "more" if high else None for low, high in zip(less, more, strict=True)]


def unlike_limit(unlike: Array) -> float:
    """Return the limit of new images' unlikeness from that of left-out images, of which NaN say nothing."""
    known = unlike[~np.isnan(unlike)]
    return MARGIN * float(np.quantile(known, QUANTILE)) if len(known) >= ENOUGH else math.inf


def noise_limit(unexplained: Array, unknown: Mask) -> float:
    """Return the share of an image's coarse contrast beyond which the model explains so little that it is noise."""
    # An unknown face is not noise, so both kinds of left-out images count.
    groups = [some[~np.isnan(some)] for some in (unexplained[~unknown], unexplained[unknown])]
    quantiles = [float(np.quantile(some, QUANTILE)) for some in groups if len(some) >= ENOUGH]
    return max(UNEXPLAINED, *quantiles) if quantiles else math.inf


def limits_of_added(limits: dict[Any, float], labels: Array, unlike: Array, face: float) -> dict[Any, float]:
    """Return for each person who is added the unlikeness beyond which an image does not get this person's name."""
    found = {}
    for person in np.unique(labels):
        own = unlike[labels == person]
        largest = MARGIN * float(own.max()) if not np.isnan(own).any() else math.inf
        found[person] = max(face, largest, limits.get(person, 0.0))
    return found
