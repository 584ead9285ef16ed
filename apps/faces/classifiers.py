"""Classifiers of faces by distance: one number for each person."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize

from visionnmf._checks import check_flag, check_number

__all__ = ["ClassResidual", "DistanceClassifier", "Nearest", "relative_distance", "whitening"]

Array = NDArray[Any]
Labels = NDArray[np.intp]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
SPARED = 10.0  # clean images seem to want so many ridges, and are better off with one
GRID = 2.0 ** np.arange(0, 16, 0.5)  # of ridges, in units of the least
SPAN = 1e-9  # of the largest power: directions with less are rounding errors


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
        check_number(self.ridge, "ridge", without_low=True)
        check_flag(self.adaptive, "adaptive")
        self.images_ = normalize(X)
        self.labels_ = y
        images = self.images_.astype(np.float64)  # else small powers are rounding errors
        gram = images @ images.T
        powers, directions = np.linalg.eigh(gram)
        self.powers_ = np.maximum(powers, 0)
        dtype = self.images_.dtype
        self.gram_, self.directions_ = gram.astype(dtype), directions.astype(dtype)
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
        products = normalize(X) @ self.images_.T
        rotated = products @ self.directions_
        dtype = products.dtype
        shrunk = rotated / (self.powers_ + self._ridges(rotated)).astype(dtype)
        coefficients = shrunk @ self.directions_.T
        result = np.empty((len(X), self.labels_.max() + 1), dtype)
        for person in range(result.shape[1]):
            own = self.labels_ == person
            part = coefficients[:, own]
            # |x - sum c_i a_i|^2 from the products at hand
            explained = 2 * (part * products[:, own]).sum(axis=1) - ((part @ self.gram_[np.ix_(own, own)]) * part).sum(
                1
            )
            left = np.sqrt(np.maximum(1 - explained, 0))
            result[:, person] = left / np.maximum(np.linalg.norm(part, axis=1), np.finfo(dtype).eps)
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
        energies = rotated[:, spanned].astype(np.float64) ** 2 / powers[:, 0]
        beside = np.maximum(1 - energies.sum(axis=1, keepdims=True), 0)
        misfits = np.maximum(energies @ (1 / (powers + grid)) + beside / grid, np.finfo(np.float64).tiny)
        # minus twice the logarithm of the likelihood, at the likeliest variance of the coefficients
        costs = features * np.log(misfits) + np.log(powers + grid).sum(axis=0)
        costs += (features - len(powers)) * np.log(grid)
        likeliest = grid[costs.argmin(axis=1)]
        return np.asarray(np.maximum(likeliest - SPARED * least, least)[:, None])


class Nearest(BaseEstimator):
    """The nearest image of each person.

    Parameters
    ----------
    cosine : bool, default=False
        Whether the distance is one minus the cosine, else it is Euclidean.
    whiten : float or None, default=None
        Divide each principal direction of the training set, about the origin, by the root of its power plus this share
        of the mean power: directions in which all faces vary, such as light, then count no more than others.
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
