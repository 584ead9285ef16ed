"""The symmetric model: ``S ~ H.T @ H`` with one factor (MahNMF-SYM: Guan et al. 2012, section 4.5).

===============  =================================================  ================================================
loss             objective                                          sweep
===============  =================================================  ================================================
manhattan        ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|``        weighted medians, code by code, node by node
frobenius        ``sum_{i != j} c_i c_j (S_ij - h_i . h_j)^2 / 2``  coordinate descent on least squares, node by node
manhattan-paper  ``sum_{i, j} c_i c_j |S_ij - h_i . h_j|``          equation 61 of the paper, component by component
===============  =================================================  ================================================

The diagonal is left out of the first two, because it says nothing about how nodes group. A sweep costs O(n^2 r).

Equation 61 counts the entries beside the diagonal once, although each is there twice, and assumes that the model is
above the diagonal. So a sweep of "manhattan-paper" may raise its objective (equation 59).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from visionnmf._typing import Array

from .blocks import blocks, map_blocks, one_blas_thread, rows_per_block, sum_rounding
from .kernels import least_squares as _symmetric_kernels, manhattan as _kernels
from .losses import Loss
from .optimality import optimality
from .problem import Problem
from .stopping import EXACT, Fit, Stopping

PASSES = 4  # over the codes of a node for the Frobenius loss; the right-hand side is the expensive part
NODES = 64  # nodes whose right-hand sides are computed in one product


class _SymmetricLoss(NamedTuple):
    """A loss: ``sweep(S, H, c)`` updates `H` (r, n) in place, ``objective(S, H, c)`` returns the objective."""

    sweep: Callable[[Array, Array, Array], None]
    objective: Callable[[Array, Array, Array], float]


def _manhattan_sweep(S: Array, H: Array, c: Array) -> None:
    """Update all codes `H` (r, n) of `S` (n, n) in place by weighted medians; `c` (n,) are node weights."""
    scratch = np.empty((3, len(S)), S.dtype)
    # the last argument, 0, leaves the diagonal out
    _kernels.rri_symmetric_sweep(S, H, H * c, c, sum_rounding(S.dtype), scratch, 0.0)


def _manhattan_objective(S: Array, H: Array, c: Array) -> float:
    """Return the Manhattan objective ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|``, without the diagonal."""
    scratch = np.empty((3, len(S)), S.dtype)
    return float(_kernels.symmetric_objective(S, H, c, scratch))


def _frobenius_sweep(S: Array, H: Array, c: Array) -> None:
    """Update all codes `H` (r, n) of `S` (n, n) in place; `c` (n,) are node weights."""
    HC = H * c
    G = HC.astype(np.float64) @ H.T.astype(np.float64)
    for first, last in blocks(len(S), NODES):
        B = HC @ S[:, first:last]  # right-hand sides of these nodes
        _symmetric_kernels.symmetric_hals_block(S, H, HC, c, G, B, PASSES, first, last)


def _frobenius_objective(S: Array, H: Array, c: Array) -> float:
    """Return the least-squares objective ``sum_{i != j} c_i c_j (S_ij - h_i . h_j)^2 / 2``, without the diagonal."""
    total = 0.0
    weights = c.astype(np.float64)
    for first, last in blocks(len(S), rows_per_block(len(S))):
        E = S[first:last] - H[:, first:last].T @ H
        E[np.arange(last - first), np.arange(first, last)] = 0
        total += float(weights[first:last] @ ((E * E) @ weights))
    return total / 2


def _paper_sweep(S: Array, H: Array, c: Array) -> None:
    """Minimise equation 61 over one code x after the other, component by component, in place (Guan et al. 2012)."""
    for h in H:
        Z = S - H.T @ H + np.outer(h, h)  # residuals without this component
        for j in range(len(h)):
            weights = np.where(np.arange(len(h)) == j, 0, c)
            # c_j x^2 + sum of c_i |Z_ij - h_i x|: the square stands for |Z_jj - x^2|, because the paper assumes that
            # the model is above the diagonal
            h[j] = _least_of_parabola(h, Z[j], weights, float(c[j]))


def _least_of_parabola(a: Array, z: Array, weights: Array, curvature: float) -> float:
    """Return the x >= 0 that minimises ``curvature x^2 + sum_i weights_i |z_i - a_i x|`` (Theorem 3 of the paper)."""
    used = np.flatnonzero(weights * a > 0)
    points = z[used] / a[used]
    order = np.argsort(points)
    points, jumps = points[order], (weights * a)[used][order]
    after = 2 * np.cumsum(jumps) - jumps.sum()  # the derivative behind each point, without the parabola
    first = int(np.searchsorted(after + 2 * curvature * points, 0))  # the first point behind which it is >= 0
    if first == len(points):
        return 0.0  # all points are negative
    before = after[first] - 2 * jumps[first]
    return max(0.0, float(min(points[first], -before / (2 * curvature))))


def _paper_objective(S: Array, H: Array, c: Array) -> float:
    """Return the Manhattan objective ``sum_{i, j} c_i c_j |S_ij - h_i . h_j|``, h_i column i of `H`, node weights c."""
    weights = c.astype(np.float64)
    return float(weights @ (np.abs(S - H.T @ H) @ weights))


LOSSES = {
    "manhattan": _SymmetricLoss(_manhattan_sweep, _manhattan_objective),
    "frobenius": _SymmetricLoss(_frobenius_sweep, _frobenius_objective),
    "manhattan-paper": _SymmetricLoss(_paper_sweep, _paper_objective),
}


def scale_to_fit(S: Array, H: Array, c: Array) -> None:
    """Multiply a start `H` (r, n) by the number that minimises the Frobenius loss without the diagonal, in place."""
    inner = square = 0.0  # weighted sums of S P and of P^2 without the diagonal, for the model P = H.T @ H
    weights = c.astype(np.float64)
    for first, last in blocks(len(S), rows_per_block(len(S))):
        P = H[:, first:last].T @ H
        P[np.arange(last - first), np.arange(first, last)] = 0
        inner += float(weights[first:last] @ ((S[first:last] * P) @ weights))
        square += float(weights[first:last] @ ((P * P) @ weights))
    if inner > 0 and square > 0:  # the best multiple of P is inner / square, and P is quadratic in H
        H *= H.dtype.type(np.sqrt(inner / square))


def fit_symmetric(S: Array, H: Array, c: Array, *, max_iter: int, tol: float, loss: str = "manhattan") -> Fit:
    """Minimise the loss of ``S - H.T @ H`` over ``H >= 0``, in place from `H` (r, n)."""
    sweep, objective = LOSSES[loss]
    stopping = Stopping(tol, exact=objective(S * S.dtype.type(EXACT), np.zeros_like(H), c) if tol > 0 else 0.0)
    done = stopping.add(objective(S, H, c))  # the first entry of the history is the objective at the start
    while not done and len(stopping.history) <= max_iter:
        sweep(S, H, c)
        done = stopping.add(objective(S, H, c))
    return Fit(len(stopping.history) - 1, stopping.history, stopping.converged, stopping.change)


def fit_starts(
    S: Array, starts: list[Array], c: Array, *, max_iter: int, tol: float, loss: str = "manhattan"
) -> list[Fit]:
    """Run :func:`fit_symmetric` from several starts in threads, updating each in place; return the fits in order."""

    def run(block: tuple[int, int]) -> Fit:
        return fit_symmetric(S, starts[block[0]], c, max_iter=max_iter, tol=tol, loss=loss)

    with one_blas_thread():
        # fits of up to 100 nodes are too short to be worth threads
        return map_blocks(run, blocks(len(starts), 1), parallel=S.size > 10_000)


def symmetric_optimality(S: Array, H: Array, c: Array, *, loss: str) -> float:
    """Return how far `H` (r, n) is from a point where no node's codes can be improved; see :mod:`.optimality`."""
    weights, counted = np.outer(c, c), S.copy()
    if loss != "manhattan-paper":
        np.fill_diagonal(weights, 0)
        np.fill_diagonal(counted, 0)
    # by symmetry the gradient is twice that with respect to one of the two factors
    return optimality(Problem(counted, Loss(loss.removesuffix("-paper")), weights=weights), H, H)
