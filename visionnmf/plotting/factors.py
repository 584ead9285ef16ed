"""Displays of factors: components as pictures, what a model makes of samples, and which view uses which component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from visionnmf._checks import brief, check_count, check_image_shape, check_numbers
from visionnmf._typing import Array
from visionnmf.exceptions import ParameterError

from ._axes import figure_of, fitted, legend, one_axes, panels, several, show, whole_numbers

MOST_TICKS, FLAT_TICKS = 30, 12  # the most labels at an axis; more than FLAT_TICKS are turned upright
MOST_SAMPLES = 20
SIGMAS = 3.0  # a residual beyond this many robust standard deviations may count as an outlier
# and beyond this share of the largest value of the model, because most residuals of data that are largely 0 are 0.
# Chosen on the digits of scikit-learn and a Manhattan fit of 16 components: it marks 7 % of the clean entries (48 %
# without it), and 64 % of those with salt and pepper (86 %).
SHARE = 0.25
MOSTLY = 0.75  # share of entries that are not 0, from which on the residuals tell enough by themselves


@dataclass(eq=False)
class ComponentsDisplay:
    """Components as pictures or curves, the most used first.

    Parameters
    ----------
    components : array-like [shape=(n_components, n_pixels)]
    image_shape : tuple of (int, int), optional
        Height and width, for components that are images; others are drawn as curves.
    usage : array-like [shape=(n_components,)], optional
        How much each component is used, in any unit. Without it, components keep their order.

    Attributes
    ----------
    order_ : ndarray of int
        The components that are drawn, in the order of the panels.
    images_ : list of matplotlib.image.AxesImage
        The pictures, each from 0 (black) to its own maximum (white), or from blue to red around 0 where components are
        negative, as those of PCA. Empty for curves.
    lines_ : list of matplotlib.lines.Line2D
        The curves. Empty for images.
    axes_ : ndarray of matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import NMF
    >>> from visionnmf.plotting import ComponentsDisplay
    >>> X = np.random.default_rng(0).random((30, 48))
    >>> display = ComponentsDisplay.from_estimator(NMF(4, random_state=0).fit(X), (6, 8), X)
    >>> len(display.images_)
    4
    """

    components: ArrayLike
    image_shape: tuple[int, int] | None = None
    usage: ArrayLike | None = None

    __repr__ = brief

    @classmethod
    def from_estimator(
        cls, estimator: Any, image_shape: tuple[int, int] | None = None, X: ArrayLike | None = None, **options: Any
    ) -> Self:
        """Draw the components of a fitted model, ordered by the sum of their codes for `X` if it is given.

        Parameters
        ----------
        estimator : NMF or another estimator with ``components_``
        image_shape : tuple of (int, int), optional
        X : array-like [shape=(n_samples, n_pixels)], optional
        **options
            Those of :meth:`plot`.
        """
        components = fitted(estimator, "components_").components_
        usage = None if X is None else np.asarray(estimator.transform(X)).sum(axis=0)
        return cls(components, image_shape, usage).plot(**options)

    def plot(self, axes: Any = None, *, most: int = 24, n_columns: int = 6) -> Self:
        """Draw at most `most` components, `n_columns` in a row, into `axes` or a new figure; its title counts them."""
        components = check_numbers(self.components, "components", None)
        if components.ndim != 2 or not components.size:
            raise ParameterError(f"components must have shape (n_components, n_pixels); got {components.shape}")
        if not np.isfinite(components).all():
            raise ParameterError("components must be finite; got NaN or infinity")
        if self.image_shape is not None:
            check_image_shape(self.image_shape, n_pixels=components.shape[1])
        usage = np.zeros(len(components)) if self.usage is None else check_numbers(self.usage, "usage", float)
        if usage.shape != (len(components),):
            raise ParameterError(f"usage must have shape {(len(components),)}; got {usage.shape}")
        self.order_ = np.argsort(-usage, kind="stable")[: check_count(most, "most")]
        share = usage / usage.sum() if usage.sum() > 0 else usage
        self.axes_ = panels(axes, len(self.order_), check_count(n_columns, "n_columns"))
        self.images_: list[Any] = []
        self.lines_: list[Any] = []
        for ax, k in zip(self.axes_, self.order_, strict=True):
            title = f"{k}" + f" ({100 * share[k]:.0f} %)" * bool(usage.any())
            if self.image_shape is None:
                self.lines_ += ax.plot(components[k])
                whole_numbers(ax.xaxis)
                ax.set_title(title, fontsize="medium")
            else:
                largest = float(np.abs(components[k]).max())
                signed = {"vmin": -largest, "vmax": largest, "cmap": "RdBu_r"}
                colours = signed if components.min() < 0 else {"vmin": 0}
                self.images_.append(show(ax, components[k].reshape(self.image_shape), title, **colours))
        self.figure_ = figure_of(self.axes_)
        if axes is None and len(self.order_) < len(components):
            self.figure_.suptitle(f"{len(self.order_)} of {len(components)} components")
        return self


class ReconstructionDisplay:
    """Samples, what a model makes of them, and the entries that are far from it.

    These entries are wrong if the model suits the data. If it has too few components, they are what it lacks.

    Parameters
    ----------
    X, model : array-like [shape=(n_samples, n_features)]
        Samples, and what the model says in their place. NaN in `X` is missing.
    image_shape : tuple of (int, int), optional
        Height and width, for samples that are images; others are drawn as curves.

    Attributes
    ----------
    limit_ : float
        The residual beyond which an entry counts as far: three robust standard deviations of the residuals (1.4826
        times the median of their sizes); where a quarter of X is 0 also at least a quarter of the largest value of the
        model.
    outliers_ : ndarray of bool [shape=(n_samples, n_features)]
        The entries beyond it.
    images_ : list of matplotlib.image.AxesImage
        Of each sample in turn: the input, the model, the residual and the entries far from it. Empty for curves.
    lines_ : list of matplotlib.lines.Line2D
        Of each sample in turn: input, model and the entries far from it. Empty for images.
    axes_ : ndarray of matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import NMF
    >>> from visionnmf.plotting import ReconstructionDisplay
    >>> X = np.outer(np.arange(1.0, 21), np.ones(48))
    >>> X[3, 5] = 500
    >>> display = ReconstructionDisplay.from_estimator(NMF(1, random_state=0).fit(X), X[3:4], (6, 8))
    >>> np.argwhere(display.outliers_).tolist()
    [[0, 5]]
    """

    def __init__(self, X: ArrayLike, model: ArrayLike, image_shape: tuple[int, int] | None = None) -> None:
        self.X = X
        self.model = model
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, image_shape: tuple[int, int] | None = None, **options: Any
    ) -> Self:
        """Draw samples beside what a fitted model makes of them.

        Parameters
        ----------
        estimator : NMF or another estimator with ``transform`` and ``inverse_transform``
        X : array-like [shape=(n_samples, n_features)]
            A few samples.
        image_shape : tuple of (int, int), optional
        **options
            Those of :meth:`plot`.
        """
        model = fitted(estimator, "transform", "inverse_transform")
        return cls(X, model.inverse_transform(model.transform(X)), image_shape).plot(**options)

    def plot(self, axes: Any = None) -> Self:
        """Draw four pictures for each sample, or one curve, into `axes` or a new figure."""
        X, model = check_numbers(self.X, "X", float), check_numbers(self.model, "model", float)
        if X.ndim != 2 or not X.size or X.shape != model.shape:
            raise ParameterError(f"X and model must have one shape of two axes; got {X.shape}, {model.shape}")
        if len(X) > MOST_SAMPLES:
            raise ParameterError(f"X must have at most {MOST_SAMPLES} samples to draw; got {len(X)}; pass some rows")
        if not np.isfinite(model).all() or np.isnan(X).all():
            raise ParameterError("X and model must be finite, except for missing entries of X; got NaN or infinity")
        residual = X - model
        self.limit_ = SIGMAS * 1.4826 * float(np.nanmedian(np.abs(residual)))
        largely_zero = np.count_nonzero(X) < MOSTLY * X.size
        least = SHARE * float(np.abs(model).max()) if largely_zero else 1e-6 * float(np.nanmax(np.abs(X)))
        self.limit_ = max(self.limit_, least)
        self.outliers_ = np.abs(residual) > self.limit_
        self.images_: list[Any] = []
        self.lines_: list[Any] = []
        if self.image_shape is None:
            self.axes_ = panels(axes, len(X), 1, (6.4, 2.2 * len(X)))
            for ax, *sample in zip(self.axes_, X, model, self.outliers_, strict=True):
                self._curves(ax, *sample)
        else:
            shape = check_image_shape(self.image_shape, n_pixels=X.shape[1])
            self.axes_ = panels(axes, 4 * len(X), 4)
            most = float(np.nanmax(np.abs(residual), initial=0)) or 1.0
            for i, row in enumerate(self.axes_.reshape(-1, 4)):
                white = float(np.nanmax(X[i], initial=0)) or 1.0
                titles = ("input", "model", "residual", "far from the model") if i == 0 else ("",) * 4
                pictures = X[i], model[i], residual[i], self.outliers_[i].astype(float)
                for ax, values, title, (low, high) in zip(
                    row, pictures, titles, ((0, white), (0, white), (-most, most), (0, 1)), strict=True
                ):
                    colours = "RdBu_r" if low < 0 else "gray"
                    self.images_.append(show(ax, values.reshape(shape), title, vmin=low, vmax=high, cmap=colours))
        self.figure_ = figure_of(self.axes_)
        return self

    def _curves(self, ax: Any, sample: Array, model: Array, wrong: Array) -> None:
        """Draw a sample, its model, and the entries that are far from it."""
        self.lines_ += ax.plot(sample, color="0.6", label="input")
        self.lines_ += ax.plot(model, color="C0", label="model")
        whole_numbers(ax.xaxis)
        at = np.flatnonzero(wrong)
        self.lines_ += ax.plot(at, sample[at], "x", color="C3", label="far from the model")
        legend(ax)


class ViewUsageDisplay:
    """Which view uses which component, those that more views use first.

    Parameters
    ----------
    usage : array-like [shape=(n_components, n_views), 0 to 1]
        Share of each component's energy in each view; 0 where the view does not use it.
    names : sequence of str
        Of the views.

    Attributes
    ----------
    order_ : ndarray of int [shape=(n_components,)]
        The components from left to right.
    image_ : matplotlib.image.AxesImage
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from visionnmf.plotting import ViewUsageDisplay
    >>> ViewUsageDisplay([[1, 0], [0.5, 0.5]], ["sounds", "images"]).plot().order_.tolist()
    [1, 0]
    """

    def __init__(self, usage: ArrayLike, names: Sequence[str]) -> None:
        self.usage = usage
        self.names = names

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Any = None) -> Self:
        """Draw the usage of a fitted :class:`~visionnmf.MultiviewNMF`."""
        model = fitted(estimator, "view_usage_", "views_")
        return cls(model.view_usage_, model.views_.tolist()).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw into `ax` or a new figure."""
        shares, names = check_numbers(self.usage, "usage", float), several(self.names, "names", "the views")
        if shares.ndim != 2 or not len(shares) or shares.shape[1] != len(names):
            raise ParameterError(f"usage must have a column for each of {len(names)} views; got shape {shares.shape}")
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ParameterError("usage must be shares from 0 to 1; got others; divide by the sum over the views")
        self.ax_ = one_axes(ax)
        # by the number of views, then by the main view and its share
        self.order_ = np.lexsort((-shares.max(axis=1), shares.argmax(axis=1), -(shares > 0).sum(axis=1)))
        from matplotlib.colors import LinearSegmentedColormap

        greys = LinearSegmentedColormap.from_list("shares", ["0.88", "black"])  # 0 is white, and any share is grey
        masked = np.ma.masked_equal(shares[self.order_].T, 0)
        self.image_ = self.ax_.imshow(masked, aspect="auto", cmap=greys, vmin=0, vmax=1)
        self.ax_.set_yticks(range(len(names)), names, parse_math=False)
        ticks = range(0, len(self.order_), -(-len(self.order_) // MOST_TICKS))
        self.ax_.set_xticks(ticks, self.order_[ticks].tolist(), rotation=90 if len(ticks) > FLAT_TICKS else 0)
        self.ax_.set_xlabel("component, those that more views use first")
        self.ax_.set_ylabel("view")
        self.figure_ = self.ax_.figure
        self.figure_.colorbar(self.image_, ax=self.ax_, label="share of energy\n(white: not used)")
        return self
