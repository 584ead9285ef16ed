"""Command logs as streams: lines in, events out, sessions out, in bounded memory.

A log from a stranger may hold anything: lines of any length, in any encoding, cut in the middle. No line stops the
reading. What cannot be understood is skipped, what is too long is cut, and characters that could steer a terminal are
replaced.

=============  ======================================================================================================
``plain``      one command line a line
``bash``       history with ``#1700000000`` before each command
``zsh``        extended history, ``: 1700000000:0;command``
``acct``       ``lastcomm``: command, flags, user, terminal, seconds, time
``audit``      auditd's ``type=SYSCALL`` and ``type=EXECVE`` records; the user is AUID, else auid, else uid
``csv``        a header with a command column, as a rule also a user and a time column; comma, semicolon or tab
``jsonl``      one JSON object a line, keys as the columns of ``csv``
=============  ======================================================================================================
"""

from __future__ import annotations

import csv
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from visionnmf import _options
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError

from ._files import regular_file
from ._log_lines import Line, file_lines

__all__ = ["FORMATS", "Event", "Session", "first_lines", "read_events", "sessions"]

COMMAND_CHARACTERS = 128  # of a command's name that are kept
PEEKED_LINES = 50  # by which a format is recognised
MAX_USERS = 100_000
LONGEST_SESSION = 1000  # commands; a session by idle time is cut there
LATEST_TIME = 1e11  # seconds: what is later is no time

COMMAND_KEYS = ("command", "cmd", "comm", "process", "exe", "program", "action", "event")
USER_KEYS = ("user", "username", "user_name", "login", "account", "auid", "uid")
TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "date", "datetime", "epoch")

# Text in quotes, closed or not: an unclosed quote runs to the end, so that matching takes linear time.
_QUOTED = re.compile(r"'[^']*(?:'|$)|\"(?:\\.|[^\"\\])*(?:\"|\\?$)", re.DOTALL)
_SEPARATOR = re.compile(r"[|;&(){}]+")
_ASSIGNMENT = re.compile(r"\w+=")
_WRAPPERS = frozenset({"sudo", "doas", "env", "time", "nohup", "nice", "exec", "command", "builtin", "xargs", "watch"})
_SHELL = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "in", "case", "esac", "!"}
)

_BASH = re.compile(r"#(\d{8,11})\s*$")
_ZSH = re.compile(r": (\d{1,11}):\d+;")
_ACCT = re.compile(r"(\S{1,32})\s+(?:[A-Z]{1,6}\s+)*(\S{1,64})\s+\S+\s+\d+\.\d+ secs (.{16})")
_AUDIT = re.compile(r"type=(\w+) msg=audit\((\d+\.?\d*):(\d+)\)")
_AUDIT_PROGRAM = re.compile(r' a0=(?:"([^"]*)"|([0-9A-Fa-f]+))')
_AUDIT_USERS = tuple(re.compile(p) for p in (r'\bAUID="([^"]+)"', r"\bauid=(\d+)", r'\bUID="([^"]+)"', r"\buid=(\d+)"))
_NO_USER = frozenset({"unset", "4294967295", "-1"})


class Event(NamedTuple):
    """One command.

    Attributes
    ----------
    user : str
        Who ran it.
    command : str
        The program's name without folder, or the whole line.
    time : float or None
        Seconds since 1970, UTC; None where the log does not say.
    """

    user: str
    command: str
    time: float | None


@dataclass(frozen=True, slots=True)
class Session:
    """Successive commands of one user.

    Attributes
    ----------
    user : str
        The user.
    index : int
        The session's place among the user's, from 0.
    commands : tuple of str
        The commands in order.
    start, end : float or None
        Times of the first and the last command, in seconds since 1970, UTC.
    complete : bool
        Whether the session has its full length, or an idle time after it.
    """

    user: str
    index: int
    commands: tuple[str, ...]
    start: float | None
    end: float | None
    complete: bool


