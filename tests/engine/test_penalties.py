"""Penalties: value, gradient and prox by brute force; the quadratic half-problem by its certificate."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from visionnmf.engine import quadratic
from visionnmf.engine.penalties import Penalties
from visionnmf.exceptions import ParameterError

N, R = 9, 4
GROUPS = (np.arange(0, 4), np.array([4, 6, 8]))  # a range and a scattered set; points 5 and 7 are in none


def make_graph(rng, n=N, dtype=np.float64):
    S = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.4), 1)
    return sp.csr_array((S + S.T).astype(dtype))


def make_penalties(rng):
    graph, l1, l2 = make_graph(rng), rng.random(R), rng.random(R)
    return {
        "nonnegative": Penalties(),
        "box": Penalties(low=0.05, high=0.4),
        "l1": Penalties(l1=l1),
        "l2": Penalties(l2=l2),
        "l1 l2 box": Penalties(low=0.1, high=0.5, l1=l1, l2=0.3),
        "graph": Penalties(graph=graph),
        "graph l1 l2 box": Penalties(high=0.6, l1=0.1, l2=l2, graph=graph),
        "simplex columns": Penalties(simplex="columns"),
        "simplex rows": Penalties(simplex="rows"),
        "simplex l1 l2 graph": Penalties(simplex="columns", l1=l1, l2=l2, graph=graph),
        "groups 2": Penalties(groups=GROUPS, group_l1=0.4),
        "groups inf": Penalties(groups=GROUPS, group_l1=0.4, group_norm=np.inf),
        "groups of their own weights": Penalties(groups=GROUPS, group_l1=(0.4, 0.1)),
        "groups l1 l2 graph": Penalties(groups=GROUPS, group_l1=0.2, l1=l1, l2=0.1, graph=graph),
        "ball 2": Penalties(groups=GROUPS, group_bounds=(1.0, 0.5)),
        "ball inf l1": Penalties(groups=GROUPS, group_bounds=(0.6, 0.5), group_norm=np.inf, l1=l1),
        "ball and norm": Penalties(groups=GROUPS, group_bounds=(1.0, 0.5), group_l1=0.1, group_norm=np.inf),
    }


NAMES = sorted(make_penalties(np.random.default_rng(0)))


def naive_value(p, F):
    """The docstring's formula in loops."""
    total = 0.0
    l1, l2 = np.broadcast_to(p.l1, len(F)), np.broadcast_to(p.l2, len(F))
    for k, row in enumerate(F):
        total += sum(l1[k] * x + l2[k] * x**2 / 2 for x in row)
    if p.graph is not None:
        S = p.graph.toarray()
        total += np.trace(F @ (np.diag(S.sum(axis=1)) - S) @ F.T) / 2
    weights = np.broadcast_to(p.group_l1, len(p.groups))
    norms = (
        weight * np.linalg.norm(row[g], p.group_norm) for g, weight in zip(p.groups, weights, strict=True) for row in F
    )
    return total + sum(norms)


def is_feasible(p, F, slack=1e-9):
    inside = (p.low - slack <= F).all() and (p.high + slack >= F).all()
    if p.simplex:
        sums = F.sum(axis=0 if p.simplex == "columns" else 1)
        inside &= np.allclose(sums, 1, atol=slack)
    for g, bound in zip(p.groups, p.group_bounds or (), strict=False):
        inside &= sum(np.linalg.norm(row[g], p.group_norm) for row in F) <= bound * (1 + slack) + slack
    return bool(inside)


def feasible_points(p, rng, near, count):
    """Random feasible points, far and near."""
    for _ in range(count):
        F = np.maximum(near + rng.normal(size=near.shape) * 10 ** rng.uniform(-4, 0), 0)
        F = np.clip(F * (rng.random(F.shape) < 0.8), p.low, p.high)
        p.feasible(F)
        assert is_feasible(p, F)
        yield F


