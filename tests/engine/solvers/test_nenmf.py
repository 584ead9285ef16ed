"""NeNMF, and what penalties do to a factorisation."""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph

from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import fit
from visionnmf.engine.starts import STARTS

FROBENIUS = Loss("frobenius")
VIEWS = (np.arange(0, 10), np.arange(10, 16))


def make_problem(rng, *, shape=(20, 16), r=3, dtype=np.float64, penalty_W=None, penalty_H=None, loss=FROBENIUS):
    X = (rng.gamma(0.5, size=(shape[0], r)) @ rng.gamma(0.5, size=(r, shape[1]))).astype(dtype)
    X += (0.05 * X.mean() * rng.random(shape)).astype(dtype)
    return Problem(X, loss, penalty_W or Penalties(), penalty_H or Penalties())


def make_start(rng, problem, r):
    Wt, H = (rng.random((r, n)).astype(problem.X.dtype) for n in problem.X.shape)
    problem.penalty_W.feasible(Wt)
    problem.penalty_H.feasible(H)
    return Wt, H


def graph_of(n):
    chain = sp.diags_array(np.ones(n - 1), offsets=1, shape=(n, n))
    return sp.csr_array(chain + chain.T)


PENALTIES = {
    "none": (Penalties(), Penalties()),
    "box": (Penalties(low=0.1, high=0.8), Penalties(high=2.0)),
    "l1 l2": (Penalties(l1=0.2, l2=np.array([0.1, 0.2, 0.3])), Penalties(l2=0.1)),
    "graph": (Penalties(graph=graph_of(20)), Penalties(l2=0.1)),
    "simplex codes": (Penalties(simplex="columns"), Penalties()),
    "simplex components": (Penalties(l1=0.1), Penalties(simplex="rows")),
    "groups": (Penalties(l2=0.1), Penalties(groups=VIEWS, group_l1=0.3)),
    "ball": (Penalties(l2=0.1), Penalties(groups=VIEWS, group_norm=np.inf, group_bounds=(2.0, 1.0))),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_the_objective_never_rises_and_stopping_means_stationary(rng, name):
    penalty_W, penalty_H = PENALTIES[name]
    problem = make_problem(rng, penalty_W=penalty_W, penalty_H=penalty_H)
    Wt, H = make_start(rng, problem, 3)
    result = fit(problem, Wt, H, solver="nenmf", max_iter=300, tol=1e-3)
    assert result.converged
    history = np.array(result.history)
    assert (np.diff(history) <= 1e-9 * history[0]).all()
    assert history[-1] == pytest.approx(problem.objective(Wt, H), rel=1e-9)
    # a proximal gradient step of either factor does not lead anywhere
    for F, A, data, penalty in ((Wt, H, problem.X.T, penalty_W), (H, Wt, problem.X, penalty_H)):
        L = np.linalg.eigvalsh(A @ A.T)[-1] + penalty.lipschitz()
        moved = F - (A @ A.T @ F - A @ data + penalty.gradient(F)) / L
        penalty.prox(moved, 1 / L)
        assert np.linalg.norm(moved - F) < 2e-3 * np.linalg.norm(F)


@pytest.mark.parametrize("name", PENALTIES)
def test_nothing_but_zeros(rng, name):
    penalty_W, penalty_H = PENALTIES[name]
    problem = Problem(np.zeros((20, 16)), FROBENIUS, penalty_W, penalty_H)
    Wt, H = make_start(rng, problem, 3)
    fit(problem, Wt, H, solver="nenmf", max_iter=50, tol=1e-4)
    Wt[:], H[:] = 0, 0
    penalty_W.feasible(Wt)
    fit(problem, Wt, H, solver="nenmf", max_iter=5, tol=1e-4)
    assert np.isfinite(Wt).all() and np.isfinite(H).all()


# --- what the penalties are for ---------------------------------------------------------------------------------------


def test_simplex_codes_sum_to_one_and_unmix(rng):
    """Each sample is a mixture of three spectra: fractions are found, which scaling hides without the simplex."""
    fractions = rng.dirichlet(np.full(3, 0.3), 80).T
    spectra = rng.random((3, 30)) + np.kron(np.eye(3), np.ones(10))
    problem = Problem(fractions.T @ spectra, FROBENIUS, Penalties(simplex="columns"))
    Wt, H = make_start(rng, problem, 3)
    fit(problem, Wt, H, solver="nenmf", max_iter=60, tol=1e-4)
    np.testing.assert_allclose(Wt.sum(axis=0), 1, rtol=1e-12)
    assert min(np.abs(Wt[list(order)] - fractions).mean() for order in permutations(range(3))) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "solver"), [("frobenius", "nenmf"), ("manhattan", "admm"), ("manhattan", "ogm")])
