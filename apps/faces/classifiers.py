"""Classifiers of faces by distance: one number for each person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import normalize

from visionnmf._checks import check_flag, check_number

__all__ = ["ClassResidual", "DistanceClassifier", "Nearest", "relative_distance", "whitening"]

Array = NDArray[Any]
Labels = NDArray[np.intp]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
SPARED = 10.0  # clean images seem to want so many ridges, and are better off with one
GRID = 2.0 ** np.arange(0, 16, 0.5)  # of ridges, in units of the least
SPAN = 1e-9  # of the largest power: directions with less are rounding errors
BATCH = 512  # new images at a time: their coefficients are as many rows of all training images


class DistanceClassifier(Protocol):
    """What :class:`ClassResidual` and :class:`Nearest` have in common."""

    def fit(self, X: Array, y: Labels) -> DistanceClassifier:
        """Learn people `y`, numbered from 0 without gaps, from rows of `X`."""

    def distances(self, X: Array) -> Array:
        """Return the distance of each row from each person [shape=(n_samples, n_people), >= 0]."""


def relative_distance(distances: Array) -> Array:
    """Compare the distance from the nearest person with that from people at large, by their harmonic mean.

    1 means no nearer to this person than to anybody, near 0 much nearer; for class residuals it is, but for a constant,
    one over the sparsity concentration of Wright et al. (2009). It does not depend on the number of people.

    Parameters
    ----------
    distances : ndarray [shape=(n_samples, n_people), >= 0]

    Returns
    -------
    ndarray [shape=(n_samples,), in [0, 1]]
    """
    least = np.maximum(distances.min(axis=1), np.finfo(distances.dtype).tiny)
    return np.asarray((least[:, None] / np.maximum(distances, least[:, None])).mean(axis=1))


class ClassResidual(BaseEstimator):
    """Which person's images explain the new one: collaborative representation (Zhang, Yang, Feng 2011).

    The new image is written as a ridged combination of all images; a person's distance is what that person's part
    leaves unexplained, over the size of its coefficients.

    Parameters
    ----------
    ridge : float, default=0.01
        For 700 images of unit norm, and in proportion for another number, as in the paper (which has 0.001).
    adaptive : bool, default=False
        Whether new images that are noisy get more. A new image is taken for a normal combination of the training
        images plus normal noise in every pixel; the ratio of the variances, which is Bayes' ridge, is the one under
        which it is likeliest (evidence maximisation, MacKay 1992). Ten ridges are subtracted, as clean images that
        resemble no training image quite get a few, and the ridge is the least.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import ClassResidual
    >>> X = np.array([[1.0, 0, 0], [0.9, 0.1, 0], [0, 0, 1], [0, 0.1, 0.9]])
    >>> people = ClassResidual().fit(X, np.array([0, 0, 1, 1]))
    >>> people.distances(np.array([[2.0, 0.1, 0], [0, 0, 3]])).argmin(axis=1).tolist()
    [0, 1]
    """

    def __init__(self, ridge: float = 0.01, *, adaptive: bool = False) -> None:
        self.ridge = ridge
        self.adaptive = adaptive

    def fit(self, X: Array, y: Labels) -> ClassResidual:
        """Learn people.

        Parameters
        ----------
        X : ndarray [shape=(n_samples, n_features)]
        y : ndarray of int [shape=(n_samples,)]
            People, numbered from 0 without gaps.

        Returns
        -------
        ClassResidual

        Raises
        ------
        ParameterError
            When a parameter is not allowed.
        """
        self._check_parameters()
        images = normalize(X)
        return self._fit(images, y, *_products(images))

    def folds(self, X: Array, y: Labels, folds: Iterable[Labels]) -> Iterator[tuple[ClassResidual, Labels]]:
        """Yield, fold by fold, a classifier that was fitted without the fold, whose products are those of all images.

        Parameters
        ----------
        X : ndarray [shape=(n_samples, n_features)]
        y : ndarray of int [shape=(n_samples,)]
            People, numbered from 0.
        folds : iterable of ndarray of int
            The rows that are left out.

        Yields
        ------
        classifier : ClassResidual
        present : ndarray of int [shape=(n_people,)]
            Whom its columns of distances stand for.
        """
        self._check_parameters()
        images = normalize(X)
        products, of_pixels = _products(images)
        for new in folds:
            rest = np.delete(np.arange(len(images)), new)
            if of_pixels:
                left_out = images[new].astype(np.float64)
                remaining = products - left_out.T @ left_out
            else:
                remaining = products[np.ix_(rest, rest)]
            present, numbers = np.unique(y[rest], return_inverse=True)
            yield clone(self)._fit(images[rest], numbers, remaining, of_pixels), present

    def _check_parameters(self) -> None:
        check_number(self.ridge, "ridge", without_low=True)
        check_flag(self.adaptive, "adaptive")

    def _fit(self, images: Array, y: Labels, products: Array, of_pixels: bool) -> ClassResidual:
        """Learn people from images of unit norm, and the products of all pairs of images, or of pixels."""
        powers, directions = np.linalg.eigh(products)
        self.powers_ = np.maximum(powers, 0)
        order = np.argsort(y, kind="stable")
        dtype = images.dtype
        self.images_, self.starts_ = images[order], np.searchsorted(y[order], np.arange(y.max() + 2))
        self.gram_: Array | None = None
        if of_pixels:
            self.directions_ = directions.astype(dtype)
        else:
            self.directions_ = directions[order].astype(dtype)
            self.gram_ = products[np.ix_(order, order)].astype(dtype)
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each row from each person.

        Parameters
        ----------
        X : ndarray [shape=(n_samples, n_features)]

        Returns
        -------
        ndarray [shape=(n_samples, n_people), >= 0]
        """
        new = normalize(X)
        result = np.empty((len(X), len(self.starts_) - 1), new.dtype)
        for start in range(0, len(X), BATCH):
            result[start : start + BATCH] = self._distances(new[start : start + BATCH])
        return result

    def _distances(self, new: Array) -> Array:
        products = new @ self.images_.T
        # of the new images in the directions of the training images, times the root of the directions' powers or not
        rotated = new @ self.directions_ if self.gram_ is None else products @ self.directions_
        shrunk = rotated / (self.powers_ + self._ridges(rotated)).astype(new.dtype)
        coefficients = shrunk @ self.directions_.T
        if self.gram_ is None:
            coefficients = coefficients @ self.images_.T
        result = np.empty((len(new), len(self.starts_) - 1), new.dtype)
        for person in range(result.shape[1]):
            own = slice(*self.starts_[person : person + 2])
            part = coefficients[:, own]
            # |x - sum c_i a_i|^2 from the products at hand
            if self.gram_ is None:
                square = ((part @ self.images_[own]) ** 2).sum(axis=1)
            else:
                square = ((part @ self.gram_[own, own]) * part).sum(axis=1)
            left = np.sqrt(np.maximum(1 - 2 * (part * products[:, own]).sum(axis=1) + square, 0))
            result[:, person] = left / np.maximum(np.linalg.norm(part, axis=1), np.finfo(new.dtype).eps)
        return result

    def _ridges(self, rotated: Array) -> Array:
        """Return the ridge of each new image, whose products with the training images were rotated, as a column."""
        least = self.ridge * len(self.images_) / 700
        if not self.adaptive:
            return np.full((len(rotated), 1), least)
        features = self.images_.shape[1]
        spanned = self.powers_ > SPAN * self.powers_.max()
        powers, grid = self.powers_[spanned, None], least * GRID
        # what the image, of norm 1, has in each direction of the training images, and beside them
        energies = rotated[:, spanned].astype(np.float64) ** 2
        if self.gram_ is not None:
            energies /= powers[:, 0]
        beside = np.maximum(1 - energies.sum(axis=1, keepdims=True), 0)
        misfits = np.maximum(energies @ (1 / (powers + grid)) + beside / grid, np.finfo(np.float64).tiny)
        # minus twice the logarithm of the likelihood, at the likeliest variance of the coefficients
        costs = features * np.log(misfits) + np.log(powers + grid).sum(axis=0)
        costs += (features - len(powers)) * np.log(grid)
        likeliest = grid[costs.argmin(axis=1)]
        return np.asarray(np.maximum(likeliest - SPARED * least, least)[:, None])


