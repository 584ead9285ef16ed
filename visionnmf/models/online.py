"""Non-negative matrix factorisation of streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
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
    check_rank,
    check_seed,
)
from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import cast, is_not_numpy, numpy_dtype, to_numpy
from visionnmf.engine.blocks import blocks, one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import METHODS, Batch, Method, OnlineOptions, State, begin
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes
from visionnmf.engine.stopping import Callback
from visionnmf.exceptions import ParameterError

from .batches import BlockSamples, CheckedSamples, MappedSamples, Samples, as_before, in_parts
from .blocks import transform_blocks
from .data_checks import (
    check_data,
    check_missing_values,
    check_positive,
    check_weights,
    finite_codes,
    is_dask,
    is_on_device,
    warn_of_unseen,
    weighted_samples,
    with_sample_weight,
)
from .device import beside, codes_on_device, problem_in_numpy, problem_on_device
from .linear_model import LinearModel
from .method_choice import choose_method, n_tried
from .penalty import Penalty, WithPenalties, given_penalty, kinds_of_points

AUTO = "auto"
TRIED = ("manhattan", "surrogate")  # the methods of which the first chunk chooses one, the robust one first


@dataclass(eq=False, repr=False)
class OnlineNMF(WithPenalties, LinearModel):
    r"""Non-negative matrix factorisation of a stream, or of data larger than memory.

    Finds components ``H`` with

    .. math:: \min_{H \ge 0}\; \mathbb{E}_x \min_{w \ge 0} \Big[ \sum_j \ell(x_j, (w H)_j) + p_W(w) \Big] + p_H(H)

    from samples that come in chunks. Each sample is seen once, or in :meth:`fit` once in each pass. The memory for the
    past does not grow, and older samples count less.

    Rows of `X` are samples. Components have unit Euclidean norm unless there are penalties or constraints.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the number of features.
    method : str, default="auto"
        How components are learnt; see the notes. "auto" takes the first one for `loss`, and without a loss the first
        chunk decides between "manhattan" and "surrogate": both learn three quarters of at most 1024 samples (more for
        more than 192 components), and predict hidden entries of the others. The model is then the one that the chosen
        method would learn. A first chunk of fewer than 32 samples or 4000 entries takes "surrogate".
    loss : str or None, default="auto"
        What is minimised. "auto", or None, takes the method's first one.
    batch_size : int or None, default=None
        Samples that are learnt together; larger chunks are cut into batches. None takes the method's default.
    forget_factor : float, default=0.9
        The weight of the past is multiplied by this number, > 0 and at most 1, for every `batch_size` samples. At 1 all
        samples count alike for ever. Below 1 the components follow a stream that changes.
    init : {"batch", "random", "nndsvd", "nndsvda", "nndsvdar"}, default="batch"
        How the starting components are made if none are given, from the first samples: four for each component, or a
        batch if that is more. "batch" factorises them as :class:`NMF` would, so the first chunk of a stream should have
        that many.
    components_init : array-like [shape=(n_components, n_features), >= 0] or None, default=None
        Components to start from.
    penalty_W, penalty_H : Penalty or None, default=None
        Constraints and penalties of the codes and of the components. The penalty of the components counts once for each
        sample, so that it means the same however long the stream is.
    buffer : int or None, default=20
        Batches that "or-nmf" and "or-nmf-is" keep; None keeps all, so that memory and time grow with the stream.
    horizon : int or None, default=None
        Batches after which these two stop changing. None takes those of :meth:`fit`, or a stream without an end.
    missing_values : None or numpy.nan, default=None
        With ``numpy.nan``, NaN in `X` are missing entries and do not count. None refuses NaN.
    max_iter : int, default=5
        Passes over the data in :meth:`fit`.
    shuffle : bool, default=True
        Whether :meth:`fit` takes the samples in a new random order in each pass.
    random_state : int, RandomState instance or None, default=None
        Seed of the start and of the order. The same seed gives the same result for any number of threads.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each pass of :meth:`fit`. A true return value stops it.

    Attributes
    ----------
    components_ : ndarray [shape=(n_components, n_features), >= 0]
        ``H``, in the dtype of the first chunk (float32 or float64).
    method_ : str
        The method that learns, given or chosen.
    n_components_, n_samples_seen_, n_steps_ : int
        Number of components, of samples learnt (in all passes), and of batches learnt.
    n_iter_ : int
        Passes of :meth:`fit`; 0 after :meth:`partial_fit` alone.
    chunk_loss_ : float
        Mean loss of a sample in the last chunk (in `fit`: in the last pass), with the components as they were before
        each batch was learnt. For samples that come for the first time it is an unbiased measure.
    objective_history_ : ndarray [shape=(n_iter_,)]
        The same for each pass of :meth:`fit`.
    state_ : dict
        What the method keeps of the past, and the state of the random generator. :meth:`save` writes it, so that a
        loaded model continues to learn as if it had not been interrupted.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    NMF : For data that fit into memory, with more losses and solvers.
    sklearn.decomposition.MiniBatchNMF : Multiplicative updates; without a robust loss, constraints or missing entries.

    Notes
    -----
    =========  =============  ============================================================================
    method     loss           what it does
    =========  =============  ============================================================================
    manhattan  manhattan      robust: outliers are replaced by the model before a sample is learnt
    surrogate  frobenius      OMF: coordinate descent on a quadratic surrogate (Mairal et al. 2010)
    or-nmf     frobenius, or  OR-NMF: averaged stochastic gradients of a buffer, components on the simplex
               itakura-saito  (Guan et al. 2012)
    or-nmf-is  itakura-saito  OR-NMF-IS as printed, without floors (equations 31 to 34)
    =========  =============  ============================================================================

    "surrogate" suits clean data, and data that the components explain only in part; "manhattan" suits outliers in data
    that the components explain.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, B. Yuan, "Online Nonnegative Matrix Factorization With Robust Stochastic Approximation",
    IEEE TNNLS 23(7), 2012.
    J. Mairal, F. Bach, J. Ponce, G. Sapiro, "Online Learning for Matrix Factorization and Sparse Coding", JMLR 11,
    2010.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import OnlineNMF
    >>> rng = np.random.default_rng(0)
    >>> parts = rng.gamma(0.5, size=(3, 50))
    >>> model = OnlineNMF(3, random_state=0)
    >>> for _ in range(40):  # a stream
    ...     chunk = rng.gamma(0.5, size=(100, 3)) @ parts
    ...     _ = model.partial_fit(np.where(rng.random(chunk.shape) < 0.1, chunk.max(), chunk))
    >>> clean = rng.gamma(0.5, size=(100, 3)) @ parts
    >>> found = model.inverse_transform(model.transform(clean))
    >>> bool(np.linalg.norm(found - clean) < 0.05 * np.linalg.norm(clean))
    True
    """

    saved_attributes = (*LinearModel.saved_attributes, "state_", "n_samples_seen_", "n_steps_", "chunk_loss_")

    n_components: int | None = None
    _: KW_ONLY
    method: str = "auto"
    loss: str | None = "auto"
    batch_size: int | None = None
    forget_factor: float = 0.9
    init: str = "batch"
    components_init: ArrayLike | None = None
    penalty_W: Penalty | None = None
    penalty_H: Penalty | None = None
    buffer: int | None = 20
    horizon: int | None = None
    missing_values: float | None = None
    max_iter: int = 5
    shuffle: bool = True
    random_state: Any = None
    callback: Callback | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        method = METHODS.get(self.method) if isinstance(self.method, str) else None
        tags.input_tags.sparse = self.method == AUTO or (method is not None and method.sparse)
        tags.input_tags.allow_nan = self.missing_values is not None
        return tags

    def fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> OnlineNMF:
        """Learn the components of `X` from the beginning, in `max_iter` passes of mini-batches.

        Parameters
        ----------
        X : array-like, sparse matrix, numpy.memmap or dask.array [shape=(n_samples, n_features), >= 0, finite]
            float32 stays float32; everything else is converted to float64. A memory map is read, checked and converted
            batch by batch. Of a Dask array a block is read while the one before it is learnt; with `shuffle` the blocks
            come in random order and the samples of each are shuffled. Sparse data are for the methods that take them.
            Arrays of PyTorch or CuPy are learnt where they lie with scikit-learn's setting ``array_api_dispatch``, by
            "manhattan" and "surrogate"; components and codes are then arrays of that library.
        y : Ignored
        sample_weight : array-like [shape=(n_samples,), >= 0], optional
            A sample of weight 2 counts as two, one of weight 0 not at all.
        weights : array-like [shape=(n_samples, n_features), >= 0], optional
            How much each entry counts, in any shape that broadcasts to that of `X`. 0 marks a missing entry. For dense
            `X`, and the methods that take missing entries.

        Raises
        ------
        ValueError
            If `X` holds NaN (but see `missing_values`), infinity or negative numbers, its mean is beyond 1e12
            (float32) or 1e70, a parameter is not allowed, or the method does not take loss, penalties or data.
        """
        self._check_parameters()
        methods = self._methods()  # one, or several of which the first samples choose; these take the same data
        samples = self._samples(methods[0], X, weights, reset=True)
        if isinstance(samples, CheckedSamples):
            warn_of_unseen(samples.problem, 3, ("feature",))  # `transform` warns of samples
        options = self._options(methods[0])
        rng = RandomState(check_seed(self.random_state))
        given, kept = weighted_samples(sample_weight, samples.shape[0], samples.dtype)
        if options.horizon is None:  # the number of batches over which the steps of some methods become shorter
            options = replace(options, horizon=len(blocks(len(kept), options.batch_size)) * self.max_iter)
        shuffling = rng if self.shuffle else None
        training = _Training(samples, given, options, rng)
        method = self._begin(methods, training, samples.order(kept, shuffling))
        history: list[float] = []
        while len(history) < self.max_iter:
            history.append(self._learn(method, training, samples.order(kept, shuffling)))
            if self.callback is not None and self.callback(len(history), history[-1]):
                break
        self.n_iter_, self.chunk_loss_ = len(history), history[-1]
        self.objective_history_ = np.array(history)
        return self

    def partial_fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> OnlineNMF:
        """Learn a chunk of one sample or more, with weights as for :meth:`fit`, in addition to what was learnt before.

        `X` is converted to the dtype of the first chunk. Raises ValueError as :meth:`fit`, and if the number of
        features, `method` or `n_components` have changed since the first chunk. The model is then as it was.
        """
        self._check_parameters()
        # several methods only if the data decide between them, in `_begin`; they take the same data
        methods, first = self._methods(), not hasattr(self, "state_")
        if not first:
            self._check_same(methods)
            methods = (METHODS[self.method_],)
        # what is checked in parts may be refused when some of it has been learnt
        with as_before(self) if in_parts(X) else nullcontext():
            samples = self._samples(methods[0], X, weights, reset=first)
            options = self._options(methods[0])
            given, kept = weighted_samples(sample_weight, samples.shape[0], samples.dtype)
            # a stream that has begun goes on with the random numbers of its state
            rng = RandomState(check_seed(self.random_state) if first else None)
            training = _Training(samples, given, options, rng)
            if first:
                method = self._begin(methods, training, kept)
            else:
                method = methods[0]
                rng.set_state(self.state_["generator"])
            self.chunk_loss_ = self._learn(method, training, kept)
        return self

    def fit_transform(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> Array:
        """Return the codes of `X` for the components that :meth:`fit` learns from it."""
        return self.fit(X, sample_weight=sample_weight, weights=weights).transform(X, weights)

    def transform(self, X: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the codes ``W`` (n_samples, n_components) by the method's loss; `weights` as for :meth:`fit`.

        The codes of a row do not depend on the other rows. Those of a Dask array are one as well, computed when they
        are needed. Raises ValueError for data that :meth:`fit` refuses, and if `X` is so much larger than the
        components that codes are not finite.
        """
        check_is_fitted(self)
        if is_dask(X):
            return transform_blocks(self, X, weights)
        method = METHODS[self.method_]
        if is_on_device(X):
            problem = problem_on_device(self, X, weights, self._loss(method), reset=False, fitting=False)
            return codes_on_device(problem, self.components_)
        data, entries = self._check_data(method, X, weights, reset=False, fitting=False)  # all weights may be 0
        loss = self._loss(method)
        check_positive(data, entries, loss)
        penalty = given_penalty(self.penalty_W, "W").resolve("W", None, data.dtype)
        problem = Problem(data, loss, penalty, weights=entries)
        warn_of_unseen(problem, 4, ("sample",))
        with one_blas_thread():
            Wt = solve_codes(problem, np.array(to_numpy(self.components_), data.dtype))
        return finite_codes(Wt)

    @property
    def method_(self) -> str:
        """The name of the method that learns the stream."""
        name: str = self.state_["method"]
        return name

    # --- parameters and data ------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed, whatever the data are."""
        self._options(self._methods()[0])  # only for its checks, which are the same for all methods
        check_missing_values(self.missing_values)
        check_count(self.max_iter, "max_iter")
        check_flag(self.shuffle, "shuffle")
        check_callable(self.callback, "callback")
        for side, penalty in (("W", self.penalty_W), ("H", self.penalty_H)):
            given_penalty(penalty, side).resolve(side, None, np.float64)

    def _methods(self) -> tuple[Method, ...]:
        """Return the methods between which the first chunk decides, or the only one."""
        if self.method != AUTO:
            method = METHODS[check_choice(self.method, "method", [AUTO, *METHODS])]
            self._loss(method)  # raises if the method does not minimise `loss`
            return (method,)
        if self.loss in (None, AUTO):
            penalty = given_penalty(self.penalty_W, "W").resolve("W", None, np.float64)
            # of the two that are tried, those that take the penalty of the codes
            able = tuple(METHODS[name] for name in TRIED if not penalty.beyond(METHODS[name].codes_terms))
            return able or (METHODS[TRIED[0]],)  # if neither takes it, the first one says so when it meets data
        losses = dict.fromkeys(name for method in METHODS.values() for name in method.losses)
        loss = check_choice(self.loss, "loss", [AUTO, *losses])
        return (next(method for method in METHODS.values() if loss in method.losses),)

    def _options(self, method: Method) -> OnlineOptions:
        """Check the parameters that a chunk is learnt with, and return the options of the method."""
        check_rank(self.n_components)
        check_choice(self.init, "init", choices.ONLINE_STARTS)
        for name in ("batch_size", "buffer", "horizon"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)
        forget = check_number(self.forget_factor, "forget_factor", 0, 1, without_low=True)  # above 0, at most 1
        return OnlineOptions(int(self.batch_size or method.batch_size), forget, self.buffer, self.horizon)

    def _loss(self, method: Method) -> Loss:
        """Return the loss that is minimised: the parameter `loss`, or the first one that the method has."""
        if self.loss in (None, AUTO):
            return Loss(method.losses[0])
        return Loss(check_choice(self.loss, "loss", [AUTO, *method.losses]))

    def _check_data(
        self, method: Method, X: ArrayLike, weights: ArrayLike | None, *, reset: bool, fitting: bool = True
    ) -> tuple[Any, Array | None]:
        """Return the checked data, and the weights of their entries (None if all count alike)."""
        data, observed = check_data(self, X, reset=reset, missing=self.missing_values, sparse=method.sparse)
        return check_weights(weights, observed, data, fitting=fitting)

    def _problem(
        self, method: Method, X: ArrayLike, weights: ArrayLike | None, *, reset: bool, part: bool = False
    ) -> Problem:
        """Check a chunk, and return what is to be minimised on it: data, loss, penalties and weights of entries."""
        loss = self._loss(method)
        if is_on_device(X):
            able = [name for name, other in METHODS.items() if other.on_device]
            check_choice(method.name, "method for an array on a device", able)
            problem = problem_on_device(self, X, weights, loss, reset=reset, fitting=not part)
            dtype = numpy_dtype(problem.X if reset else self.components_)
            return replace(problem, X=cast(problem.X, dtype), weights=cast(problem.weights, dtype))
        data, entries = self._check_data(method, X, weights, reset=reset, fitting=not part)
        if not reset:
            dtype = numpy_dtype(self.components_)
            data, entries = cast(data, dtype), cast(entries, dtype)
        check_positive(data, entries, loss)
        problem = Problem(data, loss, *stream_penalties(self.penalty_W, self.penalty_H, data), weights=entries)
        obstacle = method.obstacle(problem)
        if obstacle:
            raise ParameterError(f"method must be one that can learn this; got {method.name!r}, which {obstacle}")
        return problem

    def _check_state(self, low: float = 0.0) -> None:
        """Raise ValueError if a model that was read from a file cannot continue to learn."""
        super()._check_state(low)
        found = [method for method in self._methods() if method.name == self.method_]  # one at most
        if not found:
            raise ValueError("state_ is of another method")
        self._memory(found[0]).check(self.components_)
        RandomState().set_state(self.state_["generator"])  # only for its error

    def _memory(self, method: Method) -> State:
        """Return what the method remembers of the samples, from the items of `state_` that are its own."""
        return method.state(**{field.name: self.state_[field.name] for field in fields(method.state)})

    def _check_same(self, methods: tuple[Method, ...]) -> None:
        """Raise ParameterError if parameters have changed since a stream began; `method` may mean any of `methods`."""
        if self.method_ not in [method.name for method in methods]:
            raise ParameterError(
                f"method must be the one that the stream began with, {self.method_!r}; got {self.method!r}"
            )
        if self.n_components is not None and self.n_components != self.n_components_:
            raise ParameterError(
                f"n_components must be what the stream began with, {self.n_components_}; got {self.n_components!r}"
            )

    # --- learning -----------------------------------------------------------------------------------------------------

    def _samples(self, method: Method, X: Any, weights: ArrayLike | None, *, reset: bool) -> Samples:
        """Return the samples of `X`: checked, if they are in memory, or else to be read and checked in batches."""
        if is_dask(X):
            return BlockSamples(self, X, weights, reset=reset)
        if in_parts(X):
            return MappedSamples(X, weights)
        return CheckedSamples(self._problem(method, X, weights, reset=reset))

    def _batches(
        self, method: Method, samples: Samples, order: Array, work: list[tuple[int, int]], *, reset: bool = False
    ) -> Iterator[Problem]:
        """Yield the problems of the samples ``order[start:stop]``, for each start and stop in `work`."""
        for batch in samples.read(order, work):
            if isinstance(batch, Problem):  # checked before the loss was chosen
                yield replace(batch, loss=self._loss(method))
            else:  # data and weights, or None, as they were given
                yield self._problem(method, *batch, reset=reset, part=not reset)

    def _begin(self, methods: tuple[Method, ...], training: _Training, order: Array) -> Method:
        """Find the starting components from the first samples of `order`, and set the state before any learning."""
        n_components = training.samples.shape[1] if self.n_components is None else int(self.n_components)
        n_first = max(training.options.batch_size, begin.SAMPLES_A_COMPONENT * n_components)
        rows = order[: n_first if len(methods) == 1 else n_tried(n_first)]
        first = next(self._batches(methods[0], training.samples, rows, [(0, len(rows))], reset=True))
        first = problem_in_numpy(first) if is_not_numpy(first.X) else first
        given = self._given_components(first, n_components)
        method = methods[0]
        if len(methods) > 1:
            trial_rng = RandomState()
            trial_rng.set_state(training.rng.get_state(legacy=False))  # it then learns as if it had been named
            with one_blas_thread():
                method = choose_method(methods, first, given, n_components, training.options, self.init, trial_rng)
        # The start ignores the penalties of the codes, so most losses can weight samples by scaling their rows.
        problem = replace(first.samples(slice(0, n_first)), loss=self._loss(method), penalty_W=NONNEGATIVE)
        problem, _ = with_sample_weight(problem, training.weights_of(rows[:n_first]))
        H = given
        if H is None:
            with one_blas_thread():
                H = begin.components(problem, n_components, self.init, training.rng)
        else:
            problem.penalty_H.feasible(H)  # moves it into the constraints
        if method.constrain is not None:
            method.constrain(H, problem)
        self.state_ = {**vars(method.state.start(H)), "method": method.name}
        self.components_, self.n_components_ = H, n_components
        self.n_samples_seen_ = self.n_steps_ = self.n_iter_ = 0
        self.objective_history_ = np.zeros(0)
        return method

    def _given_components(self, problem: Problem, n_components: int) -> Array | None:
        """Return the checked components to start from, or None if there are none."""
        if self.components_init is None:
            return None
        given = to_numpy(self.components_init) if is_on_device(self.components_init) else self.components_init
        return check_nonnegative_array(given, "components_init", (n_components, problem.X.shape[1]), problem.X.dtype)

    def _learn(self, method: Method, training: _Training, order: Array) -> float:
        """Learn the samples of the numbers `order` in batches, and return their mean loss."""
        options, rng = training.options, training.rng
        loss, work = 0.0, blocks(len(order), options.batch_size)
        state = self._memory(method)
        for block, batch in zip(work, self._batches(method, training.samples, order, work), strict=True):
            self.components_ = beside(batch.X, self.components_)
            state = replace(state, **{name: beside(batch.X, value) for name, value in vars(state).items()})
            weights = cast(training.weights_of(order[slice(*block)]), numpy_dtype(self.components_))
            with one_blas_thread():
                weighted = Batch(batch, options, rng, beside(batch.X, weights))
                loss += method.learn(weighted, self.components_, state)
            self.state_.update(vars(state))
            self.n_samples_seen_ += batch.X.shape[0]
            self.n_steps_ += 1
        self.state_["generator"] = rng.get_state(legacy=False)  # with which the next chunk goes on
        total = training.sample_weight
        return loss / (len(order) if total is None else float(total.sum(dtype=np.float64)))


