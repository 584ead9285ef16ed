"""Components and codes of scaled views, and what to do about views that samples lack or that do not belong to them.

First come the fits: a plain one, then one with penalties or bounds of whole views. Then views that do not belong to
their samples are found, and the contents of views that are missing or left out are predicted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from visionnmf._checks import check_random_state
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Groups
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import SOLVERS
from visionnmf.engine.starts import STARTS
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import check_positive, check_range, find_loss, finite_codes, fitted_loss
from visionnmf.models.nmf import NMF, find_codes
from visionnmf.models.penalty import Penalty

from .views import Views, dense, row_slices

__all__ = [
    "CodesPrior",
    "Components",
    "GroupSparsity",
    "Progress",
    "block_residuals",
    "complete_codes",
    "complete_views",
    "fill_entries",
    "fill_views",
    "find_outlying",
    "find_view_codes",
    "fit_components",
    "judge_new",
    "judge_training",
    "learn_prior",
    "second_iterations",
    "usual_residuals",
]

Array = NDArray[Any]
Progress = Callable[[str, int, int], object]  # called with a stage, and how much of how much of it is done

SHORTER = 4  # the second fit has a good start, so it gets this part of the iterations
TRACE = 0.01  # share of a component's energy below which a view does not use it

# Of the search for views that do not belong.
JUDGING = "judging the views"  # as a stage of progress
FOLDS = 2  # each sample is judged by a model of the other half of the samples
SPLITS = 3  # into halves, because a model that missed a part reconstructs clean views badly
SMALL_STARTS = 2  # of such a model, for the same reason
PASSES = 2  # the second pass leaves the outlying views of the first out of its models
SHARE = 6  # minimum number of samples for each component of a small model
MAX_ITERATIONS = 100  # of such a model
FEWEST = 12  # samples; fewer are not judged
TO_DEVIATION = 1.4826  # from the median absolute deviation to the standard deviation of normal residuals
LEAST_SPREAD = 0.05, 0.01  # of a view's residuals, as shares of their median and of the mean of its data

# Of predictions.
CROWDED = 3  # samples for each component; with fewer, components fit only the entries that are there
LEAST_NOISE = 1e-6  # of a view's energy; less is rounding
LEAST = 0.01  # of the mean code's reconstruction: the minimum that is filled in if the loss is infinite at 0
BLOCK = 1 << 20  # entries of a reconstruction that are in memory at the same time


@dataclass(frozen=True)
class GroupSparsity:
    """How whole views are kept from using a component; the attributes are parameters of :class:`.MultiviewNMF`."""

    norm: Any
    l1: float
    bound: float | None
    codes_l2: float

    @property
    def is_asked_for(self) -> bool:
        """Whether there is a penalty or a bound at all."""
        return bool(self.l1) or self.bound is not None


@dataclass(frozen=True, eq=False)
class Components:
    """The components of a fit, with everything else that is needed to find the codes of samples.

    `H` (n_components, n_features) is in the units of the data, `scaled_H` of the views multiplied by `scales`
    (n_views,). `norms` (n_components,) is what the components of the fit were divided by; the `ridge`, the weight of
    the squared codes, applies to the factors before that.
    """

    H: Array
    scaled_H: Array
    norms: Array
    scales: Array
    loss: Loss
    ridge: float
    solver: str


def find_view_codes(views: Views, components: Components) -> Array:
    """Return the codes (n_samples, n_components) that fit samples best, with the components held fixed.

    Only the entries that count are fitted. The same scales, loss, ridge and solver apply as when the components were
    learnt. Raises ParameterError if the data are too large for their type, or not positive where the loss needs it.
    """
    scaled = views.scaled(components.scales[views.groups])
    check_range(scaled.data)
    weights = scaled.weights()
    check_positive(scaled.data, weights, components.loss)
    H = np.array(components.scaled_H, scaled.data.dtype)
    # The ridge belongs to the codes of unnormalised components, so it is converted to those of normalised ones.
    penalty = Penalty(l2=components.ridge).resolve("W", None, H.dtype).rescaled(components.norms.astype(np.float64))
    problem = Problem(scaled.data, components.loss, penalty, weights=weights)
    return finite_codes(find_codes(problem, H, components.solver))


def fit_components(
    model: NMF,
    views: Views,
    scales: Array,
    sparsity: GroupSparsity | None,
    begin_second: Callable[[], object] = lambda: None,
) -> tuple[Components, NMF, int]:
    """Fit `model`, an NMF without penalties, to views multiplied by `scales`.

    Returns the components, the NMF of the last fit, and the number of iterations of all fits, which a callback of
    `model` counts, too.

    All scaled views are also divided by their common mean, so that the solvers work with numbers near 1; the scales in
    the result include this factor. With `sparsity`, a second fit adds the penalties or bounds of whole views;
    `begin_second` is called before it.
    """
    scaled = views.scaled(scales[views.groups])
    count = np.prod(scaled.data.shape) if views.entries is None else np.count_nonzero(views.entries)
    mean = float(scaled.data.sum(dtype=np.float64)) / float(count)
    if mean > 0:
        scales = scales / mean
        scaled = views.scaled(scales[views.groups])
    with_groups = sparsity is not None and sparsity.is_asked_for
    X, weights = scaled.data, scaled.weights()
    if sp.issparse(X) and (weights is not None or not _takes_sparse(model, with_groups)):
        X = dense(X)
    if sparsity is None or not with_groups:
        fitted = model.fit(X, weights=weights)
        scaled_H, n_iter = fitted.components_, fitted.n_iter_
    else:
        fitted, n_iter = _fit_groups(model, X, weights, views.columns(), sparsity, begin_second)
        scaled_H = _without_traces(fitted.components_, views.columns())
    H = scaled_H / scales[views.groups].astype(scaled_H.dtype)
    ridge = fitted.ridge_ + (0.0 if fitted.penalty_W is None else fitted.penalty_W.l2)
    loss = fitted_loss(fitted.loss, fitted.loss_parameter_)
    return Components(H, scaled_H, fitted.component_norms_, scales, loss, ridge, fitted.solver_), fitted, n_iter


def _fit_groups(
    model: NMF,
    X: Any,
    weights: Array | None,
    columns: list[Array],
    sparsity: GroupSparsity,
    begin_second: Callable[[], object],
) -> tuple[NMF, int]:
    """Fit without groups, then with them from that solution; return the second fit and the iterations of both.

    From a random start the penalty would remove components before they have taken shape. The codes of the plain fit
    are scaled to a root mean square of 1 for each component, or to what the bounds ask for. Noise then pulls at an
    unused block with a force of about ``sqrt(n_samples d)`` for d features, which is the unit of the penalty. The ridge
    on the codes is such that with `codes_l2` = 1 this scale of the codes is stationary.
    """
    W = model.fit_transform(X, weights=weights)
    callback = model.callback
    model.set_params(callback=None)  # `clone` would copy it, which not every function allows
    norms = np.sqrt((W**2).mean(axis=0, dtype=np.float64))
    norms[norms == 0] = 1
    W, H = W / norms.astype(W.dtype), model.components_ * norms.astype(W.dtype)[:, None]
    # For each view: the sum of the norms of its blocks, its number of features, and the force of noise on a block.
    order = 2 if sparsity.norm == 2 else np.inf
    totals = np.array([np.linalg.norm(H[:, own], order, axis=1).sum() for own in columns], float)
    widths = np.array([len(own) for own in columns], float)
    pulls = math.sqrt(X.shape[0]) * (np.sqrt(widths) if sparsity.norm == 2 else widths)
    balance = float(pulls @ totals) / (X.shape[0] * len(H)) or 1.0
    bounds = None  # the constraint form replaces the penalty if there is a bound
    if sparsity.bound is not None:
        start = STARTS[model.init](X, len(H), check_random_state(model.random_state))[1]
        bounds = [sparsity.bound * float(np.linalg.norm(start[:, own], order, axis=1).sum()) for own in columns]
        # Scale the components so that every view keeps its bound, and the codes so that their product stays the same.
        shares = [bound / total for bound, total in zip(bounds, totals, strict=True) if total > 0]
        share = min(shares, default=1.0) or 1.0
        W, H, balance = W / W.dtype.type(share), H * H.dtype.type(share), balance * share**2
    penalty = Penalty(
        groups=columns,
        group_norm=sparsity.norm,
        group_l1=0.0 if bounds else tuple(float(sparsity.l1 * pull) for pull in pulls),
        group_bound=bounds,
    )
    l2 = sparsity.codes_l2 * balance * (sparsity.l1 if bounds is None else 1.0)
    second = clone(model).set_params(
        penalty_W=Penalty(l2=l2), penalty_H=penalty, n_init=1, max_iter=second_iterations(model.max_iter)
    )
    if callback is not None:
        second.set_params(callback=lambda iteration, objective: callback(model.n_iter_ + iteration, objective))
    begin_second()
    second.fit_transform(X, W=W, H=H, weights=weights)
    return second, second.n_iter_ + model.n_iter_


def second_iterations(max_iter: int) -> int:
    """Return the maximum number of iterations of the second fit, given that of the first."""
    return -(-max_iter // SHORTER)  # divided and rounded up


def _without_traces(H: Array, columns: list[Array]) -> Array:
    """Return a copy of `H` in which blocks with less than 1 % of their component's energy are zero.

    `columns` are the features of each view. Such small blocks are only noise; the view does not use the component.
    """
    H = H.copy()
    energy = (H.astype(np.float64) ** 2).sum(axis=1)
    for own in columns:
        block = H[:, own]
        block[(block.astype(np.float64) ** 2).sum(axis=1) < TRACE * energy] = 0
        H[:, own] = block
    return H


def _takes_sparse(model: NMF, with_groups: bool) -> bool:
    """Return whether a solver of the model's loss takes sparse data, and groups if there are some.

    1.0 is the weight of entries that are not stored: zeros count as much as other entries.
    """
    record = find_loss(model.loss)
    return any(
        entry.sparse and entry.minimises(record) and (not with_groups or issubclass(Groups, entry.terms))
        for name, entry in SOLVERS.items()
        if record is not None and record.takes_sparse(1.0) and model.solver in ("auto", name)
    )


# --- views that do not belong to their samples ------------------------------------------------------------------------


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
            """Return the smallest residual of each view, in the units of the data, over the fits of other samples."""
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


# --- predictions of what is missing -----------------------------------------------------------------------------------


class CodesPrior(NamedTuple):
    """Mean and covariance of the training codes, which are taken for normal, and the noise of the views.

    The noise of a view, > 0, is the mean square of its residuals divided by its share of degrees of freedom,
    ``(n - r) (d - r)`` of ``n d`` with rank r, because a model of many components reconstructs its training samples
    better than others. It is at most the mean square of the data.
    """

    mean: Array
    covariance: Array
    noise: Array


@one_blas_thread()
def learn_prior(views: Views, codes: Array, H: Array) -> CodesPrior:
    """Return the prior of the codes and the noise of each view, from training samples and their codes.

    `H` holds the components in the units of the data. The residuals are summed block by block, to limit memory.
    """
    mean = codes.mean(axis=0, dtype=np.float64)
    spread = codes - mean
    # Per feature: the sums of squared residuals and of squared data, and the number of entries that count.
    left, size, count = np.zeros(H.shape[1]), np.zeros(H.shape[1]), np.zeros(H.shape[1])
    step = max(1, BLOCK // H.shape[1])
    for start in range(0, len(views), step):
        rows = slice(start, start + step)
        part = views.rows(rows)
        block = dense(part.data)
        residual = block - codes[rows] @ H
        if part.entries is not None:
            residual *= part.entries
        left += (residual**2).sum(axis=0, dtype=np.float64)
        size += (block**2).sum(axis=0, dtype=np.float64)
        count += len(block) if part.entries is None else part.entries.sum(axis=0, dtype=np.float64)
    totals: list[Array] = [np.bincount(views.groups, part, views.n_views) for part in (left, size, count)]
    squares, energies = (part / np.maximum(totals[2], 1) for part in totals[:2])
    free = max(0.0, 1 - len(H) / len(codes)) * max(0.0, 1 - len(H) / H.shape[1])  # share that this rank leaves free
    noise = energies  # with as many components as samples, the residuals say nothing
    if free > 0:
        noise = np.clip(squares / free, LEAST_NOISE * energies, energies)
    return CodesPrior(mean, spread.T @ spread / len(codes), np.where(noise > 0, noise, 1.0))


@one_blas_thread()
def fill_views(views: Views, kept: Array, codes: Array, H: Array, prior: CodesPrior, *, least: float = 0.0) -> Array:
    r"""Return the data with the views that are not kept filled in by their expectation given the other views.

    With normal codes of mean m and covariance S, and noise of variance D, the expected codes given the views o of a
    sample are :math:`m + (I + S H_o D^{-1} H_o^\top)^{-1} S H_o D^{-1} (x_o - m H_o)`, the posterior mean of factor
    analysis (Rubin and Thayer 1982). The fewer entries there are, the nearer these codes are to the mean.

    `kept` has shape (n_samples, n_views). Single missing entries of a kept view are taken from `codes`, which are those
    by the kept views. `least` is the minimum that is filled in, as a share of the mean code's reconstruction. Raises
    ParameterError if something expected is not finite.
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
        step = max(1, BLOCK // H.shape[1])
        for start in range(0, len(members), step):
            rows = members[start : start + step]
            own = data[rows]
            if views.entries is not None:
                own = np.where(views.entries[rows], own, codes[rows] @ H)
            with np.errstate(all="ignore"):
                expected = prior.mean + (own[:, there] - prior.mean @ parts[:, there]) @ gain
                data[np.ix_(rows, ~there)] = np.maximum(expected @ parts[:, ~there], low[~there])
    if not np.isfinite(data).all():
        raise _beyond(data.dtype)
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


def complete_views(model: NMF, views: Views, given: Views, scales: Array) -> Views:
    """Return the training views with missing views predicted, if the fit has many components; else `views` unchanged.

    A fit with many components for few samples would learn only the entries that are there and predict missing views
    badly. If there is more than one component for three samples (`CROWDED`), a smaller fit with one for six (`SHARE`)
    predicts the missing views by :func:`fill_views`, and the main fit then learns from the result.

    `given` are all views that the caller passed, and `views` are those without outlying ones. Outlying views are not
    filled in and still do not count in the result. Each view is multiplied by its number in `scales` for the fit.
    """
    there = given.observed()  # of shape (n_samples, n_views): also true for outlying views, which are not missing
    if there.all() or (model.n_components or min(views.data.shape)) <= len(views) / CROWDED:
        return views
    small = clone(model).set_params(n_components=max(1, len(views) // SHARE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit is good enough for a start; the main fit warns itself
        components = fit_components(small, views, scales, None)[0]
    codes = find_view_codes(views, components)
    kept = views.observed()  # the views to predict from: neither missing nor outlying
    prior = learn_prior(views, codes, components.H)
    filled = fill_views(views, kept, codes, components.H, prior, least=_least(model.loss))
    entries = _count_filled(views.entries, there, views.groups)
    # Entries that do not count must be zero in the data; this also removes the predictions of outlying views.
    return replace(views, data=filled if entries is None else filled * entries, entries=entries)


def complete_codes(
    views: Views, codes: Array, outlying: Array, components: Components, prior: CodesPrior, loss: Any
) -> Array:
    """Find the codes of samples with missing or outlying views again, after these views have been predicted.

    `codes` (n_samples, n_components), found from the views that count, are changed in place and returned; rows of
    complete samples stay as they are. `outlying`, bool (n_samples, n_views), marks views that are there but do not
    belong to their sample. `loss` is the estimator's parameter; for some losses predictions must be above 0.
    """
    kept = views.observed() & ~outlying
    gaps = np.flatnonzero(~kept.all(axis=1))
    for block in row_slices((len(gaps), components.H.shape[1])):
        rows = gaps[block]
        part = views.rows(rows)
        part = replace(part, data=dense(part.data))
        filled = fill_views(part, kept[rows], codes[rows], components.H, prior, least=_least(loss))
        entries = _count_filled(part.entries, kept[rows], views.groups)
        codes[rows] = find_view_codes(replace(part, data=filled, entries=entries), components)
    return codes


def _solve(matrix: Array, right: Array) -> Array:
    """Solve a linear system; raise ParameterError if the matrix is singular."""
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        raise _beyond(right.dtype) from None


def _beyond(dtype: Any) -> ParameterError:
    """Return the error for codes that overflow the floating point type of the data."""
    return ParameterError(f"X must have codes within {dtype}; got some beyond; the model's prior does not fit it")


def _least(loss: Any) -> float:
    """Return the minimum that may be filled in for a loss, as a share of the mean code's reconstruction."""
    # The beta divergences with beta <= 0, such as Itakura-Saito, are infinite where the data are zero.
    record = find_loss(loss)
    beta = loss if isinstance(loss, Real) or record is None else record.beta
    return LEAST if isinstance(beta, Real) and beta <= 0 else 0.0


def _count_filled(entries: Array | None, kept: Array, groups: Array) -> Array | None:
    """Return which entries count after the views that were not kept are filled in; None if all do.

    `entries` (n_samples, n_features) are those that counted before, `kept` is (n_samples, n_views), and `groups` the
    view of each feature.
    """
    if entries is None:
        return None
    # For booleans, a <= b means "not a, or b": all entries of a filled view count, and those of a kept view that did.
    counts = kept[:, groups] <= entries
    return None if counts.all() else counts
