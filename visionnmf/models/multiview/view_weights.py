"""Scales and weights of views that are chosen by fits: the noise of each view, and cross-validated weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf._progress import Progress
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.models.nmf import NMF

from .components import Components, find_view_codes
from .views import Views, dense

__all__ = ["choose_view_weights", "noise_views", "view_noises", "weights_without_noise"]

Array = NDArray[Any]

WEIGHING = "weighing the views"  # as a stage of progress
LEAST_NOISE = 0.01  # of a view's mean; less is rounding, or the view's own model fits it exactly
STEPS = (0.5, 2.0)  # factors by which a weight is changed to see whether it should be another
ROUNDS = 2  # how often all views are gone through
HIDDEN = 0.1  # share of the entries that is hidden from the fits and then predicted
FEWEST = 40  # samples; with fewer it cannot be told what is noise
MOST = 200  # samples that are looked at, because more make no difference
SHUFFLES = 20  # with which a view is compared
SIGNAL = 6.0  # standard deviations above shuffled data; real views have 14 and more, noise seldom 4


@one_blas_thread()
def view_noises(views: Views, model: NMF) -> Array:
    """Estimate the noise of each view, as the mean absolute residual of an NMF of this view alone; shape (n_views,).

    `model` supplies the settings of these fits. Dividing the views by their noise makes those with less noise count
    more. The estimate is never below 1 % of the view's mean, and is 1 for a view of zeros.
    """
    weights, noises = views.weights(), np.ones(views.n_views)
    for v, own in enumerate(views.columns()):
        view = np.ascontiguousarray(dense(views.data[:, own]))
        there = None if weights is None else np.ascontiguousarray(weights[:, own])
        # With more components than a third of its shorter side, a view would be fitted too well to show its noise.
        n_components = max(1, min(model.n_components or min(view.shape), min(view.shape) // 3))
        alone = clone(model).set_params(n_components=n_components)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the fit is good enough for a scale
            residual = np.abs(view - alone.fit_transform(view, weights=there) @ alone.components_)
        if there is not None:
            residual *= there
        count = view.size if there is None else np.count_nonzero(there)
        least = LEAST_NOISE * float(view.sum(dtype=np.float64))
        noises[v] = max(float(residual.sum(dtype=np.float64)), least) / count or 1.0
    return noises


@one_blas_thread()
def noise_views(views: Views) -> Array:
    """Return which views are nothing but noise, bool of shape (n_views,).

    In a view of noise the features say nothing of each other, and nothing of the other views. So its features are no
    more correlated than if each is shuffled over the samples, and its samples are no more alike where those of the
    other views are than if the samples are shuffled. More means SIGNAL standard deviations above the mean of SHUFFLES
    shufflings. The random numbers are the same in each call, so the verdict depends on the data alone.

    No view is called noise if there are fewer than 40 samples, if no feature of it varies, or if all views are noise.
    """
    noise = np.zeros(views.n_views, bool)
    if views.n_views < 2 or len(views) < FEWEST:
        return noise
    rng, observed = np.random.default_rng(0), views.observed()
    for v in range(views.n_views):
        rows = rng.permutation(np.flatnonzero(observed[:, v]))[:MOST]
        own, *others = (_standardised(views.rows(rows), u) for u in (v, *np.delete(np.arange(views.n_views), v)))
        if len(rows) < FEWEST or not own.size:
            continue
        shuffled = [_correlation(rng.permuted(own, axis=0)) for _ in range(SHUFFLES)]
        if _correlation(own) - np.mean(shuffled) < SIGNAL * np.std(shuffled):
            # (n_rows, n_rows): how alike two samples are in this view, and in the others together
            alike, rest = own @ own.T, sum((other @ other.T / max(1, other.shape[1]) for other in others), 0.0)
            orders = [rng.permutation(len(rows)) for _ in range(SHUFFLES)]
            agreements = [float((alike[np.ix_(order, order)] * rest).sum()) for order in orders]
            noise[v] = (alike * rest).sum() - np.mean(agreements) < SIGNAL * np.std(agreements)
    return noise if not noise.all() else np.zeros_like(noise)


def _standardised(views: Views, v: int) -> Array:
    """Return the ranks of the samples in each feature of a view that varies, with mean 0 and variance 1.

    Ranks do not let a few wrong entries hide what the others have in common. Entries that do not count are 0.
    """
    columns = views.groups == v
    data = dense(views.data[:, columns]).astype(np.float64)
    if views.entries is None:
        ranks = rankdata(data, axis=0)
    else:
        ranks = rankdata(np.where(views.entries[:, columns], data, np.nan), axis=0, nan_policy="omit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a feature without any entry
        spread = np.nan_to_num(ranks - np.nanmean(ranks, axis=0))
    deviation = np.sqrt((spread**2).mean(axis=0))
    return spread[:, deviation > 0] / deviation[deviation > 0]


def _correlation(matrix: Array) -> float:
    """Return the sum of the squared inner products of the columns of a matrix, which is that of its rows as well."""
    gram = matrix @ matrix.T if len(matrix) < matrix.shape[1] else matrix.T @ matrix
    return float((gram**2).sum())


def weights_without_noise(views: Views) -> Array:
    """Return 1 for each view, and 0 for views of noise, which a warning names."""
    noise = noise_views(views)
    if noise.any():
        names = ", ".join(str(name) for name, found in zip(views.names, noise, strict=True) if found)
        warnings.warn(
            f"MultiviewNMF leaves out views that look like noise: {names}; pass view_weight with a number for each "
            "view to count them",
            UserWarning,
            stacklevel=4,
        )
    return np.where(noise, 0.0, 1.0)


def choose_view_weights(
    views: Views,
    fit: Callable[[Array, Views], Components],
    begun: Array,
    rng: np.random.RandomState,
    progress: Progress,
) -> Array:
    """Choose the weights of views, powers of 2, by how well a fit predicts entries that were hidden from it.

    The search starts from the weights `begun` (n_views,), of which those of 0, of views of noise, stay.

    Each view in turn gets half and twice its weight, and what lowers the error is kept. The error is the sum of the
    absolute residuals at the hidden entries as a share of the sum of these entries, averaged over the views. It does
    not contain the weights, so no weight lowers it by itself. ``fit(weights, views)`` returns the components of views
    multiplied by weights. `progress` is called after each fit; fits that turn out not to be needed count as done.
    """
    X = dense(views.data)
    hidden = rng.random_sample(X.shape) < HIDDEN
    if views.entries is not None:
        hidden &= views.entries
    rest = ~hidden if views.entries is None else views.entries & ~hidden
    shown_views, groups, n_views = replace(views, data=X, entries=rest), views.groups, views.n_views
    # the sum of the hidden entries of each view, to which the errors are related
    total = np.bincount(groups, (X * hidden).sum(axis=0, dtype=np.float64), n_views)

    @one_blas_thread()
    def error(weights: Array) -> float:
        """Fit views with these `weights` to the shown entries, and return the mean error of the views.

        That of a view is the sum of its absolute residuals at the entries that are `hidden`, a boolean array, as a
        share of their sum, `total` (n_views,). `groups` (n_features,) has the view of each feature.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the fits are good enough for a comparison
            found = fit(weights, shown_views)
        codes = find_view_codes(shown_views, found)  # by views and components that are multiplied by the weights
        residual = np.abs(X - codes @ found.H) * hidden  # `found.H` is in the units of `X`
        left = np.bincount(groups, residual.sum(axis=0, dtype=np.float64), n_views)
        return float((left / np.where(total > 0, total, 1)).mean())

    weights, tuned = begun, np.flatnonzero(begun)
    n_fits = 1 + ROUNDS * len(STEPS) * len(tuned)
    progress(WEIGHING, 0, n_fits)
    least = error(weights)
    for number in range(ROUNDS):
        before = weights  # another array as soon as a weight changes
        for place, v in enumerate(tuned):
            for half, step in enumerate(STEPS):
                progress(WEIGHING, 1 + (number * len(tuned) + place) * len(STEPS) + half, n_fits)
                tried = weights.copy()
                tried[v] *= step
                found = error(tried)
                if found < least:
                    weights, least = tried, found
                    break  # if half the weight is better, twice the weight need not be tried
        if weights is before:  # a whole round changed nothing
            break
    progress(WEIGHING, n_fits, n_fits)
    return weights
