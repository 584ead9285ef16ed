"""What is measured on views: energies, weights, whether they are noise, errors, and how components use them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from visionnmf._checks import check_number, shown
from visionnmf._typing import Array
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss, loss_value
from visionnmf.exceptions import ParameterError

from .components import CodesPrior
from .views import BLOCK, Views, dense

FEWEST = 40  # samples; with fewer it cannot be told what is noise
MOST = 200  # samples that are looked at, because more make no difference
SHUFFLES = 20  # with which a view is compared
SIGNAL = 6.0  # standard deviations above shuffled data; real views have 14 and more, noise seldom 4
OTHER_UNITS = 5.0  # times the root mean square of training, or less than a fifth of it; see decisions/multiview.md
FEWEST_SMALL = 5  # samples, with fewer of which small values may be those of these samples


def view_energies(views: Views) -> Array:
    """Return the root mean square norm of the samples of each view; 1 for a view of zeros."""
    energies = np.ones(views.n_views)
    for v, own in enumerate(views.columns()):
        view = views.data[:, own]
        values = view.data if sp.issparse(view) else view
        count = view.shape[0] * view.shape[1] if views.entries is None else np.count_nonzero(views.entries[:, own])
        energies[v] = np.sqrt(float((values**2).sum(dtype=np.float64)) / count * len(own)) or 1.0
    return energies


@one_blas_thread()
def warn_of_units(views: Views, H: Array, prior: CodesPrior, stacklevel: int) -> None:
    """Warn of new views whose values have another size than in training, by components `H` and the prior of codes."""
    X, H = views.data, H.astype(np.float64)  # what does not count is 0
    counts = np.full(X.shape[1], len(views)) if views.entries is None else views.entries.sum(axis=0)
    if sp.issparse(X):
        found = np.bincount(X.indices, X.data.astype(np.float64) ** 2, X.shape[1])
    else:
        found = np.einsum("ij,ij->j", X, X, dtype=np.float64)
    with np.errstate(all="ignore"):  # numbers of a file may be of any size
        squares = (prior.mean @ H) ** 2 + ((prior.covariance @ H) * H).sum(axis=0) + prior.noise[views.groups]
        ratios = [np.sqrt(found[own].sum() / (counts[own] @ squares[own])) for own in views.columns()]
    for name, own, ratio in zip(views.names, views.columns(), ratios, strict=True):
        count = counts[own].max()
        if H[:, own].any() and count and (ratio > OTHER_UNITS or (ratio < 1 / OTHER_UNITS and count >= FEWEST_SMALL)):
            size = np.format_float_positional(ratio, precision=2, fractional=False, trim="-")
            warnings.warn(
                f"the values of view {name} have {size} times the size of those in training; convert them if they "
                "have other units or another zero, or leave the view out",
                UserWarning,
                stacklevel=stacklevel,
            )


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
    """Return the ranks of the samples in each feature of a view that varies, with mean 0 and variance 1."""
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


def given_weights(given: Any, names: Sequence[str]) -> Array:
    """Return the weights of the views `names`, numbers > 0, by the parameter `view_weight`."""
    if isinstance(given, Mapping):
        unknown = [str(name) for name in given if str(name) not in names]
        if unknown:
            raise ParameterError(f"view_weight must name views of {list(names)}; got {unknown[0]!r:.60}")
        weights = {str(name): value for name, value in given.items()}
        given = [weights.get(name, 1.0) for name in names]
    if np.ndim(given) != 1 or len(given) != len(names):
        raise ParameterError(f"view_weight must be a number for each of {len(names)} views; got {shown(given)}")
    return np.array([check_number(value, "view_weight", without_low=True) for value in given])


def weights_without_noise(views: Views) -> Array:
    """Return 1 for each view, and 0 for views of noise, which a warning names."""
    noise = noise_views(views)
    if noise.any():
        names = ", ".join(str(name) for name, found in zip(views.names, noise, strict=True) if found)
        warnings.warn(
            f"MultiviewNMF leaves out views that look like noise: {names}; pass view_weight with a number for each "
            "view to count them",
            UserWarning,
            stacklevel=5,
        )
    return np.where(noise, 0.0, 1.0)


def usage(H: Array, groups: Array, n_views: int) -> Array:
    """Return the share of each component's energy in each view, (n_components, n_views); 0 for a zero component."""
    energy = np.array([(H[:, groups == v].astype(np.float64) ** 2).sum(axis=1) for v in range(n_views)]).T
    total = energy.sum(axis=1, keepdims=True)
    return np.divide(energy, total, out=np.zeros_like(energy), where=total > 0)


def sparseness(H: Array, groups: Array, n_views: int) -> Array:
    """Return Hoyer's sparseness (2004) of each component's block in each view, of shape (n_components, n_views)."""
    result = np.ones((len(H), n_views))
    for v in range(n_views):
        block = H[:, groups == v].astype(np.float64)
        root = np.sqrt(block.shape[1])
        norms = np.linalg.norm(block, axis=1)
        used = norms > 0
        if root > 1:
            result[used, v] = (root - block[used].sum(axis=1) / norms[used]) / (root - 1)
    return result


@one_blas_thread()
def view_errors(views: Views, codes: Array, scaled_H: Array, scales: Array, loss: Loss) -> Array:
    """Return the loss of the model in each view (n_views,), as a share of the loss of the best constants.

    `codes` (n_samples, n_components) and `scaled_H` reconstruct the views multiplied by `scales` (n_views,). The
    constants, one for each feature, are the means for a beta-divergence, and the medians for the other, robust losses.
    A view that is constant itself is compared with the model 0; the share is 0 if that has no loss either.
    """
    columns = views.columns()
    # a loss whose beta is NaN is no beta-divergence
    constants = [_constants(views, own, np.median if np.isnan(loss.beta) else np.mean) for own in columns]
    left, total = np.zeros(views.n_views), np.zeros(views.n_views)
    for rows, block, entries in views.blocks():
        Wt, ones = np.ascontiguousarray(codes[rows].T), np.ones((1, len(block)), block.dtype)
        for v, own in enumerate(columns):
            X = np.ascontiguousarray(block[:, own] * scales[v].astype(block.dtype))
            M = None if entries is None else np.ascontiguousarray(entries[:, own], block.dtype)
            level = (scales[v] * constants[v]).astype(block.dtype)[None]
            left[v] += loss_value(X, Wt, np.ascontiguousarray(scaled_H[:, own]), loss, weights=M)
            total[v] += loss_value(X, ones, level, loss, weights=M)
    return np.divide(left, total, out=np.zeros_like(left), where=total > 0)


def _constants(views: Views, own: Array, middle: Callable[..., Any]) -> Array:
    """Return the `middle` of the entries of each feature in `own` that count; 0 for all if each feature is constant."""
    found, varies = np.zeros(len(own)), False
    step = max(1, BLOCK // len(views))
    for start in range(0, len(own), step):
        some = own[start : start + step]
        block = dense(views.data[:, some])
        for k, values in enumerate(block.T, start):
            if views.entries is not None:
                values = values[views.entries[:, own[k]]]
            if values.size:
                found[k], varies = middle(values.astype(np.float64)), varies or bool(np.ptp(values))
    return found if varies else np.zeros_like(found)
