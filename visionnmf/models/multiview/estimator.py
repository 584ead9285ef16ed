"""Non-negative matrix factorisation of several views of the same samples."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import (
    check_choice,
    check_flag,
    check_number,
    check_random_state,
    check_rank,
    check_saved,
    check_texts,
    check_type,
)
from visionnmf._progress import Progress
from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import norms_of
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.stopping import Callback, PrintedProgress
from visionnmf.exceptions import ParameterError
from visionnmf.models.data_checks import check_loss, check_missing_values, find_loss, fitted_loss, is_dask
from visionnmf.models.linear_model import LinearModel, check_code_matrix
from visionnmf.models.model_files import FACTORED, check_factored
from visionnmf.models.nmf import NMF

from . import dask_views
from .components import (
    CodesPrior,
    Components,
    GroupSparsity,
    find_all_codes,
    fit_components,
    learn_prior,
    second_iterations,
    warn_once,
)
from .frames import as_frame, labelled_codes, labels_of
from .missing_views import complete_codes, complete_views, fill_entries
from .view_measures import (
    given_weights,
    sparseness,
    usage,
    view_energies,
    view_errors,
    warn_of_units,
    weights_without_noise,
)
from .views import Views, check_views, given_views, in_dask, join_new, join_training, new_views

FINDING = "finding the components"  # as a stage of progress
SECOND = "second step, in which views may stop using components"  # where `verbose` reports it


class Start(NamedTuple):
    """What a fit begins with: an unfitted NMF, the training views, their weights, and what they are multiplied by."""

    model: NMF
    views: Views
    weights: Array
    scales: Array


@dataclass(eq=False, repr=False)
class MultiviewNMF(LinearModel):
    r"""Robust NMF of several views of the same samples, which tells which view uses which component.

    All views share the codes ``W``; each has its own part ``H_v`` of the components:

    .. math:: \min_{W, H \ge 0}\; \sum_v \ell(s_v X_v, W H_v) + \eta \sum_v g_v \sum_k \|H_{v,k}\|_p
              + \tfrac{\lambda}{2} \|W\|_F^2

    or with ``sum_k |H_{v,k}|_p <= gamma_v`` instead of the second term (MahNMF-GS: Guan et al. 2012, section 4.3). If a
    whole block ``H_{v,k}`` is 0, view v does not use component k. So components are shared by all views, by some, or
    private to one. A fit has two steps: first without these terms, then with them from the solution of the first.

    After a fit the model finds the codes of any other samples, from whichever views they have. Views that are missing
    are first filled in by what the others let expect, where the training codes and the noise are taken for normal. If
    there are many components, more than a third of the samples, missing views of training samples are filled in before
    the fit, by a smaller fit.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components. None takes 20, or the number of samples or of features if that is smaller.
    groups : None, sequence of (array-like of int or slice), array-like [shape=(n_features,)] or dict, default=None
        The views of a single matrix: the indices of each, the label of each feature, or indices by name. None if the
        views are given separately.
    loss : str or float, default="manhattan"
    loss_parameter : float or None, default=None
        As for :class:`NMF`. Without outliers in the data, "frobenius" is faster and usually better.
    scale : {"energy", "none"}, default="energy"
        What each view is divided by. "energy" is the root mean square norm of its samples, so that views of any size
        and unit count alike.
    view_weight : None, sequence or dict of float, default=None
        What each scaled view is multiplied by, > 0. None is 1, but 0 for a view of noise, which a warning names: of at
        least 40 samples, its features are related neither to each other nor to the other views. Such a view is left
        out, and its entries are predicted as 0. If all views look like noise, all are kept without a warning. Numbers
        turn this search off.
    group_norm : {2, "inf"}, default=2
        ``p``: 2 shrinks blocks as a whole, "inf" (the paper's choice) cuts off their peaks.
    group_l1 : float, default=0.1
        ``eta`` of the penalty form, >= 0, in units of the force with which noise pulls at an unused block: ``g_v`` is
        ``sqrt(n_samples d_v)`` for a view of ``d_v`` features, or ``sqrt(n_samples) d_v`` for "inf", and the codes of a
        component are held near 1. Larger values make more blocks zero and shrink the others; 0 is no penalty.
    group_bound : float or None, default=None
        Constraint form, which replaces the penalty: ``gamma_v`` as a share of its value at a random start, > 0. The
        paper has 0.01.
    codes_l2 : float, default=1
        ``lambda``, > 0, as a share of the weight that balances `group_l1` when codes are near 1. In the constraint form
        it alone matters: without it, larger codes would make up for smaller components.
    nuclear : float, default=0
        As for :class:`NMF`; it keeps superfluous components from fitting outliers.
    missing_values : None or numpy.nan, default=None
        With ``numpy.nan``, NaN are missing entries, and a row of them is a missing view. None refuses NaN.
    solver : str, default="auto"
    init : {"random", "nndsvd", "nndsvda", "nndsvdar"}, default="random"
    n_init : int, default=1
    max_iter : int, default=400
    tol : float, default=1e-3
        As for :class:`NMF`. The second step has the iterations that the first left, at least a quarter.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each iteration; those of the second step are counted on. A
        true return value ends the step.
    verbose : int or bool, default=0
        As for :class:`NMF`; a line says where the second step begins.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n_features), >= 0]
        ``H`` in the units of the data, the views side by side.
    views_ : ndarray of str [shape=(n_views,)]
        Names of the views, or their numbers if they have no names.
    view_groups_ : ndarray of int [shape=(n_features,)]
        The number of the view of each feature.
    view_scales_, view_weights_ : ndarray [shape=(n_views,), >= 0]
        ``s_v``, what each view is multiplied by in all, and the weights in it, given or 0 for noise.
    view_usage_ : ndarray [shape=(n_components, n_views), 0 to 1]
        Share of each component's energy in each scaled view, and 0 if the view does not use it because its block is
        zero or has less than 1 %. Rows sum to 1, except those of components that no view uses.
    view_errors_ : ndarray [shape=(n_views,)]
        What the model leaves of each view: its loss as a share of the loss of the best constants, one for each feature
        (means for a beta-divergence, medians for the robust losses). 0 is a perfect model, and 1 one that says no more
        than the constants. A view that is constant itself is compared with a model of zeros.
    codes_mean_, codes_covariance_, view_noise_ : ndarray
        Mean and covariance of the training codes, and the mean square of each view's residuals. They say what missing
        views probably hold.
    component_norms_, loss_parameter_, n_components_, objective_history_, optimality_, reconstruction_err_, solver_
        As for :class:`NMF`, of the scaled views in the second step, including what was filled in before it.
    n_iter_ : int
        Number of iterations of both steps.
    n_features_in_, feature_names_in_
        As in scikit-learn: the number of features of all views together, and the names of those of a single matrix.
    view_feature_names_ : list
        For each view the names of its features, or None if it was not a data frame or its columns have other names
        than text. Empty for a single matrix.
    view_frames_ : list of bool
        Whether each view was a data frame.

    Notes
    -----
    To classify samples, use :class:`~visionnmf.ViewClassifier`, which takes the views as well as the codes. The codes
    alone classify about as well as those of a least-squares NMF of the scaled views side by side, sometimes worse.

    Sparse views stay sparse if all of them are sparse and a solver takes them with the penalty. Otherwise they are made
    dense.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan Non-negative Matrix Factorization", arXiv:1207.3438.
    Y. Jia, M. Salzmann, T. Darrell, "Factorized Latent Spaces with Structured Sparsity", NIPS, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import MultiviewNMF
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.gamma(0.5, size=(200, 3))
    >>> sounds = codes[:, :2] @ rng.random((2, 30))  # the third component is private to the images
    >>> images = codes @ rng.random((3, 50))
    >>> model = MultiviewNMF(3, random_state=0).fit({"sounds": sounds, "images": images})
    >>> sorted((model.view_usage_ > 0).sum(axis=1).tolist())
    [1, 2, 2]
    >>> model.transform({"images": images}).shape  # the sounds are missing
    (200, 3)
    """

    saved_attributes = (*LinearModel.saved_attributes, *FACTORED)
    saved_attributes = (*saved_attributes, "views_", "view_groups_", "view_form_", "view_feature_names_")
    saved_attributes = (*saved_attributes, "view_frames_", "view_scales_", "view_noise_", "codes_mean_")
    saved_attributes = (*saved_attributes, "codes_covariance_", "view_errors_", "view_usage_", "view_weights_")

    n_components: int | None = None
    _: KW_ONLY
    groups: Any = None
    loss: str | float = "manhattan"
    loss_parameter: float | None = None
    scale: str = "energy"
    view_weight: Any = None
    group_norm: Any = 2
    group_l1: float = choices.VIEW_SPARSITY
    group_bound: float | None = None
    codes_l2: float = 1.0
    nuclear: float = 0.0
    missing_values: float | None = None
    solver: str = "auto"
    init: str = "random"
    n_init: int = 1
    max_iter: int = 400
    tol: float = 1e-3
    random_state: Any = None
    callback: Callback | None = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        record = find_loss(self.loss)
        # whether the loss takes sparse data whose zeros count as much as other entries (weight 1)
        tags.input_tags.sparse = record is not None and record.sparse is not None
        tags.input_tags.allow_nan = self.missing_values is not None
        return tags

    def fit(
        self, X: Any, y: Any = None, observed: ArrayLike | None = None, progress: Progress | None = None
    ) -> MultiviewNMF:
        """Find the components of the views.

        Parameters
        ----------
        X : list or dict of array-like [shape=(n_samples, n_features of the view), >= 0], or one matrix
            The views, dense, sparse, data frames or Dask arrays, whose rows are matched by position; or one matrix with
            `groups`. Data frames must have the same index, and a dict text as keys. float32 stays float32. Of Dask
            arrays 10,000 samples give scales and noise.
        y : Ignored
        observed : array-like of bool [shape=(n_samples, n_views)], optional
            False where a sample's view is missing, whatever `X` holds there.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` after each iteration that finds the components.

        Raises
        ------
        ValueError
            If the views hold NaN (but see `missing_values`), infinity or negative numbers, have different numbers of
            samples or different indices, a sample or a view is missing altogether, or a parameter is not allowed.
        """
        if in_dask(X):
            self._fit_blocks(X, observed, progress)
        else:
            self._fit(X, observed, progress)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, observed: ArrayLike | None = None, progress: Progress | None = None
    ) -> Array:
        """Find the components as :meth:`fit` does, and return the codes as :meth:`transform` finds them."""
        if in_dask(X):
            return self.fit(X, None, observed, progress).transform(X, observed)
        views, codes = self._fit(X, observed, progress)
        return labelled_codes(self._codes(views, codes), X, self)

    def transform(self, X: Any, observed: ArrayLike | None = None) -> Array:
        """Return the codes ``W`` (n_samples, n_components) of samples from the views that they have.

        `X` and `observed` are as for :meth:`fit`. A view that is missing for all samples may be None in a list or a
        dict, or its key may be absent; it is predicted from the others without a warning. The codes of a row do not
        depend on the other rows, except for rounding if views are missing. With ``set_output(transform="pandas")``, the
        codes have the index of the views' data frames.

        A warning names a view whose values have more than five times the size of those in training, or less than a
        fifth, as in other units. Raises ValueError as :meth:`fit`, and for views that the training samples did not
        have, or had with other features or other names of features.
        """
        if in_dask(X):
            check_is_fitted(self)
            join_new(self, dask_views.empty_views(X))  # raises for other views or features than those of training
            return dask_views.transform_blocks(self, X, observed)
        return labelled_codes(self._codes(new_views(self, X, observed)), X, self)

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Return the reconstruction that belongs to the codes `X`, in units and form of the training data.

        Views that were data frames in training become data frames; their rows have the index of the codes if these are
        a data frame, and are numbered if not.
        """
        check_is_fitted(self)
        if isinstance(X, Mapping):
            raise ParameterError("X must be the codes of samples; got a dict; views get codes by transform")
        if is_dask(X):
            views = super().inverse_transform(X)
            return dask_views.split_views(views, self.view_groups_, self.views_.tolist(), self.view_form_)
        W = check_code_matrix(X, self.get_feature_names_out())
        with one_blas_thread():
            reconstruction = W @ self.components_
        return self._restore(reconstruction, {}, labels_of([X]))

    def impute(self, X: Any, observed: ArrayLike | None = None) -> Any:
        """Fill in missing views and entries of what :meth:`transform` takes by what the model predicts from the others.

        Returns
        -------
        ndarray, or list or dict of ndarray or data frame
            All views in the form of the training data, dense, with predicted values where something was missing. Views
            that were data frames in training are data frames, with the index of those in `X`.
        """
        views = new_views(self, X, observed)
        codes = np.empty(0)
        if views.entries is not None:  # otherwise nothing is missing, and the codes are not needed
            codes = self._codes(views)
        filled = fill_entries(views, codes, self.components_)
        given = given_views(X, self.views_.tolist())
        return self._restore(filled, given, labels_of(given.values()))

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

    def _check_parameters(self) -> None:
        """Raise ParameterError for parameters that are wrong whatever the data are."""
        check_loss(self.loss, self.loss_parameter, np.ones(1))  # ones stand for data
        check_rank(self.n_components)
        check_choice(self.scale, "scale", choices.VIEW_SCALES)
        check_choice(self.init, "init", choices.STARTS)
        check_number(self.group_l1, "group_l1")
        check_number(self.codes_l2, "codes_l2", without_low=True)  # > 0
        if self.group_bound is not None:
            check_number(self.group_bound, "group_bound", without_low=True)  # > 0
        if self.group_norm not in (2, "inf", np.inf):
            raise ParameterError(f"group_norm must be 2 or 'inf'; got {self.group_norm!r}")
        check_missing_values(self.missing_values)
        self._plain_model().set_params(callback=self.callback, verbose=self.verbose)._check_parameters()

    def _plain_model(self, rank: int | None = None) -> NMF:
        """Return an unfitted NMF of `rank` components with the parameters that it shares with this estimator."""
        shared = ("loss", "loss_parameter", "solver", "init", "nuclear", "n_init", "max_iter", "tol", "random_state")
        model = NMF(rank or self.n_components, **{name: getattr(self, name) for name in shared})
        return model.set_output(transform="default")  # its codes stay arrays, whatever scikit-learn's global setting is

    def _fit(self, X: Any, observed: ArrayLike | None, progress: Progress | None) -> tuple[Views, Array]:
        """Fit the model to views in memory; return these and their codes by the entries that count."""
        self._check_parameters()
        start = self._begin(X, observed)
        views = start.views
        complete = views if views.entries is None else complete_views(start.model, views, start.scales)
        return views, self._learn(start, complete, progress)

    def _fit_blocks(self, X: Any, observed: Any, progress: Progress | None) -> None:
        """Fit the model to views in Dask arrays: all samples give the components, and some of them judge the views."""
        self._check_parameters()
        if self.group_bound is not None:
            got = f"{self.group_bound!r}; use group_l1"
            raise ParameterError(f"group_bound must be None for views in Dask arrays; got {got}")
        start = self._begin(*dask_views.sample_views(X, observed, check_random_state(self.random_state)))
        whole = dask_views.hide_missing(dask_views.join_blocks(X), observed, start.views.groups)
        start.model.set_params(missing_values=np.nan if observed is not None else self.missing_values)
        self._learn(start, replace(start.views, data=whole, entries=None), progress, in_memory=start.views)

    def _begin(self, X: Any, observed: ArrayLike | None) -> Start:
        """Return the checked training views and what is known before the fit; set what `X` says of their form."""
        joined = join_training(X, self.groups)
        rank = self.n_components or min((choices.VIEW_COMPONENTS, *np.shape(joined.X)))
        self.view_feature_names_ = list(joined.feature_names)
        self.view_frames_ = list(joined.framed) or [False] * len(joined.names)
        views = check_views(self, joined, observed, reset=True, missing=self.missing_values)
        if self.view_weight is None:
            weights = weights_without_noise(views)
        else:
            weights = given_weights(self.view_weight, views.names)
        sizes = view_energies(views) if self.scale == "energy" else np.ones(views.n_views)
        return Start(self._plain_model(rank), views, weights, weights / sizes)

    def _learn(self, start: Start, complete: Views, progress: Progress | None, in_memory: Views | None = None) -> Array:
        """Learn the components from `complete`, set the fitted attributes, and return the codes of `start`."""
        views, sparsity = start.views, GroupSparsity(self.group_norm, self.group_l1, self.group_bound, self.codes_l2)
        report = self._reporting(start.model, sparsity, progress or (lambda *_: None))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            begin_second = partial(report.begin, SECOND)
            found = fit_components(start.model, complete, start.scales, sparsity, begin_second, in_memory)
        report.finish()
        warn_once(self, caught, penalty=sparsity.parameter)  # in the name of this estimator
        self._keep(*found, views if in_memory is None else complete, start.weights)
        parts = self._components()  # with `scales`, by which views are multiplied to find codes
        codes = find_all_codes(views, parts)
        self.codes_mean_, self.codes_covariance_, self.view_noise_ = learn_prior(views, codes, self.components_)
        scales = np.where(parts.scales > 0, parts.scales, 1.0)  # 0 for views of weight 0
        self.view_errors_ = view_errors(views, codes, parts.H * scales[views.groups], scales, parts.loss)
        return codes

    def _reporting(self, model: NMF, sparsity: GroupSparsity, progress: Progress) -> PrintedProgress:
        """Let the iterations of `model` be reported to ``progress(stage, done, total)``; return what prints them."""
        report, done = PrintedProgress(self.callback, self.verbose), count(1)
        # at most `max_iter` for each start, and what the second fit gets if the first one needs all of them
        total = self.n_init * self.max_iter + bool(sparsity.parameter) * second_iterations(self.max_iter, self.max_iter)

        def after(iteration: int, objective: float) -> Any:
            progress(FINDING, next(done), total)  # `done` counts the iterations of both steps
            return report(iteration, objective)  # prints, and calls the user's callback

        model.set_params(callback=after)
        return report

    def _keep(self, found: Components, fitted: NMF, n_iter: int, views: Views, weights: Array) -> None:
        """Set the attributes of a fit from the components `found`, brought to unit norm in the scaled views."""
        if views.entries is not None:  # features of which nothing is known still have the numbers of the start
            found.scaled_H[:, ~views.entries.any(axis=0)] = 0
        norms = norms_of(found.scaled_H)
        H = found.scaled_H / norms[:, None]
        self.views_ = np.array(views.names, object)
        self.view_groups_, self.view_form_ = views.groups, views.form
        self.view_scales_, self.view_weights_ = found.scales, weights
        scales = np.where(found.scales > 0, found.scales, 1.0)  # the components of views that are left out are 0
        self.components_ = H / scales[views.groups].astype(H.dtype)
        # `found.norms` is what the fit divided components by; the ridge on the codes applies before both divisions.
        self.component_norms_, self.n_components_ = found.norms * norms, len(H)
        self.view_usage_ = usage(H, views.groups, views.n_views)
        self.loss_parameter_, self.ridge_, self.solver_ = found.loss.parameter, found.ridge, found.solver
        self.n_iter_, self.objective_history_ = n_iter, fitted.objective_history_
        self.optimality_, self.reconstruction_err_ = fitted.optimality_, fitted.reconstruction_err_

    def _components(self) -> Components:
        """Return the fitted attributes that are needed to find codes; views are multiplied by `view_scales_` for it."""
        H = self.components_
        scaled_H = H * self.view_scales_[self.view_groups_].astype(H.dtype)
        loss = fitted_loss(self.loss, self.loss_parameter_)
        return Components(H, scaled_H, self.component_norms_, self.view_scales_, loss, self.ridge_, self.solver_)

    def _restore(self, matrix: Array, given: Mapping[str, Any], index: Any) -> Any:
        """Return a matrix (n_samples, n_features) as views in the form of the training data."""
        if self.view_form_ == "matrix":
            return matrix
        parts = {name: matrix[:, self.view_groups_ == v] for v, name in enumerate(self.views_)}
        names = dict(zip(parts, self.view_feature_names_, strict=False))
        for name, framed in zip(parts, self.view_frames_, strict=True):
            if framed:
                parts[name] = as_frame(parts[name], given.get(name), index, names.get(name))
        return list(parts.values()) if self.view_form_ == "list" else parts

    def _codes(self, views: Views, codes: Array | None = None) -> Array:
        """Return the codes of samples; of those that lack a view, after it was filled in."""
        components = self._components()
        prior = CodesPrior(self.codes_mean_, self.codes_covariance_, self.view_noise_)
        if codes is None:  # of new samples
            warn_of_units(views, components.H, prior, 6)
            codes = find_all_codes(views, components)
        return complete_codes(views, codes, components, prior, self.loss)

    def _check_state(self, low: float = 0.0) -> None:
        """Raise ValueError if the fitted attributes, which a file may have given, do not fit together."""
        check_factored(self)
        (n_components, n_features), n_views = self.components_.shape, len(self.views_)
        if len({*check_texts(check_type(self.views_, "views_", np.ndarray).tolist(), "views_")}) != n_views:
            raise ValueError("views_ must be different names")
        check_saved(self.view_groups_, "view_groups_", (n_features,), "int64", low=0, high=n_views - 1)
        check_choice(self.view_form_, "view_form_", ("matrix", "list", "dict"))
        check_saved(self.view_scales_, "view_scales_", (n_views,), low=0)
        check_saved(self.view_noise_, "view_noise_", (n_views,), positive=True)
        check_saved(self.view_errors_, "view_errors_", (n_views,), finite=False)
        check_saved(self.view_weights_, "view_weights_", (n_views,), finite=False)
        check_saved(self.view_usage_, "view_usage_", (n_components, n_views), finite=False)
        check_saved(self.codes_mean_, "codes_mean_", (n_components,))
        check_saved(self.codes_covariance_, "codes_covariance_", (n_components, n_components))
        if len([check_flag(framed, "view_frames_") for framed in self.view_frames_]) != n_views:
            raise ValueError("view_frames_ must be one for each view")
        for names in check_type(self.view_feature_names_, "view_feature_names_", list):
            check_texts([] if names is None else names, "view_feature_names_")
        if not np.bincount(self.view_groups_, minlength=len(self.views_)).all():
            raise ValueError("view_groups_ must have a feature of each view")
        if not self.view_scales_.any():
            raise ValueError("view_scales_ must be above 0 for a view")
        named = zip(self.view_feature_names_, np.bincount(self.view_groups_), strict=bool(self.view_feature_names_))
        if any(names is not None and len(names) != size for names, size in named):
            raise ValueError("view_feature_names_ must have a name for each feature of a view")
        # Normalised to a maximum of 1, so that the tolerances below do not depend on the units of the codes.
        covariance = self.codes_covariance_ / max(np.abs(self.codes_covariance_).max(), np.finfo(np.float64).tiny)
        lowest = np.linalg.eigvalsh(covariance).min()
        if np.abs(covariance - covariance.T).max() > 1e-8 or lowest < -1e-8 * len(covariance):
            raise ValueError("codes_covariance_ is not a covariance")
