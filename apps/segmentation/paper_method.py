"""The segmentation method of the MahNMF paper, and the two methods that the paper compares it with.

All three work on a graph of the pixels of a thumbnail, by brightness and place
(:func:`~visionnmf.features.proximity_affinity` with 0.3, 0.7 and the median distance as radius):

=============  =====================================================================================================
"manhattan"    ``D^(-1/2) A D^(-1/2) ~ H^T H`` by symmetric Manhattan NMF with the diagonal as in equation (61), from
               the best of several starts; then k-means of the codes (Guan et al. 2012, section 5.3.2)
"ncut"         recursive normalised cuts: the part with the cheapest cut is divided along the second eigenvector, where
               the cut is cheapest (Shi and Malik 2000)
"spectral"     spectral clustering: k-means of the first eigenvectors (Ng, Jordan and Weiss 2002)
=============  =====================================================================================================

They are here for comparison; :func:`.segment` is better and faster.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.cluster import KMeans, spectral_clustering

from visionnmf import choices
from visionnmf._checks import RandomState, check_choice, check_count, check_random_state
from visionnmf.engine.blocks import sum_rounding
from visionnmf.engine.kernels import manhattan
from visionnmf.engine.starts import spread_symmetric
from visionnmf.features import proximity_affinity, reduce_image

from .pictures import read_picture

Array = NDArray[np.float64]

MOST_PIXELS = 1200  # of the thumbnail; the graph has the square of this many edges
N_STARTS, MAX_ITER, TOL = 3, 50, 1e-3  # not given in the paper
THRESHOLDS = 31  # the number of places at which an eigenvector is cut


class _Cut(NamedTuple):
    """The best cut of a part: its cost, and the pixels on one side."""

    cost: float
    side: NDArray[np.int64]


def paper_segments(
    image: ArrayLike,
    n_segments: int = 5,
    *,
    method: str = "manhattan",
    n_components: int = 5,
    random_state: RandomState = 0,
) -> NDArray[np.uint8]:
    """Divide an image into segments by the method of the MahNMF paper, or one that it is compared with.

    Parameters
    ----------
    image : array-like [shape=(height, width) or (height, width, 1, 3 or 4)]
        As :func:`.segment` takes it. Only its brightness is used, averaged down to at most 1200 pixels.
    n_segments : int, 1 to 100, default=5
        The number of segments; there are fewer where the thumbnail has fewer pixels.
    method : {"manhattan", "ncut", "spectral"}, default="manhattan"
        The paper's own method, recursive normalised cuts, or spectral clustering.
    n_components : int, >= 1, default=5
        The rank of the symmetric NMF.
    random_state : int, RandomState, Generator or None, default=0
        The seed of starts and of k-means.

    Returns
    -------
    ndarray of uint8 [shape=(height, width)]
        The segment of each pixel, numbered from the largest, 0, to the smallest. Borders are those of the thumbnail.

    Raises
    ------
    ParameterError
        If an argument is not allowed.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF", arXiv:1207.3438, 2012, section 5.3.2 and equations (59) to (62).
    J. Shi, J. Malik, "Normalized cuts and image segmentation", IEEE TPAMI 22(8), 2000.
    A. Ng, M. Jordan, Y. Weiss, "On spectral clustering: analysis and an algorithm", NIPS 2001.

    Examples
    --------
    >>> from visionnmf.apps.segmentation import paper_segments
    >>> from visionnmf.datasets import make_mosaic
    >>> paper_segments(make_mosaic(24, 32, random_state=0).image, 3).shape
    (24, 32)
    """
    n_segments = check_count(n_segments, "n_segments", 1, choices.MAX_PAPER_SEGMENTS)
    n_components = check_count(n_components, "n_components")
    check_choice(method, "method", choices.PAPER_METHODS)
    rng = check_random_state(random_state)
    pixels = read_picture(image).pixels
    affinity, shape = pixel_graph(pixels)
    if n_segments >= len(affinity):
        found = np.arange(len(affinity))
    elif n_segments == 1:
        found = np.zeros(len(affinity), int)
    elif method == "manhattan":
        codes = factorise(normalised(affinity), n_components, rng)  # (n_components, n_pixels)
        found = KMeans(n_segments, n_init=10, random_state=rng).fit_predict(codes.T)
    elif method == "ncut":
        found = recursive_cuts(affinity, n_segments)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a graph in several parts
            found = spectral_clustering(affinity, n_clusters=n_segments, random_state=rng)
    small = np.unique(found, return_inverse=True)[1].reshape(shape).astype(np.uint8)
    labels = cv2.resize(small, pixels.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    order = np.argsort(-np.bincount(labels.ravel()), kind="stable")  # largest first; its inverse renumbers the labels
    return np.argsort(order).astype(np.uint8)[labels]


def pixel_graph(pixels: NDArray[Any], most: int = MOST_PIXELS) -> tuple[Array, tuple[int, int]]:
    """Return the affinity (n, n) of the at most `most` pixels of a thumbnail, and the thumbnail's (height, width)."""
    thumbnail = reduce_image(pixels, most)
    shape = thumbnail.shape[:2]
    brightness = cv2.cvtColor(thumbnail, cv2.COLOR_RGB2GRAY).reshape(-1, 1)
    # by default with the scales of the paper
    return proximity_affinity(brightness, np.indices(shape).reshape(2, -1).T), (shape[0], shape[1])


