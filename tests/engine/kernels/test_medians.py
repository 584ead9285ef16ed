"""Every kernel against its slow version, on random and degenerate input."""

import os
import subprocess
import sys
import threading
import time

import naive
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from loss_checks import check_proximal

from visionnmf._jit import kernel
from visionnmf.engine.blocks import map_blocks, sum_rounding
from visionnmf.engine.kernels import hals, manhattan as _kernels
from visionnmf.engine.losses import LOSSES, Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import rri

DTYPES = [np.float64, np.float32]


@pytest.fixture(autouse=True)
def _quiet():
    # without the JIT the kernels are numpy scalars, which warn where compiled code gives inf
    with np.errstate(all="ignore"):
        yield


# parts of kernels, which Python cannot call: compiled once more
select_step, update_variable = (
    kernel(getattr(f, "py_func", f)) for f in (_kernels.select_step, _kernels.update_variable)
)


def one_variable(a, z, c, x, *, low=0.0, high=np.inf, s=0.0, b=0.0, d=0.0, dtype=np.float64):
    a, z, c = (np.asarray(v, dtype) for v in (a, z, c))
    residual = z - dtype(x) * a
    scratch = np.empty((2, len(a)), dtype)
    eps = sum_rounding(dtype)
    tiny = dtype(4 * eps * max(1e-30, np.abs(z).max(initial=0)))
    new = update_variable(
        residual, a, c * a, dtype(x), dtype(low), dtype(high), s + 2 * b * (x - d), 2 * b, eps, tiny, *scratch
    )
    return float(new), residual


numbers = st.floats(0, 10, width=32).map(lambda v: round(v, 2))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(numbers, st.floats(-5, 10).map(lambda v: round(v, 2)), numbers), min_size=1, max_size=12),
    numbers,
    st.sampled_from([0.0, 0.5, 3.0]),
    st.sampled_from([0.0, 0.3, 2.0]),
    st.sampled_from([(0.0, np.inf), (0.0, 1.0), (0.5, 2.0)]),
)
def test_one_variable_is_minimised(entries, start, s, b, box):
    low, high = box
    start = min(max(start, low), high)
    a, z, c = (np.array(v) for v in zip(*entries, strict=True))
    with np.errstate(all="ignore"):
        new, residual = one_variable(a, z, c, start, low=low, high=high, s=s, b=b, d=0.7)
    assert low <= new <= high
    best, _, _ = naive.minimise_1d(a, z, c, s, b, 0.7, low, high)
    value = naive.objective_1d(new, a, z, c, s, b, 0.7)
    assert value <= best + 1e-9 * (1 + abs(best))
    np.testing.assert_allclose(residual, z - new * a, atol=1e-9)


def test_one_variable_of_many_minimisers_none_or_beyond_the_range():
    a, z, c = [1, 1], [1, 3], [1, 1]  # every x in [1, 3] is optimal
    assert one_variable(a, z, c, 2.0)[0] == 2.0
    assert one_variable(a, z, c, 0.0)[0] == 1.0
    assert one_variable(a, z, c, 9.0)[0] == 3.0
    # entries without a coefficient or a weight do not count
    assert one_variable([0, 1, 1], [100, 1, 7], [1, 1, 0], 5.0)[0] == 1.0
    assert one_variable([0, 0], [1, 2], [1, 1], 5.0)[0] == 5.0
    # a quotient that overflows leaves the variable alone
    assert one_variable([1e-45], [1.0], [1.0], 3.0, dtype=np.float32)[0] == 3.0


@pytest.mark.parametrize("curvature", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["random", "sorted", "reversed", "ties", "equal"])
def test_selection_agrees_with_a_sort(kind, curvature, rng):
    for count in (1, 2, 3, 10, 101):
        steps = rng.random(count) + 0.01
        if kind == "sorted":
            steps.sort()
        elif kind == "reversed":
            steps[::-1].sort()
        elif kind == "ties":
            steps = rng.integers(1, 4, count).astype(float)
        elif kind == "equal":
            steps[:] = 2.0
        weights = rng.random(count) + 0.1
        for share in (0.01, 0.3, 0.7, 0.99):
            slope = -share * weights.sum()
            order = np.argsort(steps, kind="stable")
            expected, reached = None, slope
            for i in order:
                if reached + curvature * steps[i] >= 0:
                    break
                reached += weights[i]
                expected = steps[i]
                if reached + curvature * steps[i] >= 0:
                    break
            else:
                i = None
            if reached + curvature * (expected or 0) < 0 or expected is None:
                expected = -reached / curvature
            got = select_step(steps.copy(), weights.copy(), count, slope, curvature, 1e-12)
            assert got == pytest.approx(expected, rel=1e-12)


