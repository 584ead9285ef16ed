"""The losses of the table with the parameters that tests take, and checks of each field of a loss's record.

The lists of losses in the tests derive from the table, so that a new loss is in all of them. It is refused until its
formula stands in ``LOSSES`` of ``naive.py``.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from naive import LOSSES as NAIVE

from visionnmf.engine.losses import LOSSES, Loss
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import CODES, SOLVERS, solve_codes

BETA = 1.5
BETAS = (-1.0, 0.5, BETA, 3.0)
M, N = 4, 7


def loss_of(name, mean=1.0):
    """The loss of this name, with the default parameter for data of this mean; for "beta", the exponent 1.5."""
    record = LOSSES[name]
    if record.beta == "parameter":
        return Loss(name, BETA)
    return Loss(name, record.parameter.default(mean) if record.parameter else 0.0)


def losses_where(holds=lambda record: True, betas=(BETA,)):
    """The losses whose record meets a condition, "beta" with each of these exponents."""
    names = [name for name, record in LOSSES.items() if holds(record)]
    return [loss for name in names for loss in ([Loss(name, b) for b in betas] if name == "beta" else [loss_of(name)])]


def given(loss):
    """What users pass as `loss`: the name, or the exponent."""
    return loss.name if loss.record.is_named else loss.parameter


def given_where(holds=lambda record: True):
    """What users pass as `loss`, for each loss whose record meets a condition; 1.5 stands for the exponents."""
    return [given(loss) for loss in losses_where(holds)]


def is_minimised_by(solver):
    """Whether a solver minimises the loss of a record, as a condition."""
    return lambda record: record.name in SOLVERS[solver].losses


def instances(record):
    """The parameters to check a record with."""
    if record.beta == "parameter":
        return BETAS
    return (0.0,) if record.parameter is None else (record.parameter.default(1.0), record.parameter.default(0.3))


def values(record, X, P, parameter, weights=None):
    """The loss of each row."""
    return record.values(X, P, weights, parameter)


def problem_data(seed=0):
    """Data and a model that nowhere meet, and weights."""
    rng = np.random.default_rng(seed)
    P = rng.uniform(0.5, 2, (M, N))
    return P + rng.choice([-1, 1], P.shape) * rng.uniform(0.05, 0.4, P.shape), P, rng.uniform(0.5, 2, P.shape)


def check_value(record):
    X, P, _ = problem_data()
    for parameter in instances(record):
        assert (values(record, X, P, parameter) > 0).all()
        np.testing.assert_allclose(values(record, X, X.copy(), parameter), 0, atol=1e-12)
        assert values(record, X, P, parameter).sum() == pytest.approx(NAIVE[record.name](X, P, parameter))


def check_derivative(record):
    X, P, weights = problem_data()
    step = 1e-6
    for parameter in instances(record):
        found, size = record.derivative(X, P, weights, parameter, 0.0)
        assert found.shape == size.shape == X.shape and (size >= 0).all()
        for i in range(N):
            up, down = P.copy(), P.copy()
            up[:, i] += step
            down[:, i] -= step
            difference = values(record, X, up, parameter, weights) - values(record, X, down, parameter, weights)
            np.testing.assert_allclose(found[:, i], difference / (2 * step), rtol=1e-5, atol=1e-7)
        # the size: that of the derivative at the model 0, or of its positive part
        if record.beta not in (None, 2.0):
            beta = Loss(record.name, parameter).beta
            np.testing.assert_allclose(size, weights * P ** (beta - 1))
        else:
            at_zero = record.derivative(X, np.zeros_like(X), weights, parameter, 0.0)[0]
            np.testing.assert_allclose(size, np.abs(at_zero))
        np.testing.assert_array_equal(record.derivative(X, P, 1.0, parameter, 0.0)[0].shape, X.shape)


def check_kink(record):
    X, _, weights = problem_data()
    step = 1e-7
    for parameter in instances(record):
        up, down = X.copy(), X.copy()
        up[:, 0] += step
        down[:, 0] -= step
        jump = (values(record, X, up, parameter, weights) + values(record, X, down, parameter, weights)) / step
        expected = 2 * record.kink * weights[:, 0]
        if record.weight_degree == 1:  # at a row that is met, the root has a kink of another kind
            np.testing.assert_allclose(jump, expected, atol=1e-4)
        if record.kink:  # residuals up to `tiny` are taken for 0
            middle = record.derivative(X, X + 1e-4, weights, parameter, 1e-3)[0]
            assert np.abs(middle).max() < 0.01 * record.kink


def check_degrees(record):
    X, P, weights = problem_data()
    for parameter in instances(record):
        plain = values(record, X, P, parameter, weights)
        heavy = values(record, X, P, parameter, 4 * weights)
        np.testing.assert_allclose(heavy, 4**record.weight_degree * plain)
        larger = [values(record, c * X, c * P, parameter, weights) / plain for c in (2.0, 8.0)]
        if record.degree is not None:
            np.testing.assert_allclose(larger, [[2.0**record.degree] * M, [8.0**record.degree] * M])
        elif record.beta is None:  # not of one degree, or the record could say which
            assert not np.allclose(larger[1], larger[0] ** 3)


def check_beta(record):
    X, P, _ = problem_data()
    for parameter in instances(record):
        beta = Loss(record.name, parameter).beta
        if record.beta is None:
            assert np.isnan(beta)
        elif beta not in (0, 1):
            assert values(record, X, P, parameter).sum() == pytest.approx(NAIVE["beta"](X, P, beta))
        else:
            assert values(record, X, P, parameter).sum() == pytest.approx(NAIVE["beta"](X, P, beta + 1e-6), rel=1e-4)


def check_proximal(record):
    """No other point near the prox is better; and what else the pass writes."""
    if record.proximal is None:
        return
    rng = np.random.default_rng(1)
    X, P, weights = problem_data()
    weights[1, 2] = X[2, 3] = 0
    decay, bounds, some = 0.8, np.array([0.02, 0.3, 1.0, 5.0]), slice(1, 3)
    for parameter in instances(record):
        U = rng.normal(0, 0.2, X.shape) * (weights > 0)
        for entries in (weights, None):
            V, new, losses, residuals = P.copy(), U.copy(), np.zeros(M), np.zeros(M)
            record.proximal.rows(X, V, new, entries, parameter, bounds, decay, 0, M, losses, residuals)
            a = X - P + decay * U
            S = a - new

            def cost(S, a=a, entries=entries, parameter=parameter):
                return values(record, X, X - S, parameter, entries) + ((S - a) ** 2).sum(axis=1) / (2 * bounds)

            for size in (1e-3, 1e-1):
                for _ in range(200):
                    other = np.minimum(S + size * rng.normal(size=S.shape) * (rng.random(S.shape) < 0.3), X)
                    distance = ((other - S) ** 2).sum(axis=1) / (2 * bounds)  # by which a convex function is worse
                    assert (cost(other) >= cost(S) + distance - 1e-6).all()
            assert entries is None or new[1, 2] == 0  # to the bit, so that missing entries change nothing
            np.testing.assert_allclose(V, P + 2 * new - decay * U, atol=1e-12)
            np.testing.assert_allclose(residuals, np.abs(new - decay * U).sum(axis=1))
            expected = values(record, X, P, parameter, entries)
            np.testing.assert_allclose(losses, expected if record.proximal.valued else 0, rtol=1e-6)
            single = [None if F is None else F.astype(np.float32) for F in (X, P[some], U, entries, bounds)]
            X32, V32, new32, entries32, bounds32 = single  # in single precision, some rows only
            arguments = (entries32, parameter, bounds32, np.float32(decay), 1, 3, np.zeros(M), np.zeros(M))
            record.proximal.rows(X32, V32, new32, *arguments)
            np.testing.assert_allclose(new32[some], new[some], atol=1e-5)
            np.testing.assert_allclose(V32, V[some], atol=1e-5)
            assert (new32[[0, 3]] == U[[0, 3]].astype(np.float32)).all()
        if record.beta is None:
            ones = np.full((1, N), 0.3)
            slope = np.abs(record.derivative(ones, 2 * ones, 1.0, parameter, 0.0)[0])
            np.testing.assert_allclose(slope, record.proximal.slope(0.3, N, parameter))


def check_sparse(record):
    if record.sparse is None:
        return
    rng = np.random.default_rng(2)
    X = sp.csr_array(np.where(rng.random((M, N)) < 0.4, rng.uniform(0.5, 2, (M, N)), 0))
    Wt, H = rng.uniform(0.2, 1, (2, M)), rng.uniform(0.2, 1, (2, N))
    form, weights = record.sparse, [0.0, 1.0]
    for weight in weights:
        counted = np.where(X.toarray() > 0, 1.0, weight)
        dense = values(record, X.toarray() + (counted == 0), Wt.T @ H, 0.0, counted).sum()
        problem = Problem(X, Loss(record.name), zero_weight=weight)
        assert problem.loss_value(Wt, H) == pytest.approx(dense)
    P, x = (Wt.T @ H)[X.toarray() > 0], X.data
    floor, none = np.full_like(x, 1e-9), np.zeros((1, len(x)))
    there, sizes = (part[0] for part in record.derivative(x[None], P[None], 1.0, 0.0, 0.0))
    absent = P if form.squared else 1.0
    for weight in weights:
        deviation = form.deviation(x, P, floor, weight, 0.0)
        np.testing.assert_allclose(deviation, there - weight * absent, atol=1e-12)
    np.testing.assert_allclose(form.derivative_scale(x, 0.0), sizes if record.beta != 1.0 else np.ones_like(x))
    np.testing.assert_allclose(values(record, none, P[None], 0.0), (P**2 / 2 if form.squared else P).sum())


def check_codes(record):
    """No codes near those found are better."""
    assert record.codes in CODES
    rng = np.random.default_rng(3)
    H = rng.uniform(0.2, 1, (3, 12))
    X = rng.uniform(0.2, 2, (5, 3)) @ H * rng.uniform(0.9, 1.1, (5, 12))
    for parameter in instances(record):
        problem = Problem(X, Loss(record.name, parameter))
        Wt = solve_codes(problem, H)
        best = values(record, X, Wt.T @ H, parameter)
        for size in (1e-3, 1e-1):
            for _ in range(100):
                other = np.maximum(Wt + size * rng.normal(size=Wt.shape), 1e-6)
                assert (values(record, X, other.T @ H, parameter) >= best - 1e-4 * (1 + best)).all()
        if record.codes_as is not None:
            np.testing.assert_allclose(Wt, solve_codes(Problem(X, Loss(record.codes_as)), H))


def check_parameter(record):
    if record.parameter is None:
        return
    assert record.parameter.symbol in record.formula
    assert all(record.parameter.default(mean) > 0 for mean in (1e-3, 1.0, 1e3))
    X, P, _ = problem_data()
    defaults = [record.parameter.default(c) for c in (1.0, 5.0)]
    shares = [
        values(record, c * X, c * P, parameter) / values(record, c * X, np.zeros_like(P), parameter)
        for c, parameter in zip((1.0, 5.0), defaults, strict=True)
    ]
    np.testing.assert_allclose(*shares)  # free of the data's scale


CHECKS = (
    check_value,
    check_derivative,
    check_kink,
    check_degrees,
    check_beta,
    check_proximal,
    check_sparse,
    check_codes,
    check_parameter,
)
