"""Choosing the number of components, and the loss, by held-out entries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf import choices
from visionnmf._checks import brief, check_callable, check_count, check_number, check_random_state, shown
from visionnmf._typing import Array
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import ScaleWarning, ZeroCodesWarning
from visionnmf.exceptions import ParameterError

from .data_checks import UnseenWarning, check_data, check_loss, check_weights, fitted_loss
from .nmf import NMF

SPLITS = 2
RANK_SPLITS = 3
# Shares of the loss of constant models up to which scores are level; chosen on made data of the ranks 1 to 6.
EXACT, ROUNDING = 1e-3, 1e-5
NEGLIGIBLE = 0.02  # share of the decrease of the error from the worst of the lower ranks to the best
LARGEST = 20  # rank tried when none are given
FRACTION = 0.1  # of the entries that is hidden
COMPONENTS = 20  # of the default estimator, at most a third of the smaller side of the data
SEEDS = np.iinfo(np.int32).max
ITERATIONS = 100  # of the default estimator: enough to rank losses, a fraction of the cost of finished fits
LARGEST_SAMPLE = (2000, 1000)  # samples and features; of larger data a random part is taken
# The share of the positive held-out entries that may be outliers. Only positive ones count, because in data that are 0
# nearly everywhere, such as counts of words, a fifth of all entries would be more than those that carry information.
OUTLIERS = 0.2
OF_THE_MAIN_FIT = (ConvergenceWarning, ScaleWarning, UnseenWarning, ZeroCodesWarning)  # which says it for itself

Report = Callable[[int, int], Any]


@dataclass(frozen=True, eq=False)
class RankSelection:
    """What :func:`select_rank` found.

    Attributes
    ----------
    n_components : int
        The rank proposed.
    ranks : ndarray of int [shape=(n_ranks,)]
        The ranks tried, in ascending order.
    scores : ndarray of float64 [shape=(n_ranks, n_splits)]
        Mean loss of a held-out entry, in the estimator's own loss; low is good. Only differences within a column mean
        something, because every rank has the loss that none can avoid, such as that of outliers.
    """

    n_components: int
    ranks: NDArray[np.int_]
    scores: NDArray[np.float64]

    __repr__ = brief


def select_rank(
    X: ArrayLike,
    ranks: Sequence[int] | None = None,
    *,
    estimator: NMF | None = None,
    weights: ArrayLike | None = None,
    n_splits: int = RANK_SPLITS,
    fraction: float = FRACTION,
    random_state: Any = None,
    callback: Report | None = None,
) -> RankSelection:
    """Propose the rank whose model best predicts entries that were hidden from it.

    For each split a random `fraction` of the entries is hidden (weight 0), the estimator is fitted with each rank, and
    the loss of its model at the hidden entries is taken (Wold 1978; for factorisations Owen & Perry 2009). Too low a
    rank misses structure, and too high a rank follows noise and outliers of the shown entries, so the loss has a
    minimum. Ranks above the true one are often level. Therefore the proposed rank is the lowest whose mean loss is
    close to the minimum: within 2 % of the difference between the minimum and the worst of the lower ranks, or within
    the loss of residuals a thousandth as large as those of a constant model, because fits of exact data differ by no
    more. A ConvergenceWarning says if fits stopped too early, and a UserWarning if the proposed rank is the lowest
    above 1 or the largest that was tried.

    Parameters
    ----------
    X : array-like or sparse matrix [shape=(n_samples, n_features), >= 0, finite]
        NaN is a missing entry if the estimator's `missing_values` says so. Sparse data are made dense.
    ranks : sequence of int, optional
        The ranks to try, each >= 1. If not given: 1, 2, ... up to a third of the smaller side of `X`, but not above 20.
        The lowest should be too low, because the rule needs to see what too low a rank costs.
    estimator : NMF, optional
        Its loss, penalties and solver are used; it is not changed. If not given, ``NMF()`` with the Manhattan loss, for
        which outliers in up to about a fifth of the entries do little harm.
    weights : array-like [shape=(n_samples, n_features), >= 0], optional
        How much each entry counts, 0 for missing ones.
    n_splits : int, default=3
        Number of times that entries are hidden.
    fraction : float, default=0.1
        Share of the entries that is hidden, above 0 and at most 0.5.
    random_state : int, RandomState instance or None, default=None
        Seed of the hidden entries and of the starts, in place of the estimator's.
    callback : callable, optional
        Called as ``callback(n_done, n_fits)`` after each fit.

    Returns
    -------
    RankSelection

    Raises
    ------
    ParameterError
        If a parameter is not allowed, or the estimator is not an :class:`NMF`.
    ValueError
        If `X` holds infinity, negative numbers, or NaN that the estimator does not take.

    References
    ----------
    S. Wold, "Cross-validatory estimation of the number of components in factor and principal components models",
    Technometrics 20(4), 1978.
    A. B. Owen, P. O. Perry, "Bi-cross-validation of the SVD and the nonnegative matrix factorization", The Annals of
    Applied Statistics 3(2), 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import select_rank
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((60, 4)) @ rng.random((4, 40))
    >>> X[rng.random(X.shape) < 0.1] = 2.0  # outliers
    >>> select_rank(X, range(1, 8), random_state=0).n_components
    4
    """
    estimator = NMF() if estimator is None else estimator
    if not isinstance(estimator, NMF):
        raise ParameterError(f"estimator must be a visionnmf.NMF; got {estimator!r:.80}")
    splits = _Splits.checked(n_splits, fraction, random_state)
    callback = check_callable(callback, "callback")
    data, observed = check_data(clone(estimator), X, reset=True, missing=estimator.missing_values, sparse=True)
    data, counted = check_weights(weights, observed, data)
    if sp.issparse(data):  # entries that are hidden have weights of their own, as those that are not stored may have
        zero_weight = 0.0 if estimator.missing_values == 0 else float(estimator.zero_weight)
        dense = Problem(data, Loss("manhattan"), zero_weight=zero_weight).in_dense()  # of any loss
        data, counted = dense.X, dense.weights
        estimator = clone(estimator).set_params(zero_weight=1.0)
    entries = np.ones_like(data) if counted is None else counted
    tried = _ranks(ranks, data.shape)
    scores, level = _rank_scores(estimator, data, entries, tried, splits, callback)
    proposed = int(tried[lowest_good_rank(scores, level)])
    at_an_end = {"lowest": proposed == tried[0] > 1, "largest": proposed == tried[-1] < min(data.shape)}
    for end, other, place in (("lowest", "lower", "below"), ("largest", "larger", "above")):
        if len(tried) > 1 and at_an_end[end]:
            warnings.warn(
                f"select_rank proposes {proposed}, the {end} rank that was tried; a {other} one may be better: give "
                f"ranks {place} it.",
                stacklevel=2,
            )
    return RankSelection(proposed, tried, scores)


def _ranks(ranks: Sequence[int] | None, shape: tuple[int, ...]) -> NDArray[np.int_]:
    """Return the ranks to compare, in increasing order; the default is 1 to a third of the smaller side, at most 20."""
    if ranks is None:
        return np.arange(1, max(1, min(LARGEST, min(shape) // 3)) + 1)
    if isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise ParameterError(f"ranks must be a list of whole numbers, such as range(1, 9); got {shown(ranks)}")
    given = sorted({check_count(rank, "each of ranks") for rank in ranks})
    if not given:
        raise ParameterError("ranks must hold at least one rank; got none")
    return np.array(given)


@dataclass(frozen=True, eq=False)
class LossSelection:
    """What :func:`select_loss` found.

    Attributes
    ----------
    loss : str or float
        The loss proposed, the first of `losses`.
    losses : list of str or float
        The losses tried, the best first.
    scores : ndarray of float64 [shape=(n_losses, n_splits)]
        Mean squared error at the held-out entries that at least one loss predicts, in the order of `losses`.
    """

    loss: str | float
    losses: list[str | float]
    scores: NDArray[np.float64]

    __repr__ = brief


def select_loss(
    X: ArrayLike,
    losses: Sequence[str | float] = choices.COMPARED_LOSSES,
    *,
    estimator: NMF | None = None,
    weights: ArrayLike | None = None,
    n_splits: int = SPLITS,
    fraction: float = FRACTION,
    random_state: Any = None,
    callback: Report | None = None,
) -> LossSelection:
    """Propose the loss whose model best predicts entries that were hidden from it.

    For each split a random `fraction` of the entries is hidden (weight 0), and the estimator is fitted with each loss.
    Losses cannot be compared by their own values, and outliers among the hidden entries cannot be predicted at all. So
    the score is the squared error at the hidden entries, without those that no loss predicts well: the hidden entries
    are ordered by the smallest residual of any loss, and the last ones, a fifth as many as there are positive ones,
    are left out. Least squares wins where errors are small everywhere, and the robust losses where outliers bend it.

    Of data with more than 2000 samples or 1000 features a random part is used. The fits need not be finished to rank
    the losses, so there is no ConvergenceWarning.

    Parameters
    ----------
    X : array-like or sparse matrix [shape=(n_samples, n_features), >= 0, finite]
        NaN is a missing entry if the estimator's `missing_values` says so.
    losses : sequence of str or float, default=("manhattan", "huber", "frobenius", "kullback-leibler")
        The losses to try, as for :class:`NMF`.
    estimator : NMF, optional
        Its number of components, penalties and solver are used; it is not changed. If not given, 20 components, or a
        third of the smaller side of `X` if that is less, and 100 iterations.
    weights : array-like [shape=(n_samples, n_features), >= 0], optional
        How much each entry counts, 0 for missing ones.
    n_splits : int, default=2
        Number of times that entries are hidden.
    fraction : float, default=0.1
        Share of the entries that is hidden, above 0 and at most 0.5.
    random_state : int, RandomState instance or None, default=None
        Seed of the hidden entries and of the starts, in place of the estimator's.
    callback : callable, optional
        Called as ``callback(n_done, n_fits)`` after each fit.

    Returns
    -------
    LossSelection

    Raises
    ------
    ParameterError
        If a parameter is not allowed, or the estimator is not an :class:`NMF`.
    ValueError
        If `X` holds infinity, negative numbers, or NaN that the estimator does not take.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf import NMF, select_loss
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((60, 4)) @ rng.random((4, 40))
    >>> select_loss(rng.poisson(20 * X), estimator=NMF(4), random_state=0).loss
    'kullback-leibler'
    >>> X[rng.random(X.shape) < 0.1] = 4.0  # outliers
    >>> select_loss(X, estimator=NMF(4), random_state=0).loss
    'manhattan'
    """
    if estimator is not None and not isinstance(estimator, NMF):
        raise ParameterError(f"estimator must be a visionnmf.NMF; got {estimator!r:.80}")
    tried = _checked_losses(losses)
    splits = _Splits.checked(n_splits, fraction, random_state)
    callback = check_callable(callback, "callback")
    checked = NMF() if estimator is None else clone(estimator)
    data, observed = check_data(checked, X, reset=True, missing=checked.missing_values, sparse=True)
    data, counted = check_weights(weights, observed, data)
    data, entries = part_of(data, counted, checked.missing_values == 0, splits.rng)
    if estimator is None:
        checked = NMF(max(1, min(COMPONENTS, min(data.shape) // 3)), max_iter=ITERATIONS)
    scores = _loss_scores(checked, data, entries, tried, splits, callback)
    order = np.argsort(scores.mean(axis=1), kind="stable")
    return LossSelection(tried[order[0]], [tried[i] for i in order], scores[order])


def _checked_losses(losses: Sequence[str | float]) -> list[str | float]:
    """Return the losses to try, each of them once; raise ParameterError for one that does not exist."""
    tried = list(dict.fromkeys([losses] if isinstance(losses, str) else losses))
    if not tried:
        raise ParameterError("losses must hold at least one loss; got none")
    for loss in tried:
        check_loss(loss, None, np.ones(1))  # only for its error: with its default parameter, and data of ones
    return tried


# --- entries that are hidden from fits --------------------------------------------------------------------------------


class _Splits(NamedTuple):
    """How entries are hidden from fits: how often, what share of them, and by which random numbers."""

    n_splits: int
    fraction: float  # above 0, at most 0.5
    rng: np.random.RandomState

    @classmethod
    def checked(cls, n_splits: Any, fraction: Any, random_state: Any) -> _Splits:
        """Return the splits for a user's parameters; raise ParameterError if one is not allowed."""
        return cls(
            check_count(n_splits, "n_splits"),
            check_number(fraction, "fraction", 0, 0.5, without_low=True),
            check_random_state(random_state),
        )

    def hide(self, weights: Array) -> Iterator[tuple[Array, int]]:
        """Yield for each split the weights of the hidden entries, 0 elsewhere, and a seed; refuse hiding none."""
        for _ in range(self.n_splits):
            held = weights * (self.rng.random_sample(weights.shape) < self.fraction)
            if not held.any():
                raise ParameterError(
                    f"fraction must hide at least one of {held.size} entries; got {self.fraction!r}; raise it"
                )
            yield held, int(self.rng.randint(SEEDS))


