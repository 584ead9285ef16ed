"""The curves of detectors: how many masquerades are found at how many false alarms."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs, output_file

__all__ = ["check_drawable", "draw_roc"]

SHOWN = 0.3  # false alarms up to which the right panel goes: no detector is used beyond


def check_drawable(path: str | Path, force: bool, inputs: Sequence[str]) -> None:
    """Make sure, before the work, that a drawing can be written.

    Raises
    ------
    ParameterError
        If the name does not end in ``.png``, or matplotlib is missing.
    OutputExistsError
        If the file exists and `force` is false.
    """
    if Path(path).suffix.lower() != ".png":
        raise ParameterError(f"roc must end in .png; got {str(path)!r}")
    if find_spec("matplotlib") is None:
        raise ParameterError("matplotlib must be installed for plots; got none; pip install 'visionnmf[plots]'")
    check_outputs([path], force, inputs=inputs)


def draw_roc(
    path: str | Path, curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]], *, force: bool = False
) -> None:
    """Draw ROC curves, whole and their part of few false alarms.

    Parameters
    ----------
    path : str or Path
        The PNG file to write.
    curves : mapping of str to (ndarray, ndarray)
        Of each method the rates of false alarms and of masquerades found, 0 to 1, over all thresholds.
    force : bool, default=False
        Whether it may be replaced.

    Raises
    ------
    MediaError
        If the file cannot or may not be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    whole, part = figure.subplots(1, 2)
    for name, (false, found) in curves.items():
        area = -float((np.diff(false) * (found[1:] + found[:-1]) / 2).sum())  # thresholds rise, so rates fall
        for axes in (whole, part):
            axes.plot(100 * false, 100 * found, label=f"{name} ({area:.3f})", linewidth=1.5)
    for axes, most in ((whole, 100), (part, 100 * SHOWN)):
        axes.plot([0, 100], [0, 100], color="0.8", linewidth=1, zorder=0)
        axes.set(xlim=(0, most), ylim=(0, 100.5), xlabel="false alarms, %", ylabel="sessions of others found, %")
        axes.grid(color="0.92")
    whole.legend(title="method (area under the curve)", loc="lower right", fontsize=8, title_fontsize=8)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    with output_file(path, force=force) as temporary:
        temporary.write_bytes(drawn.getvalue())
