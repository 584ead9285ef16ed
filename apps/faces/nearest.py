"""What scikit-learn asks of a classifier of faces, from the distances of images from people."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from . import input_checks
from .classifiers import relative_distances

__all__ = ["NearestPerson"]

Array = NDArray[Any]


class NearestPerson(ClassifierMixin):
    """A classifier that takes the nearest person; `classes_` are the labels of the people."""

    classes_: Array

    @abstractmethod
    def distances(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return the distance of each image from each person, in the order of ``classes_``."""

    def predict(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return the label of the nearest person on each image, at any distance; see :meth:`distances`."""
        distances = self.distances(X, mask)  # raises if there are no people yet
        return np.asarray(self.classes_[distances.argmin(axis=1)])

    def decision_function(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return how near each person is to each image, for scorers such as "top_k_accuracy".

        Parameters
        ----------
        X, mask : array-like [shape=(n_samples, n_pixels)]
            As for :meth:`distances`.

        Returns
        -------
        ndarray [shape=(n_samples, n_people), or (n_samples,) with two people]
            Distances over the harmonic mean of those from all people, times -1, so that the nearest person has the
            largest number and rows can be compared. With two people, as scikit-learn has it, the number of the second
            one minus that of the first.
        """
        near = -relative_distances(self.distances(X, mask))
        return near[:, 1] - near[:, 0] if near.shape[1] == 2 else near

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, mask: ArrayLike | None = None
    ) -> float:
        """Return the share of images on which the nearest person is that of `y`; see :meth:`distances`."""
        input_checks.check_weights_of_images(sample_weight)
        return float(accuracy_score(y, self.predict(X, mask), sample_weight=sample_weight))
