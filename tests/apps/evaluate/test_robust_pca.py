"""RPCA and GoDec: exact recovery, certificates, slow solutions of the same problems."""

import numpy as np
import pytest
from naive import godec as slow_godec, least_absolute_codes, principal_component_pursuit

from visionnmf.apps.evaluate.robust_pca import godec, lad, rpca


def made(rng, n, m, rank, share, noise=0.0):
    """A low-rank matrix, and the one with sparse outliers added."""
    L = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
    S = np.where(rng.random((n, m)) < share, rng.choice([-1, 1], (n, m)) * rng.uniform(5, 10, (n, m)), 0)
    return L, S, L + S + noise * rng.normal(size=(n, m))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "rank"), [(60, 50, 2), (40, 200, 3), (200, 40, 3)])
def test_exact_recovery(rng, dtype, n, m, rank):
    L, S, X = made(rng, n, m, rank, 0.08)
    size, X = np.abs(L).max(), X.astype(dtype)
    for found in (rpca(X, tol=1e-6), godec(X, rank, np.mean(S != 0))):
        assert found.components.dtype == found.low_rank.dtype == dtype
        assert len(found.components) == rank
        np.testing.assert_allclose(found.low_rank, L, atol=1e-4 * size)
        np.testing.assert_allclose(found.sparse, S, atol=1e-4 * size)
        np.testing.assert_allclose(found.components @ found.components.T, np.eye(rank), atol=1e-5)
        again = lad(X, found.components, max_iter=1000) @ found.components  # outliers do not move codes
        np.testing.assert_allclose(again, L, atol=1e-3 * size)


@pytest.mark.parametrize(("weight", "noise"), [(None, 0.5), (0.3, 0.1), (0.6, 0.5)])
def test_the_pursuit_ends_at_the_convex_optimum(rng, weight, noise):
    _, _, X = made(rng, 9, 7, 2, 0.1, noise)  # too small and noisy for recovery: the optimum all the same
    lam = 1 / 3 if weight is None else weight
    found = rpca(X, weight, tol=1e-8)
    L, S, dual = principal_component_pursuit(X, lam)
    optimum = np.linalg.svd(L)[1].sum() + lam * np.abs(S).sum()
    # the dual's value proves the slow solution: |dual|_2 <= 1, |dual|_inf <= weight
    assert np.linalg.norm(dual, 2) <= 1 + 1e-6 and np.abs(dual).max() <= lam * (1 + 1e-6)
    assert (dual * X).sum() == pytest.approx(optimum, rel=1e-6)
    objective = np.linalg.svd(found.low_rank)[1].sum() + lam * np.abs(found.sparse).sum()
    assert objective == pytest.approx(optimum, rel=2e-3)
    np.testing.assert_allclose(found.low_rank + found.sparse, X, atol=1e-6)


def test_more_weight_makes_it_sparser_and_of_higher_rank(rng):
    _, _, X = made(rng, 20, 15, 2, 0.1, 0.3)
    found = [rpca(X, weight) for weight in (0.05, 0.25, 0.6, 5)]
    ranks = [len(split.components) for split in found]
    outliers = [np.count_nonzero(np.abs(split.sparse) > 1e-6) for split in found]
    assert ranks == sorted(ranks) and outliers == sorted(outliers, reverse=True)
    assert np.abs(found[0].low_rank).max() < 1e-6 and np.abs(found[-1].sparse).max() < 1e-6


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_godec_keeps_its_bounds_and_ends_as_low_as_the_slow_one(rng, noise):
    _, _, X = made(rng, 30, 25, 3, 0.06, noise)
    found = godec(X, 3, 0.06, max_iter=500, tol=1e-9)
    assert np.linalg.matrix_rank(found.low_rank, tol=1e-8) <= 3
    assert np.count_nonzero(found.sparse) <= round(0.06 * X.size)
    error = np.linalg.norm(X - found.low_rank - found.sparse)
    assert error <= 1.02 * slow_godec(X, 3, round(0.06 * X.size)) + 1e-6
    assert not godec(X, 3, 0).sparse.any()
    assert len(godec(X[:, :4], 99).components) == 4


def test_codes_are_of_least_absolute_deviations(rng):
    H = np.linalg.qr(rng.normal(size=(14, 3)))[0].T
    X = rng.normal(size=(6, 14)) * 10.0 ** np.arange(-3, 3)[:, None]  # each row by its own scale
    codes = lad(X, H, max_iter=1000)
    for x, c in zip(X, codes, strict=True):
        best = np.abs(x - least_absolute_codes(x, H) @ H).sum()
        assert np.abs(x - c @ H).sum() == pytest.approx(best, rel=1e-3)
        assert np.abs(x - x @ H.T @ H).sum() > 1.01 * best or best < 1e-12  # least squares would not do


def test_codes_of_float32_come_to_an_end(rng):
    """The tolerance lay below the precision of float32, so codes of long rows took all iterations."""
    _, _, X = made(rng, 20, 2000, 3, 0.1)
    X = X.astype(np.float32)
    H = godec(X, 3).components
    np.testing.assert_array_equal(lad(X, H, max_iter=1000), lad(X, H, max_iter=1500))


@pytest.mark.parametrize("factor", [1e-30, 1e30])
@pytest.mark.parametrize("split", [rpca, lambda X: godec(X, 2)], ids=["rpca", "godec"])
def test_scale_changes_nothing(rng, split, factor):
    _, _, X = made(rng, 20, 15, 2, 0.1)
    plain = split(X).low_rank
    for dtype, rtol in ((np.float64, 1e-6), (np.float32, 1e-2)):
        scaled = split((factor * X).astype(dtype)).low_rank
        np.testing.assert_allclose(scaled / factor, plain, rtol, 0.01 * np.abs(plain).max())


def test_nothing_to_split():
    zeros = np.zeros((4, 3))
    assert not rpca(zeros).low_rank.any() and not godec(zeros, 2).low_rank.any()
