"""Figures of the comparison of face models: accuracy against rank, components and reconstructions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from _face_methods import ALL_METHODS, FacePlan, Factorisation, Means, text_of
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from visionnmf.apps.drawing import grey_pictures, tiled
from visionnmf.apps.faces.evaluation import make_split
from visionnmf.datasets import Faces

__all__ = ["draw_figures"]

PANEL = (3.4, 2.7)  # inches
MONTAGE = 10  # images per row


def draw_figures(faces: Faces, plan: FacePlan, means: Means, out: str | Path) -> None:
    """Draw accuracy against rank, and for each corruption components and reconstructions of the first split."""
    folder = Path(out)
    curves_picture(means, folder / "accuracy.png")
    for condition in plan.corruptions:
        split = make_split(faces, text_of(condition), 0, plan.splitting)
        clean = make_split(faces, "none", 0, plan.splitting).train
        rank = min(max(plan.ranks), *split.train.shape)
        shown = np.linspace(0, len(clean) - 1, min(MONTAGE, len(clean))).astype(int)
        components: dict[str, NDArray[Any]] = {}
        reconstructions = {"clean": clean[shown], "as trained on": split.train[shown]}
        for name in plan.methods:
            method = ALL_METHODS[name]
            if isinstance(method, Factorisation):
                fitted = method.fit(split, rank, plan.iterations)
                reconstructions[name] = fitted.model.inverse_transform(fitted.codes[shown])
                components[name] = _stretched(fitted.model.components_)
        kind = text_of(condition).replace(":", "-")
        for what, sheet in (("components", components), ("reconstructions", reconstructions)):
            montage_picture(sheet, split.image_shape, folder / f"{what}-{kind}.png", f"{what}, {kind}, rank {rank}")


def _stretched(components: NDArray[Any]) -> NDArray[Any]:
    """Return the components that vary most, each from black to white."""
    rows = components[np.argsort(-components.std(axis=1), kind="stable")[:MONTAGE]]
    low = np.minimum(rows.min(axis=1, keepdims=True), 0)  # eigenfaces are partly negative
    peaks = (rows - low).max(axis=1, keepdims=True)
    return np.asarray((rows - low) / np.where(peaks > 0, peaks, 1))


def curves_picture(means: Means, path: Path) -> None:
    """Draw accuracy against rank to a PNG: a panel for each corruption, rule and test set, a curve for each method."""
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
    figure.savefig(path, dpi=120, format="png")


def montage_picture(rows: dict[str, NDArray[Any]], image_shape: tuple[int, int], path: Path, title: str = "") -> None:
    """Draw images in [0, 1] as rows with names, the same number in each row, to a PNG file."""
    strips = [tiled([list(grey_pictures(255 * images, image_shape))]) for images in rows.values()]
    height, width = strips[0].shape[:2]
    figure = _figure(2 + width / 100, 0.4 + len(rows) * (height / 100 + 0.05))
    axes = figure.subplots(len(rows), 1, squeeze=False)
    for axis, name, strip in zip(axes[:, 0], rows, strips, strict=True):
        axis.imshow(strip, interpolation="nearest")
        axis.set_axis_off()
        axis.text(-5, height / 2, name, ha="right", va="center", fontsize="small")
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, dpi=120, format="png")


def _figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches, which needs no window system."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _panel(axis: Any, means: Means, panel: tuple[Any, ...]) -> None:
    """Draw the curves of one corruption, rule and test set, and methods without a rank as horizontal lines."""
    kind, severity, rule, test = panel
    curves: dict[str, list[tuple[int, float, float]]] = {}
    for (*place, method, rank, of_rule, of_test), (mean, deviation) in means.items():
        if tuple(place) != (kind, severity) or of_test != test:
            continue
        if rank is None:
            number = len(axis.lines)  # horizontal lines are drawn before the curves
            dashes = (2 * number, (3, 5) if number < 4 else (1, 3))  # shifted, so that equal accuracies both show
            axis.axhline(mean, label=method, linestyle=dashes, linewidth=1.3, color=f"C{9 - number % 4}")
        elif of_rule == rule:
            curves.setdefault(method, []).append((rank, mean, deviation))
    for number, (method, points) in enumerate(curves.items()):
        ranks, values, deviations = zip(*sorted(points), strict=True)
        axis.errorbar(ranks, values, deviations, label=method, capsize=2, linewidth=1.2, color=f"C{number}", marker=".")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylim(0, 100)
