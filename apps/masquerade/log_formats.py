"""The formats of command logs, and how their lines become events.

=============  ======================================================================================================
``plain``      one command line on each line
``bash``       history with ``#1700000000`` before each command
``zsh``        extended history, ``: 1700000000:0;command``
``acct``       output of ``lastcomm``: command, flags, user, terminal, seconds, time
``audit``      auditd's ``type=SYSCALL`` and ``type=EXECVE`` records; the user is AUID, else auid, else uid
``csv``        a header with a command column, usually also a user and a time column; comma, semicolon or tab
``jsonl``      one JSON object on each line, with the keys of the columns of ``csv``
=============  ======================================================================================================

An untrusted log may hold anything: lines of any length, in any encoding, cut in the middle. No line stops the reading.
Lines that make no sense are skipped, long lines are cut, and characters that could control a terminal are replaced.
"""

from __future__ import annotations

import csv
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from visionnmf._checks import check_choice
from visionnmf.exceptions import UnreadableError
from visionnmf.io import regular_file
from visionnmf.io.text_lines import Line, Place, check_is_text, file_lines, standard_input

from .command_lines import clean, programs, without_here_documents

__all__ = ["FIRST_TIME", "FORMATS", "STANDARD_INPUT", "Event", "first_lines", "read_events", "with_commands"]

STANDARD_INPUT = "-"
EXAMINED_LINES = 50  # by which a format is recognised
LATEST_TIME = 1e11  # seconds since 1970; larger numbers are not times
FIRST_TIME = 94_694_400.0  # 1973: times before it come from logs without a year
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
# Repetitions are bounded, so that matching takes linear time.
_AUDIT = re.compile(r"type=(\w+) msg=audit\((\d{1,12}(?:\.\d{1,9})?):(\d{1,20})\)")
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
        Seconds since 1970, UTC; None if the log has no times.
    """

    user: str
    command: str
    time: float | None


def read_events(
    source: str | Path | Iterable[Line],
    *,
    format: str = "auto",
    user: str | None = None,
    whole_lines: bool = False,
    place: Place | None = None,
) -> Iterator[Event | None]:
    """Read the commands of a log.

    Parameters
    ----------
    source : str, Path or iterable of str
        A file, ``-`` for standard input, or lines such as those of :func:`follow`, whose None is passed on.
    format : str, default="auto"
        ``"plain"``, ``"bash"``, ``"zsh"``, ``"acct"``, ``"audit"``, ``"csv"``, ``"jsonl"``, or ``"auto"``: recognised
        by the first 50 lines.
    user : str or None, default=None
        The user where the log names none; None: the name of the file without suffix, or ``"user"``.
    whole_lines : bool, default=False
        Take a whole command line as one symbol, instead of the names of the programs in it.
    place : Place, optional
        Follows the reader from line to line.

    Returns
    -------
    iterator of Event or None
        One event for each program that was run: a pipe of three programs gives three events.

    Raises
    ------
    ParameterError
        If `format` is none of those.
    UnreadableError
        If the file cannot be read, is not text, or is read as ``csv`` and its header has no command column.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import read_events
    >>> next(event for event in read_events("ada.txt") if event is not None).command
    'ls'
    """
    check_choice(format, "format", ("auto", *FORMATS))
    name = "the log"
    lines: Iterator[Line]
    if isinstance(source, str) and source == STANDARD_INPUT:
        name, lines = "standard input", standard_input()
    elif isinstance(source, str | Path):
        name = str(source)
        path = regular_file(source, "input log")
        check_is_text(path)
        user = user if user is not None else path.stem.lstrip(".")
        lines = file_lines(path)
    else:
        lines = iter(source)
    if format == "auto":
        format, lines = _recognised(lines)
    user = clean(user or "") or "user"
    if format in ("plain", "bash"):
        lines = without_here_documents(lines)
    if place is not None:
        lines = place.watch(lines)
    if format == "csv":
        return _csv(lines, user, whole_lines, name)
    return FORMATS[format](lines, user, whole_lines)


def with_commands(events: Iterable[Event | None], name: str) -> Iterator[Event | None]:
    """Pass on the events of a log, and raise UnreadableError at its end if there was none."""
    some = False
    for event in events:
        some = some or event is not None
        yield event
    if not some:
        raise UnreadableError(f"{name}: holds no command; check the format")


def first_lines(path: str | Path, format: str = "auto") -> tuple[str, list[str]]:
    """Return the format of a log that is followed from its end, and the lines without which the rest has no meaning.

    The format is ``"auto"`` as long as the log has no lines. The lines are the header of ``csv``.
    """
    try:
        lines = list(islice(file_lines(Path(path)), EXAMINED_LINES))
    except OSError:
        return format, []
    texts = [line for line in lines if line.strip()]
    if texts and format == "auto":
        format = _format_of(texts)
    return format, texts[:1] if format == "csv" else []


def _recognised(lines: Iterator[Line]) -> tuple[str, Iterator[Line]]:
    """Return the format that the first lines have, and all lines."""
    held: list[str] = []
    n_texts = 0  # lines that are not empty
    for line in lines:
        if line is not None:
            held.append(line)
            n_texts += bool(line.strip())
        if n_texts >= EXAMINED_LINES or len(held) >= 20 * EXAMINED_LINES or (line is None and n_texts):
            break
    return _format_of([line for line in held if line.strip()]), chain(held, lines)


def _format_of(texts: list[str]) -> str:
    """Guess the format of a log from its first lines that are not empty; "plain" if nothing else fits.

    A format needs half of the lines, but bash a quarter only, because times alternate with commands of several lines.
    Tables are recognised by a column of commands in the header.
    """
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
    """Read a log with one command line per line and neither users nor times; None is passed on."""
    for line in lines:
        if line is None:
            yield None
        else:
            for program in programs(line, whole):
                yield Event(user, program, None)


def _bash(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    """Read a bash history, in which a line ``#SECONDS`` gives the time of the commands that follow."""
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
    """Read an extended zsh history, whose entries give the time before the command; continuation lines are skipped."""
    goes_on = False  # true after a backslash at the end: the next line belongs to the same command
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
    """Read what `lastcomm` prints from process accounting: a program, its user, and a time without a year."""
    for line in lines:
        if line is None:
            yield None
        elif match := _ACCT.match(line):
            yield Event(clean(match[2]), clean(match[1]), _without_year(match[3], "%a %b %d %H:%M"))


