"""The kernels of the divergences against NumPy and plain loops."""

import naive
import numba
import numpy as np
import pytest
from scipy.optimize import lsq_linear

from visionnmf.engine import divergence
from visionnmf.engine.kernels import divergence_descent as _kernels, divergences
from visionnmf.engine.losses import LOSSES, Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import newton, sbcd

DTYPES = [np.float64, np.float32]
POWER = {np.float64: divergences.power_double, np.float32: divergences.power_single}
BETAS = [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0]


@pytest.fixture(autouse=True)
def _quiet():
    # without the JIT the kernels are numpy scalars, which warn where compiled code gives inf
    with np.errstate(all="ignore"):
        yield


@numba.njit
def logarithms(values, out):
    for i in range(len(values)):
        out[i] = divergences.log(values[i])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithms(dtype, rng):
    tiny = np.finfo(dtype).tiny
    values = np.concatenate(
        [[tiny, 1.0, np.finfo(dtype).max, 0.7, 0.70711, 1.4142, 1.5], rng.random(20), 1e9 * rng.random(20)]
    )
    values = values.astype(dtype)
    found = np.empty_like(values)
    logarithms(values, found)
    expected = np.log(values.astype(np.longdouble))
    assert np.abs(found - expected).max() <= 4 * np.finfo(dtype).eps * max(1, np.abs(expected).max())
    assert (np.abs(found - expected) <= 4 * np.finfo(dtype).eps * np.maximum(np.abs(expected), 0.1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-2.0, -1.5, -0.5, 0.3, 1.0, 2.5])
def test_powers(dtype, exponent, rng):
    values = np.concatenate([[1e-7, 1.0, 2.0, 1e5], 10 * rng.random(30)]).astype(dtype)
    found = np.empty_like(values)
    POWER[dtype](values, exponent, found)
    np.testing.assert_allclose(found, values.astype(float) ** exponent, rtol=150 * np.finfo(dtype).eps)


def test_powers_stay_in_range():
    values = np.array([1e-30, 1e30], np.float32)
    divergences.power_single(values, 3.0, values)
    assert np.isfinite(values).all() and 0 < values[0] < 1e-35 and values[1] > 1e35
    values = np.array([1e-200, 1e200])
    divergences.power_double(values, 3.0, values)
    assert np.isfinite(values).all() and 0 < values[0] < 1e-300 and values[1] > 1e300


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_of_rows(dtype, beta, weighted, rng):
    X, P = (rng.random((2, 7)) + 0.01).astype(dtype), (rng.random((2, 7)) + 0.01).astype(dtype)
    if beta > 0:
        X[0, :3] = 0
    M = (rng.random((2, 7)) * (rng.random((2, 7)) < 0.7)).astype(dtype) if weighted else None
    out = divergence.row_values(X, P, M, beta)
    value = naive.LOSSES[{0.0: "itakura-saito", 1.0: "kullback-leibler"}.get(beta, "beta")]
    entries = zip(X.astype(float).flat, P.astype(float).flat, np.ones(X.size) if M is None else M.flat, strict=True)
    expected = np.reshape([m * value(x, p, beta) for x, p, m in entries], X.shape).sum(axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-10)
    for name, value in (("kullback-leibler", 1.0), ("itakura-saito", 0.0)):
        if beta == value:
            assert (LOSSES[name].values(X, P, M, 0.0) == out).all()


@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_loss_does_not_depend_on_the_scale(scale, rng):
    X, P = rng.random((2, 6)), rng.random((2, 6))
    for beta in (0.0, 1.0, 1.5):
        out = divergence.row_values(X, P, None, beta)
        scaled = divergence.row_values(scale * X, scale * P, None, beta)
        np.testing.assert_allclose(scaled, out * scale**beta, rtol=1e-9)


