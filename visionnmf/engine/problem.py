"""The minimisation problem: a loss between ``X`` and ``W H``, weights, and a penalty for each factor.

A :class:`Report` holds the figures of final factors: their loss and penalty, and the samples that have codes of 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from visionnmf._typing import Array

from .arrays.namespace import chunks, namespace_of, norms_of, taken, to_numpy
from .losses import Loss, loss_value, sparse_loss_value
from .penalties import NONNEGATIVE, Penalties


@dataclass(frozen=True, eq=False)
class Problem:
    """``loss(X, W H; weights) + penalty_W(W) + penalty_H(H)``, over ``W, H >= 0``."""

    # (n_samples, n_features), C-contiguous or a csr_array, float32 or float64, >= 0 and finite; where the weight is 0,
    # an entry is missing, and must be 0. Or an array of another library, on its device, where the factors lie then.
    X: Any
    loss: Loss
    penalty_W: Penalties = NONNEGATIVE  # of the codes ``Wt`` (n_components, n_samples)
    penalty_H: Penalties = NONNEGATIVE  # of the components ``H`` (n_components, n_features)
    weights: Array | None = None  # of the entries of a dense `X`, >= 0, of its shape and dtype
    # from 0 to 1, of the entries that a sparse `X` does not store; 0 if they are missing. Values between are for the
    # Manhattan loss only (Seraghiti et al. 2026).
    zero_weight: float = 1.0

    @property
    def is_sparse(self) -> bool:
        """Whether `X` is a sparse array."""
        return sp.issparse(self.X)

    @cached_property
    def transposed(self) -> Problem:
        """The same problem with samples and features exchanged, for updates of components; the data are copied once."""
        X = self.X.T.tocsr() if self.is_sparse else np.ascontiguousarray(self.X.T)
        weights = None if self.weights is None else np.ascontiguousarray(self.weights.T)
        return replace(self, X=X, weights=weights, penalty_W=self.penalty_H, penalty_H=self.penalty_W)

    @property
    def features(self) -> Any:
        """The transposed data: a view of dense data, or a copy of sparse data that each problem makes once."""
        return self.transposed.X if self.is_sparse else self.X.T

    def samples(self, rows: slice | Array) -> Problem:
        """Return the same problem with only some of the samples, selected by a slice, numbers or, for NumPy, a mask."""
        X = sp.csr_array(self.X[rows]) if self.is_sparse else taken(self.X, rows)
        weights = None if self.weights is None else taken(self.weights, rows)
        return replace(self, X=X, weights=weights)

    def in_dense(self) -> Problem:
        """Return the same problem with dense data, whose entries that were not stored have `zero_weight` as weight."""
        if not self.is_sparse:
            return self
        weights = None
        if self.zero_weight != 1:
            weights = np.full(self.X.shape, self.zero_weight, self.X.dtype)
            weights[np.repeat(np.arange(len(weights)), np.diff(self.X.indptr)), self.X.indices] = 1
        return replace(self, X=self.X.toarray(), weights=weights, zero_weight=1.0)

    def normalise(self, H: Any) -> Any:
        """Divide components `H` (r, n) by their norms, in place, unless a constraint depends on their scale."""
        if not (self.penalty_W.is_cone and self.penalty_H.is_cone):
            return namespace_of(H).ones_like(H[:, 0])
        norms = norms_of(H)
        H /= norms[:, None]
        return norms

    def rescaled(self, norms: Array) -> Problem:
        """Return the equivalent problem for components divided by `norms` (r,) and codes multiplied by them."""
        if not (self.penalty_W.kinds or self.penalty_H.kinds):
            return self  # which may have a transposed copy of the data already
        scale = to_numpy(norms).astype(np.float64)
        return replace(self, penalty_W=self.penalty_W.rescaled(scale), penalty_H=self.penalty_H.rescaled(1 / scale))

    def objective(self, Wt: Any, H: Any) -> float:
        """Return the loss plus both penalties, in double precision, for codes `Wt` (transposed) and components `H`."""
        return self.loss_value(Wt, H) + self.penalty_value(Wt, H)

    def loss_value(self, Wt: Any, H: Any) -> float:
        """Return the loss alone, without penalties, for codes `Wt` (r, n_samples) and components `H` (r, n)."""
        if self.is_sparse:  # `zero_weight` is the weight of the entries that are not stored; 0 if they are missing
            return sparse_loss_value(self.X, Wt, H, self.loss, zero_weight=self.zero_weight)
        return loss_value(self.X, Wt, H, self.loss, weights=self.weights)

    def penalty_value(self, Wt: Any, H: Any) -> float:
        """Return the penalty of the codes `Wt` (r, n_samples) plus that of the components `H` (r, n); no loss."""
        return self.penalty_W.value(Wt) + self.penalty_H.value(H)


class Lost(NamedTuple):
    """How many samples are not 0, how many of those have codes of 0, and the share of the entries that are not 0."""

    n_nonzero: int
    n_lost: int
    share: float

    @classmethod
    def of(cls, problem: Problem, Wt: Any) -> Lost:
        """Count the samples that are not 0, those of them whose codes are all 0, and the share of entries not 0."""
        X, xp = problem.X, namespace_of(Wt)
        if problem.is_sparse:
            nonzero, n_entries = X.sum(axis=1, dtype=np.float64) > 0, int(np.count_nonzero(X.data))
        else:
            nonzero = xp.max(X, axis=1) > 0  # a sum in double precision would copy the data on a device
            n_entries = sum(int(xp.count_nonzero(X[rows, :])) for rows in chunks(X))
        lost = nonzero & ~xp.any(Wt != 0, axis=0)
        return cls(int(xp.count_nonzero(nonzero)), int(xp.count_nonzero(lost)), n_entries / (X.shape[0] * X.shape[1]))


class Report(NamedTuple):
    """The figures of final codes and components."""

    loss: float
    penalty: float
    is_zero: bool  # whether the model is 0 everywhere although the data are not
    lost: Lost

    @classmethod
    def of(cls, problem: Problem, Wt: Any, H: Any) -> Report:
        """Evaluate codes `Wt` (r, n_samples) and components `H` (r, n) in memory, of NumPy or of another library."""
        xp, lost = namespace_of(H), Lost.of(problem, Wt)
        used = xp.any(Wt != 0, axis=1) & xp.any(H != 0, axis=1)
        is_zero = lost.n_nonzero > 0 and not bool(xp.any(used))
        return cls(problem.loss_value(Wt, H), problem.penalty_value(Wt, H), is_zero, lost)
