"""Views that do not belong to their samples: found by the residuals of models of other samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from visionnmf._checks import check_random_state
from visionnmf._progress import Progress
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.models.nmf import NMF

from .components import SHARE, Components, find_view_codes
from .views import Views, row_slices

__all__ = ["JUDGING", "block_residuals", "find_outlying", "judge_new", "judge_training", "usual_residuals"]

Array = NDArray[Any]

JUDGING = "judging the views"  # as a stage of progress
FOLDS = 2  # each sample is judged by a model of the other half of the samples
SPLITS = 3  # into halves, because a model that missed a part reconstructs clean views badly
SMALL_STARTS = 2  # of such a model, for the same reason
PASSES = 2  # the second pass leaves the outlying views of the first out of its models
MAX_ITERATIONS = 100  # of such a model
FEWEST = 12  # samples; fewer are not judged
TO_DEVIATION = 1.4826  # from the median absolute deviation to the standard deviation of normal residuals
LEAST_SPREAD = 0.05, 0.01  # of a view's residuals, as shares of their median and of the mean of its data


@one_blas_thread()
def block_residuals(views: Views, codes: Array, H: Array) -> Array:
    """Return the mean absolute residual of each view of each sample, of shape (n_samples, n_views).

    It is NaN where no entry of the view counts.
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


def usual_residuals(residuals: Array, kept: Array, means: Array) -> Array:
    """Return the median and the robust standard deviation of each view's residuals, of shape (n_views, 2).

    `residuals` and `kept`, which says what counts, are (n_samples, n_views). `means` (n_views,) are those of the data
    of each view; they bound the deviation from below.
    """
    usual = np.zeros((residuals.shape[1], 2))
    for v in range(len(usual)):
        own = residuals[kept[:, v], v]
        middle = float(np.median(own)) if len(own) else 0.0
        spread = TO_DEVIATION * float(np.median(np.abs(own - middle))) if len(own) else 0.0
        usual[v] = middle, max(spread, LEAST_SPREAD[0] * middle, LEAST_SPREAD[1] * means[v])
    return usual


def find_outlying(
    residuals: Callable[[Array, Array], Array],
    observed: Array,
    threshold: float,
    usual: Array | None = None,
    means: Array | None = None,
) -> tuple[Array, Array]:
    """Leave out the worst view of each sample until the remaining ones agree; return what is outlying, and `usual`.

    A view is outlying if its residual is more than `threshold` robust standard deviations above the median of the view
    (Hampel's identifier). An outlying view draws the codes away and so makes the sample's other views look worse.
    Therefore one view is left out at a time, and the others are judged again by codes without it. A sample keeps one.

    ``residuals(rows, kept)`` returns the residuals of some samples by codes of the views that are kept. `usual` are the
    figures of :func:`usual_residuals`; without them those of these samples are taken, which needs `means`.
    """
    kept = observed.copy()
    # `rows` are the samples still to be judged: all at first, then those that have just lost a view. `found` holds the
    # latest residuals of all samples.
    rows, found = np.arange(len(kept)), np.full(kept.shape, np.nan)
    given = usual
    while len(rows):
        found[rows] = residuals(rows, kept[rows])
        usual = usual_residuals(found, kept, np.asarray(means)) if given is None else given
        excess = found - usual[:, 0]
        above = np.divide(excess, usual[:, 1], out=np.zeros_like(excess), where=usual[:, 1] > 0)
        above[~kept] = -np.inf  # a view that is missing or left out already is never the worst
        worst = above.argmax(axis=1)
        rows = np.flatnonzero((above.max(axis=1) > threshold) & (kept.sum(axis=1) > 1))
        kept[rows, worst[rows]] = False
    assert usual is not None
    return observed & ~kept, usual


