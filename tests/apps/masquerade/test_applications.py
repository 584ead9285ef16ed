"""From logs to verdicts: training and scoring on made users."""

import json
import math

import numpy as np
import pytest

from visionnmf import choices
from visionnmf.apps.masquerade import LogSource, ScorerSettings, SessionCutting, load, score, train, training
from visionnmf.exceptions import OutputExistsError, ParameterError, TooLargeError, UnreadableError

SIZE = 20
CUT = SessionCutting(size=SIZE)


def habits(seed, n):
    """Commands of a user who follows a chain of 12 commands, a third of them shared with everybody."""
    rng = np.random.default_rng([seed, 0])
    own = [*(f"shared{i}" for i in range(4)), *(f"own{seed}-{i}" for i in range(8))]
    chain = np.array([rng.dirichlet(np.full(12, 0.3)) for _ in own]).cumsum(axis=1)
    draws = np.random.default_rng([seed, 1]).random(n * SIZE)
    state, found = 0, []
    for u in draws:
        state = min(int(np.searchsorted(chain[state], u)), 11)
        found.append(own[state])
    return found


@pytest.fixture
def logs(tmp_path):
    """Three users in one CSV for training; a log where mallory uses alice's account in sessions 2 and 3."""
    training, test = tmp_path / "training.csv", tmp_path / "test.csv"
    rows = ["time,user,command"]
    for seed, user in enumerate(("alice", "bob", "carol")):
        rows += [f"{1.7e9 + i:.0f},{user},{c}" for i, c in enumerate(habits(seed, 40))]
    training.write_text("\n".join(rows) + "\n")
    alice, mallory = habits(0, 48)[40 * SIZE :], habits(9, 2)
    mixed = alice[: 2 * SIZE] + mallory + alice[2 * SIZE : 6 * SIZE] + alice[:7]
    test.write_text("time,user,command\n" + "".join(f"{1.8e9 + i:.0f},alice,{c}\n" for i, c in enumerate(mixed)))
    return training, test


def test_training_and_scoring_find_the_masquerade(logs, tmp_path):
    training, test = logs
    model = tmp_path / "m.npz"
    trained = train([training], model, cutting=CUT)
    assert [(r["user"], r["sessions"], r["learning"]) for r in trained.users] == [
        (user, 40, False) for user in ("alice", "bob", "carol")
    ]
    assert "alice: 40 sessions, 12 different commands" in str(trained)
    results = list(score(model, [test]))
    assert [r.verdict for r in results] == ["own"] * 2 + ["alarm"] * 2 + ["own"] * 5
    assert [r.n_commands for r in results] == [SIZE] * 8 + [7]
    alarm = results[2]
    assert (alarm.user, alarm.index, alarm.start, alarm.end) == ("alice", 2, 1.8e9 + 40, 1.8e9 + 59)
    assert alarm.reasons[0].command.startswith("own9")
    assert sum(reason.share for reason in alarm.reasons if reason.command.startswith("own9")) > 0.4
    assert alarm.score > alarm.threshold
    assert str(alarm.report()).startswith(
        "alice, session 2, 2027-01-15T08:00:40Z to 2027-01-15T08:00:59Z: alarm, score "
    )
    assert "never seen before [" in str(alarm.report())
    assert results[0].reasons == [] and str(results[0].report()).endswith(")")
    row = json.loads(json.dumps(alarm.report().as_dict()))
    assert row["start"] == "2027-01-15T08:00:40Z"
    assert row["reasons"][0]["sentence"] == alarm.reasons[0].sentence
    assert json.loads(json.dumps(trained.as_dict()))["skipped"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "loss"),
    [*((method, choices.SCORER_LOSSES[0]) for method in choices.SCORER_METHODS[1:]), ("nmf", "manhattan")],
)
def test_a_factorisation_finds_the_masquerade_with_the_same_results(method, loss, logs, tmp_path):
    training, test = logs
    others = (",bob,", ",carol,")  # whose factorisations only take time
    lines = [line for line in training.read_text().splitlines() if not any(other in line for other in others)]
    training.write_text("\n".join(lines) + "\n")
    train([training], tmp_path / "m.npz", cutting=CUT, scorer=ScorerSettings(method=method, loss=loss))
    model = load(tmp_path / "m.npz")
    results = list(score(model, [test]))
    assert [r.verdict for r in results] == ["own"] * 2 + ["alarm"] * 2 + ["own"] * 5
    assert results[2].reasons[0].command.startswith("own9")
    assert "never seen before [" in str(results[2].report()) and results[0].reasons == []
    assert set(results[2].usual) == set(list(score(train([training], cutting=CUT).model, [test]))[2].usual)
    assert model.scorers["alice"].n_sessions_ == 46


