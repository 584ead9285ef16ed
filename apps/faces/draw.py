"""Pictures of faces: components, reconstructions, what was judged corrupted, shadows, accuracy against rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, tiled
from visionnmf.exceptions import ParameterError
from visionnmf.io import output_file

from .comparison import Comparison

__all__ = ["curves_picture", "montage_picture", "residual_picture", "shadows_picture"]

Array = NDArray[Any]

MARK = np.array([220, 30, 30], np.uint8)
PANEL = (3.4, 2.7)  # inches


def residual_picture(
    images: Array, reconstructions: Array, cleaned: Array, corrupted: NDArray[np.bool_], image_shape: tuple[int, int],
    *, white: float = 255.0,
) -> NDArray[np.uint8]:  # fmt: skip
    """Show images, what was judged corrupted in red, the images cleaned, and the model's reconstructions: a row each.

    Parameters
    ----------
    images, reconstructions, cleaned : ndarray [shape=(n_images, n_pixels)]
    corrupted : ndarray of bool [shape=(n_images, n_pixels)]
    image_shape : tuple of (int, int)
        Height and width.
    white : float, default=255
        The value of white.

    Returns
    -------
    ndarray of uint8 [shape=(rows, columns, 3)]

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import residual_picture
    >>> images = np.full((2, 30), 90.0)
    >>> residual_picture(images, images, images, images > 100, (6, 5)).ndim >= 2
    True
    """
    grey = grey_pictures(images * (255 / white), image_shape)
    marked = grey.copy()
    marked[corrupted.reshape(len(images), *image_shape)] = MARK
    others = [grey_pictures(values * (255 / white), image_shape) for values in (cleaned, reconstructions)]
    return tiled([list(row) for row in (grey, marked, *others)])


def shadows_picture(
    images: Array, faces: Array, shadows: Array, image_shape: tuple[int, int], *, white: float = 255.0
) -> NDArray[np.uint8]:
    """Show images of one person, the faces without shadows, and what was removed: a row each.

    Parameters
    ----------
    images : ndarray [shape=(n_images, n_pixels)]
    faces, shadows : ndarray [shape=(n_images, n_pixels)]
        As :func:`~visionnmf.apps.faces.remove_shadows` gives them; shadows are shown on middle grey, highlights bright.
    image_shape : tuple of (int, int)
        Height and width.
    white : float, default=255
        The value of white.

    Returns
    -------
    ndarray of uint8 [shape=(rows, columns, 3)]

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import shadows_picture
    >>> images = np.full((2, 30), 90.0)
    >>> shadows_picture(images, images, 0 * images, (6, 5)).ndim >= 2
    True
    """
    rows = (images * (255 / white), faces * (255 / white), 127.5 + shadows * (127.5 / white))
    return tiled([list(grey_pictures(row, image_shape)) for row in rows])


def curves_picture(found: Comparison, path: str | Path, *, force: bool = False) -> None:
    """Draw accuracy against rank: a panel a corruption, rule and test set, a curve with deviations a method.

    Parameters
    ----------
    found : Comparison
    path : str or Path
        A PNG file.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        When matplotlib is not installed.
    """
    means = found.means()
    rules = list(dict.fromkeys((key[4], key[5]) for key in means if key[4] is not None)) or [(None, "clean")]
    kinds = list(dict.fromkeys(key[:2] for key in means))
    across = 3 * len(kinds) if len(kinds) > 1 else 2  # names below the panels
    lines = -(-len({key[2] for key in means}) // across)
    figure = _figure(PANEL[0] * max(len(kinds), 1.5), PANEL[1] * len(rules) + 0.3 + 0.25 * lines)
    axes = figure.subplots(len(rules), len(kinds), squeeze=False, sharex=True, sharey=True)
    for i, (rule, test) in enumerate(rules):
        for j, (kind, severity) in enumerate(kinds):
            _panel(axes[i, j], means, (kind, severity, rule, test))
            level = "" if severity is None else f" {severity:g}"
            axes[i, j].set_title(f"{kind}{level}", fontsize="medium")
        axes[i, 0].set_ylabel(f"{rule}, {test} test images\naccuracy (%)" if rule else "accuracy (%)", fontsize="small")
    for axis in axes[-1]:
        axis.set_xlabel("rank")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=across, frameon=False, fontsize="small")
    with output_file(path, force=force) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


def montage_picture(
    rows: dict[str, Array], image_shape: tuple[int, int], path: str | Path, *, title: str = "", force: bool = False
) -> None:
    """Draw images as rows with names.

    Parameters
    ----------
    rows : dict of str to ndarray [shape=(n_images, n_pixels), in [0, 1]]
        As many images a row.
    image_shape : tuple of (int, int)
        Height and width.
    path : str or Path
        A PNG file.
    title : str, default=""
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        When matplotlib is not installed.
    """
    strips = [tiled([list(grey_pictures(255 * images, image_shape))]) for images in rows.values()]
    height, width = strips[0].shape[:2]
    figure = _figure(2 + width / 100, 0.4 + len(rows) * (height / 100 + 0.05))
    axes = figure.subplots(len(rows), 1, squeeze=False)
    for axis, name, strip in zip(axes[:, 0], rows, strips, strict=True):
        axis.imshow(strip, interpolation="nearest")
        axis.set_axis_off()
        axis.text(-5, height / 2, name, ha="right", va="center", fontsize="small")
    figure.suptitle(title, fontsize="medium")
    with output_file(path, force=force) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


def _figure(width: float, height: float) -> Any:
    """Make an empty figure of so many inches, without a window system."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError(
            "matplotlib must be installed for plots; got none; pip install 'visionnmf[plots]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _panel(axis: Any, means: dict[tuple[Any, ...], tuple[float, float]], panel: tuple[Any, ...]) -> None:
    kind, severity, rule, test = panel
    curves: dict[str, list[tuple[int, float, float]]] = {}
    for (*place, method, rank, of_rule, of_test), (mean, deviation) in means.items():
        if tuple(place) != (kind, severity) or of_test != test:
            continue
        if rank is None:
            number = len(axis.lines)  # these come before the curves
            dashes = (2 * number, (3, 5) if number < 4 else (1, 3))  # shifted, so that equal accuracies are both seen
            axis.axhline(mean, label=method, linestyle=dashes, linewidth=1.3, color=f"C{9 - number % 4}")
        elif of_rule == rule:
            curves.setdefault(method, []).append((rank, mean, deviation))
    for number, (method, points) in enumerate(curves.items()):
        ranks, values, deviations = zip(*sorted(points), strict=True)
        axis.errorbar(ranks, values, deviations, label=method, capsize=2, linewidth=1.2, color=f"C{number}", marker=".")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylim(0, 100)
