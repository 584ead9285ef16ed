"""Least squares: HALS with weights and penalties, exact codes, NeNMF."""

from dataclasses import replace

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear
from sklearn.decomposition import NMF as SklearnNMF

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import hals, nenmf

FROBENIUS = Loss("frobenius")
SOLVERS = {"hals": hals.iterate, "nenmf": nenmf.iterate}
DTYPES = [np.float32, np.float64]


def low_rank(rng, shape=(40, 30), rank=3, noise=0.02, dtype=np.float64):
    clean = rng.gamma(0.5, size=(shape[0], rank)) @ rng.gamma(0.5, size=(rank, shape[1]))
    return np.abs(clean + noise * rng.standard_normal(shape)).astype(dtype)


def start(X, rank, seed=0):
    rng = np.random.default_rng(seed)
    scale = np.sqrt(X.mean() / rank) or 1
    return tuple((scale * rng.random((rank, n))).astype(X.dtype) for n in X.shape)


def fit(solver, problem, Wt, H, max_iter):
    """Run a solver; return the factors and the objective before each iteration and after the last."""
    Wt, H = Wt.copy(), H.copy()
    with one_blas_thread():
        history = [step.objective for step in solver(problem, Wt, H, max_iter=max_iter)]
        return Wt, H, np.array([*history, problem.objective(Wt, H)])


def weights_of(kind, shape, rng):
    if kind == "missing":
        return (rng.random(shape) > 0.3).astype(float)
    if kind == "uniform":
        return rng.random(shape)
    return np.exp(1.5 * rng.standard_normal(shape))  # skewed: another algorithm


def kkt_residual(problem, Wt, H):
    """The largest violation of the conditions of optimality, relative to the size of the terms of the gradient."""
    M = np.ones(problem.X.shape) if problem.weights is None else problem.weights
    worst = 0.0
    for F, A, X, m, penalty in ((Wt, H, problem.X, M, problem.penalty_W), (H, Wt, problem.X.T, M.T, problem.penalty_H)):
        gradient = A @ (m * (F.T @ A - X)).T + np.reshape(penalty.l1, (-1, 1)) + penalty.gradient(F)
        size = np.abs(A @ (m * X).T).max()
        inside = np.where(F > penalty.low, np.where(F < penalty.high, np.abs(gradient), gradient), -gradient)
        worst = max(worst, inside.max() / size)
    return worst


# --- solvers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_solvers_reach_a_stationary_point_and_never_rise(name, dtype, rng):
    problem = Problem(low_rank(rng, dtype=dtype), FROBENIUS)
    Wt, H, history = fit(SOLVERS[name], problem, *start(problem.X, 3), max_iter=400)
    eps = np.finfo(dtype).eps
    assert Wt.dtype == H.dtype == dtype and Wt.min() >= 0 and H.min() >= 0
    assert (np.diff(history) <= 100 * eps * history[0]).all()
    assert history[0] == pytest.approx(
        np.square(problem.X - start(problem.X, 3)[0].T @ start(problem.X, 3)[1]).sum() / 2
    )
    assert kkt_residual(problem, Wt, H) < (1e-3 if dtype is np.float32 else 1e-5)


def test_a_small_loss_is_not_lost_in_the_rounding_of_large_products(rng):
    problem = Problem(low_rank(rng, noise=1e-3, dtype=np.float32), FROBENIUS)
    history = fit(hals.iterate, problem, *start(problem.X, 3), max_iter=100)[2]
    assert history[-1] < 1e-4 * history[0]
    for count in (60, 99):
        end = fit(hals.iterate, problem, *start(problem.X, 3), max_iter=count)[2][-1]
        assert history[count] == pytest.approx(end, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0, 0.4])