class _Training(NamedTuple):
    """The samples that a call of `fit` or `partial_fit` learns, and how."""

    samples: Samples
    sample_weight: Array | None  # (n_samples,); None if all count alike
    options: OnlineOptions
    rng: RandomState

    def weights_of(self, rows: Array) -> Array | None:
        """Return the weights of the samples with these numbers, or None."""
        return None if self.sample_weight is None else self.sample_weight[rows]


def stream_penalties(penalty_W: Penalty | None, penalty_H: Penalty | None, X: Any) -> tuple[Any, Any]:
    """Return the engine's penalties of codes and components for a stream whose current chunk is `X`."""
    of_codes, of_components = given_penalty(penalty_W, "W"), given_penalty(penalty_H, "H")
    kinds = kinds_of_points(of_codes)
    if kinds:
        raise ParameterError(
            "penalty_W must be without graph, groups and bounds of each entry, which are of samples that a stream does "
            f"not keep; got {' and '.join(kinds)}"
        )
    if isinstance(of_components.graph, str):
        raise ParameterError(
            f"graph of penalty_H must be None or a matrix of affinities for a stream; got {of_components.graph!r}"
        )
    # of `X` only the number of features matters, to which graph and groups of the components must fit
    return of_codes.resolve("W", None, X.dtype), of_components.resolve("H", X, X.dtype)
