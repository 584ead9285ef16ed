"""The solvers of the divergences: certificates, limits, and scikit-learn as the oracle."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import losses_where
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.exceptions import ConvergenceWarning

from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import sbcd
from visionnmf.engine.solving import fit, solve_codes

KL, IS = Loss("kullback-leibler"), Loss("itakura-saito")
LOSSES = losses_where(lambda record: record.is_divergence, betas=(0.5, 1.5, 3.0))
MONOTONE = ["sbcd", "mu"]
DTYPES = [np.float64, np.float32]


def make(rng, dtype=np.float64, shape=(20, 14), rank=3):
    X = rng.gamma(2, size=(shape[0], rank)) @ rng.gamma(0.5, size=(rank, shape[1])) * rng.gamma(5, 0.2, size=shape)
    return (X + 0.05).astype(dtype)


def start(problem, rank, rng):
    dtype = problem.X.dtype
    level = np.sqrt(problem.X.mean() / rank)
    return tuple((level * (0.1 + rng.random((rank, n)))).astype(dtype) for n in problem.X.shape)


def run(problem, rank, rng, solver, *, max_iter=30, tol=0.0):
    Wt, H = start(problem, rank, rng)
    return Wt, H, fit(problem, Wt, H, solver=solver, max_iter=max_iter, tol=tol)


def gradients(problem, Wt, H):
    """Return the derivatives by the codes and by the components, in double precision."""
    beta = problem.loss.beta
    X, W, H = problem.X.astype(float), Wt.astype(float), H.astype(float)
    P = W.T @ H
    slope = P ** (beta - 2) * (P - X)
    if problem.weights is not None:
        slope *= problem.weights
    return H @ slope.T + problem.penalty_W.gradient(W), W @ slope + problem.penalty_H.gradient(H)


def kkt(F, gradient, penalty):
    """Return the largest ``|F - clip(F - gradient)|``: 0 at a stationary point."""
    l1 = np.broadcast_to(penalty.l1, len(F))[:, None]
    high = penalty.high if np.isfinite(penalty.high) else None
    return np.abs(F - np.clip(F - (gradient + l1), penalty.low, high)).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", MONOTONE)
def test_the_objective_never_rises(dtype, loss, solver, rng):
    problem = Problem(make(rng, dtype), loss, Penalties(l1=0.01, l2=0.1), Penalties(l2=0.02))
    _, _, result = run(problem, 3, rng, solver)
    history = np.array(result.history)
    assert (np.diff(history) <= 1e-5 * history[0]).all() and history[-1] < 0.7 * history[0]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_sbcd_ends_at_a_stationary_point_as_good_as_scikit_learn(loss, rng):
    problem = Problem(make(rng), loss)
    Wt, H = start(problem, 3, rng)
    theirs = SklearnNMF(3, init="custom", solver="mu", beta_loss=loss.beta, max_iter=3000, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = theirs.fit_transform(problem.X, W=np.ascontiguousarray(Wt.T), H=H.copy())
    peer = problem.objective(np.ascontiguousarray(W.T), theirs.components_)
    fit(problem, Wt, H, solver="sbcd", max_iter=800, tol=0.0)
    assert problem.objective(Wt, H) <= peer * 1.01  # each ends in a local minimum of its own
    for F, gradient in zip((Wt, H), gradients(problem, Wt, H), strict=True):
        assert kkt(F, gradient, Penalties()) < 1e-2 * problem.X.mean()


@pytest.mark.parametrize("beta", [0, 0.5, 1, 1.5, 2, 3])
@pytest.mark.parametrize("l1", [0.0, 0.05])
def test_mu_is_scikit_learns(beta, l1, rng):
    X = make(rng)
    Wt, H = start(Problem(X, KL), 3, rng)
    problem = Problem(X, Loss("beta", beta), Penalties(l1=l1 * X.shape[1]), Penalties(l1=l1 * X.shape[0]))
    theirs = SklearnNMF(
        3, init="custom", solver="mu", beta_loss=beta, max_iter=7, tol=0, alpha_W=l1, alpha_H=l1, l1_ratio=1.0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = theirs.fit_transform(X, W=np.ascontiguousarray(Wt.T), H=H.copy())
    fit(problem, Wt, H, solver="mu", max_iter=7, tol=0.0)
    np.testing.assert_allclose(Wt.T, W, rtol=1e-6)
    np.testing.assert_allclose(H, theirs.components_, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["sbcd", "ccd"])
def test_a_weight_of_two_is_a_row_twice(solver, rng):
    X = make(rng)
    weights = np.ones_like(X)
    weights[4] = 2
    once, twice = Problem(X, KL, weights=weights), Problem(np.vstack([X, X[4:5]]), KL)
    Wt, H = start(once, 3, rng)
    assert once.objective(Wt, H) == pytest.approx(twice.objective(np.hstack([Wt, Wt[:, 4:5]]), H), rel=1e-10)
    W2, H2 = np.hstack([Wt, Wt[:, 4:5]]), H.copy()
    ends = (
        fit(once, Wt, H, solver=solver, max_iter=200, tol=0.0),
        fit(twice, W2, H2, solver=solver, max_iter=200, tol=0.0),
    )
    assert ends[0].history[-1] == pytest.approx(ends[1].history[-1], rel=1e-4)


PENALTIES = [
    Penalties(),
    Penalties(l1=0.3),
    Penalties(l2=0.5),
    Penalties(low=0.05, high=0.6),
    Penalties(l1=0.1, l2=0.2, high=1.0),
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_codes_are_stationary(loss, penalty, weighted, rng):
    X, H = make(rng), rng.random((4, 14))
    weights = rng.random(X.shape) * (rng.random(X.shape) < 0.8) if weighted else None
    problem = Problem(X if weights is None else X * (weights > 0), loss, penalty, weights=weights)
    Wt = solve_codes(problem, H)
    assert (Wt >= penalty.low).all() and (Wt <= penalty.high).all()
    gradient, _ = gradients(problem, Wt, H)
    size = (H @ (Wt.T @ H).T ** (loss.beta - 1)).max()  # of the terms that cancel
    assert kkt(Wt, gradient, penalty) < 1e-7 * size


@pytest.mark.parametrize("loss", [KL, IS, Loss("beta", 1.5)])
def test_codes_of_components_that_are_nearly_dependent(loss, rng):
    # coordinate descent alone would need thousands of sweeps
    places = np.linspace(0, 1, 60)
    H = np.exp(-((places - np.linspace(0, 1, 25)[:, None]) ** 2) / (2 * 0.06**2)) + 1e-3
    X = rng.gamma(0.3, size=(6, 25)) @ H * rng.gamma(50, 0.02, size=(6, 60))
    problem = Problem(X, loss)
    gradient, _ = gradients(problem, Wt := solve_codes(problem, H), H)
    size = (H @ (Wt.T @ H).T ** (loss.beta - 1)).max()
    assert kkt(Wt, gradient, Penalties()) < 1e-9 * size


def test_codes_of_counts_with_zeros_and_dead_parts(rng):
    H, X = rng.random((4, 30)), rng.poisson(2, (7, 30)).astype(float)
    H[:, 3] = 0  # a feature that no component has
    H[2] = 0  # a component that is zero everywhere
    H[1, 20:], H[1, :20] = 0, H[1, :20] + 0.1
    X[4, :20] = 0  # a component that explains only zeros
    X[5] = 0
    Wt = solve_codes(Problem(X, KL), H)
    seen = H.sum(axis=0) > 0
    gradient = H.sum(axis=1)[:, None] - H[:, seen] @ (X[:, seen] / np.maximum(Wt.T @ H[:, seen], 1e-12)).T
    gradient[:, 5] = 1
    assert (Wt[:, 5] == 0).all() and (Wt[2] == 0).all() and Wt[1, 4] == 0
    assert (gradient > -1e-5).all() and np.abs(gradient * Wt).max() < 1e-5


@pytest.mark.parametrize("solver", ["sbcd", "mu", "sbcd-plain", "al-a", "al-b"])
def test_itakura_saito_takes_zeros_that_are_missing(solver, rng):
    X = make(rng)
    X[2, 3] = X[4, 4] = 0
    problem = Problem(X, IS, weights=(X > 0).astype(float))  # missing entries are zeros
    _, _, result = run(problem, 2, rng, solver)
    assert np.isfinite(result.history).all()


def test_a_start_on_a_sample_is_made_and_helps(rng):
    problem = Problem(make(rng, shape=(600, 30), rank=4), KL)
    Wt, H = start(problem, 4, rng)
    before = problem.objective(Wt, H)
    assert sbcd._start_on_sample(problem, Wt, H, before)
    sampled = problem.objective(Wt, H)
    again = Problem(problem.transposed.X, KL)
    Ht, W = start(problem, 4, np.random.default_rng(0))
    assert sampled < before and sbcd._start_on_sample(again, W, Ht, before)
    # no start is taken that is worse than the caller's
    fit(problem, Wt, H, solver="sbcd", max_iter=50, tol=0.0)
    kept = Wt.copy()
    assert not sbcd._start_on_sample(problem, Wt, H, problem.objective(Wt, H))
    assert (Wt == kept).all()


def test_long_steps_on_the_sample_do_not_make_the_model_vanish(monkeypatch):
    rng = np.random.default_rng(0)
    clean = rng.gamma(0.2, size=(800, 10)) @ rng.gamma(0.2, size=(10, 60)) + 1e-4
    problem = Problem((clean * rng.gamma(20, 0.05, size=clean.shape)).astype(np.float32), IS)
    losses, half = [], sbcd.improve
    monkeypatch.setattr(sbcd, "improve", lambda *args, **kwargs: losses.append(half(*args, **kwargs)) or losses[-1])
    Wt, H = start(problem, 10, rng)
    sbcd._start_on_sample(problem, Wt, H, np.inf)
    assert max(losses[1 : 2 * sbcd.SAMPLE_ITERATIONS]) <= losses[0]  # the last one is of all rows


def test_graph_penalty_of_mu_makes_neighbours_alike(rng):
    X = make(rng)
    graph = sp.csr_array(np.kron(np.eye(10), [[0, 1], [1, 0]]))
    spreads = []
    for weight in (0.0, 50.0):
        problem = Problem(X, KL, Penalties(graph=weight * graph) if weight else Penalties(), Penalties(l2=0.1))
        Wt, _, result = run(problem, 3, np.random.default_rng(0), "mu", max_iter=100)
        assert (np.diff(result.history) <= 1e-8 * result.history[0]).all()
        spreads.append(np.abs(Wt[:, ::2] - Wt[:, 1::2]).mean() / Wt.mean())
    assert spreads[1] < 0.3 * spreads[0]


@pytest.mark.parametrize("solver", ["sbcd-plain", "al-a", "al-b"])
@pytest.mark.parametrize("loss", [KL, IS, Loss("frobenius")])
def test_published_variants_descend_from_a_random_start(solver, loss, rng):
    _, _, result = run(Problem(make(rng), loss), 3, rng, solver)
    assert result.history[-1] < 0.6 * result.history[0]


@pytest.mark.parametrize("loss", [KL, IS, Loss("beta", 0.5)])
def test_the_published_update_rises_where_ours_does_not(loss, rng):
    X = np.random.default_rng(1).gamma(0.1, size=(20, 14)) + 1e-6  # of a wide range
    rises = {}
    for solver in ("sbcd-plain", "sbcd"):
        history = np.array(run(Problem(X, loss), 4, np.random.default_rng(1), solver, max_iter=40)[2].history)
        rises[solver] = np.diff(history).max() / history[0]
    assert rises["sbcd-plain"] > 0.1 and rises["sbcd"] <= 1e-7


@pytest.mark.parametrize(("rank", "high"), [(1, np.inf), (3, 0.1)])
def test_many_counts_in_double_precision_end_as_in_double_precision(rank, high, rng, monkeypatch):
    """Single precision serves only while residuals and decreases are large, and bounds hold to the last bit."""
    X = make(rng, shape=(600, 450))
    assert X.size >= sbcd.SINGLE_ENTRIES
    problem = Problem(X, KL, Penalties(high=high), Penalties())
    Wt, H = start(problem, rank, rng)
    found = []
    for entries in (sbcd.SINGLE_ENTRIES, X.size + 1):
        monkeypatch.setattr(sbcd, "SINGLE_ENTRIES", entries)
        factors = Wt.copy(), H.copy()
        result = fit(problem, *factors, solver="sbcd", max_iter=100, tol=0)
        history = np.array(result.history)
        assert (np.diff(history) <= 1e-7 * history[:-1]).all()
        assert factors[0].dtype == factors[1].dtype == X.dtype and factors[0].max() <= high
        found.append(
            (
                history[-1],
                max(kkt(F, G, Penalties()) for F, G in zip(factors, gradients(problem, *factors), strict=True)),
            )
        )
    assert abs(found[0][0] / found[1][0] - 1) < 1e-9
    if rank == 1:  # whose minimum is reached; single precision alone leaves seven times as much
        assert found[0][1] < 2 * found[1][1]
