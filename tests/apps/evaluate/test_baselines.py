"""The baselines of solvers and online methods, against the loops of `naive_papers.py` and `naive_online.py`."""

import naive_online
import naive_papers
import numpy as np
import pytest
from scipy.optimize import nnls

from visionnmf.apps.evaluate.online_baselines import (
    ChunkNMF,
    DiagonalOMF,
    IncrementalNMF,
    ItakuraSaitoNMF,
    PrintedConjugateOMF,
    PrintedDiagonalOMF,
    PrintedOMF,
    VolumeNMF,
)
from visionnmf.apps.evaluate.solver_baselines import LEAST_SQUARES, gradient_descent, iterate
from visionnmf.exceptions import ParameterError

ITERATIONS = 20
HALVES = {
    "pnls": naive_papers.pnls,
    "pg": naive_papers.projected_gradient,
    "modified": naive_papers.modified,
    "accelerated": naive_papers.accelerated,
    "qn": naive_papers.qn,
    "bfgs": lambda x, A, F: naive_papers.qn(x, A, F, length=0.1, steps=10),
    "pbb": lambda x, A, F: naive_papers.gradient_projection(x, A, F, spectral=True, memory=10, steps=20),
    "cbgp": lambda x, A, F: naive_papers.gradient_projection(x, A, F, spectral=False, memory=1, steps=5),
    "as": naive_papers.exact,
    "bpp": naive_papers.exact,
    "cg": naive_papers.cg,
    "gcd": naive_papers.gcd,
    "gd-cls": (lambda x, A, F: naive_papers.exact(x, A, F, l2=0.1), naive_papers.rescaled),
}


@pytest.fixture
def X(rng):
    return rng.gamma(0.5, size=(24, 4)) @ rng.gamma(0.5, size=(4, 16)) + 0.1 * rng.random((24, 16))


@pytest.fixture
def start(rng):
    """Codes, transposed, and components."""
    return rng.random((4, 24)), rng.random((4, 16))


def after(steps, n=ITERATIONS):
    for _ in range(n):
        next(steps)


@pytest.mark.parametrize("solver", HALVES)
def test_a_solver_is_its_loop(solver, X, start):
    Wt, H = start
    found = Wt.copy(), H.copy()
    after(iterate(solver, X, *found))
    halves = HALVES[solver]
    of_codes, of_components = halves if isinstance(halves, tuple) else (halves, halves)
    for _ in range(ITERATIONS):
        Wt = of_codes(X.T, H, Wt)
        H = of_components(X, Wt, H)
    for one, other in zip(found, (Wt, H), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_projected_gradient_ends_at_the_minimum(X, start):
    F, (A, _) = np.zeros((4, 16)), start
    improve = LEAST_SQUARES["pg"][1]
    for _ in range(300):
        improve(F, A @ A.T, A @ X)
    np.testing.assert_allclose(F, np.array([nnls(A.T, x)[0] for x in X.T]).T, atol=1e-4)


@pytest.mark.parametrize("solver", [*LEAST_SQUARES, "gd"])
def test_solvers_take_data_and_factors_of_zeros(solver, X, start):
    for data, factors in ((np.zeros_like(X), start), (X, [np.zeros_like(F) for F in start])):
        found = [F.copy() for F in factors]
        after(gradient_descent(data, *found, 2.0) if solver == "gd" else iterate(solver, data, *found), 5)
        assert all(np.isfinite(F).all() and (F >= 0).all() for F in found)


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0, 3.0])
def test_gradient_descent_has_fixed_steps(beta, X, start):
    W, H = naive_papers.gradient_descent(X, start[0].T, start[1], beta, ITERATIONS)
    found = [F.copy() for F in start]
    after(gradient_descent(X, *found, beta))
    np.testing.assert_allclose(found[0], W.T, atol=1e-10)
    np.testing.assert_allclose(found[1], H, atol=1e-10)


# --- online -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def samples(rng):
    return 0.1 + rng.gamma(0.5, size=(12, 3)) @ rng.gamma(0.5, size=(3, 9)) + 0.1 * rng.random((12, 9))


@pytest.fixture
def H(rng):
    H = 0.1 + rng.random((3, 9))
    return H / np.linalg.norm(H, axis=1, keepdims=True)


def rescaled(H, A, B):
    norms = np.linalg.norm(H, axis=1)
    return H / norms[:, None], A * np.outer(norms, norms), B * norms[:, None], norms


