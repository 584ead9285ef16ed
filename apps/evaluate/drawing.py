"""Panels of curves, which need matplotlib: those of evaluations and of repeated figures of papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf.apps.drawing import new_figure
from visionnmf.apps.runner import DEVIATION, Rows, score_columns

Array = NDArray[Any]

PANEL = (4.6, 3.6)  # inches
ACROSS = 3  # panels beside each other
BAR = 0.3  # inches
LETTER = 0.08  # inches, of the name of a bar


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
    """Return a figure with these panels, `across` in a row, and one legend of `columns` below."""
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
        if not panel.log_x and all((np.mod(x, 1) == 0).all() for x, *_ in panel.curves.values()):
            axes.locator_params("x", integer=True)
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


def rank_figure(lines: Rows, *, panels: Sequence[str], score: str) -> Any:
    """Return a figure of a score against the rank, with a panel for each combination of values of some columns."""
    ranks = sorted({line["rank"] for line in lines if line["rank"] is not None})
    if len(ranks) < 2:
        return bar_figure(lines)
    parts: dict[str, dict[str, list[tuple[float, float, float]]]] = {}  # rank, mean and deviation, by panel and method
    for line in lines:
        if line[score] is not None:  # otherwise the method has no such score
            points = parts.setdefault(", ".join(str(line[name]) for name in panels), {}).setdefault(line["method"], [])
            for rank in (ranks[0], ranks[-1]) if line["rank"] is None else (line["rank"],):
                points.append((rank, line[score], line.get(score + DEVIATION, 0.0)))
    made = [
        Panel(
            title,
            {method: [*zip(*sorted(points), strict=True)] for method, points in curves.items()},
            x_label="rank (number of components)",
            y_label=score.replace("_", " "),
        )
        for title, curves in parts.items()
    ]
    figure = curve_figure(made, across=ACROSS)
    for axes in figure.axes:
        axes.locator_params("x", integer=True)
    return figure


def bar_figure(lines: Rows) -> Any:
    """Return a figure with a panel for each score, in which each line has a bar with its standard deviation."""
    scores = score_columns(lines)
    names = dict.fromkeys(name for line in lines for name in line if isinstance(line[name], str))
    texts = [name for name in names if name == "method" or len({line.get(name) for line in lines}) > 1]
    bars = [", ".join(str(line[name]) for name in texts if line.get(name) is not None) for line in lines]
    across = min(ACROSS, len(scores))
    down = -(-len(scores) // across)
    figure = new_figure(PANEL[0] * across + LETTER * max(map(len, bars)), (1 + BAR * len(lines)) * down)
    grid = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for axes, score in zip(grid, scores, strict=False):
        values = [np.nan if line.get(score) is None else line[score] for line in lines]
        deviations = [line.get(score + DEVIATION, 0.0) for line in lines]
        axes.barh(range(len(lines)), values, xerr=deviations if any(deviations) else None)
        axes.set_xlabel(score.replace("_", " "))
    for axes in grid[len(scores) :]:
        axes.set_axis_off()
    grid[0].set_yticks(range(len(lines)), bars, parse_math=False)
    grid[0].invert_yaxis()  # the first line is at the top, as in the table
    return figure
