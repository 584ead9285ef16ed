"""Components and codes of scaled views: a plain fit, then one with penalties or bounds of whole views.

:class:`CodesPrior` holds the mean and the covariance of the training codes, by which missing views are predicted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from visionnmf._checks import check_random_state
from visionnmf._typing import Array
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss, loss_value
from visionnmf.engine.penalties import Groups
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS, solve_codes
from visionnmf.engine.starts import STARTS
from visionnmf.engine.stopping import ZeroCodesWarning, warn_not_converged, warn_zero_codes
from visionnmf.models.data_checks import (
    UnseenWarning,
    check_loss,
    check_positive,
    check_range,
    find_loss,
    finite_codes,
    fitted_loss,
    is_dask,
)
from visionnmf.models.nmf import NMF
from visionnmf.models.penalty import Penalty

from .views import Views, dense, row_slices

SHORTER = 4  # the second fit has a good start, so it gets this part of the iterations if the first left fewer
TRACE = 0.01  # share of a component's energy below which a view does not use it
RIDGE = 0.5  # of both factors where single entries are missing, in units of the mean loss of the features' means
GAPS = 0.1  # share of missing entries at which the ridge is whole
ENTRIES = 3  # entries that are there for each component, of a sample and of a feature, at which the ridge is whole
LEAST_NOISE = 1e-6  # of a view's energy; less is rounding
RECONSTRUCTED = 1 << 20  # entries of a reconstruction that are in memory at the same time


@dataclass(frozen=True)
class GroupSparsity:
    """How whole views are kept from using a component; the attributes are parameters of :class:`.MultiviewNMF`."""

    norm: Any
    l1: float
    bound: float | None
    codes_l2: float

    @property
    def parameter(self) -> str | None:
        """The name of the parameter in use: `bound` limits the norms of components in whole views, `l1` penalises them.

        None if neither is given.
        """
        if self.bound is not None:
            return "group_bound"
        return "group_l1" if self.l1 else None


@dataclass(frozen=True, eq=False)
class Components:
    """The components of a fit, with everything else that is needed to find the codes of samples.

    `H` (n_components, n_features) is in the units of the data, `scaled_H` of the views multiplied by `scales`
    (n_views,), which are 0 for views that are left out, as are their components. `norms` (n_components,) is what the
    components of the fit were divided by; the `ridge`, the weight of the squared codes, applies to the factors before
    that.
    """

    H: Array
    scaled_H: Array
    norms: Array
    scales: Array
    loss: Loss
    ridge: float
    solver: str


def find_view_codes(views: Views, components: Components) -> Array:
    """Return the codes (n_samples, n_components) that fit samples best, with the components held fixed."""
    used = components.scales > 0  # a view that was left out of the fit has the scale 0, and says nothing about codes
    if not used.all():
        columns = used[views.groups]
        scales, scaled_H = components.scales[used], components.scaled_H[:, columns]
        return find_view_codes(views.only(used), replace(components, scaled_H=scaled_H, scales=scales))
    scaled = views.scaled(components.scales[views.groups])
    check_range(scaled.data)
    weights = scaled.weights()
    check_positive(scaled.data, weights, components.loss)
    H = np.array(components.scaled_H, scaled.data.dtype)
    # The ridge belongs to the codes of unnormalised components, so it is converted to those of normalised ones.
    penalty = Penalty(l2=components.ridge).resolve("W", None, H.dtype).rescaled(components.norms.astype(np.float64))
    problem = Problem(scaled.data, components.loss, penalty, weights=weights)
    return finite_codes(solve_codes(problem, H))


def find_all_codes(views: Views, components: Components) -> Array:
    """Return the codes that :func:`find_view_codes` finds, block by block to limit memory."""
    codes = np.empty((len(views), len(components.H)), views.data.dtype)
    for rows in row_slices(views.data.shape):
        codes[rows] = find_view_codes(views.rows(rows), components)
    return codes


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
    """Return the prior of the codes and the noise of each view, from training samples and their codes."""
    mean = codes.mean(axis=0, dtype=np.float64)
    spread = codes - mean
    # Per feature: the sums of squared residuals and of squared data, and the number of entries that count.
    left, size, count = np.zeros(H.shape[1]), np.zeros(H.shape[1]), np.zeros(H.shape[1])
    step = max(1, RECONSTRUCTED // H.shape[1])
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


def fit_components(
    model: NMF,
    views: Views,
    scales: Array,
    sparsity: GroupSparsity | None,
    begin_second: Callable[[], object] = lambda: None,
    in_memory: Views | None = None,
) -> tuple[Components, NMF, int]:
    """Fit `model`, an NMF without penalties, to views multiplied by `scales`.

    Returns the components, the NMF of the last fit, and the number of iterations of all fits, which a callback of
    `model` counts, too.

    If single entries are missing, both factors get a ridge, which :func:`_ridge_of_gaps` weighs. `in_memory` are some
    samples of views in Dask arrays, from which it is found.

    All scaled views are also divided by their common mean, so that the solvers work with numbers near 1; the scales in
    the result include this factor. With `sparsity`, a second fit adds the penalties or bounds of whole views;
    `begin_second` is called before it. Views whose scale is 0 are left out of the fit, and their components are 0.
    """
    used = scales > 0
    if not used.all():
        some = None if in_memory is None else in_memory.only(used)
        found, fitted, n_iter = fit_components(model, views.only(used), scales[used], sparsity, begin_second, some)
        H, scaled_H = (np.zeros((len(part), len(views.groups)), part.dtype) for part in (found.H, found.scaled_H))
        H[:, used[views.groups]], scaled_H[:, used[views.groups]] = found.H, found.scaled_H
        every = np.zeros(len(used))
        every[used] = found.scales
        return replace(found, H=H, scaled_H=scaled_H, scales=every), fitted, n_iter
    scaled = views.scaled(scales[views.groups])
    mean = _mean(scaled)
    if mean > 0:
        scales = scales / mean
        scaled = views.scaled(scales[views.groups])
    with_groups = sparsity is not None and sparsity.parameter is not None
    X, weights = scaled.data, scaled.weights()
    some = scaled if in_memory is None else in_memory.scaled(scales[views.groups])
    ridge = _ridge_of_gaps(model, some, n_samples=len(views))
    if ridge:
        model.set_params(penalty_W=Penalty(l2=ridge), penalty_H=Penalty(l2=ridge))
    if sp.issparse(X) and (weights is not None or not _takes_sparse(model, with_groups)):
        X = dense(X)
    if sparsity is None or not with_groups:
        fitted = model.fit(X, weights=weights)
        scaled_H, n_iter = fitted.components_, fitted.n_iter_
    else:
        fitted, n_iter = _fit_groups(model, X, weights, views.columns(), sparsity, ridge, begin_second)
        # blocks of components that a view hardly uses become 0
        scaled_H = _without_traces(fitted.components_, views.columns())
    H = scaled_H / scales[views.groups].astype(scaled_H.dtype)
    # the weights of the squared codes: that of the NMF's parameter `nuclear`, and that of its penalty
    ridge = fitted.ridge_ + (0.0 if fitted.penalty_W is None else fitted.penalty_W.l2)
    loss = fitted_loss(fitted.loss, fitted.loss_parameter_)
    return Components(H, scaled_H, fitted.component_norms_, scales, loss, ridge, fitted.solver_), fitted, n_iter


def _mean(views: Views) -> float:
    """Return the mean of the entries that count. Those that do not are 0 in the data, and NaN in a Dask array."""
    if is_dask(views.data):
        import dask.array as da

        return float(da.nanmean(views.data, dtype=np.float64))
    count = np.prod(views.data.shape) if views.entries is None else np.count_nonzero(views.entries)
    return float(views.data.sum(dtype=np.float64)) / float(count)


def _fit_groups(
    model: NMF,
    X: Any,
    weights: Array | None,
    columns: list[Array],
    sparsity: GroupSparsity,
    ridge: float,
    begin_second: Callable[[], object],
) -> tuple[NMF, int]:
    """Fit without groups, then with them from that solution; return the second fit and the iterations of both."""
    # From a random start the penalty would remove components before they have taken shape. The codes of the plain fit
    # are scaled to a root mean square of 1: noise then pulls at an unused block with ``sqrt(n_samples d)`` for d
    # features, the unit of the penalty, and the ridge on the codes is such that this scale is stationary.
    W = model.set_params(measure_optimality=False).fit_transform(X, weights=weights)
    callback = model.callback
    model.set_params(callback=None)  # `clone` would copy it, which not every function allows
    norms = np.sqrt(np.asarray((W**2).mean(axis=0, dtype=np.float64)))  # a Dask array is computed
    norms[norms == 0] = 1
    W, H = W / norms.astype(W.dtype), model.components_ * norms.astype(W.dtype)[:, None]
    # For each view: the sum of the norms of its blocks, its number of features, and the force of noise on a block.
    order = 2 if sparsity.norm == 2 else np.inf
    totals = np.array([np.linalg.norm(H[:, own], order, axis=1).sum() for own in columns], float)
    widths = np.array([len(own) for own in columns], float)
    pulls = math.sqrt(X.shape[0]) * (np.sqrt(widths) if sparsity.norm == 2 else widths)
    # The ridge on the codes at which codes of root mean square 1 are stationary under the unit penalty: with codes c
    # times as large, ridge and penalty are ``balance c^2 n r / 2 + (pulls @ totals) / c``, which is least at c = 1.
    balance = float(pulls @ totals) / (X.shape[0] * len(H)) or 1.0
    bounds = None  # the constraint form replaces the penalty if there is a bound
    if sparsity.bound is not None:
        # a bound is a share of the value at a random start, as in the paper
        start = STARTS[model.init](X, len(H), check_random_state(model.random_state))[1]
        bounds = [sparsity.bound * float(np.linalg.norm(start[:, own], order, axis=1).sum()) for own in columns]
        # Scale the components so that every view keeps its bound, and the codes so that their product stays the same;
        # with share^2 the ridge on the larger codes has the value that it had.
        shares = [bound / total for bound, total in zip(bounds, totals, strict=True) if total > 0]
        share = min(shares, default=1.0) or 1.0
        W, H, balance = W / W.dtype.type(share), H * H.dtype.type(share), balance * share**2
    # The ridge of missing entries pulled equally at both factors, and still does now that they are scaled.
    ratio = float(np.linalg.norm(H) / (np.linalg.norm(W) or 1)) or 1.0
    penalty = Penalty(
        l2=ridge / ratio,
        groups=columns,
        group_norm=sparsity.norm,
        group_l1=0.0 if bounds else tuple(float(sparsity.l1 * pull) for pull in pulls),
        group_bound=bounds,
    )
    l2 = ridge * ratio + sparsity.codes_l2 * balance * (sparsity.l1 if bounds is None else 1.0)
    second = clone(model).set_params(
        penalty_W=Penalty(l2=l2), penalty_H=penalty, n_init=1, measure_optimality=True,
        max_iter=second_iterations(model.max_iter, model.n_iter_),
    )  # fmt: skip
    if callback is not None:
        second.set_params(callback=lambda iteration, objective: callback(model.n_iter_ + iteration, objective))
    begin_second()
    second.fit_transform(X, W=W, H=H, weights=weights)
    return second, second.n_iter_ + model.n_iter_


def _ridge_of_gaps(model: NMF, scaled: Views, n_samples: int) -> float:
    """Return the weight of the squares of both factors for data in which single entries are missing; 0 without any."""
    if scaled.entries is None:
        return 0.0
    # An entry of a component that matters only where its feature is missing could be of any size. The ridge, a factored
    # nuclear norm above what noise reaches, shrinks with few gaps or components. Chosen on digits (multiview.md).
    there = scaled.observed()[:, scaled.groups]  # entries of whole views that are missing are not gaps
    share = float((there & ~scaled.entries).sum() / there.sum())
    if share == 0:
        return 0.0
    X, weights, count = scaled.data, scaled.weights(), scaled.entries.sum(axis=0)
    means = np.where(count > 0, X.sum(axis=0, dtype=np.float64) / np.maximum(count, 1), 1).astype(X.dtype)
    loss = check_loss(model.loss, model.loss_parameter, X, weights)
    # `left` is the mean loss of an entry if each feature is predicted by its mean, which stands for the noise; `few` is
    # above 1 where fewer than ENTRIES entries are there for each component of a sample or a feature
    left = loss_value(X, np.ones((1, len(X)), X.dtype), means[None], loss, weights=weights) / float(count.sum())
    shorter, longer = sorted((n_samples, X.shape[1]))
    few = ENTRIES * (model.n_components or shorter) * X.size / (shorter * float(count.sum()))
    return RIDGE * left * math.sqrt(longer * min(1.0, share / GAPS)) * min(1.0, few) ** 2


def second_iterations(max_iter: int, n_iter: int) -> int:
    """Return the maximum number of iterations of the second fit if the first took `n_iter` of `max_iter`."""
    return max(-(-max_iter // SHORTER), max_iter - n_iter)


def _without_traces(H: Array, columns: list[Array]) -> Array:
    """Return a copy of `H` in which blocks with less than 1 % of their component's energy are zero."""
    H = H.copy()
    energy = (H.astype(np.float64) ** 2).sum(axis=1)
    for own in columns:
        block = H[:, own]
        block[(block.astype(np.float64) ** 2).sum(axis=1) < TRACE * energy] = 0
        H[:, own] = block
    return H


