"""The kernels of the divergences against NumPy and plain loops."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from visionnmf.engine.kernels import divergence_codes as newton
from visionnmf.engine.kernels import divergences as kernels
from visionnmf.engine.kernels import sbcd_paper as _sbcd_paper_kernels
from visionnmf.engine.losses import Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import sbcd

DTYPES = [np.float64, np.float32]
BETAS = [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0]


@pytest.fixture(autouse=True)
def _quiet():
    # without the JIT the kernels are numpy scalars, which warn where compiled code gives inf
    with np.errstate(all="ignore"):
        yield


def beta_divergence(X, P, beta, M=None):
    """Evaluate scikit-learn's definition, entry by entry."""
    X, P = np.broadcast_arrays(np.asarray(X, float), np.asarray(P, float))
    total = 0.0
    for index in np.ndindex(X.shape):
        x, p = X[index], P[index]
        if beta == 1:
            term = (x * np.log(x / p) if x > 0 else 0.0) - x + p
        elif beta == 0:
            term = x / p - np.log(x / p) - 1
        else:
            term = (x**beta + (beta - 1) * p**beta - beta * x * p ** (beta - 1)) / (beta * (beta - 1))
        total += term * (1 if M is None else M[index])
    return total


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithms(dtype, rng):
    tiny = np.finfo(dtype).tiny
    values = np.concatenate(
        [[tiny, 1.0, np.finfo(dtype).max, 0.7, 0.70711, 1.4142, 1.5], rng.random(20), 1e9 * rng.random(20)]
    )
    values = values.astype(dtype)
    found = values.copy()
    kernels.log_of(found, found.view(f"i{found.itemsize}"), np.empty_like(found))
    expected = np.log(values.astype(np.longdouble))
    assert np.abs(found - expected).max() <= 4 * np.finfo(dtype).eps * max(1, np.abs(expected).max())
    assert (np.abs(found - expected) <= 4 * np.finfo(dtype).eps * np.maximum(np.abs(expected), 0.1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-2.0, -1.5, -0.5, 0.3, 1.0, 2.5])
def test_powers(dtype, exponent, rng):
    values = np.concatenate([[1e-7, 1.0, 2.0, 1e5], 10 * rng.random(30)]).astype(dtype)
    found = values.copy()
    kernels.power_of(found, found.view(f"i{found.itemsize}"), np.empty_like(found), exponent)
    np.testing.assert_allclose(found, values.astype(float) ** exponent, rtol=150 * np.finfo(dtype).eps)


def test_powers_stay_in_range():
    values = np.array([1e-30, 1e30], np.float32)
    kernels.power_of(values, values.view(np.int32), np.empty_like(values), 3.0)
    assert np.isfinite(values).all() and 0 < values[0] < 1e-35 and values[1] > 1e35


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_of_rows(dtype, beta, weighted, rng):
    X, P = (rng.random((3, 7)) + 0.01).astype(dtype), (rng.random((2, 7)) + 0.01).astype(dtype)
    if beta > 0:
        X[1, :3] = 0
    M = rng.random((3, 7)).astype(dtype) * (rng.random((3, 7)) < 0.7) if weighted else None
    M = M.astype(dtype) if weighted else None
    out = np.full(3, -1.0)
    kernels.beta_rows(X, P, M, beta, 1, 3, out)
    expected = [beta_divergence(X[j], P[j - 1], beta, None if M is None else M[j]) for j in (1, 2)]
    np.testing.assert_allclose(out[1:], expected, rtol=1e-10)
    assert out[0] == -1
    for name, value in (("kullback_leibler_rows", 1.0), ("itakura_saito_rows", 0.0)):
        if beta == value:
            again = np.full(3, -1.0)
            getattr(kernels, name)(X, P, M, 0.0, 1, 3, again)
            assert (again == out).all()


@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_loss_does_not_depend_on_the_scale(scale, rng):
    X, P = rng.random((2, 6)), rng.random((2, 6))
    for beta in (0.0, 1.0, 1.5):
        out, scaled = np.empty(2), np.empty(2)
        kernels.beta_rows(X, P, None, beta, 0, 2, out)
        kernels.beta_rows(scale * X, scale * P, None, beta, 0, 2, scaled)
        np.testing.assert_allclose(scaled, out * scale**beta, rtol=1e-9)


