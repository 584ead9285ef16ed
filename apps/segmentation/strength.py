"""The learnt strength of borders, and the tree that follows from it.

A sum of regression trees maps the features of a border (:data:`.merging.FEATURES`) to the share of pairs of pixels,
one on each side, that people put into different segments. The weakest border is taken away first, where a small region
makes a border weaker; the borders of the merged region are measured and judged anew. The numbers are in ``learnt.npz``,
which ``benchmarks/segmentation_train.py`` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import merging
from .borders import Partition
from .merging import ENERGY, LAB, LAB_SQUARED, N_SUMS, SIZE

__all__ = ["Learnt", "Merged", "load_learnt", "merge_regions"]

FILE = Path(__file__).with_name("learnt.npz")

# Small regions go first: chosen among 0, .15, .3 and .5.
SIZE_EXPONENT = 0.15

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Learnt:
    """What is learnt on training photographs.

    Attributes
    ----------
    textons : ndarray of float32 [shape=(32, 10)]
        Centres of filter responses.
    trees : tuple of ndarray
        What :func:`.merging.predict` takes: roots, features, thresholds, children, values.
    base : float
        What the trees' leaves are added to.
    scale : float
        Where the tree of a photograph is cut when nothing is asked for.
    """

    textons: NDArray[np.float32]
    trees: tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]
    base: float
    scale: float

    def save(self, path: Path) -> None:
        """Write the numbers as plain arrays."""
        names: dict[str, Any] = dict(zip(_TREES, self.trees, strict=True))
        np.savez_compressed(path, textons=self.textons, base=self.base, scale=self.scale, **names)


_TREES = ("roots", "features", "thresholds", "children", "values")


@cache
def load_learnt(path: Path = FILE) -> Learnt:
    """Read what :meth:`Learnt.save` has written; by default what comes with the package."""
    with np.load(path, allow_pickle=False) as found:
        trees = tuple(found[name] for name in _TREES)
        return Learnt(found["textons"], trees, float(found["base"]), float(found["scale"]))


@dataclass(frozen=True)
class Merged:
    """What :func:`merge_regions` finds.

    Attributes
    ----------
    children : ndarray of int64 [shape=(n - 1, 2)]
        Nodes that each merge joins.
    heights : ndarray of float64 [shape=(n - 1,), in [0, 1]], ascending
        Largest cost of a border up to each merge.
    strengths : ndarray of float64 [shape=(m,), in [0, 1]]
        Strength of each border of the first regions.
    features : ndarray of float64 [shape=(n_looked_at, n_features)]
        Of the borders that were looked at, first those of the first regions; empty unless asked for.
    pairs : ndarray of int64 [shape=(n_looked_at, 2)]
        Their nodes.
    """

    children: NDArray[np.int64]
    heights: Array
    strengths: Array
    features: Array
    pairs: NDArray[np.int64]


def merge_regions(
    partition: Partition, learnt: Learnt, *, memberships: Sequence[Array] = (), n_recorded: int = 0
) -> Merged:
    """Merge the regions of a picture until one is left.

    Parameters
    ----------
    partition : Partition
    learnt : Learnt
    memberships : sequence of ndarray [shape=(n, n_parts)], optional
        Global cues, where `learnt` has been learnt with them: how far each region belongs to parts of the picture.
    n_recorded : int, default=0
        Keep the features of at most so many borders, for learning.

    Returns
    -------
    Merged
    """
    sizes = partition.regions[:, SIZE, np.newaxis]
    sums = np.concatenate([partition.regions, *(each * sizes for each in memberships)], axis=1)
    groups = N_SUMS + np.cumsum([0, *(each.shape[1] for each in memberships)])
    n = len(sums)
    regions = np.zeros((2 * n - 1, sums.shape[1]))
    regions[:n] = sums
    perimeters = np.zeros(2 * n - 1)
    perimeters[:n] = np.bincount(partition.edges.ravel(), np.repeat(partition.borders[:, 0], 2), n)
    features = np.empty((n_recorded, len(merging.FEATURES) + len(memberships)))
    pairs = np.empty((n_recorded, 2), np.int64)
    children, costs, done, written, strengths = merging.merge(
        regions,
        perimeters,
        groups,
        _picture(partition.regions),
        partition.edges.copy(),
        partition.borders.copy(),
        learnt.trees,
        learnt.base,
        SIZE_EXPONENT,
        features,
        pairs,
    )
    # islands of a mask join last, at the largest height there is
    waiting = np.setdiff1d(np.arange(n + done), children[:done])
    for node in range(n + done, 2 * n - 1):
        children[node - n], costs[node - n] = waiting[:2], 1.0
        waiting = np.append(waiting[2:], node)
    return Merged(children, np.maximum.accumulate(costs), strengths, features[:written], pairs[:written])


def _picture(regions: Array) -> Array:
    """Return what is the same for all borders of a picture: its size, mean energy and spread of colours."""
    total = regions.sum(axis=0)
    means = total / total[SIZE]
    variances = means[LAB_SQUARED : LAB_SQUARED + 3] - means[LAB : LAB + 3] ** 2
    return np.array([total[SIZE], means[ENERGY], np.sqrt(np.maximum(variances, 0).sum())])
