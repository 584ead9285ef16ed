"""Pictures of faces and of what was judged corrupted, and the figures of a comparison, which need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, new_figure, save_figure, tiled

Array = NDArray[Any]

PANEL = (3.4, 2.7)  # inches
MARK = np.array([220, 30, 30], np.uint8)  # red, for corrupted pixels


def draw_curves(means: Mapping[tuple[str, str, int | None, str], tuple[float, float]], path: Path) -> None:
    """Draw accuracy against rank to a PNG file, with a panel for each test set (down) and corruption (across).

    `means` has the mean and the standard deviation over the splits, in %, by (corruption, method, rank, test set). The
    rank is None for methods without one, which are drawn as horizontal lines.
    """
    corruptions = list(dict.fromkeys(corruption for corruption, _, _, _ in means))
    tests = list(dict.fromkeys(test for _, _, _, test in means))
    figure = new_figure(PANEL[0] * max(len(corruptions), 1.5), PANEL[1] * len(tests) + 0.8)
    axes = figure.subplots(len(tests), len(corruptions), squeeze=False, sharex=True, sharey=True)
    for (i, test), (j, corruption) in ((row, column) for row in enumerate(tests) for column in enumerate(corruptions)):
        panel = axes[i, j]
        curves: dict[str, list[tuple[int, float, float]]] = {}  # rank, mean and deviation by method
        for (here, method, rank, of_test), (mean, deviation) in means.items():
            if (here, of_test) == (corruption, test) and rank is not None:
                curves.setdefault(method, []).append((rank, mean, deviation))
            elif (here, of_test) == (corruption, test):
                number = len(panel.lines)  # horizontal lines come first: colours from the end, shifted dashes
                panel.axhline(mean, label=method, linestyle=(2 * number, (3, 5)), color=f"C{9 - number % 4}")
        for number, (method, points) in enumerate(curves.items()):
            ranks, values, deviations = zip(*sorted(points), strict=True)
            panel.errorbar(ranks, values, deviations, label=method, capsize=2, color=f"C{number}", marker=".")
        panel.set_title(f"{corruption}, {test} test images", fontsize="medium")
        panel.set_ylim(0, 100)
        panel.set_xlabel("rank")
        panel.set_ylabel("accuracy (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
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


def residual_picture(
    images: Array, reconstructions: Array, cleaned: Array, corrupted: NDArray[np.bool_], image_shape: tuple[int, int],
    *, white: float = 255.0,
) -> NDArray[np.uint8]:  # fmt: skip
    """Return a picture of images, with corrupted pixels in red, cleaned, and reconstructed, in a row each.

    Arrays are (n_images, n_pixels), in which `white` is the value of white. The first row has the images as they are.
    """
    grey = grey_pictures(images * (255 / white), image_shape)
    marked = grey.copy()
    marked[corrupted.reshape(len(images), *image_shape)] = MARK
    others = [grey_pictures(values * (255 / white), image_shape) for values in (cleaned, reconstructions)]
    return tiled([list(row) for row in (grey, marked, *others)])
