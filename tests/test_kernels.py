"""Every kernel against its slow version, on random and degenerate input."""

import os
import subprocess
import sys
import threading
import time

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visionnmf.engine import _kernels, _kl_kernels
from visionnmf.engine._threads import map_blocks
from visionnmf.engine.penalties import NONNEGATIVE
from visionnmf.engine.solvers import rri

DTYPES = [np.float64, np.float32]


@pytest.fixture(autouse=True)
def _quiet():
    # without the JIT the kernels are numpy scalars, which warn where compiled code gives inf
    with np.errstate(all="ignore"):
        yield


def one_variable(a, z, c, x, *, low=0.0, high=np.inf, s=0.0, b=0.0, d=0.0, dtype=np.float64):
    a, z, c = (np.asarray(v, dtype) for v in (a, z, c))
    residual = z - dtype(x) * a
    scratch = np.empty((2, len(a)), dtype)
    eps = _kernels.sum_rounding(dtype)
    tiny = dtype(4 * eps * max(1e-30, np.abs(z).max(initial=0)))
    new = _kernels.update_variable(
        residual, a, c * a, dtype(x), dtype(low), dtype(high), s + 2 * b * (x - d), 2 * b, eps, tiny, *scratch
    )
    return float(new), residual


numbers = st.floats(0, 10, width=32).map(lambda v: round(v, 2))


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


def test_an_interval_of_minimisers_gives_the_point_nearest_to_the_old_value():
    a, z, c = [1, 1], [1, 3], [1, 1]  # every x in [1, 3] is optimal
    assert one_variable(a, z, c, 2.0)[0] == 2.0
    assert one_variable(a, z, c, 0.0)[0] == 1.0
    assert one_variable(a, z, c, 9.0)[0] == 3.0


def test_entries_without_a_coefficient_or_a_weight_do_not_count():
    assert one_variable([0, 1, 1], [100, 1, 7], [1, 1, 0], 5.0)[0] == 1.0
    assert one_variable([0, 0], [1, 2], [1, 1], 5.0)[0] == 5.0


def test_coefficients_that_overflow_leave_the_variable_alone():
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
            got = _kernels.select_step(steps.copy(), weights.copy(), count, slope, curvature, 1e-12)
            assert got == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("box", [(0.0, np.inf), (0.0, 0.5)])
@pytest.mark.parametrize(("m", "n", "r"), [(4, 9, 3), (1, 5, 2), (6, 1, 1), (3, 4, 6)])
def test_rri_rows(dtype, box, m, n, r, rng):
    X, F, A = (rng.random(shape).astype(dtype) for shape in ((m, n), (r, m), (r, n)))
    F = np.minimum(F, dtype(box[1]))
    A[0] = 0  # a dead component
    before = F.copy()
    losses = np.full(m, -1.0)
    _kernels.rri_rows(
        X, F, A, dtype(box[0]), dtype(box[1]), 0.0, 0.0, 1, _kernels.sum_rounding(dtype), 0, m - 1, losses
    )
    for j in range(m - 1):
        expected = naive.rri_row(X[j].astype(float), before[:, j].astype(float), A.astype(float), *box)
        got, want = np.abs(X[j] - F[:, j] @ A).sum(), np.abs(X[j] - expected @ A).sum()
        assert got == pytest.approx(want, rel=1e-12 if dtype is np.float64 else 1e-4, abs=1e-6)
        assert losses[j] == pytest.approx(np.abs(X[j] - before[:, j] @ A).sum(), rel=1e-5)
    assert losses[m - 1] == -1 and (F[:, m - 1] == before[:, m - 1]).all()  # outside the range


def test_rri_rows_with_penalties(rng):
    X, F, A = rng.random((1, 7)), rng.random((1, 1)), rng.random((1, 7))
    losses = np.empty(1)
    _kernels.rri_rows(X, F, A, 0.0, np.inf, 0.3, 0.5, 1, _kernels.sum_rounding(np.float64), 0, 1, losses)
    best, _, _ = naive.minimise_1d(A[0], X[0], np.ones(7), 0.3, 0.25)
    assert naive.objective_1d(F[0, 0], A[0], X[0], np.ones(7), 0.3, 0.25) == pytest.approx(best)


