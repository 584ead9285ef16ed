"""select_rank: the true rank of made data, scores by hand, and what it refuses."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from visionnmf import NMF, Penalty, select_rank
from visionnmf.exceptions import ParameterError
from visionnmf.models.selection import lowest_good_rank

pytestmark = pytest.mark.filterwarnings("ignore:select_rank proposes")  # where few ranks are tried

QUICK = NMF(loss="frobenius", max_iter=30, tol=0)


def low_rank(rng, rank, shape=(70, 50)):
    return rng.random((shape[0], rank)) @ rng.random((rank, shape[1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("outliers", [0.1, 0.2])
@pytest.mark.parametrize("rank", [2, 4])
def test_the_true_rank_is_found_in_spite_of_outliers(rank, outliers, rng):
    X = low_rank(rng, rank)
    X *= rng.uniform(0.97, 1.03, X.shape)
    wrong = rng.random(X.shape) < outliers
    X[wrong] = rng.random(wrong.sum()) * X.max()
    found = select_rank(X, range(1, 8), n_splits=2, random_state=0)
    assert found.n_components == rank


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["frobenius", pytest.param("kullback-leibler", marks=pytest.mark.slow)])
def test_the_true_rank_is_found_with_the_noise_of_the_loss(loss, rng):
    X = 40 * low_rank(rng, 3)
    X = rng.poisson(X) if loss == "kullback-leibler" else np.maximum(0, X + rng.normal(0, 2, X.shape))
    found = select_rank(X, range(1, 8), estimator=NMF(loss=loss, max_iter=200), n_splits=2, random_state=0)
    assert found.n_components == 3


@pytest.mark.parametrize("case", [{}, {"missing_values": 0}, {"loss": "manhattan", "zero_weight": 0.3}])
def test_sparse_data_have_the_scores_of_dense_data(case, rng):
    X = rng.poisson(low_rank(rng, 2, (20, 15))).astype(float)
    estimator = clone(QUICK).set_params(**case)
    found = select_rank(sp.csr_array(X), [1, 2], estimator=estimator, random_state=0)
    weights = np.where(X > 0, 1, 0.3) if "zero_weight" in case else None
    dense = select_rank(X, [1, 2], estimator=estimator.set_params(zero_weight=1), weights=weights, random_state=0)
    np.testing.assert_array_equal(found.scores, dense.scores)


def test_scores_are_the_mean_loss_of_entries_that_were_hidden(rng):
    X = low_rank(rng, 2, (20, 15)) + rng.random((20, 15))
    weights = rng.integers(0, 3, X.shape)
    for loss, value in (("frobenius", lambda E: E**2 / 2), ("manhattan", np.abs)):
        estimator = NMF(loss=loss, max_iter=20, tol=0)
        found = select_rank(X, [3, 1], estimator=estimator, weights=weights, n_splits=2, fraction=0.2, random_state=5)
        assert found.ranks.tolist() == [1, 3]
        generator = check_random_state(5)
        for split in range(2):
            hidden = generator.random_sample(X.shape) < 0.2
            seed = int(generator.randint(np.iinfo(np.int32).max))
            for i, rank in enumerate((1, 3)):
                model = clone(estimator).set_params(n_components=rank, random_state=seed)
                P = model.inverse_transform(model.fit_transform(X, weights=weights * ~hidden))
                expected = np.average(value(X - P), weights=weights * hidden)
                assert found.scores[i, split] == pytest.approx(expected, rel=1e-6)


def test_seeds_callback_and_an_estimator_that_stays_as_it_is(rng):
    X = low_rank(rng, 2, (20, 15)).astype(np.float32)
    estimator = clone(QUICK).set_params(penalty_W=Penalty(l2=0.1), random_state=7)
    before = str(estimator.get_params())
    seen = []
    first = select_rank(X, [1, 2], estimator=estimator, random_state=1, callback=lambda *done: seen.append(done))
    again = select_rank(X, [1, 2], estimator=estimator, random_state=1)
    other = select_rank(X, [1, 2], estimator=estimator, random_state=2)
    np.testing.assert_array_equal(first.scores, again.scores)
    assert (first.scores != other.scores).all()
    assert seen == [(i + 1, 6) for i in range(6)]
    assert str(estimator.get_params()) == before and not hasattr(estimator, "components_")


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([5, 3, 1, 1.2, 1.4], 2),  # the minimum
        ([5, 3, 1.05, 1, 1.01], 2),  # level with it
        ([5, 3, 1.2, 1, 1.01], 3),
        ([1, 2, 3], 0),
        ([1, 1, 1], 0),
        ([1.0], 0),
        ([5, 3, 1.05, 1, 90], 2),  # the worst rank is too high: it does not count
    ],
)
def test_the_lowest_rank_as_good_as_the_best_is_chosen(means, expected):
    scores = np.array(means, float)[:, None] + [-0.5, 0.0, 0.5]
    assert lowest_good_rank(scores) == expected
    assert lowest_good_rank(1e-6 * scores + 3) == expected  # outliers add the same to all


def test_the_ranks_tried_by_default(rng):
    assert select_rank(rng.random((12, 10)), estimator=QUICK, n_splits=1).ranks.tolist() == [1, 2, 3]
    assert select_rank(rng.random((60, 2)), estimator=QUICK, n_splits=1).ranks.tolist() == [1]


def test_fits_that_did_not_converge_are_counted_in_one_warning(rng):
    X = rng.random((12, 10))
    with pytest.warns(ConvergenceWarning, match="6 of 6 fits of select_rank stopped before they had conv") as caught:
        select_rank(X, [1, 2], estimator=NMF(loss="frobenius", max_iter=1, tol=1e-12), random_state=0)
    assert sum(issubclass(each.category, ConvergenceWarning) for each in caught) == 1


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"ranks": []}, "ranks must hold at least one rank; got none"),
        ({"ranks": [0]}, "each of ranks must be a whole number >= 1; got 0"),
        ({"ranks": [1.5]}, "each of ranks must be a whole number >= 1; got 1.5"),
        ({"n_splits": 0}, "n_splits must be a whole number >= 1; got 0"),
        ({"fraction": 0}, "fraction must be a number > 0 and <= 0.5; got 0"),
        ({"fraction": 0.6}, "fraction must be a number > 0 and <= 0.5; got 0.6"),
        ({"fraction": 1e-9}, "fraction must hide at least one of 20 entries; got 1e-09; raise it"),
        ({"estimator": "nmf"}, "estimator must be a visionnmf.NMF; got 'nmf'"),
        ({"weights": -np.ones((5, 4))}, "weights must be finite and >= 0"),
    ],
)
def test_what_is_not_allowed(parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        select_rank(np.ones((5, 4)), **{"ranks": [1], "estimator": QUICK, "random_state": 0, **parameters})


def test_a_proposal_of_the_largest_rank_says_so(rng):
    X = low_rank(rng, 5, (40, 30))
    with pytest.warns(UserWarning, match="select_rank proposes 3, the largest rank that was tried"):
        select_rank(X, [1, 2, 3], estimator=NMF(loss="frobenius"), random_state=0)
    with pytest.warns(UserWarning, match="select_rank proposes 4"):
        select_rank(X, [2, 4], estimator=NMF(loss="frobenius"), n_splits=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select_rank(X, [3, 5, 7], estimator=NMF(loss="frobenius"), random_state=0)
        select_rank(X, [2], estimator=NMF(loss="frobenius"), random_state=0)  # nothing was to be chosen


def test_exact_data_have_their_rank_and_a_grid_that_begins_too_high_is_reported():
    for rank in (1, 3):
        rng = np.random.default_rng(rank)
        X = rng.gamma(0.5, size=(60, rank)) @ rng.gamma(0.5, size=(rank, 40))
        assert select_rank(X, range(1, 6), random_state=0).n_components == rank
    with pytest.warns(UserWarning, match="proposes 4, the lowest rank that was tried"):
        select_rank(X, [4, 5], random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_similar_spectra_are_told_apart_under_a_squared_loss(seed):
    """Spectra that differ by a tenth at most, in varying brightness, with noise of 2e-4."""
    rng = np.random.default_rng(seed)
    spectra = (1 + 0.1 * rng.random((3, 40))) * (0.5 + rng.random(40))
    X = (rng.dirichlet(np.ones(3), 80) * (0.5 + rng.random((80, 1)))) @ spectra
    X = np.maximum(X + 2e-4 * rng.standard_normal(X.shape), 0)
    estimator = NMF(loss="frobenius", max_iter=1000)
    assert select_rank(X, range(1, 6), estimator=estimator, random_state=0).n_components == 3
