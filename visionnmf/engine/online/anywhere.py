"""The operations that online methods need, for arrays of NumPy by compiled kernels, and for others on their device.

A method that is written with them and the array API learns from both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf.engine import quadratic, solving
from visionnmf.engine.arrays import factors, fitting
from visionnmf.engine.arrays.namespace import is_not_numpy, namespace_of
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem


def model_of(Wt: Any, H: Any, out: Any) -> Any:
    """Return the model ``Wt.T @ H``, in the array `out` if it is one of NumPy.

    A new array for each pass would cost a tenth of the pass. Other libraries make one, and `out` is not used.
    """
    return namespace_of(H).matmul(Wt.T, H) if is_not_numpy(H) else np.matmul(Wt.T, H, out=out)


def improve(F: Any, gram: Any, right: Any, penalty: Penalties, *, sweeps: int, scale: float = 1.0) -> None:
    """Lower ``<F, gram F> / 2 - <right, F> + scale * penalty(F)`` over `F` (r, n_points), in place.

    `gram` is (r, r), `right` (r, n_points), and `sweeps` the number of passes over the components. On a device the
    penalty may hold a box, l1 and l2 only.
    """
    if is_not_numpy(F):  # `recorded` as a CUDA graph, the sweeps would take longer than in a single call
        factors.Sweeps(penalty, sweeps, recorded=False)(F, gram, right, scale)
    else:
        quadratic.improve(F, gram, right, penalty, sweeps=sweeps, scale=scale)


def solve_codes(problem: Problem, H: Any) -> Any:
    """Return the codes (r, n_samples) of the data for fixed components `H` (r, n), on a device or by NumPy."""
    return (fitting if is_not_numpy(H) else solving).solve_codes(problem, H)
