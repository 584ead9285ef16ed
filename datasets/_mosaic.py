"""An image of textured regions whose segmentation is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, gaussian_filter, label
from skimage.color import lab2rgb

from visionnmf._checks import RandomState, brief, check_count, check_generator, check_number

Plane = NDArray[np.float32]


@dataclass(frozen=True)
class Mosaic:
    """An image of textured regions, and its segmentation.

    Attributes
    ----------
    image : ndarray of uint8 [shape=(height, width, 3)]
        sRGB image.
    labels : ndarray of int32 [shape=(height, width)]
        The segment of each pixel, 0 to ``n_segments - 1``; every segment occurs.
    """

    image: NDArray[np.uint8]
    labels: NDArray[np.int32]

    __repr__ = brief


def make_mosaic(
    height: int = 321,
    width: int = 481,
    *,
    n_segments: int = 5,
    texture: float = 0.5,
    noise: float = 0.02,
    random_state: RandomState = None,
) -> Mosaic:
    """Make an image of connected regions with their own colours and textures and with irregular smooth borders.

    Parameters
    ----------
    height, width : int, >= 1, default=321 and 481
        Size in pixels; by default that of the Berkeley segmentation images.
    n_segments : int, >= 1, at most height * width, default=5
        Number of regions.
    texture : float, 0 to 1, default=0.5
        Strength of the textures; 0 gives flat colours.
    noise : float, >= 0, default=0.02
        Standard deviation of the sensor noise, as a share of the full range.
    random_state : int, RandomState, Generator or None
        Seed. The same seed gives the same segments for all values of `texture` and `noise`.

    Returns
    -------
    Mosaic

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> mosaic = make_mosaic(48, 64, n_segments=3, random_state=0)
    >>> mosaic.image.shape, len(set(mosaic.labels.ravel().tolist()))
    ((48, 64, 3), 3)
    """
    height = check_count(height, "height", 1)
    width = check_count(width, "width", 1)
    n_segments = check_count(n_segments, "n_segments", 1, height * width)
    texture = check_number(texture, "texture", 0, 1)
    noise = check_number(noise, "noise", 0)
    shape_rng, look_rng, noise_rng = (
        np.random.default_rng(s) for s in check_generator(random_state).integers(2**63, size=3)
    )

    labels = _cells(height, width, n_segments, shape_rng)
    light = np.zeros((height, width), np.float32)
    for segment in range(n_segments):
        inside = labels == segment
        light[inside] = _TEXTURES[look_rng.integers(len(_TEXTURES))](height, width, look_rng)[inside]
    lab = _colours(n_segments, look_rng)[labels]  # (height, width, 3): lightness, and two axes of colour
    lab[..., 0] += 20 * texture * light
    rgb = lab2rgb(lab) + noise * noise_rng.standard_normal(lab.shape, np.float32)
    return Mosaic(np.round(255 * np.clip(rgb, 0, 1)).astype(np.uint8), labels)


def _cells(height: int, width: int, n_segments: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Label each pixel by the nearest of `n_segments` scattered pixels (`homes`) in a warped plane."""
    # The warp makes borders irregular. `homes` are flat indices, and `nearest` is the squared distance of each pixel
    # from the nearest home so far; -1 marks a home.
    size = max(height, width)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    for scale in (0.1, 0.03):  # shares of the longer side: large bends, and small ones on them
        y += 0.7 * scale * size * _smooth_noise(height, width, scale * size, rng)
        x += 0.7 * scale * size * _smooth_noise(height, width, scale * size, rng)
    nearest = np.full((height, width), np.inf, np.float32)
    labels = np.zeros((height, width), np.int32)
    homes = []
    for segment in range(n_segments):
        # far from the other points, but not farthest, so that sizes differ
        home = max((int(c) for c in rng.integers(height * width, size=6)), key=nearest.flat.__getitem__)
        if nearest.flat[home] < 0:  # all six are homes already
            home = int(nearest.argmax())
        homes.append(home)
        distance = (y - y.flat[home]) ** 2 + (x - x.flat[home]) ** 2
        closer = distance < nearest
        nearest[closer] = distance[closer]
        labels[closer] = segment
        nearest.flat[home] = -1  # a segment keeps its own point, even where the warp folds
    return _one_piece_each(labels, homes)


def _one_piece_each(labels: NDArray[np.int32], homes: list[int]) -> NDArray[np.int32]:
    """Assign the pieces of a segment that are not connected to its home, a flat index, to the nearest segment."""
    apart = np.zeros(labels.shape, bool)
    for segment, home in enumerate(homes):
        inside = labels == segment
        pieces, count = label(inside)
        if count > 1:
            apart |= inside & (pieces != pieces.flat[home])
    if not apart.any():
        return labels
    # the position of the nearest pixel that is not apart
    rows, columns = distance_transform_edt(apart, return_distances=False, return_indices=True)
    return labels[rows, columns]


def _smooth_noise(height: int, width: int, sigma: float, rng: np.random.Generator) -> Plane:
    """Return smooth noise within [-1, 1]; `sigma` is its scale in pixels."""
    field = gaussian_filter(rng.standard_normal((height, width), np.float32), sigma, mode="reflect", truncate=3)
    return field / max(float(np.abs(field).max()), 1e-12)


def _colours(count: int, rng: np.random.Generator) -> Plane:
    """Return CIELAB colours (count, 3) with evenly spread hues, pale enough for sRGB at any texture."""
    hue = 2 * np.pi * (rng.permutation(count) + rng.uniform(0, 1)) / count
    chroma = rng.uniform(15, 38, count)
    return np.stack([rng.uniform(35, 75, count), chroma * np.cos(hue), chroma * np.sin(hue)], axis=1).astype(np.float32)


def _wave(height: int, width: int, rng: np.random.Generator, angle: float, period: float) -> Plane:
    """Return a sine wave in [-1, 1] whose direction has this angle, in radians, and whose period is in pixels."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    phase = 2 * np.pi * ((x * np.cos(angle) + y * np.sin(angle)) / period + rng.uniform())
    return np.sin(phase, dtype=np.float32)


def _stripes(height: int, width: int, rng: np.random.Generator) -> Plane:
    """Return a texture of parallel stripes with a period of 5 to 14 pixels, within [-1, 1]."""
    return _wave(height, width, rng, rng.uniform(0, np.pi), rng.uniform(5, 14))


def _checks(height: int, width: int, rng: np.random.Generator) -> Plane:
    """Return a texture of checks, the product of two waves at right angles, within [-1, 1]."""
    angle, period = rng.uniform(0, np.pi), rng.uniform(8, 18)
    return _wave(height, width, rng, angle, period) * _wave(height, width, rng, angle + np.pi / 2, period)


def _clouds(height: int, width: int, rng: np.random.Generator) -> Plane:
    """Return a texture of irregular spots, a few pixels large, within [-1, 1]."""
    return _smooth_noise(height, width, rng.uniform(1.5, 6), rng)


_TEXTURES: tuple[Callable[[int, int, np.random.Generator], Plane], ...] = (_stripes, _checks, _clouds)
