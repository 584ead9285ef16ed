"""What is measured on views: their energies, their errors, and how components use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf._checks import plot_axes
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss, loss_value

from .views import BLOCK, Views, dense

__all__ = ["plot_usage", "sparseness", "usage", "view_energies", "view_errors"]

Array = NDArray[Any]

MOST_TICKS = 30  # numbers of components below a picture


def view_energies(views: Views) -> Array:
    """Return the root mean square norm of the samples of each view; 1 for a view of zeros.

    Where entries are missing, it is the norm that a complete sample with the same mean square would have.
    """
    energies = np.ones(views.n_views)
    for v, own in enumerate(views.columns()):
        view = views.data[:, own]
        values = view.data if sp.issparse(view) else view
        count = view.shape[0] * view.shape[1] if views.entries is None else np.count_nonzero(views.entries[:, own])
        energies[v] = np.sqrt(float((values**2).sum(dtype=np.float64)) / count * len(own)) or 1.0
    return energies


def usage(H: Array, groups: Array, n_views: int) -> Array:
    """Return the share of each component's energy in each view, (n_components, n_views); 0 for a zero component.

    `H` (n_components, n_features) are the components, whose energy is the sum of squares, in the scaled views, and
    `groups` (n_features,) has the view of each feature.
    """
    energy = np.array([(H[:, groups == v].astype(np.float64) ** 2).sum(axis=1) for v in range(n_views)]).T
    total = energy.sum(axis=1, keepdims=True)
    return np.divide(energy, total, out=np.zeros_like(energy), where=total > 0)


def sparseness(H: Array, groups: Array, n_views: int) -> Array:
    """Return Hoyer's sparseness (2004) of each component's block in each view, of shape (n_components, n_views).

    It is ``(sqrt(N) - |x|_1 / |x|_2) / (sqrt(N) - 1)`` of a block x of N entries: 0 if all are alike, 1 if only one is
    not 0. It is also 1 for a block of zeros, or of one feature.
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
    """Return the `middle` of the entries of each feature in `own` that count; 0 for all if each feature is constant.

    These constants are the model with which that of a view is compared. They would explain a view of constant features
    completely and leave nothing to compare with, so that such a view is compared with zeros.
    `own` are the columns of a view, and `middle` the mean or the median. A few columns at a time are made dense.
    """
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


def plot_usage(shares: Array, names: Sequence[str], ax: Any = None) -> Any:
    """Draw the share of each component's energy in each view (`usage`), and return the matplotlib axes.

    `shares` are (n_components, n_views), and `names` those of the views.
    """
    ax = plot_axes(ax)
    # Components that more views use come first; then they are ordered by their main view and its share.
    order = np.lexsort((-shares.max(axis=1), shares.argmax(axis=1), -(shares > 0).sum(axis=1)))
    # A share of 0 is white, and the smallest share above it is already grey.
    from matplotlib.colors import LinearSegmentedColormap

    greys = LinearSegmentedColormap.from_list("shares", ["0.88", "black"])
    picture = ax.imshow(np.ma.masked_equal(shares[order].T, 0), aspect="auto", cmap=greys, vmin=0, vmax=1)
    ax.set_yticks(range(len(names)), names, parse_math=False)  # a name may hold dollar signs
    shown = range(0, len(order), -(-len(order) // MOST_TICKS))  # their numbers, as in `view_usage_`
    ax.set_xticks(shown, order[shown].tolist())
    ax.set_xlabel("component, those that more views use first")
    ax.set_ylabel("view")
    ax.figure.colorbar(picture, ax=ax, label="share of energy (white: not used)")
    return ax
