"""The affinity of the MahNMF paper between the pixels or regions of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist


def proximity_affinity(
    features: NDArray[Any], centres: NDArray[Any], *, feature_scale: float = 0.3, distance_scale: float = 0.7
) -> NDArray[np.float64]:
    """Compute the affinity of Shi and Malik by colour and place, as in equation (62) of the MahNMF paper.

    ``exp(-dF^2 / feature_scale^2) exp(-dL^2 / distance_scale^2)`` where dL is at most its median over all pairs, else
    0. dF and dL are the Euclidean distances of features and of places, each divided by its largest.

    Parameters
    ----------
    features : ndarray [shape=(n, d)]
        A feature of each region, such as lightness or CIELAB colour.
    centres : ndarray [shape=(n, 2)]
        The place of each region.
    feature_scale, distance_scale : float, > 0
        The scales; the defaults are the paper's.

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
    affinity: NDArray[np.float64] = np.exp(-((d_feature / feature_scale) ** 2) - (d_place / distance_scale) ** 2)
    # the paper's radius, within which two regions are connected at all
    affinity[d_place > float(np.median(d_place))] = 0
    return affinity
