"""How alike the regions of an image are, as symmetric non-negative matrices.

A symmetric model with the Manhattan loss behaves like a median, so it needs matrices whose blocks are *filled*; for an
affinity of neighbours alone the optimum is zero. The steps are therefore distances along paths
(:func:`geodesic_distances`), an affinity of them with a small scale (:func:`geodesic_affinity`), and diffusion until
somewhat fewer blocks are left than the model has components (:func:`diffuse_affinity`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

__all__ = ["diffuse_affinity", "geodesic_affinity", "geodesic_distances", "proximity_affinity"]

Array = NDArray[np.float64]

# In steps. A longer walk singles out the few regions that are hardest to reach, however small they are.
LONGEST_DIFFUSION = 100.0


def geodesic_distances(colours: NDArray[Any], edges: NDArray[Any]) -> Array:
    """Measure the colour change along the shortest path between each pair of regions.

    A path goes from neighbour to neighbour, and its length is the sum of the colour differences of its steps. Two areas
    of one colour with an edge between them are far apart, but the two ends of a smooth shading are not.

    Parameters
    ----------
    colours : ndarray [shape=(n, d)]
        A feature of each region, such as its mean CIELAB colour.
    edges : ndarray of int [shape=(m, 2)]
        Regions that touch; the graph must be connected.

    Returns
    -------
    ndarray of float64 [shape=(n, n), >= 0], symmetric
        The lengths of the shortest paths, in the units of `colours`.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import geodesic_distances
    >>> colours = np.array([[0.0], [1.0], [3.0]])
    >>> geodesic_distances(colours, np.array([[0, 1], [1, 2]])).round(1).tolist()
    [[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]
    """
    steps = np.linalg.norm(colours[edges[:, 0]] - colours[edges[:, 1]], axis=1)
    # a stored zero would mean that there is no edge
    steps = np.maximum(steps, np.finfo(np.float64).tiny)
    ends = edges.astype(np.int32)  # shortest paths of older SciPy do not take wider indices
    graph = coo_array((steps, (ends[:, 0], ends[:, 1])), shape=(len(colours),) * 2)
    distances = dijkstra(graph.tocsr(), directed=False)
    return np.minimum(distances, distances.T)  # the sums in the two directions differ by rounding


def geodesic_affinity(distances: Array, sizes: NDArray[Any], *, share: float = 0.05) -> Array:
    """Turn distances into an affinity, ``exp(-(d / scale)^2)``.

    Parameters
    ----------
    distances : ndarray [shape=(n, n), >= 0], symmetric
        As from :func:`geodesic_distances`.
    sizes : ndarray [shape=(n,), > 0]
        The weights of the regions.
    share : float in (0, 1), default=0.05
        The scale is the distance below which this share of the pairs of different regions lies, where a pair counts
        by the product of its sizes. So an image of low contrast gets a small scale.

    Returns
    -------
    ndarray of float64 [shape=(n, n), in [0, 1]], symmetric
        1 on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import geodesic_affinity
    >>> distances = np.array([[0.0, 1, 3], [1, 0, 2], [3, 2, 0]])
    >>> bool((geodesic_affinity(distances, np.ones(3)) >= 0).all())
    True
    """
    rows, columns = np.triu_indices(len(distances), 1)
    pairs = distances[rows, columns]
    order = np.argsort(pairs, kind="stable")
    weights = np.cumsum((sizes[rows] * sizes[columns])[order])
    scale = pairs[order[np.searchsorted(weights, share * weights[-1])]] if pairs.size else 1.0
    affinity: Array = np.exp(-((distances / max(float(scale), np.finfo(np.float64).tiny)) ** 2))
    return affinity


def diffuse_affinity(affinity: Array, sizes: NDArray[Any], *, n_blocks: float) -> Array:
    """Diffuse an affinity until it consists of about `n_blocks` blocks.

    The random walk on the pixels has the symmetric transition operator ``S = C^(1/2) D^(-1/2) A D^(-1/2) C^(1/2)``,
    with C the sizes and D the degrees ``A c``. Its power ``S^t`` is the walk after t steps, and its trace counts the
    groups among which the walk has not mixed yet. t, from 1 to 100, is chosen so that the trace is `n_blocks`. For
    t = 1 this is the normalised affinity ``D^(-1/2) A D^(-1/2)`` of normalised cuts (Shi & Malik 2000), with sizes.

    Parameters
    ----------
    affinity : ndarray [shape=(n, n), >= 0], symmetric
        Entry (i, j) is the affinity of each pixel of region i to each of region j.
    sizes : ndarray [shape=(n,), > 0]
        The pixels of each region.
    n_blocks : float, > 1
        The trace to reach.

    Returns
    -------
    ndarray of float64 [shape=(n, n), >= 0], symmetric
        The diffused and normalised affinity of pairs of pixels, for sizes of mean 1; entries are of the order of 1 / n.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import diffuse_affinity
    >>> diffuse_affinity(np.ones((3, 3)), np.ones(3), n_blocks=1.0).shape
    (3, 3)
    """
    c = sizes / sizes.mean()
    scale = np.sqrt(c / (affinity @ c))
    values, vectors = eigh(affinity * np.outer(scale, scale), overwrite_a=True, check_finite=False)
    values = np.clip(values, 0, 1)

    def excess(log_t: float) -> float:
        """Return by how much the trace after diffusion for the time exp(log_t) is above the wanted one."""
        return float((values ** np.exp(log_t)).sum()) - n_blocks

    # The trace falls with the time t. Find the t that reaches `n_blocks`, or use the nearest limit.
    longest = float(np.log(LONGEST_DIFFUSION))
    if excess(0.0) <= 0:
        t = 1.0
    elif excess(longest) >= 0:
        t = LONGEST_DIFFUSION
    else:
        t = float(np.exp(brentq(excess, 0.0, longest, xtol=1e-6)))
    vectors *= np.sqrt(values**t)
    vectors /= np.sqrt(c)[:, np.newaxis]
    return np.maximum(vectors @ vectors.T, 0)


def proximity_affinity(
    features: NDArray[Any],
    centres: NDArray[Any],
    *,
    feature_scale: float = 0.3,
    distance_scale: float = 0.7,
    radius: float | None = None,
) -> Array:
    """Compute the affinity of Shi and Malik by colour and place, as in equation (62) of the MahNMF paper.

    ``exp(-dF^2 / feature_scale^2) exp(-dL^2 / distance_scale^2)`` where ``dL <= radius``, else 0. dF and dL are the
    Euclidean distances of features and of places, each divided by its largest.

    Parameters
    ----------
    features : ndarray [shape=(n, d)]
        A feature of each region, such as lightness or CIELAB colour.
    centres : ndarray [shape=(n, 2)]
        The place of each region.
    feature_scale, distance_scale : float, > 0
        The scales; the defaults are the paper's.
    radius : float in [0, 1], optional
        The largest distance of two places; by default the median of all distances, as in the paper.

    Returns
    -------
    ndarray of float64 [shape=(n, n), in [0, 1]], symmetric
        1 on the diagonal.

    References
    ----------
    J. Shi, J. Malik, "Normalized cuts and image segmentation", IEEE TPAMI 22(8), 2000.
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF", arXiv:1207.3438, 2012, section 5.3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import proximity_affinity
    >>> rng = np.random.default_rng(0)
    >>> proximity_affinity(rng.random((5, 1)), rng.random((5, 2))).shape
    (5, 5)
    """
    d_feature, d_place = (
        d / max(d.max(), np.finfo(np.float64).tiny) for d in (cdist(v, v) for v in (features, centres))
    )
    if radius is None:
        radius = float(np.median(d_place))
    affinity: Array = np.exp(-((d_feature / feature_scale) ** 2) - (d_place / distance_scale) ** 2)
    affinity[d_place > radius] = 0
    return affinity
