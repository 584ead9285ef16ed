"""Readers: what each format means, hostile input, and sessions."""

import json
import random
import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.masquerade import Event, read_events, session_cutter, sessions
from visionnmf.exceptions import ParameterError, UnreadableError, UnsupportedError

odd_lines = pytest.mark.filterwarnings("ignore:.* cannot be read in [0-9]+ line")

# format, text, events
FORMATS = {
    "plain": (
        "ls -l\n\ncat /etc/passwd | grep root && /usr/bin/make -j4\n  sudo -u bob apt update; FOO=1 ./run.sh\n",
        [("me", c, None) for c in ("ls", "cat", "grep", "make", "sudo", "run.sh")],
    ),
    "bash": (
        "cd\n#1700000000\nls -l\n#1700000060\nvi 'a | b; c'\n",
        [("me", "cd", None), ("me", "ls", 1.7e9), ("me", "vi", 1.7e9 + 60)],
    ),
    "zsh": (
        ": 1700000000:0;ls -l\n: 1700000060:5;for i in a b\\\ndo echo x\\\ndone\n: 1700000070:0;make\n",
        [("me", "ls", 1.7e9), ("me", "echo", 1.7e9 + 60), ("me", "make", 1.7e9 + 70)],
    ),
    "csv": (
        'Time;User;Command\n1700000000;alice;"ls; cd"\n2023-11-14T22:13:21;bob;/bin/cat\nnonsense;;make\nshort\n',
        [("alice", "ls", 1.7e9), ("alice", "cd", 1.7e9), ("bob", "cat", 1.7e9 + 1), ("me", "make", None)],
    ),
    "jsonl": (
        '{"user": "alice", "cmd": "ls -l", "ts": 1700000000}\nnot json\n[1]\n{"user": 7, "command": "a|b"}\n'
        '{"command": 3}\n{"command": "c", "@timestamp": "2023-11-14T22:13:21+00:00", "user": null}\n',
        [("alice", "ls", 1.7e9), ("7", "a", None), ("7", "b", None), ("me", "c", 1.7e9 + 1)],
    ),
}


@odd_lines
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_format_is_read_and_recognised(name, automatic, end, tmp_path):
    text, expected = FORMATS[name]
    path = tmp_path / "me.log"
    path.write_bytes(text.replace("\n", end).encode())
    found = list(read_events(path, format="auto" if automatic else name))
    assert [event[:3] for event in found] == expected
    lines = text.splitlines()
    assert all((event.source, event.text) == (str(path), lines[event.line - 1]) for event in found)


def test_an_entry_of_zsh_ends_where_the_next_begins():
    lines = ["plain", ": 1700000000:0;echo a\\", ": 1700000001:0;ls", ": 1700000002:0;cat <<E\\", "x\\", "E", "vi"]
    found = [(event.command, event.time) for event in read_events(lines, format="zsh")]
    times = zip(("echo", "ls", "cat", "x", "E"), (0, 1, 2, 2, 2), strict=True)
    assert found == [("plain", None), *((command, 1.7e9 + after) for command, after in times), ("vi", None)]


@pytest.mark.parametrize("header", ["CommandLine", "command_line", "Command Line", "ProcessCommandLine"])
def test_columns_are_found_however_their_names_are_written(header):
    table = [f"UtcTime,User_Name,{header}", *["1700000000,ada,ls -l"] * 60]
    assert {event[:3] for event in read_events(table)} == {("ada", "ls", 1.7e9)}
    objects = [json.dumps({"UtcTime": 1.7e9, "UserName": "ada", header: "ls -l"})] * 60
    assert {event[:3] for event in read_events(objects)} == {("ada", "ls", 1.7e9)}