def test_unknown_and_new_users_raise_no_alarm(logs, tmp_path):
    _, test = logs
    few = tmp_path / "dave"
    few.write_text("\n".join(habits(0, 3)) + "\n")
    model = train([few], cutting=CUT).model
    (unknown, *_) = score(model, [test])
    assert (unknown.verdict, unknown.score, unknown.reasons) == ("unknown user", None, [])
    assert str(unknown.report()).endswith(": unknown user (20 commands)")
    other = tmp_path / "other" / "dave"
    other.parent.mkdir()
    other.write_text("\n".join(habits(9, 20)) + "\n")
    verdicts = [r.verdict for r in score(model, [other])]
    assert verdicts[:7] == ["learning"] * 7
    assert "learning" not in verdicts[7:]
    assert "too few for alarms yet" in str(train([few], cutting=CUT))


def test_a_session_may_begin_in_one_log_and_end_in_the_next(tmp_path):
    commands = habits(0, 6)
    for name, part in (("a", commands[:50]), ("b", commands[50:])):
        (tmp_path / name).write_text("\n".join(part) + "\n")
    trained = train([tmp_path / "a", tmp_path / "b"], cutting=CUT, source=LogSource(user="alice"))
    assert [(r["user"], r["sessions"]) for r in trained.users] == [("alice", 6)]
    results = list(score(trained.model, [tmp_path / "a", tmp_path / "b"], source=LogSource(user="alice")))
    assert [(r.index, r.source[-1]) for r in results] == [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "b"), (5, "b")]


def test_sessions_by_idle_time_and_short_rests(tmp_path):
    log = tmp_path / "alice"
    log.write_text("".join(f"#{1700000000 + 3600 * (i // 7) + i}\nls\n" for i in range(70)))
    assert train([log], cutting=SessionCutting(idle=600.0)).users[0]["sessions"] == 10
    log.write_text("ls\n" * 45)
    assert train([log], cutting=CUT).users[0]["sessions"] == 2
    log.write_text("ls\n" * 3)
    assert train([log], cutting=CUT).users[0]["sessions"] == 1
    with pytest.raises(ParameterError, match="idle must be a finite number > 0; got inf"):
        SessionCutting(idle=math.inf)


def test_more_users_than_are_plausible_end_the_training(logs, monkeypatch):
    monkeypatch.setattr(training, "MAX_USERS", 2)
    with pytest.raises(TooLargeError, match="more than 2 users; is the right column taken for the user"):
        train(logs, cutting=CUT)


def test_bad_histories_are_skipped_and_reported(logs, tmp_path):
    training, _ = logs
    trained = train([tmp_path / "missing", training], cutting=CUT)
    assert len(trained.users) == 3
    assert len(trained.skipped) == 1 and "no such file" in str(trained)
    with pytest.raises(UnreadableError, match="no such file"):
        train([tmp_path / "missing"])
    (tmp_path / "blank").write_text("\n\n")
    with pytest.raises(UnreadableError, match="blank: holds no command; check the format"):
        train([tmp_path / "blank"])
    with pytest.raises(UnreadableError, match="no such file"):
        list(score(trained.model, [tmp_path / "missing"]))
    said = []
    assert len(list(score(trained.model, [tmp_path / "missing", training], on_error=said.append))) == 120
    assert len(said) == 1


def test_a_model_is_never_overwritten_unless_told(logs):
    training, _ = logs
    with pytest.raises(OutputExistsError, match="would overwrite the input"):
        train([training], training, force=True)
    model = training.with_suffix(".npz")
    train([training], model, cutting=CUT)
    with pytest.raises(OutputExistsError, match="exists already"):
        train([training], model, cutting=CUT)
    train([training], model, cutting=CUT, force=True)
    assert next(iter(score(model, [training]))).verdict == "own"