def _loss_scores(
    estimator: Any,
    data: Array,
    weights: Array,
    losses: Sequence[str | float],
    splits: _Splits,
    callback: Report | None,
) -> Array:
    """Return the error of each loss in each split, (n_losses, n_splits), at the entries that it hides."""
    # The parameter belonged to the estimator's own loss, and missing entries have the weight 0 from here on.
    estimator = clone(estimator).set_params(
        loss_parameter=None, missing_values=None, callback=None, verbose=0, measure_optimality=False
    )
    scores = np.empty((len(losses), splits.n_splits))
    for split, (held, seed) in enumerate(splits.hide(weights)):
        residuals = []
        for i, loss in enumerate(losses):
            model = clone(estimator).set_params(loss=loss, random_state=seed)
            codes, _ = _fit_shown(model, data, weights - held)
            residuals.append(np.abs(data - codes @ model.components_)[held > 0])
            if callback is not None:
                callback(split * len(losses) + i + 1, scores.size)
        scores[:, split] = _trimmed_errors(np.array(residuals, np.float64), data[held > 0], held[held > 0])
    return scores


def _fit_shown(model: Any, X: Array, shown: Array) -> tuple[Array, bool]:
    """Fit `model` to the entries of weight `shown`; return its codes and whether the fit converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        W = np.asarray(model.fit_transform(X, weights=shown))
    for warning in caught:
        if not issubclass(warning.category, OF_THE_MAIN_FIT):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return W, not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def part_of(data: Any, weights: Array | None, zeros_missing: bool, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Return the data, or a random part of large data, as a dense array, and the weights of its entries."""
    for axis, most in enumerate(LARGEST_SAMPLE):
        if data.shape[axis] > most:
            kept = np.sort(rng.choice(data.shape[axis], most, replace=False))
            data = data[kept] if axis == 0 else data[:, kept]
            weights = weights if weights is None else weights.take(kept, axis)
    if sp.issparse(data):
        data = data.toarray()
        weights = (data > 0).astype(data.dtype) if zeros_missing else None
    return np.ascontiguousarray(data), np.ones_like(data) if weights is None else weights