def judge_training(
    views: Views, weights: Array, model: NMF, threshold: float, progress: Progress
) -> tuple[Array, Array]:
    """Return which views of training samples are outlying, and the usual residuals of each view.

    A model of all samples would have components of its own for the outlying views, and reconstruct them perfectly.
    Therefore each half of the samples is judged by a small model of the other half, with the settings of `model`. Of
    three such splits the smallest residual of each view counts. With too few samples nothing is outlying, and the
    deviations are infinite. `weights` are what the views are multiplied by, in addition to the scale of their samples.
    `progress` is called after each small model.
    """
    observed, n_views = views.observed(), views.n_views
    if len(views) < FEWEST:
        return np.zeros_like(observed), np.tile([0.0, np.inf], (n_views, 1))
    norms, means = np.ones(n_views), np.zeros(n_views)
    for v, columns in enumerate(views.columns()):
        view = views.data[:, columns]
        sums = np.asarray((view**2).sum(axis=1)).ravel()[observed[:, v]]
        norms[v] = np.sqrt(np.median(sums)) or 1.0  # the median, because outlying views may be very large
        means[v] = float(view.mean(dtype=np.float64))
    scaled = views.scaled((weights / norms)[views.groups])
    rng = check_random_state(model.random_state)
    splits = [rng.permutation(len(views)) % FOLDS for _ in range(SPLITS)]
    outlying, usual = np.zeros_like(observed), np.zeros((n_views, 2))
    halves = [fold == k for fold in splits for k in range(FOLDS)]
    total = PASSES * len(halves)
    for done in range(0, total, len(halves)):  # outlying views have drawn away the models of the first pass
        known = scaled.keep(~outlying)
        fits: list[tuple[Array, NMF]] = []
        for judged in halves:
            progress(JUDGING, done + len(fits), total)
            fits.append((judged, _fit_small(known.rows(~judged), model)))

        def residuals(rows: Array, kept: Array, fits: list[tuple[Array, NMF]] = fits) -> Array:
            """Return the smallest residual of each view, in the units of the data, over the fits of other samples.

            `rows` are numbers of samples, and `kept`, bool (len(rows), n_views), is false for views that are left out.
            `fits` holds for each small model which samples it judges, because it was fitted to the others.
            """
            least = np.full(kept.shape, np.nan)
            for judged, fitted in fits:
                here = judged[rows]
                if here.any():
                    part = scaled.rows(rows[here]).keep(kept[here])
                    codes = fitted.transform(part.data, weights=part.weights())
                    least[here] = np.fmin(least[here], block_residuals(part, codes, fitted.components_))
            return least * norms / weights

        outlying, usual = find_outlying(residuals, observed, threshold, means=means)
        if not outlying.any():
            break
    progress(JUDGING, total, total)
    return outlying, usual


def judge_new(
    views: Views, components: Components, usual: Array | None, threshold: float | None
) -> tuple[Array, Array]:
    """Return the codes of samples by the views that belong to them, and which views do not.

    `usual` are the residuals of :func:`judge_training`. Without them, or without a threshold, all views belong.
    """
    codes = np.empty((len(views), len(components.H)), views.data.dtype)
    outlying = np.zeros((len(views), views.n_views), bool)
    for rows in row_slices(views.data.shape):
        block = views.rows(rows)
        if usual is None or threshold is None:
            codes[rows] = find_view_codes(block, components)
        else:
            codes[rows], outlying[rows] = _judge_block(block, components, usual, threshold)
    return codes, outlying


def _judge_block(views: Views, components: Components, usual: Array, threshold: float) -> tuple[Array, Array]:
    """Return the codes (n_samples, n_components) and the outlying views (n_samples, n_views) of some samples.

    `usual` (n_views, 2) are the usual residuals of :func:`judge_training`, and `threshold` is in their deviations.
    """
    codes = np.empty((len(views), len(components.H)), views.data.dtype)

    def residuals(rows: Array, kept: Array) -> Array:
        """Return the mean absolute residual of each view of the samples `rows`, of shape (len(rows), n_views).

        `kept`, a boolean array of the same shape, is False for the views that are left out. The codes are found from
        the other views alone, and the residuals of the views that are left out are NaN.
        """
        # `find_outlying` calls this again each time it has left out a view of a sample. So the codes that the last call
        # for a sample stores in `codes` are those by the views that are finally kept.
        part = views.rows(rows).keep(kept)
        codes[rows] = find_view_codes(part, components)
        return block_residuals(part, codes[rows], components.H)

    return codes, find_outlying(residuals, views.observed(), threshold, usual)[0]


def _fit_small(views: Views, model: NMF) -> NMF:
    """Fit a model with few components and iterations to scaled views; it only has to tell noise from clean views."""
    largest = max(1, min(len(views) // SHARE, views.data.shape[1]))
    small = clone(model).set_params(
        n_components=min(model.n_components or largest, largest),
        n_init=SMALL_STARTS,
        max_iter=min(model.max_iter, MAX_ITERATIONS),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit is good enough to recognise noise; the main fit warns itself
        return small.fit(views.data, weights=views.weights())
