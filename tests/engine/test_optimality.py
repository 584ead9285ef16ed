"""The KKT residual: 0 at known optima, the definition with numerical gradients elsewhere, and free of scale."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import losses_where
from naive import least_absolute_deviations
from scipy.optimize import linprog, lsq_linear, nnls
from sklearn.neighbors import kneighbors_graph

from visionnmf import NMF, Penalty
from visionnmf.engine import solving
from visionnmf.engine.losses import Loss
from visionnmf.engine.optimality import optimality, projected_gradient
from visionnmf.engine.penalties import Bounds, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.exceptions import ParameterError

LOSSES = losses_where(betas=(0.5, 1.5, -1.0))
SMOOTH = [loss for loss in LOSSES if loss.record.kink == 0]


def named(loss):
    return f"{loss.name}-{loss.parameter:g}"


def factors(rng, m=12, n=9, r=3):
    return rng.gamma(1, size=(r, m)), rng.gamma(1, size=(r, n))


def data(rng, Wt, H, noise=0.3):
    return Wt.T @ H * rng.uniform(1 - noise, 1 + noise, (Wt.shape[1], H.shape[1])) + 0.01


def derivative_size(problem, Wt, H):
    """Norm of the derivative of the loss by the model: at the model 0, or its positive part for the divergences."""
    X, loss = problem.X, problem.loss
    M = np.ones_like(X) if problem.weights is None else problem.weights
    if loss.record.is_divergence and loss.beta != 2:
        return np.linalg.norm(M * (Wt.T @ H) ** (loss.beta - 1))
    step = 1e-6 * np.eye(X.shape[1])
    sides = [[loss.record.values(X, sign * row + 0 * X, M, loss.parameter) for row in step] for sign in (-1, 1)]
    return np.linalg.norm(sides[1] - np.array(sides[0])) / 2e-6


def naive_optimality(problem, Wt, H, gradient_W, gradient_H):
    """The definition, for penalties without a coupling; the l1 norm is in the gradients."""
    size = np.linalg.norm(problem.X)
    sigma = derivative_size(problem, Wt, H) / size
    found = []
    for F, A, G, penalty in ((Wt, H, gradient_W, problem.penalty_W), (H, Wt, gradient_H, problem.penalty_H)):
        total = 0.0
        for k in range(len(F)):
            square = (A[k] ** 2).sum()
            for j in range(F.shape[1]):
                moved = min(max(F[k, j] - G[k, j] / (sigma * square), penalty.low), penalty.high)
                total += square * (F[k, j] - moved) ** 2
        found.append(np.sqrt(total) / size)
    return max(found)


def numerical_gradient(function, F):
    G = np.empty_like(F)
    for index in np.ndindex(*F.shape):
        ahead, back = F.copy(), F.copy()
        step = 1e-5 * F[index] + 1e-7
        ahead[index] += step
        back[index] -= step
        G[index] = (function(ahead) - function(back)) / (2 * step)
    return G


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", SMOOTH, ids=named)
def test_it_is_what_it_says_with_numerical_gradients(loss, weighted, rng):
    Wt, H = factors(rng)
    X = data(rng, Wt, H, 0.5)
    M = rng.random(X.shape) if weighted else None
    graph = sp.csr_array(kneighbors_graph(X, 3, include_self=False))
    penalty_W = Penalties(l1=0.02, l2=np.array([0.1, 0.0, 0.3]), graph=0.1 * (graph + graph.T))
    problem = Problem(X, loss, penalty_W, Penalties(low=0.3, high=1.5, l1=0.1), weights=M)
    H = np.clip(H, 0.3, 1.5)
    expected = naive_optimality(
        problem,
        Wt,
        H,
        numerical_gradient(lambda F: problem.objective(F, H), Wt),
        numerical_gradient(lambda F: problem.objective(Wt, F), H),
    )
    assert optimality(problem, Wt, H) == pytest.approx(expected, rel=1e-4)
    assert expected > 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_it_is_zero_at_an_exact_factorisation_and_large_elsewhere(loss, dtype, rng):
    Wt, H = (F.astype(dtype) for F in factors(rng, 40, 30))
    problem = Problem(Wt.T @ H, loss)
    assert optimality(problem, Wt, H) < (1e-5 if dtype == np.float32 else 1e-12)
    other = [F.astype(dtype) for F in factors(rng, 40, 30)]
    assert optimality(problem, *other) > 0.1


@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_it_is_free_of_scale_and_balance(loss, rng):
    Wt, H = factors(rng, 15, 25)
    H[:, :5] = 0
    X = data(rng, Wt, H)
    M = rng.integers(0, 2, X.shape) + 0.5
    problem = Problem(X, loss, Penalties(l1=0.1), Penalties(l2=0.2), weights=M)
    expected = optimality(problem, Wt, H)
    balance = np.array([0.01, 1.0, 300.0])
    rebalanced = replace(
        problem, penalty_W=problem.penalty_W.rescaled(balance), penalty_H=problem.penalty_H.rescaled(1 / balance)
    )
    moved = optimality(rebalanced, Wt * balance[:, None], H / balance[:, None])
    assert moved == pytest.approx(expected, rel=1e-8)
    bare = Problem(X, loss, weights=M)
    expected = optimality(bare, Wt, H)
    assert optimality(replace(bare, weights=7 * M), Wt, H) == pytest.approx(expected, rel=1e-8)
    if loss.record.degree is not None or loss.record.is_divergence:  # the others have a scale of their own
        c = 2.0**20
        assert optimality(replace(bare, X=c * X), c * Wt, H) == pytest.approx(expected, rel=1e-8)


def test_samples_and_features_change_places(rng):
    Wt, H = factors(rng, 15, 25)
    for loss in LOSSES:
        if loss.record.weight_degree == 1:  # a root of a row is none of a column
            problem = Problem(data(rng, Wt, H), loss, Penalties(l1=0.1), weights=rng.random((15, 25)))
            assert optimality(problem.transposed, H, Wt) == pytest.approx(optimality(problem, Wt, H), rel=1e-8)


def test_least_squares_by_turns_ends_at_zero(rng):
    Wt, H = factors(rng, 20, 15, 2)
    X = data(rng, Wt, H)
    X[:, :8] *= rng.random(X[:, :8].shape) < 0.5
    found = []
    for _ in range(150):
        Wt = np.array([nnls(H.T, x)[0] for x in X]).T
        H = np.array([nnls(Wt.T, x)[0] for x in X.T]).T
        found.append(optimality(Problem(X, Loss("frobenius")), Wt, H))
    assert (Wt == 0).any() and (H == 0).any()
    assert found[0] > 0.01 and found[-1] < 1e-5


def alternate_programmes(X, H, rounds):
    """Solve for both factors by turns by linear programming."""
    for _ in range(rounds):
        Wt = np.array([_programme(x, H) for x in X]).T
        H = np.array([_programme(x, Wt) for x in X.T]).T
    return Wt, H


def _programme(x, H):
    r, n = H.shape
    cost = np.r_[np.zeros(r), np.ones(2 * n)]
    equal = np.hstack([H.T, np.eye(n), -np.eye(n)])
    found = linprog(cost, A_eq=equal, b_eq=x, method="highs").x[:r]
    assert np.abs(x - found @ H).sum() == pytest.approx(least_absolute_deviations(x, H))
    return found


@pytest.mark.slow
def test_manhattan_is_nearly_zero_where_linear_programmes_find_nothing_to_gain(rng):
    Wt, H = factors(rng, 15, 12, 2)
    X = data(rng, Wt, H)
    start = rng.random(H.shape)
    first = alternate_programmes(X, start, 1)
    last = alternate_programmes(X, start, 12)
    problem = Problem(X, Loss("manhattan"))
    assert optimality(problem, *last) < 2e-3
    assert optimality(problem, *first) > 0.02
    for scale in (0.99, 1.01):
        assert optimality(problem, scale * last[0], last[1]) > 0.02


def test_a_manhattan_median_is_optimal():
    X = np.array([[1.0], [2.0], [3.0], [10.0], [50.0]])
    ones = np.ones((1, 5))
    problem = Problem(X, Loss("manhattan"))
    assert optimality(problem, ones, np.array([[3.0]])) == pytest.approx(codes_part(X, 3.0))
    assert optimality(problem, ones, np.array([[2.5]])) > codes_part(X, 3.0)


def codes_part(X, value):
    """The codes of all rows but the third would like to follow their row: each has the derivative 1."""
    sigma = np.sqrt(5) / np.linalg.norm(X)
    steps = [min(1.0, 1 / (sigma * value)) if x < value else 1 / (sigma * value) for x in X[:, 0] if x != value]
    return value * np.linalg.norm(steps) / np.linalg.norm(X)


@pytest.mark.parametrize(
    ("name", "zero_weight"), [("frobenius", 1.0), ("kullback-leibler", 1.0), ("manhattan", 1.0), ("manhattan", 0.3)]
)
def test_sparse_data_are_dense_data(name, zero_weight, rng):
    Wt, H = factors(rng, 30, 20)
    H[rng.random(H.shape) < 0.3] = 0
    X = np.where(rng.random((30, 20)) < 0.3, np.round(3 * Wt.T @ H), 0)
    X[4] = 0
    stored = np.where(X > 0, 1.0, zero_weight)
    dense = Problem(X, Loss(name), Penalties(l1=0.1), weights=stored if zero_weight < 1 else None)
    sparse = Problem(sp.csr_array(X), Loss(name), Penalties(l1=0.1), zero_weight=zero_weight)
    assert optimality(sparse, Wt, H) == pytest.approx(optimality(dense, Wt, H), rel=1e-3)
    assert optimality(replace(sparse, X=sp.csr_array((30, 20))), Wt, H) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "solver", "end"), [("frobenius", "hals", 1e-4), ("kullback-leibler", "ccd", 1e-3)])
def test_it_falls_along_a_fit(loss, solver, end, rng):
    Wt, H = factors(rng, 60, 40)
    problem = Problem(data(rng, Wt, H), Loss(loss))
    W, H = rng.random(Wt.shape), rng.random(H.shape)
    found = [optimality(problem, W, H)]
    for _ in range(3):
        solving.fit(problem, W, H, solver=solver, max_iter=150, tol=0)
        found.append(optimality(problem, W, H))
    assert found[0] > 0.1 and found[1] < 0.1 * found[0] and found[3] < end


@pytest.mark.slow
@pytest.mark.parametrize(
    "penalty",
    [
        Penalties(simplex="columns"),
        pytest.param(Penalties(simplex="rows"), marks=pytest.mark.slow),
        pytest.param(Penalties(groups=(np.arange(6), np.arange(6, 15)), group_l1=0.5), marks=pytest.mark.slow),
        Penalties(groups=(np.arange(6), np.arange(6, 15)), group_norm=np.inf, group_bounds=(1.0, 2.0)),
    ],
    ids=["columns", "rows", "l12", "l1inf"],
)
def test_constraints_of_several_entries_count_through_their_prox(penalty, rng):
    Wt, H = factors(rng, 12, 15)
    problem = Problem(data(rng, Wt, H), Loss("frobenius"), penalty_H=penalty)
    penalty.feasible(H)
    start = optimality(problem, Wt, H)
    for _ in range(3000):  # proximal gradient by turns
        for F, A, X, p in ((Wt, H, problem.X.T, problem.penalty_W), (H, Wt, problem.X, penalty)):
            gram = A @ A.T
            step = 1 / np.linalg.norm(gram, 2)
            F -= step * (gram @ F - A @ X)
            p.prox(F, step)
    assert optimality(problem, Wt, H) < 1e-3 < 0.03 < start


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("each", [False, True])
def test_the_projected_gradient_is_0_at_minima_within_bounds(each, dtype, rng):
    """Of one factor after the other, as scipy finds them; the other one is fixed by equal bounds."""
    X, W = 2 * rng.random((9, 30)).astype(dtype), rng.random((9, 3)).astype(dtype)
    low, high = (np.full((3, 30), 0.1), np.full((3, 30), 0.6))
    if each:
        low, high = low * rng.random((3, 30)), high * (0.5 + rng.random((3, 30)))
    low, high = low.astype(dtype), high.astype(dtype)
    # an l1 term of weight 0.2 shifts the right-hand side of the normal equations
    shift = np.linalg.lstsq(W.astype(float).T, np.full(3, 0.2), rcond=None)[0]
    solved = [
        lsq_linear(W.astype(float), x - shift, (a, b), "bvls", tol=1e-14).x
        for x, a, b in zip(X.T.astype(float), low.T, high.T, strict=True)
    ]
    H = np.clip(np.array(solved).T.astype(dtype), low, high)
    H = np.where(abs(H - low) < 1e-6, low, np.where(abs(H - high) < 1e-6, high, H)).astype(dtype)
    assert (H == low).any() and (H == high).any() and ((H > low) & (H < high)).any()
    bounds = {"terms": (Bounds(low, high),)} if each else {"low": 0.1, "high": 0.6}
    fixed = Penalties(terms=(Bounds(W.T.copy(), W.T.copy()),))
    problem = Problem(X, Loss("frobenius"), fixed, Penalties(l1=0.2, **bounds))
    Wt, start = W.T.copy(), ((low + high) / 2).astype(dtype)
    assert projected_gradient(problem, Wt, H) < 1e-5 * projected_gradient(problem, Wt, start)


def test_bounds_of_each_entry_count_where_a_loss_has_a_kink(rng):
    """All entries are at their upper bounds, where half of the features ask for larger factors."""
    W, H = 0.5 + rng.random((3, 12)), 0.5 + rng.random((3, 9))
    X = W.T @ H
    X[:, ::2] += 1  # the other features have residuals of 0
    held = [Penalties(terms=(Bounds(np.zeros_like(F), F.copy()),)) for F in (W, H)]
    assert optimality(Problem(X, Loss("manhattan"), *held), W, H) < 1e-6
    assert optimality(Problem(X, Loss("manhattan")), W, H) > 0.01


def test_the_projected_gradient_knows_bounds_only(rng):
    for side, penalty in (("W", Penalty(simplex=True)), ("H", Penalty(groups=[[0, 1]], group_l1=1))):
        model = NMF(2, loss="frobenius", stop="projected-gradient", **{f"penalty_{side}": penalty})
        with pytest.raises(ParameterError, match=f"stop must be another rule with .* in penalty_{side}; got"):
            model.fit(rng.random((6, 5)))


def test_nothing_to_fit_is_optimal():
    zero = np.zeros((3, 4))
    problem = Problem(np.zeros((5, 4)), Loss("manhattan"))
    assert optimality(problem, np.zeros((3, 5)), zero) == 0
    assert optimality(Problem(np.ones((5, 4)), Loss("frobenius")), np.zeros((3, 5)), zero) == 0  # a saddle
    assert optimality(problem, np.ones((3, 5)), np.ones((3, 4))) > 0.1
    unused = np.vstack([np.ones((1, 4)), zero[:1]])
    X = np.ones((5, 4))
    for loss in LOSSES:
        assert optimality(Problem(X, loss), np.ones((2, 5)), unused) == pytest.approx(0, abs=1e-12)
