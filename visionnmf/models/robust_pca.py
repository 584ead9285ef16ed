"""Robust principal components: RPCA and GoDec."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from visionnmf._checks import check_count, check_number, check_random_state, check_saved
from visionnmf._typing import Array
from visionnmf.engine import robust_pca
from visionnmf.exceptions import ParameterError

from .data_checks import check_kind
from .linear_model import LinearModel

CODE_ITERATIONS = 1000
LARGEST_SHARE = 1e-6  # of the dtype's range: entries beyond leave no room for sums


class _RobustPCA(LinearModel):
    """What RPCA and GoDec share: the attributes of a fit, and codes of least absolute deviations."""

    saved_attributes = (*LinearModel.saved_attributes, "singular_values_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        return tags

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Split finite `X` of any sign; float32 stays float32, everything else is converted to float64.

        Raises ValueError if entries are near the end of the dtype's range or a parameter is not allowed.
        """
        data = self._checked(X, reset=True)
        self._check_parameters()
        # The data are scaled to entries from -1 to 1, because their squares could leave the range of floats.
        scale = data.dtype.type(np.abs(data).max(initial=0) or 1)
        split, converged = self._split(data / scale)
        self.components_ = split.components
        self.singular_values_ = split.values * scale
        self.n_components_ = len(split.components)
        self.low_rank_, self.sparse_ = split.low_rank * scale, split.sparse * scale
        self.n_iter_ = split.n_iter
        if not converged:
            warnings.warn(
                f"{type(self).__name__} has not converged after {split.n_iter} iterations; the last change was "
                f"{split.change:.3g}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return codes (n_samples, n_components_) of least absolute deviations, ``min |x - c H|_1`` for each sample.

        For training samples with few enough outliers they are ``U S``. Raises ValueError if `X` holds NaN or infinity.
        """
        check_is_fitted(self)
        data = self._checked(X, reset=False)
        components = self.components_.astype(data.dtype, copy=False)
        return robust_pca.lad(data, components, max_iter=CODE_ITERATIONS)

    def _check_state(self, low: float = -math.inf) -> None:
        """Raise ValueError if components from a file are not orthonormal, because codes would not converge."""
        super()._check_state(low)
        check_saved(self.singular_values_, "singular_values_", (len(self.components_),))
        H = self.components_
        if not np.allclose(H @ H.T, np.eye(len(H)), atol=1e-3):
            raise ValueError("components_ are not orthonormal")

    def _checked(self, X: ArrayLike, *, reset: bool) -> Array:
        """Return the data as an array; refuse entries whose sums could overflow."""
        data = validate_data(self, check_kind(X), dtype=[np.float64, np.float32], order="C", reset=reset)
        largest, limit = float(np.abs(data).max(initial=0)), float(np.finfo(data.dtype).max) * LARGEST_SHARE
        kind = data.dtype.name
        if largest > limit:
            raise ParameterError(
                f"X must have entries of at most {limit:.3g} in {kind}; got {largest:.3g}; divide X by its mean"
            )
        return np.asarray(data)

    @abstractmethod
    def _split(self, X: Array) -> tuple[robust_pca.Split, bool]:
        """Return the low-rank and the sparse part of `X`, with entries from -1 to 1, and whether they converged."""


@dataclass(eq=False, repr=False)
class RPCA(_RobustPCA):
    r"""Robust principal component analysis: a matrix as the sum of a low-rank and a sparse one.

    .. math:: \min_{L, S}\; \|L\|_* + \lambda \|S\|_1 \quad \text{where}\quad X = L + S

    (principal component pursuit, Candès, Li, Ma & Wright 2011), by the inexact augmented Lagrangian method (Lin, Chen &
    Ma 2010). It finds the rank itself, takes data of both signs, and is exact if the low-rank part is spread out and
    the sparse part is random. It needs a full singular value decomposition in each iteration, and about six times the
    memory of `X`. :class:`GoDec` and :class:`NMF` with ``nuclear=1`` are faster.

    Rows of `X` are samples. The data are not centred: subtract the median of each feature first if that is wanted.

    Parameters
    ----------
    sparse_weight : float > 0 or None, default=None
        λ. None takes ``1 / sqrt(max(n_samples, n_features))``. Larger values make the sparse part sparser and the rank
        higher.
    max_iter : int, default=500
        Iterations.
    tol : float, default=1e-6
        Stop when ``|X - L - S|_F`` is at most this share of ``|X|_F``.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components_, n_features)]
        Right singular vectors of the low-rank part, in the dtype of the training data (float32 or float64).
    singular_values_ : ndarray [shape=(n_components_,)]
        Its singular values, in descending order.
    low_rank_, sparse_ : ndarray [shape=(n_samples, n_features)]
        L and S of the training data. They are as large as the data, and are not saved with the model.
    n_components_, n_iter_ : int
        The rank, at least 1, and the number of iterations.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    E. J. Candès, X. Li, Y. Ma, J. Wright, "Robust principal component analysis?", Journal of the ACM 58(3), 2011.
    Z. Lin, M. Chen, Y. Ma, "The augmented Lagrange multiplier method for exact recovery of corrupted low-rank
    matrices", arXiv:1009.5055, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import RPCA
    >>> rng = np.random.default_rng(0)
    >>> L = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
    >>> S = np.where(rng.random(L.shape) < 0.1, 10.0, 0.0)
    >>> model = RPCA().fit(L + S)
    >>> model.n_components_, bool(np.allclose(model.low_rank_, L, atol=1e-3))
    (2, True)
    """

    _: KW_ONLY
    sparse_weight: float | None = None
    max_iter: int = 500
    tol: float = 1e-6

    def _split(self, X: Array) -> tuple[robust_pca.Split, bool]:
        """Split `X`, scaled to entries from -1 to 1, by principal component pursuit; also whether it converged."""
        weight = 1 / math.sqrt(max(X.shape)) if self.sparse_weight is None else float(self.sparse_weight)
        split = robust_pca.rpca(X, weight, max_iter=self.max_iter, tol=self.tol)
        return split, split.change <= self.tol

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed, whatever the data are."""
        if self.sparse_weight is not None:
            check_number(self.sparse_weight, "sparse_weight", without_low=True)  # > 0
        check_number(self.tol, "tol", without_low=True)  # > 0
        check_count(self.max_iter, "max_iter")


