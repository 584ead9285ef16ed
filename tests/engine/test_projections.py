"""Projections and proxes: nearest points, by bisection and by certificates."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from naive import l1_inf_by_bisection, water_level

from visionnmf.engine import projections

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 6))
SIGNED = hnp.arrays(np.float64, SIZES, elements=st.floats(-50, 50, width=32))
POSITIVE = hnp.arrays(np.float64, SIZES, elements=st.floats(0, 50, width=32))
RADII = st.floats(0.0625, 60, width=32)


@settings(deadline=None, max_examples=60)
@given(SIGNED, RADII)
def test_simplex_is_the_water_level(V, radius):
    X = projections.project_simplex(V, radius)
    expected = np.array([np.maximum(v - water_level(v, radius), 0) for v in V])
    np.testing.assert_allclose(X, expected, atol=1e-9)
    np.testing.assert_allclose(X.sum(axis=1), radius, rtol=1e-12)


@settings(deadline=None, max_examples=40)
@given(SIGNED)
def test_simplex_of_columns_is_that_of_rows(V):
    F = V.copy()
    projections.project_simplex_columns(F)
    np.testing.assert_allclose(F, projections.project_simplex(V.T).T, atol=1e-12)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e8, 1e30])
def test_simplex_in_single_precision_whatever_the_size(rng, size):
    V = (rng.random((4, 300)) * size).astype(np.float32)
    V[0] = V[0, 0]  # all alike: the middle of the simplex
    X = projections.project_simplex(V)
    assert X.dtype == np.float32 and (X >= 0).all()
    np.testing.assert_allclose(X.sum(axis=1, dtype=np.float64), 1, rtol=1e-5)
    np.testing.assert_allclose(X[0], 1 / 300, rtol=1e-5)
    np.testing.assert_allclose(X, projections.project_simplex(V.astype(np.float64)), atol=1e-6)
    columns = np.ascontiguousarray(V.T)
    projections.project_simplex_columns(columns)
    np.testing.assert_allclose(columns.T, X, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(POSITIVE, RADII)
def test_l1_ball(V, radius):
    X = projections.project_l1_ball(V, radius)
    for v, x in zip(V, X, strict=True):
        expected = v if v.sum() <= radius else np.maximum(v - water_level(v, radius), 0)
        np.testing.assert_allclose(x, expected, atol=1e-9)
    assert not projections.project_l1_ball(V, 0).any()


@settings(deadline=None, max_examples=40)
@given(POSITIVE, RADII)
def test_l1_inf_ball(V, radius):
    X = projections.project_l1_inf_ball(V, radius)
    np.testing.assert_allclose(X, l1_inf_by_bisection(V, radius), atol=1e-7)
    assert not projections.project_l1_inf_ball(V, 0).any()


SETS = {
    # the norm that bounds the set, and the greatest product of a matrix with a point of the set of size 1
    "simplex": (projections.project_simplex, lambda X: X.sum(axis=1).max(), lambda G: G.max(axis=1).sum()),
    "l1": (projections.project_l1_ball, lambda X: X.sum(axis=1).max(), lambda G: np.maximum(G, 0).max(axis=1).sum()),
    "l1,2": (
        projections.project_l1_2_ball,
        lambda X: np.linalg.norm(X, axis=1).sum(),
        lambda G: np.linalg.norm(np.maximum(G, 0), axis=1).max(),
    ),
    "l1,inf": (
        projections.project_l1_inf_ball,
        lambda X: X.max(axis=1).sum(),
        lambda G: np.maximum(G, 0).sum(axis=1).max(),
    ),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("radius", [0.3, 1.0, 2.5])
def test_no_point_of_the_set_is_nearer(name, radius, rng):
    """X is the nearest point to V of a convex set exactly where no point Y of it has ``<V - X, Y - X> > 0``."""
    project, norm, greatest = SETS[name]
    for V in (rng.gamma(1, 0.4, (3, 4)), rng.gamma(1, 2, (6, 5)), rng.random((5, 1)), np.eye(4)):
        X = project(V, radius)
        assert (X >= 0).all() and norm(X) <= radius * (1 + 1e-12)
        G = V - X
        assert radius * greatest(G) - (G * X).sum() <= 1e-12 * (V**2).sum()
        if name != "simplex":
            np.testing.assert_array_equal(project(V, 100.0), V)


@pytest.mark.slow
@pytest.mark.parametrize("shrink", [projections.shrink_2, projections.shrink_inf])
@settings(deadline=None, max_examples=60)
@given(V=POSITIVE, threshold=st.floats(0, 60, width=32))
def test_proxes_by_their_optimality_condition(shrink, V, threshold):
    """``(v - x) / threshold`` is a subgradient of the norm at x."""
    X = shrink(V, threshold)
    assert (X >= 0).all()
    for v, x in zip(V, X, strict=True):
        g = v - x
        dual = np.linalg.norm(g) if shrink is projections.shrink_2 else g.sum()
        norm = np.linalg.norm(x) if shrink is projections.shrink_2 else x.max()
        assert dual <= threshold * (1 + 1e-9) + 1e-9
        assert (g >= -1e-9).all()
        np.testing.assert_allclose(g @ x, threshold * norm, atol=1e-6)


def test_shapes_at_the_edge():
    for shrink in (projections.shrink_2, projections.shrink_inf):
        assert not shrink(np.zeros((2, 3), np.float32), 0.5).any()
        np.testing.assert_array_equal(shrink(np.array([[2.0]]), 0.5), [[1.5]])
    np.testing.assert_array_equal(projections.project_simplex(np.array([[-7.0]])), [[1.0]])
    np.testing.assert_array_equal(projections.project_simplex(np.zeros((1, 2))), [[0.5, 0.5]])
    denormal = np.full((2, 3), 1e-310)
    np.testing.assert_allclose(projections.project_simplex(denormal), 1 / 3)
    np.testing.assert_array_equal(projections.project_l1_inf_ball(denormal, 1.0), denormal)
