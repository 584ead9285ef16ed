"""The scorer against made users with known masqueraders, with floors that trivial scores miss."""

import math

import numpy as np
import pytest
from helpers import LENGTH, make_chain, walk
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from visionnmf.apps.evaluate.masquerade import roc_summary
from visionnmf.apps.evaluate.session_baselines import NaiveBayes
from visionnmf.apps.masquerade import SessionScorer
from visionnmf.apps.masquerade.profile import Profile, count_session
from visionnmf.apps.masquerade.session_scorer import least_sessions
from visionnmf.exceptions import ParameterError


def pooled_auc(users, score):
    scores, labels = [], []
    for training, own, others in users:
        scores.append(score(training, own + others))
        labels.append(np.arange(len(own) + len(others)) >= len(own))
    return roc_summary(np.concatenate(scores), np.concatenate(labels))[0]


def ours(training, test):
    return SessionScorer().fit(training).anomaly_score(test)


def test_masqueraders_are_told_from_their_victims_where_trivial_scores_fail(users):
    def unseen(training, test):
        known = {c for s in training for c in s}
        return np.array([sum(c not in known for c in s) for s in test])

    def variety(training, test):
        return np.array([len(set(s)) for s in test])

    assert pooled_auc(users, ours) > 0.98
    assert pooled_auc(users, unseen) < 0.9
    assert pooled_auc(users, variety) < 0.75


def test_the_order_of_commands_counts():
    rng = np.random.default_rng(3)
    chain = make_chain(rng)
    training, own = walk(chain, rng, 50), walk(chain, rng, 30)
    shuffled = [list(rng.permutation(s)) for s in own]
    labels = np.repeat([False, True], 30)
    assert roc_summary(ours(training, own + shuffled), labels)[0] > 0.95
    bag = NaiveBayes().fit(training).anomaly_score(own + shuffled)
    assert roc_summary(bag, labels)[0] == pytest.approx(0.5, abs=0.01)


def test_repeated_new_commands_are_one_habit_and_short_sessions_less_certain(users):
    training, own, others = users[0]
    scorer = SessionScorer().fit(training)
    session = own[0]
    one = scorer.anomaly_score([["new", *session[1:]]])[0]
    spread = scorer.anomaly_score([[f"new{i}" if i % 10 == 0 else c for i, c in enumerate(session)]])[0]
    same = scorer.anomaly_score([["new" if i % 10 == 0 else c for i, c in enumerate(session)]])[0]
    assert one < same < spread
    long, short = scorer.anomaly_score([others[0], others[0][:5]])
    assert long > scorer.threshold_ > abs(short)


def test_signs_and_thresholds_follow_scikit_learn(users):
    training, own, others = users[0]
    scorer = SessionScorer(false_alarm_rate=0.05).fit(training)
    test = own + others
    anomaly = scorer.anomaly_score(test)
    np.testing.assert_array_equal(scorer.score_samples(test), -anomaly)
    np.testing.assert_allclose(scorer.decision_function(test), scorer.threshold_ - anomaly)
    np.testing.assert_array_equal(scorer.predict(test), np.where(anomaly > scorer.threshold_, -1, 1))
    assert scorer.offset_ == -scorer.threshold_
    scorer.threshold_ = np.sort(anomaly)[-4]
    assert (scorer.predict(test) == -1).sum() == 3
    np.testing.assert_array_equal(clone(scorer).fit_predict(training), clone(scorer).fit(training).predict(training))
    kept = {"method": "counts", "loss": "kullback-leibler"}
    assert clone(scorer).get_params() == {"false_alarm_rate": 0.05, **kept}
    np.testing.assert_array_equal(scorer.anomaly_score(np.array(own)), scorer.anomaly_score(own))


