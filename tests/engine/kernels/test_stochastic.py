"""Robust stochastic approximation against the loops of Algorithm 2."""

import naive_online as formulas
import numpy as np
import pytest

from visionnmf.engine.kernels.online import robust_approximation


def simplex_rows(H):
    return np.array([formulas.on_simplex(row) for row in H])


def limits(H, low, high):
    return np.full(H.shape, float(low)), np.full(H.shape, float(high))


def squares_gradient(H, x, w):
    return np.outer(w, w @ H - x)


@pytest.mark.slow
def test_the_result_is_the_average_of_the_iterates_each_of_which_is_on_the_simplex(rng):
    X = 0.1 + rng.random((12, 9))
    start = simplex_rows(0.1 + rng.random((3, 9)))
    W = formulas.codes(X, start)
    order = rng.permutation(12)
    average, largest, way, steps = formulas.update_basis(
        start, X, W, order, 0.1, np.sqrt(6), 0.0, simplex_rows, squares_gradient, tolerance=1e-4
    )
    found, mean = start.copy(), start.copy()
    norm, n_steps = robust_approximation(
        found, mean, X, W, None, order, 0.1 * np.sqrt(6), 1e-4, 10000, 0.0, 0.0, *limits(start, 0, 1), True, False, 0.0
    )
    assert n_steps == len(steps) > 20
    np.testing.assert_allclose(norm, largest)
    np.testing.assert_allclose(mean, average, atol=1e-10)
    np.testing.assert_allclose(found, way[-1], atol=1e-10)
    np.testing.assert_allclose([H.sum(axis=1) for H in way], 1)


@pytest.mark.slow
def test_a_box_an_l2_penalty_and_missing_entries(rng):
    X, H, W = 0.1 + rng.random((5, 7)), 0.2 + 0.1 * rng.random((2, 7)), rng.random((5, 2))
    M = (rng.random((5, 7)) < 0.7).astype(float)
    pairs = list(zip(X, M, strict=True))
    average, largest, _, _ = formulas.update_basis(
        H, pairs, W, np.arange(5), 0.1, 2.0, 0.0, lambda F: np.clip(F, 0.1, 0.4),
        lambda F, pair, w: np.outer(w, pair[1] * (w @ F - pair[0])) + 0.3 * F,
    )  # fmt: skip
    mean = H.copy()
    norm, _ = robust_approximation(
        H, mean, X, W, M, np.arange(5), 0.2, 1e-3, 10000, 0.0, 0.3, *limits(H, 0.1, 0.4), False, False, 0.0
    )
    np.testing.assert_allclose(norm, largest)
    np.testing.assert_allclose(mean, average, atol=1e-10)


def test_samples_of_zeros_change_nothing():
    H = np.full((2, 4), 0.25)
    mean = H.copy()
    zeros = np.zeros((3, 4)), np.zeros((3, 2))
    result = robust_approximation(
        H, mean, *zeros, None, np.arange(3), 0.2, 1e-3, 100, 0.0, 0.0, *limits(H, 0, 1), True, False, 0.0
    )
    assert result[0] == 0 and (H == 0.25).all() and (mean == 0.25).all()
