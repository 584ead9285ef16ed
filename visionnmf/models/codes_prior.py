"""What the views that a sample has say of those that it lacks."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError

from ._data import find_loss
from .group_fit import fit_views, scaled_views
from .nmf import NMF
from .view_outliers import SHARE
from .views import observed_views, row_blocks

__all__ = ["CodesPrior", "complete_codes", "complete_views", "fill_entries", "fill_views", "learn_prior"]

Array = NDArray[Any]

CROWDED = 3  # samples for each component, below which they fit the entries that are there alone
LEAST_NOISE = 1e-6  # of a view's energy: below is rounding
LEAST = 0.01  # of what the mean code tells: filled in where the loss is infinite at data of 0
BLOCK = 1 << 20  # entries of a model that are in memory at once


class CodesPrior(NamedTuple):
    """Codes taken for normal, and the noise of the views, over the training samples.

    Attributes
    ----------
    mean : ndarray [shape=(n_components,)]
    covariance : ndarray [shape=(n_components, n_components)]
    noise : ndarray [shape=(n_views,), > 0]
        Mean square of each view's residuals by its degrees of freedom, ``(n - r) (d - r)`` of ``n d`` with rank r, and
        at most that of the data: a model of many components tells its training samples better than others.
    """

    mean: Array
    covariance: Array
    noise: Array


@one_blas_thread()
def learn_prior(data: Any, entries: Array | None, codes: Array, H: Array, groups: Array, n_views: int) -> CodesPrior:
    """Learn the prior from training samples.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
        0 where entries do not count.
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for entries that do not count, 1 for the others.
    codes : ndarray [shape=(n_samples, n_components), >= 0]
    H : ndarray [shape=(n_components, n_features), >= 0]
    groups : ndarray of int [shape=(n_features,)]
    n_views : int

    Returns
    -------
    CodesPrior
    """
    mean = codes.mean(axis=0, dtype=np.float64)
    spread = codes - mean
    left, size, count = np.zeros(H.shape[1]), np.zeros(H.shape[1]), np.zeros(H.shape[1])
    step = max(1, BLOCK // H.shape[1])
    for start in range(0, data.shape[0], step):
        rows = slice(start, start + step)
        block = data[rows].toarray() if sp.issparse(data) else data[rows]
        residual = block - codes[rows] @ H
        if entries is not None:
            residual *= entries[rows]
        left += (residual**2).sum(axis=0, dtype=np.float64)
        size += (block**2).sum(axis=0, dtype=np.float64)
        count += len(block) if entries is None else entries[rows].sum(axis=0, dtype=np.float64)
    totals: list[Array] = [np.bincount(groups, part, n_views) for part in (left, size, count)]
    squares, energies = (part / np.maximum(totals[2], 1) for part in totals[:2])
    free = max(0.0, 1 - len(H) / len(codes)) * max(0.0, 1 - len(H) / H.shape[1])  # what a model of this rank leaves
    noise = energies  # where as many components as samples tell anything
    if free > 0:
        noise = np.clip(squares / free, LEAST_NOISE * energies, energies)
    return CodesPrior(mean, spread.T @ spread / len(codes), np.where(noise > 0, noise, 1.0))


@one_blas_thread()
def fill_views(
    data: Array,
    entries: Array | None,
    kept: Array,
    codes: Array,
    H: Array,
    groups: Array,
    prior: CodesPrior,
    *,
    least: float = 0.0,
) -> Array:
    r"""Fill in views by the mean that the others leave to expect.

    With normal codes of mean m and covariance S, and noise of variance D, the codes that the views o of a sample let
    expect are :math:`m + (I + S H_o D^{-1} H_o^\top)^{-1} S H_o D^{-1} (x_o - m H_o)` (the posterior mean of factor
    analysis: Rubin and Thayer 1982). Fewer entries say less, and the codes draw nearer to the mean.

    Parameters
    ----------
    data : ndarray [shape=(n_samples, n_features), >= 0]
        Filled in, in place.
    entries : ndarray [shape=(n_samples, n_features)] or None
        Single entries that are missing are taken from `codes`.
    kept : ndarray of bool [shape=(n_samples, n_views)]
        False for the views to fill in.
    codes : ndarray [shape=(n_samples, n_components), >= 0]
        By the views that are kept.
    H : ndarray [shape=(n_components, n_features), >= 0]
    groups : ndarray of int [shape=(n_features,)]
    prior : CodesPrior
    least : float, default=0
        The least that is filled in, in shares of what the mean code tells.

    Returns
    -------
    ndarray [shape=(n_samples, n_features), >= 0]
        `data`.

    Raises
    ------
    ParameterError
        Where what is expected is not finite.
    """
    parts, noise = H.astype(np.float64), prior.noise[groups]
    low = least * (prior.mean @ parts)
    patterns, which = np.unique(kept, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        there = pattern[groups]
        if there.all():
            continue
        with np.errstate(all="ignore"):  # what is not finite is told below
            weighted = prior.covariance @ (parts[:, there] / noise[there])
            turn = _solved(np.eye(len(H)) + weighted @ parts[:, there].T, weighted).T
        members = np.flatnonzero(which.ravel() == p)
        step = max(1, BLOCK // H.shape[1])
        for start in range(0, len(members), step):
            rows = members[start : start + step]
            own = data[rows]
            if entries is not None:
                own = np.where(entries[rows] > 0, own, codes[rows] @ H)
            with np.errstate(all="ignore"):
                expected = prior.mean + (own[:, there] - prior.mean @ parts[:, there]) @ turn
                data[np.ix_(rows, ~there)] = np.maximum(expected @ parts[:, ~there], low[~there])
    if not np.isfinite(data).all():
        raise _beyond(data.dtype)
    return data


@one_blas_thread()
def fill_entries(data: Array, entries: Array, codes: Array, H: Array) -> Array:
    """Fill in missing entries by the model, in place.

    Parameters
    ----------
    data : ndarray [shape=(n_samples, n_features), >= 0]
    entries : ndarray of bool [shape=(n_samples, n_features)]
        False for missing ones.
    codes : ndarray [shape=(n_samples, n_components), >= 0]
    H : ndarray [shape=(n_components, n_features), >= 0]

    Returns
    -------
    ndarray [shape=(n_samples, n_features), >= 0]
        `data`.
    """
    for rows in row_blocks(data.shape):
        np.copyto(data[rows], codes[rows] @ H, where=~entries[rows], casting="same_kind")
    return data


def _solved(matrix: Array, right: Array) -> Array:
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        raise _beyond(right.dtype) from None


def _beyond(dtype: Any) -> ParameterError:
    return ParameterError(f"X must have codes within {dtype}; got some beyond; the model's prior does not fit it")


def _least(loss: Any) -> float:
    """Return the least that may be filled in for a loss, in shares of what the mean code tells."""
    record = find_loss(loss)
    beta = loss if isinstance(loss, Real) or record is None else record.beta
    return LEAST if isinstance(beta, Real) and beta <= 0 else 0.0


def complete_views(
    model: NMF, data: Any, entries: Array | None, given: Array | None, scales: Array, groups: Array
) -> tuple[Any, Array | None]:
    """Fill in the missing views of training samples before components are learnt.

    Components that are many beside the samples fit the entries that are there alone. Where there is more than one for
    three samples, a fit of one for six says first what is missing, by :func:`fill_views`; all components are then
    learnt from whole views. Views that are there, but were left out, stay so.

    Parameters
    ----------
    model : NMF
        Without penalties; stays as it is.
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
        0 where entries do not count; dense where there are such.
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for entries that do not count, 1 for the others.
    given : ndarray [shape=(n_samples, n_features)] or None
        0 for missing entries. Those of a view that was left out are there, but do not count.
    scales : ndarray [shape=(n_views,), > 0]
        What the views are multiplied by.
    groups : ndarray of int [shape=(n_features,)]

    Returns
    -------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for entries that do not count in a view that is there.
    """
    there = observed_views(given, groups, data.shape[0], len(scales))
    if there.all() or (model.n_components or min(data.shape)) <= data.shape[0] / CROWDED:
        return data, entries
    small = clone(model).set_params(n_components=max(1, data.shape[0] // SHARE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # near enough for a start; the fit itself will warn
        small, factors = fit_views(small, data, entries, scales, groups, None)
    factors = factors[groups].astype(data.dtype)
    codes = small.transform(scaled_views(data, factors), weights=entries)
    H = small.components_ / factors
    kept = observed_views(entries, groups, *there.shape)
    prior = learn_prior(data, entries, codes, H, groups, there.shape[1])
    filled = fill_views(data.copy(), entries, kept, codes, H, groups, prior, least=_least(model.loss))
    counts = _counts(entries, there, groups)
    return (filled if counts is None else filled * counts), counts


def _counts(entries: Array | None, kept: Array, groups: Array) -> Array | None:
    """Return which entries count when views that were not kept are filled in; None where all do."""
    if entries is None:
        return None
    counts = np.where(kept[:, groups], entries, 1).astype(entries.dtype)
    return None if counts.all() else counts


def complete_codes(model: Any, data: Any, entries: Array | None, codes: Array, outlying: Array) -> Array:
    """Return codes of samples, those with missing views by :func:`fill_views`.

    Parameters
    ----------
    model : MultiviewNMF
        Fitted; those of files of earlier versions have no prior.
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for missing entries.
    codes : ndarray [shape=(n_samples, n_components), >= 0]
        By the views that count; completed in place.
    outlying : ndarray of bool [shape=(n_samples, n_views)]
        Views that are there, and do not count.

    Returns
    -------
    ndarray [shape=(n_samples, n_components), >= 0]
        `codes`.
    """
    if not hasattr(model, "codes_mean_"):
        return codes
    H, groups = model.components_, model.view_groups_
    prior = CodesPrior(model.codes_mean_, model.codes_covariance_, model.view_noise_)
    kept = observed_views(entries, groups, *outlying.shape) & ~outlying
    gaps = np.flatnonzero(~kept.all(axis=1))
    for block in row_blocks((len(gaps), H.shape[1])):
        rows = gaps[block]
        own = data[rows].toarray() if sp.issparse(data) else data[rows]
        counts = None if entries is None else entries[rows]
        filled = fill_views(own, counts, kept[rows], codes[rows], H, groups, prior, least=_least(model.loss))
        codes[rows] = model._codes(filled, _counts(counts, kept[rows], groups))
    return codes
