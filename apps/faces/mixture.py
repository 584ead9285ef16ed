"""The mixture of two distances of an image from each person, with the weights that training images choose."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from visionnmf._checks import check_number, shown
from visionnmf.exceptions import ParameterError

from .classifiers import ClassResidual, Labels, relative_distances
from .discriminants import Discriminant

Array = NDArray[Any]
Part = ClassResidual | Discriminant


class Weights(NamedTuple):
    """The exponents of the two distances in their product; they are 0 to 1, and their sum is 1."""

    residual: float = 1.0  # class residuals
    discriminant: float = 0.0  # linear discriminants


PARTS = ("residual", "discriminant")  # the names of the weights
ALONE = Weights()
# Cross-validation chooses among these, a grid set on splits 0 and 1 of ORL, Extended Yale B, MNIST and digits.
MIXTURES = tuple(Weights(1 - share, share) for share in (0.5, 0.3, 0.7, 1.0, 0.0))  # of equals the first is taken


class Mixture(BaseEstimator):
    """The weighted geometric mean of the relative distances of :class:`.ClassResidual` and :class:`.Discriminant`.

    A classifier without a weight is not fitted, and one that has all the weight gives its distances as they are.
    """

    def __init__(self, weights: Weights = ALONE) -> None:
        self.weights = weights  # of class residuals and linear discriminants

    def fit(self, X: Array, y: Labels) -> Mixture:
        """Learn people `y`, numbered from 0 without gaps, from images as rows."""
        if not isinstance(self.weights, Weights):
            raise ParameterError(f"weights must be Weights of the two distances; got {shown(self.weights)}")
        for name, weight in zip(PARTS, self.weights, strict=True):
            check_number(weight, name, 0, 1)
        if not math.isclose(sum(self.weights), 1, abs_tol=1e-6):
            raise ParameterError(f"weights must sum to 1; got {shown(tuple(self.weights))}")
        parts: tuple[Part, ...] = ClassResidual(adaptive=True), Discriminant()
        self.parts_: list[Part] = [part for part, weight in zip(parts, self.weights, strict=True) if weight > 0]
        for part in self.parts_:
            part.fit(X, y)
        return self

    def distances(self, X: Array) -> Array:
        """Return the distance of each image from each person, (n_images, n_people)."""
        found = [part.distances(X) for part in self.parts_]
        if len(found) == 1:
            return found[0]
        weights = [weight for weight in self.weights if weight > 0]
        return np.asarray(np.exp(mixed([np.log(relative_distances(one)) for one in found], weights)))


def mixed(logarithms: Iterable[Array], weights: Iterable[float]) -> Array:
    """Return the weighted sum of logarithms of relative distances (n_images, n_people), an item for each weight.

    Relative distances have no unit, so that they can be multiplied.
    """
    return np.asarray(sum(weight * one for one, weight in zip(logarithms, weights, strict=True) if weight))
