"""The distance of an image from each person where images of one person vary little."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator

from .classifiers import Labels

Array = NDArray[Any]

# Chosen on splits 0 and 1 of ORL and Extended Yale B; docs/decisions/faces.md has the table.
SHRINKAGE = 0.3  # share of the covariance within people that is that of pixels with equal variances
SPAN = 1e-9  # of the largest variance between people; directions with less are rounding errors


class Discriminant(BaseEstimator):
    """The Mahalanobis distance from each person's mean image, in the space of the linear discriminants (Fisher 1936).

    The covariance is that within people, shrunk towards equal variances of all pixels. What is beside the discriminants
    is as far from all people, and is left out.
    """

    def fit(self, X: Array, y: Labels) -> Discriminant:
        """Learn people `y`, numbered from 0 without gaps, from images as rows.

        With one image of each, their variance within people is not known, and that of all images takes its place.
        """
        images = X.astype(np.float64)
        counts = np.bincount(y)
        means = np.zeros((len(counts), images.shape[1]))
        np.add.at(means, y, images)
        means /= counts[:, None]
        # The degrees of freedom of the covariance within people: images less means, 0 with one image of each.
        freedom = len(images) - len(counts)
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
        # `projection_` (n_pixels, n_kept) has the discriminants, and `means_` (n_people, n_kept) the projected means.
        return np.asarray(cdist(X @ self.projection_, self.means_), X.dtype)


def _solve(deviations: Array, rows: Array) -> Array:
    """Return the rows times the inverse of the covariance ``deviations.T @ deviations``, after it was shrunk.

    `rows` are (n_rows, n_pixels), and `deviations` (n_images, n_pixels) are scaled so that their products are already
    1 - SHRINKAGE of the covariance. The rest of it, SHRINKAGE, is the identity times the mean variance of the pixels.
    """
    least = SHRINKAGE / (1 - SHRINKAGE) * (deviations**2).sum() / deviations.shape[1]
    least = max(least, np.finfo(np.float32).tiny)
    if deviations.shape[1] <= len(deviations):
        system = deviations.T @ deviations + least * np.eye(deviations.shape[1])
        return np.asarray(cho_solve(cho_factor(system), rows.T).T)
    # With fewer images than pixels, the identity of Woodbury takes a system of images.
    system = deviations @ deviations.T + least * np.eye(len(deviations))
    return np.asarray((rows - cho_solve(cho_factor(system), deviations @ rows.T).T @ deviations) / least)
