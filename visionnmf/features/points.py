"""Where local descriptors are taken: points with a scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_number, shown
from visionnmf.exceptions import ParameterError

__all__ = ["SCALES", "STEP", "check_grid", "dense_grid"]

SCALES = (1.6, 2.3, 3.2)  # pixels: a patch of twelve times that is described
STEP = 3.0


def check_grid(scales: Any, step: Any) -> None:
    """Check the parameters of :func:`dense_grid`."""
    if not isinstance(scales, tuple | list) or not len(scales):
        raise ParameterError(f"scales must be numbers of pixels, from 0.8 to 100; got {shown(scales)}")
    for scale in scales:
        check_number(scale, "scales", 0.8, 100)
    check_number(step, "step", 0.25, 100)


def dense_grid(height: int, width: int, scales: Sequence[float], step: float) -> NDArray[np.float32]:
    """Return the points of a regular grid a scale, centred in the image.

    Parameters
    ----------
    height, width : int
        Of the image, in pixels.
    scales : sequence of float, > 0
    step : float, > 0
        Distance of two points, in multiples of their scale.

    Returns
    -------
    ndarray of float32 [shape=(n, 3)]
        Row, column and scale, in pixels, of at least one point a scale.
    """
    found = []
    for scale in scales:
        rows, columns = (_centred(size, step * scale) for size in (height, width))
        grid = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
        found.append(np.column_stack([grid, np.full(len(grid), scale)]))
    return np.concatenate(found).astype(np.float32)


def _centred(size: int, step: float) -> NDArray[np.float64]:
    count = max(1, int(size / step))
    offsets = np.arange(count) - (count - 1) / 2
    return np.asarray((size - 1) / 2 + step * offsets, np.float64)
