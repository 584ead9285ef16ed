"""The symmetric model: ``S ~ H.T @ H`` with one factor (MahNMF-SYM: Guan et al. 2012, section 4.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kernels
from ._threads import blocks, map_blocks
from .alternate import Fit

__all__ = ["fit_starts", "fit_symmetric"]

Array = NDArray[Any]


def fit_symmetric(S: Array, H: Array, c: Array, *, max_iter: int, tol: float) -> Fit:
    """Minimise ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|`` over ``H >= 0`` in place, by weighted medians.

    The diagonal is left out: it says nothing about how nodes group. A sweep costs O(n^2 r).

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
    H : ndarray [shape=(n_components, n), >= 0]
        The start; updated.
    c : ndarray [shape=(n,), >= 0]
        Node weights.
    max_iter : int
    tol : float, >= 0
        Stop when a sweep decreases the objective by less than this share of it.

    Returns
    -------
    Fit
    """
    scratch = np.empty((3, S.shape[0]), S.dtype)
    eps = _kernels.sum_rounding(S.dtype)
    HC = H * c
    history = [_kernels.symmetric_objective(S, H, c, scratch)]
    change = np.inf
    converged = False
    for _ in range(max_iter):
        _kernels.rri_symmetric_sweep(S, H, HC, c, eps, scratch)
        history.append(_kernels.symmetric_objective(S, H, c, scratch))
        change = max(0.0, (history[-2] - history[-1]) / history[-2]) if history[-2] > 0 else 0.0
        if change < tol or history[-1] == 0:
            converged = True
            break
    return Fit(len(history) - 1, history, converged, change)


def fit_starts(S: Array, starts: list[Array], c: Array, *, max_iter: int, tol: float) -> list[Fit]:
    """Run :func:`fit_symmetric` from several starts, in threads; each start is updated in place.

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
    starts : list of ndarray [shape=(n_components, n), >= 0]
    c : ndarray [shape=(n,), >= 0]
    max_iter : int
    tol : float, >= 0

    Returns
    -------
    list of Fit
        In the order of the starts; the last entry of a history is the objective that the start ended with.
    """

    def run(block: tuple[int, int]) -> Fit:
        return fit_symmetric(S, starts[block[0]], c, max_iter=max_iter, tol=tol)

    return map_blocks(run, blocks(len(starts), 1), parallel=S.size > 10_000)
