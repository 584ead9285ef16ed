"""RPCA and GoDec: exact recovery, certificates, slow solutions of the same problems, scikit-learn's contract."""

import numpy as np
import pytest
from naive import godec, least_absolute_codes, principal_component_pursuit
from sklearn.exceptions import ConvergenceWarning

from visionnmf import RPCA, GoDec, load_model
from visionnmf.engine import robust_pca
from visionnmf.exceptions import ParameterError


def made(rng, n, m, rank, share, noise=0.0):
    """A low-rank matrix, and the one with sparse outliers added."""
    L = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
    S = np.where(rng.random((n, m)) < share, rng.choice([-1, 1], (n, m)) * rng.uniform(5, 10, (n, m)), 0)
    return L, S, L + S + noise * rng.normal(size=(n, m))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "rank"), [(60, 50, 2), (40, 200, 3), (200, 40, 3)])
def test_exact_recovery(rng, dtype, n, m, rank):
    L, S, X = made(rng, n, m, rank, 0.08)
    size = np.abs(L).max()
    for model in (RPCA(tol=1e-6), GoDec(rank, sparse_share=np.mean(S != 0), random_state=0)):
        model.fit(X.astype(dtype))
        assert model.components_.dtype == model.low_rank_.dtype == dtype
        assert model.n_components_ == rank
        np.testing.assert_allclose(model.low_rank_, L, atol=1e-4 * size)
        np.testing.assert_allclose(model.sparse_, S, atol=1e-4 * size)
        np.testing.assert_allclose(model.singular_values_, np.linalg.svd(L)[1][:rank], rtol=1e-4)
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(rank), atol=1e-5)
        again = model.inverse_transform(model.transform(X.astype(dtype)))  # outliers do not move codes
        np.testing.assert_allclose(again, L, atol=1e-3 * size)
        new = rng.normal(size=(4, rank)) @ np.linalg.svd(L)[2][:rank]
        np.testing.assert_allclose(model.inverse_transform(model.transform(new)), new, atol=1e-4)


@pytest.mark.parametrize(("weight", "noise"), [(None, 0.5), (0.3, 0.1), (0.6, 0.5)])
def test_the_pursuit_ends_at_the_convex_optimum(rng, weight, noise):
    _, _, X = made(rng, 9, 7, 2, 0.1, noise)  # too small and noisy for recovery: the optimum all the same
    lam = 1 / 3 if weight is None else weight
    model = RPCA(sparse_weight=weight, tol=1e-8).fit(X)
    L, S, dual = principal_component_pursuit(X, lam)
    optimum = np.linalg.svd(L)[1].sum() + lam * np.abs(S).sum()
    # the dual's value proves the slow solution: |dual|_2 <= 1, |dual|_inf <= weight
    assert np.linalg.norm(dual, 2) <= 1 + 1e-6 and np.abs(dual).max() <= lam * (1 + 1e-6)
    assert (dual * X).sum() == pytest.approx(optimum, rel=1e-6)
    found = np.linalg.svd(model.low_rank_)[1].sum() + lam * np.abs(model.sparse_).sum()
    assert found == pytest.approx(optimum, rel=2e-3)
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, X, atol=1e-6)


def test_more_weight_makes_it_sparser_and_of_higher_rank(rng):
    _, _, X = made(rng, 20, 15, 2, 0.1, 0.3)
    models = [RPCA(sparse_weight=weight).fit(X) for weight in (0.05, 0.25, 0.6, 5)]
    ranks = [model.n_components_ for model in models]
    outliers = [np.count_nonzero(np.abs(model.sparse_) > 1e-6) for model in models]
    assert ranks == sorted(ranks) and outliers == sorted(outliers, reverse=True)
    assert np.abs(models[0].low_rank_).max() < 1e-6 and np.abs(models[-1].sparse_).max() < 1e-6


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_godec_keeps_its_bounds_and_ends_as_low_as_the_slow_one(rng, noise):
    _, _, X = made(rng, 30, 25, 3, 0.06, noise)
    model = GoDec(3, sparse_share=0.06, random_state=0, max_iter=500, tol=1e-9).fit(X)
    assert np.linalg.matrix_rank(model.low_rank_, tol=1e-8) <= 3
    assert np.count_nonzero(model.sparse_) <= round(0.06 * X.size)
    error = np.linalg.norm(X - model.low_rank_ - model.sparse_)
    assert error <= 1.02 * godec(X, 3, round(0.06 * X.size)) + 1e-6
    assert not GoDec(3, sparse_share=0, random_state=0).fit(X).sparse_.any()
    assert GoDec(99, random_state=0).fit(X[:, :4]).n_components_ == 4


def test_codes_are_of_least_absolute_deviations(rng):
    H = np.linalg.qr(rng.normal(size=(14, 3)))[0].T
    X = rng.normal(size=(6, 14)) * 10.0 ** np.arange(-3, 3)[:, None]  # each row by its own scale
    codes = robust_pca.lad(X, H, max_iter=1000)
    for x, c in zip(X, codes, strict=True):
        best = np.abs(x - least_absolute_codes(x, H) @ H).sum()
        assert np.abs(x - c @ H).sum() == pytest.approx(best, rel=1e-3)
        assert np.abs(x - x @ H.T @ H).sum() > 1.01 * best or best < 1e-12  # least squares would not do


def test_codes_of_float32_come_to_an_end(rng):
    """The tolerance lay below the precision of float32, so codes of long rows took all iterations."""
    _, _, X = made(rng, 20, 2000, 3, 0.1)
    X = X.astype(np.float32)
    H = GoDec(3, random_state=0).fit(X).components_
    np.testing.assert_array_equal(robust_pca.lad(X, H, max_iter=1000), robust_pca.lad(X, H, max_iter=1500))


@pytest.mark.parametrize("factor", [1e-30, 1e30])
@pytest.mark.parametrize("model", [RPCA(), GoDec(2, sparse_share=0.1, random_state=0)], ids=["RPCA", "GoDec"])
def test_scale_changes_nothing(rng, model, factor):
    _, _, X = made(rng, 20, 15, 2, 0.1)
    plain = model.fit(X).low_rank_
    for dtype, rtol in ((np.float64, 1e-6), (np.float32, 1e-2)):
        scaled = model.fit((factor * X).astype(dtype))
        np.testing.assert_allclose(scaled.low_rank_ / factor, plain, rtol, 0.01 * np.abs(plain).max())


@pytest.mark.parametrize("model", [RPCA(max_iter=2), GoDec(2, max_iter=1, random_state=0)])
def test_not_converging_is_said(rng, model):
    with pytest.warns(ConvergenceWarning, match=r"has not converged after \d iterations; .*; raise max_iter or tol"):
        model.fit(rng.normal(size=(20, 15)))


def test_nothing_to_split():
    zeros = np.zeros((4, 3))
    for model in (RPCA(), GoDec(random_state=0)):
        assert not model.fit(zeros).low_rank_.any() and not model.transform(zeros).any()


def test_files(rng, tmp_path):
    _, _, X = made(rng, 20, 15, 2, 0.1)
    for model in (RPCA(sparse_weight=0.3), GoDec(3, sparse_share=0.15, random_state=1, tol=0)):
        model.fit(X).save(tmp_path / "model.npz", force=True)
        again = load_model(tmp_path / "model.npz")
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.transform(X), model.transform(X))
        np.testing.assert_array_equal(again.singular_values_, model.singular_values_)
        assert not hasattr(again, "low_rank_")
    model.components_ = 2 * model.components_
    with pytest.raises(ParameterError, match="not orthonormal"):
        model.save(tmp_path / "bad.npz")
