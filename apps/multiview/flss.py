"""Factorised latent spaces with structured sparsity (Jia, Salzmann & Darrell 2010), a baseline."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array

from visionnmf._checks import check_count, check_number, check_random_state, shown
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.penalties.projections import shrink_inf
from visionnmf.exceptions import ParameterError

__all__ = ["FLSS"]

Array = NDArray[Any]

STEPS = 5  # proximal gradient steps of each factor in turn
RIDGE = 1e-6  # of the codes of new samples, as a share of the largest curvature


class FLSS(TransformerMixin, BaseEstimator):
    r"""Factorised latent spaces with structured sparsity: signed components that use whole views or none.

    .. math:: \min_{W, H}\; \tfrac1n \|X - W H\|_F^2 + \lambda \sum_v \sum_k \max_j |H_{v,kj}|
              + \gamma \sum_k \max_i |W_{ik}|

    (Jia, Salzmann & Darrell 2010; equation 63 of Guan et al. 2012), by alternating proximal gradient steps. New samples
    get the codes of least squares, because the last term depends on all training samples together. It is a baseline.

    Parameters
    ----------
    n_components : int, default=10
        Number of components.
    groups : array-like of int [shape=(n_features,)]
        The view of each feature; None is a single view.
    dictionary_weight, codes_weight : float, default=0.01
        lambda and gamma, >= 0; the defaults are the paper's.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop when the objective falls by less than this share of its value at the start.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n_features)]
    n_iter_ : int
    objective_history_ : ndarray [shape=(n_iter_ + 1,)]

    References
    ----------
    Y. Jia, M. Salzmann, T. Darrell, "Factorized Latent Spaces with Structured Sparsity", NIPS, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.multiview import FLSS
    >>> X = np.random.default_rng(0).random((30, 8))
    >>> FLSS(3, [0] * 5 + [1] * 3, random_state=0).fit_transform(X).shape
    (30, 3)
    """

    def __init__(
        self,
        n_components: int = 10,
        groups: Any = None,
        *,
        dictionary_weight: float = 0.01,
        codes_weight: float = 0.01,
        max_iter: int = 200,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.groups = groups
        self.dictionary_weight = dictionary_weight
        self.codes_weight = codes_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @one_blas_thread()
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_features)]
        y : Ignored

        Returns
        -------
        FLSS
            The fitted estimator.

        Raises
        ------
        ValueError
            If the data are not finite, or a parameter is not allowed.
        """
        data: Array = check_array(X, dtype=[np.float64, np.float32])
        k = check_count(self.n_components, "n_components")
        lam = check_number(self.dictionary_weight, "dictionary_weight")
        gamma = check_number(self.codes_weight, "codes_weight")
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol")
        rng = check_random_state(self.random_state)
        n, d = data.shape
        labels = np.zeros(d, int) if self.groups is None else np.asarray(self.groups)
        if labels.shape != (d,):
            raise ParameterError(f"groups must be the view of each of {d} features; got {shown(self.groups)}")
        sets = [np.flatnonzero(labels == v) for v in np.unique(labels)]
        W = rng.standard_normal((n, k)).astype(data.dtype)
        H = (np.linalg.lstsq(W, data, rcond=None)[0]).astype(data.dtype)
        history = [self._objective(data, W, H, sets, lam, gamma)]
        for _ in range(self.max_iter):
            gram, cross = W.T @ W * (2 / n), W.T @ data * (2 / n)
            step = 1 / max(float(np.linalg.norm(gram, 2)), 1e-12)
            for _step in range(STEPS):
                H = H - data.dtype.type(step) * (gram @ H - cross)
                for columns in sets:
                    H[:, columns] = _shrink(H[:, columns], step * lam)
            gram, cross = H @ H.T * (2 / n), data @ H.T * (2 / n)
            step = 1 / max(float(np.linalg.norm(gram, 2)), 1e-12)
            for _step in range(STEPS):
                W = W - data.dtype.type(step) * (W @ gram - cross)
                W = _shrink(W.T, step * gamma).T
            history.append(self._objective(data, W, H, sets, lam, gamma))
            if history[-2] - history[-1] < self.tol * history[0]:
                break
        self.components_, self.n_iter_, self.objective_history_ = H, len(history) - 1, np.array(history)
        return self

    @one_blas_thread()
    def transform(self, X: ArrayLike) -> Array:
        """Find the codes of samples.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_features)]

        Returns
        -------
        ndarray [shape=(n_samples, n_components)]
        """
        data: Array = check_array(X, dtype=[np.float64, np.float32])
        gram = self.components_ @ self.components_.T
        gram[np.diag_indices_from(gram)] += RIDGE * max(float(np.linalg.norm(gram, 2)), 1e-12)
        return np.asarray(np.linalg.solve(gram, self.components_ @ data.T).T)

    def _objective(self, X: Array, W: Array, H: Array, sets: list[Array], lam: float, gamma: float) -> float:
        loss = float(((X - W @ H) ** 2).sum(dtype=np.float64)) / len(X)
        peaks = sum(float(np.abs(H[:, columns]).max(axis=1).sum()) for columns in sets)
        return loss + lam * peaks + gamma * float(np.abs(W).max(axis=0).sum())


def _shrink(V: Array, threshold: float) -> Array:
    """Cut off the peaks of each row, whatever their sign."""
    return np.asarray(np.sign(V) * shrink_inf(np.abs(V), threshold), V.dtype)
