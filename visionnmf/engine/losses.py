r"""The losses: how the distance of the data `X` from the model `P = WH` is measured.

================  ==================================  ================================================================
name              value                               noise it is right for
================  ==================================  ================================================================
manhattan         ``sum |X - P|``                     Laplace noise; outlying entries: occlusion, dead pixels
frobenius         ``1/2 sum (X - P)^2``               Gaussian noise of equal variance, no outliers
kullback-leibler  ``sum X log(X / P) - X + P``        Poisson noise: counts of photons, words, commands
itakura-saito     ``sum X / P - log(X / P) - 1``      multiplicative Gamma noise, such as power spectra; needs X > 0
beta              the beta-divergence                 between these: 2 is Frobenius, 1 Kullback-Leibler, 0 Itakura-Saito
elastic-net       ``sum |X - P| + alpha/2 (X - P)^2`` Laplace and Gaussian noise at once (MahNMF-EN, Guan et al. 2012)
l21               ``sum_i sqrt(sum_j (X - P)_ij^2)``  outlying samples: whole rows that do not belong
huber             quadratic to delta, then linear     Gaussian noise of a scale below delta, and outlying entries
================  ==================================  ================================================================

A new loss is one entry of :data:`LOSSES`; a solver lists the losses that it can minimise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .blocks import BLOCK_ELEMENTS, map_blocks, row_blocks
from .kernels import divergences as _divergence_kernels
from .kernels import losses as _loss_kernels

__all__ = ["LOSSES", "Form", "Loss", "loss_value"]

Array = NDArray[Any]


class Loss(NamedTuple):
    """A loss and its parameter.

    Attributes
    ----------
    name : str
        A key of :data:`LOSSES`.
    parameter : float, default=0
        ``beta`` of "beta", ``alpha > 0`` of "elastic-net", ``delta > 0`` of "huber" in the units of the data; the
        others have none.
    """

    name: str
    parameter: float = 0.0

    @property
    def label(self) -> str:
        """How the user writes it, for messages: ``loss='huber'``, ``loss=1.5``."""
        return f"loss={self.parameter:g}" if self.name == "beta" else f"loss={self.name!r}"


class Form(NamedTuple):
    """One row of the table of losses.

    Attributes
    ----------
    rows : callable
        ``rows(X, P, M, parameter, start, stop, out)`` writes the loss of each row of `X`; see :mod:`.kernels.losses`.
    degree : float or None
        ``loss(c X, c P) = c^degree loss(X, P)``; None where the loss has a scale of its own.
    """

    rows: Callable[..., None]
    degree: float | None


LOSSES: dict[str, Form] = {
    "manhattan": Form(_loss_kernels.manhattan_rows, 1),
    "frobenius": Form(_loss_kernels.frobenius_rows, 2),
    "kullback-leibler": Form(_divergence_kernels.kullback_leibler_rows, 1),
    "itakura-saito": Form(_divergence_kernels.itakura_saito_rows, 0),
    "beta": Form(_divergence_kernels.beta_rows, None),
    "elastic-net": Form(_loss_kernels.elastic_net_rows, None),
    "l21": Form(_loss_kernels.l21_rows, 1),
    "huber": Form(_loss_kernels.huber_rows, None),
}


def loss_value(X: Array, Wt: Array, H: Array, loss: Loss, *, weights: Array | None = None) -> float:
    """Evaluate a loss of dense data, block by block, without holding ``W @ H``; sparse data: :mod:`.sparse`.

    Parameters
    ----------
    X : ndarray [shape=(n_samples, n_features)]
    Wt : ndarray [shape=(n_components, n_samples)]
        Codes, transposed.
    H : ndarray [shape=(n_components, n_features)]
    loss : Loss
    weights : ndarray [shape=(n_samples, n_features), >= 0], optional
        Of the entries.

    Returns
    -------
    float
        Summed in double precision.
    """
    out = np.empty(X.shape[0])
    rows = LOSSES[loss.name].rows

    def evaluate(block: tuple[int, int]) -> None:
        start, stop = block
        rows(X, np.matmul(Wt[:, start:stop].T, H), weights, loss.parameter, start, stop, out)

    map_blocks(evaluate, row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
    return float(out.sum())