def _takes_sparse(model: NMF, with_groups: bool) -> bool:
    """Return whether a solver of the model's loss takes sparse data, and with `with_groups` penalties of groups."""
    record = find_loss(model.loss)
    return any(
        entry.sparse and entry.minimises(record) and (not with_groups or issubclass(Groups, entry.terms))
        for name, entry in SOLVERS.items()
        if record is not None and record.sparse is not None and model.solver in ("auto", name)
    )


def warn_once(model: Any, caught: Sequence[warnings.WarningMessage], penalty: str | None) -> None:
    """Issue the warnings that the fits of a `model` of views have raised in its name, and each kind only once."""
    cure = f"increase max_iter={model.max_iter}"
    if penalty is not None:
        # the second step gets the iterations that the first did not use
        cure += " (the step that finds shared and private components has what the first left of it, at least a quarter)"
    name, issued, zero = type(model).__name__, False, []
    for warning in (item.message for item in caught):
        result = getattr(warning, "result", None)  # of a fit that did not converge; other warnings have none
        if isinstance(warning, ZeroCodesWarning):
            zero.append(warning)
        elif isinstance(warning, UnseenWarning):  # the check of the views has said so
            continue
        elif result is None:
            warnings.warn(warning, stacklevel=5)
        elif not issued:
            issued = True
            warn_not_converged(name, result, model.tol, cure=cure, stacklevel=6)
    if zero:
        # Two of them: the first step, which has no penalty, did not find codes either. `lost` counts samples with codes
        # of 0, and this estimator has no parameter `zero_weight` that could be blamed.
        blamed = penalty if len(zero) == 1 else None
        warn_zero_codes(zero[-1].loss, zero[-1].lost, 6, name=name, has_zero_weight=False, penalty=blamed)
