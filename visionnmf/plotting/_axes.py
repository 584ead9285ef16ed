"""Axes and pictures, as all displays draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_matplotlib, shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

PANEL = 2.6  # inches, the side of one picture beside others


def fitted(estimator: Any, *attributes: str) -> Any:
    """Return a fitted model; raise ParameterError for something else, or a model without one of the attributes."""
    names = " and ".join(attributes)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        got = f"{shown(estimator)}; pass what fit returns"
        raise ParameterError(f"estimator must be a fitted model with {names}; got {got}")
    check_is_fitted(estimator)
    if any(not hasattr(estimator, name) for name in attributes):
        kind = type(estimator)
        origin = kind.__module__.split(".")[0]
        got = f"{kind.__name__} of {origin}, which has none; give the display the arrays themselves"
        raise ParameterError(f"estimator must be a fitted model with {names}; got {got}")
    return estimator


def several(items: Any, name: str, what: str) -> list[Any]:
    """Return a list of items; raise ParameterError if they cannot be gone through, or are a text or a dictionary."""
    if isinstance(items, str | dict) or not hasattr(items, "__iter__"):
        raise ParameterError(f"{name} must be a list of {what}; got {shown(items)}")
    return list(items)


def one_axes(ax: Any) -> Any:
    """Return the given axes, or those of a new figure."""
    return panels(ax, 1)[0]


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
    odd = next((ax for ax in given if not hasattr(ax, "set_axis_off")), None)
    if odd is not None:
        raise ParameterError(f"axes must be those of matplotlib; got {shown(odd)}; pass what pyplot.subplots returns")
    if len(given) < n_panels:
        raise ParameterError(f"axes must be at least {n_panels}; got {len(given)}; pyplot.subplots makes more")
    for ax in given[n_panels:]:
        ax.set_axis_off()
    return given[:n_panels]


def whole_numbers(axis: Any) -> None:
    """Let an axis that counts have ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True))


def show(ax: Any, picture: Array, title: str = "", **options: Any) -> Any:
    """Draw a picture without ticks, grey ones in grey, and return the artist."""
    if picture.ndim == 2:
        options = {"cmap": "gray", **options}
    artist = ax.imshow(picture, **options)
    ax.set_title(title, fontsize="medium", parse_math=False)
    ax.set_xticks([])
    ax.set_yticks([])
    return artist


def legend(ax: Any) -> None:
    """Draw a legend above the axes, where it hides nothing."""
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize="small", borderaxespad=0.2)


def figure_of(axes: Sequence[Any] | Array) -> Any:
    """Return the figure of axes."""
    return axes[0].figure
