"""Pairs of pixels that share a side, and the pairs of regions that touch along such sides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["neighbour_pairs", "region_adjacency"]

Pair = tuple[NDArray[Any], NDArray[Any]]


def neighbour_pairs(picture: NDArray[Any]) -> tuple[Pair, Pair]:
    """Return views of each pixel and its right neighbour, then of each pixel and its lower neighbour."""
    return (picture[:, :-1], picture[:, 1:]), (picture[:-1], picture[1:])


def region_adjacency(labels: NDArray[Any]) -> NDArray[np.int64]:
    """List the pairs of regions (m, 2) that touch along a pixel's side, the smaller label first, in ascending order.

    `labels` are >= 0.
    """
    count = int(labels.max()) + 1
    codes = []  # each pair as one number, low * count + high, so that `unique` is fast
    for first, second in neighbour_pairs(labels):
        differ = first != second
        low, high = np.minimum(first, second)[differ], np.maximum(first, second)[differ]
        codes.append(low.astype(np.int64) * count + high)
    return np.stack(np.divmod(np.unique(np.concatenate(codes)), count), axis=1)
