"""Whether images are like the training images at all: what common directions leave of their features, by view."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
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
    scales: Array  # (n_views,): what they may leave of a view

    def unlikeness(self, X: Array, views: Mapping[str, slice]) -> Array:
        """Return the largest share that is left of a view, over its scale, of each image (n_images,)."""
        left = [_left(prepared(X[:, own], True), self.directions[:, own]) for own in views.values()]
        return np.asarray((np.stack(left, axis=1) / self.scales).max(axis=1))


@one_blas_thread()
def fit_likeness(X: Array, views: Mapping[str, slice]) -> Likeness | None:
    """Return what tells how unlike the images `X` others are, by leaving out one half, then the other; None of few."""
    some = X[np.random.default_rng(0).permutation(len(X))[:MOST]]
    if len(some) < LEAST:
        return None
    directions, left = np.zeros((DIRECTIONS, X.shape[1]), np.float32), np.empty((len(some), len(views)))
    for place, own in enumerate(views.values()):
        part = prepared(some[:, own], True)
        decomposed = partial(randomized_svd, n_components=min(DIRECTIONS, -(-part.shape[1] // 2)), random_state=0)
        for half in (0, 1):
            left[half::2, place] = _left(part[half::2], decomposed(part[1 - half :: 2])[2])
        found = decomposed(part)[2]
        directions[: len(found), own] = found
    scales = np.maximum(np.quantile(left, QUANTILE, axis=0), LEAST_LEFT)
    scales *= max(np.quantile((left / scales).max(axis=1), QUANTILE), 1.0)  # the largest of all views may not be larger
    return Likeness(directions, scales.astype(np.float32))


def _left(part: Array, directions: Array) -> Array:
    """Return what orthonormal directions leave of the norm of each row of `part`, which is 1 or 0."""
    return np.sqrt(np.clip((part**2).sum(axis=1) - ((part @ directions.T) ** 2).sum(axis=1), 0, 1))