NO_HISTORIES = {
    "table": (["when;who;what", *[f"{i};ada;ls -l" for i in range(80)]], "a table without a command column"),
    "table with tabs": ([f"{i}\tada\tls" for i in range(80)], "a table without a command column"),
    "short table": (["who,what,when", "ann,ls,3"], "a table without a command column"),
    "short table in quotes": (['"who"; "what"', '"ann"; "ls"', '"ben"; "cd"'], "a table without a command column"),
    "entries": (["- entry: ls", "  at: 5"] * 40, "would be only - and at:"),
    "levels": (["INFO began", "WARN late", "INFO"] * 20, "would be only INFO and WARN"),
    "text": (
        ["A session is a hundred", "commands of one user.", "It ends then,", "or", "later."],
        "a text, .*: 4 of its",
    ),
    "list": (["* To do", "* buy bread", "* and milk", "* sleep", "1. again"], r"would be such as \*"),
    "serial numbers": ([f"{i}:ls" for i in range(80)], "would be all different"),
    "stamped": ([f"2023-11-14T22:13:{i:02} ls" for i in range(60)], "would be all different"),
    "numbered": ([f"  {i}  ls" for i in range(60)], "would be all different"),
    "few numbered": ([f"  {i}* ls" for i in (7, 8, 9)], "would be such as 7"),
    "fish": (["- cmd: ls", "  when: 1700000000", "- cmd: cd"] * 5, "would be such as -"),
}


@pytest.mark.parametrize("name", NO_HISTORIES)
def test_what_is_no_history_is_refused_unless_the_format_is_given(name, tmp_path):
    lines, message = NO_HISTORIES[name]
    path = tmp_path / "me.log"
    path.write_text("\n".join(lines))
    with pytest.raises(UnreadableError, match=f"me.log: .*{message}.* give format='plain'"):
        list(read_events(path))
    assert len(list(read_events(path, format="plain"))) >= len(lines)
    few = ["ls", "cd"] * 20, ["cat"] * 60, ["ls", "cd a"] * 30, ["ls a,b", "cp c,d e"], ["cd a; make", "cd b; ls -l"]
    for history in (*few, ["ls .", "cd ..", "R CMD x", "X=1 y", "# a"]):
        assert list(read_events(history))


def test_json_of_many_lines_is_refused():
    records = [{"user": "ada", "command": "ls"}] * 60
    for indent in (None, 1):
        for content in (records, records[0]) if indent else (records,):
            with pytest.raises(UnreadableError, match="one object a line"):
                list(read_events(json.dumps(content, indent=indent).split("\n")))
    assert list(read_events(["[ -f x ]", "ls"]))


@pytest.mark.parametrize("header", ["CommandLine", "cmdline", '"Command"'])
def test_a_table_may_have_one_column(header):
    assert {event.command for event in read_events([header, *['"git commit -m ""a, b"""'] * 60])} == {"git"}
    for name in ("exe", "cmd"):  # which somebody may have typed
        assert [event.command for event in read_events([name, "ls"])] == [name, "ls"]
    unquoted = read_events([header, *["git add a,b"] * 60], whole_lines=True)
    assert {event.command for event in unquoted} == {"git add a,b"}


def test_the_file_names_the_user_unless_told(tmp_path):
    path = tmp_path / ".bash_history"
    path.write_text("ls\n")
    assert next(read_events(path)).user == "bash_history"
    assert next(read_events(path, user="eve")).user == "eve"
    assert next(read_events(["ls"])).user == "user"


def test_whole_lines_are_symbols_when_asked():
    assert [e.command for e in read_events(["git push", " a | b "], whole_lines=True)] == ["git push", "a | b"]


def test_only_the_header_itself_is_a_header_again():
    rows = ["user,command,a", "eve,command,user", "user,command,a", "eve,ls,"]
    assert [e.command for e in read_events(rows, format="csv")] == ["command", "ls"]