@pytest.mark.parametrize("name", NAMES)
def test_value(rng, name):
    p, F = make_penalties(rng)[name], rng.random((R, N))
    assert p.value(F) == pytest.approx(naive_value(p, F), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_smooth_part_and_its_curvature(rng, name):
    p, F = make_penalties(rng)[name], rng.random((R, N))
    direction = rng.normal(size=F.shape)
    smooth = lambda t: p.value(F + t * direction) - p.nonsmooth_value(F + t * direction)  # noqa: E731
    h = 1e-5
    assert (p.gradient(F) * direction).sum() == pytest.approx((smooth(h) - smooth(-h)) / (2 * h), rel=1e-7, abs=1e-7)
    hessian = np.array([p.gradient(e.reshape(R, N)).ravel() for e in np.eye(R * N)])
    largest = np.linalg.eigvalsh(hessian)[-1]
    assert largest - 1e-12 <= p.lipschitz() <= 2.5 * largest + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_prox_is_feasible_and_no_other_point_is_better(rng, name):
    p, V, step = make_penalties(rng)[name], rng.normal(0.2, 0.6, size=(R, N)), 0.7
    X = V.copy()
    p.prox(X, step)
    assert is_feasible(p, X)

    def cost(Y):
        return ((Y - V) ** 2).sum() / 2 + step * (p.nonsmooth_value(Y))

    # strongly convex: every other point is worse by at least half its squared distance
    for Y in feasible_points(p, rng, X, 300):
        assert cost(Y) >= cost(X) + ((Y - X) ** 2).sum() / 2 - 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_prox_in_single_precision(rng, name):
    p, V = make_penalties(rng)[name], rng.normal(0.2, 0.6, size=(R, N)).astype(np.float32)
    X, exact = V.copy(), V.astype(np.float64)
    p.prox(X, 0.7)
    p.prox(exact, 0.7)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X, exact, atol=2e-6)
    assert p.gradient(V).dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_feasible_keeps_what_is_feasible_and_moves_the_rest(rng, name):
    p = make_penalties(rng)[name]
    F = 3 * rng.random((R, N))
    F[:, 0] = 0
    p.feasible(F)
    assert is_feasible(p, F)
    again = F.copy()
    p.feasible(again)
    np.testing.assert_allclose(again, F, rtol=1e-12)
    assert (F[:, 1:] > 0).all()  # a start with zeros stays there in many solvers


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"simplex": "columns", "high": 2.0}, "simplex must stand without bounds other than"),
        ({"simplex": "rows", "groups": GROUPS, "group_l1": 1.0}, "simplex must stand without groups"),
        ({"groups": GROUPS, "group_l1": 1.0, "low": 0.1}, "groups must stand without bounds other than"),
    ],
)
def test_what_does_not_compose(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Penalties(**options)


# --- the quadratic half-problem ---------------------------------------------------------------------------------------


def quadratic_objective(F, gram, right, p, scale):
    return (F * (gram @ F)).sum() / 2 - (right * F).sum() + scale * p.value(F)


def make_half(rng, dtype=np.float64):
    A = rng.gamma(0.7, size=(R, 12)) * np.array([[1], [0.1], [3], [1]])  # components of different sizes
    V = rng.gamma(0.5, size=(R, N)).T @ A
    return (A @ A.T).astype(dtype), (A @ V.T).astype(dtype)


@pytest.mark.parametrize("scale", [1.0, pytest.param(30.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_improve_never_rises_and_finds_the_minimum(rng, name, scale):
    p = make_penalties(rng)[name]
    gram, right = make_half(rng)
    F = rng.random((R, N))
    p.feasible(F)
    last = quadratic_objective(F, gram, right, p, scale)
    for sweeps in [1] * 10 + [20] * 80:
        quadratic.improve(F, gram, right, p, sweeps=sweeps, scale=scale)
        value = quadratic_objective(F, gram, right, p, scale)
        assert value <= last + 1e-12 * abs(last)
        if sweeps > 1 and last - value <= 1e-13 * abs(last):
            break
        last = value
    assert is_feasible(p, F)
    # the certificate: a proximal gradient step does not move the minimiser of a convex problem
    L = np.linalg.eigvalsh(gram)[-1] + scale * p.lipschitz()
    moved = F - (gram @ F - right + scale * p.gradient(F)) / L
    p.prox(moved, scale / L)
    np.testing.assert_allclose(moved, F, atol=2e-5)
    for Y in feasible_points(p, rng, F, 50):
        assert quadratic_objective(Y, gram, right, p, scale) >= last - 1e-5 * abs(last)


@pytest.mark.parametrize("name", NAMES)
def test_improve_in_single_precision(rng, name):
    p = make_penalties(rng)[name]
    gram, right = make_half(rng)
    F = rng.random((R, N))
    p.feasible(F)
    single = F.astype(np.float32)
    quadratic.improve(F, gram, right, p, sweeps=2)
    quadratic.improve(single, gram.astype(np.float32), right.astype(np.float32), p, sweeps=2)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, F, atol=1e-4)


def test_improve_against_a_solver(rng):
    """The graph couples all points: one bounded problem of SciPy's for the whole factor."""
    p = Penalties(low=0.1, high=0.8, l1=0.2, graph=make_graph(rng))
    gram, right = make_half(rng)
    F = np.full((R, N), 0.1)
    quadratic.improve(F, gram, right, p, sweeps=2000)
    found = minimize(
        lambda f: quadratic_objective(f.reshape(R, N), gram, right, p, 1.0),
        np.full(R * N, 0.3),
        jac=lambda f: (gram @ f.reshape(R, N) - right + p.gradient(f.reshape(R, N)) + p.l1).ravel(),
        bounds=[(0.1, 0.8)] * (R * N),
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
    )
    np.testing.assert_allclose(F.ravel(), found.x, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_improve_of_an_unused_component_and_of_nothing(rng, name):
    p = make_penalties(rng)[name]
    gram, right = make_half(rng)
    gram[1], gram[:, 1], right[1] = 0, 0, 0
    F = rng.random((R, N))
    p.feasible(F)
    before = quadratic_objective(F, gram, right, p, 1.0)
    quadratic.improve(F, gram, right, p, sweeps=3)
    assert np.isfinite(F).all() and is_feasible(p, F)
    assert quadratic_objective(F, gram, right, p, 1.0) <= before
    G = np.zeros_like(gram)
    quadratic.improve(F, G, np.zeros_like(right), p, sweeps=3)
    assert np.isfinite(F).all() and is_feasible(p, F)


@pytest.mark.slow
def test_accelerate_never_rises_from_step_to_step(rng):
    """Momentum overshoots where curvatures differ much, unless it is given up."""
    Q = np.linalg.qr(rng.normal(size=(R, R)))[0]
    gram = Q * [1.0, 1e-1, 1e-2, 1e-3] @ Q.T
    p = Penalties(groups=GROUPS, group_l1=1e-3)
    right, start = gram @ rng.random((R, N)), rng.random((R, N))
    values = []
    for steps in range(150):
        F = start.copy()
        quadratic.accelerate(F, gram, right, p, steps=steps)
        values.append(quadratic_objective(F, gram, right, p, 1.0))
    assert (np.diff(values) <= 1e-14 * abs(values[0])).all()
    assert values[-1] < values[0]


def test_accelerate_stops_at_the_tolerance_and_says_how_many_steps(rng):
    gram, right = make_half(rng)
    F = np.zeros((R, N))
    steps, first = quadratic.accelerate(F, gram, right, Penalties(), steps=5000, tol=1e-6)
    slope = gram @ F - right
    assert 1 < steps < 5000
    assert np.linalg.norm(np.where(F > 0, slope, np.minimum(slope, 0))) < 1e-3 < first
    again, size = quadratic.accelerate(F, gram, right, Penalties(), steps=5000, tol=1e-5)
    assert again <= 1 and size <= 1e-5
