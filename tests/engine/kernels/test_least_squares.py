"""The kernels of least squares against plain loops and brute force; also run without the JIT and with bounds checks."""

from itertools import product

import naive
import numpy as np
import pytest

from visionnmf.engine import quadratic
from visionnmf.engine.kernels import least_squares as kernels
from visionnmf.engine.penalties import Penalties

DTYPES = [np.float32, np.float64]
BOXES = [(0.0, np.inf), (0.0, 0.3), (0.1, np.inf), (0.05, 0.2)]


def value(f, x, m, A, l1, l2):
    return 0.5 * np.sum(m * (x - f @ A) ** 2) + l1 @ f + 0.5 * l2 @ f**2


def brute_force(x, m, A, l1, l2, low, high, on_simplex):
    """The least value over the box, or the simplex, by trying every choice of free and bound variables."""
    r = len(A)
    G, b = (A * m) @ A.T + np.diag(l2), A @ (m * x) - l1
    best = np.inf
    for state in product((low, high, None), repeat=r):
        free = np.array([s is None for s in state])
        f = np.array([0.0 if s is None else s for s in state])
        if not np.isfinite(f).all() or (on_simplex and not free.any()):
            continue
        if on_simplex:
            ones = np.ones((free.sum(), 1))
            system = np.block([[G[np.ix_(free, free)], ones], [ones.T, np.zeros((1, 1))]])
            f[free] = np.linalg.lstsq(system, np.append(b[free], 1), rcond=None)[0][:-1]
        elif free.any():
            f[free] = np.linalg.lstsq(G[np.ix_(free, free)], b[free] - G[free] @ f, rcond=None)[0]
        if (f >= low - 1e-9).all() and (f <= high + 1e-9).all() and (not on_simplex or abs(f.sum() - 1) < 1e-9):
            best = min(best, value(f, x, m, A, l1, l2))
    return best


def exact(X, M, A, l1, l2, low, high, on_simplex=False, sweeps=3, start=None):
    penalty = Penalties(simplex="columns", l1=l1, l2=l2) if on_simplex else Penalties(low=low, high=high, l1=l1, l2=l2)
    F = np.full((len(X), len(A)), low) if start is None else start.T.copy()
    grams = (A @ A.T)[None] if M is None else np.array([(A * m) @ A.T for m in M])
    settled = quadratic.solve(F, grams, (X if M is None else M * X) @ A.T, penalty, sweeps=sweeps, tol=1e-8)
    return F.T, settled


@pytest.mark.parametrize(("low", "high"), BOXES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sweeps", [0, 3])
@pytest.mark.parametrize("alike", [0.0, 20.0, None])
def test_exact_rows_in_a_box(low, high, weighted, sweeps, alike, rng):
    A, X = rng.random((4, 6)) + (alike or 0), rng.random((5, 6))
    if alike is None:
        A[2:] = A[:2]  # each component twice, at different prices
    M = rng.random(X.shape) * (rng.random(X.shape) < 0.7) if weighted else None
    l1, l2 = rng.random(4) * 0.1, rng.random(4) * (alike is not None) * 0.1
    F, settled = exact(X, M, A, l1, l2, low, high, sweeps=sweeps)
    assert settled.all() and (low <= F).all() and (high >= F).all()
    for j, x in enumerate(X):
        m = np.ones(6) if M is None else M[j]
        best = brute_force(x, m, A, l1, l2, low, high, False)
        assert value(F[:, j], x, m, A, l1, l2) <= best + 1e-8 * (1 + abs(best))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", ["plain", "alike", "twice", "zero", "rank"])
def test_exact_rows_on_the_simplex(weighted, case, rng):
    A, X = rng.random((4, 6)), rng.random((5, 6))
    if case == "alike":
        A += 20
    elif case == "twice":
        A[2:] = A[:2]
    elif case == "zero":
        A[:] = 0
    elif case == "rank":
        A, X = A[:, :2].copy(), X[:, :2].copy()
    M = rng.random(X.shape) * (rng.random(X.shape) < 0.7) if weighted else None
    l1, l2 = rng.random(4) * 0.1, np.zeros(4)
    F, settled = exact(X, M, A, l1, l2, 0.0, np.inf, on_simplex=True)
    assert settled.all() and (F >= 0).all()
    np.testing.assert_allclose(F.sum(axis=0), 1, rtol=1e-9)
    for j, x in enumerate(X):
        m = np.ones(len(x)) if M is None else M[j]
        best = brute_force(x, m, A, l1, l2, 0.0, np.inf, True)
        assert value(F[:, j], x, m, A, l1, l2) <= best + 1e-8 * (1 + abs(best))


@pytest.mark.parametrize("seed", range(8))
def test_exact_rows_settle_from_any_start(seed):
    rng = np.random.default_rng(seed)
    r = 7
    A, X = rng.random((r, 5)) + 3 * (seed % 2), rng.random((3, 5))  # of more components than features
    F, settled = exact(X, None, A, np.zeros(r), np.zeros(r), 0.0, np.inf, sweeps=0, start=rng.random((r, 3)))
    G, B = A @ A.T, A @ X.T
    slope = G @ F - B
    assert settled.all() and (F >= 0).all()
    assert slope.min() > -1e-6 * B.max() and abs((slope * F).max()) < 1e-6 * B.max()


@pytest.mark.parametrize(("right", "tolerance"), [(-1.0, -2.0), (np.nan, 1e-8)])
def test_a_row_that_cannot_be_settled_says_so_and_is_left(right, tolerance, rng):
    A = rng.random((2, 3))
    F = np.full((1, 2), 0.5)
    B = np.full((1, 2), right)
    # a negative tolerance: no variable at a bound is ever right
    settled = quadratic.solve(F, (A @ A.T)[None], B, Penalties(), sweeps=0, tol=tolerance)
    assert not settled[0] and (F == 0.5).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("low", "high"), [(0.0, np.inf), (0.1, 0.4)])
def test_weighted_hals_rows(dtype, low, high, rng):
    X, M = rng.random((4, 6)), rng.random((4, 6)) * (rng.random((4, 6)) < 0.7)
    M[2] = 0  # nothing is known about this row
    A, F = rng.random((3, 6)), rng.random((3, 4))
    l1, l2 = rng.random(3) * 0.1, np.array([0.0, 0.2, 0.0])
    got = F.astype(dtype)
    arrays = (array.astype(dtype) for array in (X, M))
    kernels.weighted_hals_rows(
        *arrays, got, A.astype(dtype), dtype(low), dtype(high), l1.astype(dtype), l2.astype(dtype), 2, 1, 4
    )
    assert (got[:, 0] == F[:, 0].astype(dtype)).all()
    for j in range(1, 4):
        G, b = (A * M[j]) @ A.T, A @ (M[j] * X[j])
        expected = naive.hals(F[:, [j]], G + np.diag(l2), (b - l1)[:, None], low, high, 0.0, 2)
        np.testing.assert_allclose(got[:, j], expected[:, 0], rtol=1e-4 if dtype is np.float32 else 1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_impute_rows(dtype, rng):
    X, M, P = (rng.random((4, 3)).astype(dtype) for _ in range(3))
    got = P.copy()
    kernels.impute_rows(X, M, dtype(0.5), got, 1, 3)
    np.testing.assert_allclose(got[1:3], (P + M / 2 * (X - P))[1:3], rtol=1e-6)
    assert (got[[0, 3]] == P[[0, 3]]).all()
