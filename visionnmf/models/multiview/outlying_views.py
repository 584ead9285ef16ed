"""Views that do not belong to their samples: found by the residuals of models of other samples.

Two figures say how badly a view of a sample fits. The *residual* is the mean absolute residual of the sample's own
codes. The *prediction error* is that of predicting it from the other views of the sample, relative to the error of the
mean. A view that has nothing to do with the others is predicted no better than by its mean, so this is about 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from visionnmf._checks import check_random_state
from visionnmf._progress import Progress
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.models.nmf import NMF

from .components import SHARE, CodesPrior, Components, find_view_codes, learn_prior
from .missing_views import fill_views
from .views import Views, dense, row_slices

__all__ = [
    *("JUDGING", "UsualFigures", "block_residuals", "find_outlying", "judge_new", "judge_training", "limits_for_new"),
    *("prediction_errors", "strangeness", "usual_figures"),
]

Array = NDArray[Any]

JUDGING = "judging the views"  # as a stage of progress
FOLDS = 2  # each sample is judged by a model of the other half of the samples
SPLITS = 3  # into halves, because a model that missed a part reconstructs clean views badly
SMALL_STARTS = 2  # of such a model, for the same reason
PASSES = 2  # the second pass leaves the outlying views of the first out of its models
MAX_ITERATIONS = 100  # of such a model
FEWEST = 12  # samples; fewer are not judged
UNPREDICTED = 0.9  # prediction error above which a view may be outlying
FAR = 1.5  # times the threshold: a residual that is enough by itself
STRICTER = 3.5 / 3  # times the threshold: a prediction error that is enough; its tail is longer than that of residuals
TO_DEVIATION = 1.4826  # from the median absolute deviation to the standard deviation of normal residuals
LEAST_SPREAD = 0.05, 0.01  # of a view's residuals, as shares of their median and of the mean of its data
LEAST_ERROR_SPREAD = 0.1  # of prediction errors
PARTS = 2  # of the samples, each judged by a model of the others as new samples are
COMMON = 0.3  # if a larger share of a view is outlying, its figures only have long tails, and all of it is kept
MEAN_DEVIATION = 0.8  # from the standard deviation to the mean absolute deviation of normal data


class UsualFigures(NamedTuple):
    """What is usual of the figures of each view: the median and the robust standard deviation, each (n_views, 2).

    The columns are the residual and the prediction error. A view with an infinite deviation is never outlying.
    """

    median: Array
    spread: Array

    @classmethod
    def from_table(cls, table: Array) -> Self:
        """Return the figures of a table (n_views, 4), which is how a model keeps them."""
        return cls(table[:, ::2].copy(), table[:, 1::2].copy())

    def table(self) -> Array:
        """Return the median and the deviation of each view's residuals, then those of its prediction errors."""
        return np.stack(self, axis=-1).reshape(len(self.median), 4)

    def without(self, views: Array) -> Self:
        """Return the same figures, by which these `views`, bool (n_views,), are never outlying."""
        return self._replace(spread=np.where(views[:, None], np.inf, self.spread))


@one_blas_thread()
def block_residuals(views: Views, codes: Array, H: Array) -> Array:
    """Return the mean absolute residual of each view of each sample, of shape (n_samples, n_views).

    The model of the data is ``codes @ H``, of codes (n_samples, n_components) and components. The residual is NaN where
    no entry of the view counts.
    """
    members = (views.groups[:, None] == np.arange(views.n_views)).astype(np.float64)
    left = np.empty((len(views), views.n_views))  # sums of absolute residuals; `members` adds up those of a view
    count = np.broadcast_to(members.sum(axis=0), left.shape) if views.entries is None else views.entries @ members
    for rows, block, entries in views.blocks():
        residual = np.abs(block - codes[rows] @ H)
        if entries is not None:
            residual *= entries
        left[rows] = residual @ members
    return np.divide(left, count, out=np.full_like(left, np.nan), where=count > 0)


