"""Who is on an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Identity:
    """Who is on an image.

    Attributes
    ----------
    person, nearest : label
        Who it is, or None if the image is rejected, and the nearest person, accepted or not.
    distance, threshold : float
        The distance from the nearest person over the harmonic mean of the distances from all people, 0 to 1, and the
        largest with which an image is named.
    corrupted : float
        Share of the pixels that were judged corrupted, of which undamaged images have some (:class:`.Decomposition`).
    calibrated : bool or None
        Whether the image is as noisy as the training images, so that the error rates, if they are known, hold for it;
        None if too few images were left out in training to tell.
    ranking : tuple of (label, float)
        As many of the nearest people as were asked for, with their distances.
    reason : {None, "unknown", "unlike"}
        Why there is no name: "unlike" if the image is so unlike the training images that it probably shows no face, or
        noise; otherwise "unknown", if the distance or the unlikeness is above its limit.
    unlikeness, unlikeness_limit : float or None
        How unlike the training images it is (:func:`.images.unlikeness`), and the largest value with which it may be
        named as `nearest`; None if not known, without an image shape or with too few training images.
    unexplained : float or None
        Share of the image's coarse contrast that the model leaves, noise included; near 1 for noise alone.
    noise : {None, "less", "more"}
        Whether the image has less noise and fine detail than the training images, as JPEG and blur leave it, or more.
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
    noise: str | None = None

    def _repr_html_(self) -> str:
        """Show what is known of the decision, in notebooks."""
        from visionnmf._html import table

        return table({name: value for name, value in vars(self).items() if value is not None})