def test_penalties_lead_to_the_minima_of_scikit_learn(name, l1_ratio, rng):
    X = low_rank(rng)
    Wt, H = start(X, 3)
    peer = SklearnNMF(
        3, init="custom", alpha_W=0.01, alpha_H=0.02, l1_ratio=l1_ratio, tol=1e-10, max_iter=5000, solver="cd"
    )
    W = peer.fit_transform(X, W=Wt.T.copy(), H=H.copy())
    scale_W, scale_H = 0.01 * X.shape[1], 0.02 * X.shape[0]
    problem = Problem(
        X,
        FROBENIUS,
        Penalties(l1=scale_W * l1_ratio, l2=scale_W * (1 - l1_ratio)),
        Penalties(l1=scale_H * l1_ratio, l2=scale_H * (1 - l1_ratio)),
    )
    expected = problem.objective(np.ascontiguousarray(W.T), peer.components_)
    history = fit(SOLVERS[name], problem, Wt, H, max_iter=1500)[2]
    assert history[-1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_a_box_is_kept_and_the_end_is_stationary_in_it(name, rng):
    X = low_rank(rng)
    problem = Problem(X, FROBENIUS, Penalties(high=0.8, l1=np.array([0.1, 0.0, 0.2])), Penalties(low=0.01, high=1.5))
    Wt, H = (
        np.clip(F, *box.box(float)) for F, box in zip(start(X, 3), (problem.penalty_W, problem.penalty_H), strict=True)
    )
    Wt, H, _ = fit(SOLVERS[name], problem, Wt, H, max_iter=600)
    assert Wt.max() <= 0.8 and H.min() >= 0.01 and H.max() <= 1.5
    assert (Wt == 0.8).any() and (H == 0.01).any()
    assert kkt_residual(problem, Wt, H) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["missing", "uniform", "skewed"])
@pytest.mark.parametrize("penalty", [{}, {"l1": 0.05, "l2": 0.1}, {"high": 0.9}])
def test_weights_lead_to_a_stationary_point(kind, penalty, rng):
    X = low_rank(rng)
    M = weights_of(kind, X.shape, rng)
    problem = Problem(X * (M > 0), FROBENIUS, Penalties(**penalty), Penalties(**penalty), weights=M)
    Wt, H = (np.minimum(F, 0.9) for F in start(X, 3))
    Wt, H, history = fit(hals.iterate, problem, Wt, H, max_iter=1500)
    assert (np.diff(history) <= 1e-12 * history[0]).all()
    residual = (M * (X - Wt.T @ H) ** 2).sum() / 2
    penalties = problem.penalty_value(Wt, H)
    assert history[-1] == pytest.approx(residual + penalties, rel=1e-9)
    assert kkt_residual(problem, Wt, H) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["missing", "uniform"])
def test_both_algorithms_for_weights_find_the_same_minimum(kind, monkeypatch, rng):
    X = low_rank(rng)
    M = weights_of(kind, X.shape, rng)
    problem = Problem(X * (M > 0), FROBENIUS, Penalties(l1=0.1), Penalties(l2=0.1), weights=M)
    ends = []
    for skew in (0, np.inf):
        monkeypatch.setattr(hals, "SKEW", skew)
        ends.append(fit(hals.iterate, problem, *start(X, 3), max_iter=1000)[2][-1])
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_graph_leads_to_a_stationary_point(weighted, rng):
    X = low_rank(rng)
    chain = sp.csr_array(sp.diags_array([np.full(39, 0.5)] * 2, offsets=[-1, 1]))
    M = weights_of("missing", X.shape, rng) if weighted else None
    problem = Problem(X if M is None else X * M, FROBENIUS, Penalties(graph=chain), Penalties(l2=0.1), weights=M)
    Wt, H, history = fit(hals.iterate, problem, *start(X, 3), max_iter=1000)
    assert (np.diff(history) <= 1e-10 * history[0]).all()
    assert kkt_residual(problem, Wt, H) < 1e-4
    rough = fit(hals.iterate, replace(problem, penalty_W=Penalties()), *start(X, 3), max_iter=1000)[0]
    scaled = [F / F.max(axis=1, keepdims=True) for F in (Wt, rough)]
    assert np.abs(np.diff(scaled[0])).sum() < np.abs(np.diff(scaled[1])).sum()


@pytest.mark.slow
@pytest.mark.parametrize("side", ["columns", "rows"])
@pytest.mark.parametrize("kind", [pytest.param("uniform", marks=pytest.mark.slow), "skewed"])
def test_simplex_of_a_factor(side, kind, rng):
    X = low_rank(rng)
    problem = Problem(X, FROBENIUS, Penalties(simplex=side), weights=weights_of(kind, X.shape, rng))
    Wt, H = start(X, 3)
    problem.penalty_W.feasible(Wt)
    Wt, H, history = fit(hals.iterate, problem, Wt, H, max_iter=300)
    np.testing.assert_allclose(Wt.sum(axis=0 if side == "columns" else 1), 1, rtol=1e-6)
    assert Wt.min() >= 0
    assert (np.diff(history) <= 1e-9 * history[0]).all() and history[-1] < 0.8 * history[0]


