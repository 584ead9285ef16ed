"""Entries that are hidden from a fit, and how well models with several losses predict them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf._checks import check_count, check_number, check_random_state
from visionnmf._typing import Array
from visionnmf.engine.problem import Problem
from visionnmf.engine.stopping import ScaleWarning, ZeroCodesWarning
from visionnmf.exceptions import ParameterError

from .data_checks import UnseenWarning, fitted_loss, loss_in_use

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


class Splits(NamedTuple):
    """How entries are hidden from fits: how often, what share of them, and by which random numbers."""

    n_splits: int
    fraction: float  # above 0, at most 0.5
    rng: np.random.RandomState

    @classmethod
    def checked(cls, n_splits: Any, fraction: Any, random_state: Any) -> Splits:
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


def loss_scores(
    estimator: Any,
    data: Array,
    weights: Array,
    losses: Sequence[str | float],
    splits: Splits,
    callback: Callable[[int, int], Any] | None = None,
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
            codes, _ = fit_shown(model, data, weights - held)
            residuals.append(np.abs(data - codes @ model.components_)[held > 0])
            if callback is not None:
                callback(split * len(losses) + i + 1, scores.size)
        scores[:, split] = _trimmed_errors(np.array(residuals, np.float64), data[held > 0], held[held > 0])
    return scores


def fit_shown(model: Any, X: Array, shown: Array) -> tuple[Array, bool]:
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


def default_ranks(shape: tuple[int, ...]) -> NDArray[np.int_]:
    """Return the ranks to compare if none are given: 1 to a third of the smaller side, at most :data:`LARGEST`."""
    return np.arange(1, max(1, min(LARGEST, min(shape) // 3)) + 1)


def lowest_good_rank(scores: Array, level: float = 0.0) -> int:
    """Return the index of the lowest rank whose mean score is close to the best; differences up to `level` are none."""
    means = scores.mean(axis=1)
    least = means.min()  # ranks above the true one are often level, so the lowest of those near it is taken
    gap = NEGLIGIBLE * (means[: means.argmin() + 1].max() - least)
    return int(np.flatnonzero(means - least <= max(gap, level))[0])


def propose_rank(
    estimator: Any,
    data: Array,
    weights: Array,
    ranks: NDArray[np.int_],
    splits: Splits,
    callback: Callable[[int, int], Any] | None = None,
    *,
    stacklevel: int,
) -> tuple[int, Array]:
    """Return the lowest of `ranks` that predicts hidden entries of dense data about best, and the scores of all."""
    scores, unfinished = np.empty((len(ranks), splits.n_splits)), 0
    of_mean: list[float] = []  # loss of a hidden entry by a model that is their mean,
    of_half: list[float] = []  # and by one that is half of it, which is not 0 for constant data
    for split, (held, seed) in enumerate(splits.hide(weights)):
        mean = np.average(data, weights=held).astype(data.dtype)
        for i, rank in enumerate(ranks):
            model = clone(estimator).set_params(n_components=int(rank), random_state=seed, measure_optimality=False)
            W, converged = fit_shown(model, data, weights - held)
            loss = fitted_loss(loss_in_use(model), model.loss_parameter_)
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
            stacklevel=stacklevel,
        )
    # where models are exact, only what a fit leaves before it stops tells ranks apart
    power = 1 if loss.record.kink else 2  # near 0 a loss without a kink grows with the square of the residual
    level = max(EXACT**power * float(np.mean(of_mean)), ROUNDING**power * float(np.mean(of_half)))
    proposed = int(ranks[lowest_good_rank(scores, level)])
    if len(ranks) > 1 and proposed == ranks[0] > 1:
        warnings.warn(
            f"select_rank proposes {proposed}, the lowest rank that was tried; a lower one may be better: give ranks "
            "below it.",
            stacklevel=stacklevel,
        )
    if len(ranks) > 1 and proposed == ranks[-1] < min(data.shape):
        warnings.warn(
            f"select_rank proposes {proposed}, the largest rank that was tried; a larger one may be better: give ranks "
            "above it.",
            stacklevel=stacklevel,
        )
    return proposed, scores
