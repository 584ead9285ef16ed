"""The stopping rule on histories that are known, and the promise that it makes for fits."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import loss_of
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, ProjectiveNMF, SymmetricNMF
from visionnmf.engine.losses import LOSSES, Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import fit
from visionnmf.engine.stopping import EXACT, Stopping, exact_objective, warn_not_converged


def stop(history, tol, **more):
    """Return after how many iterations the rule stops, and the rule."""
    rule = Stopping(tol, **more)
    for t, value in enumerate(history):
        if rule.add(value):
            return t, rule
    return None, rule


STEPS = np.arange(20000)


@pytest.mark.parametrize("rest", [1 / (1 + STEPS), 1 / (1 + STEPS) ** 2, 30 * 0.99**STEPS, 100 * 0.5**STEPS])
@pytest.mark.parametrize("tol", [1e-2, 1e-3])
def test_the_rest_of_a_history_is_foretold(rest, tol):
    history = 1 + rest
    t, rule = stop(history, tol)
    assert rule.converged and rule.change < tol
    assert history[t] - history[2 * t] < 1.5 * tol
    assert t < 40 or history[t // 3] - history[-1] > 0.3 * tol  # nor does it go on for long


def test_a_scale_changes_nothing_an_exact_fit_stops_and_a_saddle_point_or_a_tolerance_of_0_does_not():
    history = 1 + 30 * 0.97**STEPS
    assert stop(history, 1e-3)[0] == stop(1e-20 * history, 1e-3)[0]
    history = np.concatenate([2 - 1e-8 * 1.1 ** np.arange(190), np.full(500, 1.2)])
    assert stop(history, 1e-3)[0] > 190
    history = 0.5 ** STEPS[:200]
    assert history[stop(history, 1e-3, exact=1e-12)[0]] <= 1e-12
    assert stop(history, 0.0)[0] is None
    assert stop([1.0, 0.5, 0.0], 0.0)[0] == 2


def test_a_plateau_is_left_if_the_factors_are_not_stationary():
    plateau = 1 + 0.8 ** np.arange(100)  # the rule holds after some 30 iterations
    history = np.concatenate([plateau[:50], plateau[50] - np.linspace(0.001, 0.3, 150), np.full(600, 0.7)])
    early, late = stop(history, 1e-3, optimality=lambda: 1e-4)[0], stop(history, 1e-3, optimality=lambda: 1e-2)[0]
    assert early == stop(history, 1e-3)[0] < 50 and late > 200
    settled = stop(plateau, 1e-3, optimality=lambda: 1e-2)
    assert settled == (2 * early, settled[1]) and settled[1].converged  # the rule has held all the while


def test_a_fit_that_is_behind_another_does_not_wait_for_the_end_of_a_plateau(rng):
    problem = Problem(rng.poisson(3, (40, 30)).astype(float), Loss("kullback-leibler"))
    start = rng.random((4, 40)), rng.random((4, 30))

    def fitted(rival):
        return fit(problem, *(F.copy() for F in start), solver="mu", max_iter=2000, tol=1e-3, rival=rival)

    patient, ahead, behind = (fitted(rival) for rival in (np.inf, 1e9, 0.0))
    assert patient == ahead and patient.n_iter == 2 * behind.n_iter - 1
    assert patient.history[: behind.n_iter] == behind.history[:-1]


def test_a_path_is_judged_by_its_residual():
    rule = Stopping(1e-3)
    assert not any(rule.add(1.0, 1e-2) for _ in range(50))
    assert rule.add(1.0, 5e-5)


@pytest.mark.parametrize("name", [name for name, record in LOSSES.items() if record.is_named])
@pytest.mark.parametrize("kind", ["dense", "weights", "sparse"])
def test_an_exact_objective_is_that_of_small_residuals(name, kind, rng):
    X = rng.random((20, 30)) + 0.1
    loss = loss_of(name)
    weights = rng.random(X.shape) if kind == "weights" else None
    if kind == "sparse" and loss.record.sparse is None:
        return
    problem = Problem(sp.csr_array(X) if kind == "sparse" else X, loss, weights=weights)
    # the model of identity codes and components that are a thousandth off: the loss falls with its square, or itself
    off = Problem(X, loss, weights=weights).loss_value(np.eye(20), 1.001 * X)
    power = 2 if off < 0.03 * X.sum() * 1e-3 else 1
    assert exact_objective(problem) == pytest.approx(off * (EXACT / 1e-3) ** power, rel=0.02)


# --- the promise ------------------------------------------------------------------------------------------------------


def bumps(shape=(2000, 156), rank=6, noise=0.002, seed=0):
    rng = np.random.default_rng(seed)
    centres, widths = rng.random(rank), rng.uniform(0.05, 0.15, rank)
    H = np.exp(-(((np.linspace(0, 1, shape[1]) - centres[:, None]) / widths[:, None]) ** 2) / 2) + 0.5
    clean = rng.dirichlet(np.full(rank, 0.5), shape[0]) @ H
    return np.maximum(clean + noise * rng.standard_normal(shape), 1e-9), clean


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        *("frobenius", "kullback-leibler", "itakura-saito"),
        *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("manhattan", "huber", "l21")),
    ],
)
def test_data_with_little_noise_are_fitted_down_to_the_noise(loss):
    X, clean = bumps()
    model = NMF(6, loss=loss, random_state=0).fit(X)  # a warning would fail the test
    residual = X - model.transform(X) @ model.components_
    assert (residual**2).sum() <= 0.992 * ((X - clean) ** 2).sum()
    assert model.n_iter_ < 400


def test_a_fit_by_a_divergence_leaves_a_flat_plateau():
    rng = np.random.default_rng(20)
    clean = rng.gamma(1, size=(120, 20)) @ rng.gamma(1, size=(20, 60))
    X = np.maximum(clean + 0.5 * clean.mean() * rng.standard_normal(clean.shape), 1e-3 * clean.mean())
    model = NMF(20, loss="itakura-saito", random_state=0).fit(X)
    # it hardly moves from iteration 75 to 105, at an objective 2.4 % higher; 4,000 iterations end at 1363.2
    assert 75 < model.n_iter_ < model.max_iter and model.objective_history_[-1] < 1.01 * 1363.2


PAIRWISE = [  # each loss with each noise and each rank, each noise with each rank, all with both precisions
    (loss, noise, (1, 4, 15)[(i + j) % 3], (np.float64, np.float32)[(i + j) % 2])
    for i, loss in enumerate(["frobenius", "kullback-leibler", "itakura-saito", "manhattan", "huber", "elastic-net"])
    for j, noise in enumerate([0.001, 0.1, 0.5])
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("loss", "noise", "rank", "dtype"), PAIRWISE)
def test_ten_times_the_iterations_gain_at_most_one_per_cent(loss, noise, rank, dtype, rng):
    clean = rng.gamma(1, size=(80, rank)) @ rng.gamma(1, size=(rank, 50))
    X = np.maximum(clean + noise * clean.mean() * rng.standard_normal(clean.shape), 1e-3).astype(dtype)
    model = NMF(rank, loss=loss, random_state=0).fit(X)
    if model.n_iter_ < model.max_iter:  # else the fit warns that it has not converged
        long = NMF(rank, loss=loss, random_state=0, tol=0, max_iter=10 * model.n_iter_).fit(X)
        assert model.objective_history_[-1] <= 1.01 * long.objective_history_[-1]


def test_what_is_not_finished_warns(rng):
    X, _ = bumps((60, 40))
    S = X.T @ X
    for model, data in (
        (NMF(6, loss="frobenius", max_iter=5), X),
        (NMF(6, loss="kullback-leibler", max_iter=5), X),
        (NMF(6, max_iter=5), X),
        (NMF(6, loss="huber", max_iter=5), X),
        (SymmetricNMF(4, max_iter=3), S),
        (ProjectiveNMF(4, max_iter=5), X),
    ):
        with pytest.warns(ConvergenceWarning, match=r"after \d+ iterations"):
            model.set_params(**({"random_state": 0})).fit(data)


def test_a_change_below_tol_is_not_told_as_a_prediction():
    """With too few iterations for the rule, the change is the decrease so far, which says nothing about the rest."""
    with pytest.warns(ConvergenceWarning, match="too few to predict"):
        warn_not_converged("NMF", SimpleNamespace(n_iter=8, change=0.0005), tol=0.1)
