"""Views that do not belong to their samples are found and left out."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from visionnmf import MultiviewNMF, load_model
from visionnmf.exceptions import ParameterError
from visionnmf.models.multiview.components import CodesPrior
from visionnmf.models.multiview.outlying_views import (
    UsualFigures,
    block_residuals,
    find_outlying,
    prediction_errors,
    usual_figures,
)
from visionnmf.models.multiview.views import Views

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

NOT_CONVERGED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def made(rng):
    """Three views of three parts with a little noise; a tenth of the samples have a view of another kind."""
    codes = rng.gamma(1, size=(160, 3))
    clean = [
        scale * (codes @ rng.random((3, width)) + 0.1 * rng.random((160, width)))
        for scale, width in ((1, 15), (100, 20), (1, 40))
    ]
    hit = np.zeros((160, 3), bool)
    hit[np.arange(16), rng.integers(3, size=16)] = True
    views = [np.where(hit[:, [v]], 2 * view.max() * rng.random(view.shape), view) for v, view in enumerate(clean)]
    return views, clean, hit


def test_residuals_of_blocks_are_means_of_what_counts(rng):
    data, W, H = rng.random((7, 6)), rng.random((7, 2)), rng.random((2, 6))
    groups = np.array([1, 0, 0, 1, 2, 2])
    entries = rng.random((7, 6)) < 0.6
    entries[0, 4:] = False
    found = block_residuals(Views(data, entries, groups, ("a", "b", "c")), W, H)
    for i in range(7):
        for v in range(3):
            own = [abs(data[i, j] - W[i] @ H[:, j]) for j in range(6) if groups[j] == v and entries[i, j]]
            assert found[i, v] == pytest.approx(np.mean(own)) if own else np.isnan(found[i, v])
    assert np.isnan(found[0, 2])
    np.testing.assert_allclose(
        block_residuals(Views(sp.csr_array(data), None, groups, ("a", "b", "c")), W, H),
        block_residuals(Views(data, np.ones((7, 6), bool), groups, ("a", "b", "c")), W, H),
    )


def test_the_worst_view_goes_first_and_the_others_are_judged_anew(rng):
    """As a slow loop over samples, with figures that depend on what is left."""
    n, V = 60, 4
    own, pull = rng.gamma(1, size=(n, V, 2)), rng.gamma(0.5, size=(n, V, 2))  # a view draws the codes of others away
    observed = rng.random((n, V)) < 0.8
    observed[:, 0] = True
    usual = UsualFigures(rng.random((V, 2)), 0.3 + rng.random((V, 2)))

    def judge(rows, kept):
        pulls = pull[rows] * kept[:, :, None]
        return own[rows] + pulls.sum(axis=1, keepdims=True) - pulls

    outlying, same = find_outlying(judge, observed, 1.5, usual)
    assert same is usual and outlying.any() and not (outlying & ~observed).any()
    for i in range(n):
        left = [v for v in range(V) if observed[i, v]]
        while len(left) > 1:
            above = {}
            for v in left:
                residual, error = own[i, v] + sum(pull[i, u] for u in left if u != v)
                first = (residual - usual.median[v, 0]) / usual.spread[v, 0]
                second = (error - usual.median[v, 1]) / usual.spread[v, 1] / (3.5 / 3)
                above[v] = max(first, second) if error > 0.9 else first / 1.5
            worst = max(above, key=above.get)
            if above[worst] <= 1.5:
                break
            left.remove(worst)
        assert sorted(left) == np.flatnonzero(observed[i] & ~outlying[i]).tolist()


def test_usual_figures_are_median_and_deviation_with_a_floor():
    residuals = np.array([[1.0, 5, 0], [2, 5, 0], [3, 5, 0], [100, 7, 9]])
    kept = np.array([[True] * 3] * 3 + [[True, False, False]])
    usual = usual_figures(np.stack([residuals, residuals / 10], axis=-1), kept, np.array([1.0, 1, 2]))
    np.testing.assert_allclose(usual.table(), [[2.5, 1.4826, 0.25, 0.14826], [5, 0.25, 0.5, 0.1], [0, 0.02, 0, 0.1]])
    again = UsualFigures.from_table(usual.table()).without(np.array([False, True, False]))
    np.testing.assert_array_equal(again.median, usual.median)
    assert np.isinf(again.spread).tolist() == [[False] * 2, [True] * 2, [False] * 2]


def test_prediction_errors_are_those_of_the_expectation_by_other_views(rng):
    """By the normal distribution of all features, whose covariance is H^T S H + D."""
    groups = np.array([0, 1, 1, 0, 2, 2, 1])
    H, root = rng.random((3, 7)), 0.2 * rng.normal(size=(3, 3))
    prior = CodesPrior(1 + rng.random(3), root @ root.T, np.array([0.1, 0.3, 0.2]))
    data = np.maximum(prior.mean @ H + rng.normal(size=(5, 7)), 0)
    entries = np.ones((5, 7), bool)
    entries[0, [4, 5]] = False  # no view 2
    found = prediction_errors(Views(data * entries, entries, groups, ("a", "b", "c")), np.zeros((5, 3)), H, prior)
    middle, covariance = prior.mean @ H, H.T @ prior.covariance @ H + np.diag(prior.noise[groups])
    for i in range(5):
        for v in range(3):
            own, others = groups == v, (groups != v) & entries[i]
            if not entries[i][own].any():
                assert np.isnan(found[i, v])
                continue
            gain = np.linalg.solve(covariance[np.ix_(others, others)], covariance[np.ix_(others, own)])
            expected = np.maximum(middle[own] + (data[i] - middle)[others] @ gain, 0)
            usual = max(np.abs(data[i] - middle)[own].sum(), 0.8 * np.sqrt(np.diag(covariance)[own]).sum())
            assert found[i, v] == pytest.approx(np.abs(data[i, own] - expected).sum() / usual)


@NOT_CONVERGED
@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_noise_in_the_range_of_its_view_is_found(loss):
    """The pixels of digits are 0 or 16 for the most part, so noise between them has the usual residuals."""
    X = load_digits().data[:300]
    views, rng = [X[:, :24].copy(), X[:, 24:40], X[:, 40:]], np.random.default_rng(0)
    kept = MultiviewNMF(12, loss=loss, view_outliers=3, max_iter=60, random_state=0).fit(views).outlying_views_
    assert kept.mean(axis=0).max() < 0.05
    views[0][:60] = 16 * rng.random((60, 24))
    found = MultiviewNMF(12, loss=loss, view_outliers=3, max_iter=60, random_state=0).fit(views).outlying_views_
    assert found[:60, 0].mean() > 0.8 and found[60:].mean() < 0.03


@NOT_CONVERGED
def test_views_whose_residuals_have_long_tails_are_kept(rng):
    """Each pass found the rest of an exponential distribution to be far out, until half of the view was left out."""
    codes = rng.gamma(1, size=(200, 3))
    tails = 50 * rng.exponential(size=(200, 4)) ** 3 + codes @ rng.random((3, 4))
    views = [codes @ rng.random((3, 20)), codes @ rng.random((3, 15)), tails]
    model = MultiviewNMF(3, view_outliers=3, view_weight=[1, 1, 1], max_iter=60, random_state=0).fit(views)
    assert model.outlying_views_[:, 2].mean() <= 0.3


@NOT_CONVERGED
@pytest.mark.parametrize("rank", [3, 12])
@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_views_of_noise_are_found_whatever_the_rank(made, rank, loss):
    views, clean, hit = made
    model = MultiviewNMF(rank, loss=loss, view_outliers=3, max_iter=100, random_state=0).fit(views)
    for found in (model.outlying_views_, model.outlying_views(views)):
        assert found[hit].all() and found[~hit].mean() < 0.03
    plain = MultiviewNMF(rank, loss=loss, max_iter=100, random_state=0).fit(views)
    assert not plain.outlying_views(views).any()
    if loss == "frobenius" or rank == 12:  # the Manhattan loss with no component to spare holds out by itself
        left, more = (
            sum(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(back, clean, strict=True))
            for fit in (model, plain)
            for back in [fit.inverse_transform(fit.transform(views))]
        )
        assert left < 0.5 * more


@NOT_CONVERGED
@pytest.mark.parametrize(("loss", "seeds"), [("frobenius", 8), ("manhattan", 2)])
def test_clean_views_are_kept_whatever_the_seed(loss, seeds):
    """A small model that misses a part tells views badly that there is nothing wrong with."""
    rng = np.random.default_rng(0)
    codes = rng.gamma(0.5, size=(200, 4))
    views = [np.abs(codes @ rng.random((4, d)) + rng.normal(0, 0.05, (200, d))) for d in (20, 30, 15)]
    shares = []
    for seed in range(seeds):
        model = MultiviewNMF(4, loss=loss, view_outliers=3, max_iter=100, random_state=seed).fit(views)
        shares.append(model.outlying_views_.mean(axis=0))
        assert model.outlying_views(views).mean() <= 0.02
    assert np.max(shares) <= 0.02 and np.mean(shares) <= 0.01


@NOT_CONVERGED
def test_a_view_that_is_left_out_counts_as_missing(made, tmp_path):
    views, _, _ = made
    model = MultiviewNMF(3, loss="frobenius", view_outliers=3, max_iter=100, random_state=0)
    codes = model.fit_transform(views)
    np.testing.assert_array_equal(model.transform(views), codes)
    out = model.outlying_views(views)
    np.testing.assert_allclose(model.transform(views, observed=~out), codes, rtol=1e-6, atol=1e-9)
    assert not (model.outlying_views(views, observed=~out) & out).any()
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(views), codes)
    for value in (np.ones(3), np.full((3, 4), np.nan)):
        model.view_residuals_ = value
        with pytest.raises(ParameterError, match="view_residuals_ must be"):
            model.save(tmp_path / "bad.npz", force=True)


@NOT_CONVERGED
def test_views_of_other_samples_are_found(made, rng):
    _, clean, _ = made
    views = [clean[0].copy(), *clean[1:]]
    views[0][:12] = clean[0][rng.permutation(np.arange(60, 160))[:12]]  # each part by itself is as usual
    model = MultiviewNMF(3, loss="frobenius", view_outliers=3, max_iter=200, random_state=0).fit(views)
    swapped = np.abs(views[0][:12] - clean[0][:12]).mean(axis=1) > 0.3 * clean[0].mean()
    assert model.outlying_views_[:12, 0][swapped].mean() > 0.7


@NOT_CONVERGED
def test_what_cannot_be_judged_counts(made):
    views, _, _ = made
    few = MultiviewNMF(2, view_outliers=3, max_iter=20).fit([view[:8] for view in views])
    assert not few.outlying_views_.any() and not few.outlying_views(views).any()
    alone = MultiviewNMF(2, view_outliers=3, max_iter=20).fit(views[:1])
    assert not alone.outlying_views_.any()
    gone = np.ones((160, 3), bool)
    gone[5:9, 1:] = False
    model = MultiviewNMF(3, loss="frobenius", view_outliers=3, max_iter=50).fit(views, observed=gone)
    assert not model.outlying_views_[5:9].any()
    # a seed without a view at the very threshold, which rounding would decide
    sparse = MultiviewNMF(3, loss="frobenius", view_outliers=3, max_iter=50, random_state=1)
    np.testing.assert_allclose(
        sparse.fit_transform([sp.csr_array(view) for view in views]), sparse.fit_transform(views), rtol=1e-3, atol=1e-3
    )


def test_the_threshold_is_checked(made):
    with pytest.raises(ParameterError, match="view_outliers must be a finite number > 0; got -1"):
        MultiviewNMF(2, view_outliers=-1).fit(made[0])


@NOT_CONVERGED
def test_new_clean_views_are_left_out_as_seldom_as_those_of_training():
    """The limits were those of small models, of three of which the best counted, and too tight for the final model."""
    X, _ = load_digits(return_X_y=True)
    X = X[np.random.default_rng(0).permutation(len(X))[:1600]]
    views = {"top": X[:, :24], "middle": X[:, 24:40], "bottom": X[:, 40:]}
    training, new = ({name: view[rows] for name, view in views.items()} for rows in (slice(800), slice(800, None)))
    model = MultiviewNMF(20, loss="frobenius", view_outliers=3, random_state=1).fit(training)
    np.testing.assert_array_equal(model.outlying_views(training), model.outlying_views_)
    assert model.outlying_views_.mean(axis=0).max() < 0.02
    assert model.outlying_views(new).mean(axis=0).max() < 0.02
    noise = {**new, "top": 16 * np.random.default_rng(0).random((800, 24))}
    assert model.outlying_views(noise)[:, 0].mean() > 0.9
