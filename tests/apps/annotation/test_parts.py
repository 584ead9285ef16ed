"""Neighbours, greedy transfer, scores and TagProp against loops and cases done by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression

from visionnmf.apps.annotation.neighbours import (
    METRICS,
    QUERIES,
    SMOOTHING,
    distances_of,
    joint_distance,
    mutual_distances,
    nearest,
    nearest_and,
    transfer_greedy,
    transfer_joint,
)
from visionnmf.apps.annotation.word_probabilities import (
    RIDGE,
    _Likelihood,
    fit_regression,
    fit_sigmoids,
    learn_weights,
    share_of_words,
)
from visionnmf.apps.evaluate.annotate import score_words


@pytest.mark.parametrize(("n_rows", "n_queries", "k"), [(700, QUERIES + 3, 5), (3, 2, 9), (1, 1, 1)])
def test_nearest_is_brute_force(n_rows, n_queries, k, rng):
    rows, queries = rng.random((n_rows, 301), np.float32), rng.random((n_queries, 301), np.float32)
    which, distance = nearest(rows, queries, k)
    expected = cdist(queries, rows, "cityblock")
    order = np.argsort(expected, axis=1)[:, :k]
    np.testing.assert_array_equal(which, order)
    np.testing.assert_allclose(distance, np.take_along_axis(expected, order, 1), rtol=1e-5)
    np.testing.assert_allclose(distances_of(rows, queries, which), distance, rtol=1e-5)


def test_functions_of_distances_go_with_the_nearest(rng):
    rows, queries, some = rng.random((90, 7), np.float32), rng.random((QUERIES + 5, 7), np.float32), np.array([3, 80])
    which, distance, values = nearest_and(rows, queries, 4, some, lambda D: 2 * D)
    np.testing.assert_array_equal(which, nearest(rows, queries, 4)[0])
    np.testing.assert_array_equal(distance, nearest(rows, queries, 4)[1])
    np.testing.assert_allclose(values, 2 * cdist(queries, rows[some], "cityblock"), rtol=1e-5)
    np.testing.assert_allclose(mutual_distances(rows), cdist(rows, rows, "cityblock"), rtol=1e-5, atol=1e-5)


def test_metrics_are_their_formulas_and_are_added(rng):
    rows, queries = (rng.random((n, 11), np.float32) * (rng.random((n, 11)) < 0.7) for n in (9, 5))
    rows[0] = 0  # a feature that found nothing
    raised_rows, raised = (X + SMOOTHING * X.mean(axis=1, keepdims=True) + 1e-30 for X in (rows, queries))
    formulas = {
        "manhattan": lambda q, r: np.abs(q - r).sum(),
        "euclidean": lambda q, r: np.sqrt(((q - r) ** 2).sum()),
        "chi-squared": lambda q, r: ((q - r) ** 2 / np.maximum(q + r, 1e-30)).sum(),
        "kullback-leibler": lambda q, r: (q * np.log(q / r) - q + r).sum(),
    }
    assert formulas.keys() == METRICS.keys()
    for name, formula in formulas.items():
        Q, R = (raised, raised_rows) if name == "kullback-leibler" else (queries, rows)
        expected = [[formula(q, r) for r in R] for q in Q]
        np.testing.assert_allclose(METRICS[name](rows, queries), expected, rtol=1e-4, atol=1e-4)
        tripled = METRICS[name](3 * rows[1:], 3 * queries)  # without the row of zeros, from which KL is infinite
        np.testing.assert_allclose(tripled, 3 * np.array(expected)[:, 1:], rtol=1e-4, atol=1e-4)
    parts = [(slice(0, 4), "euclidean"), (slice(4, 11), "chi-squared")]
    expected = METRICS["euclidean"](rows[:, :4], queries[:, :4]) + METRICS["chi-squared"](rows[:, 4:], queries[:, 4:])
    np.testing.assert_allclose(joint_distance(parts)(rows, queries), expected, rtol=1e-6)


def test_regression_is_kernel_ridge_and_leaves_each_out_in_turn(rng):
    A, rows = rng.random((40, 5)), np.arange(40)[::-1]
    Y, D = (rng.random((40, 3)) < 0.3).astype(np.float32), cdist(A, A, "cityblock")
    found, left_out = fit_regression(D.astype(np.float32), Y, rows)
    assert found.rows.tolist() == rows.tolist()
    width = float(found.width[0])
    expected = KernelRidge(alpha=RIDGE, kernel="laplacian", gamma=1 / width).fit(A, Y - Y.mean(0)).predict(A) + Y.mean(
        0
    )
    np.testing.assert_allclose(found.predict(D.astype(np.float32)), expected, atol=1e-4)
    for i in range(0, 40, 7):
        others = np.delete(np.arange(40), i)
        model = KernelRidge(alpha=RIDGE, kernel="laplacian", gamma=1 / width).fit(A[others], Y[others] - Y.mean(0))
        np.testing.assert_allclose(left_out[i], model.predict(A[[i]])[0] + Y.mean(0), atol=1e-4)


def test_of_equal_distance_the_first_row_comes_first():
    which, distance = nearest(np.zeros((40, 2), np.float32), np.zeros((1, 2), np.float32), 3)
    assert which.tolist() == [[0, 1, 2]] and not distance.any()
    assert nearest(np.zeros((4, 2), np.float32), np.zeros((0, 2), np.float32), 3)[0].shape == (0, 3)


def given(scores, n):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return order.tolist()


def test_words_are_handed_on_as_in_makadia_or_one_neighbour_after_the_other():
    """Words 0 to 4 have 4, 3, 2, 2, 1 images; the nearest has 1 and 4."""
    Y = np.array([[0, 1, 0, 0, 1], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 1, 0, 0, 0], [1, 0, 0, 1, 0]], bool)
    neighbours = np.array([[0, 1, 2]])
    # the nearest's by frequency: 1, 4; of the others 0 (2 of them, twice with 1: 4), 2 (2, once: 2), 3 (1, never: 0)
    assert given(transfer_joint(neighbours, Y, 4), 4) == [[1, 4, 0, 2]]
    assert given(transfer_joint(neighbours, Y, 1), 1) == [[1]]
    assert given(transfer_joint(neighbours[:, :1], Y, 4), 4) == [[1, 4, 0, 2]]  # the most frequent, where none is left
    Y = np.array([[0, 1, 0, 0, 1], [0, 0, 0, 1, 0], [1, 0, 1, 1, 0], [1, 1, 0, 0, 0], [1, 0, 0, 1, 0]], bool)
    assert given(transfer_greedy(np.array([[0, 1, 2]]), Y, 5), 5) == [[1, 4, 3, 0, 2]]
    assert given(transfer_greedy(np.array([[1, 0]]), Y, 2), 2) == [[3, 1]]
    # an image without words hands on the others
    Y = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0]], bool)
    assert given(transfer_joint(np.array([[0, 1]]), Y, 3), 3) == [[1, 0, 2]]
    assert given(transfer_greedy(np.array([[0, 1]]), Y, 3), 3) == [[1, 0, 2]]


def test_scores_by_hand():
    truth = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]], bool)
    got = np.array([[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 0, 0]], bool)
    found = score_words(truth, got, np.array([[3.0, 1, 0, 0], [2, 3, 0, 0], [1, 2, 5, 0]]))
    assert found.accuracy == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    assert found.recall == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert found.normalized == pytest.approx(((1 / 2 - 1 / 2) + (1 - 1 / 3) + (0 - 2 / 3)) / 3)
    assert found.word_precision == pytest.approx((2 / 3 + 0 + 0) / 3)
    assert found.word_recall == pytest.approx((1 + 0 + 0) / 3)
    assert found.f1 == pytest.approx(2 * (2 / 9) * (1 / 3) / (2 / 9 + 1 / 3))
    assert (found.n_plus, found.n_words) == (1, 3)
    assert found.mean_average_precision == pytest.approx((1 + 1 / 3 + 1) / 3)


def test_scores_of_nothing():
    found = score_words(np.zeros((2, 3), bool), np.ones((2, 3), bool))
    assert (found.f1, found.n_plus, found.n_words, found.recall) == (0, 0, 0, 0)


@pytest.fixture
def neighbourhood(rng):
    n, k, words = 30, 6, 5
    Y = sp.csr_array((rng.random((n, words)) < 0.4).astype(np.float32))
    which = np.array([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    return rng.random((n, k, 3), np.float32), which, Y


def test_shares_of_words_by_loops(neighbourhood):
    D, which, Y = neighbourhood
    weights, shares = share_of_words(D[..., 0], which, Y)
    dense = Y.toarray()
    for i in range(len(D)):
        p = np.exp(-D[i, :, 0])
        p /= p.sum()
        np.testing.assert_allclose(weights[i], p, rtol=1e-5)
        np.testing.assert_allclose(shares[i], sum(p[j] * dense[which[i, j]] for j in range(6)), rtol=1e-5)


def test_the_likelihoods_gradient_is_that_of_differences(neighbourhood):
    D, which, Y = neighbourhood
    objective = _Likelihood(D.astype(float), which, Y, np.arange(len(D)))
    w = np.array([1.0, 0.5, 2.0])
    slopes = approx_fprime(w, lambda v: objective(v)[0], 1e-3)
    np.testing.assert_allclose(objective(w)[1], slopes, rtol=0.02, atol=1e-4)


def test_the_distance_that_tells_words_apart_gets_the_weight(rng):
    n, k = 60, 20
    Y = sp.csr_array(np.eye(3, dtype=np.float32)[np.arange(n) % 3])
    which = np.array([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    differs = (which % 3 != np.arange(n)[:, None] % 3).astype(np.float32)
    D = np.stack([rng.random((n, k), np.float32), differs], axis=2)
    w = learn_weights(D, which, Y, np.arange(n), np.ones(2))
    assert w[1] > 3 and w[1] > 5 * w[0]


def test_sigmoids_of_two_terms_are_logistic_regressions_too(rng):
    terms = rng.random((2, 20_000, 2))
    truth = rng.random((20_000, 2)) < 1 / (1 + np.exp(-(4 * terms[0] + [2, 1] * terms[1] - 4)))
    found = fit_sigmoids(terms, truth, truth.mean(0))
    for j in range(2):
        expected = LogisticRegression(C=1e6).fit(terms[:, :, j].T, truth[:, j])
        np.testing.assert_allclose(found.slope[:, j], expected.coef_[0], rtol=0.02)
        assert found.offset[j] == pytest.approx(expected.intercept_[0], rel=0.02)


def test_a_word_that_nobody_has_is_unlikely_not_impossible(rng):
    shares = np.c_[rng.random(200), np.zeros(200)]
    truth = np.c_[rng.random(200) < shares[:, 0], np.zeros(200, bool)]
    logits = fit_sigmoids([np.sqrt(shares)], truth, np.array([0.5, 0.002])).logits([np.sqrt([[0.5, 0.0]])])
    assert np.isfinite(logits).all() and logits[0, 1] < -3
