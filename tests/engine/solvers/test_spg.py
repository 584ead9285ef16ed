"""Divergences with penalties that coordinate descent does not take: spectral proximal gradient."""

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import given, is_minimised_by, losses_where

from visionnmf import NMF, Penalty
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import spg
from visionnmf.engine.solving import SOLVERS, solve_codes

KL, IS, ROOT, CUBIC = Loss("kullback-leibler"), Loss("itakura-saito"), Loss("beta", 0.5), Loss("beta", 3.0)
LOSSES = losses_where(is_minimised_by("spg"), betas=(0.5, 1.5, 3.0))
M, N, R = 30, 24, 4


@pytest.fixture
def X(rng):
    return rng.gamma(0.5, 1, (M, R)) @ rng.gamma(0.5, 1, (R, N)) * rng.gamma(10, 0.1, (M, N)) + 0.01


@pytest.mark.parametrize("loss", LOSSES, ids=given)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("weights_of_codes", [(0.0, 0.0), (np.array([0.0, 3.0, 1.0, 0.0]), 0.5)])
def test_codes_on_the_simplex_are_optimal(loss, weighted, weights_of_codes, X, rng):
    H = rng.gamma(0.5, 1, (R, N)) + 1e-3
    M_ = rng.uniform(0.5, 2, X.shape) * (rng.random(X.shape) < 0.8) if weighted else None
    data = X if M_ is None else X * (M_ > 0)
    l1, l2 = weights_of_codes
    penalty = Penalties(l1=l1, l2=l2, simplex="columns")
    Wt = solve_codes(Problem(data, loss, penalty, weights=M_), H)
    np.testing.assert_allclose(Wt.sum(axis=0), 1, rtol=1e-12)
    for i in range(0, M, 6):
        row = Problem(data[i : i + 1], loss, Penalties(l1=l1, l2=l2), weights=None if M_ is None else M_[i : i + 1])

        def value(w, row=row):
            return row.objective(np.ascontiguousarray(np.maximum(w, 0)[:, None]), H)

        best = naive.least_on_simplex(value, np.full(R, 1 / R), Wt[:, i])
        assert value(Wt[:, i]) <= best + 1e-6 * abs(best)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.beta >= 1], ids=given)
def test_codes_of_components_that_are_nearly_alike(loss, rng):
    """Overlapping bumps: only what is convex, as the others have several minima."""
    place = np.arange(N)
    H = np.exp(-0.5 * ((place - np.linspace(0, N, 8)[:, None]) / 5) ** 2) + 1e-3
    X = rng.dirichlet(np.full(8, 0.3), 10) @ H * rng.gamma(50, 0.02, (10, N))
    Wt = solve_codes(Problem(X, loss, Penalties(simplex="columns")), H)
    for i in range(10):
        row = Problem(X[i : i + 1], loss)

        def value(w, row=row):
            return row.objective(np.ascontiguousarray(np.maximum(w, 0)[:, None]), H)

        best = naive.least_on_simplex(value, Wt[:, i])
        assert value(Wt[:, i]) <= best * (1 + 1e-3) + 1e-9


def test_codes_of_sparse_counts(rng):
    X = rng.poisson(0.7, (M, N)).astype(float)
    H = rng.gamma(1, 1, (R, N))
    penalty, loss = Penalties(simplex="columns"), Loss("kullback-leibler")
    dense, stored = (solve_codes(Problem(data, loss, penalty), H) for data in (X, sp.csr_array(X)))
    np.testing.assert_array_equal(dense, stored)


PENALTIES = {
    "simplex of codes": (Penalty(simplex=True), None),
    "simplex of components": (None, Penalty(simplex=True)),
    "groups": (Penalty(l2=0.01), Penalty(groups=[slice(0, 12), slice(12, 24)], group_l1=0.1)),
    "graph and bounds": (Penalty(graph="knn", graph_weight=0.1, high=3.0), Penalty(l1=0.1, l2=0.1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=given)
@pytest.mark.parametrize("kind", PENALTIES)
def test_fits_fall_and_converge(loss, kind, X):
    penalty_W, penalty_H = PENALTIES[kind]
    model = NMF(
        R, loss=given(loss), penalty_W=penalty_W, penalty_H=penalty_H, solver="spg", random_state=0, max_iter=100, tol=0
    ).fit(X)
    history = model.objective_history_[:-1]
    assert (np.diff(history) <= 1e-9 * history[0]).all()
    if loss.parameter != 3:  # convex in the codes, or nearly: they are not worse when solved for again
        assert model.objective_history_[-1] <= history[-1] * (1 + 1e-6)
    assert model.optimality_ < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.beta <= 2], ids=given)
