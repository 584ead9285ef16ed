"""What is minimised: a loss of ``X - W H``, weights, and a penalty for each factor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import losses, sparse
from .losses import Loss
from .penalties import NONNEGATIVE, Penalty

__all__ = ["Problem"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """``loss(X, W H; weights) + penalty_W(W) + penalty_H(H)``, over ``W, H >= 0``.

    Attributes
    ----------
    X : ndarray, C-contiguous, or scipy.sparse.csr_array [shape=(n_samples, n_features), >= 0, finite]
        float32 or float64. Where a weight is 0 the entry is missing, and 0.
    loss : Loss
    penalty_W, penalty_H : Penalty
        Of the codes ``Wt`` (n_components, n_samples) and of the components ``H`` (n_components, n_features).
    weights : ndarray [shape=(n_samples, n_features), >= 0], optional
        Of the entries, in the dtype of `X`; for dense `X` only.
    zero_weight : float in [0, 1], default=1
        Weight of the entries that a sparse `X` does not store; 0 where they are missing, and between only for the
        Manhattan loss (Seraghiti et al. 2026).
    """

    X: Any
    loss: Loss
    penalty_W: Penalty = field(default=NONNEGATIVE)
    penalty_H: Penalty = field(default=NONNEGATIVE)
    weights: Array | None = None
    zero_weight: float = 1.0

    @property
    def is_sparse(self) -> bool:
        """Whether `X` is a sparse array."""
        return sp.issparse(self.X)

    @cached_property
    def transposed(self) -> Problem:
        """The same problem with samples and features exchanged (a copy of the data, made once).

        A solver that improves the codes of rows improves the components by working on it with ``H`` and ``Wt``
        exchanged.
        """
        X = self.X.T.tocsr() if self.is_sparse else np.ascontiguousarray(self.X.T)
        weights = None if self.weights is None else np.ascontiguousarray(self.weights.T)
        return replace(self, X=X, weights=weights, penalty_W=self.penalty_H, penalty_H=self.penalty_W)

    def objective(self, Wt: Array, H: Array) -> float:
        """Evaluate the loss and both penalties.

        Parameters
        ----------
        Wt : ndarray [shape=(n_components, n_samples)]
            Codes, transposed.
        H : ndarray [shape=(n_components, n_features)]

        Returns
        -------
        float
            Summed in double precision.
        """
        return self.loss_value(Wt, H) + self.penalty_value(Wt, H)

    def loss_value(self, Wt: Array, H: Array) -> float:
        """Evaluate the loss alone.

        Parameters
        ----------
        Wt, H : ndarray
            As for :meth:`objective`.

        Returns
        -------
        float
        """
        if self.is_sparse:
            return sparse.loss_value(self.X, Wt, H, self.loss, zero_weight=self.zero_weight)
        return losses.loss_value(self.X, Wt, H, self.loss, weights=self.weights)

    def penalty_value(self, Wt: Array, H: Array) -> float:
        """Evaluate both penalties alone.

        Parameters
        ----------
        Wt, H : ndarray
            As for :meth:`objective`.

        Returns
        -------
        float
        """
        return self.penalty_W.value(Wt) + self.penalty_H.value(H)