def test_judging_changes_nothing_and_explanations_name_what_was_planted(users):
    training, own, others = users[0]
    scorer = SessionScorer().fit(training)
    before = scorer.anomaly_score(own + others)
    scorer.explain(others[0])
    scorer.predict(others)
    np.testing.assert_array_equal(scorer.anomaly_score((own + others)[::-1])[::-1], before)
    reasons = scorer.explain(["nmap", "nc"] * 15 + own[0][:70])
    assert {reasons[0].command, reasons[1].command} == {"nmap", "nc"}
    assert reasons[0].sentence.endswith("(15 times): never seen before")
    assert reasons[0].share >= reasons[1].share >= reasons[-1].share > 0
    assert sum(r.share for r in scorer.explain(own[0], top=100)) == pytest.approx(1)
    assert len(scorer.explain(own[0], top=2)) == 2


def test_the_false_alarm_rate_holds_on_own_sessions_and_sets_the_threshold(users):
    thresholds = []
    assert 8 < SessionScorer(false_alarm_rate=1e-17).fit(users[0][0]).threshold_ < 20
    for rate in (0.01, 0.05, 0.2):
        flagged = []
        for training, own, others in users:
            scorer = SessionScorer(false_alarm_rate=rate).fit(training)
            flagged.append(scorer.predict(own) == -1)
            assert (scorer.predict(others) == -1).mean() > 0.6
        assert np.mean(flagged) <= rate + 0.03
        thresholds.append(scorer.threshold_)
    # 40 training sessions, at most 4 of them doubtful: the later two thirds of the rest calibrate
    for threshold, rate in zip(thresholds, (0.01, 0.05, 0.2), strict=True):
        assert stats.t.isf(rate, 60) <= threshold <= stats.t.isf(rate, 55)


def test_costs_are_those_of_the_formula():
    training = [["a", "b", "a"], ["a", "c"]]
    scorer = SessionScorer().fit(training)
    p = {c: (d + 0.1) / (4 + 100) for c, d in {"a": 2, "b": 1, "c": 1, "z": 0}.items()}
    pairs = [(1 + 8 * p["b"]) / (2 + 8), (0 + 8 * p["z"]) / (1 + 8)]  # a b, then b z; two pairs begin with a
    cost = -sum(math.log(p[c]) for c in "abz") / 3 - sum(map(math.log, pairs)) / 2 + 0.2 * 100 / 3
    expected = (cost - scorer.usual_cost_) / (scorer.deviation_ + 0.3)
    assert scorer.anomaly_score([["a", "b", "z"]])[0] == pytest.approx(expected)
    assert scorer.anomaly_score([["z"]])[0] == pytest.approx(
        (-2 * math.log(p["z"]) + 20 - scorer.usual_cost_) / (scorer.deviation_ + 0.3) / math.sqrt(2.5)
    )


def test_leaving_a_session_out_is_learning_without_it(users):
    training = users[0][0]
    counted = [count_session(s) for s in training]
    full, without = Profile(), Profile()
    for i, session in enumerate(counted):
        full.add(session)
        if i != 5:
            without.add(session)
    assert full.cost(counted[5], own=1.0)[0] == pytest.approx(without.cost(counted[5])[0])


def test_a_session_that_is_too_short_changes_nothing(users):
    scorer = SessionScorer().fit(users[0][0])
    least = math.ceil(0.1 * scorer.session_length_)
    strange = [f"new{i}" for i in range(least)]
    assert (scorer.anomaly_score([strange, strange[:-1]]) > 0).all()
    assert scorer.too_short(strange[:-1]) and not scorer.too_short(strange)
    before = dict(scorer.profile_.commands), scorer.n_sessions_, scorer.previous_score_, scorer.usual_cost_
    assert scorer.update(strange[:-1]) == scorer.anomaly_score([strange[:-1]])[0] > 0
    assert (dict(scorer.profile_.commands), scorer.n_sessions_, scorer.previous_score_, scorer.usual_cost_) == before
    scorer.update(strange)
    assert scorer.previous_score_ > 0 and "new0" not in scorer.usual(10_000)


