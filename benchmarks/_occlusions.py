"""Things in front of faces, of real shape: sunglasses, scarves, and blocks of photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.io import read_image

Picture = NDArray[np.float64]
Mask = NDArray[np.bool_]


def occluded(images: NDArray[np.uint8], kind: str, files: Sequence[Path], seed: int) -> NDArray[np.uint8]:
    """Cover faces (n, height, width) by `kind`: sunglasses, scarf, lower, side, hand, or block and a share in %.

    `files` are photographs, from which what covers about half of the image ("lower", "side") and the blocks are cut and
    scaled. A scarf has stripes and the texture of one, and a hand the tone of the face.
    """
    rng = np.random.default_rng(seed)
    textures = [cv2.cvtColor(read_image(path), cv2.COLOR_RGB2GRAY) for path in files]
    covered = images.astype(np.float64)
    for image in covered:
        texture = _cut(textures[rng.integers(len(textures))], image.shape, rng)
        if kind == "sunglasses":
            mask, content = _sunglasses(image.shape, rng)
        elif kind == "scarf":
            mask, content = _scarf(image.shape, texture, rng)
        elif kind == "hand":
            mask, content = _hand(image, rng)
        elif kind in ("lower", "side"):
            mask, content = _half(image.shape, kind, rng), texture
        else:
            mask, content = _block(image.shape, int(kind.removeprefix("block")) / 100, rng), texture
        image[mask] = content[mask]
    return np.clip(np.round(covered), 0, 255).astype(np.uint8)


def _cut(photograph: NDArray[np.uint8], shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    """Return a random square of a photograph, scaled to `shape`."""
    side = int(rng.integers(60, min(photograph.shape) - 1))
    row, column = (int(rng.integers(size - side)) for size in photograph.shape)
    square = photograph[row : row + side, column : column + side]
    return np.asarray(cv2.resize(square, shape[::-1], interpolation=cv2.INTER_AREA), np.float64)


def _sunglasses(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Mask, Picture]:
    """Return two dark lenses with a bridge, and what they show: a gradient, grain and a reflection."""
    height, width = shape
    y, x = np.mgrid[:height, :width]
    middle, centre = height * rng.uniform(0.33, 0.42), width * (0.5 + rng.uniform(-0.04, 0.04))
    apart, tall, wide = (
        width * rng.uniform(0.19, 0.24), height * rng.uniform(0.10, 0.14), width * rng.uniform(0.15, 0.19)
    )  # fmt: skip
    mask = (np.abs(y - middle + 0.4 * tall) < 0.03 * height) & (np.abs(x - centre) < apart + wide)
    for side in (-1, 1):
        mask |= ((y - middle) / tall) ** 4 + ((x - centre - side * apart) / wide) ** 4 <= 1
    content = rng.uniform(5, 50) + (y - middle) / tall * rng.uniform(-15, 15) + rng.normal(0, 6, shape)
    reflection = (y - middle + 0.4 * tall) ** 2 + (x - centre - 0.6 * apart) ** 2 < (0.04 * height) ** 2
    return mask, content + reflection * rng.uniform(20, 120)


def _scarf(shape: tuple[int, ...], texture: Picture, rng: np.random.Generator) -> tuple[Mask, Picture]:
    """Return what lies below a curved edge under the nose, and stripes with the texture of a photograph."""
    height, width = shape
    y, x = np.mgrid[:height, :width]
    edge = height * (rng.uniform(0.55, 0.66) + rng.uniform(-0.1, 0.25) * (2 * x / width - 1) ** 2)
    angle, period = rng.uniform(0, np.pi), rng.uniform(3, 9) * height / 32
    stripes = np.sin(2 * np.pi * (np.cos(angle) * x + np.sin(angle) * y) / period)
    content = rng.uniform(40, 200) + stripes * rng.uniform(0, 50) + 0.4 * (texture - texture.mean())
    return y > edge, content


def _hand(image: Picture, rng: np.random.Generator) -> tuple[Mask, Picture]:
    """Return an ellipse at a cheek or the mouth, and what it shows: the tone of the face, and fingers."""
    height, width = image.shape
    y, x = np.mgrid[:height, :width]
    row, column = height * rng.uniform(0.4, 0.95), width * (rng.integers(3) / 3 + rng.uniform(0, 0.33))
    angle, tall, wide = rng.uniform(0, np.pi), height * rng.uniform(0.28, 0.4), width * rng.uniform(0.18, 0.28)
    along, across = (
        np.cos(angle) * (y - row) + np.sin(angle) * (x - column),
        np.cos(angle) * (x - column) - np.sin(angle) * (y - row),
    )
    fingers = 1 - 0.25 * np.abs(np.sin(6 * across / wide)) ** 8
    content = np.quantile(image, 0.7) * fingers - 20 * (across / wide) ** 2 + rng.normal(0, 4, image.shape)
    return (along / tall) ** 2 + (across / wide) ** 2 < 1, content


def _half(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Mask:
    """Return the lower half of an image, or its left or right half, more or less."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    if kind == "lower":
        return np.asarray(y >= shape[0] * rng.uniform(0.48, 0.55))
    edge = shape[1] * rng.uniform(0.45, 0.52)
    return np.asarray(x < edge if rng.random() < 0.5 else x > shape[1] - edge)


def _block(shape: tuple[int, ...], share: float, rng: np.random.Generator) -> Mask:
    """Return a rectangle with this share of the image, of random place and proportions."""
    height, width = shape
    tall = min(height, round(float(np.sqrt(share * height * width * rng.uniform(0.6, 1.6)))))
    wide = min(width, round(share * height * width / tall))
    row, column = int(rng.integers(height - tall + 1)), int(rng.integers(width - wide + 1))
    mask = np.zeros(shape, bool)
    mask[row : row + tall, column : column + wide] = True
    return mask
