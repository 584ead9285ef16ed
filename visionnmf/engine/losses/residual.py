"""Losses of the residual ``X - P``: Manhattan, Frobenius, elastic net, l21 and Huber."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.kernels import admm as _admm_kernels

from .record import ZERO, Parameter, Proximal, Record, SparseForm

__all__ = ["RECORDS"]

Array = NDArray[Any]


# --- values: ``rows(X, P, M, parameter, start, stop, out)``; too rarely called to be worth a compiled kernel ----------


def _manhattan_rows(X: Array, P: Array, M: Any, parameter: float, start: int, stop: int, out: Array) -> None:
    """Write ``sum m |x - p|`` of each row."""
    out[start:stop] = _sums(np.abs(X[start:stop] - P), M, start)


def _frobenius_rows(X: Array, P: Array, M: Any, parameter: float, start: int, stop: int, out: Array) -> None:
    """Write ``sum m (x - p)^2 / 2`` of each row."""
    out[start:stop] = _sums(np.square(X[start:stop] - P), M, start)
    out[start:stop] /= 2


def _l21_rows(X: Array, P: Array, M: Any, parameter: float, start: int, stop: int, out: Array) -> None:
    """Write ``sqrt(sum m (x - p)^2)`` of each row."""
    out[start:stop] = _sums(np.square(X[start:stop] - P), M, start)
    np.sqrt(out[start:stop], out=out[start:stop])


def _huber_rows(X: Array, P: Array, M: Any, delta: float, start: int, stop: int, out: Array) -> None:
    """Write the weighted Huber loss of each row: ``s (|e| - s / 2)`` with ``s = min(|e|, delta)``."""
    sizes = np.abs(X[start:stop] - P)
    inner = np.minimum(sizes, X.dtype.type(delta))
    sizes -= inner / 2
    sizes *= inner
    out[start:stop] = _sums(sizes, M, start)


def _elastic_net_rows(X: Array, P: Array, M: Any, alpha: float, start: int, stop: int, out: Array) -> None:
    """Write ``sum m (|e| + alpha / 2 e^2)`` of each row."""
    sizes = np.abs(X[start:stop] - P)
    sizes += X.dtype.type(alpha / 2) * sizes * sizes
    out[start:stop] = _sums(sizes, M, start)


def _sums(values: Array, M: Any, start: int) -> Array:
    """Return the weighted sum of each row. NumPy sums pairwise, so float32 stays accurate in long rows."""
    if M is not None:
        values *= M[start : start + len(values)]
    return np.asarray(values.sum(axis=1))


# --- derivatives with respect to the model, and their sizes at the model 0 --------------------------------------------


def _manhattan(X: Array, P: Array, M: Any, parameter: float, tiny: float) -> tuple[Array, Array]:
    return _elastic_net(X, P, M, 0.0, tiny)


def _elastic_net(X: Array, P: Array, M: Any, alpha: float, tiny: float) -> tuple[Array, Array]:
    E = P - X
    return M * (np.where(np.abs(E) <= tiny, 0.0, np.sign(E)) + alpha * E), M * (1 + alpha * X)


def _frobenius(X: Array, P: Array, M: Any, parameter: float, tiny: float) -> tuple[Array, Array]:
    return M * (P - X), M * X


def _huber(X: Array, P: Array, M: Any, delta: float, tiny: float) -> tuple[Array, Array]:
    return M * np.clip(P - X, -delta, delta), M * np.minimum(X, delta)


def _l21(X: Array, P: Array, M: Any, parameter: float, tiny: float) -> tuple[Array, Array]:
    sizes = np.sqrt((M * X * X).sum(axis=1, keepdims=True))

    def derivative(E: Array) -> Array:
        norms = np.sqrt((M * E * E).sum(axis=1, keepdims=True))
        # use the subgradient 0 for rows that the model fits exactly
        return np.asarray(M * E / np.where(norms > ZERO * sizes, norms, np.inf))

    return derivative(P - X), derivative(X)


# --- the records ------------------------------------------------------------------------------------------------------

RECORDS = (
    Record(
        name="manhattan",
        formula="|x - p|",
        noise="outlying entries: occlusion, dead pixels, moving objects; Laplace noise",
        parameter=None,
        degree=1,
        beta=None,
        kink=1.0,
        rows=_manhattan_rows,
        derivative=_manhattan,
        proximal=Proximal(_admm_kernels.manhattan_pass, valued=True, slope=lambda size, n, parameter: 1.0),
        sparse=SparseForm(
            value=lambda x, p, floor: float(np.abs(x - p).sum()),
            squared=False,
            deviation=lambda x, p, floor, weight: np.sign(p - x) - weight,
            size=np.ones_like,
            weighted=True,
        ),
        codes="admm",
    ),
    Record(
        name="frobenius",
        formula="(x - p)^2 / 2",
        noise="Gaussian noise of equal variance, no outliers",
        parameter=None,
        degree=2,
        beta=2.0,
        kink=0.0,
        rows=_frobenius_rows,
        derivative=_frobenius,
        proximal=None,
        sparse=SparseForm(
            value=lambda x, p, floor: float(np.square(x - p).sum()) / 2,
            squared=True,
            deviation=lambda x, p, floor, weight: (1 - weight) * p - x,
            size=np.asarray,
            weighted=False,
        ),
        codes="hals",
    ),
    Record(
        name="l21",
        formula="sqrt(sum_j (x_j - p_j)^2) of a row",
        noise="outlying samples: whole rows that do not belong",
        parameter=None,
        degree=1,
        weight_degree=0.5,
        beta=None,
        kink=0.0,
        rows=_l21_rows,
        derivative=_l21,
        proximal=Proximal(_admm_kernels.l21_pass, valued=True, slope=lambda size, n, parameter: 1 / n**0.5),
        sparse=None,
        codes="admm",
        codes_as="frobenius",  # the root of a sum of squares has the same minimiser
    ),
    Record(
        name="huber",
        formula="(x - p)^2 / 2 to delta, then delta (|x - p| - delta / 2)",
        noise="Gaussian noise and outlying entries",
        parameter=Parameter("delta", default=lambda mean: mean / 10, positive=True),
        degree=None,
        beta=None,
        kink=0.0,
        rows=_huber_rows,
        derivative=_huber,
        proximal=Proximal(_admm_kernels.huber_pass, valued=True, slope=lambda size, n, delta: np.minimum(size, delta)),
        sparse=None,
        codes="admm",
    ),
    Record(  # MahNMF-EN, Guan et al. 2012
        name="elastic-net",
        formula="|x - p| + alpha / 2 (x - p)^2",
        noise="Laplace and Gaussian noise at once",
        parameter=Parameter("alpha", default=lambda mean: 1 / mean, positive=False),
        degree=None,
        beta=None,
        kink=1.0,
        rows=_elastic_net_rows,
        derivative=_elastic_net,
        proximal=Proximal(_admm_kernels.elastic_net_pass, valued=True, slope=lambda size, n, alpha: 1 + alpha * size),
        sparse=None,
        codes="admm",
    ),
)
