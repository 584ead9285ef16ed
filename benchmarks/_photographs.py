"""Photographs spoilt in the ways that segmentation is tested on, and how means are printed."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = ["SPOILERS", "Image", "Spoil", "impulses", "mean", "paired"]

Image = NDArray[np.uint8]
Spoil = Callable[[Image, int], Image]

SENTENCE = "symmetric factorisation"


def impulses(share: float) -> Spoil:
    """Return a function that makes a share of the pixels black or white."""

    def spoil(image: Image, seed: int) -> Image:
        rng, spoilt = np.random.default_rng(seed), image.copy()
        where = rng.random(image.shape[:2]) < share
        spoilt[where] = rng.choice(np.array([0, 255], np.uint8), (np.count_nonzero(where), 1))
        return spoilt

    return spoil


def text(image: Image, seed: int) -> Image:
    """Write a line of text every 60 pixels, black or white, in strokes two pixels wide."""
    spoilt, rng = image.copy(), np.random.default_rng(seed)
    for y in range(30, len(image), 60):
        place, colour = (int(rng.integers(0, 60)), y), (255, 255, 255) if rng.random() < 0.5 else (0, 0, 0)
        cv2.putText(spoilt, SENTENCE, place, cv2.FONT_HERSHEY_SIMPLEX, 1.0, colour, 2, cv2.LINE_AA)
    return spoilt


def spots(image: Image, seed: int) -> Image:
    """Draw 40 white discs with a radius of 2 to 8 pixels over the picture, like specular light."""
    spoilt, rng = image.copy(), np.random.default_rng(seed)
    for _ in range(40):
        place = int(rng.integers(0, image.shape[1])), int(rng.integers(0, image.shape[0]))
        cv2.circle(spoilt, place, int(rng.integers(2, 9)), (255, 255, 255), -1, cv2.LINE_AA)
    return spoilt


def jpeg(image: Image, seed: int) -> Image:
    """Compress the picture at a quality of 10."""
    written = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 10])[1]
    return np.ascontiguousarray(cv2.imdecode(written, cv2.IMREAD_COLOR)[..., ::-1], np.uint8)


def gaussian_noise(image: Image, seed: int) -> Image:
    """Add Gaussian noise with a standard deviation of 20 grey levels to each value."""
    noise = np.random.default_rng(seed).normal(0, 20, image.shape)
    return np.clip(image + noise, 0, 255).round().astype(np.uint8)


def blur(image: Image, seed: int) -> Image:
    """Blur the picture with a width of 2 pixels."""
    return np.asarray(cv2.GaussianBlur(image, (0, 0), 2), np.uint8)


SPOILERS: dict[str, Spoil] = {
    **{f"{share:.0%} black or white pixels": impulses(share) for share in (0.05, 0.1, 0.2, 0.3)},
    "lines of text": text,
    "40 specular spots": spots,
    "JPEG at a quality of 10": jpeg,
    "Gaussian noise of 20 levels": gaussian_noise,
    "blur of 2 pixels": blur,
}


def mean(values: list[float] | NDArray[np.float64]) -> str:
    """Return a mean and its standard error as text."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.3f} ± {error:.3f}"


def paired(values: list[float] | NDArray[np.float64], others: list[float] | NDArray[np.float64]) -> str:
    """Return the mean difference of scores of the same photographs, and its standard error, as text."""
    printed = mean(np.subtract(values, others))
    return printed if printed.startswith("-") else f"+{printed}"
