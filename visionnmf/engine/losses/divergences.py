"""The beta-divergences: Kullback-Leibler, Itakura-Saito, and the family with any exponent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import divergence
from visionnmf.engine.kernels import admm as _admm_kernels

from .record import Proximal, Record, SparseForm

__all__ = ["RECORDS"]

Array = NDArray[Any]


def _derivative(X: Array, P: Array, M: Any, beta: float, tiny: float) -> tuple[Array, Array]:
    # the same floor as in the loss; a smaller model counts as 0
    """Return the derivative of a beta-divergence with respect to each model entry, and the size it is compared with.

    The derivative is ``M P^(beta - 1) (1 - X / P)`` and the size its positive part ``M P^(beta - 1)``.
    """
    P = np.maximum(P, np.maximum(1e-7 * X.mean(axis=1, keepdims=True), 1e-30))
    size = M * P ** (beta - 1)
    return size * (1 - X / P), size


def _stored_kullback_leibler(x: Array, p: Array, floor: Array) -> float:
    """Return the Kullback-Leibler divergence summed over stored entries `x` with model `p`, with 0 log 0 = 0."""
    positive = x > 0
    ratio = x[positive] / np.maximum(p, floor)[positive]
    return float((p - x).sum() + np.dot(x[positive], np.log(ratio)))


RECORDS = (
    Record(
        name="kullback-leibler",
        formula="x log(x / p) - x + p",
        noise="counts (Poisson noise)",
        parameter=None,
        degree=1,
        beta=1.0,
        kink=0.0,
        rows=divergence.kullback_leibler_rows,
        derivative=lambda X, P, M, parameter, tiny: _derivative(X, P, M, 1, tiny),
        proximal=Proximal(_admm_kernels.kullback_leibler_pass, valued=False, slope=lambda size, n, parameter: 1.0),
        sparse=SparseForm(
            value=_stored_kullback_leibler,
            squared=False,
            deviation=lambda x, p, floor, weight: (1 - weight) - x / np.maximum(p, floor),
            size=np.ones_like,
            weighted=False,
        ),
        codes="ccd",
    ),
    Record(
        name="itakura-saito",
        formula="x / p - log(x / p) - 1",
        noise="multiplicative noise, such as power spectra; `X` must be positive",
        parameter=None,
        degree=0,
        beta=0.0,
        kink=0.0,
        rows=divergence.itakura_saito_rows,
        derivative=lambda X, P, M, parameter, tiny: _derivative(X, P, M, 0, tiny),
        proximal=None,
        sparse=None,
        codes="sbcd",
    ),
    Record(
        name="beta",
        formula="x^b / (b (b - 1)) + p^b / b - x p^(b - 1) / (b - 1)",
        noise="between these, by its exponent: 2 is Frobenius, 1 Kullback-Leibler, 0 Itakura-Saito",
        parameter=None,
        degree=None,
        beta="parameter",
        kink=0.0,
        rows=divergence.beta_rows,
        derivative=_derivative,
        proximal=None,
        sparse=None,
        codes="sbcd",
    ),
)