@pytest.mark.parametrize(
    "time", ["9999-01-01T00:00:00", "0001-01-01T00:00:00", "1969-12-31", "-1", "1e21", "nan", "133485408000000000"]
)
def test_times_out_of_range_are_none(time):
    log = [json.dumps({"command": "ls", "time": time})]
    with pytest.warns(UserWarning, match=f"^the log: the time cannot be read in 1 line, first '{time}'; give seconds"):
        (event,) = read_events(log, format="jsonl")
    assert event.time is None


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("seconds", [1_000_000_000, 1_700_000_001, 4_000_000_000])
def test_times_may_be_parts_of_seconds(unit, seconds):
    """Milliseconds of JavaScript, microseconds of journald, nanoseconds of Go."""
    lines = [json.dumps({"command": "ls", "time": time}) for time in (seconds * unit, str(seconds * unit))]
    assert [event.time for event in read_events(lines)] == pytest.approx([seconds] * 2, abs=1e-6)


@pytest.mark.parametrize("format", ["csv", "jsonl", "bash", "zsh"])
@pytest.mark.parametrize("given", ["auto", "as it is"])
def test_logs_that_begin_with_the_latest_line_are_refused(format, given, tmp_path):
    """As many log servers export them; pairs of commands would run backwards."""
    commands = ["ls", "cd src", "vi a.py", "make", "ls", "git commit", "cd ..", "make"]

    def rows(times):
        for moment, command in zip(times, commands, strict=True):
            yield {
                "csv": f"{moment},{command}",
                "jsonl": json.dumps({"time": moment, "command": command}),
                "bash": f"#{moment}\n{command}",
                "zsh": f": {moment}:0;{command}",
            }[format]

    def read(times):
        path = tmp_path / "log"
        path.write_text("\n".join(["time,command"] * (format == "csv") + [*rows(times)]) + "\n")
        return [event.time for event in read_events(path, format=format if given == "as it is" else given)]

    times = [1_700_000_000 + step for step in (0, 5, 5, 9, 20, 30, 31, 60)]
    assert read(times) == times
    with pytest.raises(UnreadableError, match=r"log: its times run backwards; sort its lines, .*tac"):
        read(times[::-1])
    mixed = [*times[4:], *times[:4]]  # the history of one shell after that of another
    assert read(mixed) == mixed
    assert read(times[:1] * 8) == times[:1] * 8


@pytest.mark.parametrize("time", [True, [3], {"at": 3}])
def test_what_is_no_time_is_counted(time):
    lines = [json.dumps({"command": "ls", "time": each}) for each in (None, "", 3, time, time, "yesterday")]
    with pytest.warns(UserWarning, match=f"in 3 lines, first '{type(time).__name__}'"):
        found = [event.time for event in read_events(lines, format="jsonl")]
    assert found == [None, None, 3.0, None, None, None]


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("name", ["jsonl", "csv"])
def test_lines_that_make_no_sense_are_counted(name, tmp_path):
    """A fifth of a log vanished without a word."""
    line = {"jsonl": '{"user": "ann", "command": "ls"}', "csv": "5,ann,ls"}[name]
    header = ["time,user,command"] if name == "csv" else []
    senseless = {"jsonl": [line[:20], "3", '{"user": "ann"}', '{"command": 3}', "[" * 60_000], "csv": ["5,ann", "5"]}[
        name
    ]
    blank = ["", "  ", *header, {"jsonl": '{"command": ""}', "csv": "5,ann,"}[name]]  # no commands, and no faults
    path = tmp_path / f"log.{name}"
    path.write_text("\n".join([*header, line, *senseless, *blank, line]))
    counted = f"the command cannot be read in {len(senseless)} lines, first "
    with pytest.warns(UserWarning) as caught:
        assert [event.command for event in read_events(path)] == ["ls", "ls"]
    assert [str(one.message)[: len(str(path)) + 2 + len(counted)] for one in caught] == [f"{path}: {counted}"]
    assert repr(senseless[0]) in str(caught[0].message)
    model = tmp_path / "m.npz"
    path.write_text("\n".join([*header, *[line] * 45, *senseless]))
    for command in (("train", path, "--model", model, "--size", 10), ("score", model, path)):
        found = run_command("masquerade", *command, "--json")
        assert found.exit_code == 0, found.stderr
        assert counted in "".join(json.loads(found.stdout.splitlines()[-1])["warnings"])
    assert list(read_events(["{", "}", "ls -l", *blank[:2]], format="plain"))  # of plain text any line may be a command


