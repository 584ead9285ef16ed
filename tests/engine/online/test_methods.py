"""Each update against the slow loops of `naive_online.py`, and what the papers promise of the iterates."""

import naive_online as formulas
import numpy as np
import pytest
from numpy.random import RandomState

from visionnmf.engine.losses import Loss
from visionnmf.engine.online import METHODS, Batch, OnlineOptions, manhattan, or_nmf, surrogate
from visionnmf.engine.penalties import Bounds, Penalties
from visionnmf.engine.problem import Problem

OPTIONS = OnlineOptions(batch_size=4, forget_factor=0.8, buffer=None, horizon=12)
SIMPLEX = Penalties(simplex="rows")


@pytest.fixture
def X(rng):
    return 0.1 + rng.gamma(0.5, size=(12, 3)) @ rng.gamma(0.5, size=(3, 9)) + 0.1 * rng.random((12, 9))


@pytest.fixture
def H(rng):
    return 0.1 + rng.random((3, 9))


def unit(H):
    return H / np.linalg.norm(H, axis=1, keepdims=True)


def simplex_rows(H):
    return np.array([formulas.on_simplex(row) for row in H])


def learnt(name, X, H, *, loss=None, options=OPTIONS, seed=0, penalty_W=Penalties(), penalty_H=Penalties()):
    """Learn batches; return the components and the state."""
    method = METHODS[name]
    H = H.copy()
    if method.constrain is not None:
        method.constrain(H, Problem(X, Loss(loss or method.losses[0]), penalty_W, penalty_H))
    state, rng = method.state.start(H), RandomState(seed)
    for begin in range(0, len(X), options.batch_size):
        batch = X[begin : begin + options.batch_size]
        problem = Problem(batch, Loss(loss or method.losses[0]), penalty_W, penalty_H)
        assert method.obstacle(problem) is None
        method.learn(Batch(problem, options, rng), H, state)
        state.check(H)
    return H, state


@pytest.fixture
def exact(monkeypatch):
    """Codes of the surrogate methods found to the end, and one sweep or step of the components."""
    monkeypatch.setattr(surrogate, "SWEEPS", 500)
    monkeypatch.setattr(surrogate, "CODES_TOLERANCE", 1e-12)
    monkeypatch.setattr(surrogate, "ROUNDS", 60)
    monkeypatch.setattr(surrogate, "COMPONENTS_SWEEPS", 1)


@pytest.mark.parametrize("constrained", [False, True])
def test_surrogate_is_mairals_recursion(constrained, X, H, exact):
    penalty = SIMPLEX if constrained else Penalties()
    project = formulas.on_simplex if constrained else lambda row: np.maximum(row, 0)
    expected = simplex_rows(H) if constrained else unit(H)
    A, B = np.zeros((3, 3)), np.zeros((3, 9))
    found, _ = learnt("surrogate", X, expected, penalty_H=penalty)
    for begin in range(0, 12, 4):
        A *= 0.8
        B *= 0.8
        batch = X[begin : begin + 4]
        formulas.surrogate(expected, A, B, batch, formulas.codes(batch, expected), project, 1)
        if not constrained:  # the same model in other units
            norms = np.linalg.norm(expected, axis=1)
            expected /= norms[:, None]
            A *= np.outer(norms, norms)
            B *= norms[:, None]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_surrogate_pays_penalties_once_a_sample(X, H, exact):
    found, state = learnt("surrogate", X[:4], H, penalty_H=Penalties(l1=0.05, l2=0.3))
    W = formulas.codes(X[:4], H)
    A, B = W.T @ W, W.T @ X[:4]
    expected = H.copy()
    for k in range(3):
        slope = A[k] @ expected - B[k] + 4 * (0.05 + 0.3 * expected[k])
        expected[k] = np.maximum(0, expected[k] - slope / (A[k, k] + 4 * 0.3))
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert state.weight == 4


def squares_gradient(H, x, w):
    return np.outer(w, w @ H - x)


def itakura_gradient(H, x, w):
    p = w @ H
    return np.outer(w, (p - x) / p**2)


LEAST = or_nmf.LEAST / 9  # entry of a component with Itakura-Saito, which the paper lets be 0

