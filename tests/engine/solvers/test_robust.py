"""ADMM, RRI and Nesterov smoothing: recovery, certificates, oracles, degenerate data."""

from dataclasses import replace

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import given, is_minimised_by, losses_where
from scipy.optimize import linprog, minimize

from visionnmf.engine import solving, starts
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import ogm, rri
from visionnmf.engine.solving import CODES, SOLVERS, solve_codes

MANHATTAN = Loss("manhattan")
LOSSES = losses_where(is_minimised_by("admm"))
BY_ROW = [loss for loss in LOSSES if loss.record.codes == "admm"]
PAIRS = [
    (solver, loss)
    for solver in ("admm", "rri", "ogm", "ogm-paper")
    for loss in LOSSES
    if loss.name in SOLVERS[solver].losses
]
IDS = [f"{solver}-{loss.name}" for solver, loss in PAIRS]


def low_rank(rng, m=120, n=60, r=3, *, outliers=0.0, missing=0.0, dtype=np.float32):
    """A made matrix, its corrupted version, and the mask of its known entries (None when all are)."""
    clean = rng.gamma(0.5, size=(m, r)) @ rng.gamma(0.5, size=(r, n))
    clean /= np.quantile(clean, 0.99)
    draw = rng.random((m, n))
    X = np.where(draw < outliers / 2, 1.0, np.where(draw < outliers, 0.0, clean))
    M = (rng.random((m, n)) >= missing).astype(dtype) if missing else None
    X = X.astype(dtype)
    return clean, X if M is None else X * M, M


def start(problem, r, seed=0):
    Wt, H = starts.random(problem.X, r, np.random.RandomState(seed))
    return feasible(problem.penalty_W, Wt), feasible(problem.penalty_H, H)


def feasible(penalty, F):
    F = F.copy()
    penalty.feasible(F)
    return F


def solve(problem, r, *, solver="admm", max_iter=400, tol=1e-4, seed=0, factors=None):
    Wt, H = start(problem, r, seed) if factors is None else (factors[0].copy(), factors[1].copy())
    with one_blas_thread():
        result = solving.fit(problem, Wt, H, solver=solver, max_iter=max_iter, tol=tol)
    return Wt, H, result


def error(Wt, H, clean):
    return np.linalg.norm(Wt.T @ H - clean) / np.linalg.norm(clean)


# --- recovery by default settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outliers", "missing"), [(0, 0), (0.4, 0), (0, 0.3), (0.4, 0.3)])
def test_low_rank_is_recovered_from_outliers_and_missing_entries(outliers, missing, rng):
    clean, X, M = low_rank(rng, 400, 200, 5, outliers=outliers, missing=missing)
    Wt, H, _ = solve(Problem(X, MANHATTAN, weights=M), 5)
    assert error(Wt, H, clean) < 2e-3
    if outliers:  # what least squares makes of it
        Wt, H, _ = solve(Problem(X, Loss("huber", 1e3), weights=M), 5)
        assert error(Wt, H, clean) > 0.1


@pytest.mark.slow
def test_a_default_fit_of_noisy_data_ends_as_low_as_a_longer_one():
    shares, longer = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        clean = rng.random((200, 12)) @ rng.random((12, 150))
        X = np.maximum(0, clean + 0.02 * clean.mean() * rng.laplace(size=clean.shape))
        wrong = rng.random(X.shape) < 0.1
        X[wrong] = rng.random(wrong.sum()) * clean.max()
        problem, truth = Problem(X.astype(np.float32), MANHATTAN), np.abs(X - clean).sum()
        shares.append(solve(problem, 12, seed=seed)[2].history[-1] / truth)
        longer.append(solve(problem, 12, seed=seed, max_iter=1600, tol=0)[2].history[-1] / truth)
    assert np.mean(shares) < 0.979  # .977; with sweeps that all go forward .982
    assert np.mean(shares) < 1.003 * np.mean(longer)


