"""Conservative learning: an autoencoder that changes as little as it can to reproduce each sample.

V. Elser's notes "Online Non-negative Matrix Factorization" state it for data of unit norm. An encoder ``E`` gives the
codes ``y = max(0, E x)``, a decoder ``D >= 0`` the reconstruction ``D y``; here the decoder is held transposed, as
components ``H``. For each sample the least changes are sought, in ``|dE|^2 + |dD|^2 / w``, with which its codes are
non-negative and its reconstruction exact: to first order, and by a single iteration of conjugate gradients.

Two readings were tried, see ``docs/decisions/streams.md``: the multiplier of the codes, ``xi = D^T eta``, is taken with
the decoder before its update, and the decoder is made non-negative after each sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf.engine.blocks import blocks, rows_per_block
from visionnmf.engine.kernels.conservative import conservative_pass

__all__ = ["encode", "learn", "start"]

Array = NDArray[Any]


def start(n_components: int, n_features: int, rng: np.random.RandomState, dtype: Any) -> tuple[Array, Array]:
    """Return the encoder and components before the first sample.

    Parameters
    ----------
    n_components, n_features : int
    rng : RandomState
    dtype : dtype

    Returns
    -------
    encoder : ndarray [shape=(n_components, n_features), -1 to 1]
        Uniform; it sets the scale of the codes.
    components : ndarray [shape=(n_components, n_features)]
        Zeros.
    """
    shape = (n_components, n_features)
    return rng.uniform(-1, 1, shape).astype(dtype), np.zeros(shape, dtype)


def learn(X: Any, encoder: Array, components: Array, weight: float) -> Array:
    """Learn samples in their order, in place.

    Parameters
    ----------
    X : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
        Samples are scaled to unit norm; one of zeros changes nothing.
    encoder : ndarray [shape=(n_components, n_features)]
    components : ndarray [shape=(n_components, n_features), >= 0]
    weight : float, > 0
        The notes' ``w``.

    Returns
    -------
    ndarray [shape=(n_samples,), >= 0]
        For each sample, the norm of ``x - D y`` before it was learnt, ``x`` having unit norm.
    """
    dtype, w = encoder.dtype, encoder.dtype.type(weight)
    (n_components, n_features), errors = encoder.shape, np.empty(X.shape[0])
    x, residual = np.empty(n_features, dtype), np.empty(n_features, dtype)
    y, change, pull = (np.empty(n_components, dtype) for _ in range(3))
    for rows in (slice(*block) for block in blocks(X.shape[0], rows_per_block(n_features))):
        samples = X[rows].toarray() if sp.issparse(X) else X[rows]
        samples = np.array(samples, dtype, order="C")  # also of a memory map, for which kernels would compile anew
        conservative_pass(samples, encoder, components, w, x, residual, y, change, pull, errors[rows])
    return errors


def encode(X: Any, encoder: Array) -> Array:
    """Return codes ``max(0, X E^T)``; they grow with the samples, as the encoder is linear.

    Parameters
    ----------
    X : ndarray or csr_array [shape=(n_samples, n_features)]
    encoder : ndarray [shape=(n_components, n_features)]

    Returns
    -------
    ndarray [shape=(n_samples, n_components), >= 0]
    """
    codes: Array = np.asarray(X @ encoder.T)
    return np.maximum(codes, 0, out=codes)