def _audit(lines: Iterator[Line], user: str, whole: bool) -> Iterator[Event | None]:
    """Read a log of the Linux audit daemon.

    An execution has a SYSCALL record with the user and an EXECVE record with the program, which share a serial number.
    Only the users of the latest SERIALS_KEPT serial numbers are remembered, which bounds the memory.
    """
    owners: OrderedDict[str, str] = OrderedDict()  # by serial number, because the records of events may be interleaved
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


def _csv(lines: Iterator[Line], user: str, whole: bool, name: str = "the log") -> Iterator[Event | None]:
    """Yield an event for each program in the command column of a table with a header line.

    The header names the columns of commands, users and times; only commands are required. Rows without a user belong to
    `user`, and `whole` is passed to `programs`. None in `lines` is passed on. Lines that are not valid CSV are skipped.
    Raises UnreadableError, which calls the log `name`, if the header has no column of commands.
    """
    header: list[str] | None = None  # the header read last; None until the first line
    columns: Columns = None, None, None  # positions of commands, users and times in a row
    delimiter = ","  # guessed from the first line
    for line in lines:
        if line is None:
            yield None
            continue
        if not line.strip():
            continue
        try:  # each line alone: an unclosed quote must not swallow the rest of the log
            row = next(csv.reader([line], delimiter=delimiter if header else _delimiter(line)), [])
        except csv.Error:
            continue
        # A log that is followed over a rotation has a second header, perhaps with other columns.
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
    """Return the positions of the commands, users and times in a header, None for each that it lacks."""
    return _column(header, COMMAND_KEYS), _column(header, USER_KEYS), _column(header, TIME_KEYS)


def _is_header(row: list[str], header: list[str], columns: Columns) -> bool:
    """Return whether a row is the header of another file, after a rotation.

    Somebody who chooses the words of a command must not be able to write a header. So the row needs all columns of the
    old header, and something else than a time in the column of times, or, without times, a heading in that of users.
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
    """Read JSON objects, one per line, with a command and perhaps a user and a time; other lines are skipped."""
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
        # As in a table, names ignore case, and the first of equal names counts, because it enters the dict last.
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
    """Return the most frequent of comma, semicolon and tab in a header line."""
    return max(",;\t", key=header.count)


def _column(header: list[str], keys: Iterable[str]) -> int | None:
    """Return the position of the first of `keys` that is a column name, ignoring case, or None."""
    names = [name.strip().lower() for name in header]
    return next((names.index(key) for key in keys if key in names), None)


def _seconds(value: object) -> float | None:
    """Return a number or an ISO 8601 time as seconds since 1970, and None for anything else."""
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
    """Return a time in a leap year before FIRST_TIME; only differences between such times are meaningful."""
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
    "csv": _csv,
    "jsonl": _jsonl,
}
