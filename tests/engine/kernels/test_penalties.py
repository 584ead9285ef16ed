"""The kernels of the penalties against plain loops; also run without the JIT and with bounds checks."""

import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf.engine.kernels import penalties as _penalty_kernels


def naive_points(F, G, B, low, high, l1, l2, S, scale, sweeps):
    F = F.copy()
    n, r = F.shape
    for _ in range(sweeps):
        for j in range(n):
            for k in range(r):
                ridge = scale * (l2[k] + sum(S[j, i] for i in range(n) if i != j))
                if G[k, k] + ridge > 0:
                    pull = scale * sum(S[j, i] * F[i, k] for i in range(n) if i != j)
                    others = sum(G[k, m] * F[j, m] for m in range(r) if m != k)
                    best = (B[j, k] + pull - scale * l1[k] - others) / (G[k, k] + ridge)
                    F[j, k] = min(max(best, low), high)
    return F


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "r", "low", "high"), [(5, 3, 0.0, np.inf), (4, 1, 0.1, 0.6), (1, 2, 0.0, np.inf)])
def test_graph_points(rng, dtype, n, r, low, high):
    A = rng.random((r, 6))
    A[0, :] *= r > 1  # a component that is not used
    G, B = A @ A.T, rng.random((n, r))
    S = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
    S = (S + S.T) / 2
    np.fill_diagonal(S, 0)
    l1, l2 = rng.random(r) * 0.1, rng.random(r) * 0.1
    F = np.clip(rng.random((n, r)), low, high)
    expected = naive_points(F, G, B, low, high, l1, l2, S, 0.7, 2)
    graph = sp.csr_array(S.astype(dtype))
    number = dtype
    found = F.astype(dtype)
    _penalty_kernels.graph_points(
        found,
        G.astype(dtype),
        B.astype(dtype),
        number(low),
        number(high),
        l1.astype(dtype),
        l2.astype(dtype),
        graph.indptr,
        graph.indices,
        graph.data,
        S.sum(axis=1).astype(dtype),
        number(0.7),
        2,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_graph_points_of_nothing():
    empty = np.empty((0, 2))
    weights = np.zeros(2)
    graph = sp.csr_array((0, 0))
    edges = (graph.indptr, graph.indices, graph.data)
    _penalty_kernels.graph_points(empty, np.eye(2), empty, 0.0, np.inf, weights, weights, *edges, np.zeros(0), 1.0, 1)


def naive_depth(v, radius):
    """How far below the largest entry the level lies, by trying how many entries are above it."""
    falling = sorted(v, reverse=True)
    for count in range(len(v), 0, -1):
        level = (sum(falling[:count]) - radius) / count
        if falling[count - 1] > level:
            return falling[0] - level
    return 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_levels(rng, dtype):
    V = rng.normal(size=(6, 5)).astype(dtype)
    V[1] = V[1, 0]
    V[2, 1:] = -1e6
    radii = np.array([0.5, 1.0, 2.0, 1e-3, 50.0, 0.0], dtype)
    tops, depths = np.empty((2, 6), dtype)
    _penalty_kernels.row_levels(V, radii, tops, depths)
    np.testing.assert_array_equal(tops, V.max(axis=1))
    expected = [naive_depth(v.astype(float), float(radius)) for v, radius in zip(V, radii, strict=True)]
    np.testing.assert_allclose(depths, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("r", "n", "start", "stop"), [(4, 7, 0, 7), (4, 7, 2, 5), (1, 3, 0, 3), (3, 130, 1, 130)])
def test_simplex_columns(rng, dtype, r, n, start, stop):
    F = rng.normal(scale=2, size=(r, n)).astype(dtype)
    expected = F.copy()
    for j in range(start, stop):
        v = F[:, j].astype(float)
        expected[:, j] = np.maximum(v - v.max() + naive_depth(v, 1.0), 0)
    _penalty_kernels.simplex_columns(F, start, stop)
    np.testing.assert_allclose(F, expected, atol=1e-6 if dtype == np.float32 else 1e-12)
