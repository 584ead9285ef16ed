"""The losses, which measure the distance of the data `X` from the model `P = WH`.

Each loss is one :class:`Record`, in :mod:`.residual` or :mod:`.divergences`. Everything that lists losses derives from
:data:`LOSSES`: which solvers minimise a loss, whether it takes sparse data, messages, and the tables of the guides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import BLOCK_ELEMENTS, map_blocks, row_blocks

from . import divergences, residual
from .record import ZERO, Parameter, Proximal, Record, SparseForm

__all__ = ["LOSSES", "ZERO", "Loss", "Parameter", "Proximal", "Record", "SparseForm", "loss_value", "named_losses"]

Array = NDArray[Any]

LOSSES: dict[str, Record] = {record.name: record for record in (*residual.RECORDS, *divergences.RECORDS)}


class Loss(NamedTuple):
    """A loss and its parameter.

    Attributes
    ----------
    name : str
        A key of :data:`LOSSES`.
    parameter : float, default=0
        ``beta`` of "beta", ``alpha >= 0`` of "elastic-net", ``delta > 0`` of "huber" in the units of the data; the
        others have none.
    """

    name: str
    parameter: float = 0.0

    @property
    def record(self) -> Record:
        """The record of the loss."""
        return LOSSES[self.name]

    @property
    def label(self) -> str:
        """The loss as the user writes it, for messages: ``loss='huber'`` or ``loss=1.5``."""
        return f"loss={self.name!r}" if self.record.is_named else f"loss={self.parameter:g}"

    @property
    def beta(self) -> float:
        """The exponent of a beta-divergence; NaN for the other losses."""
        beta = self.record.beta
        if beta is None:
            return float("nan")
        return self.parameter if beta == "parameter" else float(beta)

    @property
    def needs_positive(self) -> bool:
        """Whether the loss is infinite at entries of the data that are 0."""
        return self.beta <= 0


def named_losses() -> list[str]:
    """Return the keys of :data:`LOSSES` that users pass by name; the others are selected by a number.

    Returns
    -------
    list of str
    """
    return [name for name, record in LOSSES.items() if record.is_named]


def loss_value(X: Array, Wt: Array, H: Array, loss: Loss, *, weights: Array | None = None) -> float:
    """Evaluate a loss of dense data block by block, without storing ``W @ H``; for sparse data see :mod:`..sparse`.

    `X` and the entry weights are (n_samples, n_features), `Wt` (n_components, n_samples) holds the codes, transposed,
    and `H` is (n_components, n_features). The sum is taken in double precision.

    Returns
    -------
    float
    """
    out = np.empty(X.shape[0])
    rows = loss.record.rows

    def evaluate(block: tuple[int, int]) -> None:
        start, stop = block
        rows(X, np.matmul(Wt[:, start:stop].T, H), weights, loss.parameter, start, stop, out)

    map_blocks(evaluate, row_blocks(X), parallel=X.size > BLOCK_ELEMENTS)
    return float(out.sum())
