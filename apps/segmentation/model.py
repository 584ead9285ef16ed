"""Image segmentation by symmetric Manhattan NMF of a superpixel affinity.

Superpixels with their sizes as weights, distances along paths over them, a diffused affinity, the symmetric model from
several starts, k-means of its codes, labels at full resolution: MahNMF's section 5.3.2 (Guan et al. 2012), made to work
on whole photographs. ``docs/segmentation.md`` is the guide.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from visionnmf import choices
from visionnmf._checks import RandomState, check_count, check_seed
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.starts import spread_symmetric
from visionnmf.engine.symmetric import fit_starts
from visionnmf.exceptions import ParameterError
from visionnmf.features import (
    check_image,
    diffuse_affinity,
    find_superpixels,
    geodesic_affinity,
    geodesic_distances,
    reduce_image,
)
from visionnmf.features.superpixels import Superpixels

__all__ = ["SegmentationResult", "region_affinity", "segment"]

# The image is reduced to this many pixels before superpixels are sought.
WORKING_PIXELS = 2**18
MAX_SEGMENTS = 1000
MAX_COMPONENTS = 100
MAX_SUPERPIXELS = 5000

# Chosen on the first 20 images (by number) of the benchmark; docs/segmentation.md has the figures.
BLOCKS_A_COMPONENT = 0.7
N_STARTS = 4
MAX_ITER = 50
TOL = 1e-3


@dataclass(frozen=True)
class SegmentationResult:
    """What :func:`segment` finds.

    Attributes
    ----------
    labels : ndarray of uint8 or uint16 [shape=(height, width)]
        The segment of each pixel, 0 to K - 1, from the largest segment to the smallest. K is at most `n_segments`;
        uint16 only when K > 256.
    sizes : ndarray of int64 [shape=(K,)]
        Pixels of each segment.
    n_superpixels : int
        Superpixels that the model saw. At most this many segments are possible.
    objective : float
        The model's ``sum_{i != j} c_i c_j |A_ij - h_i . h_j|``, as a share of its value at H = 0: 0 is a perfect fit.
    objectives : ndarray of float64 [shape=(n_starts,)]
        The objective that each start ended with; `objective` is the lowest. Empty where no model was needed.
    codes : ndarray of float64 [shape=(n_superpixels, n_components), >= 0]
        How far each superpixel belongs to each component of the model.
    superpixels : ndarray of int32 [shape=(working_height, working_width)]
        The superpixel of each pixel of the (reduced) image that was worked on.
    seconds : float
        Time it took.
    """

    labels: NDArray[Any]
    sizes: NDArray[np.int64]
    n_superpixels: int
    objective: float
    objectives: NDArray[np.float64]
    codes: NDArray[np.float64]
    superpixels: NDArray[np.int32]
    seconds: float


def segment(
    image: ArrayLike,
    n_segments: int = choices.SEGMENTS,
    *,
    n_components: int = choices.SEGMENT_COMPONENTS,
    n_superpixels: int = choices.SUPERPIXELS,
    random_state: RandomState = choices.RANDOM_STATE,
) -> SegmentationResult:
    """Divide an image into segments.

    Parameters
    ----------
    image : array-like [shape=(height, width) or (height, width, 1, 3 or 4)]
        Grey, RGB or RGBA (blended onto white); uint8, uint16, or float in [0, 1].
    n_segments : int, 1 to 1000, default=5
        Segments wanted. Fewer come back where there is no more to tell apart, as in a flat image.
    n_components : int, 1 to 100, default=5
        Components of the symmetric model: how many parts it sees. The segments are clusters of its codes.
    n_superpixels : int, 2 to 5000, default=500
        Superpixels, about. More follow fine structure better; time grows with their square, from 2000 on faster.
    random_state : int, RandomState, Generator or None, default=0
        The same image and int, 0 to 2**32 - 1, give the same labels, for any number of threads.

    Returns
    -------
    SegmentationResult
        Labels of the size of `image`, and how they were found.

    Raises
    ------
    ParameterError
        If an argument is out of its range, more segments than superpixels are wanted, or `image` has another shape or
        number type, is empty, or holds NaN, infinity or floats outside [0, 1].
    """
    begin = time.perf_counter()
    n_segments = check_count(n_segments, "n_segments", 1, MAX_SEGMENTS)
    n_components = check_count(n_components, "n_components", 1, MAX_COMPONENTS)
    n_superpixels = check_count(n_superpixels, "n_superpixels", 2, MAX_SUPERPIXELS)
    seed = check_seed(random_state)
    if n_segments > n_superpixels:
        raise ParameterError(
            f"n_segments must be at most n_superpixels, {n_superpixels}; got {n_segments}; ask for fewer segments or "
            "more superpixels"
        )
    pixels = check_image(image)
    # one thread for BLAS and OpenMP: sums do not depend on the machine, and the starts are the parallelism
    with one_blas_thread(), threadpool_limits(1, user_api="openmp"):
        regions = find_superpixels(reduce_image(pixels, WORKING_PIXELS), n_superpixels)
        if len(regions.sizes) <= n_segments:
            clusters = np.arange(len(regions.sizes))
            codes, objectives = np.eye(len(clusters)), np.empty(0)
        else:
            codes, objectives, affinity = _factorise(regions, n_components, seed)
            clusters = _cluster(codes, affinity, regions.sizes, n_segments, seed)
    labels, sizes = _largest_first(_enlarge(clusters[regions.labels], pixels.shape[:2]))
    return SegmentationResult(
        labels=labels,
        sizes=sizes,
        n_superpixels=len(regions.sizes),
        objective=float(objectives.min()) if objectives.size else 0.0,
        objectives=objectives,
        codes=codes,
        superpixels=regions.labels,
        seconds=time.perf_counter() - begin,
    )


def region_affinity(regions: Superpixels, n_components: int) -> NDArray[np.float64]:
    """Compute the affinity that the model factorises.

    Parameters
    ----------
    regions : Superpixels
    n_components : int, >= 1
        Components of the model.

    Returns
    -------
    ndarray of float64 [shape=(n, n), >= 0], symmetric
        Affinity of pairs of pixels, one of region i, the other of region j.
    """
    distances = geodesic_distances(regions.colours, regions.edges)
    affinity = geodesic_affinity(distances, regions.sizes)
    return diffuse_affinity(affinity, regions.sizes, n_blocks=max(1.5, BLOCKS_A_COMPONENT * n_components))


def _factorise(
    regions: Superpixels, n_components: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the codes (n, n_components) of the best start, the objective of each start, and the affinity."""
    affinity = region_affinity(regions, n_components)
    weights = regions.sizes / regions.sizes.mean()
    starts = [
        spread_symmetric(affinity, weights, n_components, np.random.default_rng([seed, i])) for i in range(N_STARTS)
    ]

    fits = fit_starts(affinity, starts, weights, max_iter=MAX_ITER, tol=TOL)
    objectives = np.array([found.history[-1] for found in fits])
    nothing = weights @ affinity @ weights - weights**2 @ affinity.diagonal()
    return starts[int(objectives.argmin())].T, objectives / nothing, affinity