def test_update_learns_a_new_habit_and_not_a_short_masquerade(users):
    training, own, others = users[0]
    scorer = SessionScorer().fit(training)
    for session in others[:5]:
        assert scorer.update(session) > scorer.threshold_
    assert scorer.n_sessions_ == 40
    after = scorer.anomaly_score(others[:5])
    assert (after > scorer.threshold_).all()
    assert np.mean([scorer.update(session) > scorer.threshold_ for session in own[1:]]) < 0.1
    habit = ["zz1", "zz2", "zz3", "zz4"] * 25
    scores = [scorer.update(habit) for _ in range(60)]
    assert scores[0] > 4 > scorer.threshold_ > scores[-1]


def test_update_follows_the_usual_cost(users):
    training, own, _ = users[0]
    scorer = SessionScorer().fit(training)
    mean, deviation = scorer.usual_cost_, scorer.deviation_
    cost = mean + scorer.anomaly_score(own[:1])[0] * (deviation + 0.3)
    scorer.update(own[0])
    assert scorer.usual_cost_ == pytest.approx(mean + (cost - mean) / 33)
    assert scorer.deviation_ == pytest.approx(math.sqrt(32 / 33 * (deviation**2 + (cost - mean) ** 2 / 33)))


def test_strange_training_sessions_count_little(users):
    training, own, _ = users[0]
    strange = [f"x{i}" for i in range(LENGTH)]
    scorer = SessionScorer().fit([*training[:10], strange, *training[10:]])
    assert 10 in scorer.doubtful_
    assert scorer.profile_.commands["x0"] == 0.25
    assert scorer.predict([strange])[0] == -1
    without = SessionScorer().fit(training)
    assert (scorer.usual_cost_, scorer.deviation_) == pytest.approx((without.usual_cost_, without.deviation_), rel=0.05)
    np.testing.assert_allclose(scorer.anomaly_score(own), without.anomaly_score(own), atol=0.3)


def test_the_same_stranger_in_several_sessions_is_found():
    rng = np.random.default_rng(1)
    training = walk(make_chain(rng), rng, 40)
    for place in (3, 17, 30):
        training[place] = list(rng.permutation([f"x{i}" for i in range(20)] * 5))
    assert {3, 17, 30} <= set(SessionScorer().fit(training).doubtful_.tolist())


def test_explanations_tell_rare_doubtful_new_order_and_too_often():
    cycle = [f"p{i}" for i in range(20)]
    training = [[*cycle, *cycle, *(["rare"] if i == 7 else [])] for i in range(30)]
    scorer = SessionScorer().fit(training)
    scorer.profile_.commands["rare"] = 1.0
    assert scorer.explain(["rare"] * 5)[0].sentence == "rare (5 times): rare, seen in 1 of 30 sessions"
    scorer.profile_.commands["rare"] = 0.25
    assert scorer.explain(["rare"] * 5)[0].sentence == "rare (5 times): seen only in doubtful sessions"
    backwards = {r.sentence for r in scorer.explain(cycle[::-1], top=20)}
    assert "p3 (1 time): known from 29 of 30 sessions, but not right after p4" in backwards
    now_and_then = [[*cycle, *cycle, *(["x", "y"] * 3 if i % 10 == 0 else [])] for i in range(30)]
    scorer = SessionScorer().fit(now_and_then)
    scorer.profile_.commands |= {"x": 3.0, "y": 3.0}
    scorer.profile_.pairs |= {("x", "y"): 3.0, ("y", "x"): 3.0}
    assert {r.sentence for r in scorer.explain(["x", "y"] * 20)} == {
        f"{c} (20 times): known from 3 of 30 sessions, but seldom so often" for c in "xy"
    }
    assert SessionScorer().fit(training[:1]).explain(cycle) == []


@pytest.mark.parametrize(
    "sessions", [[["a"]], [["a", "b"] * 50], [["a"], ["b"]], [[], ["a", "a"], []], [["a"] * 3] * 3]
)
def test_a_user_with_little_is_being_learnt(sessions):
    scorer = SessionScorer().fit(sessions)
    assert scorer.learning
    assert np.isfinite(scorer.anomaly_score([["a"], ["b", "c"]])).all()
    assert scorer.explain([]) == []
    assert np.isfinite(scorer.update(["q"] * 10))
    assert "q" in scorer.profile_.commands


