"""select_loss: the loss that suits made data, scores by hand, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from visionnmf import NMF, select_loss
from visionnmf.exceptions import ParameterError
from visionnmf.models.selection import part_of

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

FOUR = NMF(4, max_iter=100)


@pytest.fixture
def low_rank(rng):
    return rng.gamma(0.5, size=(90, 4)) @ rng.gamma(0.5, size=(4, 60))


def test_least_squares_for_gaussian_noise_and_for_data_of_which_half_is_zero(low_rank, rng):
    X = np.maximum(low_rank + 0.3 * low_rank.mean() * rng.standard_normal(low_rank.shape), 0)
    assert select_loss(X, estimator=FOUR, random_state=0).loss == "frobenius"
    X = load_digits().data[:400]
    assert select_loss(X, estimator=NMF(10, max_iter=100), random_state=0).loss == "frobenius"


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_the_manhattan_loss_for_lost_entries(share, low_rank, rng):
    X = np.where(rng.random(low_rank.shape) < share, low_rank.max(), low_rank)
    assert select_loss(X, estimator=FOUR, random_state=0).loss == "manhattan"


def test_scores_are_errors_at_hidden_entries_that_some_loss_predicts(low_rank, rng):
    X = low_rank + rng.random(low_rank.shape)
    found = select_loss(X, ["manhattan", "frobenius"], estimator=FOUR, n_splits=1, fraction=0.2, random_state=5)
    generator = check_random_state(5)
    hidden = generator.random_sample(X.shape) < 0.2
    seed = int(generator.randint(np.iinfo(np.int32).max))
    residuals = {}
    for loss in found.losses:
        model = clone(FOUR).set_params(loss=loss, random_state=seed)
        W = model.fit_transform(X, weights=(~hidden).astype(float))
        residuals[loss] = np.abs(X - W @ model.components_)[hidden]
    easy = np.minimum(*residuals.values()).argsort()[: hidden.sum() - hidden.sum() // 5]
    expected = [np.mean(residuals[loss][easy] ** 2) for loss in found.losses]
    np.testing.assert_allclose(found.scores[:, 0], expected)
    assert expected[0] <= expected[1] and found.loss == found.losses[0]


def test_missing_entries_are_neither_shown_nor_asked_for(low_rank, rng):
    gaps = rng.random(low_rank.shape) < 0.2
    of_nan = clone(FOUR).set_params(missing_values=np.nan)
    found = select_loss(np.where(gaps, np.nan, low_rank), ["frobenius"], estimator=of_nan, random_state=0)
    other = select_loss(np.where(gaps, 9, low_rank), ["frobenius"], estimator=FOUR, weights=~gaps, random_state=0)
    np.testing.assert_array_equal(found.scores, other.scores)
    dense = select_loss(np.where(gaps, 0, low_rank), ["frobenius"], estimator=FOUR, weights=~gaps, random_state=0)
    of_zeros = clone(FOUR).set_params(missing_values=0)
    stored = select_loss(sp.csr_array(np.where(gaps, 0, low_rank)), ["frobenius"], estimator=of_zeros, random_state=0)
    np.testing.assert_array_equal(stored.scores, dense.scores)


def test_large_data_are_sampled(rng):
    X = rng.random((2010, 1005)).astype(np.float32)
    part, weights = part_of(X, X, False, check_random_state(0))
    assert part.shape == (2000, 1000) and part.dtype == np.float32
    np.testing.assert_array_equal(weights, part)


def test_progress(low_rank):
    done = []
    found = select_loss(low_rank, [2, "manhattan", "manhattan"], random_state=0, callback=lambda *n: done.append(n))
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)] and set(found.losses) == {2, "manhattan"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"losses": []}, "losses must hold at least one"),
        ({"losses": ["l3"]}, "loss must be one of"),
        ({"estimator": 3}, "estimator must be a visionnmf.NMF"),
        ({"callback": 1}, "callback must"),
    ],
)
def test_refused(changes, message, low_rank):
    with pytest.raises(ParameterError, match=message):
        select_loss(low_rank, **changes)
