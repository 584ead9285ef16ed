"""Images of objects on a turntable, on a black background."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.datasets import Faces

PARTS = 5  # ellipsoids per object
SPREAD = 0.5  # of their centres
RADII = (0.15, 0.7)
ALBEDO = (0.25, 1.0)
STRIPES = (3.0, 12.0)  # radians per unit
CONTRAST = 0.35  # of the stripes
LIGHT = np.array([-0.4, -0.5, 0.77])  # from the upper left, in front
AMBIENT = 0.3
BRIGHTEST = 250.0
MARGIN = 1.05  # the frame's side over the object's larger side

Array = NDArray[Any]


class _Solid(NamedTuple):
    """Ellipsoids ``(p - centre)' inv(shape) (p - centre) <= 1`` with striped surfaces."""

    centres: Array  # (n_parts, 3)
    shapes: Array  # (n_parts, 3, 3)
    albedos: Array  # (n_parts,)
    stripes: Array  # (n_parts, 3)


def make_objects(n_objects: int, n_views: int, *, size: int, random_state: int) -> Faces:
    """Return grey views of objects that turn before a black background, in the order of objects and angles.

    Each object is a union of striped ellipsoids of different brightness, lit from the front. Views are scaled so that
    the object fills the frame, and the background is exactly 0, as in COIL-20 (Nene, Nayar, Murase 1996).
    """
    rng = np.random.default_rng(np.random.default_rng(random_state).integers(2**63))
    images = np.zeros((n_objects * n_views, size, size), np.uint8)
    for number in range(n_objects):
        solid = _solid(rng)
        for view in range(n_views):
            images[number * n_views + view] = _rendered(solid, 2 * np.pi * view / n_views, size)
    names = tuple(f"object {number}" for number in range(1, n_objects + 1))
    return Faces(images, np.repeat(np.arange(1, n_objects + 1), n_views), names)


def _solid(rng: np.random.Generator) -> _Solid:
    """Draw a random solid."""
    rotations = np.linalg.qr(rng.normal(size=(PARTS, 3, 3)))[0]
    squares = rng.uniform(*RADII, (PARTS, 1, 3)) ** 2
    return _Solid(
        centres=rng.uniform(-SPREAD, SPREAD, (PARTS, 3)),
        shapes=(rotations * squares) @ rotations.transpose(0, 2, 1),
        albedos=rng.uniform(*ALBEDO, PARTS),
        stripes=rng.normal(size=(PARTS, 3)) * rng.uniform(*STRIPES, (PARTS, 1)),
    )


def _rendered(solid: _Solid, angle: float, size: int) -> NDArray[np.uint8]:
    """Return the view along the third axis of a solid that was turned about the second."""
    turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    centres, shapes = solid.centres @ turn.T, turn @ solid.shapes @ turn.T
    extents = np.sqrt(np.diagonal(shapes, axis1=1, axis2=2))[:, :2]
    low, high = (centres[:, :2] - extents).min(axis=0), (centres[:, :2] + extents).max(axis=0)
    half = MARGIN * (high - low).max() / 2
    steps = half * ((np.arange(size) + 0.5) * 2 / size - 1)
    x, y = np.meshgrid(*((low + high)[:, None] / 2 + steps))
    image, depth = np.zeros((size, size)), np.full((size, size), -np.inf)
    for centre, shape, albedo, stripes in zip(centres, shapes, solid.albedos, solid.stripes, strict=True):
        inverse = np.linalg.inv(shape)
        dx, dy = x - centre[0], y - centre[1]
        # coefficients of the quadratic equation for the depth at which the line of sight meets the surface
        middle = -(inverse[2, 0] * dx + inverse[2, 1] * dy) / inverse[2, 2]
        rest = inverse[0, 0] * dx**2 + 2 * inverse[0, 1] * dx * dy + inverse[1, 1] * dy**2 - 1
        inside = middle**2 - rest / inverse[2, 2]
        dz = middle + np.sqrt(np.maximum(inside, 0))
        nearest = (inside > 0) & (dz + centre[2] > depth)
        offsets = np.stack([dx, dy, dz], axis=-1)[nearest]
        normals = offsets @ inverse
        lit = np.maximum(normals @ LIGHT / np.linalg.norm(normals, axis=1), 0)
        pattern = 1 - CONTRAST * (1 + np.sin((offsets @ turn) @ stripes)) / 2
        image[nearest] = albedo * pattern * (AMBIENT + (1 - AMBIENT) * lit)
        depth[nearest] = dz[nearest] + centre[2]
    return np.asarray(np.round(BRIGHTEST * np.minimum(image, 1)), np.uint8)
