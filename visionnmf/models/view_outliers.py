"""Views that do not belong to their samples: noise, or those of another sample."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from visionnmf._checks import check_random_state
from visionnmf.engine.blocks import one_blas_thread

from .group_fit import scaled_views
from .nmf import NMF
from .views import observed_views, row_blocks

__all__ = ["block_residuals", "find_outlying", "judge_new", "judge_training", "leave_out", "usual_residuals"]

Array = NDArray[Any]

FOLDS = 2  # of the samples: each is judged by a model of the others
SPLITS = 3  # into folds: a model that missed a part tells clean views badly, and seldom do all models of a sample
STARTS = 2  # of such a model, for the same reason
PASSES = 2
SHARE = 6  # samples for each component of such a model, at least
MOST_ITERATIONS = 100  # of such a model
FEWEST = 12  # samples
TO_DEVIATION = 1.4826  # from the median absolute deviation, for normal residuals
LEAST_SPREAD = 0.05, 0.01  # of a view's residuals: in shares of their median, and of the mean of its data
BLOCK = 1024  # rows of a model that are in memory at once


@one_blas_thread()
def block_residuals(data: Any, entries: Array | None, codes: Array, H: Array, groups: Array, n_views: int) -> Array:
    """Return the mean absolute residual of each view of each sample.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for entries that do not count, 1 for the others.
    codes : ndarray [shape=(n_samples, n_components), >= 0]
    H : ndarray [shape=(n_components, n_features), >= 0]
    groups : ndarray of int [shape=(n_features,)]
        The view of each feature.
    n_views : int

    Returns
    -------
    ndarray [shape=(n_samples, n_views)]
        NaN where a view has no entry that counts.
    """
    members = (groups[:, None] == np.arange(n_views)).astype(np.float64)
    left = np.empty((data.shape[0], n_views))
    count = np.broadcast_to(members.sum(axis=0), left.shape) if entries is None else entries @ members
    for start in range(0, data.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        block = data[rows].toarray() if sp.issparse(data) else data[rows]
        residual = np.abs(block - codes[rows] @ H)
        if entries is not None:
            residual *= entries[rows]
        left[rows] = residual @ members
    return np.divide(left, count, out=np.full_like(left, np.nan), where=count > 0)


def usual_residuals(residuals: Array, kept: Array, means: Array) -> Array:
    """Return the median and the robust standard deviation of each view's residuals.

    Parameters
    ----------
    residuals : ndarray [shape=(n_samples, n_views)]
    kept : ndarray of bool [shape=(n_samples, n_views)]
        What counts.
    means : ndarray [shape=(n_views,)]
        Of the data of each view.

    Returns
    -------
    ndarray [shape=(n_views, 2)]
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
    """Leave out the worst view of each sample, until those that remain agree.

    A view is outlying where its residual is more than `threshold` robust standard deviations above the median of the
    view (Hampel's identifier). Codes that an outlying view has drawn away make the sample's other views worse, too, so
    one is left out at a time, and the others are judged anew by codes without it. A sample keeps one view.

    Parameters
    ----------
    residuals : callable
        ``residuals(rows, kept)`` returns those of some samples, of shape (n_rows, n_views), by codes of the views that
        are kept, of the same shape.
    observed : ndarray of bool [shape=(n_samples, n_views)]
        False where a view is missing.
    threshold : float
    usual : ndarray [shape=(n_views, 2)], optional
        Of :func:`usual_residuals`; those of these samples when not given.
    means : ndarray [shape=(n_views,)], optional
        See :func:`usual_residuals`; needed without `usual`.

    Returns
    -------
    outlying : ndarray of bool [shape=(n_samples, n_views)]
    usual : ndarray [shape=(n_views, 2)]
    """
    kept = observed.copy()
    rows, found = np.arange(len(kept)), np.full(kept.shape, np.nan)
    given = usual
    while len(rows):
        found[rows] = residuals(rows, kept[rows])
        usual = usual_residuals(found, kept, np.asarray(means)) if given is None else given
        excess = found - usual[:, 0]
        above = np.divide(excess, usual[:, 1], out=np.zeros_like(excess), where=usual[:, 1] > 0)
        above[~kept] = -np.inf
        worst = above.argmax(axis=1)
        rows = np.flatnonzero((above.max(axis=1) > threshold) & (kept.sum(axis=1) > 1))
        kept[rows, worst[rows]] = False
    assert usual is not None
    return observed & ~kept, usual