def read_events(
    source: str | Path | Iterable[Line],
    *,
    format: str = "auto",
    user: str | None = None,
    whole_lines: bool = False,
) -> Iterator[Event | None]:
    """Read the commands of a log.

    Parameters
    ----------
    source : str, Path or iterable of str
        A file, or its lines: those of :func:`follow`, whose None is handed on.
    format : str, default="auto"
        One of the formats above, or ``"auto"``: recognised by the first 50 lines.
    user : str or None, default=None
        The user where the log names none; None: the name of the file without suffix, or ``"user"``.
    whole_lines : bool, default=False
        Take a whole line of a shell history as one symbol, instead of the names of the programs in it.

    Returns
    -------
    iterator of Event or None
        One for each program that was run: a pipe of three is three.

    Raises
    ------
    ParameterError
        If `format` is none of those.
    UnreadableError
        If the file cannot be read, or is said to be ``csv`` and its header has no command column.
    """
    if format != "auto" and format not in FORMATS:
        raise ParameterError(f"format must be 'auto' or one of {', '.join(map(repr, FORMATS))}, got {format!r}.")
    name = "the log"
    lines: Iterator[Line]
    if isinstance(source, str | Path):
        name = str(source)
        path = regular_file(source, "input log")
        user = user if user is not None else path.stem.lstrip(".") or "user"
        lines = file_lines(path)
    else:
        lines = iter(source)
    if format == "auto":
        format, lines = _recognise(lines)
    decode = FORMATS[format]
    if format == "csv":
        return _csv(lines, user or "user", name)
    return decode(lines, user or "user", whole_lines)


