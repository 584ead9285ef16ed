"""ROC curves of detectors: how many masquerades are found at how many false alarms; as figures and as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs, output_file

__all__ = ["area_under_curve", "check_drawable", "draw_curves", "roc_curve", "roc_summary"]

Floats = NDArray[np.float64]

MAX_SHOWN = 0.3  # the right panel shows false alarm rates up to here, because no detector is used beyond


def roc_summary(scores: ArrayLike, labels: ArrayLike) -> tuple[float, dict[int, float], float]:
    """Summarise the ROC curve as the literature on masquerades does.

    Parameters
    ----------
    scores : array_like [shape=(n,)]
        High scores are anomalous.
    labels : array_like [shape=(n,), bool]
        True for masquerade sessions; there must be sessions of both kinds.

    Returns
    -------
    auc : float
        Area under the curve; ties count half.
    missing : dict of int to float
        For false alarm rates of 1, 5 and 10 %: the percentage of masquerade sessions that are missed if no larger share
        of the other sessions is flagged.
    cost : float
        The smallest missing % + 6 x false alarm % over all thresholds.

    Raises
    ------
    ParameterError
        If sessions of one kind are missing, or the lengths differ.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import roc_summary
    >>> area, missing, cost = roc_summary([0.1, 0.2, 0.9, 0.8], [0, 0, 1, 1])
    >>> area
    1.0
    """
    z = np.asarray(scores, np.float64).ravel()
    y = np.asarray(labels).ravel().astype(bool)
    if z.shape != y.shape or y.all() or not y.any():
        raise ParameterError(
            f"labels must have the length of scores, {len(z)}, and both kinds of sessions; got {len(y)}, "
            f"{y.sum()} of them masquerades"
        )
    own, other = np.sort(z[~y]), np.sort(z[y])
    thresholds = _thresholds(z)
    flagged = len(own) - np.searchsorted(own, thresholds, "right")
    missed = 100 * np.searchsorted(other, thresholds, "right") / len(other)
    # Integers are compared, because 100 * (1 - 95 / 100) is more than 5 in floating point.
    missing = {rate: float(missed[100 * flagged <= rate * len(own)].min()) for rate in (1, 5, 10)}
    return area_under_curve(z, y), missing, float((missed + 600 * flagged / len(own)).min())


def area_under_curve(scores: Floats, labels: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve; ties count half."""
    own, other = np.sort(scores[~labels]), scores[labels]
    below = np.searchsorted(own, other, "left") + np.searchsorted(own, other, "right")
    return float(below.mean() / (2 * len(own)))


def roc_curve(scores: Floats, labels: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the rates of false alarms and of masquerades found, from 0 to 1, over all rising thresholds."""
    own, other = np.sort(scores[~labels]), np.sort(scores[labels])
    thresholds = _thresholds(scores)
    return (
        1 - np.searchsorted(own, thresholds, "right") / len(own),
        1 - np.searchsorted(other, thresholds, "right") / len(other),
    )


def _thresholds(scores: Floats) -> Floats:
    """Return all thresholds that differ; scores above a threshold are flagged."""
    return np.concatenate([[-np.inf], np.unique(scores)])


def check_drawable(path: str | Path, force: bool, inputs: Sequence[str]) -> None:
    """Raise ParameterError or OutputExistsError, before the work, if curves cannot be drawn into a file."""
    if Path(path).suffix.lower() != ".png":
        raise ParameterError(f"roc must end in .png; got {str(path)!r}")
    if find_spec("matplotlib") is None:
        raise ParameterError("matplotlib must be installed for plots; got none; pip install 'visionnmf[plots]'")
    check_outputs([path], force, inputs=inputs)


def draw_curves(path: str | Path, curves: Mapping[str, tuple[Floats, Floats]], *, force: bool = False) -> None:
    """Write a PNG picture of the ROC curves of some methods: whole, and the part with few false alarms."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    whole, part = figure.subplots(1, 2)
    for name, (false, found) in curves.items():
        area = -float((np.diff(false) * (found[1:] + found[:-1]) / 2).sum())  # thresholds rise, so rates fall
        for axes in (whole, part):
            axes.plot(100 * false, 100 * found, label=f"{name} ({area:.3f})", linewidth=1.5)
    for axes, limit in ((whole, 100), (part, 100 * MAX_SHOWN)):
        axes.plot([0, 100], [0, 100], color="0.8", linewidth=1, zorder=0)
        axes.set(xlim=(0, limit), ylim=(0, 100.5), xlabel="false alarms, %", ylabel="sessions of others found, %")
        axes.grid(color="0.92")
    whole.legend(title="method (area under the curve)", loc="lower right", fontsize=8, title_fontsize=8)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    with output_file(path, force=force) as temporary:
        temporary.write_bytes(drawn.getvalue())
