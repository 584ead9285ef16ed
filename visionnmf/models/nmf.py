"""Non-negative matrix factorisation with a choice of loss, penalties and solver."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import (
    check_callable,
    check_choice,
    check_count,
    check_flag,
    check_nonnegative_array,
    check_number,
    check_random_state,
    check_rank,
)
from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import to_numpy
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import check_zero_weight
from visionnmf.engine.penalties import NONNEGATIVE, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS, Found, check_codes, check_solver, choose, evaluate, fit, solve_codes
from visionnmf.engine.starts import Start, start_factors
from visionnmf.engine.stopping import (
    NO_FIT,
    Callback,
    Fit,
    PrintedProgress,
    fit_best,
    warn_not_converged,
    warn_of_scale,
    warn_zero_codes,
)
from visionnmf.exceptions import ParameterError

from . import sparse_data
from .data_checks import (
    check_data,
    check_loss,
    check_missing_values,
    check_positive,
    check_weights,
    find_loss,
    finite_codes,
    fitted_loss,
    given_components,
    is_doubtful,
    is_elsewhere,
    unseen,
    warn_of_unseen,
    with_sample_weight,
)
from .linear_model import LinearModel
from .model_files import FACTORED, check_factored
from .penalty import Penalty, WithPenalties, given_penalty, ridge_of


@dataclass(eq=False, repr=False)
class NMF(WithPenalties, LinearModel):
    r"""Non-negative matrix factorisation, robust by default.

    Finds codes ``W`` and components ``H`` with

    .. math:: \min_{W, H \ge 0}\; \sum_{ij} m_{ij}\, \ell(X_{ij}, (W H)_{ij}) + p_W(W) + p_H(H)

    By default the loss is the Manhattan distance ``|X - WH|``, on which outliers have little influence (MahNMF, Guan et
    al. 2012); the notes list the other losses. The weights are 1 and there are no penalties unless they are given.

    Rows of `X` are samples. Components have unit Euclidean norm, so that the codes of different components can be
    compared, unless a constraint (box, simplex, graph, groups) forbids it. ``p_W`` and ``p_H`` are of the factors
    before that (see ``component_norms_``).

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the smaller side of the data. :func:`select_rank` proposes one.
    loss : str or float, default="manhattan"
        A name of the table below, or ``beta`` of the beta-divergence as in scikit-learn's ``beta_loss``.
        :func:`select_loss` proposes one.
    loss_parameter : float or None, default=None
        ``alpha`` of "elastic-net" (None takes one over the mean of `X`), or ``delta`` of "huber", the residual beyond
        which an entry counts as an outlier (None takes a tenth of the mean of `X`).
    solver : str, default="auto"
        One of the table in :mod:`visionnmf.engine.solving`. "auto" takes the fastest that can work on the problem.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"}, default="random"
        How the starting factors are made if none are given; for "manhattan" and "elastic-net" and data of which nine
        tenths are 0 also by a least-squares fit, and the lower objective is kept. "custom" requires `W` and `H` in
        :meth:`fit_transform`. Dask arrays and devices have "random" and "custom".
    components_init : array-like [shape=(n_components, n_features), >= 0] or None, default=None
        Components to start from.
    update_components : bool, default=True
        False keeps `components_init` unchanged and finds only the codes.
    penalty_W, penalty_H : Penalty or None, default=None
        Constraints and penalties of the codes and of the components, in addition to non-negativity.
    nuclear : float, default=0
        Strength of a ridge on both factors, ``nuclear * sqrt(max(X.shape)) / 2 * (|W|^2 + |H|^2)``: a factored nuclear
        norm, of which 1 is the parameter of robust PCA. Superfluous components then gain nothing by fitting outliers,
        so `n_components` can be generous. For "manhattan" and "elastic-net".
    missing_values : None, numpy.nan or 0, default=None
        Entries of this value are missing and do not count. With 0, as for ratings, the entries that a sparse `X` does
        not store are missing as well. None refuses NaN.
    zero_weight : float, default=1
        Weight, from 0 to 1, of the entries that a sparse `X` does not store. For "manhattan" only, whose minimum for
        very sparse counts is otherwise a model of zeros (Seraghiti et al. 2026).
    n_init : int, default=1
        Number of starts, of which the result with the lowest objective is kept.
    warm_start : bool, default=False
        Start from the components of the previous fit if they have the right shape.
    max_iter : int, default=400
        Maximum number of iterations. "admm" takes larger steps if there are fewer.
    tol : float, default=1e-3
        Stop when twice the iterations would lower the objective by less than this share of it, if it goes on falling as
        in the last quarter of the iterations (:mod:`visionnmf.engine.stopping` says how often it falls faster), or when
        the residuals are a hundred-thousandth of the data. 0 runs all `max_iter` iterations, without a warning.
    stop : {"auto", "decrease", "projected-gradient", "clusters"}, default="auto"
        The stopping rule: that of `tol`, or one of a paper. "decrease": an iteration changes the objective by at most
        `tol`, in its own units (MahNMF, equation 4). "projected-gradient": the norm of the projected gradient is at
        most `tol` times that of the start (NeNMF, equation 22). "clusters": no sample's largest code has moved to
        another component for 40 iterations (MahNMF, section 5.2). A `tol` of 0 also leaves out the warning that the
        rule does not hold yet.
    random_state : int, RandomState instance or None, default=None
        Seed of the start. The same seed gives the same result for any number of threads, up to rounding.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each iteration. A true return value stops the fit.
    verbose : int or bool, default=0
        1 (or True) prints the objective of every tenth iteration and of the last one, 2 that of every iteration.
    exact_codes : bool or None, default=None
        Whether :meth:`fit_transform` finds the codes again for the final components. None stands for False with a
        `solver` that is a paper's method as printed ("mu", "nenmf-paper", "rri", "rri-printed", "ogm-paper",
        "ogm-printed", "sbcd-plain", "al-a", "al-b"), so that ``W`` and ``W @ H`` are its own, and otherwise for True.
        False keeps the codes of the last iteration in :meth:`fit_transform`, and for the losses whose codes ADMM finds
        (manhattan, huber, elastic-net, l21) :meth:`transform` takes 30 of its iterations instead of 200. The components
        are the same.
    measure_optimality : bool, default=True
        Whether ``optimality_`` is measured. False saves the time where nobody reads it.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n_features), >= 0]
        ``H``, in the dtype of the training data (float32 or float64).
    component_norms_ : ndarray [shape=(n_components,)]
        What the components were divided by, and the codes multiplied by. Penalties are of the factors before that,
        ``W / component_norms_`` and ``component_norms_[:, None] * components_``, as is ``objective_history_``.
    n_components_, n_iter_ : int
        The number of components and of iterations.
    solver_ : str
        The solver that was used.
    loss_parameter_ : float
        The loss's parameter in use, or beta; 0 if the loss has neither.
    reconstruction_err_ : float
        The loss at the solution, without penalties.
    objective_history_ : ndarray [shape=(n_iter_ + 1,)]
        Loss and penalties before the first iteration and after each one. The last entry belongs to the final codes.
        The others never rise for coordinate descent, "hals", "spg" and "mu"; for "admm" they may.
    optimality_ : float
        How far the solution is from satisfying the first-order conditions, from 0 (converged) to about 1. NaN if the
        model is 0 and the data are not, because the conditions then hold whatever the data are, and where it is not
        measured: without `measure_optimality`, and on a device.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    Penalty : Constraints and penalties of a factor.
    select_rank, select_loss : The number of components and the loss by cross-validation.
    sklearn.decomposition.NMF : Without a robust loss, weights or constraints.

    Notes
    -----
    ================  ==============================================================================
    loss              when to use it
    ================  ==============================================================================
    manhattan         outlying entries: occlusion, lost pixels, moving objects; Laplace noise
    l21               outlying samples: whole rows that do not belong
    huber             Gaussian noise and outlying entries
    elastic-net       Laplace and Gaussian noise at once
    frobenius         Gaussian noise of equal variance, no outliers; half-zero data such as digits
    kullback-leibler  counts (Poisson noise)
    itakura-saito     multiplicative noise, such as power spectra; `X` must be positive
    ================  ==============================================================================

    ``fit_transform(X)`` returns exactly what ``fit(X).transform(X)`` returns: the codes are found again for the final
    components, and the codes of a row do not depend on the other rows. `fit_transform` returns the codes of
    the fit instead if `exact_codes` is or stands for False, or if a penalty of the codes refers to the training samples
    (graph, groups, bounds of each entry). `transform` leaves such a penalty out.

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

    saved_attributes = (*LinearModel.saved_attributes, *FACTORED)

    n_components: int | None = None
    _: KW_ONLY
    loss: str | float = "manhattan"
    loss_parameter: float | None = None
    solver: str = "auto"
    init: str = "random"
    components_init: ArrayLike | None = None
    update_components: bool = True
    penalty_W: Penalty | None = None
    penalty_H: Penalty | None = None
    nuclear: float = 0.0
    missing_values: float | None = None
    zero_weight: float = 1.0
    n_init: int = 1
    warm_start: bool = False
    max_iter: int = 400
    tol: float = 1e-3
    stop: str = choices.AUTO
    random_state: Any = None
    callback: Callback | None = None
    verbose: int = 0
    exact_codes: bool | None = None
    measure_optimality: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        record = find_loss(self.loss)
        tags.input_tags.sparse = record is not None and record.sparse is not None
        tags.input_tags.allow_nan = self.missing_values is not None and self.missing_values != 0
        return tags

    def fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> NMF:
        """Find the components of `X`.

        Parameters
        ----------
        X : array-like or sparse matrix [shape=(n_samples, n_features), >= 0, finite]
            float32 stays float32; everything else is converted to float64. Sparse data are for "manhattan", "frobenius"
            and "kullback-leibler"; a dense copy is fitted by default, unless it has more than 4 million entries and few
            of them are stored ("manhattan": 67 million). An array of Dask is fitted block by block, on the workers of
            the active client if there is one (docs/dask.md); its codes are an array of Dask as well. An array of
            PyTorch or CuPy is fitted where it lies with scikit-learn's setting ``array_api_dispatch`` (docs/gpu.md);
            components and codes are then arrays of that library.
        y : Ignored
        sample_weight : array-like [shape=(n_samples,), >= 0], optional
            How often the loss of each sample counts. The penalties of its codes (`penalty_W`, `nuclear`) count once.
        weights : array-like [shape=(n_samples, n_features), >= 0], optional
            How much each entry counts, in any shape that broadcasts to that of `X`. 0 marks a missing entry, whatever
            `X` holds there.

        Raises
        ------
        ValueError
            If `X` holds NaN (but see `missing_values`), infinity or negative numbers, its mean is beyond 1e12 (float32)
            or 1e70, a parameter is not allowed, or no solver can combine the loss, the penalties and the data.
        TooLargeError
            If a block of a Dask array is larger than the memory, or blocks need files for which the disk has no room.
        """
        self._fit(X, None, None, sample_weight, weights, with_codes=False)
        return self

    def fit_transform(
        self,
        X: ArrayLike,
        y: Any = None,
        W: ArrayLike | None = None,
        H: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Array:
        """Find the components of `X` and return its codes ``W`` (n_samples, n_components).

        Parameters
        ----------
        X : array-like or sparse matrix [shape=(n_samples, n_features), >= 0, finite]
        y : Ignored
        W : array-like [shape=(n_samples, n_components), >= 0], optional
            Codes to start from. If not given, `init` says how they are made.
        H : array-like [shape=(n_components, n_features), >= 0], optional
            Components to start from instead of `components_init`.
        sample_weight, weights : array-like, optional
            As for :meth:`fit`.
        """
        return self._fit(X, W, H, sample_weight, weights, with_codes=True).codes

    def transform(self, X: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the codes ``W`` (n_samples, n_components) for the fitted components; `weights` as for :meth:`fit`.

        The codes of a row do not depend on the other rows. Raises ValueError for data that :meth:`fit` refuses, and if
        `X` is so much larger than the components that codes are not finite.
        """
        check_is_fitted(self)
        if is_elsewhere(X):
            from .elsewhere import transform_elsewhere

            return transform_elsewhere(self, X, weights)
        data, observed = self._check_data(X, reset=False)
        if self.zero_weight != 1 and not sp.issparse(data):  # the weight is that of entries that are not stored
            if observed is not None or weights is not None:
                raise ParameterError(
                    f"zero_weight must be 1 with weights or missing entries; got {self.zero_weight!r}; leave it out"
                )
            data = sp.csr_array(data)
        data, entries = check_weights(weights, observed, data, fitting=False)  # all weights may be 0
        loss = fitted_loss(self.loss, self.loss_parameter_)
        check_positive(data, entries, loss)
        # a copy, as the array of a loaded model may be read-only, or on a device
        H, norms = np.array(to_numpy(self.components_), data.dtype), to_numpy(self.component_norms_)
        # the penalty belongs to codes of the components before they were divided by their norms
        penalty = self._transform_penalty(data.dtype, self.ridge_).rescaled(norms.astype(np.float64))
        problem = Problem(data, loss, penalty, weights=entries, zero_weight=self._weight_of_zeros(data))
        warn_of_unseen(problem, 4, ("sample",))
        return finite_codes(solve_codes(problem, H, exact=self.exact_codes is not False))

    def _fit(self, X: Any, W: Any, H: Any, sample_weight: Any, weights: Any, *, with_codes: bool) -> Found:
        """Fit data wherever they lie, and keep what is found; codes of Dask arrays are found `with_codes` only."""
        self._check_parameters()
        level = 5 if with_codes else 4  # of the user's line: scikit-learn wraps `fit_transform`
        if is_elsewhere(X):
            from .elsewhere import fit_elsewhere

            found = fit_elsewhere(self, X, W, H, sample_weight, weights, with_codes=with_codes)
        else:
            found = self._fit_in_memory(X, W, H, sample_weight, weights, level + 1)
        self._set_found(found)
        if not found.fit.converged and self.tol > 0:
            warn_not_converged(type(self).__name__, found.fit, self.tol, stacklevel=level)
        elif found.apart and self.tol > 0:
            sparse_data.warn_apart(found.apart, level)
        warn_zero_codes(found.loss, found.report.lost, level)
        if self.update_components and (self.penalty_W or self.penalty_H):
            warn_of_scale(*found.penalties, level)
        return found

    def _fit_in_memory(self, X: ArrayLike, W: Any, H: Any, sample_weight: Any, weights: Any, stacklevel: int) -> Found:
        """Return what a fit of an array of NumPy or a sparse matrix finds, from the factors `W` and `H` if given."""
        problem, ridge = self._problem(X, weights)
        given, n_components = given_components(self, problem.X.shape, H)
        if not self.update_components:
            return self._fit_codes(problem, given, n_components, sample_weight)._replace(ridge=ridge)
        weighted, row_scale = with_sample_weight(problem, sample_weight)
        fitted = sparse_data.dense_if_small(weighted) if weighted.is_sparse and self.solver == "auto" else weighted
        if fitted is not weighted and self.zero_weight == 1 and not self.nuclear:  # otherwise no other loss serves
            sparse_data.warn_dense(weighted, stacklevel)
        warn_of_unseen(problem, stacklevel)
        solver = choose(self.solver, fitted)
        # fail now, and not after the fit, if `transform` could not find codes with this loss and penalty
        check_codes(replace(problem, penalty_W=self._transform_penalty(problem.X.dtype, ridge)))
        rng = check_random_state(self.random_state)
        (n_samples, n_features), dtype = problem.X.shape, problem.X.dtype
        codes = None if W is None else check_nonnegative_array(W, "W", (n_samples, n_components), dtype)
        name = "components_init" if H is None else "H"
        components = None if given is None else check_nonnegative_array(given, name, (n_components, n_features), dtype)
        if self.init == "custom" and (codes is None or components is None):
            raise ParameterError('W and H must be given to fit_transform with init="custom"; got one at most')
        start = Start(n_components, components, codes is not None, rng)
        report = PrintedProgress(self.callback, self.verbose)
        # a large sparse X, and one of nearly only zeros, are fitted from several starts, unless one is given
        is_free = codes is None and components is None
        doubtful = is_free and self.solver == "auto" and is_doubtful(fitted)
        objectives: list[float] = []  # at the end of each start
        least_tol = self.tol if self.stop == choices.AUTO else sparse_data.TOL  # of least squares, by the rule "auto"

        def fit_once(squares: bool = False) -> tuple[Fit, tuple[Array, Array]]:
            """Return a fit from another start, its transposed codes (r, n_samples) and components."""
            factors = start_factors(fitted, start, codes, row_scale, self.init)
            if squares or (doubtful and not len(objectives) % 2):
                sparse_data.start_from_least_squares(fitted, *factors, max_iter=self.max_iter, tol=least_tol)
            # a start that is behind by more than `tol` hardly wins; doubtful ones are compared at their ends
            rival = math.inf if doubtful else (1 + self.tol) * min(objectives, default=math.inf)
            found = fit(
                fitted, *factors, solver=solver, max_iter=self.max_iter, tol=self.tol, stop=self.stop, callback=report,
                rival=rival,
            )  # fmt: skip
            objectives.append(found.history[-1])
            return found, factors

        with one_blas_thread():
            n_starts = max(self.n_init, sparse_data.STARTS) if doubtful else self.n_init
            best = fit_best(n_starts, solver, fit_once, report)
            # from a random start the factors of a few entries may all become 0
            may_repeat = is_free and self.solver == choices.AUTO and self.init == "random" and not report.stopped
            if may_repeat and problem.loss.record.kink and not all(factor.any() for factor in best[1]):
                best = min(best, fit_once(squares=True), key=lambda found: found[0].history[-1])
            result, (Wt, H) = best
            norms = problem.normalise(H)
            Wt *= norms[:, None]
            Wt = self._codes_after(problem.rescaled(norms), Wt, H, sample_weight, row_scale)
            found = evaluate(fitted, row_scale, solver, result, Wt, H, norms, measure=self.measure_optimality)
        apart = sparse_data.apart(fitted, objectives) if doubtful and fitted.is_sparse else 0.0
        return found._replace(ridge=ridge, apart=apart)

    def _codes_after(self, problem: Problem, Wt: Array, H: Array, sample_weight: Any, row_scale: Any) -> Array:
        """Return the final codes: those `Wt` of the fit if a paper's method that the user named keeps its own."""
        exact = self.exact_codes
        if exact is None:
            exact = self.solver == choices.AUTO or not SOLVERS[self.solver].published
        linked = bool(problem.penalty_W.of_points)  # codes that a penalty links across samples are those of the fit
        if exact and not linked:
            return np.asarray(solve_codes(problem, H))
        if row_scale is not None:
            Wt /= np.where(row_scale, row_scale, 1)
        if not linked:  # a fit does not see samples of weight 0, nor those all of whose entries have weight 0
            lost = unseen(problem, 1)
            if sample_weight is not None:
                lost |= np.asarray(sample_weight) == 0
            if lost.any():
                Wt[:, lost] = solve_codes(problem.samples(lost), H)
        return Wt

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed, whatever the data are."""
        check_rank(self.n_components)
        check_loss(self.loss, self.loss_parameter, np.ones(1))  # any data, because only the parameters are checked
        check_solver(self.solver)
        check_choice(self.init, "init", (*choices.STARTS, "custom"))
        check_flag(self.update_components, "update_components")
        check_flag(self.warm_start, "warm_start")
        if self.exact_codes is not None:
            check_flag(self.exact_codes, "exact_codes")
        check_choice(self.stop, "stop", choices.STOPS)
        check_flag(self.measure_optimality, "measure_optimality")
        check_number(self.nuclear, "nuclear")
        check_number(self.zero_weight, "zero_weight", 0, 1)
        check_count(self.n_init, "n_init")
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol")
        for side, penalty in (("W", self.penalty_W), ("H", self.penalty_H)):
            _resolved(penalty, side, None, np.float64)  # only to check it, without data
        check_callable(self.callback, "callback")
        check_missing_values(self.missing_values, zero=True)  # None, NaN or 0
        if self.missing_values == 0 and self.zero_weight != 1:
            raise ParameterError(f"zero_weight must be 1 with missing_values=0; got {self.zero_weight!r}; leave it out")
        check_count(int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, "verbose", 0)

    def _check_state(self, low: float = 0.0) -> None:
        """Raise ValueError unless what a file gave can be used."""
        check_factored(self)

    def _check_data(self, X: ArrayLike, *, reset: bool) -> tuple[Any, Array | None]:
        """Return the checked data, with 0 for missing entries, and which entries are observed (None: all)."""
        check_missing_values(self.missing_values, zero=True)  # None, NaN or, unlike in other estimators, 0
        return check_data(self, X, reset=reset, missing=self.missing_values, sparse=True)

    def _weight_of_zeros(self, X: Any) -> float:
        """Return the weight of the entries that a sparse `X` does not store."""
        return 0.0 if self.missing_values == 0 and sp.issparse(X) else float(self.zero_weight)

    def _problem(self, X: ArrayLike, weights: ArrayLike | None) -> tuple[Problem, float]:
        """Check the data; return the problem to minimise, and what `nuclear` adds to the l2 of both its penalties."""
        data, observed = self._check_data(X, reset=True)
        data, entries = check_weights(weights, observed, data)
        loss = check_loss(self.loss, self.loss_parameter, data, entries)
        if self.zero_weight != 1:
            check_zero_weight(loss, self.zero_weight)
        check_positive(data, entries, loss)
        ridge = ridge_of(self, data.shape)
        if self.zero_weight != 1 and not sp.issparse(data):
            raise ParameterError(f"zero_weight must be 1 for a dense X; got {self.zero_weight!r}")
        sides = {}
        for side, penalty in (("W", self.penalty_W), ("H", self.penalty_H)):
            sides[side] = _resolved(penalty, side, data, data.dtype).with_ridge(ridge)
        zero_weight = self._weight_of_zeros(data)
        return Problem(data, loss, sides["W"], sides["H"], weights=entries, zero_weight=zero_weight), ridge

    def _set_found(self, found: Found) -> None:
        """Set all attributes of a fit, wherever the data lie, from what it `found`."""
        self.solver_, self.loss_parameter_, self.ridge_ = found.solver, found.loss.parameter, found.ridge
        self.components_, self.component_norms_ = found.components, found.norms
        self.n_components_, self.n_iter_ = int(found.components.shape[0]), found.fit.n_iter
        self.reconstruction_err_ = found.report.loss
        objective = found.report.loss + found.report.penalty  # of the final codes, unlike the last one of the fit
        self.objective_history_ = np.array([*found.fit.history[:-1], objective])
        # a model that is 0 everywhere, although the data are not, has no relative gradient
        self.optimality_ = math.nan if found.report.is_zero else found.optimality

    def _fit_codes(
        self, problem: Problem, given: ArrayLike | None, n_components: int, sample_weight: ArrayLike | None
    ) -> Found:
        """Find codes for `given` components, whatever the `sample_weight`, which counts in the figures only."""
        if given is None:
            raise ParameterError("components_init must be given with update_components=False; got None")
        coupling = problem.penalty_W.of_points  # terms that link samples, so codes cannot be found one by one
        if coupling:
            raise ParameterError(
                f"update_components must be True with {' and '.join(coupling)} in penalty_W; got "
                f"{self.update_components!r}"
            )
        H = check_nonnegative_array(given, "components_init", (n_components, problem.X.shape[1]), problem.X.dtype)
        solver, norms = choose(self.solver, problem), np.ones(n_components, H.dtype)
        with one_blas_thread():
            Wt = solve_codes(problem, H, exact=self.exact_codes is not False)
            weighted, row_scale = with_sample_weight(problem, sample_weight)
            return evaluate(weighted, row_scale, solver, NO_FIT, Wt, H, norms, measure=self.measure_optimality)

    def _transform_penalty(self, dtype: Any, ridge: float) -> Any:
        """Return the penalty of the codes of new data, without what couples training samples (graph, groups)."""
        return _resolved(self.penalty_W, "W", None, dtype).with_ridge(ridge)


def _resolved(penalty: Penalty | None, side: str, X: Any, dtype: Any) -> Penalties:
    """Return a checked penalty in the engine's form; without data `X` what depends on them is left out."""
    return NONNEGATIVE if penalty is None else given_penalty(penalty, side).resolve(side, X, dtype)
