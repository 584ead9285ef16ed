"""Predictions of views and entries that are missing, and codes that take them into account."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from visionnmf._typing import Array
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import find_loss
from visionnmf.models.nmf import NMF

from .components import RECONSTRUCTED, CodesPrior, Components, find_view_codes, fit_components, learn_prior
from .views import Views, dense, row_slices

CROWDED = 3  # samples for each component; with fewer, components fit only the entries that are there
SHARE = 6  # minimum number of samples for each component of the small fit that predicts missing views
LEAST = 0.01  # of the mean code's reconstruction: the minimum that is filled in if the loss is infinite at 0


@one_blas_thread()
def fill_views(views: Views, kept: Array, codes: Array, H: Array, prior: CodesPrior, *, least: float = 0.0) -> Array:
    r"""Return the data with the views that are not kept filled in by their expectation given the other views.

    With normal codes of mean m and covariance S, and noise of variance D, the expected codes given the views o of a
    sample are :math:`m + (I + S H_o D^{-1} H_o^\top)^{-1} S H_o D^{-1} (x_o - m H_o)`, the posterior mean of factor
    analysis (Rubin and Thayer 1982). The fewer entries there are, the nearer these codes are to the mean.

    `kept` has shape (n_samples, n_views). Single missing entries of a kept view are taken from `codes`, which are those
    by the kept views. `least` is the minimum that is filled in, as a share of what the mean of the codes predicts.
    Raises ParameterError if something expected is not finite.
    """
    data, groups = views.data.copy(), views.groups
    parts, noise = H.astype(np.float64), prior.noise[groups]
    low = least * (prior.mean @ parts)
    # The matrix that maps data to expected codes depends only on which views are there, so it is computed once for
    # each pattern of kept views.
    patterns, which = np.unique(kept, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        there = pattern[groups]
        if there.all():
            continue
        with np.errstate(all="ignore"):  # what is not finite is refused below
            weighted = prior.covariance @ (parts[:, there] / noise[there])
            gain = _solve(np.eye(len(H)) + weighted @ parts[:, there].T, weighted).T
        members = np.flatnonzero(which.ravel() == p)
        step = max(1, RECONSTRUCTED // H.shape[1])
        for start in range(0, len(members), step):
            rows = members[start : start + step]
            own = data[rows]
            if views.entries is not None:
                own = np.where(views.entries[rows], own, codes[rows] @ H)
            with np.errstate(all="ignore"):
                expected = prior.mean + (own[:, there] - prior.mean @ parts[:, there]) @ gain
                data[np.ix_(rows, ~there)] = np.maximum(expected @ parts[:, ~there], low[~there])
    if not np.isfinite(data).all():
        raise _overflow_error(data.dtype)
    return data


@one_blas_thread()
def fill_entries(views: Views, codes: Array, H: Array) -> Array:
    """Return a dense copy of the data in which the reconstruction ``codes @ H`` replaces entries that do not count."""
    if views.entries is None:
        return dense(views.data) if sp.issparse(views.data) else views.data.copy()
    data = views.data.copy()
    for rows in row_slices(data.shape):
        np.copyto(data[rows], codes[rows] @ H, where=~views.entries[rows], casting="same_kind")
    return data


def complete_views(model: NMF, views: Views, scales: Array) -> Views:
    """Return the training views with missing views predicted, if the fit has many components; else `views` unchanged.

    A fit with many components for few samples would learn only the entries that are there and predict missing views
    badly. If there is more than one component for three samples (`CROWDED`), a smaller fit with one for six (`SHARE`)
    predicts the missing views by :func:`fill_views`, and the main fit then learns from the result. Each view is
    multiplied by its number in `scales` for the fit.
    """
    there = views.observed()  # of shape (n_samples, n_views)
    if there.all() or (int(model.n_components or 0) or min(views.data.shape)) <= len(views) / CROWDED:
        return views
    small = clone(model).set_params(
        n_components=max(1, len(views) // SHARE), exact_codes=False, measure_optimality=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit is good enough for a start; the main fit warns itself
        components = fit_components(small, views, scales, None)[0]
    codes = find_view_codes(views, components)
    prior = learn_prior(views, codes, components.H)
    filled = fill_views(views, there, codes, components.H, prior, least=_least_filled(model.loss))
    return replace(views, data=filled, entries=_count_filled(views.entries, there, views.groups))


def complete_codes(views: Views, codes: Array, components: Components, prior: CodesPrior, loss: Any) -> Array:
    """Find the codes of samples with missing views again, after these views have been predicted.

    `codes` (n_samples, n_components), found from the views that are there, are changed in place and returned; rows of
    complete samples stay as they are. `loss` is the estimator's parameter; for some losses predictions must be above 0.
    A warning names samples that have only views of weight 0, whose codes are the mean.
    """
    kept = views.observed()
    lost = np.flatnonzero(~(kept & (components.scales > 0)).any(axis=1))
    if len(lost):
        warnings.warn(
            f"MultiviewNMF gives the mean codes to samples that only have views of weight 0: {len(lost)} samples, the "
            f"first of which is sample {lost[0]}; leave them out",
            UserWarning,
            stacklevel=4,
        )
    gaps = np.flatnonzero(~kept.all(axis=1))  # samples that lack a view
    for block in row_slices((len(gaps), components.H.shape[1])):
        rows = gaps[block]
        part = views.rows(rows)
        part = replace(part, data=dense(part.data))
        filled = fill_views(part, kept[rows], codes[rows], components.H, prior, least=_least_filled(loss))
        entries = _count_filled(part.entries, kept[rows], views.groups)  # now all entries of these views count
        codes[rows] = find_view_codes(replace(part, data=filled, entries=entries), components)
    return codes


def _solve(matrix: Array, right: Array) -> Array:
    """Solve a linear system; raise ParameterError if the matrix is singular, which a prior near overflow makes it."""
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        raise _overflow_error(right.dtype) from None


def _overflow_error(dtype: Any) -> ParameterError:
    """Return the error for codes that overflow the floating point type of the data."""
    return ParameterError(f"X must have codes within {dtype}; got some beyond; the model's prior does not fit it")


def _least_filled(loss: Any) -> float:
    """Return the minimum of what is predicted for missing views, as a share of what the mean of the codes predicts."""
    record = find_loss(loss)  # `loss` is a name, or beta itself
    beta = loss if isinstance(loss, Real) or record is None else record.beta
    return LEAST if isinstance(beta, Real) and beta <= 0 else 0.0


def _count_filled(entries: Array | None, kept: Array, groups: Array) -> Array | None:
    """Return which entries count after the views that were not kept are filled in; None if all do."""
    if entries is None:
        return None
    # For booleans, a <= b means "not a, or b": all entries of a filled view count, and those of a kept view that did.
    counts = kept[:, groups] <= entries
    return None if counts.all() else counts
