"""The distance of an image from each person where images of one person come in several kinds, as objects do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize

from .classifiers import Labels

Array = NDArray[Any]

# Chosen on splits 0 and 1 of ORL, Extended Yale B, MNIST and scikit-learn's digits; see docs/decisions/faces.md.
RIDGE = 0.1  # for kernels that are 1 for equal images
POWER = 4  # of the distance between outputs, which then differ as much as those of residuals and discriminants
LEAST_WIDTH = 1e-9  # of images at unit norm; what differs less is a rounding error
JITTER = 1e-6  # times the number of images, added to the diagonal: kernels of equal images make the system singular
LANDMARKS = 2000  # images of a gallery; the kernel with more of them would take longer than all else


class KernelMachine(BaseEstimator):
    """Ridge regression of who is on an image, with a radial basis function as the kernel of images at unit norm.

    The outputs are 1 for the person on a training image and 0 for everybody else. The distance from a person is the
    fourth power of the Euclidean distance between the outputs of an image and that person's outputs. The width of
    the kernel is such that it is 1 / e at the median distance between training images. Of more than 2000 images, 2000
    are drawn at random, whose distances give the width, and whose kernels span the solution (Nyström's method; Rudi,
    Camoriano, Rosasco 2015).
    """

    def fit(self, X: Array, y: Labels) -> KernelMachine:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        images = normalize(X.astype(np.float64))
        drawn = np.random.default_rng(0).permutation(len(images))[:LANDMARKS]
        rows = np.sort(drawn)
        squares = _squares(images[rows], images[rows])
        self.width_ = _width(squares)
        kernel = np.exp(-squares / self.width_)
        targets = np.eye(y.max() + 1)[y]
        if len(rows) < len(images):
            others = np.exp(-_squares(images, images[rows]) / self.width_)
            kernel, targets = kernel + others.T @ others / RIDGE, others.T @ targets / RIDGE
            kernel[np.diag_indices(len(rows))] += JITTER * len(images)
            return self._solved(images[rows], kernel, targets, 0.0)
        return self._solved(images, kernel, targets, RIDGE)

    def folds(self, X: Array, y: Labels, folds: Iterable[Labels]) -> Iterator[KernelMachine]:
        """Yield for each fold, rows left out, a machine fitted without it, for which products are computed only once.

        Somebody's images must not all be left out, and the width of the kernel is that of all images.
        """
        images, targets = normalize(X.astype(np.float64)), np.eye(y.max() + 1)[y]
        squares = _squares(images, images)
        width = _width(squares)
        kernel = np.exp(-squares / width)
        for new in folds:
            rest = np.delete(np.arange(len(images)), new)
            fitted = KernelMachine()
            fitted.width_ = width
            yield fitted._solved(images[rest], kernel[np.ix_(rest, rest)], targets[rest], RIDGE)

    def _solved(self, images: Array, kernel: Array, targets: Array, ridge: float) -> KernelMachine:
        """Solve for the coefficients (n_images, n_people) of the kernels of `images` at unit norm."""
        self.images_ = images
        system = kernel + ridge * np.eye(len(kernel))
        self.coefficients_ = cho_solve(cho_factor(system, overwrite_a=True), targets)
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        outputs = np.exp(-_squares(normalize(X.astype(np.float64)), self.images_) / self.width_) @ self.coefficients_
        # The squared distance from a person's outputs, which are 1 for this person and 0 for the others.
        squares = np.maximum((outputs**2).sum(axis=1, keepdims=True) + 1 - 2 * outputs, np.finfo(np.float32).tiny)
        return np.asarray(squares ** (POWER / 2)).astype(X.dtype)


def _squares(images: Array, others: Array) -> Array:
    """Return the squared distances (n_images, n_others) between images, in double precision."""
    norms = (images**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)
    return np.asarray(np.maximum(norms - 2 * (images @ others.T), 0))


def _width(squares: Array) -> float:
    """Return the median of squared distances (n_images, n_images) between images, or LEAST_WIDTH if that is more."""
    between = squares[np.triu_indices(len(squares), 1)]
    return max(float(np.median(between)), LEAST_WIDTH) if len(between) else 1.0