CASES = {
    "all samples": ({}, {}, {}),
    "a buffer": ({"buffer": 3}, {}, {}),
    "windows": ({"batch_size": 3}, {}, {"window": 3}),
    "windows and a buffer": ({"batch_size": 3, "buffer": 2}, {}, {"window": 3}),
    "l1 of codes": ({}, {"penalty_W": Penalties(l1=0.2)}, {"find_codes": lambda x, H: formulas.codes([x], H, 0.2)[0]}),
    "l2 of both": (
        {},
        {"penalty_W": Penalties(l2=0.3), "penalty_H": Penalties(l2=0.5)},
        {
            "find_codes": lambda x, H: formulas.codes([x], H, 0, 0.3)[0],
            "gradient": lambda H, x, w: squares_gradient(H, x, w) + 0.5 * H,
        },
    ),
    "a box": (
        {},
        {"penalty_H": Penalties(low=0.05, high=0.4)},
        {"project": lambda H: np.clip(H, 0.05, 0.4), "diameter": np.sqrt(27) * 0.35},
    ),
    "bounds of each entry": (
        {},
        {"penalty_H": Penalties(terms=(Bounds(np.full((3, 9), 0.05), np.linspace(0.2, 0.6, 27).reshape(3, 9)),))},
        {
            "project": lambda H: np.clip(H, 0.05, np.linspace(0.2, 0.6, 27).reshape(3, 9)),
            "diameter": np.linalg.norm(np.linspace(0.2, 0.6, 27) - 0.05),
        },
    ),
    "itakura-saito": (
        {},
        {"loss": "itakura-saito"},
        {
            "find_codes": lambda x, H: formulas.itakura_codes(x, np.full(3, x.sum() / 3), H),
            "gradient": itakura_gradient,
            "project": lambda H: LEAST + (1 - 9 * LEAST) * simplex_rows((H - LEAST) / (1 - 9 * LEAST)),
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_or_nmf_is_algorithms_1_to_3(case, X, H):
    options, ours, theirs = CASES[case]
    box = "penalty_H" in ours and bool(ours["penalty_H"].kinds & {"box", "bounds"})
    start = theirs["project"](H / 4) if box else simplex_rows(H / H.sum(axis=1, keepdims=True))
    if case == "itakura-saito":
        start = theirs["project"](start)
    arguments = {
        "project": simplex_rows,
        "diameter": np.sqrt(6),
        "find_codes": lambda x, H: formulas.codes([x], H)[0],
        "gradient": squares_gradient,
        "horizon": 12 // theirs.get("window", 1),
        "buffer": options.get("buffer"),
        **theirs,
    }
    settings = {"batch_size": 1, "buffer": None, "forget_factor": 1, "horizon": arguments["horizon"], **options}
    n = 5 if case == "itakura-saito" else 12  # the two searches for codes end a little apart, and steps are many
    found, state = learnt("or-nmf", X[:n], start, options=OnlineOptions(**settings), seed=3, **ours)
    expected, largest = formulas.or_nmf(X[:n], start, RandomState(3), **arguments)
    np.testing.assert_allclose(found, expected, atol=1e-4 if case == "itakura-saito" else 1e-6)
    assert state.largest_gradient == pytest.approx(largest, rel=1e-3)
    if not box:
        np.testing.assert_allclose(found.sum(axis=1), 1)
        assert (found >= 0).all()


def test_steps_shorten_towards_the_horizon_and_components_rest_behind_it(X, H):
    assert or_nmf.scaling(1, 10) == 0.1 and or_nmf.scaling(6, 10) == pytest.approx(0.1 * np.cos(np.pi / 4))
    assert or_nmf.scaling(10, 10) > 0 == or_nmf.scaling(11, 10) == or_nmf.scaling(50, 10)
    assert or_nmf.scaling(1, None) == 0.1 and or_nmf.scaling(400, None) == pytest.approx(0.005)
    found = [learnt("or-nmf", X[:n], H, options=OnlineOptions(1, 1.0, None, horizon=8))[0] for n in (8, 12)]
    np.testing.assert_array_equal(*found)


def test_outliers_and_missing_entries_enter_the_sums_as_the_model(rng):
    H = unit(rng.random((3, 40)))
    clean = rng.gamma(1, size=(150, 3)) @ H
    wrong, missing = rng.random((2, *clean.shape)) < 0.05
    X = np.where(missing, 0, np.where(wrong, 5 * clean.max(), clean))
    problem = Problem(X, Loss("manhattan"), weights=1.0 - missing)
    Wt, V, losses = manhattan.clean(problem, H)
    np.testing.assert_allclose(V, clean, atol=0.02 * clean.max())
    assert not (V == X)[wrong | missing].any() and (V == X)[~wrong & ~missing].mean() > 0.99
    assert losses.sum() == pytest.approx(np.abs(X - Wt.T @ H)[~missing].sum())
    H2, state = H.copy(), METHODS["manhattan"].state.start(H)
    METHODS["manhattan"].learn(Batch(problem, OPTIONS, RandomState(0)), H2, state)
    np.testing.assert_allclose(state.B / np.linalg.norm(H2, axis=1)[:, None], Wt @ V, rtol=0.05)
