"""The symmetric model: ``S ~ H.T @ H`` with one factor (MahNMF-SYM: Guan et al. 2012, section 4.5).

=========  =================================================  ======================================================
loss       objective                                          a sweep
=========  =================================================  ======================================================
manhattan  ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|``        weighted medians, code by code
frobenius  ``sum_{i != j} c_i c_j (S_ij - h_i . h_j)^2 / 2``  node by node, coordinate descent on its least squares
=========  =================================================  ======================================================

The diagonal is left out: it says nothing about how nodes group. A sweep costs O(n^2 r).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .alternate import Fit
from .blocks import blocks, map_blocks, one_blas_thread, rows_per_block
from .kernels import medians as _kernels
from .kernels import symmetric as _symmetric_kernels
from .losses import Loss
from .optimality import optimality
from .problem import Problem
from .stopping import EXACT, Stopping

__all__ = ["LOSSES", "fit_starts", "fit_symmetric", "scale_to_fit", "symmetric_optimality"]

Array = NDArray[Any]

PASSES = 4  # of the Frobenius loss over the codes of a node: its right-hand side is what costs
NODES = 64  # whose right-hand sides are one product


class _Loss(NamedTuple):
    """``sweep(S, H, c)`` improves the factor in place; ``objective(S, H, c)``."""

    sweep: Callable[[Array, Array, Array], None]
    objective: Callable[[Array, Array, Array], float]


def _manhattan_sweep(S: Array, H: Array, c: Array) -> None:
    scratch = np.empty((3, len(S)), S.dtype)
    _kernels.rri_symmetric_sweep(S, H, H * c, c, _kernels.sum_rounding(S.dtype), scratch, 0.0)


def _manhattan_objective(S: Array, H: Array, c: Array) -> float:
    return float(_kernels.symmetric_objective(S, H, c, np.empty((3, len(S)), S.dtype)))


def _frobenius_sweep(S: Array, H: Array, c: Array) -> None:
    HC = H * c
    G = HC.astype(np.float64) @ H.T.astype(np.float64)
    for first, last in blocks(len(S), NODES):
        B = HC @ S[:, first:last]
        _symmetric_kernels.symmetric_hals_block(S, H, HC, c, G, B, PASSES, first, last)


def _frobenius_objective(S: Array, H: Array, c: Array) -> float:
    total = 0.0
    weights = c.astype(np.float64)
    for first, last in blocks(len(S), rows_per_block(len(S))):
        E = S[first:last] - H[:, first:last].T @ H
        E[np.arange(last - first), np.arange(first, last)] = 0
        total += float(weights[first:last] @ ((E * E) @ weights))
    return total / 2


LOSSES = {
    "manhattan": _Loss(_manhattan_sweep, _manhattan_objective),
    "frobenius": _Loss(_frobenius_sweep, _frobenius_objective),
}


def scale_to_fit(S: Array, H: Array, c: Array) -> None:
    """Multiply a start by the number for which the Frobenius loss is least, in place.

    The columns of an affinity whose diagonal varies much make starts that are far too large, and coordinate descent
    from there ends in poor minima (docs/decisions/segmentation.md).

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
    H : ndarray [shape=(n_components, n), >= 0]
    c : ndarray [shape=(n,), >= 0]
    """
    inner = square = 0.0
    weights = c.astype(np.float64)
    for first, last in blocks(len(S), rows_per_block(len(S))):
        P = H[:, first:last].T @ H
        P[np.arange(last - first), np.arange(first, last)] = 0
        inner += float(weights[first:last] @ ((S[first:last] * P) @ weights))
        square += float(weights[first:last] @ ((P * P) @ weights))
    if inner > 0 and square > 0:
        H *= H.dtype.type(np.sqrt(inner / square))


def fit_symmetric(S: Array, H: Array, c: Array, *, max_iter: int, tol: float, loss: str = "manhattan") -> Fit:
    """Minimise the loss of ``S - H.T @ H`` over ``H >= 0`` in place, without the diagonal.

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
    H : ndarray [shape=(n_components, n), >= 0]
        The start; updated.
    c : ndarray [shape=(n,), >= 0]
        Node weights.
    max_iter : int
    tol : float, >= 0
        See :mod:`.stopping`.
    loss : str, default="manhattan"
        A key of :data:`LOSSES`.

    Returns
    -------
    Fit
    """
    sweep, objective = LOSSES[loss]
    stopping = Stopping(tol, exact=_exact_objective(S, H, c, loss) if tol > 0 else 0.0)
    done = stopping.add(objective(S, H, c))
    while not done and len(stopping.history) <= max_iter:
        sweep(S, H, c)
        done = stopping.add(objective(S, H, c))
    return Fit(len(stopping.history) - 1, stopping.history, stopping.converged, stopping.change)


def _exact_objective(S: Array, H: Array, c: Array, loss: str) -> float:
    """Return the loss of residuals of a hundred-thousandth of the affinity."""
    return LOSSES[loss].objective(S * S.dtype.type(EXACT), np.zeros_like(H), c)


def fit_starts(
    S: Array, starts: list[Array], c: Array, *, max_iter: int, tol: float, loss: str = "manhattan"
) -> list[Fit]:
    """Run :func:`fit_symmetric` from several starts, in threads; each start is updated in place.

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
    starts : list of ndarray [shape=(n_components, n), >= 0]
    c : ndarray [shape=(n,), >= 0]
    max_iter : int
    tol : float, >= 0
    loss : str, default="manhattan"
        A key of :data:`LOSSES`.

    Returns
    -------
    list of Fit
        In the order of the starts; the last entry of a history is the objective that the start ended with.
    """

    def run(block: tuple[int, int]) -> Fit:
        return fit_symmetric(S, starts[block[0]], c, max_iter=max_iter, tol=tol, loss=loss)

    with one_blas_thread():
        return map_blocks(run, blocks(len(starts), 1), parallel=S.size > 10_000)


def symmetric_optimality(S: Array, H: Array, c: Array, *, loss: str) -> float:
    """Measure how far a factor is from a point where no node's codes can be improved; see :mod:`.optimality`.

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
    H : ndarray [shape=(n_components, n), >= 0]
    c : ndarray [shape=(n,), >= 0]
    loss : str
        A key of :data:`LOSSES`.

    Returns
    -------
    float >= 0
    """
    weights = np.outer(c, c)
    np.fill_diagonal(weights, 0)
    off_diagonal = S.copy()
    np.fill_diagonal(off_diagonal, 0)
    # by symmetry the gradient is twice that by either factor
    return optimality(Problem(off_diagonal, Loss(loss), weights=weights), H, H)
