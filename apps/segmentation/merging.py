"""The learnt strength of borders, and the merging of regions that follows from it.

A sum of regression trees maps the features of a border (:data:`.kernels.FEATURES`) to the share of pairs of pixels, one
on each side, that people put into different segments. The weakest border is removed first; small regions make a border
weaker. The borders of the merged region are then measured and judged again. The numbers are in ``learnt.npz``, which
``benchmarks/segmentation_train.py`` writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visionnmf.io import read_arrays

from . import kernels
from .kernels import ENERGY, LAB, LAB_SQUARED, SIZE, BorderTrees, RegionGraph
from .regions import Partition

__all__ = ["BorderModel", "MergeSequence", "load_border_model", "merge_regions"]

FILE = Path(__file__).with_name("learnt.npz")

SIZE_EXPONENT = 0.15  # of the smaller region's share: small regions go first. Chosen among 0, 0.15, 0.3 and 0.5.

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BorderModel:
    """What is learnt on training photographs.

    `textons` (float32, 32 x 10) are the centres of filter responses; the leaves of `trees` are added to `base`; `scale`
    is where the tree of regions is cut unless the user asks for something else.
    """

    textons: NDArray[np.float32]
    trees: BorderTrees
    base: float
    scale: float


@cache
def load_border_model(path: Path = FILE) -> BorderModel:
    """Read the model that comes with the package, or another file of the same arrays.

    It holds the centres of textons (n_textons, 10), the regression trees of the strengths of borders, `base`, which is
    added to what they predict, and `scale`, at which a tree of regions is cut by default.
    """
    parts = ("roots", "features", "thresholds", "children", "values")  # of the regression trees
    arrays = read_arrays(path, ("textons", "base", "scale", *parts))
    trees = BorderTrees(*(arrays[name] for name in parts))
    return BorderModel(arrays["textons"], trees, float(arrays["base"]), float(arrays["scale"]))


@dataclass(frozen=True)
class MergeSequence:
    """The merges of n regions into one.

    `children` (n - 1, 2) are the two nodes that each merge joins; `heights` (n - 1,), ascending in [0, 1], the largest
    cost of a border up to each merge; `strengths` (m,) the strengths of the borders between the first regions.
    `features` and `pairs` describe the borders that were judged and name their nodes, those of the first regions first;
    both are empty unless they were asked for.
    """

    children: NDArray[np.int64]
    heights: Array
    strengths: Array
    features: Array
    pairs: NDArray[np.int64]


def merge_regions(partition: Partition, model: BorderModel, *, n_recorded: int = 0) -> MergeSequence:
    """Merge the regions of a picture until one is left; keep the features of at most `n_recorded` borders.

    The n `regions` of the partition are rows of sums over their pixels, such as those of the colours, and the m
    `borders` rows of sums over their pixel sides, so that a merge adds rows; `edges` (m, 2) are the regions that a
    border divides. Regression trees, whose sum is added to the constant `model.base`, judge from features of a border
    how strong it is. Features are recorded to train a model only.

    Returns the two nodes that each merge joins (n - 1, 2), the heights of the merges (n - 1,), the strengths of the
    borders at the start (m,), and the features and pairs of nodes of the recorded borders. A height is the largest cost
    of a border up to the merge, so that heights ascend. SIZE_EXPONENT makes borders of small regions cheap.
    """
    n = len(partition.regions)
    graph = RegionGraph(
        # the kernel writes the sums of each merge to the rows after those of the regions
        np.concatenate([partition.regions, np.zeros((n - 1, partition.regions.shape[1]))]),
        # perimeters: column 0 of the borders is their length, which counts for the regions on both sides
        np.bincount(partition.edges.ravel(), np.repeat(partition.borders[:, 0], 2), 2 * n - 1),
        partition.edges.copy(),
        partition.borders.copy(),
        _describe_picture(partition.regions),  # size, mean energy and spread of colours: features are relative to them
    )
    features, pairs = np.empty((n_recorded, kernels.N_FEATURES)), np.empty((n_recorded, 2), np.int64)
    children, costs, n_merges, n_used, strengths = kernels.merge(
        graph, model.trees, model.base, SIZE_EXPONENT, features, pairs
    )
    # Islands of a mask do not touch, so n_merges may be less than n - 1. They are joined last, at the largest height
    # there is. Node k is region k for k < n, and merge k - n after that; those that are nobody's child are the islands'
    # roots.
    waiting = np.setdiff1d(np.arange(n + n_merges), children[:n_merges])
    for node in range(n + n_merges, 2 * n - 1):
        children[node - n], costs[node - n] = waiting[:2], 1.0
        waiting = np.append(waiting[2:], node)
    return MergeSequence(children, np.maximum.accumulate(costs), strengths, features[:n_used], pairs[:n_used])


def _describe_picture(regions: Array) -> Array:
    """Return the number of pixels, the mean energy and the standard deviation of CIELAB of the whole picture.

    The energy of a pixel is the largest strength that a border there can have.

    `regions` (n, N_SUMS) are sums over the pixels of each region, whose columns have the names of :mod:`.kernels`.
    """
    total = regions.sum(axis=0)
    means = total / total[SIZE]
    variances = means[LAB_SQUARED : LAB_SQUARED + 3] - means[LAB : LAB + 3] ** 2
    return np.array([total[SIZE], means[ENERGY], np.sqrt(np.maximum(variances, 0).sum())])
