"""Who is on an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Identity"]


@dataclass(frozen=True)
class Identity:
    """Who is on an image.

    Attributes
    ----------
    person : object or None
        The label, or None if the distance is above the threshold: an unknown person, or not a face.
    nearest : object
        The label of the nearest person, accepted or not.
    distance : float
        The distance from the nearest person over the harmonic mean of the distances from all people, 0 to 1.
    threshold : float
        Larger distances are rejected.
    corrupted : float
        Share of the pixels that were judged corrupted.
    calibrated : bool
        Whether the image is as noisy as the training images, so that the reported error rates hold for it.
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
