"""The truncated singular value decomposition, with which projective NMF was compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from visionnmf._checks import check_count

from .data_checks import check_kind


def truncated_svd(X: ArrayLike, n_components: int) -> NDArray[Any]:
    """Return the non-negative approximation t-SVD of the paper of projective NMF.

    Negative entries of a truncated singular value decomposition are set to 0, which usually raises its rank. So the
    ranks up to `n_components` are searched for the one whose result has the highest rank that is not above
    `n_components`. The result is a matrix and not a product of two non-negative factors, so the method is a baseline
    for reconstructions only.

    Parameters
    ----------
    X : array-like [shape=(n_samples, n_features), finite]
        float32 stays float32; everything else is converted to float64.
    n_components : int, >= 1
        The highest rank of the result.

    Returns
    -------
    ndarray [shape=(n_samples, n_features), >= 0]
        Of two ranks with results of the same rank, the higher one is taken.

    Raises
    ------
    ValueError
        If `X` is not a finite matrix or `n_components` not a whole number of at least 1.

    References
    ----------
    Z. Yuan, E. Oja, "Projective nonnegative matrix factorization for image compression and feature extraction",
    SCIA 2005, section 2 (equations 2 and 3).

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.models import truncated_svd
    >>> found = truncated_svd(np.random.default_rng(0).random((6, 5)), 3)
    >>> bool(found.min() >= 0), bool(np.linalg.matrix_rank(found) <= 3)
    (True, True)
    """
    data = check_array(check_kind(X), dtype=[np.float64, np.float32])
    rank = check_count(n_components, "n_components")
    left, values, right = np.linalg.svd(data, full_matrices=False)
    best, highest = np.zeros_like(data), 0
    for r in range(1, min(rank, len(values)) + 1):
        found = np.maximum((left[:, :r] * values[:r]) @ right[:r], 0)
        own = int(np.linalg.matrix_rank(found))
        if highest <= own <= rank:
            best, highest = found, own
    return best