def test_sessions_that_are_too_short_are_not_silently_the_users(users):
    training, own, _ = users[0]
    scorer, short = SessionScorer().fit(training), own[0][:3]
    with pytest.warns(UserWarning, match=r"2 sessions of X, first X\[1\]: empty, so the score 0 says nothing"):
        assert scorer.score_samples([own[0], [], []])[1] == 0
    with pytest.warns(UserWarning, match=r"1 session of X, first X\[0\]: under a tenth of the usual \d+ symbols"):
        assert scorer.predict([short, own[0]])[0] == 1
    scorer.threshold_ = float(scorer.anomaly_score([short])[0]) - 1
    assert scorer.predict([short])[0] == -1  # which may be said of short sessions


def test_update_takes_the_word_of_the_caller(users):
    training, own, others = users[0]
    accepted, rejected = (SessionScorer().fit(training) for _ in range(2))
    before = accepted.anomaly_score(others[:1])[0]
    accepted.update(others[0], accept=True)
    rejected.update(others[0], accept=False)
    assert accepted.anomaly_score(others[:1])[0] < before - 0.5
    assert rejected.anomaly_score(others[:1])[0] == before
    # only the rejected session makes the next one more suspicious
    assert accepted.update(own[0], accept=False) == accepted.anomaly_score(own[:1])[0]
    assert rejected.update(own[0]) > rejected.anomaly_score(own[:1])[0] + 0.5


def test_no_session_has_no_score():
    scorer = SessionScorer().fit([["ls", "cd", "make"] * 10] * 60)
    sessions = iter([["ls", "cd"]])
    assert scorer.score_samples(sessions).shape == (1,)
    for method in (scorer.anomaly_score, scorer.score_samples, scorer.decision_function, scorer.predict):
        with pytest.raises(ParameterError, match="X must hold at least one session; got none"):
            method(sessions)  # an iterator that was gone through


@pytest.mark.parametrize(
    ("sessions", "sentence"),
    [
        ([], "X must hold at least one session with a command; got none"),
        ([[], []], "X must hold at least one session with a command; got none"),
        (["ls", "cd"], "a session must be a sequence of commands; got 'ls'"),
        ("ls", "a session must be a sequence of commands; got 'ls'"),
        ([3], "a session must be a sequence of commands; got 3"),
        ([[["ls"]]], "the commands of a session must be hashable"),
    ],
)
def test_bad_sessions_are_refused(sessions, sentence):
    with pytest.raises(ParameterError, match=sentence):
        SessionScorer().fit(sessions)


def test_an_unfitted_scorer_says_so():
    for call in ("anomaly_score", "predict", "update", "explain"):
        with pytest.raises(NotFittedError):
            getattr(SessionScorer(), call)([["a"]])
    with pytest.raises(ParameterError, match="top must be a whole number >= 1; got 0"):
        SessionScorer().fit([["a"]]).explain(["a"], top=0)


@pytest.mark.parametrize(("rate", "least"), [(0.02, 49), (0.05, 19), (0.4, 2), (0.5, 1), (0.03, 33)])
def test_too_few_sessions_for_the_rate_are_reported_with_the_number(users, rate, least):
    """A new value of the same kind is the largest of n + 1 with a chance of 1 / (n + 1)."""
    assert least_sessions(rate) == least and 1 / (least + 1) <= rate < 1 / least
    own = (list(users[0][0]) * least)[:least]
    SessionScorer(false_alarm_rate=rate).fit(own)
    if least > 1:
        few = "1 session" if least == 2 else f"{least - 1} sessions"
        with pytest.warns(UserWarning, match=f"^X has {few}, and a .* can only hold from {least} on;"):
            SessionScorer(false_alarm_rate=rate).fit(own[1:])