def test_the_command_says_how_a_format_is_given(tmp_path):
    (tmp_path / "who.csv").write_text("time,user,what\n1,a,b\n")
    refused = run_command("masquerade", "train", tmp_path / "who.csv", "--model", tmp_path / "m.npz")
    assert refused.exit_code == 2 and "if each line is a command nevertheless, give --format plain" in refused.stderr
    (tmp_path / "a.log").write_text("ls\ncd\nmake\n" * 30)
    assert run_command("masquerade", "train", tmp_path / "a.log", "--model", tmp_path / "m.npz").exit_code == 0
    refused = run_command("masquerade", "score", tmp_path / "m.npz", tmp_path / "who.csv")
    assert refused.exit_code == 2 and "if each line is a command nevertheless, give --format plain" in refused.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8-sig"])
def test_other_encodings_are_read_as_far_as_they_go(encoding, tmp_path):
    path = tmp_path / "log"
    path.write_bytes("ls\ncat café\nmake\n".encode(encoding))
    assert [e.command for e in read_events(path)] == ["ls", "cat", "make"]


def test_a_table_in_latin_1_is_refused_with_the_cure_unless_the_format_is_given(tmp_path):
    path = tmp_path / "log.csv"
    text = "user,command\r\nann,ls\r\nbjörn,ls\r\n" + "ann,cd\r\n" * 2000
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnreadableError, match=r"log.csv: line 3 is not UTF-8; .* iconv -f latin1 -t utf-8 OLD > NEW$"):
        list(read_events(path))
    with pytest.warns(UserWarning, match="the name of a user cannot be read in 1 line, first 'bj\ufffdrn'; .*iconv"):
        assert len(list(read_events(path, format="csv"))) == 2002
    path.write_bytes(text.encode())
    assert {event.user for event in read_events(path)} == {"ann", "björn"}


def test_lines_that_are_damaged_later_are_counted(tmp_path):
    """A line that somebody adds to a log must not hide those of others."""
    for place, words in ((1, "björn,ls\n".encode()), (3000, b"ann,cd\n")):  # not Latin-1; after what is looked at
        path = tmp_path / "log.csv"
        rows = [b"user,command\n", words, *[b"ann,ls\n"] * 4000]
        rows.insert(place, "zoë,nc\n".encode("latin-1"))
        path.write_bytes(b"".join(rows))
        with pytest.warns(UserWarning, match="the name of a user cannot be read in 1 line, first 'zo\ufffd'"):
            assert len(list(read_events(path))) == 4002


@odd_lines
def test_nothing_that_steers_a_terminal_gets_through(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"user": "\x1b[2Jeve\ud800", "command": "\x1b]0;x\x07 a"}) + "\n")
    path2 = tmp_path / "plain"
    path2.write_bytes(b"\x1b[31mls\n\x9b31m\n")
    for event in [*read_events(path), *read_events(path2), *read_events(path2, whole_lines=True)]:
        assert event.command.isprintable() and event.user.isprintable()
        (event.command + event.user).encode()
    path3 = tmp_path / "\x1b[2Jlog.txt"
    path3.write_text("ls\n")
    assert next(read_events(path3)).user == "\ufffd[2Jlog"
    assert next(read_events(["ls"], user="\x9b31m\udc80")).user == "\ufffd31m\ufffd"


