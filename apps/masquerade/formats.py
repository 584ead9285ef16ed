"""Formats of command logs: lines in, events out.

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
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from visionnmf.exceptions import UnreadableError

from .command_lines import clean, programs
from .lines import Line

__all__ = ["FIRST_TIME", "FORMATS", "Event", "format_of", "read_csv"]

LATEST_TIME = 1e11  # seconds: what is later is no time
FIRST_TIME = 94_694_400.0  # 1973: no log says when a command before that was run
SERIALS_KEPT = 1000  # of auditd's events whose records may still come

COMMAND_KEYS = ("command", "cmd", "comm", "process", "exe", "program", "action", "event")
USER_KEYS = ("user", "username", "user_name", "login", "account", "auid", "uid")
TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "date", "datetime", "epoch")
_COMMAND_KEYS = frozenset(COMMAND_KEYS)
_KEYS = frozenset(COMMAND_KEYS + USER_KEYS + TIME_KEYS)

Columns = tuple[int | None, int | None, int | None]  # of the command, the user and the time

_BASH = re.compile(r"#(\d{8,11})\s*$")
_ZSH = re.compile(r": (\d{1,11}):\d+;")
_ACCT = re.compile(r"(\S{1,32})\s+(?:[A-Z]{1,6}\s+)*(\S{1,64})\s+\S+\s+\d+\.\d+ secs (.{16})")
_AUDIT = re.compile(r"type=(\w+) msg=audit\((\d{1,12}(?:\.\d{1,9})?):(\d{1,20})\)")  # bounded: linear time
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


def format_of(texts: list[str]) -> str:
    """Recognise a format by some lines that are not empty."""
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


def _plain(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    for line in lines:
        if line is None:
            yield None
        else:
            for program in programs(line, whole):
                yield Event(user, program, None)


def _bash(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    moment: float | None = None
    for line in lines:
        if line is None:
            yield None
        elif match := _BASH.match(line):
            moment = float(match[1])
        else:
            for program in programs(line, whole):
                yield Event(user, program, moment)


def _zsh(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    goes_on = False  # the line before ended in a backslash: this one is the rest of its command
    for line in lines:
        if line is None:
            yield None
            continue
        match = _ZSH.match(line)
        if match and not goes_on:
            for program in programs(line[match.end() :], whole):
                yield Event(user, program, float(match[1]))
        goes_on = line.endswith("\\") and (bool(match) or goes_on)


def _acct(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    for line in lines:
        if line is None:
            yield None
        elif match := _ACCT.match(line):
            yield Event(clean(match[2]), clean(match[1]), _without_year(match[3], "%a %b %d %H:%M"))


def _audit(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    owners: OrderedDict[str, str] = OrderedDict()  # by serial: the records of events may be interleaved
    for line in lines:
        if line is None:
            yield None
            continue
        match = _AUDIT.search(line)
        if not match:
            continue
        if match[1] == "SYSCALL":
            names = (found[1] for pattern in _AUDIT_USERS if (found := pattern.search(line)))
            owners[match[3]] = clean(next((name for name in names if name not in _NO_USER), user))
            owners.move_to_end(match[3])
            if len(owners) > SERIALS_KEPT:
                owners.popitem(last=False)
        elif match[1] == "EXECVE" and (program := _AUDIT_PROGRAM.search(line)):
            name = program[1]
            if name is None:  # names with unusual characters are written in hexadecimal
                name = bytes.fromhex(program[2][: len(program[2]) // 2 * 2]).decode("utf-8", "replace")
            name = clean(name.rstrip("/").rsplit("/", 1)[-1])
            if name:
                yield Event(owners.get(match[3], user), name, _seconds(match[2]))


def read_csv(lines: Iterator[Line], user: str, whole: bool, name: str = "the log") -> Iterator[Event | None]:
    """Read a table; `name` is what an error calls it."""
    header: list[str] | None = None
    columns: Columns = None, None, None
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
        if header is None or _is_header(row, header, columns):
            delimiter = _delimiter(line) if header is None else delimiter
            header, columns = row, _columns(row)
            if columns[0] is None:
                raise UnreadableError(
                    f"{name}: the header has no command column; one must be called {', '.join(COMMAND_KEYS)}"
                )
            continue
        command, who, when = columns
        assert command is not None
        if len(row) > command and (text := row[command].strip()):
            owner = row[who].strip() if who is not None and len(row) > who else ""
            moment = _seconds(row[when]) if when is not None and len(row) > when else None
            for program in programs(text, whole):
                yield Event(clean(owner) or user, program, moment)


def _columns(header: list[str]) -> Columns:
    return _column(header, COMMAND_KEYS), _column(header, USER_KEYS), _column(header, TIME_KEYS)


def _is_header(row: list[str], header: list[str], columns: Columns) -> bool:
    """Say whether the header of another file follows, after a rotation.

    Whoever chooses the words of a command must not be able to write one: the row has to have all the columns that were
    there, and no time where times are, or else no user where users are.
    """
    if row == header:
        return True
    names = [name.strip().lower() for name in row]
    if _COMMAND_KEYS.isdisjoint(names):
        return False
    if any(old is not None and new is None for old, new in zip(columns, _columns(row), strict=True)):
        return False
    _, who, when = columns
    if when is not None:
        return len(row) > when and bool(names[when]) and _seconds(row[when]) is None
    known = _KEYS.union(name.strip().lower() for name in header)
    return who is not None and len(row) > who and names[who] in known


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
        # as in a table: the first of equal names, whatever their case
        record = {key.strip().lower(): value for key, value in reversed(record.items())}
        values = [
            next((record[key] for key in keys if record.get(key) is not None), None)
            for keys in (COMMAND_KEYS, USER_KEYS, TIME_KEYS)
        ]
        if not isinstance(values[0], str):
            continue
        owner = clean(str(values[1]).strip()) if isinstance(values[1], str | int) else ""
        for program in programs(values[0], whole):
            yield Event(owner or user, program, _seconds(values[2]))


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
            number = moment.timestamp()
        except (OverflowError, ValueError):
            return None
    return number if 0 <= number < LATEST_TIME else None


def _without_year(text: str, pattern: str) -> float | None:
    """Return a time in a leap year before FIRST_TIME: only differences of such times mean something."""
    try:
        return datetime.strptime(f"1972 {text.strip()}", f"%Y {pattern}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


FORMATS: dict[str, Callable[[Iterator[Line], str, bool], Iterator[Event | None]]] = {
    "plain": _plain,
    "bash": _bash,
    "zsh": _zsh,
    "acct": _acct,
    "audit": _audit,
    "csv": read_csv,
    "jsonl": _jsonl,
}
