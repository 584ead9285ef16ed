"""Soft parts of a picture: symmetric NMF of how well regions are connected over weak borders.

What no tree gives: a region may belong to several parts, as a reflection does to the water and to what it shows.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from sklearn.exceptions import ConvergenceWarning

from visionnmf._checks import RandomState, check_count
from visionnmf.features import diffuse_affinity
from visionnmf.models import SymmetricNMF

from .hierarchy import Hierarchy

__all__ = ["connection", "soft_parts"]

MOST_NODES = 250  # the model's time grows with their square
REACH = 0.4  # paths whose squared strengths sum to this connect by 1 / e

N_STARTS, MAX_ITER, TOL = 4, 50, 1e-3
BLOCKS_A_COMPONENT = 0.7

Array = NDArray[np.float64]


def connection(hierarchy: Hierarchy, nodes: NDArray[np.int64]) -> Array:
    """Compute how well groups of regions are connected: by the path over the weakest borders.

    Parameters
    ----------
    hierarchy : Hierarchy
    nodes : ndarray of int64 [shape=(n_regions,)]
        The group of each region, 0 to n - 1.

    Returns
    -------
    ndarray of float64 [shape=(n, n), in [0, 1]], symmetric
        ``exp(-(d / REACH)^2)``, with d the least sum of squared strengths of the borders along a path.
    """
    n = int(nodes.max()) + 1
    edges = np.sort(nodes[hierarchy.edges], axis=1)
    between = edges[:, 0] != edges[:, 1]
    codes, edge = np.unique(edges[between, 0] * n + edges[between, 1], return_inverse=True)
    strengths = np.bincount(edge, hierarchy.strengths[between]) / np.maximum(np.bincount(edge), 1)
    steps = np.maximum(strengths**2, 1e-9)  # a stored zero would mean "no edge"
    ends = np.stack(np.divmod(codes, n)).astype(np.int32)
    distances = dijkstra(coo_array((steps, tuple(ends)), shape=(n, n)).tocsr(), directed=False)
    distances = np.minimum(distances, distances.T)  # sums in two orders differ by rounding
    return np.exp(-((distances / REACH) ** 2))


def soft_parts(
    hierarchy: Hierarchy, n_components: int, *, loss: str = "manhattan", random_state: RandomState = 0
) -> NDArray[np.float32]:
    """Find soft parts of a picture.

    Parameters
    ----------
    hierarchy : Hierarchy
    n_components : int, >= 1
        Parts.
    loss : {"manhattan", "frobenius"}, default="manhattan"
        Of :class:`~visionnmf.SymmetricNMF`.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the starts.

    Returns
    -------
    ndarray of float32 [shape=(n_components, n_regions), in [0, 1]]
        How far each region belongs to each part, the largest part first; they sum to 1 over the parts.
    """
    n_components = check_count(n_components, "n_components")
    nodes = hierarchy.cut(n_segments=MOST_NODES)
    sizes = np.bincount(nodes, hierarchy.sizes)
    if len(sizes) <= n_components:
        codes = np.eye(len(sizes), n_components)
    else:
        blocks = max(1.5, BLOCKS_A_COMPONENT * n_components)
        affinity = diffuse_affinity(connection(hierarchy, nodes), sizes, n_blocks=blocks)
        model = SymmetricNMF(
            n_components, loss=loss, n_init=N_STARTS, max_iter=MAX_ITER, tol=TOL, random_state=random_state
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a map for the eye needs no last digits
            codes = model.fit_transform(affinity, sample_weight=sizes / sizes.mean())
    total = codes.sum(axis=1, keepdims=True)
    codes = np.where(total > 0, codes / np.maximum(total, 1e-300), 1 / n_components)
    order = np.argsort(-(sizes @ codes), kind="stable")
    return codes[nodes][:, order].T.astype(np.float32)