def _cluster(
    codes: NDArray[np.float64],
    affinity: NDArray[np.float64],
    sizes: NDArray[np.float64],
    n_segments: int,
    seed: int,
) -> NDArray[np.intp]:
    """Group the codes by k-means of their directions; a node without a code goes with those it is most alike."""
    norms = np.linalg.norm(codes, axis=1)
    coded = norms > 1e-6 * norms.max()
    directions = codes[coded] / norms[coded, np.newaxis]
    distinct = len(np.unique(directions.round(6), axis=0))
    model = KMeans(min(n_segments, distinct), n_init=10, random_state=seed)
    found = model.fit(directions, sample_weight=sizes[coded]).labels_
    votes = np.stack([affinity[:, coded] @ (sizes[coded] * (found == k)) for k in range(model.n_clusters)], axis=1)
    clusters: NDArray[np.intp] = votes.argmax(axis=1)
    clusters[coded] = found
    return clusters


def _enlarge(labels: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.intp]:
    """Bring labels to a larger size with smooth borders: the label whose interpolated area is largest wins."""
    if labels.shape == shape:
        return labels
    best = np.full(shape, -1, np.float32)
    enlarged = np.zeros(shape, np.intp)
    for label in range(int(labels.max()) + 1):
        share = cv2.resize((labels == label).astype(np.float32), shape[::-1], interpolation=cv2.INTER_LINEAR)
        closer = share > best
        best[closer] = share[closer]
        enlarged[closer] = label
    return enlarged


def _largest_first(labels: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Name the segments by size, the largest 0; of equal ones the first in reading order comes first."""
    names, first, counts = np.unique(labels, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    new = np.zeros(int(names.max()) + 1, np.uint8 if len(names) <= 256 else np.uint16)
    new[names[order]] = np.arange(len(names))
    return new[labels], counts[order].astype(np.int64)
