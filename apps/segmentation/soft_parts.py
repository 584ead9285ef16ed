"""Segments of a picture by symmetric NMF of how low in the tree its regions meet.

A tree puts each region into one segment. Here a region may belong to several parts, as a reflection belongs to the
water and to what it shows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from visionnmf.models import SymmetricNMF

from .hierarchy import Hierarchy

MOST_NODES = 250  # groups of regions; the time of the model grows with their square
# Chosen by the covering on photographs that the borders were not learnt from (docs/decisions/segmentation.md).
SEGMENT_NODES = 60  # groups of regions, or twice the number of segments
SEGMENT_REACH = 0.2  # two groups are connected by 1 / e if they meet in the tree at this height

N_STARTS, MAX_ITER, TOL = 4, 50, 1e-3
BLOCKS_A_COMPONENT = 0.7  # blocks that diffusion leaves in the affinity, for each component
LONGEST_DIFFUSION = 100.0  # steps; a longer walk singles out the few regions that are hardest to reach

Array = NDArray[np.float64]


def tree_connection(hierarchy: Hierarchy, nodes: NDArray[np.int64]) -> Array:
    """Compute how low in the tree n groups of regions meet, at a height h: ``exp(-(h / 0.2)^2)``, symmetric (n, n)."""
    n = int(nodes.max()) + 1
    regions = np.unique(nodes, return_index=True)[1]  # one of each group
    i, j = np.triu_indices(n, 1)
    affinity = np.eye(n)
    heights = hierarchy.heights[hierarchy.find_merges(regions[np.stack([i, j], axis=1)])]
    affinity[i, j] = affinity[j, i] = np.exp(-((heights / SEGMENT_REACH) ** 2))
    return affinity


def diffuse_affinity(affinity: Array, sizes: NDArray[Any], n_blocks: float) -> Array:
    """Diffuse an affinity (n, n) of regions of `sizes` pixels until it consists of about `n_blocks` (> 1) blocks.

    The Manhattan loss behaves like a median: a part appears only where most entries of its block are large. The random
    walk on the pixels has the symmetric transition operator ``S = C^(1/2) D^(-1/2) A D^(-1/2) C^(1/2)``, with C the
    sizes and D the degrees ``A c``. The trace of ``S^t`` counts the groups among which the walk has not mixed after t
    steps; t, from 1 to 100, makes it `n_blocks`. The result is divided by the sizes, of mean 1.
    """
    c = sizes / sizes.mean()
    scale = np.sqrt(c / (affinity @ c))
    values, vectors = eigh(affinity * np.outer(scale, scale), overwrite_a=True, check_finite=False)
    values = np.clip(values, 0, 1)  # negative ones have no fractional power

    def excess(log_t: float) -> float:
        """Return by how much the trace after exp(log_t) steps, which falls with them, is above `n_blocks`."""
        return float((values ** np.exp(log_t)).sum()) - n_blocks

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


def find_segments(hierarchy: Hierarchy, n_segments: int, loss: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the segment of each region, and how far each region belongs to each segment (n, n_regions).

    A region is in the segment to which it belongs most. There are fewer than `n_segments` if to some part no region
    belongs most; the memberships of each region sum to 1 over the others.
    """
    # The model works on segments of a cut of the tree, because its time grows with the square of their number.
    nodes = hierarchy.cut(n_segments=min(max(SEGMENT_NODES, 2 * n_segments), MOST_NODES))
    sizes = np.bincount(nodes, hierarchy.sizes)
    if len(sizes) <= n_segments:  # each group is a part of its own
        codes = np.eye(len(sizes), n_segments)
    else:
        blocks = max(1.5, BLOCKS_A_COMPONENT * n_segments)
        affinity = diffuse_affinity(tree_connection(hierarchy, nodes), sizes, blocks)
        model = SymmetricNMF(n_segments, loss=loss, n_init=N_STARTS, max_iter=MAX_ITER, tol=TOL, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a map for the eye needs no last digits
            # a group counts by its number of pixels
            codes = model.fit_transform(affinity, sample_weight=sizes / sizes.mean())
    total = codes.sum(axis=1, keepdims=True)
    # a group with codes of zero belongs to all parts alike
    codes = np.where(total > 0, codes / np.maximum(total, 1e-300), 1 / n_segments)
    order = np.argsort(-(sizes @ codes), kind="stable")  # parts by their pixels, memberships counted as shares
    parts = codes[nodes][:, order].T.astype(np.float32)
    used, cut = np.unique(parts.argmax(axis=0), return_inverse=True)
    parts = parts[used]
    return cut, parts / parts.sum(axis=0)