def test_the_graph_makes_the_codes_of_neighbours_alike(rng, loss, solver):
    """Noisy samples on a curve: codes with the graph follow the curve more closely."""
    place = np.sort(rng.random(60))
    clean = np.array([np.exp(-((place[:, None] - centre) ** 2) / 0.05) for centre in (0.1, 0.5, 0.9)])[..., 0]
    X = np.maximum(clean.T @ rng.random((3, 15)) + 0.2 * rng.normal(size=(60, 15)), 0)
    graph = kneighbors_graph(place[:, None], 4)
    graph = sp.csr_array(graph.maximum(graph.T))
    roughness = {}
    for weight in (0.0, 10.0):
        penalty = Penalties(graph=weight * graph) if weight else Penalties()
        problem = Problem(X, Loss(loss), penalty, Penalties(simplex="rows"))
        Wt, H = make_start(rng, problem, 3)
        fit(problem, Wt, H, solver=solver, max_iter=40, tol=1e-4)
        scatter = Penalties(graph=graph).value(Wt)
        roughness[weight] = scatter / ((Wt - Wt.mean(axis=1, keepdims=True)) ** 2).sum()
    assert roughness[10.0] < 0.3 * roughness[0.0]


def two_views(rng, n, outliers):
    """Two components that both views share, two of each view alone; noise, and entries that are lost."""
    sizes = (24, 16)
    uses = np.array([[1, 1], [1, 1], [1, 0], [1, 0], [0, 1], [0, 1]])
    components = rng.gamma(0.5, size=(6, sum(sizes))) * np.repeat(uses, sizes, axis=1)
    components /= np.linalg.norm(components, axis=1, keepdims=True)
    X = (rng.gamma(1, size=(n, 6)) * (rng.random((n, 6)) < 0.5)) @ components
    X = np.maximum(X + 0.05 * X.mean() * rng.normal(size=X.shape), 0)
    X = np.where(rng.random(X.shape) < outliers, X.max() * rng.random(X.shape), X)
    return X / X.mean(), uses, (np.arange(0, 24), np.arange(24, 40))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "solver", "n", "outliers", "strength", "n_iter"),
    [
        ("frobenius", "hals", 100, 0.0, 5.0, 100),
        ("frobenius", "nenmf", 100, 0.0, 5.0, 25),
        ("manhattan", "admm", 800, 0.1, 65.0, 200),
        ("manhattan", "ogm", 800, 0.1, 65.0, 80),
    ],
)
def test_groups_tell_shared_from_private_components(rng, loss, solver, n, outliers, strength, n_iter):
    X, uses, views = two_views(rng, n, outliers)
    problem = Problem(X, Loss(loss), Penalties(l2=1.0), Penalties(groups=views, group_l1=strength))
    ends = []
    for seed in range(3):  # the problem is not convex: the lowest end of a few starts counts
        Wt, H = STARTS["random"](X, 6, np.random.RandomState(seed))
        ends.append((fit(problem, Wt, H, solver=solver, max_iter=n_iter, tol=1e-5).history[-1], H))
    H = min(ends, key=lambda end: end[0])[1]
    found = np.array([[H[k, view].any() for view in views] for k in range(6)], int)
    assert sorted(found.tolist()) == sorted(uses.tolist())
