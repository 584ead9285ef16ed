"""Figures of matplotlib that several papers need: panels of curves, and named rows of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf.apps.drawing import new_figure

Array = NDArray[Any]

PANEL = (4.6, 3.6)  # inches


@dataclass(frozen=True)
class Panel:
    """Axes with curves: name to x, y and, if there is one, the deviation of y, which is drawn as a band."""

    title: str
    curves: Mapping[str, Sequence[ArrayLike]]
    _: KW_ONLY
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False


def curve_figure(panels: Sequence[Panel], *, across: int = 2, columns: int = 4) -> Any:
    """Return a figure with these panels, `across` in a row, and one legend of `columns` below.

    A curve's colour is that of its name's first appearance, so a method has the same colour in all panels.
    """
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(PANEL[0] * across, PANEL[1] * down + 0.6)
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))  # each once, in order
    handles: dict[str, Any] = {}
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        for name, (x, y, *deviation) in panel.curves.items():
            number = names.index(name)
            # ten colours, then the same ones dashed, and dotted
            style = {"color": f"C{number % 10}", "linestyle": ("-", "--", ":")[number // 10 % 3], "linewidth": 1.5}
            marker = "o" if np.ptp(x) == 0 else None  # a single point has no line
            (handles[name],) = axes.plot(x, y, marker=marker, **style)
            if deviation:
                low, high = np.asarray(y) - deviation[0], np.asarray(y) + deviation[0]
                axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axes.set_xscale("log" if panel.log_x else "linear")
        if panel.log_x:  # labels between powers of ten would overlap
            axes.xaxis.set_minor_formatter("")
        axes.set_yscale("log" if panel.log_y else "linear")
        axes.grid(color="0.92")
    for axes in grid[len(panels) :]:  # places that the last row leaves empty
        axes.set_axis_off()
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=min(columns, 2 * across),
        frameon=False,
        fontsize="small",
    )
    return figure


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