@pytest.mark.slow
def test_a_penalty_that_cannot_be_lowered_does_not_stop_a_fit(rng):
    """On the simplex the l1 norm is constant, however large its weight."""
    X = low_rank(rng, outliers=0.2)[1].astype(np.float64)
    counts = [
        solve(Problem(X, MANHATTAN, Penalties(simplex="columns", l1=l1)), 4, tol=1e-4)[2].n_iter for l1 in (0.0, 1e4)
    ]
    assert counts[1] > 0.8 * counts[0]  # were the penalty part of what is left, a thirtieth


def test_l21_ignores_samples_that_do_not_belong(rng):
    clean, X, _ = low_rank(rng)
    X[::10] = 3 * (rng.random((12, 60)) < 0.1)
    own = np.arange(120) % 10 > 0
    for loss, bar in ((Loss("l21"), 0.01), (Loss("huber", 1e3), np.inf)):
        Wt, H, _ = solve(Problem(X, loss), 3)
        found = error(Wt[:, own], H, clean[own])
        assert found < bar
    assert found > 0.1


@pytest.mark.slow
def test_a_ridge_on_both_factors_lets_the_rank_be_generous(rng):
    clean, X, _ = low_rank(rng, 400, 300, 5, outliers=0.4)
    ridge = Penalties(l2=np.sqrt(400))
    Wt, H, _ = solve(Problem(X, MANHATTAN, penalty_W=ridge, penalty_H=ridge), 40)
    ridged = error(Wt, H, clean)
    values = np.linalg.svd(Wt.T @ H, compute_uv=False)
    Wt, H, _ = solve(Problem(X, MANHATTAN), 40)
    plain = np.linalg.svd(Wt.T @ H, compute_uv=False)
    assert ridged < 0.2 < 0.4 < error(Wt, H, clean)
    assert values[20] / values[0] < 0.2 * plain[20] / plain[0]  # superfluous components shrink


# --- what a solver says and does --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("solver", "loss"), PAIRS, ids=IDS)
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_progress_tells_the_objective_before_the_iteration(solver, loss, weighted, rng):
    _, X, M = low_rank(rng, 30, 20, missing=0.2 if weighted else 0, dtype=np.float64)
    M = None if M is None else M * rng.random(M.shape)
    penalty = Penalties(l1=0.05, l2=0.1)
    problem = Problem(X, loss, penalty_W=penalty, penalty_H=penalty, weights=M)
    Wt, H = start(problem, 3)
    untouched = X.copy()
    objective = problem.objective(Wt, H)
    first = objective
    for step in SOLVERS[solver].iterate(problem, Wt, H, max_iter=4):
        assert step.objective == pytest.approx(objective, rel=1e-9)
        objective = problem.objective(Wt, H)
    assert (X == untouched).all()
    Wt, H, result = solve(problem, 3, solver=solver, max_iter=60)
    assert result.history[-1] < 0.8 * first


