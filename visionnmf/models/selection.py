"""Choosing the number of components, and the loss, by held-out entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from visionnmf import choices
from visionnmf._checks import brief, check_callable, check_count, shown
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.exceptions import ParameterError

from .data_checks import check_data, check_loss, check_weights
from .hidden_entries import (
    COMPONENTS,
    FRACTION,
    ITERATIONS,
    RANK_SPLITS,
    SPLITS,
    Splits,
    default_ranks,
    loss_scores,
    part_of,
    propose_rank,
)
from .nmf import NMF


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
    callback: Callable[[int, int], Any] | None = None,
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
    if estimator.loss == choices.AUTO:  # each rank could have another one, and their values cannot be compared
        raise ParameterError("loss of the estimator must be a name or a number; got 'auto'; take that of select_loss")
    splits = Splits.checked(n_splits, fraction, random_state)
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
    proposed, scores = propose_rank(estimator, data, entries, tried, splits, callback, stacklevel=3)
    return RankSelection(proposed, tried, scores)


def _ranks(ranks: Sequence[int] | None, shape: tuple[int, ...]) -> NDArray[np.int_]:
    """Return the ranks to compare, in increasing order; the default is 1 to a third of the smaller side."""
    if ranks is None:
        return default_ranks(shape)
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
    losses: Sequence[str | float] = choices.AUTO_LOSSES,
    *,
    estimator: NMF | None = None,
    weights: ArrayLike | None = None,
    n_splits: int = SPLITS,
    fraction: float = FRACTION,
    random_state: Any = None,
    callback: Callable[[int, int], Any] | None = None,
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
    splits = Splits.checked(n_splits, fraction, random_state)
    callback = check_callable(callback, "callback")
    checked = NMF() if estimator is None else clone(estimator)
    data, observed = check_data(checked, X, reset=True, missing=checked.missing_values, sparse=True)
    data, counted = check_weights(weights, observed, data)
    data, entries = part_of(data, counted, checked.missing_values == 0, splits.rng)
    if estimator is None:
        checked = NMF(max(1, min(COMPONENTS, min(data.shape) // 3)), max_iter=ITERATIONS)
    scores = loss_scores(checked, data, entries, tried, splits, callback)
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