@one_blas_thread()
def prediction_errors(views: Views, codes: Array, H: Array, prior: CodesPrior) -> Array:
    """Return how far each view of each sample is from what its other views predict, of shape (n_samples, n_views).

    `H` are the components in the units of the data, and `prior` the mean and covariance of codes and the noise of the
    views, from which a view is predicted. The error is the sum of the absolute differences from the prediction by
    :func:`.fill_views`, as a share of that of the differences from the mean, or of what these are on average if that is
    more: of a sample near the mean, hardly anything is predicted better than by it. It is NaN where no entry of the
    view counts.
    """
    found, centre = np.full((len(views), views.n_views), np.nan), prior.mean @ H
    # the mean absolute deviation of each feature, if it is normal
    typical = MEAN_DEVIATION * np.sqrt((H * (prior.covariance @ H)).sum(axis=0) + prior.noise[views.groups])
    for rows in row_slices(views.data.shape):
        part = replace(views.rows(rows), data=dense(views.data[rows]))
        observed = part.observed()
        for v, own in enumerate(part.columns()):
            others = observed & (np.arange(views.n_views) != v)
            predicted = fill_views(part, others, codes[rows], H, prior)[:, own]
            entries = 1.0 if part.entries is None else part.entries[:, own]
            left = (np.abs(part.data[:, own] - predicted) * entries).sum(axis=1, dtype=np.float64)
            total = np.maximum(
                (np.abs(part.data[:, own] - centre[own]) * entries).sum(axis=1, dtype=np.float64),
                (np.broadcast_to(typical[own], predicted.shape) * entries).sum(axis=1),
            )
            found[rows, v] = np.where(observed[:, v], left / np.where(total > 0, total, 1.0), np.nan)
    return found


def usual_figures(figures: Array, kept: Array, means: Array) -> UsualFigures:
    """Return median and robust standard deviation of each view's residuals and prediction errors.

    `figures` (n_samples, n_views, 2) are these two, and `kept` (n_samples, n_views) says what counts. `means`
    (n_views,) are those of the data of each view; they bound the deviation of the residuals from below.
    """
    usual = UsualFigures(np.zeros(figures.shape[1:]), np.zeros(figures.shape[1:]))
    for v in range(figures.shape[1]):
        own = figures[kept[:, v], v]
        middle = np.median(own, axis=0) if len(own) else np.zeros(2)
        spread = TO_DEVIATION * np.median(np.abs(own - middle), axis=0) if len(own) else np.zeros(2)
        least = max(LEAST_SPREAD[0] * middle[0], LEAST_SPREAD[1] * means[v]), LEAST_ERROR_SPREAD
        usual.median[v], usual.spread[v] = middle, np.maximum(spread, least)
    return usual


def strangeness(figures: Array, usual: UsualFigures) -> Array:
    """Return by how many robust standard deviations each view of each sample is beyond the usual, (n_samples, n_views).

    `figures` (n_samples, n_views, 2) are residuals and prediction errors. A view that the sample's other views predict
    well enough, with an error of at most UNPREDICTED times that of the mean, is not outlying, however unusual its
    residual is, unless that is FAR times beyond. Prediction errors have a longer tail, so they count STRICTER times
    less.
    """
    above = figures - usual.median
    above = np.divide(above, usual.spread, out=np.zeros_like(above), where=usual.spread > 0)
    residual, error = above[..., 0], above[..., 1] / STRICTER
    return np.where(figures[..., 1] > UNPREDICTED, np.maximum(residual, error), residual / FAR)


def find_outlying(
    judge: Callable[[Array, Array], Array],
    observed: Array,
    threshold: float,
    usual: UsualFigures | None = None,
    means: Array | None = None,
) -> tuple[Array, UsualFigures]:
    """Leave out the worst view of each sample until the remaining ones agree; return what is outlying, and `usual`.

    A view is outlying if its :func:`strangeness` is above `threshold` (Hampel's identifier). An outlying view draws the
    codes away and so makes the sample's other views look worse. Therefore one view is left out at a time, and the
    others are judged again by codes without it. A sample keeps one.

    ``judge(rows, kept)`` returns the residuals and prediction errors (n_rows, n_views, 2) of some samples by the views
    that are kept. Without `usual` the usual figures are those of these samples, which needs `means`, the means
    (n_views,) of the data.
    """
    kept = observed.copy()
    # `rows` are the samples still to be judged: all at first, then those that have just lost a view. `found` holds the
    # latest figures of all samples.
    rows, found = np.arange(len(kept)), np.full((*kept.shape, 2), np.nan)
    given = usual
    while len(rows):
        found[rows] = judge(rows, kept[rows])
        usual = usual_figures(found, kept, np.asarray(means)) if given is None else given
        above = strangeness(found, usual)
        above[~kept] = -np.inf  # a view that is missing or left out already is never the worst
        worst = above.argmax(axis=1)
        rows = np.flatnonzero((above.max(axis=1) > threshold) & (kept.sum(axis=1) > 1))
        kept[rows, worst[rows]] = False
    assert usual is not None
    return observed & ~kept, usual


