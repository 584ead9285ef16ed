"""A loss is added by one record and fitted; when it is gone nothing is left of it."""

import numpy as np
import pytest
from loss_checks import CHECKS, values

from visionnmf import NMF
from visionnmf.engine.losses import LOSSES, Loss, Parameter, Proximal, Record
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers import SOLVERS
from visionnmf.exceptions import ParameterError


def pseudo_huber_rows(X, P, M, delta, start, stop, out):
    E = X[start:stop] - P
    entries = 1.0 if M is None else M[start:stop]
    out[start:stop] = (entries * delta**2 * (np.sqrt(1 + (E / delta) ** 2) - 1)).sum(axis=1)


def pseudo_huber_derivative(X, P, M, delta, tiny):
    E = P - X
    return M * E / np.sqrt(1 + (E / delta) ** 2), M * X / np.sqrt(1 + (X / delta) ** 2)


def pseudo_huber_pass(X, P, U, M, delta, bounds, decay, start, stop, losses, residuals):
    rows = slice(start, stop)
    pseudo_huber_rows(X, P, M, delta, start, stop, losses)
    old = decay * U[rows]
    a = X[rows] - P + old
    b = np.ones_like(a) * bounds[rows, None] if M is None else M[rows] * bounds[rows, None]
    low, high = np.minimum(a, 0), np.maximum(a, 0)
    for _ in range(35):  # S + b S / sqrt(1 + (S / delta)^2) rises: bisection
        S = (low + high) / 2
        below = S + b * S / np.sqrt(1 + (S / delta) ** 2) < a
        low, high = np.where(below, S, low), np.where(below, high, S)
    new = a - (low + high) / 2
    residuals[rows] = np.abs(new - old).sum(axis=1)
    P += 2 * new - old
    U[rows] = new


PSEUDO_HUBER = Record(
    name="pseudo-huber",
    formula="delta^2 (sqrt(1 + ((x - p) / delta)^2) - 1)",
    noise="Gaussian noise and outlying entries, with derivatives of any order",
    parameter=Parameter("delta", default=lambda mean: mean / 10, positive=True),
    degree=None,
    beta=None,
    kink=0.0,
    rows=pseudo_huber_rows,
    derivative=pseudo_huber_derivative,
    proximal=Proximal(
        pseudo_huber_pass, valued=True, slope=lambda size, n, delta: size / np.sqrt(1 + (size / delta) ** 2)
    ),
    sparse=None,
    codes="admm",
)


@pytest.fixture
def pseudo_huber(monkeypatch):
    monkeypatch.setitem(LOSSES, PSEUDO_HUBER.name, PSEUDO_HUBER)
    return PSEUDO_HUBER


@pytest.mark.parametrize("check", CHECKS)
def test_the_checks_of_the_registered_losses_are_its_checks(check, pseudo_huber):
    check(pseudo_huber)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loss_of_one_record_is_fitted(dtype, pseudo_huber, rng):
    W_true, H_true = rng.gamma(1, size=(40, 3)), rng.gamma(1, size=(3, 30))
    clean = W_true @ H_true
    X = np.where(rng.random(clean.shape) < 0.05, 5 * clean.max(), clean).astype(dtype)
    weights = rng.uniform(0.5, 2, X.shape)
    model = NMF(3, loss="pseudo-huber", random_state=0, max_iter=100)
    W = model.fit_transform(X, weights=weights)
    assert model.solver_ == "admm" and model.loss_parameter_ == pytest.approx(X.mean(dtype=float) / 10)
    assert W.dtype == model.components_.dtype == dtype
    history = model.objective_history_
    assert history[-1] < 0.9 * history[0] and (np.diff(history) <= 1e-3 * history[0]).all()
    assert model.optimality_ < 0.02
    assert np.linalg.norm(W @ model.components_ - clean) < 0.1 * np.linalg.norm(clean)  # outliers move it little
    ours = Problem(X, Loss("pseudo-huber", model.loss_parameter_), weights=weights.astype(dtype))
    assert model.reconstruction_err_ <= 1.001 * ours.loss_value(W_true.T.copy(), H_true)  # that of the outliers
    theirs = NMF(3, loss="frobenius", random_state=0).fit(X, weights=weights)
    value = ours.loss_value(np.ascontiguousarray(theirs.transform(X, weights=weights).T), theirs.components_)
    assert model.reconstruction_err_ < 0.98 * value
    np.testing.assert_array_equal(model.transform(X, weights=weights), W)


def test_solvers_that_do_not_know_the_loss_refuse_it(pseudo_huber, rng):
    X = rng.random((6, 5))
    assert [name for name, solver in SOLVERS.items() if "pseudo-huber" in solver.losses] == ["admm"]
    with pytest.raises(
        ParameterError,
        match=r"solver must be .*, as .'admm'. can; got 'rri', which does not minimise loss='pseudo-huber'",
    ):
        NMF(2, loss="pseudo-huber", solver="rri").fit(X)
    with pytest.raises(ParameterError, match=r"nuclear must be 0 for losses other than .'manhattan', 'elastic-net'."):
        NMF(2, loss="pseudo-huber", nuclear=1.0).fit(X)
    with pytest.raises(ParameterError, match=r"loss_parameter of .* must be a finite number > 0; got 0"):
        NMF(2, loss="pseudo-huber", loss_parameter=0).fit(X)
    assert values(pseudo_huber, X, X, 1.0).sum() == 0


def test_a_loss_that_is_gone_is_refused(rng):
    with pytest.raises(ParameterError, match=r"loss must be one of \['manhattan', .*; got 'pseudo-huber'"):
        NMF(2, loss="pseudo-huber").fit(rng.random((6, 5)))
