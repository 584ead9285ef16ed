"""Habits as factorisations: the costs against their formulas, weights, and learning online."""

import math

import numpy as np
import pytest

from visionnmf import choices
from visionnmf.apps.masquerade import SessionScorer, factor_profile
from visionnmf.apps.masquerade.factor_profile import FLOOR_SHARE, FactorProfile
from visionnmf.apps.masquerade.profile import VOCABULARY, Profile, count_session
from visionnmf.exceptions import ParameterError

METHODS = choices.SCORER_METHODS[1:]
EACH = [
    (method, loss) for method in METHODS for loss in choices.SCORER_LOSSES if (method, loss) != ("wang", "manhattan")
]
SESSIONS = [["a", "a", "b"], ["b", "c", "a"], ["a", "c", "c"], ["c", "d", "a", "a", "d"]]


def learnt(method, loss="kullback-leibler", sessions=SESSIONS):
    profile = FactorProfile(method=method, loss=loss)
    for session in sessions:
        profile.add(count_session(session))
    return profile


def test_the_cost_of_mex_perera_is_the_papers_formula_and_its_basis_a_minimum_for_the_weighted_counts():
    profile = learnt("mex-perera")
    W = profile.learn().T  # the basis of the paper, whose columns sum to 1
    np.testing.assert_allclose(W.sum(axis=0), 1)
    p = {"a": 6 / 14, "b": 2 / 14, "c": 4 / 14, "d": 2 / 14}
    a = np.array([-math.log(p["a"]) * 2, -math.log(p["b"]), 0, 0]) / (5 - 2)  # L = 5, N = 2
    h = np.full(2, a.sum() / 2)
    for _ in range(5000):  # the paper has ten
        h *= W.T @ (a / np.maximum(W @ h, 1e-12)) / W.sum(axis=0)
    cost, parts = profile.cost(count_session(["a", "b", "a", "x", "y"]))
    distance = np.linalg.norm(a - W @ h)
    assert cost == pytest.approx(math.log((distance + 1e-3) * 3), abs=1e-5)
    assert sum(parts.values()) == pytest.approx(cost)
    alone, _ = profile.cost(count_session(["x", "y"]))  # 0/0 in the paper: at distance 1
    assert alone == pytest.approx(math.log(1.001 * 3))
    H = profile.learn()
    information = -np.log(np.array([6, 2, 4, 2]) / 14)
    counts = np.array([[2, 1, 0, 0], [1, 1, 1, 0], [1, 0, 2, 0], [2, 0, 1, 2]])
    A = information * counts / counts.sum(axis=1, keepdims=True)
    W = np.full((4, 2), 0.5)
    for _ in range(5000):
        W *= (A / np.maximum(W @ H, 1e-12)) @ H.T
    # of the divergence with respect to H, 0 where H > 0
    gradient = W.sum(axis=0)[:, None] - W.T @ (A / np.maximum(W @ H, 1e-12))
    assert np.abs(H * gradient).max() < 0.01


def test_the_cost_of_wang_is_the_share_of_new_commands_for_codes_that_sum_to_one():
    cost, parts = learnt("wang").cost(count_session(["a", "b", "x", "y", "c"]))
    assert cost == pytest.approx(0.4, abs=1e-4)
    assert sum(parts.values()) == pytest.approx(cost) and min(parts["x"], parts["y"]) > 0 == parts["a"]
    with pytest.raises(ParameterError, match="loss must be 'kullback-leibler' for method='wang'; got 'manhattan'"):
        SessionScorer(method="wang", loss="manhattan").fit(SESSIONS)