def _products(images: Array) -> tuple[Array, bool]:
    """Return the products of all pairs of images, or of all pairs of pixels where these are fewer, and which it was.

    In double precision: else small powers are rounding errors.
    """
    of_pixels = len(images) > images.shape[1]
    rows = images.astype(np.float64)
    return (rows.T @ rows if of_pixels else rows @ rows.T), of_pixels


class Nearest(BaseEstimator):
    """The nearest image of each person.

    Parameters
    ----------
    cosine : bool, default=False
        Whether the distance is one minus the cosine, else it is Euclidean.
    whiten : float or None, default=None
        Divide each principal direction of the training set, about the origin, by the root of its power plus this share
        of the mean power: directions in which all faces vary, such as light, then count no more than others.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import Nearest
    >>> people = Nearest().fit(np.array([[1.0, 0], [0, 1]]), np.array([0, 1]))
    >>> people.distances(np.array([[0.9, 0.2]])).argmin(axis=1).tolist()
    [0]
    """

    def __init__(self, *, cosine: bool = False, whiten: float | None = None) -> None:
        self.cosine = cosine
        self.whiten = whiten

    def fit(self, X: Array, y: Labels) -> Nearest:
        """Learn people.

        Parameters
        ----------
        X : ndarray [shape=(n_samples, n_features)]
        y : ndarray of int [shape=(n_samples,)]
            People, numbered from 0 without gaps.

        Returns
        -------
        Nearest

        Raises
        ------
        ParameterError
            When a parameter is not allowed.
        """
        check_flag(self.cosine, "cosine")
        self.transform_: Array | None = None
        if self.whiten is not None:
            self.transform_ = whitening(X, check_number(self.whiten, "whiten"))
        order = np.argsort(y, kind="stable")
        self.images_ = self._prepared(X)[order]
        self.starts_ = np.searchsorted(y[order], np.arange(y.max() + 1))
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each row from each person.

        Parameters
        ----------
        X : ndarray [shape=(n_samples, n_features)]

        Returns
        -------
        ndarray [shape=(n_samples, n_people), >= 0]
        """
        new = self._prepared(X)
        products = new @ self.images_.T
        if self.cosine:
            table = np.maximum(1 - products, 0)
        else:
            squares = (new**2).sum(axis=1)[:, None] - 2 * products + (self.images_**2).sum(axis=1)
            table = np.sqrt(np.maximum(squares, 0))
        return np.asarray(np.minimum.reduceat(table, self.starts_, axis=1))

    def _prepared(self, X: Array) -> Array:
        rotated = X if self.transform_ is None else X @ self.transform_
        return normalize(rotated) if self.cosine else rotated


def whitening(X: Array, share: float) -> Array:
    """Return the matrix that divides each principal direction, about the origin, by the root of its power.

    Parameters
    ----------
    X : ndarray [shape=(n_samples, n_features)]
    share : float
        Of the mean power, that is added to each.

    Returns
    -------
    ndarray [shape=(n_features, n_features), dtype of `X`]
    """
    power, directions = np.linalg.eigh(X.T.astype(np.float64) @ X / len(X))
    least = np.finfo(X.dtype).tiny  # of all codes 0: the root of its inverse must be finite in their type
    power = np.maximum(power, 0) + max(share * power.mean(), least)
    return np.asarray(directions / np.sqrt(power)).astype(X.dtype)
