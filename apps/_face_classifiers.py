"""Classifiers of faces by distance: one number for each person."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClassResidual", "DistanceClassifier", "Nearest", "relative_distance"]

Array = NDArray[Any]
Labels = NDArray[np.intp]


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


class ClassResidual:
    """Which person's images explain the new one: collaborative representation (Zhang, Yang, Feng 2011).

    The new image is written as a ridged combination of all images; a person's distance is what that person's part
    leaves unexplained, over the size of its coefficients.

    Parameters
    ----------
    ridge : float, default=0.01
        For 700 images of unit norm, and in proportion for another number, as in the paper (which has 0.001).
    """

    def __init__(self, ridge: float = 0.01) -> None:
        self.ridge = ridge

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
        """
        self.images_ = _unit(X)
        self.labels_ = y
        self.gram_ = self.images_ @ self.images_.T
        ridge = self.ridge * len(X) / 700
        system = self.gram_.astype(np.float64) + ridge * np.eye(len(X))
        self.solver_ = np.linalg.inv(system).astype(X.dtype)
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
        products = _unit(X) @ self.images_.T
        coefficients = products @ self.solver_
        result = np.empty((len(X), self.labels_.max() + 1), X.dtype)
        for person in range(result.shape[1]):
            own = self.labels_ == person
            part = coefficients[:, own]
            # |x - sum c_i a_i|^2 from the products at hand
            explained = 2 * (part * products[:, own]).sum(axis=1) - ((part @ self.gram_[np.ix_(own, own)]) * part).sum(
                1
            )
            left = np.sqrt(np.maximum(1 - explained, 0))
            result[:, person] = left / np.maximum(np.linalg.norm(part, axis=1), np.finfo(X.dtype).eps)
        return result


class Nearest:
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
        """
        self.transform_: Array | None = None
        if self.whiten is not None:
            power, directions = np.linalg.eigh(X.T.astype(np.float64) @ X / len(X))
            power = np.maximum(power, 0) + max(self.whiten * power.mean(), np.finfo(np.float64).tiny)
            self.transform_ = (directions / np.sqrt(power)).astype(X.dtype)
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
        return _unit(rotated) if self.cosine else rotated


def _unit(X: Array) -> Array:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0, norms, 1))
