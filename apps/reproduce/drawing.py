"""Figures of matplotlib that several papers need: named rows of images; panels of curves are those of `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import new_figure

Array = NDArray[Any]


def sheet_figure(rows: Mapping[str, Array]) -> Any:
    """Return a figure with a picture of uint8, (height, width) or (height, width, 3), and its name in each row."""
    # in inches of 100 pixels, with 0.25 inches between rows and 2.2 for the names on the left
    heights = [0.25 + picture.shape[0] / 100 for picture in rows.values()]
    width = max(picture.shape[1] for picture in rows.values()) / 100
    figure = new_figure(2.2 + width, sum(heights))
    grid = figure.subplots(len(rows), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, (name, picture) in zip(grid, rows.items(), strict=True):
        axes.imshow(picture, interpolation="nearest", cmap="gray", vmin=0, vmax=255)
        axes.set_axis_off()
        axes.set_anchor("W")
        axes.text(-0.01, 0.5, name, ha="right", va="center", fontsize="small", transform=axes.transAxes)
    return figure


def in_square(image: Array) -> Array:
    """Return an image in the corner of a white square, so that upright pictures and others get one size."""
    height, width = image.shape[:2]
    side = max(height, width)
    return np.pad(image, ((0, side - height), (0, side - width), (0, 0)), constant_values=255)
