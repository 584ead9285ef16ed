"""What is kept of a user stays bounded, and what is forgotten is the rarest."""

import numpy as np
import pytest

from visionnmf.apps.masquerade import SessionScorer
from visionnmf.apps.masquerade.profile import Profile, count_session


def test_a_profile_stays_bounded(monkeypatch):
    monkeypatch.setattr("visionnmf.apps.masquerade.profile.PAIRS_KEPT", 300)
    scorer = SessionScorer().fit([["a", "b"] * 50] * 20)
    for i in range(30):
        scorer.update([f"{i}-{j}" for j in range(60)], accept=True)
    assert len(scorer.profile_.pairs) <= 300
    assert ("a", "b") in scorer.profile_.pairs
    assert scorer.profile_.total == pytest.approx(sum(scorer.profile_.commands.values()))
    assert sum(scorer.profile_.context.values()) == pytest.approx(sum(scorer.profile_.pairs.values()))


def test_diverse_sessions_above_the_bound_can_be_learnt(monkeypatch):
    sessions = [[f"{i}-{j}" for j in range(40)] + ["a", "b"] * 5 for i in range(30)]
    expected = SessionScorer().fit(sessions).doubtful_
    monkeypatch.setattr("visionnmf.apps.masquerade.profile.PAIRS_KEPT", 200)
    scorer = SessionScorer().fit(sessions)  # what is known while sessions are taken out again is not forgotten
    np.testing.assert_array_equal(scorer.doubtful_, expected)
    assert np.isfinite(scorer.anomaly_score(sessions)).all()
    assert len(scorer.profile_.pairs) <= 200 and len(scorer.profile_.commands) <= 200


def test_a_profile_of_lone_commands_stays_bounded_and_keeps_the_frequent_and_the_latest(monkeypatch):
    monkeypatch.setattr("visionnmf.apps.masquerade.profile.PAIRS_KEPT", 100)
    scorer = SessionScorer().fit([["often"]] * 20)
    for i in range(1000):
        scorer.update([f"c{i}"], accept=True)
    commands = scorer.profile_.commands
    assert len(commands) <= 100
    assert {"often", "c999", "c980"} <= set(commands) and "c0" not in commands
    assert scorer.profile_.total == pytest.approx(sum(commands.values()))


def test_a_frequent_command_outlives_its_pairs_and_of_pairs_seen_once_the_latest_are_kept(monkeypatch):
    monkeypatch.setattr("visionnmf.apps.masquerade.profile.PAIRS_KEPT", 100)
    profile = Profile()
    few = [f"k{i}" for i in range(8)]
    for first in few:  # "often" is next to each of them once, they are next to each other often
        profile.add(count_session([first, "often"]))
        profile.add(count_session(["often", first]))
    for _ in range(3):
        for first in few:
            for second in few:
                profile.add(count_session([first, second]))
    profile.pairs |= {("k0", f"k{i}"): 0.01 for i in range(200)}
    profile._forget()
    assert not any("often" in pair for pair in profile.pairs)
    assert profile.commands["often"] == 16
    profile = Profile()
    alphabet = [f"k{i}" for i in range(11)]  # few commands, 110 pairs of them
    pairs = [(a, b) for a in alphabet for b in alphabet if a != b]
    for pair in pairs[:101]:
        profile.add(count_session(list(pair)))
    assert list(profile.pairs) == pairs[51:101]
    assert set(profile.commands) == set(alphabet)