def judge_training(
    views: Views, weights: Array, model: NMF, threshold: float, progress: Progress
) -> tuple[Array, UsualFigures]:
    """Return which views of training samples are outlying, and what figures of each view are usual.

    A model of all samples would have components of its own for the outlying views, and reconstruct them perfectly.
    Therefore each half of the samples is judged by a small model of the other half, with the settings of `model`. Of
    three such splits the smallest residual of each view counts. With too few samples nothing is outlying, and the
    deviations are infinite. `weights` are what the views are multiplied by, in addition to the scale of their samples.
    `progress` is called after each small model.
    """
    observed, n_views = views.observed(), views.n_views
    if len(views) < FEWEST:
        return np.zeros_like(observed), _unknown(n_views)
    norms, means = np.ones(n_views), np.zeros(n_views)
    for v, columns in enumerate(views.columns()):
        view = views.data[:, columns]
        sums = np.asarray((view**2).sum(axis=1)).ravel()[observed[:, v]]
        norms[v] = np.sqrt(np.median(sums)) or 1.0  # the median, because outlying views may be very large
        means[v] = float(view.mean(dtype=np.float64))
    scaled = views.scaled((weights / norms)[views.groups])
    rng = check_random_state(model.random_state)
    splits = [rng.permutation(len(views)) % FOLDS for _ in range(SPLITS)]
    outlying, usual = np.zeros_like(observed), _unknown(n_views)
    halves = [fold == k for fold in splits for k in range(FOLDS)]
    total = PASSES * len(halves)
    for done in range(0, total, len(halves)):  # outlying views have drawn away the models of the first pass
        known = scaled.keep(~outlying)
        fits: list[tuple[Array, NMF, CodesPrior]] = []
        for judged in halves:
            progress(JUDGING, done + len(fits), total)
            fits.append((judged, *_fit_small(known.rows(~judged), model)))

        # `fits` is a default, so that the function keeps those of its own pass
        def judge(rows: Array, kept: Array, fits: list[tuple[Array, NMF, CodesPrior]] = fits) -> Array:
            """Return the smallest residual and prediction error of each view over the fits of other samples.

            `rows` are numbers of samples, and `kept`, bool (len(rows), n_views), is false for views that are left out.
            `fits` holds for each small model which samples it judges, because it was fitted to the others, and the
            prior of codes by which it predicts a view from the others. `scaled` are the training views multiplied by
            their `weights` and divided by their typical `norms`, which is undone at the end: residuals are in the units
            of the data. Of several fits that judge a sample the smallest counts.
            """
            least = np.full((*kept.shape, 2), np.nan)
            for judged, fitted, prior in fits:
                here = judged[rows]
                if here.any():
                    part = scaled.rows(rows[here]).keep(kept[here])
                    codes = fitted.transform(part.data, weights=part.weights())
                    least[here] = np.fmin(least[here], _residuals_and_errors(part, codes, fitted.components_, prior))
            return np.stack([least[..., 0] * norms / weights, least[..., 1]], axis=-1)

        # `means` (n_views,) of the data bound the deviations of residuals from below
        outlying, usual = find_outlying(judge, observed, threshold, means=means)
        # views that would be left out too often are kept whole
        common = outlying.sum(axis=0) > COMMON * observed.sum(axis=0)
        outlying[:, common], usual = False, usual.without(common)
        if not outlying.any():
            break
    progress(JUDGING, total, total)
    return outlying, usual


