"""The segmentation methods that ``visionnmf segment evaluate`` compares, each at several scales.

A method is called with a picture and yields label maps with their scales: the values of its own parameter, among which
the best one is sought. Nothing else is tuned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .segmenter import segment

__all__ = ["METHODS", "OURS"]

Labels = NDArray[Any]
Scales = Iterator[tuple[float, Labels]]
Method = Callable[[NDArray[Any]], Scales]

OURS = "visionnmf"


def _ours(image: NDArray[Any]) -> Scales:
    result = segment(image)
    for scale in np.linspace(0.02, 0.7, 35).round(4):
        yield float(scale), result.at(scale=float(scale))


def _felzenszwalb(image: NDArray[Any]) -> Scales:
    from skimage.segmentation import felzenszwalb

    for scale in (50, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1300, 1700, 2200):
        yield scale, felzenszwalb(image, scale=scale, sigma=0.8, min_size=50)


def _normalised_cuts(image: NDArray[Any]) -> Scales:
    """Yield thresholds and segmentations by scikit-image's normalised cuts of SLIC superpixels."""
    from skimage.graph import cut_normalized, rag_mean_color
    from skimage.segmentation import slic

    labels = slic(image, n_segments=200, compactness=10, start_label=1)
    for threshold in (1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1):
        graph = rag_mean_color(image, labels, mode="similarity")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield threshold, cut_normalized(labels, graph, thresh=threshold, rng=0)


def _whole(image: NDArray[Any]) -> Scales:
    yield 0, np.zeros(image.shape[:2], np.uint8)


METHODS: dict[str, Method] = {
    OURS: _ours,
    "felzenszwalb": _felzenszwalb,
    "slic+ncut": _normalised_cuts,
    "whole": _whole,
}
"""The methods by name: :func:`.segment`; Felzenszwalb and Huttenlocher 2004; normalised cuts (Shi and Malik 2000) of
200 SLIC superpixels by mean colour; the whole picture as one segment."""
