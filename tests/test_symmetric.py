"""SymmetricNMF: certificates, invariances, truth."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from visionnmf import SymmetricNMF
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


def test_the_diagonal_and_weightless_nodes_say_nothing(rng):
    A, _ = affinity(rng)
    given = np.abs(rng.standard_normal((3, len(A))))
    fixed = SymmetricNMF(3, n_init=1, init=given)
    one = fixed.fit_transform(A)
    other = A.copy()
    np.fill_diagonal(other, 7.0)
    np.testing.assert_allclose(fixed.fit_transform(other), one)
    c = np.ones(len(A))
    c[-1] = 0
    smaller = SymmetricNMF(3, n_init=1, init=given[:, :-1]).fit_transform(A[:-1, :-1])
    np.testing.assert_allclose(fixed.fit_transform(A, sample_weight=c)[:-1], smaller, atol=1e-9)


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


def test_a_slightly_asymmetric_affinity_is_made_symmetric(rng):
    A, _ = affinity(rng)
    uneven = A.copy()
    uneven[0, 1] += 1e-5
    model = SymmetricNMF(3, random_state=0)
    expected = model.fit_transform((uneven + uneven.T) / 2)
    np.testing.assert_array_equal(model.fit_transform(uneven), expected)


def test_not_converging_is_a_warning(rng):
    A, _ = affinity(rng)
    with pytest.warns(ConvergenceWarning, match="SymmetricNMF stopped after 1 iterations"):
        SymmetricNMF(3, max_iter=1, random_state=0).fit(A)


def test_spread_starts_prefer_heavy_nodes_and_cover_all_groups(rng):
    A, truth = affinity(rng, wrong=0)
    start = spread_symmetric(A, np.ones(len(A)), 3, rng)
    assert sorted(truth[start.argmax(axis=1)]) == [0, 1, 2]
    heavy = np.where(truth == 1, 1.0, 0.0)
    assert truth[spread_symmetric(A, heavy, 1, rng)[0].argmax()] == 1


def test_scale_dtype_and_seed(rng):
    A, _ = affinity(rng)
    model = SymmetricNMF(3, random_state=3)
    codes = model.fit_transform(A)
    np.testing.assert_array_equal(model.fit_transform(A), codes)
    np.testing.assert_allclose(model.fit_transform(4 * A), 2 * codes, rtol=1e-9)
    assert model.fit_transform(A.astype(np.float32)).dtype == np.float32


def test_threads_do_not_change_the_result(rng, monkeypatch):
    A = rng.random((120, 120))
    A += A.T
    results = []
    for threads in ("1", "4"):
        monkeypatch.setenv("VISIONNMF_NUM_THREADS", threads)
        results.append(SymmetricNMF(3, n_init=4, max_iter=5, tol=0, random_state=0).fit(A).objectives_)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("matrix", "parameters", "weights", "sentence"),
    [
        (np.ones((3, 4)), {}, None, r"X must be a square affinity matrix; got shape \(3, 4\)"),
        (np.triu(np.ones((3, 3))), {}, None, "X must be symmetric; entries differ .* by up to 1"),
        (
            np.ones((3, 3)),
            {"init": "spectral"},
            None,
            "init must be 'k-means.*', 'random' or a non-negative array",
        ),
        (
            np.ones((3, 3)),
            {"init": -np.ones((2, 3))},
            None,
            "init must be 'k-means.*', 'random' or a non-negative array",
        ),
        (np.ones((3, 3)), {"n_init": 0}, None, "n_init must be a whole number >= 1; got 0"),
        (np.ones((3, 3)), {"loss": "frobenius"}, None, "loss must be one of"),
        (np.ones((3, 3)), {}, np.ones(2), "sample_weight must hold 3 finite numbers >= 0"),
        (np.ones((3, 3)), {}, np.zeros(3), "sample_weight must not be zero for all"),
    ],
)
def test_input_that_is_not_allowed(matrix, parameters, weights, sentence):
    with pytest.raises(ParameterError, match=sentence):
        SymmetricNMF(**{"n_components": 2, **parameters}).fit(matrix, sample_weight=weights)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_and_zero(n):
    for A in (np.zeros((n, n)), np.ones((n, n))):
        codes = SymmetricNMF(4, random_state=0).fit_transform(A)
        assert codes.shape == (n, 4) and np.isfinite(codes).all()
