"""Classifiers that give the distance of an image from each person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import normalize

from visionnmf._checks import check_flag, check_number

Array = NDArray[Any]
Labels = NDArray[np.intp]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
RIDGE_IMAGES = 700  # the ridge is given for so many images, and grows in proportion to their number
SPARED = 10.0  # ridges that the evidence also asks for on clean images, which are better off with one
GRID = 2.0 ** np.arange(0, 16, 0.5)  # (n_grid,) candidate ridges, in units of the smallest
SPAN = 1e-9  # of the largest power; directions with less are rounding errors
FURTHEST = 1e-6  # the nearest distance over the largest one of an image
BATCH = 512  # new images at a time; each needs a row of coefficients of all training images


def relative_distance(distances: Array) -> Array:
    """Return the distance from the nearest person over the harmonic mean of the distances from all people, (n_images,).

    `distances` are (n_images, n_people).
    It is near 0 if that person is much nearer than the others, and 1 if nobody is, whatever the number of people. For
    class residuals it is, up to a constant, one over the sparsity concentration of Wright et al. (2009).
    """
    least = np.maximum(distances.min(axis=1), np.finfo(distances.dtype).tiny)
    # The mean of least / distance over the people is `least` over the harmonic mean of the distances.
    return np.asarray((least[:, None] / np.maximum(distances, least[:, None])).mean(axis=1))


def relative_distances(distances: Array) -> Array:
    """Return distances (n_images, n_people) in units in which each image's least is :func:`relative_distance`.

    That is the least over the harmonic mean of all: near 0 if one person is much nearer than the others, and 1 if
    nobody is. A person more than a million times as far as the nearest counts as a million times as far, so all stay
    finite.
    """
    least = np.maximum(distances.min(axis=1, keepdims=True), np.finfo(distances.dtype).tiny)
    return np.asarray(
        relative_distance(distances)[:, None] / np.maximum(least / np.maximum(distances, least), FURTHEST)
    )


class ClassResidual(BaseEstimator):
    """Collaborative representation: which person's images explain the new one (Zhang, Yang, Feng 2011).

    The new image is written as a linear combination of all images, with a ridge on the coefficients. The distance from
    a person is the residual of that person's part over the norm of its coefficients. `ridge` is that for 700 images of
    unit norm; it grows in proportion to their number. The paper has 0.001.

    With `adaptive`, noisy new images get a larger ridge. A new image is modelled as a normal combination of the
    training images plus normal noise in every pixel. The ratio of the two variances is Bayes' ridge, and the most
    likely one is taken (evidence maximisation, MacKay 1992), minus ten times `ridge`, which clean images also get;
    `ridge` is the minimum.
    """

    def __init__(self, ridge: float = 0.01, *, adaptive: bool = False) -> None:
        # of the squared coefficients, for a gallery of 700 images of unit norm; grows with the number of images
        self.ridge = ridge
        # whether each new image gets a ridge of its own, a larger one if it is noisier (see the class)
        self.adaptive = adaptive

    def fit(self, X: Array, y: Labels) -> ClassResidual:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        check_number(self.ridge, "ridge", without_low=True)  # > 0
        check_flag(self.adaptive, "adaptive")
        images = normalize(X)
        # The products of all pairs of images, or of pixels if these are fewer, and which; `_fit` decomposes them.
        products, of_pixels = _products(images)
        return self._fit(images, y, products, of_pixels)

    def folds(self, X: Array, y: Labels, folds: Iterable[Labels]) -> Iterator[ClassResidual]:
        """Yield for each fold, rows left out, a classifier fitted without it; somebody's images must not all be in one.

        The products of all images are computed once, and those of a fold are taken away. They are those of all pairs of
        images, (n_images, n_images), or if there are fewer pixels than images those of pixels, (n_pixels, n_pixels).
        """
        images = normalize(X)
        products, of_pixels = _products(images)
        for new in folds:
            rest = np.delete(np.arange(len(images)), new)
            if of_pixels:  # the products of pixels are sums over the images
                left_out = images[new].astype(np.float64)
                remaining = products - left_out.T @ left_out
            else:
                remaining = products[np.ix_(rest, rest)]
            yield clone(self)._fit(images[rest], y[rest], remaining, of_pixels)

    def _fit(self, images: Array, y: Labels, products: Array, of_pixels: bool) -> ClassResidual:
        """Learn people from images of unit norm and the products of all pairs of images or of pixels.

        The eigenvalues and eigenvectors of the products are kept, because with them the coefficients of a new image for
        any ridge cost two products of matrices. ``gram_``, the products of images, is None if they are of pixels.
        """
        powers, directions = np.linalg.eigh(products)
        self.powers_ = np.maximum(powers, 0)  # the eigenvalues
        order = np.argsort(y, kind="stable")
        dtype = images.dtype
        self.images_ = images[order]  # (n_images, n_pixels), person by person
        self.starts_ = np.searchsorted(y[order], np.arange(y.max() + 2))  # each person's first row, and the end
        self.gram_: Array | None = None
        if of_pixels:
            self.directions_ = directions.astype(dtype)
        else:
            self.directions_ = directions[order].astype(dtype)
            self.gram_ = products[np.ix_(order, order)].astype(dtype)
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        new = normalize(X)
        # `starts_` has each person's first row and the end, one item more than people.
        result = np.empty((len(X), len(self.starts_) - 1), new.dtype)
        for start in range(0, len(X), BATCH):
            result[start : start + BATCH] = self._distances(new[start : start + BATCH])
        return result

    def _distances(self, new: Array) -> Array:
        """Return the distances (n_new, n_people) of images of unit norm from all people.

        Ridge regression explains each image by all images of the gallery. A person's distance is the residual of that
        person's part alone, divided by the norm of its coefficients.
        """
        # `images_` (n_images, n_pixels) is the gallery, person by person; `starts_` has each person's first row and the
        # end. `powers_` and `directions_` are the eigenvalues and eigenvectors of the products of all pairs of images,
        # `gram_`, or, if there are fewer pixels, of those of pixels; then `gram_` is None.
        products = new @ self.images_.T  # (n_new, n_images)
        # With A the gallery, the coefficients are new A' (A A' + ridge)^-1 = new (A' A + ridge)^-1 A'. Of both inverses
        # only the eigenvalues depend on the ridge, so the new images are rotated to the eigenvectors first.
        rotated = new @ self.directions_ if self.gram_ is None else products @ self.directions_
        # `_ridges` returns the ridge of each new image, (n_new, 1)
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
        """Return a ridge for each new image as a column (n_new, 1).

        `rotated` (n_new, n_directions) are products with the eigenvectors, whose eigenvalues are `powers_`: of the new
        images if the gallery is decomposed by pixels (``gram_`` is None), and otherwise of their products with the
        images of the gallery.
        If `adaptive`, it is the candidate with the highest marginal likelihood (empirical Bayes, see the class), less
        `SPARED` times the smallest candidate, which the likelihood asks for on clean images although they are
        recognised better without it.
        """
        least = self.ridge * len(self.images_) / RIDGE_IMAGES  # `ridge` is given for a gallery of RIDGE_IMAGES images
        if not self.adaptive:
            return np.full((len(rotated), 1), least)
        features = self.images_.shape[1]
        spanned = self.powers_ > SPAN * self.powers_.max()  # directions with less power are rounding errors
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


class Nearest(BaseEstimator):
    """Distance from the nearest image of each person: Euclidean, or with `cosine` one minus the cosine.

    With `whiten`, each principal direction about the origin is divided by the root of its power plus this share of the
    mean power, so that directions in which all faces vary count no more than others.
    """

    def __init__(self, *, cosine: bool = False, whiten: float | None = None) -> None:
        self.cosine = cosine  # whether to compare by the cosine instead of the Euclidean distance
        # Each principal direction is divided by the root of its power plus this share of the mean power, so that a
        # larger share whitens less; None does not whiten.
        self.whiten = whiten

    def fit(self, X: Array, y: Labels) -> Nearest:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        check_flag(self.cosine, "cosine")
        # (n_features, n_features), or None: divides each principal direction by the root of its power, to which the
        # share `whiten` of the mean power is added
        self.transform_ = None if self.whiten is None else whitening(X, check_number(self.whiten, "whiten"))
        order = np.argsort(y, kind="stable")
        self.images_ = self._prepared(X)[order]  # person by person
        self.starts_ = np.searchsorted(y[order], np.arange(y.max() + 1))  # each person's first row
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        # `images_` (n_images, n_features) is the gallery, person by person, and `starts_` has each person's first row.
        new = self._prepared(X)
        products = new @ self.images_.T
        if self.cosine:
            table = np.maximum(1 - products, 0)
        else:
            squares = (new**2).sum(axis=1)[:, None] - 2 * products + (self.images_**2).sum(axis=1)
            table = np.sqrt(np.maximum(squares, 0))
        # of the images of each person the nearest one
        return np.asarray(np.minimum.reduceat(table, self.starts_, axis=1))

    def _prepared(self, X: Array) -> Array:
        """Return images whitened by ``transform_``, None without whitening, and at unit norm for the cosine."""
        rotated = X if self.transform_ is None else X @ self.transform_
        return normalize(rotated) if self.cosine else rotated


def whitening(X: Array, share: float) -> Array:
    """Return the matrix (n, n) by which rows are multiplied to whiten them, learnt from the rows of `X` (n_rows, n).

    It divides each principal direction about the origin by the root of its power, to which the `share` of the mean
    power is added, so that directions of hardly any power, which are noise, are not blown up.
    """
    power, directions = np.linalg.eigh(X.T.astype(np.float64) @ X / len(X))
    least = np.finfo(X.dtype).tiny  # if all codes are 0, the root of its inverse is still finite in their type
    power = np.maximum(power, 0) + max(share * power.mean(), least)
    return np.asarray(directions / np.sqrt(power)).astype(X.dtype)
