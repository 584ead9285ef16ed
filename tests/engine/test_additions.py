"""A loss is added by one record, a penalty by one class, and fitted; who does not know them refuses them."""

from dataclasses import dataclass

import naive
import numpy as np
import pytest
from loss_checks import CHECKS, values
from sklearn.base import clone

from visionnmf import NMF, Penalty
from visionnmf.engine.losses import LOSSES, Loss, LossRecord, Parameter, ProximalForm
from visionnmf.engine.optimality import optimality
from visionnmf.engine.penalties import Linear, Penalties, Proximal, Smooth, Term
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS, choose, fit, solve_codes
from visionnmf.exceptions import ParameterError


def pseudo_huber_values(X, P, M, delta):
    entries = 1.0 if M is None else M
    return (entries * delta**2 * (np.sqrt(1 + ((X - P) / delta) ** 2) - 1)).sum(axis=1)


def pseudo_huber_derivative(X, P, M, delta, tiny):
    E = P - X
    return M * E / np.sqrt(1 + (E / delta) ** 2), M * X / np.sqrt(1 + (X / delta) ** 2)


def pseudo_huber_dual(E, P, old, limit, M, delta):
    a = E + old
    low, high = np.minimum(a, 0), np.maximum(a, 0)
    for _ in range(35):  # S + b S / sqrt(1 + (S / delta)^2) rises: bisection
        S = (low + high) / 2
        below = S + limit * S / np.sqrt(1 + (S / delta) ** 2) < a
        low, high = np.where(below, S, low), np.where(below, high, S)
    return np.where(limit > 0, a - (low + high) / 2, 0)


def pseudo_huber_pass(X, P, U, M, delta, bounds, decay, start, stop, losses, residuals):
    rows = slice(start, stop)
    losses[rows] = pseudo_huber_values(X[rows], P, None if M is None else M[rows], delta)
    old = decay * U[rows]
    limit = bounds[rows, None] if M is None else M[rows] * bounds[rows, None]
    new = pseudo_huber_dual(X[rows] - P, P, old, limit, None, delta)
    residuals[rows] = np.abs(new - old).sum(axis=1)
    P += 2 * new - old
    U[rows] = new


PSEUDO_HUBER = LossRecord(
    name="pseudo-huber",
    formula="delta^2 (sqrt(1 + ((x - p) / delta)^2) - 1)",
    noise="Gaussian noise and outlying entries, with derivatives of any order",
    parameter=Parameter("delta", default=lambda mean: mean / 10, positive=True),
    degree=None,
    beta=None,
    kink=0.0,
    values=pseudo_huber_values,
    derivative=pseudo_huber_derivative,
    proximal=ProximalForm(
        pseudo_huber_pass,
        dual=pseudo_huber_dual,
        valued=True,
        slope=lambda size, n, delta: size / np.sqrt(1 + (size / delta) ** 2),
        clipped=False,
    ),
    sparse=None,
    codes="admm",
)


@pytest.fixture
def pseudo_huber(monkeypatch):
    monkeypatch.setitem(LOSSES, PSEUDO_HUBER.name, PSEUDO_HUBER)
    monkeypatch.setitem(
        naive.LOSSES, PSEUDO_HUBER.name, lambda X, P, delta: pseudo_huber_values(X, P, None, delta).sum()
    )
    return PSEUDO_HUBER


