"""What a recognizer says of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief

__all__ = ["Decomposition", "Identity", "Parts"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Identity:
    """Who is on an image.

    Attributes
    ----------
    person : object or None
        The label, or None when the distance is above the threshold: a stranger, or no face.
    nearest : object
        The label of the nearest person, accepted or not.
    distance : float
        From 0 to 1: the distance from the nearest person over the harmonic mean of the distances from all.
    threshold : float
        Distances above are rejected.
    corrupted : float
        Share of the pixels that were judged corrupted.
    calibrated : bool
        Whether the image is as noisy as the training images, so that the rates announced for the threshold hold.
    ranking : tuple of (object, float)
        The nearest people and their distances, as many as were asked for; the first is `nearest`.
    """

    person: Any
    nearest: Any
    distance: float
    threshold: float
    corrupted: float
    calibrated: bool = False
    ranking: tuple[tuple[Any, float], ...] = ()


class Decomposition(NamedTuple):
    """Images taken apart: what the model explains of them, and what it does not.

    Attributes
    ----------
    reconstructions : ndarray [shape=(n_samples, n_pixels), >= 0]
        The model's.
    cleaned : ndarray [shape=(n_samples, n_pixels)]
        The images, with pixels pulled towards the reconstructions where they are far from them.
    corrupted : ndarray of bool [shape=(n_samples, n_pixels)]
        Pixels that are judged corrupted; see :class:`FaceRecognizer`.
    """

    reconstructions: Array
    cleaned: Array
    corrupted: Mask

    def __repr__(self) -> str:
        return brief(self)


class Parts(NamedTuple):
    """A :class:`Decomposition`, and its noise: scale, of white, shares of outlying and of missing pixels, grain."""

    reconstructions: Array
    cleaned: Array
    corrupted: Mask
    noise: Array
