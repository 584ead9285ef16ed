"""Axes and pictures, as all displays draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_matplotlib
from visionnmf.exceptions import ParameterError

Array = NDArray[Any]
PANEL = 2.6  # inches, the side of one picture beside others


def one_axes(ax: Any) -> Any:
    """Return the given axes, or those of a new figure."""
    return ax if ax is not None else panels(None, 1)[0]


def panels(axes: Any, n_panels: int, n_columns: int | None = None, size: tuple[float, float] | None = None) -> Array:
    """Return the given axes as a flat array, or those of a new figure, `n_columns` in a row; unused ones are empty."""
    if axes is None:
        check_matplotlib()
        from matplotlib import pyplot as plt

        columns = max(1, min(n_columns or n_panels, n_panels))
        rows = -(-n_panels // columns)
        # one plot has the usual size of matplotlib, several have small panels
        figsize = size or (None if n_panels == 1 else (PANEL * columns, PANEL * rows))
        axes = plt.subplots(rows, columns, squeeze=False, figsize=figsize, layout="constrained")[1]
    given = np.ravel(np.asarray(axes, dtype=object))
    if len(given) < n_panels:
        raise ParameterError(f"axes must be at least {n_panels}; got {len(given)}")
    for ax in given[n_panels:]:
        ax.set_axis_off()
    return given[:n_panels]


def show(ax: Any, picture: Array, title: str = "", **options: Any) -> Any:
    """Draw a picture without ticks, grey ones in grey, and return the artist."""
    if picture.ndim == 2:
        options = {"cmap": "gray", **options}
    artist = ax.imshow(picture, **options)
    ax.set_title(title, fontsize="medium", parse_math=False)
    ax.set_xticks([])
    ax.set_yticks([])
    return artist


def figure_of(axes: Sequence[Any] | Array) -> Any:
    """Return the figure of axes."""
    return axes[0].figure
