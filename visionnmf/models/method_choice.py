"""The online method that suits a stream, chosen by hidden entries of new samples of its first chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState

from visionnmf._typing import Array
from visionnmf.engine.blocks import blocks
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import Batch, Method, OnlineOptions, begin
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes

SAMPLES = 1024  # of the first chunk that are tried, or more if the components need more to start from
FEATURES = 1000  # of wider data a random part is tried
TESTED = 4  # one sample of so many is new to the trial models
FEWEST = 100  # hidden entries, of at least 8 new samples; fewer decide nothing
HIDDEN = 0.1  # share of the entries of a new sample
OUTLIERS = 0.2  # the entries that may be outliers, as a share of the positive ones; as in selection.py
MARGIN = 0.035  # by which the robust method must be better, as a share of the variance


def n_tried(n_first: int) -> int:
    """Return how many samples are tried: SAMPLES, or more if the components need `n_first` samples to start from."""
    # one sample in TESTED is held out; the others must be at least `n_first`, so their number is rounded up
    return max(SAMPLES, -(-n_first * TESTED // (TESTED - 1)))


def choose_method(
    methods: Sequence[Method],
    problem: Problem,
    components: Array | None,
    n_components: int,
    options: OnlineOptions,
    init: str,
    rng: RandomState,
) -> Method:
    """Return the robust method, the first of the two, if it predicts hidden entries clearly better, else the other one.

    Both learn three quarters of the samples of `problem`, without its penalties, and predict a tenth of the entries of
    the others. They start from `components` (n_components, n_features), or from what `init` makes. Where there are too
    few samples or entries to compare the two, it is the other one.
    """
    n_samples, n_features = problem.X.shape
    if n_samples < 8 * TESTED or n_samples // TESTED * n_features * HIDDEN < FEWEST:
        return methods[1]
    columns = np.arange(n_features)
    if n_features > FEATURES:
        columns = np.sort(rng.choice(n_features, FEATURES, replace=False))
    problem = _plain(problem, columns)
    learnt = slice(0, n_samples - n_samples // TESTED)
    new = problem.samples(slice(learnt.stop, n_samples))
    hidden = (rng.random_sample(new.X.shape) < HIDDEN).astype(new.X.dtype)
    known = np.ones_like(new.X) if new.weights is None else new.weights
    shown = replace(new, X=new.X * (1 - hidden), weights=known * (1 - hidden))
    seed = rng.randint(2**31 - 1)  # the same for both, so that chance does not decide
    models = []  # of the new samples, by each method
    for method in methods:
        loss = Loss(method.losses[0])
        H = None if components is None else np.array(components[:, columns], new.X.dtype)
        H = _learn(method, replace(problem.samples(learnt), loss=loss), H, n_components, options, init, seed)
        models.append(solve_codes(replace(shown, loss=loss), H).T @ H)
    asked = hidden * known > 0  # hidden entries that are not missing
    if np.count_nonzero(asked) < FEWEST // 2:  # most of them are missing
        return methods[1]
    robust, plain = _errors(new.X, np.array(models, np.float64), asked)  # the first with MARGIN added
    return methods[0] if robust < plain else methods[1]


def _plain(problem: Problem, columns: Array) -> Problem:
    """Return a dense problem with some of the features, the indices `columns`, and without penalties."""
    X = problem.X[:, columns]
    X = X.toarray() if sp.issparse(X) else X
    weights = None if problem.weights is None else np.ascontiguousarray(problem.weights[:, columns])
    return replace(problem, X=np.ascontiguousarray(X), weights=weights, penalty_W=NONNEGATIVE, penalty_H=NONNEGATIVE)


def _learn(
    method: Method,
    problem: Problem,
    H: Array | None,
    n_components: int,
    options: OnlineOptions,
    init: str,
    seed: int,
) -> Array:
    """Return the components after a pass over the samples, begun from `H` or from what `init` makes."""
    rng, n_samples = RandomState(seed), problem.X.shape[0]
    if H is None:
        n_first = max(options.batch_size, begin.SAMPLES_A_COMPONENT * n_components)
        H = begin.components(problem.samples(slice(0, n_first)), n_components, init, rng)
    state = method.state.start(H)
    for block in blocks(n_samples, options.batch_size):
        method.learn(Batch(problem.samples(slice(*block)), options, rng), H, state)
    return H


def _errors(X: Array, models: Array, hidden: Array) -> Array:
    """Return the squared error of each model at the hidden entries, relative to their variance."""
    # Entries that no model predicts well may be outliers, for which any other sample is as good on average: they count
    # without the mean squared error of all samples of the model at this feature.
    of_feature = np.nonzero(hidden)[1]  # the feature of each hidden entry
    values = X[hidden].astype(np.float64)
    residuals = (models[:, hidden] - values) ** 2
    # (2, n_hidden): mean and variance over all samples of a model, at the feature of each hidden entry
    means, variances = (np.array(found)[:, of_feature] for found in (models.mean(axis=1), models.var(axis=1)))
    n_outliers = int(OUTLIERS * np.count_nonzero(values))
    far = np.argsort(residuals.min(axis=0), kind="stable")[len(values) - n_outliers :]
    residuals[:, far] -= (values[far] - means[:, far]) ** 2 + variances[:, far]
    counted = np.where(hidden, X, 0).sum(axis=0) / np.maximum(hidden.sum(axis=0), 1)  # the mean of each feature
    errors: Array = residuals.mean(axis=1) / (((values - counted[of_feature]) ** 2).mean() or 1.0)
    errors[0] += MARGIN
    return errors
