"""The losses: how the distance of the data `X` from the model `P = WH` is measured.

================  ==============================  ==============================================================
name              value                           noise it is right for
================  ==============================  ==============================================================
manhattan         ``sum |X - P|``                 Laplace noise; outliers: occlusion, dead pixels, moving objects
frobenius         ``1/2 sum (X - P)^2``           Gaussian noise of equal variance, no outliers
kullback-leibler  ``sum X log(X / P) - X + P``    Poisson noise: counts of photons, words, commands
================  ==============================  ==============================================================

A new loss is one entry of :data:`LOSSES`; a solver lists the losses that it can minimise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _kernels, _kl_kernels
from ._threads import blocks, map_blocks

__all__ = ["LOSSES", "Loss", "loss_value"]

Array = NDArray[Any]


class Loss(NamedTuple):
    """One loss.

    Attributes
    ----------
    rows : callable
        ``rows(X, P, start, stop, out)`` writes the loss of each row of `X`; `P` holds rows ``start:stop`` only.
    """

    rows: Callable[..., None]


LOSSES: dict[str, Loss] = {
    "manhattan": Loss(_kernels.manhattan_rows),
    "frobenius": Loss(_kernels.frobenius_rows),
    "kullback-leibler": Loss(_kl_kernels.kullback_leibler_rows),
}

BLOCK_ELEMENTS = 1 << 16  # a block of X, U and P in single precision (3 * 256 KiB) stays in a second-level cache


def rows_per_block(n_features: int) -> int:
    """Return how many rows of the data make a block that stays in cache."""
    return max(1, BLOCK_ELEMENTS // max(1, n_features))


def loss_value(X: Array, Wt: Array, H: Array, loss: str) -> float:
    """Evaluate a loss, block by block, without holding ``W @ H``.

    Parameters
    ----------
    X : ndarray [shape=(n_samples, n_features)]
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    loss : str
        A key of :data:`LOSSES`.

    Returns
    -------
    float
        Summed in double precision.
    """
    out = np.empty(X.shape[0])

    def evaluate(block: tuple[int, int]) -> None:
        start, stop = block
        LOSSES[loss].rows(X, np.matmul(Wt[:, start:stop].T, H), start, stop, out)

    map_blocks(evaluate, blocks(X.shape[0], rows_per_block(X.shape[1])), parallel=X.size > BLOCK_ELEMENTS)
    return float(out.sum())
