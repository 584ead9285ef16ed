"""Display of a threshold: how often it errs on both sides, with intervals, for faces, sessions and other scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from visionnmf._checks import brief, check_number, check_numbers, shown
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from ._axes import figure_of, legend, panels


@dataclass(eq=False)
class ThresholdDisplay:
    """ROC curve of a score, and the error rates on both sides of each threshold, with their intervals.

    A sample whose score is above the threshold is rejected: an unknown face by its distance, a session of another user
    by its score.

    Parameters
    ----------
    y_true : array-like of bool [shape=(n_samples,)]
        True for samples that should be rejected.
    scores : array-like [shape=(n_samples,)]
        Finite; larger for samples that should be rejected.
    threshold : float, optional
        The threshold in use, which is marked.
    confidence : float, default=0.95
        Of the intervals of Clopper and Pearson, above 0 and below 1.

    Attributes
    ----------
    thresholds_ : ndarray [shape=(n,)]
        All thresholds at which something changes, in ascending order.
    false_rejection_rate_, false_acceptance_rate_ : ndarray [shape=(n, 3)]
        Share of the samples to accept above each threshold, and of those to reject up to it: the rate, and the lower
        and upper end of its interval.
    roc_auc_ : float
        The area under the ROC curve: the chance that a sample to reject has the larger score of two.
    roc_ : matplotlib.lines.Line2D
    lines_ : list of matplotlib.lines.Line2D
        False rejections and false acceptances.
    bands_ : list of matplotlib.collections.FillBetweenPolyCollection
        Their intervals.
    axes_ : ndarray of matplotlib.axes.Axes [shape=(2,)]
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from visionnmf.plotting import ThresholdDisplay
    >>> display = ThresholdDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], threshold=0.5)
    >>> display.roc_auc_
    0.75
    """

    y_true: ArrayLike
    scores: ArrayLike
    threshold: float | None = None
    confidence: float = 0.95

    __repr__ = brief

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        scores: ArrayLike,
        *,
        threshold: float | None = None,
        confidence: float = 0.95,
        axes: Any = None,
    ) -> Self:
        """Draw the curves of scores; the parameters are those of the class, and two axes."""
        return cls(y_true, scores, threshold, confidence).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw into two axes or a new figure."""
        check_number(self.confidence, "confidence", 0, 1, without_low=True, without_high=True)
        scores = check_numbers(self.scores, "scores", float)
        if self.threshold is not None:
            check_number(self.threshold, "threshold", -math.inf)
        reject = check_numbers(self.y_true, "y_true", float) != 0
        if not np.isin(self.y_true, (0, 1)).all():
            raise ParameterError(f"y_true must be True or False, or 1 and 0; got {shown(self.y_true)}; pass y == label")
        if scores.ndim != 1 or reject.shape != scores.shape or not np.isfinite(scores).all():
            raise ParameterError(f"scores must be finite, one for each of y_true; got {scores.shape}, {reject.shape}")
        if reject.all() or not reject.any():
            raise ParameterError("y_true must have samples of both kinds; got one")
        own, others = np.sort(scores[~reject]), np.sort(scores[reject])
        self.thresholds_ = np.unique(scores)
        above = len(own) - np.searchsorted(own, self.thresholds_, side="right")
        below = np.searchsorted(others, self.thresholds_, side="right")
        self.false_rejection_rate_ = _with_interval(above, len(own), self.confidence)
        self.false_acceptance_rate_ = _with_interval(below, len(others), self.confidence)
        # each pair counts 1 if the sample to reject has the larger score, and 1/2 if both are equal
        wins = np.searchsorted(own, others, side="left") + np.searchsorted(own, others, side="right")
        self.roc_auc_ = float(wins.sum() / (2 * len(own) * len(others)))
        self.axes_ = panels(axes, 2, 2, (9, 4))
        self._draw_roc(self.axes_[0])
        self._draw_rates(self.axes_[1], len(own), len(others))
        self.figure_ = figure_of(self.axes_)
        return self

    def _draw_roc(self, ax: Any) -> None:
        """Draw how many are rejected rightly against how many wrongly."""
        wrong = np.append(self.false_rejection_rate_[::-1, 0], 1)
        right = np.append(1 - self.false_acceptance_rate_[::-1, 0], 1)
        (self.roc_,) = ax.plot(wrong, right, drawstyle="steps-post", label=f"area {self.roc_auc_:.3f}")
        ax.plot([0, 1], [0, 1], linestyle=":", color="0.6")
        if self.threshold is not None:
            at = np.searchsorted(self.thresholds_, self.threshold, side="right") - 1
            point = (1.0, 1.0) if at < 0 else (wrong[-2 - at], right[-2 - at])
            ax.plot(*point, "o", color="C3", label=f"threshold {self.threshold:.3g}")
        ax.set_xlabel("rejected of those to accept")
        ax.set_ylabel("rejected of those to reject")
        legend(ax)

    def _draw_rates(self, ax: Any, n_own: int, n_others: int) -> None:
        """Draw both error rates against the threshold."""
        self.lines_, self.bands_ = [], []
        for number, (rates, label) in enumerate(
            (
                (self.false_rejection_rate_, f"wrongly rejected ({n_own} samples)"),
                (self.false_acceptance_rate_, f"wrongly accepted ({n_others} samples)"),
            )
        ):
            colour = f"C{number}"
            self.lines_ += ax.step(self.thresholds_, rates[:, 0], where="post", label=label, color=colour)
            band = ax.fill_between(self.thresholds_, *rates[:, 1:].T, step="post", color=colour, alpha=0.2, linewidth=0)
            self.bands_.append(band)
        if self.threshold is not None:
            ax.axvline(self.threshold, linestyle="--", color="C3")
        ax.set_xlabel("threshold")
        ax.set_ylabel(f"error rate, {100 * self.confidence:g} % interval")
        ax.set_ylim(0, 1)
        legend(ax)


def _with_interval(count: Array, total: int, confidence: float) -> Array:
    """Return rates of `count` among `total` (n, 3), with the lower and upper end of their intervals."""
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = np.where(count > 0, beta.ppf(tail, np.maximum(count, 1), total - count + 1), 0)
    high = np.where(count < total, beta.ppf(1 - tail, count + 1, np.maximum(total - count, 1)), 1)
    return np.column_stack([count / total, low, high])