def test_weighted_rows_share_weights_in_groups(rng):
    X = rng.integers(0, 256, (12, 15), dtype=np.uint8)
    M = rng.integers(0, 256, (4, 15), dtype=np.uint8)  # a row for three rows of X
    A, F = rng.random((2, 15)).astype(np.float32), (100 * rng.random((2, 12))).astype(np.float32)
    before = F.copy()
    box = np.float32(0), np.float32(np.inf)
    _kernels.rri_weighted_rows(X, M, 3, F, A, *box, 1, _kernels.sum_rounding(np.float32), 1, 3)
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
    rri.half(X, plain, A, box=NONNEGATIVE, sweeps=4)
    rri.weighted_half(X, np.full((2, 9), 7), weighted, A, box=NONNEGATIVE, sweeps=4)
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
    _kernels.rri_symmetric_sweep(S, H, HC, c, _kernels.sum_rounding(dtype), scratch)
    want = naive.symmetric_objective(S.astype(float), expected, c.astype(float))
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    assert _kernels.symmetric_objective(S, H, c, scratch) == pytest.approx(want, rel=tolerance, abs=1e-6)
    np.testing.assert_allclose(HC, H * c, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [3, _kernels.TILE + 5])
def test_hals_columns(dtype, columns, rng):
    A, V = rng.random((3, 8)), rng.random((8, columns))
    A[1] = 0
    F = rng.random((3, columns)).astype(dtype)
    G, B = (A @ A.T).astype(dtype), (A @ V).astype(dtype)
    for box, ridge in (((0.0, np.inf), 0.0), ((0.1, 0.4), 0.5)):
        expected = naive.hals(F[:, 1:], G, B[:, 1:], *box, ridge, 2)
        got = F.copy()
        _kernels.hals_columns(got, G, B, 0, dtype(box[0]), dtype(box[1]), dtype(ridge), 2, 1, columns)
        np.testing.assert_allclose(got[:, 1:], expected, rtol=2e-4 if dtype is np.float32 else 1e-10, atol=1e-6)
        assert (got[:, 0] == F[:, 0]).all()
        shifted = F.copy()
        B_part = np.ascontiguousarray(B[:, 1:])
        _kernels.hals_columns(shifted, G, B_part, 1, dtype(box[0]), dtype(box[1]), dtype(ridge), 2, 1, columns)
        assert (shifted == got).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_admm_pass(dtype, rng):
    X, P, U = (rng.random((4, 6)).astype(dtype) for _ in range(3))
    V, new = naive.admm_pass(X, P, U, 0.3, 0.9)
    losses, residuals = np.zeros(4), np.zeros(4)
    block, dual = P[1:3].copy(), U.copy()
    _kernels.admm_manhattan_pass(X, block, dual, np.full(4, 0.3, dtype), dtype(0.9), 1, 3, losses, residuals)
    np.testing.assert_allclose(block, V[1:3], rtol=1e-5)
    np.testing.assert_allclose(dual[1:3], new[1:3], rtol=1e-5)
    np.testing.assert_allclose(losses[1:3], np.abs(X - P).sum(1)[1:3], rtol=1e-5)
    np.testing.assert_allclose(residuals[1:3], np.abs(new - U * 0.9).sum(1)[1:3], rtol=1e-5)
    assert (dual[0] == U[0]).all() and losses[0] == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 5, 100])