def sessions(
    events: Iterable[Event | None],
    *,
    size: int = _options.SESSION_SIZE,
    idle: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Session]:
    """Cut each user's commands into sessions.

    Parameters
    ----------
    events : iterable of Event or None
        The commands of any number of users, as they come.
    size : int >= 1, default=100
        Commands a session. With `idle`, sessions longer than ``max(size, 1000)`` are cut.
    idle : float > 0 or None, default=None
        End a session after so many seconds without a command of the user, instead of after `size` commands.
    clock : callable, default=time.monotonic
        The seconds that pass while a log is followed.

    Yields
    ------
    Session
        As soon as it is complete; at the end of the events also what is left, with ``complete=False``.

    Raises
    ------
    ParameterError
        If `size` or `idle` has a value that is not allowed.
    UnsupportedError
        If `idle` is asked for and a command has no time.
    TooLargeError
        If there are more than 100,000 users.
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ParameterError(f"size must be an integer of at least 1, got {size!r}.")
    if idle is not None and not idle > 0:
        raise ParameterError(f"idle must be None or a number of seconds above 0, got {idle!r}.")
    longest = size if idle is None else max(size, LONGEST_SESSION)
    cut: dict[str, int] = {}
    growing: OrderedDict[str, _Growing] = OrderedDict()

    def close(user: str, complete: bool) -> Session:
        g = growing.pop(user)
        index = cut[user]
        cut[user] = index + 1
        start, end = g.start, g.end
        if start is not None and end is not None and end < start:
            start, end = end, start
        return Session(user, index, tuple(g.commands), start, end, complete)

    for event in events:
        if event is None:  # nothing new: whoever has been silent for long enough has ended a session
            while idle is not None and growing and clock() - next(iter(growing.values())).heard > idle:
                yield close(next(iter(growing)), True)
            continue
        user, command, moment = event
        if idle is not None and moment is None:
            raise UnsupportedError("idle needs the time of each command, and this log has none; cut sessions by size")
        if user not in cut:
            if len(cut) >= MAX_USERS:
                raise TooLargeError(f"more than {MAX_USERS} users; is the right column taken for the user?")
            cut[user] = 0
        # a log may run backwards, as that of lastcomm does
        if idle is not None and user in growing and abs(moment - (growing[user].end or 0.0)) > idle:  # type: ignore[operator]
            yield close(user, True)
        if user not in growing:
            growing[user] = _Growing(moment)
        g = growing[user]
        g.commands.append(command)
        g.end = moment
        if idle is not None:
            g.heard = clock()
            growing.move_to_end(user)
        if len(g.commands) >= longest:
            yield close(user, True)
    for user in list(growing):
        yield close(user, False)


class _Growing:
    """A session that may go on."""

    def __init__(self, start: float | None) -> None:
        self.commands: list[str] = []
        self.start = start
        self.end = start
        self.heard = 0.0


def first_lines(path: str | Path, format: str = "auto") -> tuple[str, list[str]]:
    """Look at the beginning of a log that is followed from its end.

    Parameters
    ----------
    path : str or Path
        The log; it may be missing or empty.
    format : str, default="auto"
        As in :func:`read_events`.

    Returns
    -------
    format : str
        The format, ``"auto"`` as long as the log has no lines.
    header : list of str
        The lines without which the rest cannot be read: the header of ``csv``.
    """
    try:
        lines = list(islice(file_lines(Path(path)), PEEKED_LINES))
    except OSError:
        return format, []
    texts = [line for line in lines if line.strip()]
    if texts and format == "auto":
        format = _format_of(texts)
    return format, texts[:1] if format == "csv" else []


def _recognise(lines: Iterator[Line]) -> tuple[str, Iterator[Line]]:
    """Look at the first lines; return the format and all the lines from the first that is not empty."""
    seen: list[Line] = []
    for line in lines:
        if line and line.strip():
            seen.append(line)
        if len(seen) >= PEEKED_LINES or (line is None and seen):
            break
    return _format_of([line for line in seen if line]), chain(seen, lines)


def _format_of(texts: list[str]) -> str:
    if not texts:
        return "plain"
    tests: dict[str, Callable[[str], object]] = {
        "jsonl": lambda line: line.lstrip().startswith("{") and line.rstrip().endswith("}"),
        "audit": _AUDIT.search,
        "zsh": _ZSH.match,
        "acct": _ACCT.match,
    }
    for name, test in tests.items():
        if 2 * sum(bool(test(line)) for line in texts) >= len(texts):
            return name
    if sum(bool(_BASH.match(line)) for line in texts) * 4 >= len(texts):
        return "bash"
    try:
        columns = next(csv.reader([texts[0]], delimiter=_delimiter(texts[0])), [])
    except csv.Error:
        return "plain"
    return "csv" if len(columns) > 1 and _column(columns, COMMAND_KEYS) is not None else "plain"


def _clean(name: str) -> str:
    name = name[:COMMAND_CHARACTERS]
    return name if name.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in name)


def _programs(line: str, whole: bool) -> list[str]:
    """Return the names of the programs that a command line runs."""
    line = line.strip()
    if not line:
        return []
    if whole:
        return [_clean(line)]
    if "'" in line or '"' in line:
        line = _QUOTED.sub("_", line)
    found = []
    for part in _SEPARATOR.split(line) if not line.isalnum() else (line,):
        wrapped = False
        for word in part.split():
            if wrapped and word[0] == "-":
                continue
            if _ASSIGNMENT.match(word) or word in _SHELL:
                continue
            program = _clean(word.rstrip("/").rsplit("/", 1)[-1])
            if not program or program[0] in "<>#":
                break
            found.append(program)
            wrapped = program in _WRAPPERS
            if not wrapped:
                break
    return found


def _plain(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    for line in lines:
        if line is None:
            yield None
        else:
            for program in _programs(line, whole):
                yield Event(user, program, None)


def _bash(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    moment: float | None = None
    for line in lines:
        if line is None:
            yield None
        elif match := _BASH.match(line):
            moment = float(match[1])
        else:
            for program in _programs(line, whole):
                yield Event(user, program, moment)


def _zsh(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    goes_on = False  # the line before ended in a backslash: this one is the rest of its command
    for line in lines:
        if line is None:
            yield None
            continue
        match = _ZSH.match(line)
        if match and not goes_on:
            for program in _programs(line[match.end() :], whole):
                yield Event(user, program, float(match[1]))
        goes_on = line.endswith("\\") and (bool(match) or goes_on)


def _acct(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    for line in lines:
        if line is None:
            yield None
        elif match := _ACCT.match(line):
            # lastcomm gives no year: only differences of times mean something
            yield Event(_clean(match[2]), _clean(match[1]), _time(match[3], "%a %b %d %H:%M"))


def _audit(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    serial, owner = "", user
    for line in lines:
        if line is None:
            yield None
            continue
        match = _AUDIT.search(line)
        if not match:
            continue
        if match[1] == "SYSCALL":
            names = (found[1] for pattern in _AUDIT_USERS if (found := pattern.search(line)))
            serial, owner = match[3], next((name for name in names if name not in _NO_USER), user)
        elif match[1] == "EXECVE" and (program := _AUDIT_PROGRAM.search(line)):
            name = program[1]
            if name is None:  # names with unusual characters are written in hexadecimal
                name = bytes.fromhex(program[2][: len(program[2]) // 2 * 2]).decode("utf-8", "replace")
            name = _clean(name.rstrip("/").rsplit("/", 1)[-1])
            if name:
                yield Event(_clean(owner) if match[3] == serial else user, name, _seconds(match[2]))


def _csv(lines: Iterator[Line], user: str, name: str) -> Iterator[Event | None]:
    header: list[str] | None = None
    command = who = when = None
    delimiter = ","
    for line in lines:
        if line is None:
            yield None
            continue
        if not line.strip():
            continue
        try:  # line by line: an unclosed quote must not swallow the rest of the log
            row = next(csv.reader([line], delimiter=delimiter if header else _delimiter(line)), [])
        except csv.Error:
            continue
        if header is None:
            header, delimiter = row, _delimiter(line)
            command, who, when = (_column(row, keys) for keys in (COMMAND_KEYS, USER_KEYS, TIME_KEYS))
            if command is None:
                raise UnreadableError(
                    f"{name}: the header has no command column; one must be called {', '.join(COMMAND_KEYS)}"
                )
            continue
        assert command is not None
        if row == header:  # of the next file, after a rotation
            continue
        if len(row) > command and (text := row[command].strip()):
            owner = row[who].strip() if who is not None and len(row) > who else ""
            moment = _seconds(row[when]) if when is not None and len(row) > when else None
            for program in _programs(text, False):
                yield Event(_clean(owner) or user, program, moment)


def _jsonl(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    for line in lines:
        if line is None:
            yield None
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict):
            continue
        values = [
            next((record[key] for key in keys if record.get(key) is not None), None)
            for keys in (COMMAND_KEYS, USER_KEYS, TIME_KEYS)
        ]
        if not isinstance(values[0], str):
            continue
        owner = _clean(str(values[1])) if isinstance(values[1], str | int) else user
        for program in _programs(values[0], whole):
            yield Event(owner, program, _seconds(values[2]))


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _column(header: list[str], keys: Iterable[str]) -> int | None:
    names = [name.strip().lower() for name in header]
    return next((names.index(key) for key in keys if key in names), None)


def _seconds(value: object) -> float | None:
    """Return seconds since 1970 from a number or an ISO 8601 time; None from anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        try:
            return moment.timestamp()
        except (OverflowError, ValueError):
            return None
    return number if 0 <= number < LATEST_TIME else None


def _time(text: str, pattern: str) -> float | None:
    try:
        return datetime.strptime(f"2024 {text.strip()}", f"%Y {pattern}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


FORMATS: dict[str, Callable[[Iterator[Line], str, bool], Iterator[Event | None]]] = {
    "plain": _plain,
    "bash": _bash,
    "zsh": _zsh,
    "acct": _acct,
    "audit": _audit,
    "csv": lambda lines, user, whole: _csv(lines, user, "the log"),
    "jsonl": _jsonl,
}