def rri_rows(X, F, A, *, M=None, box=(0.0, np.inf), l1=0.0, l2=0.0, alpha=0.0, graph=None, sweeps=1, stop=None):
    dtype = A.dtype.type
    losses = np.full(len(X), -1.0)
    weights = [np.full(len(A), value, dtype) for value in (l1, l2)]
    box = [dtype(limit) for limit in box]
    stop = len(X) if stop is None else stop
    eps = sum_rounding(dtype)
    scratch = A if M is None else np.empty_like(A), np.empty((3, A.shape[1]), dtype)
    _kernels.rri_rows(X, M, 1, F, A, *box, *weights, alpha, graph, sweeps, eps, 0, stop, losses, *scratch)
    return losses


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("box", [(0.0, np.inf), (0.0, 0.5)])
@pytest.mark.parametrize(("m", "n", "r"), [(4, 9, 3), (1, 5, 2), (6, 1, 1), (3, 4, 6)])
def test_rri_rows(dtype, weighted, box, m, n, r, rng):
    X, F, A = (rng.random(shape).astype(dtype) for shape in ((m, n), (r, m), (r, n)))
    M = rng.integers(0, 3, (m, n)).astype(dtype) if weighted else None
    F = np.minimum(F, dtype(box[1]))
    A[0] = 0  # a dead component
    before = F.copy()
    losses = rri_rows(X, F, A, M=M, box=box, stop=m - 1)
    for j in range(m - 1):
        c = np.ones(n) if M is None else M[j].astype(float)
        expected = naive.rri_row(X[j].astype(float), before[:, j].astype(float), A.astype(float), *box, c=c)
        got, want = (c * np.abs(X[j] - F[:, j] @ A)).sum(), (c * np.abs(X[j] - expected @ A)).sum()
        assert got == pytest.approx(want, rel=1e-12 if dtype is np.float64 else 1e-4, abs=1e-6)
        assert losses[j] == pytest.approx((c * np.abs(X[j] - before[:, j] @ A)).sum(), rel=1e-5, abs=1e-6)
    assert losses[m - 1] == -1 and (F[:, m - 1] == before[:, m - 1]).all()  # outside the range


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_rri_rows_with_penalties(weighted, alpha, rng):
    X, F, A = rng.random((1, 7)), rng.random((1, 1)), rng.random((1, 7))
    M = rng.random((1, 7)) if weighted else None
    c = np.ones(7) if M is None else M[0]
    start = F[0, 0]

    def value(x):
        net = alpha / 2 * sum(c[i] * (X[0, i] - x * A[0, i]) ** 2 for i in range(7))
        return naive.objective_1d(x, A[0], X[0], c, 0.3, 0.25) + net

    losses = rri_rows(X, F, A, M=M, l1=0.3, l2=0.5, alpha=alpha)
    assert losses[0] == pytest.approx(value(start) - 0.3 * start - 0.25 * start**2)
    grid = np.linspace(0, 3, 3001)
    assert value(F[0, 0]) <= min(value(x) for x in grid) + 1e-12


def test_rri_rows_with_a_graph(rng):
    X, F, A = rng.random((3, 5)), rng.random((1, 3)), rng.random((1, 5))
    S = np.array([[0, 2.0, 0], [2, 0, 0.5], [0, 0.5, 0]])
    graph = (np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]), np.array([2, 2, 0.5, 0.5]), S.sum(axis=1))
    expected = F[0].copy()
    for j in range(3):  # each row sees the new codes of the rows before
        b, d = S[j].sum() / 2, S[j] @ expected / S[j].sum()
        _, lowest, highest = naive.minimise_1d(A[0], X[j], np.ones(5), 0, b, d)
        assert lowest == highest
        expected[j] = lowest
    rri_rows(X, F, A, graph=graph)
    np.testing.assert_allclose(F[0], expected, rtol=1e-9)


