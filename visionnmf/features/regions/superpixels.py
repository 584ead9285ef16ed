"""Superpixels: an image as some hundred small regions of one colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief

__all__ = ["Superpixels", "find_superpixels", "region_adjacency"]

# In CIELAB units. Eight bits resolve 0.4 of lightness; the mean of a flat superpixel is exact to a few hundredths.
FLAT = 0.1


@dataclass(frozen=True)
class Superpixels:
    """The superpixels of an image, from :func:`find_superpixels`.

    Attributes
    ----------
    labels : ndarray of int32 [shape=(height, width)]
        The superpixel of each pixel, 0 to n - 1. Each of them is one 4-connected piece.
    sizes : ndarray of float64 [shape=(n,), >= 1]
        Pixels of each superpixel.
    colours : ndarray of float64 [shape=(n, 3)]
        Mean CIELAB colour (D65) of each.
    centres : ndarray of float64 [shape=(n, 2)]
        Mean row and column of each, in pixels.
    edges : ndarray of int64 [shape=(m, 2)]
        Pairs of superpixels that touch, the smaller first, in ascending order.
    """

    labels: NDArray[np.int32]
    sizes: NDArray[np.float64]
    colours: NDArray[np.float64]
    centres: NDArray[np.float64]
    edges: NDArray[np.int64]

    __repr__ = brief


def find_superpixels(image: NDArray[Any], n_superpixels: int = 500, *, compactness: float = 10.0) -> Superpixels:
    """Group the pixels of an image into small regions of one colour (SLIC: Achanta et al. 2012).

    Superpixels that touch and have the same colour are joined, so that a flat area is one superpixel of any size.

    Parameters
    ----------
    image : ndarray of float32 [shape=(height, width, 3), in [0, 1]]
        sRGB.
    n_superpixels : int, >= 1, default=500
        The number of superpixels wanted; SLIC finds 10 to 20 % fewer. An image of no more pixels is not grouped.
    compactness : float, > 0, default=10
        Larger values make rounder superpixels that follow the colours less.

    Returns
    -------
    Superpixels
        Regions, their sizes, colours, positions and neighbours.

    References
    ----------
    R. Achanta, A. Shaji, K. Smith, A. Lucchi, P. Fua, S. Susstrunk, "SLIC superpixels compared to state-of-the-art
    superpixel methods", IEEE TPAMI 34(11), 2012.

    Examples
    --------
    >>> from visionnmf.datasets import make_mosaic
    >>> from visionnmf.features import find_superpixels
    >>> find_superpixels(make_mosaic(48, 64, random_state=0).image, 20).labels.shape
    (48, 64)
    """
    height, width = image.shape[:2]
    lab = cv2.cvtColor(np.ascontiguousarray(image, dtype=np.float32), cv2.COLOR_RGB2LAB)
    if height * width <= n_superpixels:
        labels = np.arange(height * width, dtype=np.int32).reshape(height, width)
    else:
        from skimage.segmentation import slic  # region_adjacency alone needs neither scikit-image nor SciPy

        # the blur mixes colours along edges, and these would become superpixels of their own if those are small
        blur = min(1.0, np.sqrt(height * width / n_superpixels) / 12)
        found = slic(image, n_segments=n_superpixels, compactness=compactness, sigma=blur, start_label=0)
        labels = _compact(found)
    labels = _join_flat(labels, lab)
    rows, columns = np.indices(labels.shape, sparse=True)
    centres = np.stack([_means(labels, np.broadcast_to(axis, labels.shape)) for axis in (rows, columns)], axis=1)
    sizes = np.bincount(labels.ravel()).astype(np.float64)
    return Superpixels(labels, sizes, _colours(labels, lab), centres, region_adjacency(labels))


def _compact(labels: NDArray[Any]) -> NDArray[np.int32]:
    """Renumber labels from 0 without gaps."""
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32)


def _means(labels: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean of values over each region."""
    return np.bincount(labels.ravel(), values.ravel()) / np.bincount(labels.ravel())


def _colours(labels: NDArray[Any], lab: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean CIELAB colour of each region, of shape (n, 3)."""
    return np.stack([_means(labels, lab[..., channel]) for channel in range(3)], axis=1)


def _join_flat(labels: NDArray[np.int32], lab: NDArray[Any]) -> NDArray[np.int32]:
    """Return labels in which superpixels that touch and have the same mean colour are one region."""
    edges = region_adjacency(labels)
    colours = _colours(labels, lab)
    same = np.linalg.norm(colours[edges[:, 0]] - colours[edges[:, 1]], axis=1) < FLAT
    if not same.any():
        return labels
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = edges[same]
    graph = coo_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(len(colours),) * 2)
    groups: NDArray[np.int32] = connected_components(graph, directed=False)[1].astype(np.int32)
    return groups[labels]


def region_adjacency(labels: NDArray[Any]) -> NDArray[np.int64]:
    """List the pairs of regions that touch along a pixel's side.

    Parameters
    ----------
    labels : ndarray of int [shape=(height, width), >= 0]
        A label map.

    Returns
    -------
    ndarray of int64 [shape=(m, 2)]
        Each pair once, the smaller label first, in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.features import region_adjacency
    >>> region_adjacency(np.array([[0, 0, 1], [2, 2, 1]])).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    count = int(labels.max()) + 1
    codes = []  # each pair as one number, low * count + high, so that `unique` is fast
    for first, second in ((labels[:, 1:], labels[:, :-1]), (labels[1:], labels[:-1])):
        differ = first != second
        low, high = np.minimum(first, second)[differ], np.maximum(first, second)[differ]
        codes.append(low.astype(np.int64) * count + high)
    return np.stack(np.divmod(np.unique(np.concatenate(codes)), count), axis=1)