def test_loss_where_the_model_is_zero():
    X, P = np.array([[2.0, 0.0], [0.0, 0.0]]), np.zeros((2, 2))
    out = np.empty(2)
    kernels.kullback_leibler_rows(X, P, None, 0.0, 0, 2, out)
    assert out[0] == pytest.approx(2 * np.log(2 / 1e-7) - 2, rel=1e-6)  # the floor is 1e-7 of the row's mean, 1
    assert 0 <= out[1] < 1e-29


def naive_least_squares(e, b, A, f, low, high, l1, l2, sweeps):
    f, e = f.copy(), e.copy()
    skipped = set()
    for sweep in range(sweeps):
        for k in range(len(f)):
            curvature = (b * A[k] ** 2).sum() + l2[k]
            if k in skipped:
                continue
            fall = (b * e * A[k]).sum() - l1[k] - l2[k] * f[k]
            resting = low[k] if fall < 0 else f[k]
            new = min(max(f[k] + fall / curvature, low[k]), high[k]) if curvature > 0 else resting
            if sweep == 0 and new == f[k] == low[k]:
                skipped.add(k)
            e -= (new - f[k]) * A[k]
            f[k] = new
    return f, e


def test_least_squares(rng):
    r, n = 5, 9
    A, b, e, f = rng.random((r, n)), rng.random(n), rng.standard_normal(n), rng.random(r)
    A[3] = 0
    f[1] = 0
    e -= 2 * A[1]  # wants to stay at the bound
    low, high, l1, l2 = np.zeros(r), np.full(r, 0.9), 0.1 * rng.random(r), np.array([0.2, 0, 0.3, 0, 0])
    for sweeps in (1, 2, 3):
        found, residual, curvatures = f.copy(), e.copy(), np.empty(r)
        kernels.least_squares(residual, b, A, found, low, high, l1, l2, sweeps, curvatures)
        expected, rest = naive_least_squares(e, b, A, f, low, high, l1, l2, sweeps)
        np.testing.assert_allclose(found, expected, atol=1e-14)
        np.testing.assert_allclose(residual, rest, atol=1e-14)