def test_loss_where_the_model_is_zero():
    X, P = np.array([[2.0, 0.0], [0.0, 0.0]]), np.zeros((2, 2))
    out = divergence.row_values(X, P, None, 1.0)
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
    limits = np.array([np.zeros(r), np.full(r, 0.9), 0.1 * rng.random(r), [0.2, 0, 0.3, 0, 0]])
    units = 0.5 + rng.random((1, 3))
    own = limits * np.array([units[0, 0], units[0, 0], units[0, 1], units[0, 2]])[:, None]
    p = rng.random(n)
    for sweeps in (1, 2, 3):
        found, model, flat = f[None].copy(), np.empty((1, n)), np.empty(1, int)
        # without weights of their own: the residual is y - p, the curvature b
        _kernels.improve_rows(
            (p + e)[None], p[None], b[None], None, 2.0, False, A, found, limits, units, sweeps, -np.inf,
            np.zeros((3, n)), np.empty(r, bool), model, flat,
        )  # fmt: skip
        expected, rest = naive_least_squares(e, b, A, f, *own, sweeps)
        np.testing.assert_allclose(found[0], expected, atol=1e-14)
        np.testing.assert_allclose(model[0], p + e - rest, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("beta", [1.0, 1.3, 2.0])
def test_the_model_of_a_row_has_its_gradient(beta, weighted, rng):
    n = 6
    Y, P, M = rng.random((1, n)), 0.5 + rng.random((1, n)), rng.random((1, n)) if weighted else None
    Y[0, 2] = 0
    lines, flat = np.zeros((3, n)), np.empty(1, int)
    zero = np.zeros((4, 1))
    _kernels.improve_rows(
        Y, P, P ** (beta - 2), M, beta, True, np.zeros((1, n)), np.zeros((1, 1)), zero, np.ones((1, 3)), 1, 1e-7,
        lines, np.empty(1, bool), np.empty((1, n)), flat,
    )  # fmt: skip
    fisher = P ** (beta - 2) * (1 if M is None else M)
    newton_curvature = np.maximum(fisher * (beta - 1 + (2 - beta) * Y / P), 1e-6 * fisher)
    np.testing.assert_allclose(lines[1], (2 / (1 / fisher + 1 / newton_curvature))[0])  # the harmonic mean
    np.testing.assert_allclose(lines[1] * lines[2], (fisher * (Y - P))[0])
    assert flat[0] == (beta == 1)  # the entry that is 0


def improve(X, F, A, beta, *, dtype=np.float64, M=None, penalty=None, **options):
    loss = Loss("beta", beta)
    extra = {} if penalty is None else {"penalty_W": penalty}
    problem = Problem(X.astype(dtype), loss, weights=None if M is None else M.astype(dtype), **extra)
    return sbcd.improve(problem, F, A.astype(dtype), **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_rises(dtype, beta, weighted, rng):
    X, A = rng.gamma(0.5, size=(6, 11)) + 1e-3, rng.random((4, 11))
    F = rng.random((4, 6)).astype(dtype)
    M = rng.random((6, 11)) * (rng.random((6, 11)) < 0.8) if weighted else None
    before = divergence.row_values(X, F.T.astype(float) @ A, M, beta)
    for _ in range(4):
        improve(X, F, A, beta, dtype=dtype, M=M)
        after = divergence.row_values(X, F.T.astype(float) @ A, M, beta)
        assert (after <= before + 1e-5 * (1 + np.abs(before))).all()
        before = after
    assert (F >= 0).all()


@pytest.mark.parametrize("exact", [False, True])
def test_ccd_and_sbcd_solve_the_same_problem(exact, rng):
    X, A = rng.poisson(2, (3, 8)).astype(float), rng.random((3, 8))
    F = rng.random((3, 3))
    improve(X, F, A, 1.0, exact=exact, rounds=300, tol=1e-12, alone=True)
    gradient = A.sum(axis=1)[:, None] - A @ (X / (F.T @ A)).T
    tolerance = 1e-7 if exact else 1e-6  # the steps are in single precision
    assert gradient.min() > -tolerance and np.abs(gradient * F).max() < tolerance


def test_one_component_takes_one_step_when_the_quotient_is_constant():
    A, F = np.array([[1.0, 2.0, 3.0]]), np.array([[0.1]])
    improve(4 * A, F, A, 1.0, exact=True, sweeps=1)
    assert F[0, 0] == pytest.approx(4, rel=1e-5)


def newton_steps(A, curvatures, gradient, below, above, free):
    r, n = A.shape
    steps = np.zeros((1, r))
    order = np.argsort(~free, kind="stable")
    _kernels.newton_steps(
        A, curvatures[None], ((A * curvatures) * A).sum(axis=1)[None], gradient[None].copy(), below[None], above[None],
        np.concatenate([order, order[[0, 0, 0]]])[None], np.array([free.sum()]), np.empty(r, np.int64),
        np.full((4, n), np.nan), np.full((r, r), np.nan), np.full((r, r), np.nan), np.empty(r), steps,
    )  # fmt: skip
    return steps[0]


@pytest.mark.parametrize("r", [1, 2, 6, 9])
@pytest.mark.parametrize("seed", range(8))
def test_quadratic_models_on_boxes(r, seed):
    rng = np.random.default_rng(seed)
    A, weights, goal = rng.standard_normal((r, r + 2)), rng.random(r + 2) + 0.1, 3 * rng.standard_normal(r + 2)
    below, above = -rng.random(r), np.where(rng.random(r) < 0.5, rng.random(r), np.inf)
    free = rng.random(r) < 0.8
    found = newton_steps(A, weights, -A @ (weights * goal), below, above, free)
    assert (found[~free] == 0).all()
    if free.any():
        root = np.sqrt(weights)[:, None] * A[free].T
        expected = lsq_linear(root, np.sqrt(weights) * goal, (below[free], above[free]), tol=1e-14).x
        np.testing.assert_allclose(found[free], expected, atol=1e-6)


def test_a_model_that_is_not_convex_is_no_descent(rng):
    A, codes = rng.random((2, 5)), np.ones((1, 2))
    none, wide = np.zeros((1, 2)), np.full((1, 2), np.inf)
    rows = newton._ScaledRows(np.ones((1, 5)), None, None, np.array([5.0]), codes, none, wide, none, none)
    step, decrease = newton._newton_step(rows, A, -np.ones((1, 5)), np.ones((1, 2)))
    assert not decrease[0] > 0 and (step == 0).all()


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("bounds", [(0.0, np.inf), (0.1, 0.7)])
def test_newton_ends_where_the_derivatives_say(beta, bounds, rng):
    X, A, M = rng.gamma(2, size=(2, 8)) + 0.1, rng.random((3, 8)), rng.random((2, 8))
    M[1, 2] = 0
    l1, l2 = 0.1 * rng.random(3), 0.2 * rng.random(3)
    F = np.full((3, 2), 0.5)
    penalty = Penalties(*bounds, l1=l1, l2=l2)
    newton.improve(Problem(X, Loss("beta", beta), penalty, weights=M), F, A)
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
    _kernels.component_by_component(E, B, Wt, H, 0.0, np.inf, zero, zero, 0.0, np.inf, alpha, zero)
    np.testing.assert_allclose(Wt, expected[0], atol=1e-14)
    np.testing.assert_allclose(H, expected[1], atol=1e-14)
    np.testing.assert_allclose(E, X - Wt.T @ H, atol=1e-14)