@pytest.mark.parametrize("check", CHECKS)
def test_the_checks_of_the_registered_losses_are_its_checks(check, pseudo_huber):
    check(pseudo_huber)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loss_of_one_record_is_fitted(dtype, pseudo_huber, rng):
    W_true, H_true = rng.gamma(1, size=(40, 3)), rng.gamma(1, size=(3, 30))
    clean = W_true @ H_true
    X = np.where(rng.random(clean.shape) < 0.05, 5 * clean.max(), clean).astype(dtype)
    weights = rng.uniform(0.5, 2, X.shape)
    model = NMF(3, loss="pseudo-huber", random_state=0, max_iter=100)
    W = model.fit_transform(X, weights=weights)
    assert model.solver_ == "admm" and model.loss_parameter_ == pytest.approx(X.mean(dtype=float) / 10)
    assert type(model.loss_parameter_) is float  # one of NumPy would widen single precision
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
    with pytest.raises(ParameterError, match=r"solver must be .*, as .'admm'. can; got 'rri', which does not minimise"):
        NMF(2, loss="pseudo-huber", solver="rri").fit(X)
    with pytest.raises(ParameterError, match=r"nuclear must be 0 for losses other than .'manhattan', 'elastic-net'."):
        NMF(2, loss="pseudo-huber", nuclear=1.0).fit(X)
    with pytest.raises(ParameterError, match=r"loss_parameter of .* must be a finite number > 0; got 0"):
        NMF(2, loss="pseudo-huber", loss_parameter=0).fit(X)
    assert values(pseudo_huber, X, X, 1.0).sum() == 0


@pytest.mark.parametrize("field", ["dual", "clipped"])
def test_a_record_that_lacks_what_another_solver_needs_is_not_made(field):
    fields = PSEUDO_HUBER.proximal._asdict()
    del fields[field]
    with pytest.raises(TypeError, match=field):
        ProximalForm(**fields)


def test_a_loss_that_is_gone_is_refused(rng):
    with pytest.raises(ParameterError, match=r"loss must be one of \[.*'manhattan', .*; got 'pseudo-huber'"):
        NMF(2, loss="pseudo-huber").fit(rng.random((6, 5)))


# --- a penalty --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WeightedL1(Linear):
    """An l1 norm with a weight for each point."""

    weight: np.ndarray

    kind = "weighted l1"
    is_cone = True
    of_points = True

    def value(self, F):
        return float((F * self.weight).sum(dtype=np.float64))

    def slope(self, n_components):
        return self.weight * np.ones((n_components, 1)) if self.weight.ndim == 1 else self.weight

    def rescaled(self, scale):
        return WeightedL1(self.slope(len(scale)) / scale[:, None])


@dataclass(frozen=True, eq=False)
class OffsetRidge(Smooth):
    """A ridge around a number that is not 0."""

    weight: float
    centre: float

    kind = "offset ridge"

    def value(self, F):
        return self.weight / 2 * float(np.square(F - self.centre, dtype=np.float64).sum())

    def add_gradient(self, F, out):
        out += F.dtype.type(self.weight) * (F - F.dtype.type(self.centre))

    def lipschitz(self):
        return self.weight


@dataclass(frozen=True, eq=False)
class Ball(Proximal):
    """Components of norm 1 at most."""

    kind = "ball"

    def value(self, F):
        return 0.0

    def prox(self, F, step):
        np.maximum(F, 0, out=F)
        F /= np.maximum(np.linalg.norm(F, axis=1, keepdims=True), 1)

    def feasible(self, F):
        self.prox(F, 0.0)