@dataclass(eq=False, repr=False)
class GoDec(_RobustPCA):
    r"""Low rank, few outliers and noise: the split of a matrix when rank and number of outliers are known.

    .. math:: \min_{L, S}\; \|X - L - S\|_F \quad \text{where}\quad \operatorname{rank}(L) \le r,\; |S|_0 \le k

    (Zhou & Tao 2011), in turn: L by randomised subspace iteration, and S as the `k` largest entries of the rest. It is
    much faster than :class:`RPCA`, and made for noise. But the problem is not convex, and a `sparse_share` above the
    true one costs accuracy where outliers are close together.

    Parameters
    ----------
    n_components : int, default=2
        The rank; at most the smaller side of the data is used.
    sparse_share : float from 0 to 1, default=0.1
        Largest share of the entries that may be outliers.
    max_iter : int, default=300
        Iterations.
    tol : float, default=1e-3
        As in :class:`NMF`, of ``|X - L - S|_F^2``.
    random_state : int, RandomState instance or None, default=None
        Seed of the first subspace.

    Attributes
    ----------
    components_, singular_values_, low_rank_, sparse_, n_components_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`RPCA`.

    References
    ----------
    T. Zhou, D. Tao, "GoDec: randomized low-rank & sparse matrix decomposition in noisy case", ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import GoDec
    >>> rng = np.random.default_rng(0)
    >>> L = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
    >>> S = np.where(rng.random(L.shape) < 0.05, 10.0, 0.0)
    >>> model = GoDec(2, sparse_share=np.mean(S != 0), random_state=0).fit(L + S)
    >>> bool(np.allclose(model.low_rank_, L, atol=1e-3))
    True
    """

    n_components: int = 2
    _: KW_ONLY
    sparse_share: float = 0.1
    max_iter: int = 300
    tol: float = 1e-3
    random_state: Any = None

    def _split(self, X: Array) -> tuple[robust_pca.Split, bool]:
        """Split `X`, with entries from -1 to 1, by GoDec; also whether it converged, always true with `tol` 0."""
        split = robust_pca.godec(
            X,
            min(self.n_components, *X.shape),
            round(self.sparse_share * X.size),
            max_iter=self.max_iter,
            tol=self.tol,
            rng=check_random_state(self.random_state),
        )
        return split, self.tol == 0 or split.change < self.tol

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed, whatever the data are."""
        check_count(self.n_components, "n_components")
        check_number(self.sparse_share, "sparse_share", 0, 1)
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol")