def test_admm_rows_are_products_pass_and_sweeps(dtype, size, rng):
    X, Wt, H, U = (rng.random(shape).astype(dtype) for shape in ((9, 6), (2, 9), (2, 6), (9, 6)))
    before, dual = Wt.copy(), U.copy()
    right, losses, residuals = np.empty((2, 6), dtype), np.zeros(9), np.zeros(9)
    box = dtype(0), dtype(np.inf)
    _kernels.admm_manhattan_rows(
        X, Wt, H, dual, H @ H.T, np.full(9, 0.3, dtype), dtype(0.9), *box, 2, size, 1, 8, right, losses, residuals
    )
    V, new = naive.admm_pass(X, before.T @ H, U, 0.3, 0.9)
    codes = naive.hals(before, H @ H.T, H @ V.T, 0, np.inf, 0, 2)
    np.testing.assert_allclose(dual[1:8], new[1:8], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(Wt[:, 1:8], codes[:, 1:8], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(right, Wt[:, 1:8] @ V[1:8], rtol=1e-4)
    np.testing.assert_allclose(losses[1:8], np.abs(X - before.T @ H).sum(1)[1:8], rtol=1e-4)
    for j in (0, 8):
        assert (dual[j] == U[j]).all() and (Wt[:, j] == before[:, j]).all() and losses[j] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses(dtype, rng):
    X, P = rng.random((3, 5)).astype(dtype), rng.random((1, 5)).astype(dtype)
    out = np.zeros(3)
    _kernels.manhattan_rows(X, P, 1, 2, out)
    assert out[1] == pytest.approx(np.abs(X[1] - P[0]).sum(), rel=1e-5) and out[0] == out[2] == 0
    _kernels.frobenius_rows(X, P, 1, 2, out)
    assert out[1] == pytest.approx(((X[1] - P[0]) ** 2).sum() / 2, rel=1e-5)
    _kl_kernels.kullback_leibler_rows(X, P, 1, 2, out)
    assert out[1] == pytest.approx(naive.kullback_leibler(X[1], P[0]), rel=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kullback_leibler_rows(dtype, rng):
    X = rng.poisson(3, (4, 9)).astype(dtype)
    A, F = rng.random((2, 9)).astype(dtype), rng.random((2, 4)).astype(dtype) + dtype(0.5)
    X[2] = 0
    before, losses, sums = F.copy(), np.full(4, -1.0), A.sum(axis=1)
    limits = dtype(0), dtype(np.inf)
    _kl_kernels.kl_rows(X, F, A, sums, *limits, 1, dtype(0), 1e-7, 0, 3, losses)
    for j in range(3):
        assert losses[j] == pytest.approx(naive.kullback_leibler(X[j], before[:, j] @ A), rel=1e-4)
        assert naive.kullback_leibler(X[j], F[:, j] @ A + 1e-9) < losses[j]
    assert (F[:, 2] == 0).all() and losses[3] == -1 and (F[:, 3] == before[:, 3]).all()
    _kl_kernels.kl_rows(X, F, A, sums, *limits, 400, dtype(0), 1e-7, 0, 3, losses)
    for j in range(2):  # stationary: a KKT point of a convex problem
        gradient = sums - A @ (X[j] / (F[:, j] @ A))
        assert (gradient > -1e-4).all() and np.abs(gradient * F[:, j]).max() < 1e-3


def test_one_component_takes_one_step_when_the_quotient_is_constant():
    A = np.array([[1.0, 2.0, 3.0]])
    F, losses = np.array([[0.1]]), np.empty(1)
    _kl_kernels.kl_rows(4 * A, F, A, A.sum(axis=1), 0.0, np.inf, 1, 0.0, 1e-7, 0, 1, losses)
    assert F[0, 0] == pytest.approx(4, rel=1e-5)


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
from visionnmf.engine._threads import one_blas_thread

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


def test_concurrent_callers_leave_the_blas_as_it_was():
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", CONCURRENT], env=environment, check=True)


def test_long_sums_keep_single_precision_exact():
    X = np.full((1, 1_000_000), 0.1, np.float32)
    out, exact = np.empty(1), 1_000_000 * float(np.float32(0.1))
    _kernels.manhattan_rows(X, np.zeros_like(X), 0, 1, out)
    assert out[0] == pytest.approx(exact, rel=1e-4)