def improve(X, F, A, beta, *, dtype=np.float64, M=None, penalty=None, **options):
    loss = Loss("beta", beta)
    extra = {} if penalty is None else {"penalty_W": penalty}
    problem = Problem(X.astype(dtype), loss, weights=None if M is None else M.astype(dtype), **extra)
    return sbcd.half(problem, F, A.astype(dtype), **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_rises(dtype, beta, weighted, rng):
    X, A = rng.gamma(0.5, size=(6, 11)) + 1e-3, rng.random((4, 11))
    F = rng.random((4, 6)).astype(dtype)
    M = rng.random((6, 11)) * (rng.random((6, 11)) < 0.8) if weighted else None
    before = np.empty(6)
    kernels.beta_rows(X, F.T.astype(float) @ A, M, beta, 0, 6, before)
    for _ in range(4):
        improve(X, F, A, beta, dtype=dtype, M=M)
        after = np.empty(6)
        kernels.beta_rows(X, F.T.astype(float) @ A, M, beta, 0, 6, after)
        assert (after <= before + 1e-5 * (1 + np.abs(before))).all()
        before = after
    assert (F >= 0).all()


@pytest.mark.parametrize("exact", [False, True])
def test_ccd_and_sbcd_solve_the_same_problem(exact, rng):
    X, A = rng.poisson(2, (3, 8)).astype(float), rng.random((3, 8))
    F = rng.random((3, 3))
    improve(X, F, A, 1.0, exact=exact, rounds=300, tol=1e-12, alone=True)
    gradient = A.sum(axis=1)[:, None] - A @ (X / (F.T @ A)).T
    assert gradient.min() > -1e-7 and np.abs(gradient * F).max() < 1e-7


def test_one_component_takes_one_step_when_the_quotient_is_constant():
    A, F = np.array([[1.0, 2.0, 3.0]]), np.array([[0.1]])
    improve(4 * A, F, A, 1.0, exact=True, sweeps=1)
    assert F[0, 0] == pytest.approx(4, rel=1e-5)


@pytest.mark.parametrize("count", [1, 4, 5, 6])
def test_weighted_gram(count, rng):
    A, b = rng.random((7, 5)), rng.standard_normal(5)
    free = rng.permutation(7)
    G = np.full((11, 11), np.nan)
    newton._weighted_gram(A, b, free, count, np.zeros((4, 5)), G)
    chosen = A[free[:count]]
    np.testing.assert_allclose(G[:count, :count], (chosen * b) @ chosen.T, atol=1e-14)


@pytest.mark.parametrize("seed", range(6))
def test_quadratic_model_on_a_box(seed):
    rng = np.random.default_rng(seed)
    r = 6
    root, goal = rng.standard_normal((8, r)), 3 * rng.standard_normal(8)
    below, above = -rng.random(r), np.where(rng.random(r) < 0.5, rng.random(r), np.inf)
    G, s, d = root.T @ root, -root.T @ goal, np.empty(r)
    assert newton._minimise_on_box(G, s, below, above, r, d, np.empty(r, int), np.empty(r), np.empty((r, r)))
    expected = lsq_linear(root, goal, (below, above), tol=1e-14).x
    np.testing.assert_allclose(d, expected, atol=1e-6)
    np.testing.assert_allclose(s, G @ d - root.T @ goal, atol=1e-12)


def test_a_model_that_is_not_positive_is_refused(rng):
    G = np.array([[1.0, 2.0], [2.0, 1.0]])
    wide = np.full(2, np.inf)
    assert not newton._minimise_on_box(
        G, np.ones(2), -wide, wide, 2, np.empty(2), np.empty(2, int), np.empty(2), np.empty((2, 2))
    )


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("bounds", [(0.0, np.inf), (0.1, 0.7)])
def test_newton_ends_where_the_derivatives_say(beta, bounds, rng):
    X, A, M = rng.gamma(2, size=(2, 8)) + 0.1, rng.random((3, 8)), rng.random((2, 8))
    M[1, 2] = 0
    l1, l2 = 0.1 * rng.random(3), 0.2 * rng.random(3)
    F = np.full((3, 2), 0.5)
    scale = A.max(axis=1)
    newton.newton_rows(X, M, F, A / scale[:, None], scale, beta, kernels.floor_of(beta), *bounds, l1, l2, 100, 0, 2)
    P = F.T @ A
    gradient = A @ (M * P ** (beta - 2) * (P - X)).T + l1[:, None] + l2[:, None] * F
    assert np.abs(F - np.clip(F - gradient, *bounds)).max() < 1e-8


def naive_round(X, B, Wt, H, alpha):
    """Li, Lebanon & Park (2012), Algorithm 1, with the penalty on `H` in the numerator."""
    Wt, H = Wt.copy(), H.copy()
    for k in range(len(H)):
        rest = X - Wt.T @ H + np.outer(Wt[k], H[k])
        for j in range(H.shape[1]):
            H[k, j] = max(0, (B[:, j] @ (rest[:, j] * Wt[k]) - alpha) / (B[:, j] @ Wt[k] ** 2))
        for i in range(Wt.shape[1]):
            Wt[k, i] = max(0, B[i] @ (rest[i] * H[k]) / (B[i] @ H[k] ** 2))
    return Wt, H


def test_component_by_component(rng):
    X, B, Wt, H = rng.random((5, 4)), rng.random((5, 4)), rng.random((2, 5)), rng.random((2, 4))
    expected = naive_round(X, B, Wt, H, 0.05)
    zero, alpha = np.zeros(2), np.full(2, 0.05)
    E = X - Wt.T @ H
    _sbcd_paper_kernels.component_by_component(E, B, Wt, H, 0.0, np.inf, zero, zero, 0.0, np.inf, alpha, zero)
    np.testing.assert_allclose(Wt, expected[0], atol=1e-14)
    np.testing.assert_allclose(H, expected[1], atol=1e-14)
    np.testing.assert_allclose(E, X - Wt.T @ H, atol=1e-14)
