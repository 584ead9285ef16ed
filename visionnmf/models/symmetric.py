"""Symmetric non-negative matrix factorisation of an affinity."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from visionnmf._checks import (
    check_choice,
    check_count,
    check_nonnegative_array,
    check_number,
    check_random_state,
    check_sample_weight,
    check_saved,
)
from visionnmf._typing import Array
from visionnmf.engine.starts import random_symmetric, spread_symmetric
from visionnmf.engine.stopping import warn_not_converged
from visionnmf.engine.symmetric import LOSSES, fit_starts, scale_to_fit, symmetric_optimality
from visionnmf.exceptions import ParameterError

from .data_checks import check_kind, check_range, check_signs
from .model_files import Saveable

STARTS = ("k-means++", "random")


@dataclass(eq=False, repr=False)
class SymmetricNMF(Saveable, BaseEstimator):
    r"""Symmetric non-negative matrix factorisation of an affinity, robust by default.

    Finds ``H >= 0`` with

    .. math:: \min_{H \ge 0}\; \sum_{i \ne j} c_i c_j\, |A_{ij} - h_i \cdot h_j| \quad \text{or} \quad
              \tfrac12 \sum_{i \ne j} c_i c_j\, (A_{ij} - h_i \cdot h_j)^2

    (MahNMF-SYM, Guan et al. 2012, section 4.5, and Vandaele et al. 2016; the node weights are ours). ``h_i``, row i of
    the codes, says how strongly node i belongs to each component, which is a soft clustering. The diagonal is left out
    because it says nothing about the clustering. The problem is not convex, so several starts are run in threads, and
    the result with the lowest objective is kept. There is no ``transform``, because the codes are those of the nodes
    that were factorised.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    loss : {"manhattan", "frobenius", "manhattan-paper"}, default="manhattan"
        Take Manhattan for affinities with wrong entries, and Frobenius for small errors everywhere or for speed. The
        last is the update that the MahNMF paper prints (equation 61): with the diagonal, component by component. Its
        objective may rise.
    n_init : int, default=5
        Number of starts.
    init : {"k-means++", "random"} or array-like [shape=(n_components, n), >= 0], default="k-means++"
        "k-means++" starts from columns of the affinity that differ, which ends far lower than "random" numbers. An
        array replaces the first start of "k-means++".
    max_iter : int, default=200
        Maximum number of sweeps for each start.
    tol : float, default=1e-3
        As in :class:`NMF`, for each start.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n), >= 0]
        ``H``, transposed codes.
    n_iter_ : int
        Number of sweeps of the best start.
    reconstruction_err_ : float
        Its objective.
    objective_history_ : ndarray [shape=(n_iter_ + 1,)]
        The objective before its first sweep and after each one; never rises but for "manhattan-paper".
    objectives_ : ndarray [shape=(n_init,)]
        The final objective of each start, which shows how much the result depends on the start.
    optimality_ : float
        How far the solution is from one in which no node's codes can be improved, whatever the scale of the affinity;
        0 is converged.
    n_features_in_ : int
        Number of nodes seen in `fit`.

    See Also
    --------
    sklearn.cluster.SpectralClustering : Clustering of an affinity by its eigenvectors.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan Non-negative Matrix Factorization",
    arXiv:1207.3438, 2012.
    A. Vandaele, N. Gillis, Q. Lei, K. Zhong, I. Dhillon, "Efficient and non-convex coordinate descent for symmetric
    nonnegative matrix factorization", IEEE Transactions on Signal Processing 64(21), 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import SymmetricNMF
    >>> blocks = np.kron(np.eye(2), np.ones((4, 4)))  # two groups of four
    >>> SymmetricNMF(2, random_state=0).fit_transform(blocks).argmax(axis=1).reshape(2, 4).std(axis=1)
    array([0., 0.])
    """

    saved_attributes = (*Saveable.saved_attributes, "objectives_")

    n_components: int = 2
    _: KW_ONLY
    loss: str = "manhattan"
    n_init: int = 5
    init: Any = "k-means++"
    max_iter: int = 200
    tol: float = 1e-3
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.positive_only = True
        return tags

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> SymmetricNMF:
        """Factorise an affinity.

        Parameters
        ----------
        X : array-like [shape=(n, n), >= 0, finite], symmetric
            Affinity of the nodes. float32 stays float32; everything else is converted to float64.
        y : Ignored
        sample_weight : array-like [shape=(n,), >= 0], optional
            Weights of the nodes: entry (i, j) counts ``c_i c_j`` times. They are 1 if not given.

        Raises
        ------
        ValueError
            If `X` is not square and symmetric, holds NaN, infinity or negative numbers, or a parameter is not allowed.
        """
        S = self._check_affinity(X)
        n = S.shape[0]
        # the weights of the nodes: entry (i, j) of the affinity S counts c[i] * c[j] times
        c = np.ones(n, S.dtype) if sample_weight is None else check_sample_weight(sample_weight, n, S.dtype)
        self._check_parameters()
        starts = self._starts(S, c, self.n_components, self.n_init)

        fits = fit_starts(S, starts, c, max_iter=self.max_iter, tol=self.tol, loss=self.loss)
        self.objectives_ = np.array([found.history[-1] for found in fits])
        best = int(self.objectives_.argmin())
        if not fits[best].converged and self.tol > 0:
            warn_not_converged("SymmetricNMF", fits[best], self.tol)
        self.components_ = starts[best]
        self.n_iter_ = fits[best].n_iter
        self.objective_history_ = np.array(fits[best].history)
        self.reconstruction_err_ = float(self.objectives_[best])
        self.optimality_ = symmetric_optimality(S, self.components_, c, loss=self.loss)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Array:
        """Factorise an affinity as :meth:`fit` does, and return the codes (n, n_components) of its nodes."""
        return np.ascontiguousarray(self.fit(X, sample_weight=sample_weight).components_.T)

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed; `init` is checked when it is used."""
        check_count(self.n_components, "n_components")
        check_choice(self.loss, "loss", list(LOSSES))
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol")

    def _check_state(self, low: float = 0.0) -> None:
        """Raise ValueError unless the fitted attributes, which a file gave, are possible."""
        super()._check_state(low)
        check_saved(self.objectives_, "objectives_", (None,), finite=False)

    def _check_affinity(self, X: ArrayLike) -> Array:
        """Return the affinity matrix, made exactly symmetric; raise ParameterError if it is clearly not symmetric."""
        S: Array = validate_data(self, check_kind(X), dtype=[np.float64, np.float32], order="C")
        check_signs(
            S, "SymmetricNMF", "clip it by numpy.maximum(X, 0), or shift it, as (1 + X) / 2 does with correlations"
        )
        if S.shape[0] != S.shape[1]:
            raise ParameterError(f"X must be a square affinity matrix; got shape {S.shape}")
        check_range(S, small=True)  # `small`: data may be tiny, though not huge
        largest = float(np.abs(S - S.T).max())
        if largest > 1e-4 * float(S.max(initial=0)):  # more than rounding can explain
            raise ParameterError(
                f"X must be symmetric; got entries that differ from their mirror images by up to {largest:.3g}; "
                "pass (X + X.T) / 2 if that is meant"
            )
        return (S + S.T) / 2 if largest > 0 else S

    def _starts(self, S: Array, c: Array, n_components: int, n_init: int) -> list[Array]:
        """Return `n_init` starting factors (r, n) by `init`, which if an array is the first of them."""
        rng = check_random_state(self.random_state)
        if isinstance(self.init, str) and check_choice(self.init, "init", STARTS) == "random":
            return [random_symmetric(S, n_components, rng) for _ in range(n_init)]
        starts = [spread_symmetric(S, c, n_components, rng) for _ in range(n_init)]
        if self.loss == "frobenius":  # starts may be far too large, and then end in poor minima
            for start in starts:
                scale_to_fit(S, start, c)
        if not isinstance(self.init, str):
            starts[0] = check_nonnegative_array(self.init, "init", (n_components, len(S)), S.dtype)
        return starts