def penalties(n, rng):
    ring = sp.csr_array(np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1))
    halves = (np.arange(n // 2), np.arange(n // 2, n))
    return {
        "box": Penalties(low=0.1, high=0.6),
        "l1": Penalties(l1=np.array([0.1, 0.2, 0.3])),
        "l2": Penalties(l2=np.array([0.1, 0.2, 0.3])),
        "graph": Penalties(graph=0.5 * ring),
        "simplex": Penalties(simplex="columns"),
        "groups": Penalties(groups=halves, group_l1=0.3),
        "bounds": Penalties(groups=halves, group_norm=np.inf, group_bounds=(1.0, 1.0)),
    }


KINDS = ["box", "l1", "l2", "graph", "simplex", "groups", "bounds"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("solver", ["admm", "rri", "ogm"])
def test_penalties_are_honoured(solver, side, kind, rng):
    _, X, _ = low_rank(rng, 40, 40, outliers=0.1, dtype=np.float64)
    penalty = penalties(40, rng)[kind]
    problem = Problem(X, MANHATTAN, **{f"penalty_{side}": penalty})
    if SOLVERS[solver].obstacle(problem):
        pytest.skip(SOLVERS[solver].obstacle(problem))
    factors = start(problem, 3)
    Wt, H, result = solve(problem, 3, solver=solver, factors=factors, max_iter=200)
    F = Wt if side == "W" else H
    np.testing.assert_allclose(feasible(penalty, F), F, atol=1e-9)
    assert result.history[-1] < 0.9 * result.history[0]
    if solver == "rri":
        return  # it may stall
    # the penalty is paid for: the solution of the plain problem is worse, made feasible
    mild = kind in ("l1", "l2", "groups")
    peer = solver if mild else "admm"  # a better solver's plain solution may be as good
    Wt, H, _ = solve(Problem(X, MANHATTAN), 3, solver=peer, factors=factors, max_iter=200)
    plain = problem.objective(*((feasible(penalty, Wt), H) if side == "W" else (Wt, feasible(penalty, H))))
    assert result.history[-1] < (1.0 if mild else 0.98) * plain


@pytest.mark.parametrize("loss", losses_where(is_minimised_by("rri")), ids=given)
@pytest.mark.parametrize("kind", ["box", "l1", "l2", "graph"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rri_never_rises(loss, kind, weighted, rng):
    _, X, M = low_rank(rng, 30, 30, outliers=0.2, missing=0.3 if weighted else 0, dtype=np.float64)
    penalty = penalties(30, rng)[kind]
    problem = Problem(X, loss, penalty_W=penalty, penalty_H=penalty, weights=M)
    history = np.array(solve(problem, 3, solver="rri", max_iter=30, tol=0)[2].history)
    assert (np.diff(history) <= 1e-9 * history[0]).all() and history[-1] < 0.9 * history[0]


@pytest.mark.parametrize(
    ("loss", "limit"), [(Loss("huber", 1e4), "frobenius"), (Loss("elastic-net", 1e-6), "manhattan")]
)
def test_limits_of_the_parameters(loss, limit, rng):
    _, X, _ = low_rank(rng, 60, 40, outliers=0.1, dtype=np.float64)
    other = Problem(X, Loss(limit))
    Wt, H, _ = solve(Problem(X, loss), 3, tol=1e-6)
    best = solve(other, 3, solver="hals" if limit == "frobenius" else "admm", tol=1e-6)[2].history[-1]
    assert other.objective(Wt, H) == pytest.approx(best, rel=0.01)


def test_kullback_leibler_reaches_what_coordinate_descent_reaches(rng):
    clean, _, _ = low_rank(rng, 60, 40, dtype=np.float64)
    problem = Problem(rng.poisson(20 * clean).astype(float), Loss("kullback-leibler"))
    best = min(solve(problem, 3, solver="ccd", tol=1e-6, seed=seed)[2].history[-1] for seed in range(2))
    assert solve(problem, 3, tol=1e-6)[2].history[-1] < 1.01 * best


@pytest.mark.parametrize("solver", ["admm", "rri", "ogm"])
def test_the_scale_of_the_weights_does_not_matter(solver, rng):
    _, X, M = low_rank(rng, 40, 30, outliers=0.1, missing=0.2, dtype=np.float64)
    M *= rng.random(M.shape)
    one, other = (solve(Problem(X, MANHATTAN, weights=c * M), 3, solver=solver, max_iter=20, tol=0) for c in (1, 1e6))
    np.testing.assert_allclose(one[0].T @ one[1], other[0].T @ other[1], rtol=1e-6, atol=1e-9)


def test_the_duality_gap_ends_a_solved_half_problem(rng):
    _, X, _ = low_rank(rng, 30, 20, outliers=0.2, dtype=np.float64)
    problem = Problem(X, MANHATTAN, penalty_W=Penalties(high=1.0))
    Wt, H, _ = solve(problem, 3)
    for _ in range(30):
        ogm.half(problem, Wt, H, smoothing=1e-5, steps=400)
    smooth = ogm._Smoothed(problem, H, 1e-5, ogm.OURS)
    value, _, gap = smooth.gradient(Wt)
    exact = sum(naive.least_absolute_deviations(x, H, 0, 1.0) for x in X)
    assert value - gap <= exact * (1 + 1e-9) and exact <= value * (1 + 1e-9)  # the bound holds
    assert gap <= 2e-3 * value  # and is tight
    before = Wt.copy()
    ogm.half(problem, np.clip(Wt + 0.1, 0, 1), H, smoothing=1e-5, steps=1)
    assert (Wt == before).all()
    assert ogm._Smoothed(Problem(X, MANHATTAN), H, 1e-5, ogm.OURS).gradient(Wt)[2] == np.inf


# --- codes ------------------------------------------------------------------------------------------------------------


def optimum(problem, H, j, guess):
    """The least objective of row j: a linear programme, or a smooth problem by L-BFGS."""
    x, r, n = problem.X[j].astype(float), *H.shape
    m = np.ones(n) if problem.weights is None else problem.weights[j].astype(float)
    penalty, loss = problem.penalty_W, problem.loss
    l1, l2 = penalty.weights(r, np.float64)
    bounds = [(penalty.low, None if np.isinf(penalty.high) else penalty.high)] * r
    if loss.name == "manhattan" and not l2.any():
        equal, target = np.hstack([H.T, np.eye(n), -np.eye(n)]), x
        if penalty.simplex:
            equal, target = np.vstack([equal, np.r_[np.ones(r), np.zeros(2 * n)]]), np.r_[x, 1]
        bounds += [(0, None)] * (2 * n)
        return linprog(np.r_[l1, m, m], A_eq=equal, b_eq=target, bounds=bounds, method="highs").fun

    def value(w):
        e = x - w @ H
        size = np.sqrt(e * e + 1e-18)
        if loss.name in ("manhattan", "elastic-net"):  # with a kink that L-BFGS needs to be round
            alpha = loss.parameter
            total, slope = (m * (size + alpha / 2 * e * e)).sum(), m * (e / size + alpha * e)
        else:
            row = x[None], (w @ H)[None], m[None], loss.parameter
            total, slope = loss.record.values(*row)[0], -loss.record.derivative(*row, 0.0)[0][0]
        return total + l1 @ w + (l2 * w * w).sum() / 2, -H @ slope + l1 + l2 * w

    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return min(minimize(value, w, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun for w in guess)


CODE_PENALTIES = {
    "plain": Penalties(),
    "l1": Penalties(l1=2.0),
    "l2": Penalties(l2=3.0),
    "box": Penalties(high=0.3),
    "simplex": Penalties(simplex="columns"),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weights", ["none", "missing", "random"])
@pytest.mark.parametrize("kind", CODE_PENALTIES)
@pytest.mark.parametrize("loss", BY_ROW, ids=given)
def test_codes_are_optimal(loss, kind, weights, dtype, rng):
    A = rng.gamma(0.5, size=(4, 30))
    A[2:] = A[0] + 0.3 * A[2:]  # components that are alike
    X = np.maximum(rng.random((8, 4)) @ A + rng.laplace(0, 0.1, (8, 30)), 0)
    X[rng.random(X.shape) < 0.2] = X.max()
    M = {"none": None, "missing": rng.random(X.shape) > 0.3, "random": rng.random(X.shape)}[weights]
    M = None if M is None else M.astype(dtype)
    X, A = (X if M is None else X * (M > 0)).astype(dtype), A.astype(dtype)
    penalty = CODE_PENALTIES[kind]
    problem = Problem(X, loss, penalty_W=penalty, weights=M)
    if penalty.beyond(CODES[loss.record.codes].terms):
        pytest.skip("this combination is refused")
    if kind == "simplex" and loss.name != "manhattan":
        pytest.skip("no oracle here")
    Wt = solve_codes(problem, A)
    assert Wt.dtype == dtype
    np.testing.assert_allclose(feasible(penalty, Wt), Wt, atol=1e-6)
    for j in range(0, 8, 2):
        row = replace(problem, X=X[j : j + 1], weights=None if M is None else M[j : j + 1])
        found = row.objective(Wt[:, j : j + 1], A) - row.penalty_H.value(A)
        best = optimum(problem, A.astype(float), j, [Wt[:, j].astype(float), np.full(4, 0.3)])
        assert found <= best * (1 + 2e-3) and found >= best * (1 - 1e-5)


def test_sweeps_of_rri_finish_what_admm_begins(rng):
    _, X, _ = low_rank(rng, 60, 40, outliers=0.2, dtype=np.float64)
    problem = Problem(X, MANHATTAN)
    Wt, H, result = solve(problem, 3)
    assert rri.half(problem, Wt, H, sweeps=3) == pytest.approx(result.history[-1])
    assert problem.objective(Wt, H) < result.history[-1]