def judge_training(
    data: Any, entries: Array | None, groups: Array, weights: Array, model: NMF, threshold: float
) -> tuple[Array, Array]:
    """Return which views of training samples are outlying, and the usual residuals.

    A model of all samples would have components of its own for the outlying ones, which it then tells perfectly; so
    each half of the samples is judged by a small model of the other half. Of three such splits the least residual of
    each view counts.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for missing entries, 1 for the others.
    groups : ndarray of int [shape=(n_features,)]
    weights : ndarray [shape=(n_views,), > 0]
        What views are multiplied by, beside the scale of their samples.
    model : NMF
        Whose settings are used.
    threshold : float

    Returns
    -------
    outlying : ndarray of bool [shape=(n_samples, n_views)]
    usual : ndarray [shape=(n_views, 2)]
        A spread of infinity where there are too few samples to say.
    """
    n_samples, n_views = data.shape[0], len(weights)
    observed = observed_views(entries, groups, n_samples, n_views)
    if n_samples < FEWEST:
        return np.zeros_like(observed), np.tile([0.0, np.inf], (n_views, 1))
    norms, means = np.ones(n_views), np.zeros(n_views)
    for v in range(n_views):
        view = data[:, np.flatnonzero(groups == v)]
        sums = np.asarray((view**2).sum(axis=1)).ravel()[observed[:, v]]
        norms[v] = np.sqrt(np.median(sums)) or 1.0  # outlying ones may be very large
        means[v] = float(view.mean(dtype=np.float64))
    scaled = scaled_views(data, (weights / norms)[groups])
    rng = check_random_state(model.random_state)
    splits = [rng.permutation(n_samples) % FOLDS for _ in range(SPLITS)]
    outlying, usual = np.zeros_like(observed), np.zeros((n_views, 2))
    for _ in range(PASSES):  # what was found has drawn away the models that found it
        known, counts = leave_out(scaled, entries, ~outlying, groups)
        fits = [(fold == k, _fit(*_part(known, counts, fold != k), model)) for fold in splits for k in range(FOLDS)]

        def residuals(rows: Array, kept: Array, fits: list[tuple[Array, NMF]] = fits) -> Array:
            least = np.full(kept.shape, np.nan)
            for judged, fitted in fits:
                here = judged[rows]
                if here.any():
                    part, own = leave_out(*_part(scaled, entries, rows[here]), kept[here], groups)
                    codes = fitted.transform(part, weights=own)
                    found = block_residuals(part, own, codes, fitted.components_, groups, n_views)
                    least[here] = np.fmin(least[here], found)
            return least * norms / weights

        outlying, usual = find_outlying(residuals, observed, threshold, means=means)
        if not outlying.any():
            break
    return outlying, usual


def judge_new(
    data: Any,
    entries: Array | None,
    solve: Callable[[Any, Array | None], Array],
    H: Array,
    groups: Array,
    n_views: int,
    usual: Array | None,
    threshold: float | None,
) -> tuple[Array, Array]:
    """Return the codes of samples by the views that belong to them, and which do not.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
    solve : callable
        ``solve(data, entries)`` returns codes.
    H : ndarray [shape=(n_components, n_features), >= 0]
    groups : ndarray of int [shape=(n_features,)]
    n_views : int
    usual : ndarray [shape=(n_views, 2)] or None
        Of :func:`judge_training`.
    threshold : float or None
        None: all views belong.

    Returns
    -------
    codes : ndarray [shape=(n_samples, n_components), >= 0]
    outlying : ndarray of bool [shape=(n_samples, n_views)]
    """
    codes = np.empty((data.shape[0], len(H)), data.dtype)
    outlying = np.zeros((data.shape[0], n_views), bool)
    for rows in row_blocks(data.shape):
        block = _part(data, entries, rows)
        if usual is None or threshold is None:
            codes[rows] = solve(*block)
        else:
            codes[rows], outlying[rows] = _judge_block(*block, solve, H, groups, usual, threshold)
    return codes, outlying


def _judge_block(
    data: Any,
    entries: Array | None,
    solve: Callable[[Any, Array | None], Array],
    H: Array,
    groups: Array,
    usual: Array,
    threshold: float,
) -> tuple[Array, Array]:
    codes = np.empty((data.shape[0], len(H)), data.dtype)
    observed = observed_views(entries, groups, data.shape[0], len(usual))

    def residuals(rows: Array, kept: Array) -> Array:
        part, counts = leave_out(*_part(data, entries, rows), kept, groups)
        codes[rows] = solve(part, counts)
        return block_residuals(part, counts, codes[rows], H, groups, kept.shape[1])

    return codes, find_outlying(residuals, observed, threshold, usual)[0]


def leave_out(data: Any, entries: Array | None, kept: Array, groups: Array) -> tuple[Any, Array | None]:
    """Return data with 0 in views that are not kept, and the weights of their entries; None where all count.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
    kept : ndarray of bool [shape=(n_samples, n_views)]
    groups : ndarray of int [shape=(n_features,)]

    Returns
    -------
    data : ndarray or csr_array [shape=(n_samples, n_features)]
        Dense where weights are needed.
    entries : ndarray [shape=(n_samples, n_features)] or None
    """
    if entries is None and kept.all():
        return data, None
    counts = kept[:, groups].astype(data.dtype)
    if entries is not None:
        counts *= entries
    return (data.toarray() if sp.issparse(data) else data) * counts, counts


def _part(data: Any, entries: Array | None, rows: Array | slice) -> tuple[Any, Array | None]:
    return data[rows], None if entries is None else entries[rows]


def _fit(others: Any, entries: Array | None, model: NMF) -> NMF:
    most = max(1, min(others.shape[0] // SHARE, others.shape[1]))
    own = clone(model).set_params(
        n_components=min(model.n_components or most, most), n_init=STARTS, max_iter=min(model.max_iter, MOST_ITERATIONS)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # near enough to tell noise; the fit itself will warn
        return own.fit(others, weights=entries)
