"""Projections and proxes of non-negative blocks: simplex, l1 ball, l1,2 and l1,inf balls, block soft threshold.

All except the l1,2 ones use one primitive, the *level* of a vector: the number t for which the parts above it have a
given sum, ``sum_i max(v_i - t, 0) = radius`` (Duchi et al. 2008). The projections either clip at the level or keep only
the part above it.

A block is ``(n_rows, n)``. The groups of a factor are the columns of a view, and its rows are the components.

References
----------
J. Duchi, S. Shalev-Shwartz, Y. Singer, T. Chandra, "Efficient projections onto the l1-ball for learning in high
dimensions", ICML 2008.
E. van den Berg, M. Schmidt, M. Friedlander, K. Murphy, "Group sparsity via linear-time projection", UBC TR-2008-09.
A. Quattoni, X. Carreras, M. Collins, T. Darrell, "An efficient projection for l1,inf regularization", ICML 2009.
"""

from __future__ import annotations

import numpy as np

from visionnmf._typing import Array

from .blocks import BLOCK_ELEMENTS, blocks, map_blocks
from .kernels import penalties as _penalty_kernels

NEWTON_STEPS = 100  # maximum number; the method is monotone and finite and needs about ten


def _levels(V: Array, radius: float | Array) -> tuple[Array, Array]:
    """Return for each row v of `V` its top and the depth below it of the t with ``sum max(v - t, 0) = radius``."""
    tops, depths = np.empty((2, len(V)), V.dtype)
    radii = np.array(np.broadcast_to(radius, len(V)), V.dtype)
    _penalty_kernels.row_levels(np.ascontiguousarray(V), radii, tops, depths)
    return tops[:, None], depths[:, None]


def project_simplex(V: Array, radius: float = 1.0) -> Array:
    """Project each row of `V` onto the simplex ``x >= 0, sum x = radius`` (Duchi et al. 2008, Figure 1)."""
    top, depth = _levels(V, radius)
    # relative to the top, because the level itself would be rounded at the magnitude of V
    above = np.maximum((V - top) + depth, 0)
    return np.asarray(above * (V.dtype.type(radius) / above.sum(axis=1, keepdims=True)))


def project_simplex_columns(F: Array) -> None:
    """Project the columns of the C-contiguous `F` onto the unit simplex, in place."""

    def columns(block: tuple[int, int]) -> None:
        _penalty_kernels.simplex_columns(F, *block)

    size = 4 * _penalty_kernels.TILE  # whole tiles of the kernel
    map_blocks(columns, blocks(F.shape[1], size), parallel=F.size > BLOCK_ELEMENTS)


def project_l1_ball(V: Array, radius: float) -> Array:
    """Project each row of `V` >= 0 onto ``sum x <= radius`` (Duchi et al. 2008); rows inside stay as they are."""
    X = V.copy()
    if radius <= 0:
        X[:] = 0
        return X
    outside = V.sum(axis=1, dtype=np.float64) > radius
    X[outside] = project_simplex(V[outside], radius)
    return X


def project_l1_2_ball(V: Array, radius: float) -> Array:
    """Project `V` >= 0 onto ``sum_k |x_k|_2 <= radius``, k its rows, by their norms (van den Berg et al. 2008)."""
    norms = _norms(V)  # (n_rows,)
    shares = project_l1_ball(norms[None, :], radius)[0]
    return np.asarray(V * (shares / np.where(norms > 0, norms, 1)).astype(V.dtype)[:, None])


def project_l1_inf_ball(V: Array, radius: float) -> Array:
    """Project a block `V` >= 0 (n_rows, n) onto ``sum_k max_i x_ki <= radius``, k its rows (Quattoni et al. 2009)."""
    # Each row is clipped at a level so that all rows that stay nonzero lose the same sum theta. The sum of the levels
    # is convex and piecewise linear in theta; Newton's method from the left finds where it equals `radius`.
    if radius <= 0:
        return np.zeros_like(V)
    if V.max(axis=1).sum(dtype=np.float64) <= radius:
        return V.copy()
    falling = -np.sort(-V, axis=1).astype(np.float64)  # each row in descending order
    counts = np.arange(1, V.shape[1] + 1)
    sums = np.cumsum(falling, axis=1)
    # lost[k, i]: the sum that row k loses when its level is lowered to entry i + 1 of that order (to 0 for the last)
    lost = sums - counts * np.column_stack([falling[:, 1:], np.zeros(len(V))])
    rows = np.arange(len(V))
    theta = 0.0
    for _ in range(NEWTON_STEPS):
        # a row's level is piecewise linear in theta; on this piece its entries 0..piece are above the level
        piece = (lost <= theta).sum(axis=1)
        alive = piece < V.shape[1]  # the other rows have become zero
        held = np.minimum(piece, V.shape[1] - 1)  # a valid index also for those
        levels = np.where(alive, (sums[rows, held] - theta) / counts[held], 0)
        # each level of a row that is not zero falls by 1 / counts as theta rises by 1
        step = (levels.sum() - radius) / max((alive / counts[held]).sum(), np.finfo(np.float64).tiny)
        if not step > np.finfo(np.float64).eps * theta:
            break
        theta += step
    return np.minimum(V, levels.astype(V.dtype)[:, None])


def shrink_2(V: Array, threshold: float | Array) -> Array:
    """Shorten each row of `V` >= 0 by its threshold, at most to 0: the prox of ``sum_k threshold_k |x_k|_2``."""
    norms = _norms(V)  # (n_rows,)
    scales = np.maximum(1 - threshold / np.where(norms > 0, norms, np.inf), 0)
    return np.asarray(V * np.where(norms > 0, scales, 0).astype(V.dtype)[:, None])


def shrink_inf(V: Array, threshold: float | Array) -> Array:
    """Clip the peaks of each row of `V` >= 0: the prox of ``sum_k threshold_k max_i x_ki``."""
    # clip at the level, above which the parts of a row sum to its threshold
    top, depth = _levels(V, threshold)
    return np.minimum(V, np.maximum(top - depth, 0))


def _norms(V: Array) -> Array:
    """Return the Euclidean norm of each row of `V` (n_rows, n) in double precision, as an array (n_rows,)."""
    return np.sqrt(np.einsum("ij,ij->i", V, V, dtype=np.float64))
