"""Sparse data: the same values, minima and codes as the dense data, in memory that grows with the stored entries."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import random_array
from loss_checks import losses_where

from visionnmf.engine import losses, products
from visionnmf.engine.arrays import namespace
from visionnmf.engine.blocks import row_blocks
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import NONNEGATIVE, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import sparse_hals
from visionnmf.engine.solving import SOLVERS, choose, solve_codes
from visionnmf.engine.starts import STARTS
from visionnmf.exceptions import ParameterError

LOSSES = [loss.name for loss in losses_where(lambda record: record.sparse is not None)]
SOLVER = {name: choose("auto", Problem(sp.csr_array(np.eye(2)), Loss(name))) for name in LOSSES}
PENALISED = Penalties(l1=0.05, l2=0.1)


def counts(rng, shape=(60, 40), rank=3, mean=0.4, dtype=np.float64):
    """Return Poisson counts of a model with sparse factors, with an explicit 0, an empty row and an empty column."""
    W, H = (rng.gamma(0.4, 1, (n, rank)) for n in shape)
    model = W @ H.T
    X = rng.poisson(model * mean / model.mean())
    X[3], X[:, 5] = 0, 0
    X = sp.csr_array(X.astype(dtype))
    X.data[0] = 0
    return X


def start(rng, X, r=3):
    return tuple((np.sqrt(X.mean() / r) * np.abs(rng.standard_normal((r, n)))).astype(X.dtype) for n in X.shape)


def fitted(problem, Wt, H, iterations, solver=None):
    Wt, H = Wt.copy(), H.copy()
    steps = list(SOLVERS[solver or SOLVER[problem.loss.name]].iterate(problem, Wt, H, max_iter=iterations))
    return Wt, H, [step.objective for step in steps] + [problem.objective(Wt, H)]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loss_has_the_value_of_the_dense_data(loss, dtype, rng):
    X = counts(rng, dtype=dtype)
    Wt, H = start(rng, X)
    Wt[0, :5] = 0
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    value = Problem(X, Loss(loss)).loss_value(Wt, H)
    exact = Problem(X.toarray().astype(float), Loss(loss)).loss_value(Wt.astype(float), H.astype(float))
    assert value == pytest.approx(exact, rel=1e-6 if loss == "kullback-leibler" else 1e-12)


def test_entries_that_are_not_stored_weigh_less_on_demand_and_other_losses_are_refused(rng):
    X = counts(rng)
    Wt, H = start(rng, X)
    stored = sp.csr_array((np.ones_like(X.data), X.indices, X.indptr), X.shape).toarray()
    weights = np.where(stored > 0, 1, 0.3)
    value = Problem(X, Loss("manhattan"), zero_weight=0.3).loss_value(Wt, H)
    assert value == pytest.approx(np.sum(weights * np.abs(X.toarray() - Wt.T @ H)), rel=1e-12)
    with pytest.raises(ParameterError, match=r"zero_weight must be 0 or 1 for losses other than 'manhattan'; got 0\.3"):
        Problem(X, Loss("frobenius"), zero_weight=0.3).loss_value(Wt, H)
    with pytest.raises(ParameterError, match=r"loss must be one of \['frobenius', .*; got 'huber'; pass X.toarray"):
        losses.sparse_loss_value(X, *start(rng, X), Loss("huber", 1.0))
    with pytest.raises(ParameterError, match="sparse X"):
        choose("auto", Problem(X, Loss("huber", 1.0)))


def test_blocks_cover_the_rows_and_share_the_entries(rng):
    X = random_array((500, 100), density=0.1, rng=rng, format="csr")
    work = row_blocks(X, 600)
    assert [start for start, _ in work[1:]] == [stop for _, stop in work[:-1]]
    assert work[0][0] == 0
    assert work[-1][1] == 500
    sizes = [X.indptr[stop] - X.indptr[start] + stop - start for start, stop in work]
    assert max(sizes) <= 700
    assert len(work) == pytest.approx((X.nnz + 500) / 600, abs=1)
    assert row_blocks(sp.csr_array((0, 4))) == []
    assert row_blocks(sp.csr_array((3, 4))) == [(0, 3)]


def test_products_take_dense_and_sparse_data_alike(rng):
    X = counts(rng)
    A = rng.random((3, 40))
    for data in (X, X.toarray()):
        np.testing.assert_allclose(products.right_sides(data, A), A @ X.toarray().T, rtol=1e-12)
        assert namespace.sum_of_squares(data) == pytest.approx((X.toarray() ** 2).sum())
        transposed = Problem(data, Loss("frobenius")).features
        assert transposed.shape == (40, 60)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [NONNEGATIVE, PENALISED, Penalties(high=0.7)], ids=["none", "l1l2", "box"])
def test_a_fit_descends_to_where_dense_data_lead(loss, penalty, rng):
    X = counts(rng)
    Wt, H = start(rng, X)
    problem = Problem(X, Loss(loss), penalty_W=penalty, penalty_H=penalty)
    dense = replace(problem, X=X.toarray())
    Wt, H = (np.minimum(F, penalty.high) for F in (Wt, H))
    found_W, found_H, history = fitted(problem, Wt, H, 60)
    assert history[0] == pytest.approx(dense.objective(Wt, H))
    # the dense divergence counts a model of 0 as a 1e-7 of the row's mean
    rel = 1e-6 if loss == "kullback-leibler" else 1e-9
    assert history[-1] == pytest.approx(dense.objective(found_W, found_H), rel=rel)
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(history))
    assert history[-1] < 0.8 * history[0]
    for F in (found_W, found_H):
        assert F.min() >= 0
        assert F.max() <= penalty.high
    if loss != "manhattan":
        # a few dense iterations from there gain nothing; weighted medians stall in other places
        entry = SOLVERS["ccd"] if loss == "kullback-leibler" and not penalty.kinds else SOLVERS["hals"]
        if loss in entry.losses:
            further = dense.objective(found_W, found_H)
            list(entry.iterate(dense, found_W, found_H, max_iter=10))
            assert dense.objective(found_W, found_H) >= further * (1 - 2e-3)


@pytest.mark.parametrize("loss", ["manhattan", "kullback-leibler"])
def test_one_iteration_is_two_sweeps_of_the_dense_one(loss, rng):
    X = counts(rng)
    Wt, H = start(rng, X)
    sparse_W, sparse_H, _ = fitted(Problem(X, Loss(loss)), Wt, H, 1)
    # on dense data the same descent, by single steps in plain NumPy
    dense = X.toarray()
    for data, F, A in ((dense, Wt, H), (dense.T, H, Wt)):
        for j in range(F.shape[1]):
            for _ in range(2):
                for k in range(3):
                    F[k, j] = _best(loss, data[j], F[:, j], A, k)
    np.testing.assert_allclose(sparse_W, Wt, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(sparse_H, H, rtol=1e-4, atol=1e-6)


def _best(loss, x, f, A, k):
    rest = f @ A - f[k] * A[k]
    a = A[k]
    if loss == "manhattan":
        order = np.argsort(np.where(a > 0, (x - rest) / np.where(a > 0, a, 1), np.inf))
        points, mass = ((x - rest) / np.where(a > 0, a, 1))[order], np.cumsum(a[order])
        i = np.searchsorted(mass, mass[-1] / 2)
        return max(0.0, points[i])
    p = np.maximum(rest + f[k] * a, 1e-7 * x.mean() + 1e-30)
    S, slope = np.sum(a * x / p), np.sum(a**2 * x / p**2)
    return max(0.0, f[k] + (S / slope) * (S / a.sum() - 1)) if slope > 0 else 0.0


@pytest.mark.slow
def test_least_squares_needs_few_passes(rng):
    X = counts(rng, (400, 150), 5, 0.5)
    Wt, H = start(rng, X, 5)
    problem = Problem(X, Loss("frobenius"))
    best = min(fitted(problem, Wt, H, 300)[2])
    ours = fitted(problem, Wt, H, 12)[2][-1]
    dense = fitted(replace(problem, X=X.toarray()), Wt, H, 12)[2][-1]
    assert ours <= best * 1.01
    assert ours <= dense * 1.005


def test_wide_and_tall_data_are_the_same_problem(rng):
    X = counts(rng)
    Wt, H = start(rng, X)
    tall = fitted(Problem(X, Loss("frobenius"), penalty_W=PENALISED), Wt, H, 5)
    wide = fitted(Problem(sp.csr_array(X.T), Loss("frobenius"), penalty_H=PENALISED), H, Wt, 5)
    np.testing.assert_array_equal(tall[0], wide[1])
    np.testing.assert_array_equal(tall[1], wide[0])


def test_a_step_that_raises_the_objective_is_taken_back(monkeypatch, rng):
    monkeypatch.setattr(sparse_hals, "CODES_SHARE", 5.0)  # far too bold
    X = counts(rng)
    history = fitted(Problem(X, Loss("frobenius")), *start(rng, X), 30)[2]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(history))
    assert any(after == before for before, after in pairwise(history))  # it happened
    assert history[-1] < 0.8 * history[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [NONNEGATIVE, PENALISED, Penalties(low=0.1, high=0.5)], ids=["none", "l1l2", "box"])
def test_codes_are_those_of_the_dense_data(loss, penalty, rng):
    X = counts(rng)
    H = rng.gamma(0.5, 1, (3, 40))
    problem = Problem(X, Loss(loss), penalty_W=penalty)
    dense = replace(problem, X=X.toarray())
    found, other = solve_codes(problem, H), solve_codes(dense, H)
    assert found.min() >= penalty.low
    assert found.max() <= penalty.high
    rows = range(60)
    one, two = (
        np.array([replace(dense, X=dense.X[[j]]).objective(F[:, [j]], H) for j in rows]) for F in (found, other)
    )
    if loss == "manhattan":  # not unique, and not found exactly
        assert one.sum() <= two.sum() * 1.001
    else:
        np.testing.assert_allclose(one, two, rtol=1e-7)
        np.testing.assert_allclose(found, other, atol=2e-5 * other.max())


def test_manhattan_codes_reach_the_linear_programme(rng):
    X = counts(rng, (12, 30), 3, 1.0)
    H = rng.gamma(0.5, 1, (3, 30))
    dense = X.toarray()
    for zero_weight in (1.0, 0.2):
        codes = solve_codes(Problem(X, Loss("manhattan"), zero_weight=zero_weight), H)
        assert not codes[:, 3].any()  # an empty row
        for j in range(12):
            weights = np.where(np.isin(np.arange(30), X[[j]].indices), 1, zero_weight)  # w |x - p| = |w x - w p|
            best = naive.least_absolute_deviations(weights * dense[j], weights * H)
            assert best - 1e-9 <= weights @ np.abs(dense[j] - codes[:, j] @ H) <= best * 1.002 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_memory_grows_with_the_stored_entries(loss, rng):
    shape, nnz, r = (30_000, 20_000), 20_000, 2
    rows, columns = (rng.integers(0, n, nnz) for n in shape)
    X = sp.csr_array((rng.random(nnz).astype(np.float32), (rows, columns)), shape)
    problem = Problem(X, Loss(loss))
    Wt, H = start(rng, X, r)
    fitted(problem, Wt, H, 1)  # compiled
    tracemalloc.start()
    fitted(replace(problem), Wt, H, 2)
    solve_codes(problem, H)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    assert peak < 4 * stored + 30 * (Wt.nbytes + H.nbytes)  # dense data take 2.4 GB


@pytest.mark.parametrize("loss", LOSSES)
def test_penalties_that_couple_rows_are_those_of_the_dense_data_or_refused(loss, rng):
    X = counts(rng)
    graph = sp.csr_array(random_array((60, 60), density=0.1, rng=rng))
    graph.setdiag(0)
    problem = Problem(X, Loss(loss), penalty_W=Penalties(graph=graph + graph.T))
    factors = start(rng, X)
    if loss == "manhattan":
        with pytest.raises(ParameterError, match=r"penalty_W.*graph|graph.*penalty_W"):
            fitted(problem, *factors, 1, solver=choose("auto", problem))
        return
    name = choose("auto", problem)
    found, dense = (fitted(data, *factors, 30, solver=name) for data in (problem, replace(problem, X=X.toarray())))
    for F, G in zip(found, dense, strict=True):
        np.testing.assert_allclose(F, G, rtol=1e-6, atol=1e-6 * np.max(G))
    assert found[2][-1] < found[2][0]


@pytest.mark.parametrize("name", sorted(STARTS))
def test_starts_take_sparse_data(name, rng):
    X = counts(rng, dtype=np.float32)
    one, other = (STARTS[name](data, 4, np.random.RandomState(0)) for data in (X, X.toarray()))
    for F, G in zip(one, other, strict=True):
        assert F.dtype == np.float32
        np.testing.assert_allclose(F, G, atol=2e-3 * float(G.max()))
