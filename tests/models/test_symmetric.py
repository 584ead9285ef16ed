"""SymmetricNMF: certificates, invariances, truth."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from visionnmf import SymmetricNMF
from visionnmf.engine import symmetric
from visionnmf.engine.starts import spread_symmetric
from visionnmf.exceptions import ParameterError


def affinity(rng, sizes=(12, 15, 9), noise=0.05, wrong=0.15):
    truth = np.repeat(np.arange(len(sizes)), sizes)
    A = (truth[:, None] == truth[None]) * 0.9 + noise * rng.random((len(truth),) * 2)
    flip = np.triu(rng.random(A.shape) < wrong, 1)
    A = np.where(flip, 1 - A, A)
    A = np.triu(A, 1)
    return A + A.T, truth


def agree(labels, truth):
    same = labels[:, None] == labels[None]
    return (same == (truth[:, None] == truth[None])).mean()


def test_groups_are_found_in_spite_of_wrong_entries(rng):
    A, truth = affinity(rng)
    model = SymmetricNMF(3, n_init=8, random_state=0)
    labels = model.fit_transform(A).argmax(axis=1)
    assert agree(labels, truth) == 1
    assert agree(rng.permutation(truth), truth) < 0.9  # what a random labelling gets


def test_spread_starts_end_lower_than_random_ones(rng):
    A, _ = affinity(rng, sizes=(30, 25, 20, 15), wrong=0.05)
    ends = {
        init: SymmetricNMF(4, init=init, n_init=6, random_state=0).fit(A).objectives_.mean()
        for init in ("k-means++", "random")
    }
    assert ends["k-means++"] < 0.9 * ends["random"]


def test_the_objective_never_rises_and_is_what_is_reported(rng):
    A, _ = affinity(rng)
    c = rng.random(len(A)) + 0.5
    model = SymmetricNMF(3, n_init=3, tol=0, max_iter=30, random_state=0).fit(A, sample_weight=c)
    history = model.objective_history_
    assert (np.diff(history) <= 1e-9 * history[0]).all() and history[-1] < history[0]
    H = model.components_
    weights = np.outer(c, c) * (1 - np.eye(len(A)))
    assert model.reconstruction_err_ == pytest.approx((weights * np.abs(A - H.T @ H)).sum())
    assert model.reconstruction_err_ == model.objectives_.min() == history[-1]


@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_the_diagonal_and_weightless_nodes_say_nothing(loss, rng):
    A, _ = affinity(rng)
    given = np.abs(rng.standard_normal((3, len(A))))
    fixed = SymmetricNMF(3, loss=loss, n_init=1, init=given, max_iter=1000)
    one = fixed.fit_transform(A)
    other = A.copy()
    np.fill_diagonal(other, 7.0)
    np.testing.assert_allclose(fixed.fit_transform(other), one, atol=1e-9)
    c = np.ones(len(A))
    c[-1] = 0
    smaller = SymmetricNMF(3, loss=loss, n_init=1, init=given[:, :-1], max_iter=1000).fit_transform(A[:-1, :-1])
    np.testing.assert_allclose(fixed.fit_transform(A, sample_weight=c)[:-1], smaller, atol=1e-6)


def test_a_node_of_weight_two_is_two_nodes(rng):
    A, _ = affinity(rng, sizes=(5, 6), wrong=0)
    H = rng.random((2, 11))
    c = np.ones(11)
    c[0] = 2
    double = np.r_[0, np.arange(11)]
    weighted = SymmetricNMF(2, n_init=1, init=H, max_iter=300, tol=0).fit(A, sample_weight=c)
    # a doubled node also has an entry with itself, which the weighted model leaves out: let it fit exactly
    big = A[np.ix_(double, double)]
    h = weighted.components_[:, 0]
    big[0, 1] = big[1, 0] = h @ h
    at_optimum = SymmetricNMF(2, n_init=1, init=weighted.components_[:, double], max_iter=50, tol=0).fit(big)
    assert at_optimum.objective_history_[0] == pytest.approx(weighted.reconstruction_err_)


def test_an_affinity_is_made_symmetric_and_a_fit_that_stops_early_warns(rng):
    A, _ = affinity(rng)
    uneven = A.copy()
    uneven[0, 1] += 1e-5
    model = SymmetricNMF(3, random_state=0)
    expected = model.fit_transform((uneven + uneven.T) / 2)
    np.testing.assert_array_equal(model.fit_transform(uneven), expected)
    with pytest.warns(ConvergenceWarning, match="SymmetricNMF stopped after 1 iterations"):
        SymmetricNMF(3, max_iter=1, random_state=0).fit(A)


def test_spread_starts_prefer_heavy_nodes_and_cover_all_groups(rng):
    A, truth = affinity(rng, wrong=0)
    start = spread_symmetric(A, np.ones(len(A)), 3, rng)
    assert sorted(truth[start.argmax(axis=1)]) == [0, 1, 2]
    heavy = np.where(truth == 1, 1.0, 0.0)
    assert truth[spread_symmetric(A, heavy, 1, rng)[0].argmax()] == 1


@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_scale_dtype_and_seed(loss, rng):
    A, _ = affinity(rng)
    model = SymmetricNMF(3, loss=loss, random_state=3)
    codes = model.fit_transform(A)
    np.testing.assert_array_equal(model.fit_transform(A), codes)
    np.testing.assert_allclose(model.fit_transform(4 * A), 2 * codes, rtol=1e-9)
    single = model.fit_transform(A.astype(np.float32))
    assert single.dtype == np.float32
    if loss == "frobenius":
        np.testing.assert_allclose(single, codes, atol=0.02 * codes.max())


@pytest.mark.parametrize(
    ("matrix", "parameters", "weights", "sentence"),
    [
        (np.ones((3, 4)), {}, None, r"X must be a square affinity matrix; got shape \(3, 4\)"),
        (np.triu(np.ones((3, 3))), {}, None, "X must be symmetric; got entries that differ .* by up to 1"),
        (np.eye(3) - 0.5, {}, None, "Negative values in data passed to SymmetricNMF .*; clip it by numpy"),
        (np.ones((3, 3)), {"init": -np.ones((2, 3))}, None, "init must hold finite numbers >= 0; got -1"),
        (np.ones((3, 3)), {}, np.ones(2), "sample_weight must have shape \\(3,\\); got \\(2,\\)"),
        (np.ones((3, 3)), {}, np.zeros(3), "sample_weight must not be 0 for all"),
    ],
)
def test_input_that_is_not_allowed(matrix, parameters, weights, sentence):
    with pytest.raises(ParameterError, match=sentence):
        SymmetricNMF(**{"n_components": 2, **parameters}).fit(matrix, sample_weight=weights)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_and_zero(n):
    for loss in ("manhattan", "frobenius"):
        for A in (np.zeros((n, n)), np.ones((n, n)), np.full((n, n), 1e-30), np.full((n, n), 1e-30, np.float32)):
            codes = SymmetricNMF(4, loss=loss, random_state=0).fit_transform(A)
            assert codes.shape == (n, 4) and np.isfinite(codes).all()


# --- the Frobenius loss -----------------------------------------------------------------------------------------------


def naive_frobenius(A, H, c):
    weights = np.outer(c, c) * (1 - np.eye(len(A)))
    return (weights * (A - H.T @ H) ** 2).sum() / 2


@pytest.mark.parametrize("weighted", [False, True])
def test_frobenius_never_rises_and_ends_at_a_stationary_point(weighted, rng):
    A, truth = affinity(rng, wrong=0.05)
    c = rng.random(len(A)) + 0.5 if weighted else np.ones(len(A))
    model = SymmetricNMF(3, loss="frobenius", n_init=3, tol=1e-12, max_iter=2000, random_state=0)
    model.fit(A, sample_weight=c)
    history = model.objective_history_
    assert (np.diff(history) <= 1e-9 * history[0]).all() and history[-1] < history[0]
    assert model.reconstruction_err_ == pytest.approx(naive_frobenius(A, model.components_, c))
    assert model.optimality_ < 1e-4
    assert agree(model.components_.argmax(axis=0), truth) == 1
    shape = model.components_.shape
    D = np.outer(c, c) * (1 - np.eye(len(A)))

    def value(h):
        E = h.reshape(shape).T @ h.reshape(shape) - A
        return (D * E**2).sum() / 2, (2 * h.reshape(shape) @ (D * E)).ravel()

    start = model.components_.ravel()
    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start))
    assert found.fun > (1 - 1e-6) * model.reconstruction_err_


def test_an_exact_factorisation_is_found(rng):
    H = rng.gamma(0.5, size=(4, 60))
    model = SymmetricNMF(4, loss="frobenius", tol=0, max_iter=500, random_state=0).fit(H.T @ H)
    assert model.reconstruction_err_ < 1e-6 * ((H.T @ H) ** 2).sum()


def test_starts_that_are_far_too_large_are_scaled(rng):
    W = rng.gamma(0.3, size=(6, 90))
    A = W.T @ W + 0.02 * rng.random((90, 90))
    A = A + A.T
    c = rng.random(90) + 0.5
    start = spread_symmetric(A, c, 6, rng)
    scaled = start.copy()
    symmetric.scale_to_fit(A, scaled, c)
    factor = scaled.max() / start.max()
    np.testing.assert_allclose(scaled, factor * start)
    least = naive_frobenius(A, scaled, c)
    assert all(naive_frobenius(A, scale * scaled, c) > least for scale in (0.99, 1.01))
    fit = symmetric.fit_symmetric(A, scaled, c, max_iter=1, tol=0, loss="frobenius")
    assert fit.history[0] == pytest.approx(least)
    model = SymmetricNMF(6, loss="frobenius", n_init=1, max_iter=1, tol=0, random_state=0).fit(A)
    assert model.objective_history_[0] < (np.triu(A, 1) ** 2).sum()  # below that of the model 0


def test_optimality_tells_a_converged_fit_from_a_stopped_one(rng):
    A, _ = affinity(rng, wrong=0.05)
    for loss in ("manhattan", "frobenius"):
        first = symmetric.symmetric_optimality(A, rng.random((3, len(A))), np.ones(len(A)), loss=loss)
        model = SymmetricNMF(3, loss=loss, tol=1e-9, max_iter=1000, random_state=0).fit(A)
        assert model.optimality_ < 0.1 * first
        optimality = model.optimality_
        assert model.fit(64 * A).optimality_ == pytest.approx(optimality, rel=1e-6, abs=1e-7)
