"""Which view uses which component, how sparse its parts are, and how well the model reconstructs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import one_blas_thread

from .views import Views

__all__ = ["plot_usage", "sparseness", "usage", "view_errors"]

Array = NDArray[Any]


def usage(H: Array, groups: Array, n_views: int) -> Array:
    """Return the share of each component's energy in each view, (n_components, n_views); 0 for a zero component."""
    energy = np.array([(H[:, groups == v].astype(np.float64) ** 2).sum(axis=1) for v in range(n_views)]).T
    total = energy.sum(axis=1, keepdims=True)
    return np.divide(energy, total, out=np.zeros_like(energy), where=total > 0)


def sparseness(H: Array, groups: Array, n_views: int) -> Array:
    """Return Hoyer's sparseness (2004) of each component's block in each view, of shape (n_components, n_views).

    It is 1 for a block of zeros, or of one feature.
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
def view_errors(views: Views, codes: Array, H: Array) -> Array:
    """Return the sum of the absolute residuals of each view, as a share of the sum of its data."""
    left, total = np.zeros(views.n_views), np.zeros(views.n_views)
    for rows, block, entries in views.blocks():
        residual = np.abs(block - codes[rows] @ H)
        if entries is not None:
            residual *= entries
        left += np.bincount(views.groups, residual.sum(axis=0, dtype=np.float64), views.n_views)
        total += np.bincount(views.groups, block.sum(axis=0, dtype=np.float64), views.n_views)
    return left / np.where(total > 0, total, 1)


def plot_usage(shares: Array, names: Sequence[str], ax: Any = None) -> Any:
    """Draw the shares that :func:`usage` returns, and return the matplotlib axes."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot_view_usage needs matplotlib: pip install 'visionnmf[plots]'") from error
        ax = plt.subplots()[1]
    # Components that more views use come first; then they are ordered by their main view and its share.
    order = np.lexsort((-shares.max(axis=1), shares.argmax(axis=1), -(shares > 0).sum(axis=1)))
    picture = ax.imshow(shares[order].T, aspect="auto", cmap="Greys", vmin=0, vmax=1)
    ax.set_yticks(range(len(names)), names, parse_math=False)  # a name may hold dollar signs
    ax.locator_params(axis="x", integer=True, min_n_ticks=1)
    ax.set_xlabel("component, shared ones first")
    ax.figure.colorbar(picture, ax=ax, label="share of energy")
    return ax
