"""Whether images are like the training images at all: by what common directions leave of a view, and along them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from visionnmf.engine.blocks import one_blas_thread

from .image_codes import prepared

Array = NDArray[Any]

# Chosen on 1400 training photographs of Corel5k; docs/decisions/annotation.md has the figures.
DIRECTIONS = 20  # of a view
QUANTILE = 0.99  # of left-out images
LEAST_LEFT = 2.0**-7  # of a view; rounding alone leaves 0.0005
LEAST, MOST = 300, 2000  # images by which the limit is set


class Likeness(NamedTuple):
    """What tells how unlike the training images others are."""

    directions: Array  # (DIRECTIONS, n_features), orthonormal in the columns of each view, or 0
    deviations: Array  # (n_views, DIRECTIONS): of training images along them
    known: Array  # (n_views, n_known, DIRECTIONS): training images along them, in deviations
    scales: Array  # (n_views, 2): what may be left of a view, and how far the nearest of `known` may be

    def unlikeness(self, X: Array, views: Mapping[str, slice]) -> Array:
        """Return the largest share that is left of a view, or distance, over its scale, of each image (n_images,)."""
        each = zip(views.values(), self.deviations, self.known, strict=True)
        found = [_measured(prepared(X[:, own], True), self.directions[:, own], *of_view) for own, *of_view in each]
        return np.asarray((np.stack(found, axis=1) / self.scales).max(axis=(1, 2)))


@one_blas_thread()
def fit_likeness(X: Array, views: Mapping[str, slice]) -> Likeness | None:
    """Return what tells how unlike the images `X` others are, by leaving out one half, then the other; None of few."""
    some = X[np.random.default_rng(0).permutation(len(X))[:MOST]]
    if len(some) < LEAST:
        return None
    directions, found = np.zeros((DIRECTIONS, X.shape[1]), np.float32), np.empty((len(some), len(views), 2))
    along = []
    for place, own in enumerate(views.values()):
        part = prepared(some[:, own], True)
        for half in (0, 1):
            found[half::2, place] = _measured(part[half::2], *_described(part[1 - half :: 2]))
        directions[:, own], *of_view = _described(part)
        along.append(of_view)
    scales = np.maximum(np.quantile(found, QUANTILE, axis=0), LEAST_LEFT)
    scales *= max(np.quantile((found / scales).max(axis=(1, 2)), QUANTILE), 1.0)  # nor may the largest be larger
    deviations, known = map(np.stack, zip(*along, strict=True))
    return Likeness(directions, deviations, known, scales.astype(np.float32))


def _described(part: Array) -> tuple[Array, Array, Array]:
    """Return directions of a view, the deviations of its rows along them, and the rows along them, in deviations."""
    directions = np.zeros((DIRECTIONS, part.shape[1]), np.float32)
    found = randomized_svd(part, n_components=min(DIRECTIONS, -(-part.shape[1] // 2)), random_state=0)[2]
    directions[: len(found)] = found
    along = part @ directions.T
    deviations = np.maximum(along.std(axis=0), LEAST_LEFT)
    return directions, deviations, along / deviations


def _measured(part: Array, directions: Array, deviations: Array, known: Array) -> Array:
    """Return what directions leave of the norm of each row, 1 or 0, and how far the nearest of `known` is, (n, 2)."""
    along = part @ directions.T
    left = (part**2).sum(axis=1) - (along**2).sum(axis=1)
    along /= deviations
    away = (along**2).sum(axis=1) + ((known**2).sum(axis=1) - 2 * along @ known.T).min(axis=1)
    return np.sqrt(np.clip(np.stack([left, away], axis=1), 0, None))