@pytest.mark.parametrize("solver", SOLVERS.values())
def test_no_iteration_when_none_is_asked_for(solver, rng):
    X = low_rank(rng)
    Wt, H, history = fit(solver, Problem(X, FROBENIUS), *start(X, 3), max_iter=0)
    assert len(history) == 1 and (Wt == start(X, 3)[0]).all() and (H == start(X, 3)[1]).all()


# --- codes -----------------------------------------------------------------------------------------------------------


def codes_of(problem, H):
    Wt = np.empty((len(H), problem.X.shape[0]), problem.X.dtype)
    hals.codes(problem, Wt, H)
    return Wt


@pytest.mark.parametrize("kind", [None, "missing", "uniform", "skewed"])
@pytest.mark.parametrize("alike", [0, 5, 100])
@pytest.mark.parametrize(("low", "high"), [(0.0, np.inf), (0.0, 0.3), (0.1, 0.3)])
def test_codes_are_those_of_scipy(kind, alike, low, high, rng):
    H, X = rng.random((5, 30)) + alike, rng.random((9, 30))
    M = np.ones_like(X) if kind is None else weights_of(kind, X.shape, rng)
    l1, l2 = rng.random(5) * 0.1, rng.random(5) * 0.1
    problem = Problem(X * (M > 0), FROBENIUS, Penalties(low, high, l1, l2), weights=None if kind is None else M)
    Wt = codes_of(problem, H)
    assert Wt.min() >= low and Wt.max() <= high
    for f, x, m in zip(Wt.T, X, M, strict=True):
        # l1 and l2 as rows of a least-squares problem: |R f - t|^2 with R'R = G + l2, R't = b - l1
        R = np.linalg.cholesky((H * m) @ H.T + np.diag(l2)).T
        t = np.linalg.solve(R.T, H @ (m * x) - l1)
        best = lsq_linear(R, t, (low, high), method="bvls", tol=1e-14)
        assert np.square(R @ f - t).sum() / 2 <= best.cost + 1e-9 * np.square(t).sum()


@pytest.mark.parametrize("kind", [None, "missing"])
def test_codes_on_the_simplex_are_optimal(kind, rng):
    H, X = rng.random((4, 12)), rng.random((6, 12))
    M = np.ones_like(X) if kind is None else weights_of(kind, X.shape, rng)
    problem = Problem(X * M, FROBENIUS, Penalties(simplex="columns", l2=0.1), weights=None if kind is None else M)
    Wt = codes_of(problem, H)
    np.testing.assert_allclose(Wt.sum(axis=0), 1, rtol=1e-8)
    assert Wt.min() >= 0
    for f, x, m in zip(Wt.T, X, M, strict=True):

        def value(f, x=x, m=m):
            return 0.5 * np.sum(m * (x - f @ H) ** 2) + 0.05 * f @ f

        assert value(f) <= naive.least_on_simplex(value, np.full(4, 0.25)) + 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("kind", [None, "missing"])
@pytest.mark.parametrize("penalty", [{}, {"high": 0.4}, {"simplex": "columns"}])
def test_codes_when_pivoting_fails(kind, penalty, monkeypatch, rng):
    H, X = rng.random((4, 20)), rng.random((6, 20))
    M = None if kind is None else weights_of(kind, X.shape, rng)
    problem = Problem(X if M is None else X * M, FROBENIUS, Penalties(**penalty), weights=M)
    expected = codes_of(problem, H)

    def fail(F, *_, **__):
        F[:] = 0.1
        return np.zeros(len(F), np.bool_)

    monkeypatch.setattr(hals.quadratic, "solve", fail)
    np.testing.assert_allclose(codes_of(problem, H), expected, atol=1e-5)


def test_codes_of_sparse_data_are_those_of_dense_data(rng):
    X = rng.random((30, 40)) * (rng.random((30, 40)) < 0.2)
    H = rng.random((4, 40))
    dense = codes_of(Problem(X, FROBENIUS), H)
    np.testing.assert_allclose(codes_of(Problem(sp.csr_array(X), FROBENIUS), H), dense, rtol=1e-9, atol=1e-12)
