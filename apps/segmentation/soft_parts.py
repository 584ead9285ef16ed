"""Soft parts and segments of a picture by symmetric NMF of how well regions are connected.

A tree puts each region into one segment. Here a region may belong to several parts, as a reflection belongs to the
water and to what it shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from sklearn.exceptions import ConvergenceWarning

from visionnmf._checks import RandomState, check_count
from visionnmf.models import SymmetricNMF

from .hierarchy import Hierarchy

__all__ = ["connection", "diffuse_affinity", "find_segments", "find_soft_parts", "tree_connection"]

MOST_NODES = 250  # groups of regions; the time of the model grows with their square
REACH = 0.4  # two groups are connected by 1 / e if the squared strengths along the path sum to this

# For segments instead of soft parts; chosen by the covering on photographs that the borders were not learnt from
# (docs/decisions/segmentation.md).
SEGMENT_NODES = 60  # groups of regions, or twice the number of segments
SEGMENT_REACH = 0.2  # two groups are connected by 1 / e if they meet in the tree at this height

N_STARTS, MAX_ITER, TOL = 4, 50, 1e-3
BLOCKS_A_COMPONENT = 0.7  # blocks that diffusion leaves in the affinity, for each component
LONGEST_DIFFUSION = 100.0  # steps; a longer walk singles out the few regions that are hardest to reach

Array = NDArray[np.float64]


def connection(hierarchy: Hierarchy, nodes: NDArray[np.int64]) -> Array:
    """Compute how well n groups of regions are connected over weak borders: ``exp(-(d / 0.4)^2)``, symmetric (n, n).

    d is the smallest sum of squared strengths of the borders along a path. `nodes` is the group of each region, and
    `edges` of the hierarchy are the pairs of regions with a border. The border between two groups is as strong as the
    mean of the borders between their regions.
    """
    n = int(nodes.max()) + 1
    edges = np.sort(nodes[hierarchy.edges], axis=1)
    between = edges[:, 0] != edges[:, 1]
    # each pair of groups as one number, and for each border between regions the pair to which it belongs
    codes, edge = np.unique(edges[between, 0] * n + edges[between, 1], return_inverse=True)
    strengths = np.bincount(edge, hierarchy.strengths[between]) / np.maximum(np.bincount(edge), 1)
    steps = np.maximum(strengths**2, 1e-9)  # a stored zero would mean that there is no edge
    ends = np.stack(np.divmod(codes, n)).astype(np.int32)
    distances = dijkstra(coo_array((steps, tuple(ends)), shape=(n, n)).tocsr(), directed=False)
    distances = np.minimum(distances, distances.T)  # the sums in the two directions differ by rounding
    return np.exp(-((distances / REACH) ** 2))


def tree_connection(hierarchy: Hierarchy, nodes: NDArray[np.int64]) -> Array:
    """Compute how low in the tree n groups of regions meet: ``exp(-(h / 0.2)^2)``, symmetric (n, n).

    h is the height of the merge at which the groups of a cut of the tree meet; `nodes` is the group of each region.
    Borders are judged again after each merge, so one gap in a border between two large segments does not connect them,
    as it does along a path.
    """
    n = int(nodes.max()) + 1
    regions = np.unique(nodes, return_index=True)[1]  # one of each group
    i, j = np.triu_indices(n, 1)
    affinity = np.eye(n)
    heights = hierarchy.heights[hierarchy.find_merges(regions[np.stack([i, j], axis=1)])]
    affinity[i, j] = affinity[j, i] = np.exp(-((heights / SEGMENT_REACH) ** 2))
    return affinity


def diffuse_affinity(affinity: Array, sizes: NDArray[Any], n_blocks: float) -> Array:
    """Diffuse an affinity (n, n) of regions of `sizes` pixels until it consists of about `n_blocks` (> 1) blocks.

    A block is a group of regions that are well connected with each other and hardly with others. The factorisation with
    the Manhattan loss behaves like a median: a part appears only where most entries of its block are large, and
    diffusion makes them so. The random walk on the pixels has the symmetric transition operator
    ``S = C^(1/2) D^(-1/2) A D^(-1/2) C^(1/2)``, with C the sizes and D the degrees ``A c``. Its power ``S^t`` is the
    walk after t steps, and its trace counts the groups among which the walk has not mixed yet. t, from 1 to 100, is
    chosen so that the trace is `n_blocks`. For t = 1 this is the affinity of normalised cuts (Shi & Malik 2000), with
    sizes. The result is divided by the sizes, of mean 1.
    """
    c = sizes / sizes.mean()
    scale = np.sqrt(c / (affinity @ c))
    values, vectors = eigh(affinity * np.outer(scale, scale), overwrite_a=True, check_finite=False)
    values = np.clip(values, 0, 1)  # negative ones have no fractional power

    def excess(log_t: float) -> float:
        """Return by how much the trace after diffusion for the time exp(log_t) is above the wanted `n_blocks`.

        `values` are the eigenvalues of the transition operator, in [0, 1], so the trace is the sum of their powers.
        """
        return float((values ** np.exp(log_t)).sum()) - n_blocks

    # The trace falls with the time t. Find the t that reaches `n_blocks`, or use the nearest limit.
    longest = float(np.log(LONGEST_DIFFUSION))
    if excess(0.0) <= 0:
        t = 1.0
    elif excess(longest) >= 0:
        t = LONGEST_DIFFUSION
    else:
        t = float(np.exp(brentq(excess, 0.0, longest, xtol=1e-6)))
    # S^t, divided by the sizes, is the product of these scaled eigenvectors with themselves.
    vectors *= np.sqrt(values**t)
    vectors /= np.sqrt(c)[:, np.newaxis]
    return np.maximum(vectors @ vectors.T, 0)


def find_soft_parts(
    hierarchy: Hierarchy,
    n_components: int,
    *,
    loss: str = "manhattan",
    random_state: RandomState = 0,
    n_nodes: int = MOST_NODES,
    connect: Callable[[Hierarchy, NDArray[np.int64]], Array] = connection,
) -> NDArray[np.float32]:
    """Return how far each region belongs to each part, (n_components, n_regions), the largest part first.

    The memberships of a region sum to 1 over the parts. The model works on at most `n_nodes` groups of regions, the
    segments of a cut of the tree, because its time grows with their square; `nodes` is the group of each region.
    `connect` returns how well groups are connected (n_groups, n_groups). The affinity is diffused first, because NMF
    with the Manhattan loss only finds parts whose entries are mostly large.
    """
    n_components = check_count(n_components, "n_components")
    nodes = hierarchy.cut(n_segments=n_nodes)
    sizes = np.bincount(nodes, hierarchy.sizes)
    if len(sizes) <= n_components:  # each group is a part of its own
        codes = np.eye(len(sizes), n_components)
    else:
        # how many blocks, groups of well connected regions, the diffused affinity consists of: more than one
        blocks = max(1.5, BLOCKS_A_COMPONENT * n_components)
        affinity = diffuse_affinity(connect(hierarchy, nodes), sizes, blocks)
        model = SymmetricNMF(
            n_components, loss=loss, n_init=N_STARTS, max_iter=MAX_ITER, tol=TOL, random_state=random_state
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a map for the eye needs no last digits
            # a group counts by its number of pixels
            codes = model.fit_transform(affinity, sample_weight=sizes / sizes.mean())
    total = codes.sum(axis=1, keepdims=True)
    # a group with codes of zero belongs to all parts alike
    codes = np.where(total > 0, codes / np.maximum(total, 1e-300), 1 / n_components)
    order = np.argsort(-(sizes @ codes), kind="stable")  # parts by their pixels, memberships counted as shares
    return codes[nodes][:, order].T.astype(np.float32)


def find_segments(hierarchy: Hierarchy, n_segments: int, loss: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the segment of each region, and how far each region belongs to each segment (n, n_regions).

    A region is in the segment to which it belongs most. There are fewer than `n_segments` if to some part no region
    belongs most; such parts are left out, and the memberships of each region sum to 1 over the others.
    """
    # The factorisation is of how low in the tree its nodes, groups of regions, meet; two nodes a segment or more.
    n_nodes = min(max(SEGMENT_NODES, 2 * n_segments), MOST_NODES)
    codes = find_soft_parts(hierarchy, n_segments, loss=loss, n_nodes=n_nodes, connect=tree_connection)
    used, cut = np.unique(codes.argmax(axis=0), return_inverse=True)
    codes = codes[used]
    return cut, codes / codes.sum(axis=0)
