"""The figures of evaluations, which need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, new_figure, save_figure, tiled
from visionnmf.apps.runner import Rows

from .harness import DEVIATION

Array = NDArray[Any]

PANEL = (3.4, 2.7)  # inches
ACROSS = 4  # panels beside each other


def draw_curves(lines: Rows, path: Path, *, panels: Sequence[str], score: str) -> None:
    """Draw a score against the rank to a PNG file, with a panel for each combination of values of some columns.

    `lines` are those of :func:`.averages`, with the columns `panels`, "method" and "rank", and the mean and deviation
    of the score. Methods whose rank is None are drawn as horizontal lines.
    """
    parts: dict[str, Rows] = {}
    for line in lines:
        parts.setdefault(", ".join(str(line[name]) for name in panels), []).append(line)
    across = min(len(parts), ACROSS)
    down = -(-len(parts) // across)
    figure = new_figure(PANEL[0] * max(across, 1.5), PANEL[1] * down + 0.8)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for axis in axes[len(parts) :]:
        axis.set_axis_off()
    for panel, (title, members) in zip(axes, parts.items(), strict=False):
        curves: dict[str, list[tuple[int, float, float]]] = {}  # rank, mean and deviation by method
        for line in members:
            if line[score] is None:  # a method without this score
                continue
            if line["rank"] is not None:
                point = (line["rank"], line[score], line.get(score + DEVIATION, 0.0))
                curves.setdefault(line["method"], []).append(point)
            else:
                number = len(panel.lines)  # horizontal lines come first: colours from the end, shifted dashes
                dashes = (2 * number, (3, 5))
                panel.axhline(line[score], label=line["method"], linestyle=dashes, color=f"C{9 - number % 4}")
        for number, (method, points) in enumerate(curves.items()):
            ranks, values, deviations = zip(*sorted(points), strict=True)
            panel.errorbar(ranks, values, deviations, label=method, capsize=2, color=f"C{number}", marker=".")
        panel.set_title(title, fontsize="medium")
        panel.set_xlabel("rank (number of components)")
        panel.set_ylabel(score.replace("_", " "))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    save_figure(figure, path)


def draw_rows(rows: Mapping[str, Array], image_shape: tuple[int, int], path: Path) -> None:
    """Draw images in [0, 1] to a PNG file: a row with a name for each array (n_images, n_pixels).

    An inch has 100 pixels of the pictures, and two more inches hold the names.
    """
    strips = [tiled([list(grey_pictures(255 * images, image_shape))]) for images in rows.values()]
    height, width = strips[0].shape[:2]
    figure = new_figure(2 + width / 100, 0.2 + len(rows) * (height / 100 + 0.05))
    axes = figure.subplots(len(rows), 1, squeeze=False)
    for axis, name, strip in zip(axes[:, 0], rows, strips, strict=True):
        axis.imshow(strip, interpolation="nearest")
        axis.set_axis_off()
        axis.text(-5, height / 2, name, ha="right", va="center", fontsize="small")
    save_figure(figure, path)