def added_terms(n):
    return {
        "linear": WeightedL1(np.where(np.arange(n) < n // 2, 30.0, 0.0)),
        "smooth": OffsetRidge(2.0, 0.5),
        "proximal": Ball(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", added_terms(2))
@pytest.mark.parametrize("solver", ["hals", "nenmf", "admm", "ogm", "spg"])
def test_a_penalty_of_one_class_is_fitted(solver, form, rng):
    loss = {"hals": "frobenius", "nenmf": "frobenius", "spg": "kullback-leibler"}.get(solver, "manhattan")
    X = rng.gamma(2, size=(30, 3)) @ rng.gamma(1, size=(3, 20)) + 0.1 * rng.random((30, 20)) + 0.05
    problem = Problem(X, Loss(loss), Penalties(l2=1.0), Penalties(terms=(added_terms(20)[form],), l1=0.1))
    assert choose(solver, problem) == solver
    Wt, H = rng.random((3, 30)), rng.random((3, 20))
    problem.penalty_H.feasible(H)
    result = fit(problem, Wt, H, solver=solver, max_iter=300, tol=0)
    history = np.array(result.history)
    assert history[-1] < 0.9 * history[0]
    if solver in ("hals", "spg"):
        assert (np.diff(history) <= 1e-9 * history[0]).all()
    assert optimality(problem, Wt, H) < {"admm": 0.2, "ogm": 0.2}.get(solver, 0.02)
    # for fixed codes the components are a convex problem: none near are better
    for size in (1e-3, 1e-2):
        for _ in range(100):
            other = np.maximum(H + size * rng.normal(size=H.shape), 0)
            problem.penalty_H.constraint.feasible(other)
            assert problem.objective(Wt, other) >= history[-1] - 2e-3 * abs(history[-1])


@pytest.mark.parametrize("form", added_terms(2))
def test_estimators_take_it_and_it_does_what_it_says(form, rng):
    X = rng.gamma(2, size=(30, 3)) @ rng.gamma(1, size=(3, 20)) + 0.05
    plain, added = (
        NMF(3, loss="frobenius", penalty_W=Penalty(l2=1.0), penalty_H=penalty, random_state=0, max_iter=300).fit(X)
        for penalty in (Penalty(l2=0.1), Penalty(l2=0.1, terms=[added_terms(20)[form]]))
    )
    assert (added.solver_, added.optimality_ < 0.02) == ("hals", True)
    H = added.components_ * added.component_norms_[:, None]
    if form == "linear":
        shares = [model.components_[:, :10].sum() / model.components_.sum() for model in (plain, added)]
        assert shares[1] < 0.9 * shares[0]
    elif form == "smooth":
        assert np.abs(H - 0.5).mean() < np.abs(plain.components_ * plain.component_norms_[:, None] - 0.5).mean()
    else:
        assert np.linalg.norm(H, axis=1).max() <= 1 + 1e-9
    assert clone(added).fit(X).objective_history_[-1] == added.objective_history_[-1]


PROXIMAL_SOLVERS = {"hals", "nenmf", "spg", "admm", "ogm", "ogm-paper", "ogm-printed"}


class Unknown(Term):
    """A term in none of the three forms."""

    kind = "unknown"

    def value(self, F):
        return 0.0


def test_solvers_that_do_not_know_a_term_refuse_it(rng):
    X = rng.random((6, 5)) + 0.1
    for name, solver in SOLVERS.items():
        loss = Loss("frobenius") if "frobenius" in solver.losses else Loss(min(solver.losses))
        for term, able in ((added_terms(5)["linear"], PROXIMAL_SOLVERS), (Unknown(), ())):
            obstacle = solver.obstacle(Problem(X, loss, penalty_H=Penalties(terms=(term,))))
            assert obstacle == (None if name in able else f"does not take {term.kind} in penalty_H")
    with pytest.raises(ParameterError, match=r"for loss=.huber. takes; .* .admm: does not take unknown"):
        NMF(2, loss="huber", penalty_H=Penalty(terms=[Unknown()])).fit(X)
    for loss in LOSSES:  # nor does a function for codes
        with pytest.raises(ParameterError, match=r"penalty_W must be without offset ridge for codes of"):
            solve_codes(Problem(X, Loss(loss, 0.5), penalty_W=Penalties(terms=(OffsetRidge(1.0, 0.5),))), X[:2])


def test_what_terms_may_not_be(rng):
    with pytest.raises(ParameterError, match=r"simplex must stand without ball; got both; leave one of them out"):
        Penalties(simplex="rows", terms=(Ball(),))
    with pytest.raises(ParameterError, match=r"terms of penalty_H must be of visionnmf.engine.penalties.Term; got 3"):
        NMF(2, penalty_H=Penalty(terms=[3])).fit(rng.random((6, 5)))
    with pytest.raises(TypeError, match="abstract"):  # an incomplete one
        type("Half", (Smooth,), {"kind": "half", "value": lambda self, F: 0.0})()