def normalised(affinity: Array) -> Array:
    """Return ``D^(-1/2) A D^(-1/2)``, with the degrees on the diagonal of D."""
    scale = 1 / np.sqrt(affinity.sum(axis=1))
    return affinity * np.outer(scale, scale)


def factorise(S: Array, n_components: int, rng: np.random.RandomState) -> Array:
    """Minimise ``sum |S - H^T H|`` over ``H >= 0`` (n_components, n) by the paper's sweeps over equation (61).

    The paper assumes that ``h_j . h_j >= S_jj``, so it adds ``x^2`` for the diagonal; and its equation (61) counts each
    entry beside the diagonal once instead of twice. This is done as printed. So a sweep may raise the sum; the best H
    of all sweeps from N_STARTS starts is returned.
    """
    weights = np.ones(len(S))
    scratch = np.empty((3, len(S)))  # work space of the sweep
    rounding = sum_rounding(S.dtype)
    best, lowest = np.zeros((n_components, len(S))), np.inf
    for _ in range(N_STARTS):
        H = spread_symmetric(S, weights, n_components, rng)
        before = np.inf
        for _ in range(MAX_ITER):
            # changes H in place; 1.0 includes the diagonal, and the copy is H times the weights, which are all 1
            manhattan.rri_symmetric_sweep(S, H, H.copy(), weights, rounding, scratch, 1.0)
            loss = float(np.abs(S - H.T @ H).sum())
            if loss < lowest:
                best, lowest = H.copy(), loss
            if loss >= before * (1 - TOL):
                break
            before = loss
    return best


def recursive_cuts(affinity: Array, n_segments: int) -> NDArray[np.int64]:
    """Divide a graph (n, n) by normalised cuts until it has `n_segments` parts; return the part of each node."""
    labels = np.zeros(len(affinity), np.int64)
    cuts = {0: _best_cut(affinity, labels == 0)}
    for new in range(1, n_segments):
        part = min(cuts, key=lambda name: cuts[name].cost)
        labels[cuts[part].side] = new
        cuts |= {name: _best_cut(affinity, labels == name) for name in (part, new)}
    return labels


def _best_cut(affinity: Array, inside: NDArray[np.bool_]) -> _Cut:
    """Return the cheapest of the cuts of a part along its second eigenvector."""
    nodes = np.flatnonzero(inside)
    if len(nodes) < 2:
        return _Cut(np.inf, nodes)
    own = affinity[np.ix_(nodes, nodes)]
    degrees = own.sum(axis=1)
    # the second smallest eigenvector of the Laplacian is the second largest of the normalised affinity
    vector = eigh(normalised(own), subset_by_index=[len(own) - 2, len(own) - 2])[1][:, 0] / np.sqrt(degrees)
    best = _Cut(np.inf, nodes[:1])  # is returned if no threshold leaves nodes on both sides
    for threshold in np.quantile(vector, np.linspace(0, 1, THRESHOLDS + 2)[1:-1]):
        side = vector > threshold
        if not side.any() or side.all():
            continue
        between = float(own[side][:, ~side].sum())
        cost = between / float(degrees[side].sum()) + between / float(degrees[~side].sum())
        if cost < best.cost:
            best = _Cut(cost, nodes[side])
    return best