def test_incremental_is_equation_40(samples, H, monkeypatch):
    monkeypatch.setattr(IncrementalNMF, "UPDATES", 7)
    monkeypatch.setattr(IncrementalNMF, "STILL", 0.0)
    learner = IncrementalNMF(H.copy(), 0.9)
    A, B, h = np.zeros((3, 3)), np.zeros((3, 9)), np.ones(3)
    for x in samples[:6]:
        learner.learn(x[None])
        H, h = naive_online.incremental(H, A, B, x, h, 0.9, 7)
        H, A, B, norms = rescaled(H, 0.9 * A + np.outer(h, h), 0.9 * B + np.outer(h, x))
        h = h * norms
    np.testing.assert_allclose(learner.H, H, atol=1e-7)


def test_the_volume_constraint_is_equations_41_and_42(rng):
    H = np.eye(4) + 0.2 * rng.random((4, 4))
    X = rng.random((ITERATIONS, 4)) @ H
    learner = VolumeNMF(H.copy())
    learner.learn(X)
    expected = naive_online.volume(X, H, updates=50, strength=0.01, decay=0.01, memory=2)
    np.testing.assert_allclose(learner.H, expected, atol=1e-8)
    with pytest.raises(ParameterError, match=r"H must be square for a determinant; got shape \(3, 4\)"):
        VolumeNMF(H[:3])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "update"),
    [
        (PrintedOMF, naive_online.omf_update),
        (PrintedDiagonalOMF, naive_online.diagonal_update),
        (PrintedConjugateOMF, naive_online.conjugate_update),
    ],
)
def test_omf_and_its_newton_steps_are_as_printed(rng, start, method, update):
    parts = np.kron(np.eye(4), np.ones(4)) + 0.2 * rng.random((4, 16))  # hardly alike, so that A is well conditioned
    X = rng.random((ITERATIONS, 4)) @ parts + 0.1 * rng.random((ITERATIONS, 16))
    H = np.array([naive_online.on_simplex(row) for row in start[1]])
    learner = method(H.copy())
    for x in X:
        learner.learn(x[None])
    np.testing.assert_allclose(learner.H, naive_online.omf(X, H, update), atol=1e-10)


@pytest.mark.parametrize("simplex", [False, True])
def test_diagonal_steps_explain_the_samples_better(simplex, samples, H):
    H = H / H.sum(axis=1, keepdims=True) if simplex else H
    learner = DiagonalOMF(H.copy(), simplex=simplex)
    for batch in np.split(samples, 3):
        learner.learn(batch)
    sums = learner.H.sum(axis=1) if simplex else np.linalg.norm(learner.H, axis=1)
    np.testing.assert_allclose(sums, 1)
    errors = [np.square(samples - naive_online.codes(samples, F) @ F).sum() for F in (learner.H, H)]
    assert errors[0] < 0.9 * errors[1]


def test_chunks_keep_what_they_need_of_all_codes(monkeypatch):
    """The loop keeps all codes, as the paper does; both go to the minimum, which these data let them reach soon."""
    rng = np.random.default_rng(5)
    parts = np.kron(np.eye(3), np.ones(4))
    codes = (0.5 + rng.random((36, 3))) * np.tile(np.eye(3), (12, 1))
    X = codes @ parts + 0.1 * (rng.random((36, 12)) < 0.5) * rng.random((36, 12))
    H = parts + 0.1 * rng.random((3, 12))
    monkeypatch.setattr(ChunkNMF, "ITERATIONS", 300)
    monkeypatch.setattr(ChunkNMF, "TOLERANCE", 0.0)
    H /= np.linalg.norm(H, axis=1, keepdims=True)
    learner, chunks = ChunkNMF(H.copy()), np.split(X, 3)
    for chunk in chunks:
        learner.learn(chunk)
    H, codes = naive_online.onmf(chunks, H, rounds=300)
    np.testing.assert_allclose(learner.H, H, atol=1e-8)
    np.testing.assert_allclose(learner.gram, codes.T @ codes, atol=1e-7)


def test_itakura_saito_is_the_root_of_the_sums(samples, H):
    learner = ItakuraSaitoNMF(H.copy(), 0.8)
    A, B = np.zeros((3, 9)), np.zeros((3, 9))
    for batch in np.split(samples, 3):
        learner.learn(batch)
        W = np.array([naive_online.itakura_codes(x, np.ones(3), H) for x in batch])
        H, A, B = naive_online.onmf_is(H, A, B, batch, W, 0.8)
        norms = np.linalg.norm(H, axis=1, keepdims=True)
        H, A, B = H / norms, A / norms, B * norms
    np.testing.assert_allclose(learner.H, H, atol=1e-8)