def _trimmed_errors(residuals: Array, values: Array, weights: Array) -> Array:
    """Return the mean squared residual of each loss over the held-out entries that at least one loss predicts."""
    n_outliers = int(OUTLIERS * np.count_nonzero(values))
    kept = np.argsort(residuals.min(axis=0), kind="stable")[: len(values) - n_outliers]
    return np.average(residuals[:, kept] ** 2, axis=1, weights=weights[kept])


def lowest_good_rank(scores: Array, level: float = 0.0) -> int:
    """Return the index of the lowest rank whose mean score is close to the best; differences up to `level` are none."""
    means = scores.mean(axis=1)
    least = means.min()  # ranks above the true one are often level, so the lowest of those near it is taken
    gap = NEGLIGIBLE * (means[: means.argmin() + 1].max() - least)
    return int(np.flatnonzero(means - least <= max(gap, level))[0])


def _rank_scores(
    estimator: Any,
    data: Array,
    weights: Array,
    ranks: NDArray[np.int_],
    splits: _Splits,
    callback: Report | None,
) -> tuple[Array, float]:
    """Return the scores of ranks (n_ranks, n_splits), and up to which difference they are level."""
    scores, unfinished = np.empty((len(ranks), splits.n_splits)), 0
    of_mean: list[float] = []  # loss of a hidden entry by a model that is their mean,
    of_half: list[float] = []  # and by one that is half of it, which is not 0 for constant data
    for split, (held, seed) in enumerate(splits.hide(weights)):
        mean = np.average(data, weights=held).astype(data.dtype)
        for i, rank in enumerate(ranks):
            model = clone(estimator).set_params(n_components=int(rank), random_state=seed, measure_optimality=False)
            W, converged = _fit_shown(model, data, weights - held)
            loss = fitted_loss(model.loss, model.loss_parameter_)
            total = Problem(data, loss, weights=held).loss_value(np.ascontiguousarray(W.T), model.components_)
            scores[i, split] = total / float(held.sum(dtype=np.float64))
            if i == 0:
                ones = np.ones((1, len(data)), data.dtype)
                for share, losses in ((1.0, of_mean), (0.5, of_half)):
                    flat = np.full((1, data.shape[1]), share * mean, data.dtype)
                    losses.append(Problem(data, loss, weights=held).loss_value(ones, flat) / held.sum(dtype=np.float64))
            unfinished += not converged
            if callback is not None:
                callback(split * len(ranks) + i + 1, scores.size)
    if unfinished:
        warnings.warn(
            f"{unfinished} of {scores.size} fits of select_rank stopped before they had converged; increase max_iter "
            "of the estimator, or its tol if that is near enough.",
            ConvergenceWarning,
            stacklevel=3,
        )
    # where models are exact, only what a fit leaves before it stops tells ranks apart
    power = 1 if loss.record.kink else 2  # near 0 a loss without a kink grows with the square of the residual
    return scores, max(EXACT**power * float(np.mean(of_mean)), ROUNDING**power * float(np.mean(of_half)))
