"""Displays of fits: the objective as it falls, and which rank and loss predict best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from visionnmf._checks import check_choice, check_numbers, check_result, shown
from visionnmf.exceptions import ParameterError
from visionnmf.models.selection import LossSelection, RankSelection

from ._axes import fitted, legend, one_axes, whole_numbers

WIDE = 20  # times the lowest error, from which on the axis is logarithmic


class ConvergenceDisplay:
    """The objective of one or several fits over iterations or seconds.

    Parameters
    ----------
    histories : dict of str to array-like [shape=(n_iter + 1,)]
        The objective before the first iteration and after each one, by the name of the fit.
    seconds : dict of str to array-like [shape=(n_iter + 1,)], optional
        When each value was reached, in seconds from the start of the fit; iterations are drawn without it.

    Attributes
    ----------
    lines_ : dict of str to matplotlib.lines.Line2D
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import NMF
    >>> from visionnmf.plotting import ConvergenceDisplay
    >>> X = np.random.default_rng(0).random((30, 20))
    >>> fits = {loss: NMF(3, loss=loss, random_state=0).fit(X) for loss in ("frobenius", "manhattan")}
    >>> sorted(ConvergenceDisplay.from_estimator(fits, relative=True).lines_)
    ['frobenius', 'manhattan']
    """

    def __init__(self, histories: Mapping[str, ArrayLike], seconds: Mapping[str, ArrayLike] | None = None) -> None:
        self.histories = histories
        self.seconds = seconds

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> Self:
        """Draw the ``objective_history_`` of a fitted model, or of several by name.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            Those of this library have the attribute, those of scikit-learn have not.
        **options
            Those of :meth:`plot`.
        """
        fits = estimator if isinstance(estimator, Mapping) else {type(estimator).__name__: estimator}
        return cls({name: fitted(fit, "objective_history_").objective_history_ for name, fit in fits.items()}).plot(
            **options
        )

    def plot(self, ax: Any = None, *, relative: bool = False, scale: str = "log") -> Self:
        """Draw into `ax` or a new figure; `relative` divides each history by its first value.

        `scale` of the objective is "log" or "linear". Objectives of different losses can be compared by their shape
        only, for which `relative` is meant.
        """
        check_choice(scale, "scale", ("log", "linear"))
        for what, given in (("histories", self.histories), ("seconds", self.seconds)):
            if not isinstance(given, Mapping) and (what == "histories" or given is not None):
                raise ParameterError(f"{what} must be a dictionary by the name of each fit; got {shown(given)}")
        self.ax_ = one_axes(ax)
        self.lines_ = {}
        for name, history in self.histories.items():
            values = check_numbers(history, "histories", float)
            if values.ndim != 1 or not values.size or (relative and not values[0] > 0):
                first = ", the first above 0" if relative else ""
                raise ParameterError(f"histories must have a list of numbers for {name}{first}; got {shown(history)}")
            if self.seconds is not None and name not in self.seconds:
                raise ParameterError(f"seconds must have the names of histories; got none for {name}")
            at = np.arange(len(values)) if self.seconds is None else check_numbers(self.seconds[name], "seconds", float)
            if at.shape != values.shape:
                raise ParameterError(f"seconds must have {len(values)} values for {name}; got shape {at.shape}")
            (self.lines_[name],) = self.ax_.plot(at, values / (values[0] if relative else 1), label=name)
        self.ax_.set_yscale(scale)
        self.ax_.set_xlabel("iteration" if self.seconds is None else "seconds")
        if self.seconds is None:
            whole_numbers(self.ax_.xaxis)
        self.ax_.set_ylabel("objective, first value = 1" if relative else "objective")
        if len(self.histories) > 1:
            legend(self.ax_)
        self.figure_ = self.ax_.figure
        return self


class RankDisplay:
    """The loss of held-out entries for each rank, and the rank that is proposed.

    Parameters
    ----------
    selection : RankSelection
        What :func:`~visionnmf.select_rank` returns.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D
        The mean over the splits.
    splits_ : list of matplotlib.lines.Line2D
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import select_rank
    >>> from visionnmf.plotting import RankDisplay
    >>> rng = np.random.default_rng(0)
    >>> found = select_rank(rng.random((30, 3)) @ rng.random((3, 20)), [1, 2, 3, 4], random_state=0)
    >>> RankDisplay.from_result(found).ax_.get_xlabel()
    'rank (number of components)'
    """

    def __init__(self, selection: RankSelection) -> None:
        self.selection = selection

    @classmethod
    def from_result(cls, selection: RankSelection, ax: Any = None) -> Self:
        """Draw what :func:`~visionnmf.select_rank` has found."""
        return cls(selection).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw into `ax` or a new figure."""
        found = check_result(self.selection, "selection", "select_rank", "ranks", "scores")
        self.ax_ = one_axes(ax)
        self.splits_ = self.ax_.plot(found.ranks, found.scores, color="0.8", linewidth=1)
        (self.line_,) = self.ax_.plot(found.ranks, found.scores.mean(axis=1), marker="o", label="mean of the splits")
        self.ax_.axvline(found.n_components, linestyle="--", color="0.4", label=f"proposed: {found.n_components}")
        self.ax_.set_xlabel("rank (number of components)")
        whole_numbers(self.ax_.xaxis)
        self.ax_.set_ylabel("mean loss of a held-out entry")
        legend(self.ax_)
        self.figure_ = self.ax_.figure
        return self


class LossDisplay:
    """The error at held-out entries for each loss, as a multiple of the lowest.

    Parameters
    ----------
    selection : LossSelection
        What :func:`~visionnmf.select_loss` returns.

    Attributes
    ----------
    points_ : matplotlib.container.ErrorbarContainer
        The losses, the best at the top, with the standard deviation over the splits.
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import select_loss
    >>> from visionnmf.plotting import LossDisplay
    >>> rng = np.random.default_rng(0)
    >>> found = select_loss(rng.random((30, 3)) @ rng.random((3, 20)), ["manhattan", "frobenius"], random_state=0)
    >>> LossDisplay.from_result(found).ax_.get_xlabel()
    'squared error at held-out entries, lowest = 1'
    """

    def __init__(self, selection: LossSelection) -> None:
        self.selection = selection

    @classmethod
    def from_result(cls, selection: LossSelection, ax: Any = None) -> Self:
        """Draw what :func:`~visionnmf.select_loss` has found."""
        return cls(selection).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw into `ax` or a new figure."""
        found = check_result(self.selection, "selection", "select_loss", "losses", "scores")
        self.ax_ = one_axes(ax)
        lowest = found.scores.mean(axis=1)[0] or 1.0  # the best loss comes first
        names = [str(loss) for loss in found.losses]
        means, spread = found.scores.mean(axis=1) / lowest, found.scores.std(axis=1) / lowest
        self.points_ = self.ax_.errorbar(means, names, xerr=spread, fmt="o", capsize=3)
        if means.max() > WIDE * means.min():
            self.ax_.set_xscale("log")
        self.ax_.invert_yaxis()
        self.ax_.set_xlabel("squared error at held-out entries, lowest = 1")
        self.figure_ = self.ax_.figure
        return self
