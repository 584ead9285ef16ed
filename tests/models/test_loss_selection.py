"""select_loss: the loss that suits made data, scores by hand, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from visionnmf import NMF, MultiviewNMF, load_model, select_loss, select_rank
from visionnmf.exceptions import ParameterError
from visionnmf.models.hidden_entries import part_of

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


def noisy(low_rank, rng, kind):
    if kind == "manhattan":
        return np.where(rng.random(low_rank.shape) < 0.1, low_rank.max(), low_rank)
    return rng.poisson(5 * low_rank / low_rank.mean()).astype(float)


@pytest.mark.parametrize("kind", ["manhattan", "kullback-leibler"])
def test_auto_is_the_proposed_loss(kind, low_rank, rng, tmp_path):
    X = noisy(low_rank, rng, kind)
    model = NMF(4, loss="auto", max_iter=50, tol=0, random_state=0)
    codes = model.fit_transform(X)
    assert model.loss_ == kind == select_loss(X, estimator=FOUR, random_state=0).loss
    named = NMF(4, loss=kind, max_iter=50, tol=0, random_state=0)
    np.testing.assert_array_equal(codes, named.fit_transform(X))
    np.testing.assert_array_equal(model.transform(X[:9]), named.transform(X[:9]))
    assert model.reconstruction_err_ == named.reconstruction_err_
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert again.loss_ == kind
    np.testing.assert_array_equal(again.transform(X[:9]), named.transform(X[:9]))
    assert not hasattr(model.set_params(loss="frobenius").fit(X), "loss_")


def test_auto_takes_weights_gaps_and_sparse_data(low_rank, rng):
    X = noisy(low_rank, rng, "kullback-leibler")
    gaps = rng.random(X.shape) < 0.1
    model = NMF(4, loss="auto", max_iter=20, tol=0, missing_values=np.nan, random_state=0)
    hidden = np.where(gaps, np.nan, X)
    expected = select_loss(hidden, estimator=clone(FOUR).set_params(missing_values=np.nan), random_state=0).loss
    assert model.fit(hidden).loss_ == expected
    assert NMF(4, loss="auto", max_iter=20, tol=0, random_state=0).fit(X, weights=~gaps).loss_ == expected
    assert NMF(4, loss="auto", max_iter=20, tol=0, random_state=0).fit(sp.csr_array(X)).loss_ == "kullback-leibler"


def test_auto_is_refused_where_nothing_can_be_chosen(low_rank):
    with pytest.raises(ParameterError, match="loss_parameter must be None for loss='auto'; got 1"):
        NMF(4, loss="auto", loss_parameter=1.0).fit(low_rank)
    with pytest.raises(ParameterError, match="loss must be one of"):
        MultiviewNMF(4, loss="auto").fit([low_rank, low_rank])
    with pytest.raises(ParameterError, match="loss of the estimator must be a name or a number; got 'auto'"):
        select_rank(low_rank, [1, 2], estimator=NMF(loss="auto"))
    da = pytest.importorskip("dask.array")
    with pytest.raises(ParameterError, match="loss must be a name for an array of Dask or on a device; got 'auto'"):
        NMF(4, loss="auto").fit(da.from_array(low_rank, chunks=(30, 60)))
