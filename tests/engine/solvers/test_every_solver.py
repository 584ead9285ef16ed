"""What holds for every solver and loss: degenerate data, scale, weights of 1, threads; and codes row by row."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import loss_of, losses_where

from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import LOSSES
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import CODES, SOLVERS, fit, solve_codes

DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.long)]
SPARSE = sp.csr_array(np.eye(3))
PAIRS = [
    pytest.param(solver, loss, sparse, id=f"{solver}-{loss.name}{'-sparse' if sparse else ''}")
    for solver, entry in SOLVERS.items()
    for loss in losses_where(entry.minimises)
    for sparse in (False, True)
    if not sparse or entry.obstacle(Problem(SPARSE, loss)) is None
]
WEIGHTED = [pytest.param(*p.values[:2], id=p.id) for p in PAIRS if SOLVERS[p.values[0]].weights and not p.values[2]]
UNDAMPED = {"sbcd-plain", "al-a", "al-b", "ogm-printed"}  # as published: may rise, even overflow
# smoothing, precision in the unit of the data; steps that amplify rounding
LOOSE = {"ogm-paper", "ogm-printed", "rri-printed", "sbcd-plain"}


def run(problem, Wt, H, solver, max_iter):
    Wt, H = Wt.copy(), H.copy()
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore" if solver in UNDAMPED else "error")
        return Wt, H, fit(problem, Wt, H, solver=solver, max_iter=max_iter, tol=0.0).history


def made(rng, shape, dtype=np.float64, *, sparse=False):
    X = rng.gamma(0.5, size=(shape[0], 3)) @ rng.gamma(0.5, size=(3, shape[1])) * rng.gamma(9, 0.1, shape) + 0.05
    X = np.where(rng.random(shape) < 0.3, X, 0) if sparse else X
    return sp.csr_array(X.astype(dtype)) if sparse else X.astype(dtype)


def start(X, r, seed=0):
    rng = np.random.default_rng(seed)
    level = np.sqrt(X.mean(dtype=np.float64) / r) or 1.0
    return [(level * (0.1 + rng.random((r, n)))).astype(X.dtype) for n in X.shape]


DEGENERATE = {
    "zeros": np.zeros((6, 5)),
    "zero rows and columns": np.pad(np.ones((3, 2)), 2),
    "one row": np.arange(6.0)[None],
    "one column": np.arange(6.0)[:, None],
    "one entry": np.ones((1, 1)),
    "constant": np.full((4, 7), 3.0),
    "denormal": np.full((4, 5), 1e-40) + np.eye(4, 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize(("solver", "loss", "sparse"), PAIRS)
def test_degenerate_data(solver, loss, sparse, name, dtype):
    X = DEGENERATE[name].astype(dtype) + dtype(0.1 * loss.needs_positive)
    weights = [None]
    if SOLVERS[solver].weights and not sparse:
        weights.append(np.geomspace(1e-3, 1, X.size, dtype=dtype).reshape(X.shape))
        weights += [] if loss.needs_positive else [np.zeros_like(X)]
    for M in weights:
        data = sp.csr_array(X) if sparse else X if M is None else X * M
        problem = Problem(data, loss, weights=M)
        Wt, H, history = run(problem, *start(X, 8), solver, 8)  # more components than rows or columns
        assert np.isfinite(history).all() and (history[-1] <= 1.001 * history[0] + 1e-6 or solver in UNDAMPED)
        for F in (Wt, H) if solver in UNDAMPED else (Wt, H, solve_codes(problem, H)):
            assert np.isfinite(F).all() and (F >= 0).all() and F.dtype == dtype


@pytest.mark.parametrize("scale", [1e-10, 1e10])
@pytest.mark.parametrize(("solver", "loss", "sparse"), [p for p in PAIRS if p.values[0] not in LOOSE])
def test_the_scale_of_the_data_does_not_matter(solver, loss, sparse, scale, rng):
    X = made(rng, (30, 20), np.float32, sparse=sparse)
    models = []
    for c in (np.float32(1), np.float32(scale)):
        own = loss if LOSSES[loss.name].beta == "parameter" else loss_of(loss.name, float(c))
        Wt, H, _ = run(Problem(c * X, own), *(np.sqrt(c) * F for F in start(X, 3)), solver, 6)
        models.append(Wt.T.astype(float) @ H / c)
    assert np.linalg.norm(models[1] - models[0]) < 0.02 * np.linalg.norm(models[0])


@pytest.mark.parametrize(("solver", "loss"), WEIGHTED)
def test_ones_as_weights_change_nothing(solver, loss, rng):
    X = made(rng, (30, 20))
    models = [run(Problem(X, loss, weights=M), *start(X, 3), solver, 8)[:2] for M in (None, np.ones_like(X))]
    np.testing.assert_allclose(models[0][0].T @ models[0][1], models[1][0].T @ models[1][1], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "loss", "sparse"), PAIRS)
def test_threads_do_not_change_the_result(solver, loss, sparse, rng, monkeypatch):
    X = made(rng, (700, 200), np.float32, sparse=sparse)
    M = (rng.random(X.shape) < 0.9).astype(np.float32) if SOLVERS[solver].weights and not sparse else None
    problem, found = Problem(X if M is None else X * M, loss, weights=M), []
    for threads in ("1", "3"):
        monkeypatch.setenv("VISIONNMF_NUM_THREADS", threads)
        found.append(run(problem, *start(X, 5), solver, 2)[:2])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


CODE_PENALTIES = {"plain": Penalties(), "l1 and box": Penalties(l1=0.1, high=0.7)}
CODE_PENALTIES["simplex"] = Penalties(simplex="columns")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", CODE_PENALTIES)
@pytest.mark.parametrize("data", ["dense", "weighted", "sparse"])
@pytest.mark.parametrize("loss", losses_where(betas=(1.5, 3.0)), ids=lambda loss: f"{loss.name}-{loss.parameter:g}")
def test_codes_of_a_row_do_not_depend_on_the_others(loss, data, kind, dtype, rng):
    X, H = made(rng, (43, 333), dtype, sparse=data == "sparse"), (0.01 + rng.random((5, 333))).astype(dtype)
    M = (rng.random(X.shape) * (rng.random(X.shape) < 0.8)).astype(dtype) if data == "weighted" else None
    problem = Problem(X if M is None else X * (M > 0), loss, CODE_PENALTIES[kind], weights=M)
    coupled_sparse = data == "sparse" and (loss.record.sparse is None or kind == "simplex")
    if coupled_sparse or problem.penalty_W.beyond(CODES[loss.record.codes].terms):
        pytest.skip("this combination is refused")
    together = solve_codes(problem, H)
    assert together.dtype == dtype
    order = rng.permutation(43)
    for rows in (order, order[:1], order[:7]):
        part = replace(problem, X=problem.X[rows], weights=None if M is None else M[rows])
        np.testing.assert_array_equal(solve_codes(part, H), together[:, rows])
