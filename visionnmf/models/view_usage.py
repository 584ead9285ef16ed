"""What a model of views says about them: which uses which component, how sparsely, and how well it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf.engine.blocks import one_blas_thread

__all__ = ["plot_usage", "sparseness", "usage", "view_errors"]

Array = NDArray[Any]

BLOCK = 1024  # rows of a model that are in memory at once


def usage(H: Array, groups: Array, n_views: int) -> Array:
    """Return the share of each component's energy in each view.

    Parameters
    ----------
    H : ndarray [shape=(n_components, n_features), >= 0]
    groups : ndarray of int [shape=(n_features,)]
        The view of each feature.
    n_views : int

    Returns
    -------
    ndarray [shape=(n_components, n_views), 0 to 1]
        A row of zeros for a component of zeros.
    """
    energy = np.array([(H[:, groups == v].astype(np.float64) ** 2).sum(axis=1) for v in range(n_views)]).T
    total = energy.sum(axis=1, keepdims=True)
    return np.divide(energy, total, out=np.zeros_like(energy), where=total > 0)


def sparseness(H: Array, groups: Array, n_views: int) -> Array:
    """Return Hoyer's sparseness (2004) of each component's block in each view.

    Parameters
    ----------
    H : ndarray [shape=(n_components, n_features), >= 0]
    groups : ndarray of int [shape=(n_features,)]
    n_views : int

    Returns
    -------
    ndarray [shape=(n_components, n_views), 0 to 1]
        1 for a block of zeros, or of one feature.
    """
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
def view_errors(data: Any, entries: Array | None, codes: Array, H: Array, groups: Array, n_views: int) -> Array:
    """Return the sum of absolute residuals of each view in shares of the sum of its data.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        0 for entries that do not count, 1 for the others.
    codes : ndarray [shape=(n_samples, n_components), >= 0]
    H : ndarray [shape=(n_components, n_features), >= 0]
    groups : ndarray of int [shape=(n_features,)]
    n_views : int

    Returns
    -------
    ndarray [shape=(n_views,)]
        0 for a view of zeros that are told.
    """
    left, total = np.zeros(n_views), np.zeros(n_views)
    for start in range(0, data.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        block = data[rows].toarray() if sp.issparse(data) else data[rows]
        residual = np.abs(block - codes[rows] @ H)
        if entries is not None:
            residual *= entries[rows]
        left += np.bincount(groups, residual.sum(axis=0, dtype=np.float64), n_views)
        total += np.bincount(groups, block.sum(axis=0, dtype=np.float64), n_views)
    return left / np.where(total > 0, total, 1)


def plot_usage(shares: Array, names: Sequence[str], ax: Any = None) -> Any:
    """Draw which view uses which component.

    Parameters
    ----------
    shares : ndarray [shape=(n_components, n_views), 0 to 1]
        See :func:`usage`.
    names : sequence of str
        Of the views.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        Without matplotlib, which is in the extra ``plots``.
    """
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot_view_usage needs matplotlib: pip install 'visionnmf[plots]'") from error
        ax = plt.subplots()[1]
    order = np.lexsort((-shares.max(axis=1), shares.argmax(axis=1), -(shares > 0).sum(axis=1)))
    picture = ax.imshow(shares[order].T, aspect="auto", cmap="Greys", vmin=0, vmax=1)
    ax.set_yticks(range(len(names)), names, parse_math=False)  # a name may hold dollar signs
    ax.locator_params(axis="x", integer=True, min_n_ticks=1)
    ax.set_xlabel("component, shared ones first")
    ax.figure.colorbar(picture, ax=ax, label="share of energy")
    return ax
