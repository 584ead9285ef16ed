"""Non-negative matrix factorisation with a choice of loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from visionnmf import _options
from visionnmf.engine._threads import one_blas_thread
from visionnmf.engine.alternate import Callback, fit, warn_not_converged
from visionnmf.engine.losses import loss_value
from visionnmf.engine.penalties import Box
from visionnmf.engine.solvers import SOLVERS, choose
from visionnmf.engine.starts import STARTS
from visionnmf.exceptions import ParameterError

from ._checks import check_choice, check_count, check_nonnegative

__all__ = ["NMF"]

Array = NDArray[Any]

# Means of X beyond which sums of squares or products of the factors over- or underflow.
SIZES = {"float32": 1e12, "float64": 1e100}


class NMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Non-negative matrix factorisation, robust by default.

    Finds codes ``W`` and components ``H`` with

    .. math:: \min_{W, H}\; \ell(X, W H) \quad \text{with } W, H \ge 0 \text{ or in a box}

    where the loss is the Manhattan distance ``sum |X - WH|`` (MahNMF, Guan et al. 2012), which outliers move
    little, the Frobenius loss ``1/2 sum (X - WH)^2``, or the Kullback-Leibler divergence
    ``sum X log(X / WH) - X + WH``.

    Rows of `X` are samples. Components have unit Euclidean norm unless a box other than ``(0, None)`` is set, so that
    the codes of different components can be compared: distances between unscaled codes are meaningless.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the smaller side of the data.
    loss : {"manhattan", "frobenius", "kullback-leibler"}, default="manhattan"
        Manhattan for data with outliers (occlusion, dead pixels, moving objects); Frobenius for clean Gaussian noise;
        Kullback-Leibler for counts.
    solver : {"auto", "admm", "rri", "hals", "ccd"}, default="auto"
        "admm" (continuation ADMM) and "rri" (coordinate descent by weighted medians) minimise the Manhattan loss,
        "hals" the Frobenius loss, "ccd" (cyclic coordinate descent) the Kullback-Leibler divergence. "auto" takes
        "admm" ("rri" for a single component), "hals" or "ccd".
    init : {"random", "nndsvd"}, default="random"
        Starting factors when none are given to `fit_transform`.
    bounds_W, bounds_H : tuple of (float, float or None), default=(0, None)
        Box of the codes and of the components, ``0 <= low < high``; None is no upper bound.
    max_iter : int, default=400
        Iterations. For "admm" it is also the length of the path along which the penalty grows: more iterations take
        smaller steps and find better solutions.
    tol : float, default=1e-4
        Stop when an iteration changes the solution by less, relative to the size of the problem (the solver's
        docstring says how it measures); 0 runs all iterations without a warning.
    random_state : int, RandomState instance or None, default=None
        Seed of the start. The same seed gives the same result for any number of threads, up to rounding.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each iteration; a true return value stops the fit.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n_features), >= 0]
        ``H``, in the dtype of the training data (float32 or float64).
    n_components_ : int
        The number of components.
    solver_ : str
        The solver that was used.
    n_iter_ : int
        Iterations run.
    reconstruction_err_ : float
        The loss at the solution.
    objective_history_ : ndarray [shape=(n_iter_ + 1,)]
        The loss before the first iteration and after each one; the last entry is of the codes solved for anew. But for
        that one it never rises for "rri" and "hals"; it may for "admm" and, by little, for "ccd".
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray [shape=(n_features_in_,)]
        Their names, when the training data had names that are all strings.

    See Also
    --------
    SymmetricNMF : Factorisation of an affinity matrix.
    sklearn.decomposition.NMF : Without a robust loss, with sparse data and any beta-divergence.

    Notes
    -----
    ``fit_transform(X)`` returns ``fit(X).transform(X)``, to the bit: the codes are solved for anew with the final
    components, which is a convex problem, and each row's codes do not depend on the other rows.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan Non-negative Matrix Factorization",
    arXiv:1207.3438, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import NMF
    >>> rng = np.random.default_rng(0)
    >>> clean = rng.gamma(0.5, size=(200, 3)) @ rng.gamma(0.5, size=(3, 100))
    >>> X = np.where(rng.random(clean.shape) < 0.2, clean.max(), clean)  # a fifth of the entries are lost
    >>> model = NMF(3, random_state=0).fit(X)
    >>> found = model.inverse_transform(model.transform(X))
    >>> bool(np.linalg.norm(found - clean) < 0.01 * np.linalg.norm(clean))
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        loss: str = "manhattan",
        solver: str = "auto",
        init: str = "random",
        bounds_W: tuple[float, float | None] = (0, None),
        bounds_H: tuple[float, float | None] = (0, None),
        max_iter: int = 400,
        tol: float = 1e-4,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.solver = solver
        self.init = init
        self.bounds_W = bounds_W
        self.bounds_H = bounds_H
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: ArrayLike, y: Any = None) -> NMF:
        """Find the components of `X`.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_features), >= 0, finite]
            float32 stays float32; everything else is made float64.
        y : Ignored
            For scikit-learn's pipelines.

        Returns
        -------
        NMF
            The fitted estimator.

        Raises
        ------
        ValueError
            When `X` holds NaN, infinity or negative numbers, its mean is beyond 1e12 (float32) or 1e100, or a parameter
            is not allowed.
        """
        self.fit_transform(X)
        return self

    def fit_transform(
        self, X: ArrayLike, y: Any = None, W: ArrayLike | None = None, H: ArrayLike | None = None
    ) -> Array:
        """Find the components of `X` and return its codes.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_features), >= 0, finite]
        y : Ignored
        W : array-like [shape=(n_samples, n_components), >= 0], optional
            Codes to start from; the start that `init` names when not given.
        H : array-like [shape=(n_components, n_features), >= 0], optional
            Components to start from, likewise.

        Returns
        -------
        ndarray [shape=(n_samples, n_components), >= 0]
            The codes ``W``.

        Raises
        ------
        ValueError
            When `X`, `W` or `H` hold NaN, infinity or negative numbers or do not fit together, or a parameter is not
            allowed.
        """
        data = self._check_data(X, reset=True)
        box_W, box_H, max_iter, tol = self._check_parameters()
        n_components = min(data.shape) if self.n_components is None else self.n_components
        solver = choose(self.solver, self.loss, n_components)
        Wt, H_ = STARTS[self.init](data, n_components, check_random_state(self.random_state))
        if W is not None:
            Wt = _start(W, "W", (data.shape[0], n_components), data.dtype).T.copy()
        if H is not None:
            H_ = _start(H, "H", (n_components, data.shape[1]), data.dtype).copy()
        np.clip(Wt, box_W.low, box_W.high, out=Wt)
        np.clip(H_, box_H.low, box_H.high, out=H_)
        with one_blas_thread():
            result = fit(
                data,
                Wt,
                H_,
                loss=self.loss,
                solver=solver,
                box_W=box_W,
                box_H=box_H,
                max_iter=max_iter,
                tol=tol,
                callback=self.callback,
            )
            if box_W.is_cone and box_H.is_cone:
                norms = np.linalg.norm(H_, axis=1, keepdims=True)
                H_ /= np.where(norms > 0, norms, 1)
            SOLVERS[solver].codes(data, Wt, H_, box_W=box_W)
            self.reconstruction_err_ = loss_value(data, Wt, H_, self.loss)
        if not result.converged and tol > 0:
            warn_not_converged("NMF", result, tol)
        self.components_ = H_
        self.n_components_ = n_components
        self.solver_ = solver
        self.n_iter_ = result.n_iter
        self.objective_history_ = np.array([*result.history[:-1], self.reconstruction_err_])
        return np.ascontiguousarray(Wt.T)

    def transform(self, X: ArrayLike) -> Array:
        """Find the codes of `X` for the fitted components.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_features), >= 0, finite]

        Returns
        -------
        ndarray [shape=(n_samples, n_components), >= 0]
            The codes ``W``; a row's codes do not depend on the other rows.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            When `X` holds NaN, infinity or negative numbers, or has another number of features.
        """
        check_is_fitted(self)
        H = self.components_
        data = self._check_data(X, reset=False)
        dtype = data.dtype
        Wt = np.empty((H.shape[0], data.shape[0]), dtype)
        box_W = self._check_parameters()[0]
        SOLVERS[self.solver_].codes(data, Wt, H.astype(dtype, copy=False), box_W=box_W)
        return np.ascontiguousarray(Wt.T)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Return the model ``W @ H`` of codes.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_components)]
            Codes ``W``.

        Returns
        -------
        ndarray [shape=(n_samples, n_features), >= 0]
        """
        check_is_fitted(self)
        W = np.asarray(X)
        if W.ndim != 2 or W.shape[1] != self.n_components_:
            raise ParameterError(f"X must have shape (n_samples, {self.n_components_}); got {W.shape}")
        return np.asarray(W @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _check_data(self, X: ArrayLike, *, reset: bool) -> Array:
        data: Array = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=reset)
        check_non_negative(data, "NMF (input X)")
        size, limit = float(data.mean(dtype=np.float64)), SIZES[data.dtype.name]
        if size and not 1 / limit <= size <= limit:
            word = "large" if size > 1 else "small"
            raise ParameterError(
                f"X has a mean of {size:.3g}, too {word} for products in {data.dtype.name}; divide X by its mean"
            )
        return data

    def _check_parameters(self) -> tuple[Box, Box, int, float]:
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        check_choice(self.loss, "loss", _options.LOSSES)
        check_choice(self.solver, "solver", _options.SOLVERS)
        check_choice(self.init, "init", _options.STARTS)
        return (
            Box.parse(self.bounds_W, "bounds_W"),
            Box.parse(self.bounds_H, "bounds_H"),
            check_count(self.max_iter, "max_iter"),
            check_nonnegative(self.tol, "tol"),
        )


def _start(value: ArrayLike, name: str, shape: tuple[int, int], dtype: Any) -> Array:
    array = np.asarray(value, dtype=dtype)
    if array.shape != shape:
        raise ParameterError(f"{name} must have shape {shape}; got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ParameterError(f"{name} must be finite and non-negative")
    return array
