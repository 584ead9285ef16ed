"""Conservative learning: an autoencoder that changes as little as possible to reproduce each sample.

The method is that of V. Elser's notes "Online Non-negative Matrix Factorization" for data of unit norm. An encoder E
gives the codes ``y = max(0, E x)``, and a decoder ``D >= 0`` the reconstruction ``D y``; the decoder is stored
transposed, as components H. For each sample, the method seeks the smallest change in ``|dE|^2 + |dD|^2 / w`` that makes
the codes non-negative and the reconstruction exact, to first order, with one iteration of conjugate gradients.

The notes leave two details open (``docs/decisions/streams.md``). Here the multiplier of the codes, ``xi = D^T eta``,
uses the decoder before its update, and the decoder is clipped at 0 after each sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf._typing import Array
from visionnmf.engine.blocks import blocks, rows_per_block
from visionnmf.engine.kernels.online import conservative_pass


def start(n_components: int, n_features: int, rng: np.random.RandomState, dtype: Any) -> tuple[Array, Array]:
    """Return the encoder, uniform in [-1, 1], and zero components before the first sample, both (r, n)."""
    shape = (n_components, n_features)
    return rng.uniform(-1, 1, shape).astype(dtype), np.zeros(shape, dtype)


def learn(X: Any, encoder: Array, components: Array, weight: float) -> Array:
    """Learn samples in order, in place; return the norm of ``x - D y`` of each before it was learnt, (n_samples,)."""
    dtype, w = encoder.dtype, encoder.dtype.type(weight)
    (n_components, n_features), errors = encoder.shape, np.empty(X.shape[0])
    # working memory of the kernel: the scaled sample and what the model leaves of it; the codes and their changes
    x, residual = np.empty(n_features, dtype), np.empty(n_features, dtype)
    y, change, pull = (np.empty(n_components, dtype) for _ in range(3))
    # a few rows at a time, because sparse ones are made dense
    for rows in (slice(*block) for block in blocks(X.shape[0], rows_per_block(n_features))):
        samples = X[rows].toarray() if sp.issparse(X) else X[rows]
        samples = np.array(samples, dtype, order="C")  # a memory map would recompile the kernel
        conservative_pass(samples, encoder, components, w, x, residual, y, change, pull, errors[rows])
    return errors


def encode(X: Any, encoder: Array) -> Array:
    """Return the codes ``max(0, X E^T)`` (n_samples, r) of samples that are not scaled to unit norm."""
    codes: Array = np.asarray(X @ encoder.T)
    return np.maximum(codes, 0, out=codes)
