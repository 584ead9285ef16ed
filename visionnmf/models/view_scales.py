"""How much each view counts: its size, its weight, and the bounds of its components."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from visionnmf._checks import check_number, shown
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError

__all__ = ["check_view_weight", "choose_view_weights", "view_sizes"]

Array = NDArray[Any]

LEAST_NOISE = 0.01  # of the mean of a view: what is below is rounding, or a view that its own model fits exactly
STEPS = (0.5, 2.0)  # what a weight is multiplied by, to see whether it should be another
ROUNDS = 2  # over all views
HIDDEN = 0.1  # share of the entries


def check_view_weight(given: Any, names: Sequence[str]) -> Array | None:
    """Return the weights of views, in their order; None where they are to be chosen.

    Parameters
    ----------
    given : None, "cv", sequence or mapping of float
    names : sequence of str

    Returns
    -------
    ndarray [shape=(n_views,), > 0] or None

    Raises
    ------
    ParameterError
    """
    if given is None:
        return np.ones(len(names))
    if isinstance(given, str):
        if given != "cv":
            raise ParameterError(f"view_weight must be None, 'cv', or a number for each view; got {given!r}")
        return None
    if isinstance(given, Mapping):
        unknown = [str(name) for name in given if str(name) not in names]
        if unknown:
            raise ParameterError(f"view_weight must name views of {list(names)}; got {unknown[0]!r:.60}")
        weights = {str(name): value for name, value in given.items()}
        given = [weights.get(name, 1.0) for name in names]
    if np.ndim(given) != 1 or len(given) != len(names):
        raise ParameterError(f"view_weight must be a number for each of {len(names)} views; got {shown(given)}")
    return np.array([check_number(value, "view_weight", without_low=True) for value in given])


def view_sizes(data: Any, entries: Array | None, groups: Array, n_views: int, model: Any) -> Array:
    """Return what each view is divided by.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for missing entries.
    groups : ndarray of int [shape=(n_features,)]
    n_views : int
    model : NMF or None
        What is fitted to each view for its noise; None takes its energy.

    Returns
    -------
    ndarray [shape=(n_views,), > 0]
        1 for a view of zeros.
    """
    sizes = np.ones(n_views)
    for v in range(n_views):
        columns = np.flatnonzero(groups == v)
        view = data[:, columns]
        there = None if entries is None else np.ascontiguousarray(entries[:, columns])
        count = view.shape[0] * view.shape[1] if there is None else int(np.count_nonzero(there))
        size = np.sqrt(_sum(view, 2) / count * len(columns)) if model is None else _noise(view, there, count, model)
        if size > 0:
            sizes[v] = size
    return sizes


def _sum(view: Any, power: int) -> float:
    values = view.data if sp.issparse(view) else view
    return float((values**power).sum(dtype=np.float64))


@one_blas_thread()
def _noise(view: Any, entries: Array | None, count: int, model: Any) -> float:
    """Return the mean absolute residual of a view's own model."""
    from sklearn.base import clone

    view = view.toarray() if sp.issparse(view) else np.ascontiguousarray(view)
    n_components = max(1, min(model.n_components or min(view.shape), min(view.shape) // 3))
    own = clone(model).set_params(n_components=n_components)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough for a scale
        residual = np.abs(view - own.fit_transform(view, weights=entries) @ own.components_)
    if entries is not None:
        residual *= entries
    return max(float(residual.sum(dtype=np.float64)), LEAST_NOISE * _sum(view, 1)) / count


def choose_view_weights(
    data: Any,
    entries: Array | None,
    groups: Array,
    fit: Callable[[Array, Array], tuple[Any, Array]],
    n_views: int,
    rng: np.random.RandomState,
) -> Array:
    """Choose the weights of views by how well entries that were hidden are foretold.

    Each view in turn gets half and twice its weight; what lowers the error is kept. The error is the sum of absolute
    residuals at the hidden entries in shares of their sum, in the mean over the views, so that no weight can lower it
    by itself.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for missing entries.
    groups : ndarray of int [shape=(n_features,)]
    fit : callable
        ``fit(weights, entries)`` returns a fitted NMF, and what the views were multiplied by for it.
    n_views : int
    rng : RandomState

    Returns
    -------
    ndarray [shape=(n_views,), > 0]
        Powers of 2.
    """
    X = data.toarray() if sp.issparse(data) else data
    there = np.ones_like(X) if entries is None else entries
    hidden = there * (rng.random_sample(X.shape) < HIDDEN)
    shown_entries = there - hidden
    total = np.bincount(groups, (X * hidden).sum(axis=0, dtype=np.float64), n_views)

    @one_blas_thread()
    def error(weights: Array) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # near enough for a comparison
            model, scales = fit(weights, shown_entries)
        factors = scales[groups].astype(X.dtype)
        codes = model.transform(X * factors, weights=shown_entries)
        residual = np.abs(X - codes @ (model.components_ / factors)) * hidden
        left = np.bincount(groups, residual.sum(axis=0, dtype=np.float64), n_views)
        return float((left / np.where(total > 0, total, 1)).mean())

    weights = np.ones(n_views)
    least = error(weights)
    for _ in range(ROUNDS):
        before = weights
        for v in range(n_views):
            for step in STEPS:
                tried = weights.copy()
                tried[v] *= step
                found = error(tried)
                if found < least:
                    weights, least = tried, found
                    break
        if weights is before:
            break
    return weights
