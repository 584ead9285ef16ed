"""Sparse least squares: components found on samples, merging, what is taken back."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import NONNEGATIVE, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import sparse_hals

FROBENIUS = Loss("frobenius")


def topics(rng, shape=(1200, 200), rank=4, words=20, dtype=np.float64):
    """Return word counts of documents about one topic, or two."""
    distributions = rng.dirichlet(np.full(shape[1], 0.05), rank)
    shares = rng.dirichlet(np.full(rank, 0.1), shape[0])
    X = np.stack([rng.multinomial(words, share @ distributions) for share in shares])
    return sp.csr_array(X.astype(dtype))


def start(rng, X, r=4):
    return tuple((np.sqrt(X.mean() / r) * np.abs(rng.standard_normal((r, n)))).astype(X.dtype) for n in X.shape)


def fitted(problem, Wt, H, iterations):
    Wt, H = Wt.copy(), H.copy()
    steps = list(sparse_hals.iterate(problem, Wt, H, max_iter=iterations))
    return Wt, H, [step.objective for step in steps] + [problem.objective(Wt, H)]


def second_singular_value(W, H, k, other):
    return np.linalg.svd(W[:, [k, other]] @ H[[k, other]], compute_uv=False)[1]


# --- merging ---------------------------------------------------------------------------------------------------------


def test_the_pair_nearest_to_rank_one_becomes_its_best_rank_one_approximation(rng):
    for _ in range(20):
        W, H = rng.gamma(0.5, size=(7, 5)), rng.gamma(0.5, size=(5, 9))
        sums = sparse_hals._merging(W.T @ W, H @ H.T, 4)
        k, other = min(combinations(range(5), 2), key=lambda pair: second_singular_value(W, H, *pair))
        best = np.linalg.svd(W[:, [k, other]] @ H[[k, other]])[2][0]
        merged = (H.T @ sums)[:, k]
        np.testing.assert_allclose(merged / np.linalg.norm(merged), np.abs(best), atol=1e-10)
        rest = [i for i in range(5) if i not in (k, other)]
        np.testing.assert_array_equal(np.delete(sums, k, axis=1), np.eye(5)[:, rest])
        assert sums.min() >= 0


def test_merging_goes_on_with_the_merged_pair(rng):
    W, H = rng.random((9, 3)), np.eye(3, 8)  # components without overlap
    copies, noise = [0, 1, 2, 0, 1, 2], 1 + 1e-3 * rng.random((9, 6))
    many, again = W[:, copies] * noise, H[copies]
    sums = sparse_hals._merging(many.T @ many, again @ again.T, 3)
    found = again.T @ sums
    assert ((found > 0).sum(axis=0) == 1).all() and (found.sum(axis=1)[:3] > 0).all()


@pytest.mark.parametrize("case", ["zero", "equal", "apart"])
def test_merging_of_components_that_are_zero_equal_or_apart(case):
    W = H = np.eye(4)[:2] * [[1.0], [2.0]]
    if case == "zero":
        H = np.zeros((2, 4))
    if case == "equal":
        W = H = np.ones((2, 4))
    sums = sparse_hals._merging(W @ W.T, H @ H.T, 1)
    assert np.isfinite(sums).all() and sums.min() >= 0 and sums.max() == 1
    if case == "apart":
        np.testing.assert_array_equal(sums, [[0], [1]])  # the larger one is kept


# --- the start from samples ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_topics_do_not_end_in_one_component(monkeypatch, rng):
    X = topics(rng, (3000, 400), 12)
    problem = Problem(X, FROBENIUS)
    starts = [start(np.random.default_rng(seed), X, 12) for seed in range(12)]
    ends = np.array([fitted(problem, *factors, 12)[2][-1] for factors in starts])
    monkeypatch.setattr(sparse_hals, "SAMPLE", 1)  # without samples
    plain = np.array([fitted(problem, *factors, 24)[2][-1] for factors in starts])
    best = min(ends.min(), plain.min())
    assert (ends <= 1.001 * best).sum() >= 7
    assert (ends - best).sum() < 0.6 * (plain - best).sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-10, 1, 1e10])
def test_the_objective_never_rises_whatever_the_scale(dtype, scale, rng):
    X = topics(rng, dtype=dtype)
    Wt, H = start(rng, X)
    expected = np.array(fitted(Problem(X, FROBENIUS), Wt, H, 5)[2])
    root = dtype(np.sqrt(scale))
    W_end, H_end, history = fitted(Problem(X * dtype(scale), FROBENIUS), Wt * root, H * root, 5)
    assert W_end.dtype == H_end.dtype == dtype and W_end.min() >= 0 and H_end.min() >= 0
    assert all(after <= before * (1 + 1e-6) for before, after in pairwise(history))
    np.testing.assert_allclose(np.array(history) / float(scale) ** 2, expected, rtol=1e-3)


def test_a_good_start_is_kept(rng):
    X = topics(rng)
    problem = Problem(X, FROBENIUS)
    Wt, H, _ = fitted(problem, *start(rng, X), 200)
    assert sparse_hals._components_of_samples(problem, Wt, H) is not None
    again = fitted(problem, Wt, H, 1)
    np.testing.assert_array_equal(again[0], Wt)
    np.testing.assert_array_equal(again[1], H)
    assert fitted(problem, Wt, H, 3)[2][-1] <= problem.objective(Wt, H)


def test_no_iteration_changes_nothing(rng):
    X = topics(rng)
    Wt, H = start(rng, X)
    W_end, H_end, _ = fitted(Problem(X, FROBENIUS), Wt, H, 0)
    assert (W_end == Wt).all() and (H_end == H).all()


def test_penalties_count_on_samples_for_their_share(rng):
    X = topics(rng)
    most = float(X.sum(axis=0).max())
    strong = Problem(
        X, FROBENIUS, Penalties(high=1.0), Penalties(l1=most / 4)
    )  # more than a sixth of the rows can bear
    Wt, H = (np.minimum(F, 1.0) for F in start(rng, X))
    assert sparse_hals._components_of_samples(strong, Wt, H).max() > 0


def test_penalties_and_boxes_are_kept_from_the_first_iteration(rng):
    X = topics(rng)
    penalised = Problem(X, FROBENIUS, Penalties(l1=0.3, high=2.0), Penalties(l1=2.0, l2=5.0, high=1.5))
    Wt, H = (np.minimum(F, 1.0) for F in start(rng, X))
    found = sparse_hals._components_of_samples(penalised, Wt, H)
    assert found.min() >= 0 and found.max() <= 1.5
    one = fitted(penalised, Wt, H, 60)
    other = fitted(replace(penalised, X=sp.csr_array(X[::-1])), Wt[:, ::-1].copy(), H, 60)
    assert one[0].max() <= 2.0 and one[1].max() <= 1.5
    assert one[2][-1] == pytest.approx(other[2][-1], rel=2e-3)


@pytest.mark.parametrize(
    ("shape", "rank", "penalty"),
    [((300, 200), 4, NONNEGATIVE), ((1200, 200), 1, NONNEGATIVE), ((1200, 200), 4, Penalties(l1=np.arange(4.0)))],
    ids=["few rows", "one component", "components of their own"],
)
def test_where_samples_would_not_do_the_start_is_the_given_one(shape, rank, penalty, rng):
    X = topics(rng, shape)
    Wt, H = start(rng, X, rank)
    assert sparse_hals._components_of_samples(Problem(X, FROBENIUS, penalty_H=penalty), Wt, H) is None