def test_weighted_rows_share_weights_in_groups(rng):
    X = rng.integers(0, 256, (12, 15), dtype=np.uint8)
    M = rng.integers(0, 256, (4, 15), dtype=np.uint8)  # a row for three rows of X
    A, F = rng.random((2, 15)).astype(np.float32), (100 * rng.random((2, 12))).astype(np.float32)
    before = F.copy()
    box = np.float32(0), np.float32(np.inf)
    none, scratch = np.zeros(2, np.float32), (np.empty_like(A), np.empty((3, 15), np.float32))
    eps = sum_rounding(np.float32)
    _kernels.rri_rows(X, M, 3, F, A, *box, none, none, None, None, 1, eps, 3, 9, None, *scratch)
    assert (F[:, :3] == before[:, :3]).all() and (F[:, 9:] == before[:, 9:]).all()  # outside the range
    for j in range(3, 9):
        x, m = X[j].astype(float), M[j // 3].astype(float)
        expected = naive.rri_row(x, before[:, j].astype(float), A.astype(float), c=m)
        got, want = (m * np.abs(x - F[:, j] @ A)).sum(), (m * np.abs(x - expected @ A)).sum()
        assert got == pytest.approx(want, rel=1e-4)
        assert got < (m * np.abs(x - before[:, j] @ A)).sum()


def test_weighted_half_without_weights_is_half(rng):
    X, A, F = rng.random((6, 9)), rng.random((3, 9)), rng.random((3, 6))
    plain, weighted = F.copy(), F.copy()
    rri.half(Problem(X, Loss("manhattan")), plain, A, sweeps=4)
    rri.weighted_half(X, np.full((2, 9), 7), weighted, A, sweeps=4)
    np.testing.assert_allclose(plain, weighted, rtol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "r"), [(7, 2), (5, 7), (1, 2), (2, 1)])
def test_symmetric_sweep_and_objective(dtype, n, r, rng):
    S = rng.random((n, n)).astype(dtype)
    S = S + S.T
    H, c = rng.random((r, n)).astype(dtype), (rng.random(n) + 0.5).astype(dtype)
    scratch = np.empty((3, n), dtype)
    exact = naive.symmetric_objective(S.astype(float), H.astype(float), c.astype(float))
    assert _kernels.symmetric_objective(S, H, c, scratch) == pytest.approx(exact, rel=1e-5, abs=1e-6)
    expected = naive.symmetric_sweep(S.astype(float), H.astype(float), c.astype(float))
    HC = H * c
    _kernels.rri_symmetric_sweep(S, H, HC, c, sum_rounding(dtype), scratch, 0.0)
    want = naive.symmetric_objective(S.astype(float), expected, c.astype(float))
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    assert _kernels.symmetric_objective(S, H, c, scratch) == pytest.approx(want, rel=tolerance, abs=1e-6)
    np.testing.assert_allclose(HC, H * c, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [3, hals.TILE + 5])
@pytest.mark.parametrize("r", [3, 5])
def test_hals_columns(dtype, columns, r, rng):
    A, V = rng.random((r, 8)), rng.random((8, columns))
    A[1] = 0
    F = rng.random((r, columns)).astype(dtype)
    G, B = (A @ A.T).astype(dtype), (A @ V).astype(dtype)
    for box, l1, l2 in (((0.0, np.inf), 0.0, 0.0), ((0.1, 0.4), 0.2, 0.5)):
        prices, ridge = l1 * np.arange(r), l2 * np.arange(r)
        limits = dtype(box[0]), dtype(box[1]), prices.astype(dtype), ridge.astype(dtype)
        expected = naive.hals(F[:, 1:], G + np.diag(ridge), B[:, 1:] - prices[:, None], *box, 0.0, 2)
        got = F.copy()
        hals.hals_columns(got, G, B, 0, *limits, 2, False, 1, columns)
        np.testing.assert_allclose(got[:, 1:], expected, rtol=1e-3 if dtype is np.float32 else 1e-10, atol=1e-6)
        assert (got[:, 0] == F[:, 0]).all()
        expected = naive.hals(F[:, 1:], G + np.diag(ridge), B[:, 1:] - prices[:, None], *box, 0.0, 3, alternate=True)
        back_and_forth = F.copy()
        hals.hals_columns(back_and_forth, G, B, 0, *limits, 3, True, 1, columns)
        np.testing.assert_allclose(
            back_and_forth[:, 1:], expected, rtol=1e-3 if dtype is np.float32 else 1e-10, atol=1e-6
        )
        shifted = F.copy()
        B_part = np.ascontiguousarray(B[:, 1:])
        hals.hals_columns(shifted, G, B_part, 1, *limits, 2, False, 1, columns)
        assert (shifted == got).all()