@odd_lines
@pytest.mark.parametrize("name", FORMATS)
def test_random_bytes_and_damaged_lines_never_stop_the_reading(name, tmp_path):
    rng = random.Random(5)
    text = FORMATS[name][0].encode()
    path = tmp_path / "log"
    for _ in range(60):
        damaged = bytearray(text * 3)
        for _ in range(rng.randrange(1, 30)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(text[: text.index(b"\n") + 1] + bytes(damaged) + rng.randbytes(50))
        for event in read_events(path, format=name):
            assert event.command and event.user
            assert event.time is None or 0 <= event.time < 1e11


HOSTILE = {
    "open quotes": "\"'" * 30_000,
    "escaped quotes": '"\\' * 30_000,
    "separators": "|;&" * 20_000,
    "words": "sudo " * 12_000,
    "digits": "#" + "1" * 60_000,
    "deep json": '{"a":' * 10_000,
    "brackets": "[" * 60_000,
    "long number": '{"command": "a", "time": ' + "9" * 5000 + "}",
    "infinite time": '{"command": "a", "time": 1e999, "user": NaN}',
}


@odd_lines
@pytest.mark.parametrize("name", [*FORMATS, "auto"])
@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_lines_are_read_in_linear_time(name, line):
    header = ["time,user,command"] if name == "csv" else []
    start = time.process_time()
    with suppress(UnreadableError):  # most lines are no commands
        for event in read_events([*header, *[line] * 5, "ls"], format=name):
            assert len(event.command) <= 128 and len(event.user) <= 128
    assert time.process_time() - start < 2


def test_endless_lines_take_bounded_memory(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        for _ in range(30):
            file.write(b"x" * (1 << 20))
        file.write(b"\nls\n")
    tracemalloc.start()
    commands = [e.command for e in read_events(path)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert commands == ["x" * 128, "ls"]
    assert peak < 8 << 20


def test_unreadable_logs_say_why(tmp_path):
    with pytest.raises(UnreadableError, match="no such file"):
        read_events(tmp_path / "missing")
    (tmp_path / "empty").touch()
    with pytest.raises(UnreadableError, match="the file is empty"):
        read_events(tmp_path / "empty")
    (tmp_path / "no.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UnreadableError, match=r"no\.csv: the header has no command column; one must be called command"):
        list(read_events(tmp_path / "no.csv", format="csv"))
    with pytest.raises(ParameterError, match=r"format must be one of \['auto', 'plain', 'bash'.*; got 'evtx'"):
        read_events(tmp_path / "no.csv", format="evtx")


# --- sessions ---------------------------------------------------------------------------------------------------------


def events(text, times=None):
    return [Event(c.upper(), c, None if times is None else float(t)) for c, t in zip(text, times or text, strict=True)]


def test_sessions_by_count_keep_users_apart():
    found = list(sessions(events("aabababbb"), size=3))
    assert [(s.user, s.index, "".join(s.commands), s.complete) for s in found] == [
        ("A", 0, "aaa", True),
        ("B", 0, "bbb", True),
        ("A", 1, "a", False),
        ("B", 1, "bb", False),
    ]


def test_sessions_by_idle_time():
    found = list(sessions(events("aabaab", [0, 10, 15, 100, 101, 99]), idle=50.0))
    assert [(s.user, s.index, s.start, s.end, s.complete) for s in found] == [
        ("A", 0, 0, 10, True),
        ("B", 0, 15, 15, True),
        ("A", 1, 100, 101, False),
        ("B", 1, 99, 99, False),
    ]
    backwards = list(sessions(events("aaab", [200, 190, 100, 95]), idle=50.0))
    assert [(s.user, s.start, s.end) for s in backwards] == [("A", 190, 200), ("A", 100, 100), ("B", 95, 95)]
    long = sessions((Event("A", "a", float(i)) for i in range(2500)), idle=50.0)
    assert [len(s.commands) for s in long] == [1000, 1000, 500]
    # commands without a time end no session
    mixed = [("b", None), ("a", 1.0), ("b", None), ("a", None), ("a", 2.0), ("a", 99.0)]
    found = list(sessions((Event(u, u, t) for u, t in mixed), idle=50.0))
    assert [(s.user, len(s.commands), s.start, s.end, s.complete) for s in found] == [
        ("a", 3, 1.0, 2.0, True),
        ("a", 1, 99.0, 99.0, False),
    ]


@pytest.mark.slow
def test_made_up_users_do_not_end_the_cutting(monkeypatch):
    monkeypatch.setattr(session_cutter, "MAX_USERS", 3)
    for idle in (None, 50.0):
        found = list(sessions(events("abcadea", [0] * 7), size=3, idle=idle))
        cut = [(s.user, s.index, "".join(s.commands), s.complete) for s in found]
        assert cut[:2] == [("B", 0, "b", False), ("C", 0, "c", False)]  # the longest silent
        assert ("A", 0, "aaa", idle is None) in cut and len(cut) == 5
    again = list(sessions(events("abcdab"), size=1))
    assert [(s.user, s.index) for s in again] == [("A", 0), ("B", 0), ("C", 0), ("D", 0), ("A", 0), ("B", 0)]
    tracemalloc.start()
    n = sum(1 for _ in sessions(Event(f"u{i}", "ls", None) for i in range(20_000)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n == 20_000
    assert peak < 1 << 18


def test_a_command_is_kept_once_however_often_it_is_run(monkeypatch):
    lines = ["make", "git push", "sed s/a/b/"] * 50
    kept = [command for s in sessions(read_events(lines), size=10) for command in s.commands]
    assert len(kept) == 150 and len({id(command) for command in kept}) == 3
    monkeypatch.setattr(session_cutter, "SHARED_NAMES", 2)  # and the table is bounded
    assert [c for s in sessions(read_events(lines), size=10) for c in s.commands] == kept


def test_sessions_refuse_what_they_cannot_cut():
    with pytest.raises(ParameterError, match="size must be a whole number >= 1; got 0"):
        list(sessions([], size=0))
    with pytest.raises(ParameterError, match="idle must be a number of seconds > 0; got -1"):
        list(sessions([], idle=-1))
    with pytest.raises(UnsupportedError, match="idle needs the time of each command"):
        list(sessions(events("a"), idle=5.0))


def test_a_format_is_recognised_as_soon_as_standard_input_has_lines():
    stream = iter([None, None, ": 1700000000:0;ls", None, ": 1700000001:0;cd"])
    found = list(read_events(stream))
    assert [event[:3] for event in found] == [("user", "ls", 1.7e9), ("user", "cd", 1.7e9 + 1)]


@pytest.mark.parametrize("seed", range(8))
def test_garbage_is_no_fault_of_ours(seed, tmp_path):
    path = tmp_path / "garbage"
    path.write_bytes(np.random.default_rng(seed).bytes(20_000))
    with pytest.raises(UnreadableError, match="not a text file"):
        list(read_events(path))


@pytest.mark.parametrize("n", [5, 20, 60])
@pytest.mark.parametrize(
    "form",
    [
        "$ {}", "root@host:~# {}", "C:\\Users\\ada>{}", "➜  src {}", "[{n}] {}", "{n}: {}", "{n} {}", "10:00:{n} {}",
        "- {}", "+ {}", "ada: {}", "2023-11-06 10:00:{n} {}", '"{}"',
    ],
)  # fmt: skip
def test_short_logs_of_an_unknown_form_are_refused(form, n):
    commands = ["ls -la", "cd src", "git status", "vim a.py", "ls"] * 12
    lines = [form.format(command, n=10 + number) for number, command in enumerate(commands[:n])]
    with pytest.raises(
        UnreadableError, match=r"commands would be .*give format='plain'|table without a command column"
    ):
        list(read_events(lines))
    assert len(list(read_events(commands[:n]))) == n