def test_its_own_steps_do_the_work(loss, X, monkeypatch):
    """Without the start by coordinate descent; the end is that of multiplicative updates that run long."""
    monkeypatch.setattr(spg, "_start_by_coordinate_descent", lambda *_: None)
    graph = Penalty(graph="knn", graph_weight=0.1, l2=0.1)
    settings = {"loss": given(loss), "penalty_W": graph, "penalty_H": Penalty(l2=0.1), "random_state": 0, "tol": 0}
    ends = [
        NMF(R, solver=solver, max_iter=steps, **settings).fit(X).objective_history_[-2]
        for solver, steps in (("spg", 200), ("mu", 1500))
    ]
    assert ends[0] <= 1.03 * ends[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("simplex of codes", KL),
        ("simplex of codes", Loss("beta", 1.5)),
        ("simplex of components", IS),
        ("simplex of components", CUBIC),
        ("groups", ROOT),
        ("groups", CUBIC),
        ("graph and bounds", KL),
        ("graph and bounds", ROOT),
    ],
    ids=lambda value: given(value) if isinstance(value, Loss) else value,
)
def test_a_default_fit_has_converged(loss, kind, X):
    penalty_W, penalty_H = PENALTIES[kind]
    settings = {"loss": given(loss), "penalty_W": penalty_W, "penalty_H": penalty_H, "random_state": 0}
    model = NMF(R, solver="spg", max_iter=1000, **settings).fit(X)
    longer = NMF(R, solver="spg", max_iter=2 * model.n_iter_, tol=0, **settings).fit(X)
    assert model.objective_history_[-2] <= 1.05 * longer.objective_history_[-2]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-2, 1e-6])
def test_one_dim_sample_does_not_hold_the_others_back(size, X):
    X[3] *= size
    penalty = Penalty(graph="knn", graph_weight=0.5)
    settings = {"loss": "kullback-leibler", "penalty_W": penalty, "penalty_H": Penalty(l2=0.1), "random_state": 0}
    ends = [
        NMF(R, solver=solver, max_iter=steps, tol=0, **settings).fit(X).objective_history_[-2]
        for solver, steps in (("spg", 200), ("mu", 2000))
    ]
    assert ends[0] <= 1.02 * ends[1]


def test_a_point_that_starts_at_zero_moves(X, monkeypatch):
    monkeypatch.setattr(spg, "_start_by_coordinate_descent", lambda *_: None)
    Wt, H = np.full((R, M), 0.3), np.random.default_rng(0).random((R, N))
    Wt[:, 5] = 0
    for _ in SOLVERS["spg"].iterate(Problem(X, Loss("kullback-leibler")), Wt, H, max_iter=20):
        pass
    assert Wt[:, 5].any()


@pytest.mark.filterwarnings("ignore:NMF found codes 0")  # as it should
def test_all_may_vanish_where_the_divergence_allows_it(X):
    penalty = Penalty(groups=[slice(0, 12), slice(12, 24)], group_l1=1000.0)
    model = NMF(R, loss=2.5, penalty_W=Penalty(l2=0.1), penalty_H=penalty, random_state=0, max_iter=100, tol=0).fit(X)
    nothing = Problem(X, Loss("beta", 2.5)).loss_value(np.zeros((R, M)), np.zeros((R, N)))
    assert model.objective_history_[-2] <= nothing * (1 + 1e-6)


def test_low_powers_in_single_precision(X):
    penalty = Penalty(groups=[slice(0, 12), slice(12, 24)], group_l1=0.1)
    model = NMF(R, loss=-2.0, penalty_W=Penalty(l2=0.01), penalty_H=penalty, random_state=0, max_iter=20, tol=0)
    assert np.isfinite(model.fit(X.astype(np.float32)).components_).all()


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=given)
def test_without_penalties_it_ends_where_coordinate_descent_does(loss, X):
    ends = [
        NMF(R, loss=given(loss), solver=solver, random_state=0, max_iter=200, tol=0).fit(X).reconstruction_err_
        for solver in ("spg", "sbcd")
    ]
    assert ends[0] <= 1.02 * ends[1]


def test_a_start_that_explains_nothing_of_some_entries(X):
    """Where model and gradient are as good as infinite, it goes on all the same."""
    H = np.ones((R, N))
    H[:, :5] = 0
    H[0, 5:9] = 0
    for name in ("kullback-leibler", "itakura-saito"):
        problem = Problem(X, Loss(name), Penalties(simplex="columns"), Penalties(l2=0.01))
        Wt = np.full((R, M), 1 / R)
        Wt[0], components = 1 - Wt[1:].sum(axis=0), H.copy()
        before = problem.objective(Wt, components)
        for _ in SOLVERS["spg"].iterate(problem, Wt, components, max_iter=30):
            pass
        assert problem.objective(Wt, components) < 0.5 * before
        assert np.isfinite(Wt).all() and np.isfinite(components).all()
