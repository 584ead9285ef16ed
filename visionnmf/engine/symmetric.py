"""The symmetric model: ``S ~ H.T @ H`` with one factor (MahNMF-SYM: Guan et al. 2012, section 4.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kernels
from .alternate import Callback, Fit
from .solvers.admm import sum_rounding

__all__ = ["fit_symmetric"]

Array = NDArray[Any]


def fit_symmetric(S: Array, H: Array, c: Array, *, max_iter: int, tol: float, callback: Callback | None = None) -> Fit:
    """Minimise ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|`` over ``H >= 0`` in place, by weighted medians.

    The diagonal is left out: it says nothing about how nodes group. A sweep costs O(n^2 r).

    Parameters
    ----------
    S : ndarray [shape=(n, n), >= 0], symmetric
    H : ndarray [shape=(n_components, n), >= 0]
        The start; updated.
    c : ndarray [shape=(n,), > 0]
        Node weights.
    max_iter : int
    tol : float, >= 0
        Stop when a sweep decreases the objective by less than this share of it.
    callback : callable, optional
        As in :func:`.alternate.fit`.

    Returns
    -------
    Fit
    """
    scratch = np.empty((3, S.shape[0]), S.dtype)
    eps = sum_rounding(S.dtype)
    HC = H * c
    history = [_kernels.symmetric_objective(S, H, c, scratch)]
    change = np.inf
    converged = False
    for iteration in range(1, max_iter + 1):
        _kernels.rri_symmetric_sweep(S, H, HC, c, eps, scratch)
        history.append(_kernels.symmetric_objective(S, H, c, scratch))
        change = max(0.0, (history[-2] - history[-1]) / history[-2]) if history[-2] > 0 else 0.0
        stop = callback is not None and callback(iteration, history[-1])
        if stop or change < tol or history[-1] == 0:
            converged = True
            break
    return Fit(len(history) - 1, history, converged, change)
