"""Who is on an image, from the distances of all people and how unlike the training images it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Identity:
    """Who is on an image.

    `person` is the label, or None if the image is rejected for a `reason`: "unlike" if it is so unlike the training
    images that it probably shows no face, and otherwise "unknown" if the distance is above the threshold, or if the
    image is more unlike the training images than new images of the people on them are. `nearest`
    is the label of the nearest person, accepted or not, and `distance` the distance from that person over the harmonic
    mean of the distances from all people, 0 to 1. `corrupted` is the share of the pixels that were judged corrupted,
    of which undamaged images have some (:class:`.Decomposition`).
    `calibrated` says whether the image is as noisy as the training images, so that the error rates, if they are known,
    hold for it; it is None if too few images were left out in training to tell. `ranking` has as many of the nearest
    people as were asked for, with their distances; the first is `nearest`.

    `unlikeness` says how unlike the training images the image is (:func:`.likeness.unlikeness`), and `unlikeness_limit`
    is the largest value with which it may be named as `nearest`. So an image with a distance up to the threshold and
    the `reason` "unknown" is beyond this limit. With the reason "unlike" it is also beyond ``faceless_`` of the
    recogniser, or `unexplained` is beyond its ``unexplained_``: the share of the image's coarse contrast that the model
    leaves, noise included, which is near 1 for noise alone. Each is None if it is not known: without an image shape, or
    with too few training images for a limit.
    """

    person: Any
    nearest: Any
    distance: float
    threshold: float
    corrupted: float
    calibrated: bool | None = None
    ranking: tuple[tuple[Any, float], ...] = ()
    reason: str | None = None
    unlikeness: float | None = None
    unlikeness_limit: float | None = None
    unexplained: float | None = None

    def _repr_html_(self) -> str:
        """Show what is known of the decision, in notebooks."""
        from visionnmf._html import table

        return table({name: value for name, value in vars(self).items() if value is not None})


class Measures(NamedTuple):
    """What is known of new images, a row or an item for each.

    `distances` are the relative distances (n_images, n_people), `corrupted` the shares of pixels that were judged
    corrupted, and `unlikeness` and `unexplained` the results of :func:`.likeness.unlikeness`. `empty` are the numbers
    of images that show nothing, and `as_noisy` marks those as noisy as the training images; None if that is not known.
    """

    distances: Array
    corrupted: Array
    unlikeness: Array
    unexplained: Array
    empty: NDArray[np.intp]
    as_noisy: Mask | None


class Limits(NamedTuple):
    """Up to where an image is named, and shows a face; see the attributes of :class:`.FaceRecognizer`."""

    threshold: float  # of relative distances
    unlikeness: Array  # (n_people,), with which an image may be named as a person
    faceless: float  # unlikeness beyond which an image is probably not a face
    unexplained: float  # share of an image beyond which it is noise


def identities(people: Array, found: Measures, limits: Limits, top: int) -> list[Identity]:
    """Return who of the `people` (n_people,), which are labels, is on each image, with the `top` nearest ones.

    `unlikeness` says how unlike the training images an image is, with a limit for each person; beyond `faceless` it is
    probably not a face. NaN measures, of what is not known, are beyond no limit. An image without a name has the reason
    "unlike" if it probably shows no face, else "unknown".
    """
    # Images that show nothing: of noise alone, of which the model explains too little, and even ones.
    nothing = found.unexplained > limits.unexplained
    nothing[found.empty] = True
    result = []
    for row, nearest in enumerate(np.argsort(found.distances, axis=1, kind="stable")[:, :top]):
        ranking = tuple(zip(people[nearest].tolist(), found.distances[row, nearest].tolist(), strict=True))
        person, distance = ranking[0]
        unlikeness, allowed = found.unlikeness[row], limits.unlikeness[nearest[0]]  # for the nearest person
        reason = "unknown" if unlikeness > allowed or distance > limits.threshold else None
        reason = "unlike" if nothing[row] or unlikeness > max(allowed, limits.faceless) else reason
        # Whether the image is as noisy as the training images, so that their error rates hold for it; None: not known.
        calibrated = None if found.as_noisy is None else bool(found.as_noisy[row])
        # NaN and infinity, measures and limits that are not known, become None.
        numbers = (float(value) for value in (unlikeness, allowed, found.unexplained[row]))
        coarse = [value if math.isfinite(value) else None for value in numbers]
        share, named = float(found.corrupted[row]), person if reason is None else None
        result.append(Identity(named, person, distance, limits.threshold, share, calibrated, ranking, reason, *coarse))
    return result
