"""The kernels of sparse data against plain loops over the dense data."""

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import random_array
from hypothesis import given, settings, strategies as st

from visionnmf.engine.kernels import manhattan as _kernels, sparse as _sparse_kernels

DTYPES = [np.float64, np.float32]


@pytest.fixture(autouse=True)
def _quiet():
    # without the JIT the kernels are numpy scalars, which warn where compiled code gives inf
    with np.errstate(all="ignore"):
        yield


def make(rng, dtype=np.float64, shape=(6, 9), r=3, density=0.4):
    """Return a sparse array with an explicit 0 and an empty row, and two factors, point-major."""
    X = random_array(shape, density=density, rng=rng, format="lil")
    X[1] = 0
    X = sp.csr_array(X)
    X.data[0] = 0
    return X.astype(dtype), rng.random((shape[0], r)).astype(dtype), rng.random((shape[1], r)).astype(dtype)


def arrays(X):
    return X.data, X.indices, X.indptr


def scratch(X, r):
    longest = np.diff(X.indptr).max()
    return np.empty((r, longest)), np.empty((3, longest)), np.empty(r)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_products_are_those_of_the_dense_data(dtype, index, rng):
    X, _, points = make(rng, dtype)
    out = np.full((6, 3), np.nan, dtype)
    _sparse_kernels.product_rows(X.data, X.indices.astype(index), X.indptr.astype(index), points, 1, 6, out)
    assert np.isnan(out[0]).all()
    np.testing.assert_allclose(out[1:], X.toarray()[1:] @ points, rtol=10 * np.finfo(dtype).eps)


def test_a_long_row_is_summed_by_chunks(rng):
    # 2^24 + 1 = 2^24 in single precision: one running sum would stop growing
    n = _sparse_kernels.CHUNK + 5
    data = np.full(n, 1, np.float32)
    data[0] = 2.0**24
    out = np.empty((1, 1), np.float32)
    _sparse_kernels.product_rows(data, np.arange(n), np.array([0, n]), np.ones((n, 1), np.float32), 0, 1, out)
    one_sum = np.float32(2.0**24)
    assert one_sum + np.float32(1) == one_sum
    assert abs(float(out[0, 0]) - (2.0**24 + n - 1)) <= _sparse_kernels.CHUNK  # not n: the last chunk is exact
    data[:] = 1
    _sparse_kernels.product_rows(data, np.arange(n), np.array([0, n]), np.ones((n, 1), np.float32), 0, 1, out)
    assert out[0, 0] == n


def test_the_model_is_evaluated_at_the_stored_entries(rng):
    X, codes, points = make(rng, np.float32)
    out = np.empty(X.indptr[5] - X.indptr[2])
    _sparse_kernels.model_entries(X.indices, X.indptr, codes, points, 2, 5, out)
    rows, columns = X[2:5].tocoo().coords
    exact = codes.astype(float)[2:5] @ points.astype(float).T
    np.testing.assert_allclose(out, exact[rows, columns], rtol=1e-14)


def hals_naive(X, F, last, points, G, momentum, low, high, l1, l2, sweeps, totals=None):
    right = X @ points if totals is None else totals + X @ points
    F = naive.hals(F.T, G + np.diag(l2), (right - l1).T, low, high, 0.0, sweeps).T
    return np.clip(F + momentum * (F - last), low, high), F, right


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("box", [(0.0, np.inf), (0.1, 0.6)])
def test_least_squares_codes_of_a_range_of_rows(dtype, box, rng):
    X, F, points = make(rng, dtype)
    points[:, 2] = 0  # a component that is 0 everywhere keeps its codes
    last = rng.random(F.shape).astype(dtype)
    l1, l2 = (rng.random(3).astype(dtype) for _ in range(2))
    l1[2] = l2[2] = 0
    G = points.T @ points
    ahead, kept = F[2:].copy(), last[2:].copy()
    number = dtype
    _sparse_kernels.hals_rows(
        *arrays(X), 2, points, G, np.empty((0, 3)), ahead, kept, number(0.3), number(box[0]), number(box[1]), l1, l2,
        2, 1, 4,
    )  # fmt: skip
    want = hals_naive(X.toarray()[2:].astype(float), F[2:], last[2:], points, G, 0.3, *box, l1, l2, 2)
    tolerance = {"rtol": 1e-4 if dtype == np.float32 else 1e-10}
    np.testing.assert_allclose(ahead[1:4], want[0][1:4], **tolerance)
    np.testing.assert_allclose(kept[1:4], want[1][1:4], **tolerance)
    np.testing.assert_array_equal(ahead[0], F[2])  # not in the range