def limits_for_new(
    views: Views,
    common: Array,
    fit: Callable[[Views], Components],
    threshold: float,
    rng: np.random.RandomState,
) -> UsualFigures:
    """Return the usual figures by which :func:`judge_new` judges samples that a model has not seen.

    A model reconstructs its own training samples better than others, and the small models of :func:`judge_training` are
    not the final one. So the samples are cut into parts, and each part is judged as new samples are, by ``fit(views)``,
    the components that are learnt from the other parts. `views` are without the outlying views of training. The
    deviations are infinite for views of which more than 30 % would be left out, and for those that `common` (n_views,)
    marks, because too many were outlying in training.
    """
    observed = views.observed()
    if len(views) < FEWEST:
        return _unknown(views.n_views)
    part_of = rng.permutation(len(views)) % PARTS
    fits: list[tuple[Array, Components, CodesPrior]] = []
    for k in range(PARTS):
        rest = views.rows(part_of != k)
        components = fit(rest)
        prior = learn_prior(rest, find_view_codes(rest, components), components.H)
        fits.append((part_of == k, components, prior))

    def judge(rows: Array, kept: Array) -> Array:
        """Return the residual and the prediction error of each view of some samples, (len(rows), n_views, 2).

        `rows` are their numbers, and `kept` (len(rows), n_views) is false for views that are left out. `fits` has for
        each part which samples it has, and the components and the prior of codes that were learnt from the others.
        """
        found = np.full((*kept.shape, 2), np.nan)
        for judged, components, prior in fits:
            here = judged[rows]
            if here.any():
                part = views.rows(rows[here]).keep(kept[here])
                found[here] = _residuals_and_errors(part, find_view_codes(part, components), components.H, prior)
        return found

    means = np.array([float(views.data[:, own].mean(dtype=np.float64)) for own in views.columns()])
    # `find_outlying` calls `judge` again for samples of which it has left out a view
    outlying, usual = find_outlying(judge, observed, threshold, means=means)
    return usual.without(common | (outlying.sum(axis=0) > COMMON * observed.sum(axis=0)))


def judge_new(
    views: Views, components: Components, prior: CodesPrior, usual: UsualFigures, threshold: float
) -> tuple[Array, Array]:
    """Return the codes of samples by the views that belong to them, and which views do not.

    By `prior`, mean and covariance of codes, a sample's other views predict a view. It belongs up to `threshold`
    deviations beyond the median of the `usual` figures.
    """
    codes = np.empty((len(views), len(components.H)), views.data.dtype)
    outlying = np.zeros((len(views), views.n_views), bool)
    for rows in row_slices(views.data.shape):
        codes[rows], outlying[rows] = _judge_block(views.rows(rows), components, prior, usual, threshold)
    return codes, outlying


def _judge_block(
    views: Views, components: Components, prior: CodesPrior, usual: UsualFigures, threshold: float
) -> tuple[Array, Array]:
    """Return the codes (n_samples, n_components) and the outlying views (n_samples, n_views) of some samples.

    By `prior` the other views of a sample predict a view, and `threshold` is in deviations of the `usual` figures.
    """
    codes = np.empty((len(views), len(components.H)), views.data.dtype)

    def judge(rows: Array, kept: Array) -> Array:
        """Return the residual and the prediction error of each view of the samples `rows`, (len(rows), n_views, 2).

        The prediction is that of the sample's other views by `prior`, the mean and covariance of training codes.
        `kept`, bool (len(rows), n_views), is False for the views that are left out. The codes are found from the other
        views alone, and the figures of the views that are left out are NaN.
        """
        # `find_outlying` calls this again each time it has left out a view of a sample. So the codes that the last call
        # for a sample stores in `codes` are those by the views that are finally kept.
        part = views.rows(rows).keep(kept)
        codes[rows] = find_view_codes(part, components)
        return _residuals_and_errors(part, codes[rows], components.H, prior)

    # fills `codes` as well; item 1 would be `usual` again
    return codes, find_outlying(judge, views.observed(), threshold, usual)[0]


def _unknown(n_views: int) -> UsualFigures:
    """Return figures by which no view is ever outlying."""
    return UsualFigures(np.zeros((n_views, 2)), np.full((n_views, 2), np.inf))


def _residuals_and_errors(views: Views, codes: Array, H: Array, prior: CodesPrior) -> Array:
    """Return the residual and the prediction error of each view of each sample, of shape (n_samples, n_views, 2)."""
    return np.stack([block_residuals(views, codes, H), prediction_errors(views, codes, H, prior)], axis=-1)


def _fit_small(views: Views, model: NMF) -> tuple[NMF, CodesPrior]:
    """Fit a model with few components and iterations to scaled views, which only has to tell noise from clean views.

    Returns it with the prior of its codes. Few means at most one component for SHARE samples.
    """
    largest = max(1, min(len(views) // SHARE, views.data.shape[1]))
    small = clone(model).set_params(
        n_components=min(model.n_components or largest, largest),
        n_init=SMALL_STARTS,
        max_iter=min(model.max_iter, MAX_ITERATIONS),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit is good enough to recognise noise; the main fit warns itself
        codes = small.fit_transform(views.data, weights=views.weights())
    return small, learn_prior(views, codes, small.components_)