def test_with_one_component_probabilities_are_weighted_shares_of_sessions(monkeypatch):
    monkeypatch.setitem(factor_profile.RANKS, "nmf", 1)
    profile = learnt("nmf")
    found = profile.probabilities(count_session(["a", "b", "x"]))
    floor = FLOOR_SHARE / VOCABULARY  # of 10 commands in sessions, a is in 4 and b in 2
    expected = {"a": 0.4 * (1 - FLOOR_SHARE) + floor, "b": 0.2 * (1 - FLOOR_SHARE) + floor, "x": floor}
    assert found == pytest.approx(expected, rel=1e-4)
    session = count_session(["a", "b", "a"])
    plain = Profile()
    for each in SESSIONS:
        plain.add(count_session(each))
    monkeypatch.setattr(plain, "probabilities", profile.probabilities)
    assert profile.cost(session) == plain.cost(session)  # the pairs are those of the counts
    profile.add(count_session(["b"]), 0.25)
    expected = 2.25 / 10.25 * (1 - FLOOR_SHARE) + FLOOR_SHARE / VOCABULARY
    assert profile.probabilities(count_session(["a", "b"]))["b"] == pytest.approx(expected, rel=1e-4)


def test_components_tell_kinds_of_sessions_apart():
    kinds = [["a", "b", "c"], ["x", "y", "z"]] * 10
    pure = learnt("nmf", sessions=kinds).probabilities(count_session(["a", "b"]))
    assert pure["a"] == pytest.approx((1 - FLOOR_SHARE) / 3, rel=0.01)  # one component alone: not a sixth


@pytest.mark.slow
@pytest.mark.parametrize(("method", "loss"), EACH)
def test_accepted_sessions_are_learnt_online_and_rejected_ones_hardly(method, loss, users):
    training, own, _ = users[0]
    strange = ["x1", "x2", "x3", "x4"] * 20 + own[0][:20]
    scorers = [SessionScorer(method=method, loss=loss).fit(training) for _ in range(2)]
    before = scorers[0].anomaly_score([strange])[0]
    assert before > scorers[0].threshold_
    components = scorers[0].profile_.learn()
    for accept, scorer in zip((True, None), scorers, strict=True):
        for _ in range(5):
            scorer.update(strange, accept=accept)
    after, rejected = (scorer.anomaly_score([strange])[0] for scorer in scorers)
    assert after < before - 0.5 * (before - scorers[0].anomaly_score([own[0]])[0])
    assert rejected > scorers[1].threshold_
    assert scorers[0].profile_.components.shape[1] == components.shape[1] + 4


def test_one_session_more_continues_from_the_components(monkeypatch, users):
    profile = learnt("nmf", sessions=users[0][0])
    before = profile.learn()
    monkeypatch.setattr(factor_profile, "ONLINE_ITERATIONS", 1)
    profile.add(count_session(users[0][0][0]))
    close = profile.learn()
    again = learnt("nmf", sessions=[*users[0][0], users[0][0][0]])
    assert 0 < np.abs(close - before).max() < 0.05
    assert np.abs(again.learn() - close).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_what_is_kept_is_bounded(method, monkeypatch):
    monkeypatch.setattr(factor_profile, "SESSIONS_KEPT", 10)
    monkeypatch.setattr("visionnmf.apps.masquerade.profile.PAIRS_KEPT", 60)
    profile = FactorProfile(method=method)
    for i in range(22):
        profile.add(count_session([f"c{j}" for j in range(3 * i, 3 * i + 6)]))
        assert np.isfinite(profile.cost(count_session(["c1", f"c{3 * i}", "z"]))[0])
    assert len(profile.sessions) <= 10 and len(profile.commands) <= 60


@pytest.mark.parametrize(("method", "loss"), EACH)
@pytest.mark.parametrize("sessions", [[["a"]], [["a", "a"]] * 20, [["a"], ["b"]] * 6])
def test_users_of_few_commands_have_finite_scores(method, loss, sessions):
    scorer = SessionScorer(method=method, loss=loss).fit(sessions)
    assert np.isfinite(scorer.anomaly_score([["a"], ["b"], ["z", "a"], ["z"] * 50])).all()
    assert np.isfinite(scorer.update(["z", "a"], accept=True))
