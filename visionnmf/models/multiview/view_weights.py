"""Scales and weights of views that are given or chosen by fits: the noise of each view, and cross-validated weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf._checks import check_number, shown
from visionnmf._progress import Progress
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError
from visionnmf.models.nmf import NMF

from .components import Components, find_view_codes
from .views import Views, dense

__all__ = ["check_view_weight", "choose_view_weights", "view_noises"]

Array = NDArray[Any]

WEIGHING = "weighing the views"  # as a stage of progress
LEAST_NOISE = 0.01  # of a view's mean; less is rounding, or the view's own model fits it exactly
STEPS = (0.5, 2.0)  # factors by which a weight is changed to see whether it should be another
ROUNDS = 2  # how often all views are gone through
HIDDEN = 0.1  # share of the entries that is hidden from the fits and then predicted


def check_view_weight(given: Any, names: Sequence[str]) -> Array | None:
    """Return the weights of the views `names`, numbers > 0, by the parameter `view_weight`; None for "cv"."""
    if isinstance(given, str):
        if given == "cv":
            return None
        raise ParameterError(f"view_weight must be None, 'cv', or a number for each view; got {given!r}")
    if isinstance(given, Mapping):
        unknown = [str(name) for name in given if str(name) not in names]
        if unknown:
            raise ParameterError(f"view_weight must name views of {list(names)}; got {unknown[0]!r:.60}")
        weights = {str(name): value for name, value in given.items()}
        given = [weights.get(name, 1.0) for name in names]
    if np.ndim(given) != 1 or len(given) != len(names):
        raise ParameterError(f"view_weight must be a number for each of {len(names)} views; got {shown(given)}")
    # `without_low` excludes the lowest number, 0
    return np.array([check_number(value, "view_weight", without_low=True) for value in given])


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
