"""Projective non-negative matrix factorisation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from visionnmf._checks import check_callable, check_choice, check_count, check_number, check_random_state, check_rank
from visionnmf._typing import Array
from visionnmf.engine import projective
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.starts import STARTS
from visionnmf.engine.stopping import Callback, warn_not_converged

from .data_checks import check_data
from .linear_model import LinearModel


@dataclass(eq=False, repr=False)
class ProjectiveNMF(LinearModel):
    r"""Projective non-negative matrix factorisation: the codes are a linear map of the data.

    Finds components ``H >= 0`` with

    .. math:: \min_{H \ge 0}\; \tfrac12 \|X - X H^T H\|_F^2 \quad \text{or} \quad
              \sum X \log \frac{X}{X H^T H} - X + X H^T H

    (Yuan & Oja 2005; their ``W`` is ``H.T``, because they put samples in columns). The components hardly overlap, so
    that each is a separate part and the codes say how much of it a sample has. They are sparser and more local than
    those of :class:`NMF`, and the codes of new samples are one matrix product.

    Rows of `X` are samples.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the smaller side of the data.
    loss : {"frobenius", "kullback-leibler"}, default="frobenius"
        Take Frobenius for Gaussian noise and Kullback-Leibler for counts.
    solver : {"l-bfgs", "mu"}, default="l-bfgs"
        "l-bfgs" is a quasi-Newton method whose objective never rises. "mu" is the paper's multiplicative update, with
        its errors corrected, which is slower and ends with a higher objective.
    init : str, default="nndsvdar"
        How the starting components are made, as in :class:`NMF`. From "random" a fit first stays for long where all
        components are alike.
    max_iter : int, default=1000
    tol : float, default=1e-3
    random_state : int, RandomState instance or None, default=None
    callback : callable or None, default=None
        As in :class:`NMF`.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n_features), >= 0]
        ``H``, in the dtype of the training data (float32 or float64).
    n_components_, n_iter_ : int
        The number of components and of iterations.
    reconstruction_err_ : float
        The loss at the solution.
    objective_history_ : ndarray [shape=(n_iter_ + 1,)]
        The loss before the first iteration and after each one.
    optimality_ : float
        How far the solution is from a stationary point, whatever the data's scale; 0 is converged.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    NMF : Optimises the codes of each sample, and has robust losses.

    References
    ----------
    Z. Yuan, E. Oja, "Projective Nonnegative Matrix Factorization for Image Compression and Feature Extraction",
    Scandinavian Conference on Image Analysis, LNCS 3540, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import ProjectiveNMF
    >>> parts = np.kron(np.eye(2), np.ones(3))  # two parts of three pixels
    >>> X = np.random.default_rng(0).random((50, 2)) @ parts
    >>> model = ProjectiveNMF(2, random_state=0).fit(X)
    >>> bool(np.allclose(model.inverse_transform(model.transform(X)), X, atol=1e-3))
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    loss: str = "frobenius"
    solver: str = "l-bfgs"
    init: str = "nndsvdar"
    max_iter: int = 1000
    tol: float = 1e-3
    random_state: Any = None
    callback: Callback | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> ProjectiveNMF:
        """Find the components of dense `X` >= 0; float32 stays float32, everything else is converted to float64.

        Raises ValueError if `X` holds NaN, infinity or negative numbers, its mean is beyond 1e12 (float32) or 1e70, or
        a parameter is not allowed.
        """
        data: Array = check_data(self, X, reset=True, sparse=False)[0]
        self._check_parameters()
        n_components = min(data.shape) if self.n_components is None else int(self.n_components)
        with one_blas_thread():  # otherwise rounding in the start would depend on the number of threads
            H = STARTS[self.init](data, n_components, check_random_state(self.random_state))[1]
        result = projective.fit(
            data, H, loss=self.loss, solver=self.solver, max_iter=self.max_iter, tol=self.tol, callback=self.callback
        )
        if not result.converged and self.tol > 0:
            warn_not_converged("ProjectiveNMF", result, self.tol)
        self.components_ = H
        self.n_components_ = n_components
        self.n_iter_ = result.n_iter
        self.objective_history_ = np.array(result.history)
        self.reconstruction_err_ = result.history[-1]
        self.optimality_ = projective.optimality(data, H, loss=self.loss)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return the codes ``X H^T`` (n_samples, n_components)."""
        check_is_fitted(self)
        data: Array = check_data(self, X, reset=False, sparse=False)[0]
        return np.asarray(data @ self.components_.T.astype(data.dtype, copy=False))

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed, whatever the data are."""
        check_rank(self.n_components)
        check_choice(self.loss, "loss", list(projective.SLOPES))
        check_choice(self.solver, "solver", list(projective.SOLVERS))
        check_choice(self.init, "init", list(STARTS))
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol")
        check_callable(self.callback, "callback")
