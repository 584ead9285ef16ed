"""Non-negative matrix factorisation of several views of the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import check_choice, check_number, check_random_state
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError

from ._data import check_missing_values, find_loss
from ._store import Saveable
from .codes_prior import complete_codes, complete_views, fill_entries, learn_prior
from .group_fit import fit_views, group_form, scaled_views
from .nmf import NMF
from .view_outliers import judge_new, judge_training, leave_out
from .view_scales import check_view_weight, choose_view_weights, view_sizes
from .view_usage import plot_usage, sparseness, usage, view_errors
from .views import Given, check_loaded, check_views, part_views, same_views, split_views

__all__ = ["MultiviewNMF"]

Array = NDArray[Any]


class MultiviewNMF(Saveable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Robust NMF of several views that tells which view uses which component.

    All views share the codes ``W``; each has its own part ``H_v`` of the components:

    .. math:: \min_{W, H \ge 0}\; \sum_v \ell(s_v X_v, W H_v) + \eta \sum_v g_v \sum_k \|H_{v,k}\|_p
              + \tfrac{\lambda}{2} \|W\|_F^2

    or with ``sum_k |H_{v,k}|_p <= gamma_v`` in place of the second term (MahNMF-GS: Guan et al. 2012, section 4.3). A
    whole block ``H_{v,k} = 0`` says that view v does not use component k: components are shared by all views, by some,
    or private to one. The fit has two steps: without these terms, then with them from where the first has ended.

    Fitted on training samples, it finds the codes of any others from whichever views they have. Views that are missing,
    or left out, are first filled in by what the others let expect, with training codes and noise taken for normal. In
    training, where components are more than a third of the samples, so they are before the fit, by a smaller one.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the smaller side of the data.
    groups : None, sequence of (array-like of int or slice), array-like [shape=(n_features,)] or dict, default=None
        The views of a single matrix: the indices of each, the label of each feature, or a name with indices (or column
        names) each. None where views come apart.
    loss : str or float, default="manhattan"
        As for :class:`NMF`.
    loss_parameter : float or None, default=None
        As for :class:`NMF`.
    scale : {"energy", "noise", "none"}, default="energy"
        What each view is divided by: the root mean square norm of its samples, so that views of any size and unit count
        alike; or the mean absolute residual of its own NMF, so that views with less noise count more; or nothing.
    view_weight : None, "cv", sequence or dict of float, default=None
        What each scaled view is multiplied by, > 0. "cv" chooses by how well entries that were hidden are foretold, by
        all views.
    group_norm : {2, "inf"}, default=2
        ``p``: 2 shrinks blocks as a whole, "inf" (the paper's) cuts off their peaks.
    group_l1 : float, default=0.1
        ``eta`` of the penalty form, >= 0, in units of what noise pulls at a block that is not in use: ``g_v`` is
        ``sqrt(n_samples d_v)`` for a view of ``d_v`` features, ``sqrt(n_samples) d_v`` for "inf", and the codes of a
        component are held near 1. Larger makes more blocks zero, and shrinks the others. 0 leaves the penalty out.
    group_bound : float or None, default=None
        Constraint form: ``gamma_v`` as a share of what a random start has, > 0; the paper has .01. It takes the place
        of the penalty.
    codes_l2 : float, default=1
        ``lambda``, > 0, in shares of what balances `group_l1` where codes are near 1. Of the constraint form it is the
        only thing that matters: without a counterweight larger codes would make up for smaller components.
    nuclear : float, default=0
        As for :class:`NMF`: superfluous components do not fit outliers.
    view_outliers : float or None, default=None
        A sample's view whose mean absolute residual is so many robust deviations above its median (Hampel) is left out,
        as if missing. 3 finds noise and, of three views or more, a few of other samples; .4 % of clean ones go (up to
        3 % of a view; 4 % of new ones by least squares). None, or fewer than 12 training samples: every view counts.
    missing_values : None or numpy.nan, default=None
        ``numpy.nan``: NaN are missing entries, a row of them a missing view. None: NaN are refused.
    solver : str, default="auto"
    init : {"random", "nndsvd", "nndsvda", "nndsvdar"}, default="random"
    n_init : int, default=1
    max_iter : int, default=400
    tol : float, default=1e-4
        As for :class:`NMF`. The second step has a quarter of the iterations.
    random_state : int, RandomState instance or None, default=None
        Seed of the start and of hidden entries.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n_features), >= 0]
        ``H`` in the units of the data, the views side by side.
    views_ : ndarray of str [shape=(n_views,)]
        Names of the views; their numbers where they have none.
    view_groups_ : ndarray of int [shape=(n_features,)]
        The view of each feature.
    view_scales_ : ndarray [shape=(n_views,), > 0]
        ``s_v``: what each view is multiplied by.
    view_weights_ : ndarray [shape=(n_views,), > 0]
        The weights of the views, given or chosen.
    view_usage_ : ndarray [shape=(n_components, n_views), 0 to 1]
        Share of each component's energy in each view, after scaling; 0 where a view does not use it: where its
        block is zero, or was less than 1 %. Rows sum to 1, but for components that no view uses.
    view_errors_ : ndarray [shape=(n_views,)]
        Sum of the absolute residuals of each view, in shares of the sum of its data.
    outlying_views_ : ndarray of bool [shape=(n_samples, n_views)]
        Views of training samples that were left out; with `view_outliers`.
    view_residuals_ : ndarray [shape=(n_views, 2)]
        Median and robust standard deviation of each view's residuals by models of other samples, likewise.
    codes_mean_, codes_covariance_ : ndarray [shape=(n_components,) and (n_components, n_components)]
    view_noise_ : ndarray [shape=(n_views,), > 0]
        Of the training codes, and the mean square of each view's residuals: what missing views are foretold by.
    component_norms_ : ndarray [shape=(n_components,)]
    loss_parameter_ : float
    n_components_ : int
    objective_history_ : ndarray
    optimality_ : float
    reconstruction_err_ : float
        As for :class:`NMF`, of the scaled views in the second step, what was filled in before it included.
    n_iter_ : int
        Iterations run, in both steps.
    solver_ : str
        The solver that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray [shape=(n_features_in_,)]
        Of all views; names when a single matrix had some that are all strings.

    See Also
    --------
    NMF : One view, or views side by side.
    Penalty : Groups of features and of samples, for :class:`NMF`.

    Notes
    -----
    Sparse views stay sparse where all are and a solver takes them with the penalty; else they are made dense.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan Non-negative Matrix Factorization", arXiv:1207.3438.
    F. R. Hampel, "The Influence Curve and its Role in Robust Estimation", J. Am. Stat. Assoc., 1974.
    Y. Jia, M. Salzmann, T. Darrell, "Factorized Latent Spaces with Structured Sparsity", NIPS, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import MultiviewNMF
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.gamma(0.5, size=(200, 3))
    >>> sounds = codes[:, :2] @ rng.random((2, 30))  # the third part is private to the images
    >>> images = codes @ rng.random((3, 50))
    >>> model = MultiviewNMF(3, random_state=0).fit({"sounds": sounds, "images": images})
    >>> sorted((model.view_usage_ > 0).sum(axis=1).tolist())
    [1, 2, 2]
    >>> model.transform({"images": images}).shape  # sounds are missing
    (200, 3)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        groups: Any = None,
        loss: str | float = "manhattan",
        loss_parameter: float | None = None,
        scale: str = "energy",
        view_weight: Any = None,
        group_norm: Any = 2,
        group_l1: float = choices.VIEW_SPARSITY,
        group_bound: float | None = None,
        codes_l2: float = 1.0,
        nuclear: float = 0.0,
        view_outliers: float | None = None,
        missing_values: float | None = None,
        solver: str = "auto",
        init: str = "random",
        n_init: int = 1,
        max_iter: int = 400,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.groups = groups
        self.loss = loss
        self.loss_parameter = loss_parameter
        self.scale = scale
        self.view_weight = view_weight
        self.group_norm = group_norm
        self.group_l1 = group_l1
        self.group_bound = group_bound
        self.codes_l2 = codes_l2
        self.nuclear = nuclear
        self.view_outliers = view_outliers
        self.missing_values = missing_values
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        record = find_loss(self.loss)
        tags.input_tags.sparse = record is not None and record.sparse is not None
        tags.input_tags.allow_nan = self.missing_values is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None, observed: ArrayLike | None = None) -> MultiviewNMF:
        """Find the components of the views.

        Parameters
        ----------
        X : list or dict of array-like [shape=(n_samples, n_features of the view), >= 0], or one matrix
            The views, dense, sparse or data frames, rows matched by position; a data frame whose columns have two
            levels, view and feature; or one matrix with `groups`. float32 stays float32.
        y : Ignored
        observed : array-like of bool [shape=(n_samples, n_views)], optional
            False where a sample's view is missing, whatever `X` holds there.

        Returns
        -------
        MultiviewNMF
            The fitted estimator.

        Raises
        ------
        ValueError
            For NaN (but see `missing_values`), infinity or negative numbers, views of different numbers of samples, a
            sample or a view that is missing wholly, or a parameter that is not allowed.
        TooLargeError
            When they are dense, have more than 64 MiB together, and less memory is free than twice as much.
        """
        self._fit_views(X, observed)
        return self

    def fit_transform(self, X: Any, y: Any = None, observed: ArrayLike | None = None) -> Array:
        """Find the components of the views, and return the codes.

        Parameters
        ----------
        X : list or dict of array-like, or one matrix
        y : Ignored
        observed : array-like of bool [shape=(n_samples, n_views)], optional
            See :meth:`fit`.

        Returns
        -------
        ndarray [shape=(n_samples, n_components), >= 0]
            The codes ``W``, as :meth:`transform` finds them.

        Raises
        ------
        ValueError
            As :meth:`fit`.
        """
        return complete_codes(self, *self._fit_views(X, observed))

    def transform(self, X: Any, observed: ArrayLike | None = None) -> Array:
        """Find the codes of samples from the views that they have.

        Parameters
        ----------
        X : list or dict of array-like, or one matrix
            As for :meth:`fit`. A view that is missing for all samples may be None, or its key absent.
        observed : array-like of bool [shape=(n_samples, n_views)], optional
            False where a sample's view is missing.

        Returns
        -------
        ndarray [shape=(n_samples, n_components), >= 0]
            The codes ``W``; a row's codes do not depend on the other rows, but for rounding where views are missing.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            As :meth:`fit`; for views that were not there in training, or of other numbers of features.
        """
        data, entries = self._new(X, observed)[1:]
        return self._solve(data, entries)

    def outlying_views(self, X: Any, observed: ArrayLike | None = None) -> Array:
        """Return which views of new samples :meth:`transform` leaves out.

        Parameters
        ----------
        X : list or dict of array-like, or one matrix
        observed : array-like of bool [shape=(n_samples, n_views)], optional
            See :meth:`transform`.

        Returns
        -------
        ndarray of bool [shape=(n_samples, n_views)]
            All False without `view_outliers`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            As :meth:`transform`.
        """
        return self._judge(*self._new(X, observed)[1:])[1]

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Return the model of the views, in the units of the data.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_components)]
            Codes ``W``.

        Returns
        -------
        ndarray [shape=(n_samples, n_features)], or list or dict of ndarray
            As the training data came.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            When `X` has another number of columns than there are components.
        """
        check_is_fitted(self)
        W = np.asarray(X)
        if W.ndim != 2 or W.shape[1] != len(self.components_):
            raise ParameterError(f"X must have shape (n_samples, {len(self.components_)}); got {W.shape}")
        with one_blas_thread():
            return part_views(W @ self.components_, self.views_, self.view_groups_, self.view_form_)

    def impute(self, X: Any, observed: ArrayLike | None = None) -> Any:
        """Fill in missing views and entries by the model of those that are there.

        Parameters
        ----------
        X : list or dict of array-like, or one matrix
        observed : array-like of bool [shape=(n_samples, n_views)], optional
            See :meth:`transform`.

        Returns
        -------
        ndarray, or list or dict of ndarray
            The data as they came, dense, with the model's values where something was missing.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            As :meth:`transform`.
        """
        form, data, entries = self._new(X, observed)
        if entries is None:
            filled = data.toarray() if sp.issparse(data) else data.copy()
        else:
            filled = fill_entries(data, entries, self._solve(data, entries), self.components_)
        return part_views(filled, self.views_, self.view_groups_, form)

    def sparseness(self) -> Array:
        r"""Return how few features of each view each component has (Hoyer 2004; MahNMF's equation 65).

        ``(sqrt(N) - |x|_1 / |x|_2) / (sqrt(N) - 1)`` of each block x of N entries.

        Returns
        -------
        ndarray [shape=(n_components, n_views), 0 to 1]
            0 for blocks whose entries are all alike, 1 for one entry or none.
        """
        check_is_fitted(self)
        return sparseness(self.components_, self.view_groups_, len(self.views_))

    def plot_view_usage(self, ax: Any = None) -> Any:
        """Draw which view uses which component.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure when not given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ImportError
            Without matplotlib, which is in the extra ``plots``.
        """
        check_is_fitted(self)
        return plot_usage(self.view_usage_, self.views_.tolist(), ax)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _check_parameters(self) -> None:
        """Check what needs no data."""
        check_choice(self.scale, "scale", choices.VIEW_SCALES)
        check_number(self.group_l1, "group_l1")
        check_number(self.codes_l2, "codes_l2", without_low=True)
        if self.group_bound is not None:
            check_number(self.group_bound, "group_bound", without_low=True)
        if self.group_norm not in (2, "inf", np.inf):
            raise ParameterError(f"group_norm must be 2 or 'inf'; got {self.group_norm!r}")
        if self.view_outliers is not None:
            check_number(self.view_outliers, "view_outliers", without_low=True)
        check_missing_values(self.missing_values)
        self._model()._check_parameters()

    def _check_state(self) -> None:
        """Raise ValueError when the views of a model of a file do not fit it."""
        check_loaded(self)

    def _new(self, X: Any, observed: ArrayLike | None) -> tuple[str, Any, Array | None]:
        """Check new samples; return their form, the data with 0 for missing entries, and which entries are there."""
        check_is_fitted(self)
        given = same_views(X, self.views_.tolist(), self.view_groups_)
        return given.form, *check_views(self, given, observed, reset=False, missing=self.missing_values)

    def _fit_views(self, X: Any, observed: ArrayLike | None) -> tuple[Any, Array | None, Array, Array]:
        """Fit; return the data, their entries, the codes by the views that count, and views that do not."""
        self._check_parameters()
        given = split_views(X, self.groups)
        groups, n_views = given.groups, len(given.names)
        weights = check_view_weight(self.view_weight, given.names)
        X, there = check_views(self, given, observed, reset=True, missing=self.missing_values)
        data, entries = X, None if there is None else there.astype(X.dtype)
        if self.view_outliers is not None:
            known = np.ones(n_views) if weights is None else weights
            self.outlying_views_, self.view_residuals_ = judge_training(
                X, entries, groups, known, self._model(), self.view_outliers
            )
            data, entries = leave_out(X, entries, ~self.outlying_views_, groups)
        alone = self._model() if self.scale == "noise" else None
        sizes = np.ones(n_views) if self.scale == "none" else view_sizes(data, entries, groups, n_views, alone)
        if weights is None:
            rng = check_random_state(self.random_state)
            weights = choose_view_weights(
                data, entries, groups, lambda w, shown: self._fit(data, shown, w / sizes, groups), n_views, rng
            )
        whole = complete_views(self._model(), data, entries, there, weights / sizes, groups)
        model, scales = self._fit(*whole, weights / sizes, groups)
        self._keep(model, given, scales, weights)
        codes, outlying = self._judge(X, there)
        seen = data, entries, codes, self.components_, groups, n_views
        self.view_errors_ = view_errors(*seen)
        self.codes_mean_, self.codes_covariance_, self.view_noise_ = learn_prior(*seen)
        return X, there, codes, outlying

    def _solve(self, data: Any, entries: Array | None) -> Array:
        return complete_codes(self, data, entries, *self._judge(data, entries))

    def _judge(self, data: Any, entries: Array | None) -> tuple[Array, Array]:
        """Return codes by the views that belong to their samples, and which do not."""
        usual = None if self.view_outliers is None else self.view_residuals_
        known = self.components_, self.view_groups_, len(self.views_), usual, self.view_outliers
        return judge_new(data, entries, self._codes, *known)

    def _fit(self, data: Any, entries: Array | None, scales: Array, groups: Array) -> tuple[NMF, Array]:
        known = self.group_norm, self.group_l1, self.group_bound, self.codes_l2
        return fit_views(self._model(), data, entries, scales, groups, group_form(groups, len(scales), *known))

    def _model(self) -> NMF:
        shared = ("loss", "loss_parameter", "solver", "init", "nuclear", "n_init", "max_iter", "tol", "random_state")
        return NMF(self.n_components, **{name: getattr(self, name) for name in shared})

    def _keep(self, model: NMF, given: Given, scales: Array, weights: Array) -> None:
        """Set the attributes of a fit; components get unit norm in the scaled views."""
        norms = np.linalg.norm(model.components_, axis=1)
        norms[norms == 0] = 1
        H = model.components_ / norms[:, None]
        self.ridge_ = model.ridge_ + (0.0 if model.penalty_W is None else model.penalty_W.l2)
        self.views_ = np.array(given.names, object)
        self.view_groups_, self.view_form_ = given.groups, given.form
        self.view_scales_, self.view_weights_ = scales, weights
        self.components_ = H / scales[given.groups].astype(H.dtype)
        self.component_norms_ = model.component_norms_ * norms
        self.view_usage_ = usage(H, given.groups, len(given.names))
        names = "loss_parameter_ n_components_ n_iter_ objective_history_ optimality_ reconstruction_err_ solver_"
        for name in names.split():
            setattr(self, name, getattr(model, name))

    def _codes(self, data: Any, entries: Array | None) -> Array:
        model = self._model()
        H = self.components_ * self.view_scales_[self.view_groups_].astype(self.components_.dtype)
        model.components_, model.component_norms_, model.n_features_in_ = H, self.component_norms_, H.shape[1]
        model.loss_parameter_, model.ridge_, model.solver_ = self.loss_parameter_, self.ridge_, self.solver_
        return model.transform(scaled_views(data, self.view_scales_[self.view_groups_]), weights=entries)
