"""MahNMF (Guan, Tao, Luo, Shawe-Taylor 2012), figures 1 and 2: sums of absolute values, and the smoothing of one."""

from __future__ import annotations

import numpy as np

from visionnmf.apps.evaluate.drawing import Panel, curve_figure

from .experiments import Experiment, Result, Row, Sizes

X = np.linspace(-3, 3, 601)
NOTHING = np.zeros_like(X)  # a deviation
THETA = 10.0  # of figure 2


def pieces(sizes: Sizes) -> Result:
    """Repeat figure 1: three sums of two absolute values, equation 7, and where they are least."""
    rows, curves = [], {}
    for name, left, right, paper in (("f1", 2, 1, "-1"), ("f2", 1, 2, "1"), ("f3", 1, 1, "-1 to 1")):
        values = left * np.abs(X + 1) + right * np.abs(X - 1)
        least = X[values <= values.min() + 1e-9]
        found = f"{least[0]:g} to {least[-1]:g}" if len(least) > 1 else f"{least[0]:g}"
        rows.append(Row(f"{name}, a function of ours, is least at", found, f"{paper}, Fig. 1"))
        curves[name] = (X, values, NOTHING)
    panel = Panel("equation 7", curves, x_label="x", y_label="f(x)")
    return Result(rows, {"Piecewise linear functions with one minimiser, and with an interval.": curve_figure([panel])})


def smoothing(sizes: Sizes) -> Result:
    """Repeat figure 2: the absolute value and its smoothing, equation 15; Theorem 1 bounds the difference."""
    rows, curves = [], {"f": (X, np.abs(X), NOTHING)}
    for width in (0.1, 0.05):
        half, size = THETA * width, np.abs(X)
        values = np.where(size <= half, size**2 / (2 * half), size - half / 2)
        curves[f"smoothed, lambda = {width:g}"] = (X, values, NOTHING)
        what = f"lambda = {width:g}: largest difference"
        rows.append(Row(what, float((size - values).max()), paper=f"at most {half / 2:g}, Theorem 1"))
    panel = Panel(f"theta = {THETA:g}", curves, x_label="x", y_label="f(x)")
    return Result(rows, {"The absolute value, and its smoothing.": curve_figure([panel])})


EXPERIMENTS = (
    Experiment(
        "mahnmf/fig-1", "sums of absolute values", "f1 and f2 are least at -1 and 1, and f3 between -1 and 1.",
        pieces, "none: functions with kinks at -1 and 1; the paper does not give them.",
    ),
    Experiment(
        "mahnmf/fig-2", "smoothing of the absolute value",
        "the smoothed function is below the absolute value, by at most theta lambda / 2.",
        smoothing, "none: functions.",
    ),
)  # fmt: skip