def test_components_get_sums_over_the_parts(rng):
    X, F, points = make(rng)
    totals = rng.random(F.shape)
    ahead, last = F.copy(), F.copy()
    G, none = np.eye(3) + 0.1, np.zeros(3)
    want = hals_naive(X.toarray(), F, F, points, G, 0.5, 0, np.inf, none, none, 1, totals)
    _sparse_kernels.hals_rows(*arrays(X), 0, points, G, totals, ahead, last, 0.5, 0.0, np.inf, none, none, 1, 0, 6)
    for got, expected in zip((ahead, last, totals), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    before = ahead.copy()
    _sparse_kernels.hals_rows(*arrays(X), 0, points, G, totals, ahead, last, 0.5, 0.0, np.inf, none, none, 0, 0, 6)
    np.testing.assert_array_equal(ahead, before)
    np.testing.assert_allclose(totals, want[2] + X.toarray() @ points, rtol=1e-12)


def kl_sweep_naive(x, f, A, low, high, l1, l2):
    """One sweep of Newton's step on ``(sum(a) + l1 + l2 f) / S(f) = 1``, over the dense row."""
    f = f.copy()
    for k in range(len(f)):
        p = f @ A + 1e-300
        S, slope = np.sum(A[k] * x / p), np.sum(A[k] ** 2 * x / p**2)
        target = A[k].sum() + l1[k] + l2[k] * f[k]
        new = f[k] + (S - target) / (l2[k] + target * slope / S) if S > 0 else low
        f[k] = np.clip(new, low, high)
    return f


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("box", "penalised"), [((0.0, np.inf), False), ((0.05, 0.5), True)])
def test_kullback_leibler_codes(dtype, box, penalised, rng):
    X, F, points = make(rng, dtype)
    Ft = np.ascontiguousarray(F.T)
    l1, l2 = (rng.random(3).astype(dtype) * penalised for _ in range(2))
    losses = np.zeros(6)
    _sparse_kernels.descend_rows(
        *arrays(X), Ft, points, points.sum(axis=0), dtype(box[0]), dtype(box[1]), l1, l2, 1, dtype(0),
        np.full(6, 1e-12, dtype), 0, 6, losses,
    )  # fmt: skip
    dense = X.toarray().astype(float)
    for j in range(6):
        want = kl_sweep_naive(dense[j], F[j].astype(float), points.T.astype(float), *box, l1, l2)
        np.testing.assert_allclose(Ft[:, j], want, rtol=2e-4 if dtype == np.float32 else 1e-9)
        loss = naive.kullback_leibler(dense[j], F[j].astype(float) @ points.T)
        assert losses[j] == pytest.approx(loss, rel=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("kind", ["zeros count", "zeros are missing", "least squares"])
def test_codes_of_zero_grow_only_where_the_slope_says_so(kind, rng):
    X, _, points = make(rng, float)
    stored, none = np.zeros(X.shape, bool), np.zeros(3)
    stored[np.repeat(np.arange(6), np.diff(X.indptr)), X.indices] = True
    sums = {"zeros count": points.sum(axis=0), "zeros are missing": np.zeros(0), "least squares": None}[kind]

    def slopes(Ft):
        """The derivatives of the loss with respect to the codes (3, 6), over the dense data."""
        P, data = np.maximum(Ft.T @ points.T, 1e-12), X.toarray()
        return points.T @ np.where(stored | (kind == "zeros count"), P - data if sums is None else 1 - data / P, 0).T

    Ft = np.where(rng.random((3, 6)) < 0.6, 0.0, rng.random((3, 6)))
    floors = None if sums is None else np.full(6, 1e-12)
    stays, grows = (Ft == 0) & (slopes(Ft) >= 0), (Ft == 0) & (slopes(Ft) < 0)
    for sweeps in (2, 3000):
        _sparse_kernels.descend_rows(
            *arrays(X), Ft, points, sums, 0.0, np.inf, none, none, sweeps, 0.0, floors, 0, 6, np.zeros(6)
        )
        if sweeps == 2:
            assert stays.any() and (Ft[stays] == 0).all() and Ft[grows].any()
    assert (slopes(Ft)[:, stored.any(axis=1)] > -1e-6).all() and (np.abs(slopes(Ft))[Ft > 1e-6] < 1e-6).all()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=7),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([(0.0, np.inf), (0.5, 2.0)]),
)
def test_weighted_medians_of_a_row_are_those_of_the_dense_row(entries, zero_weight, box):
    # an entry of the data that is 0 is not stored; small integers make ties
    x, *components = (np.array(v, float) for v in zip(*entries, strict=True))
    A = np.array(components)
    X = sp.csr_array(x[None])
    f = np.clip(np.array([1.0, 0.0]), *box)
    weights = np.where(x > 0, 1.0, zero_weight)
    Ft, losses = f[:, None].copy(), np.zeros(1)
    none = np.zeros(2)
    _kernels.rri_sparse_rows(
        *arrays(X), Ft, np.ascontiguousarray(A.T), A.sum(axis=1), zero_weight, *box, none, none, 1, 1e-15, 0, 1,
        losses, *scratch(X, 2),
    )  # fmt: skip
    assert losses[0] == pytest.approx(np.sum(weights * np.abs(x - f @ A)))
    want = naive.rri_row(x, f, A, *box, weights)
    np.testing.assert_allclose(Ft[:, 0], want, atol=1e-12)


def test_weighted_medians_with_penalties(rng):
    X, F, points = make(rng)
    dense, A = X.toarray(), points.T
    l1, l2 = np.array([0.3, 0.0, 0.1]), np.array([0.0, 0.5, 0.2])
    Ft = np.ascontiguousarray(F.T)
    _kernels.rri_sparse_rows(
        *arrays(X), Ft, points, points.sum(axis=0), 1.0, 0.0, np.inf, l1, l2, 1, 1e-15, 0, 6, np.zeros(6),
        *scratch(X, 3),
    )  # fmt: skip
    for j in range(6):
        f = F[j].copy()
        for k in range(3):
            z = dense[j] - (f @ A - f[k] * A[k])
            _, lowest, highest = naive.minimise_1d(A[k], z, np.ones(9), s=l1[k], b=l2[k] / 2)
            f[k] = np.clip(f[k], lowest, highest)
        np.testing.assert_allclose(Ft[:, j], f, atol=1e-9)