@pytest.mark.parametrize("name", [name for name, record in LOSSES.items() if record.proximal])
def test_admm_pass_is_the_prox_of_the_loss(name):
    check_proximal(LOSSES[name])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_ogm_pass_is_the_gradient_of_the_smoothed_loss(alpha, weighted, dtype, rng):
    X, P = rng.random((3, 8)).astype(dtype), rng.random((3, 8)).astype(dtype)
    M = rng.random((3, 8)).astype(dtype) if weighted else None
    widths = (0.5 * rng.random(8)).astype(dtype)
    widths[2] = 0
    losses, inner, slope = np.zeros(3), np.zeros(3), P[1:2].copy()
    _kernels.ogm_pass(X, slope, M, widths, dtype(alpha), 1, 2, losses, inner)
    for i in range(8):
        m, e = 1.0 if M is None else float(M[1, i]), float(P[1, i]) - float(X[1, i])
        u = 0.0 if widths[i] == 0 else m * min(max(e / float(widths[i]), -1), 1)
        assert slope[0, i] == pytest.approx(u + alpha * m * e, abs=1e-5)
        inner[1] -= X[1, i] * u
        losses[1] -= m * (abs(e) + alpha / 2 * e * e)
    assert losses[1] == pytest.approx(0, abs=1e-5) and inner[1] == pytest.approx(0, abs=1e-5)
    assert losses[0] == losses[2] == 0


def test_blocks_within_blocks_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setenv("VISIONNMF_NUM_THREADS", "2")
    work = [(i, i + 1) for i in range(4)]
    seen = set(map_blocks(lambda _: (time.sleep(0.01), threading.get_ident())[1], work))
    assert threading.get_ident() not in seen and len(seen) == 2
    result = map_blocks(lambda outer: map_blocks(lambda inner: outer[0] * inner[0], work), work)
    assert result == [[i * j for j in range(4)] for i in range(4)]


CONCURRENT = """
import threading, time
import numpy, scipy.linalg.blas
from threadpoolctl import threadpool_info
from visionnmf.engine.blocks import one_blas_thread

def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

before, seen = threads(), []
def enter(seconds):
    with one_blas_thread(), one_blas_thread():
        time.sleep(seconds)
        seen.append(set(threads()))

workers = [threading.Thread(target=enter, args=(seconds,)) for seconds in (0.05, 0.1, 0.2)]
for worker in workers:
    worker.start()
enter(0.02)
for worker in workers:
    worker.join()
assert seen == [{1}] * 4, seen
assert threads() == before and set(before) == {2}, (before, threads())
"""


@pytest.mark.slow
@pytest.mark.skipif(
    hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2,
    reason="the BLAS has no two threads on one processor",
)
def test_concurrent_callers_leave_the_blas_as_it_was():
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", CONCURRENT], env=environment, check=True, timeout=300)


def test_long_sums_keep_single_precision_exact():
    X = np.full((1, 1_000_000), 0.1, np.float32)
    exact = 1_000_000 * float(np.float32(0.1))
    losses, residuals, one = np.empty(1), np.empty(1), np.ones(1, np.float32)
    nothing = np.zeros_like(X)
    LOSSES["manhattan"].proximal.rows(X, nothing, nothing.copy(), None, 0.0, one, one[0], 0, 1, losses, residuals)
    assert losses[0] == pytest.approx(exact, rel=1e-4)
