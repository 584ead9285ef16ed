"""The formats of command logs, and how their lines become events.

=============  ======================================================================================================
``plain``      one command line on each line
``bash``       history with ``#1700000000`` before each command
``zsh``        extended history, ``: 1700000000:0;command``
``csv``        a header with a command column, usually also a user and a time column; comma, semicolon or tab
``jsonl``      one JSON object on each line, with the keys of the columns of ``csv``
=============  ======================================================================================================

An untrusted log may hold anything: lines of any length, in any encoding, cut in the middle. No line stops the reading.
Lines that make no sense are skipped, long lines are cut, and characters that could control a terminal are replaced.
Only a table that begins in Latin-1 is refused, because its users would have other names.
"""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from visionnmf import choices
from visionnmf._checks import check_choice
from visionnmf._text import counted
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io.inputs import Line, check_is_text, check_is_utf8, file_lines, regular_file, standard_input

from .settings import LogSource

STANDARD_INPUT = "-"
EXAMINED_LINES = 50  # by which a format is recognised
FIRST_OF_PARTS = 315_532_800.0  # 1980; numbers of parts of seconds before it count from another year than 1970
LATEST_TIME = 1e11  # seconds since 1970; larger numbers are milliseconds, microseconds or nanoseconds
FIRST_TIME = 94_694_400.0  # 1973: smaller numbers of a table are seconds since another moment

HEADERS = ("command", "commandline", "processcommandline", "cmdline")  # also of a single column
COMMAND_KEYS = ("command", "cmd", *HEADERS[1:], "comm", "process", "exe", "program", "action", "event")
USER_KEYS = ("user", "username", "login", "account", "accountname", "auid", "uid")
TIME_KEYS = ("time", "timestamp", "ts", "date", "datetime", "utctime", "timecreated", "epoch")

FEW_COMMANDS = 2  # programs; few histories have no more in EXAMINED_LINES lines (707 of 15,000 runs of 50 in SEA)
BACKWARDS = 5  # changes of time by which lines in the reverse order are recognised
LEAST_LINES = 20  # of a history whose commands are not all different; of 37,500 of the SEA data 45 are
# What stands in place of a program if lines begin with a number, a time, a prompt or the mark of a list.
_NO_PROGRAM = re.compile(r"[\W\d_]*|.*[@>#].*|.*[:$]")
ALIKE = 0.9  # share of the lines of a table that have as many separators as the first, or of steps back in time
# Lines of a text, at least so many, and their share. Chosen on the READMEs of a Debian system and half of its scripts.
PROSE_LINES, PROSE_SHARE = 5, 0.25

ODD = {  # what cannot be read of a line, and the cure
    "command": "such lines, perhaps cut off, are skipped; export the log again",
    "time": "give seconds since 1970 or ISO 8601",
    "name of a user": "convert the log to UTF-8 (iconv)",
}

_BASH = re.compile(r"#(\d{8,11})\s*$")
_ZSH = re.compile(r": (\d{1,11}):\d+;")

NAME_CHARACTERS = 128  # kept of the name of a command
TEXT_CHARACTERS = 200  # of a line that are shown

# How names of columns look, and how lines of a text begin: with marks of Markdown, or a capital and a further word.
_COLUMN = re.compile(r'[ "]*[^\W\d][\w.-]*[ "]*')
_PROSE = re.compile(r"(?:#{2,}|[*>|-]+) +\S|\d+\. |```|[A-Z][a-z]*,? [a-z]+ ")
# Text in quotes. An unclosed quote runs to the end of the line, so that matching takes linear time.
_QUOTED = re.compile(r"'[^']*(?:'|$)|\"(?:\\.|[^\"\\])*(?:\"|\\?$)", re.DOTALL)
_SEPARATOR = re.compile(r"[|;&(){}]+")
_ASSIGNMENT = re.compile(r"\w+=")
_NAMING = frozenset({"for", "select", "case", "function"})  # a name follows, and no program
_SHELL = frozenset({"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "in", "esac", "!"})


class Event(NamedTuple):
    """One command: who ran it, its name, when, and where it was read.

    `command` is the program's name without folder, or the whole line. `time` is in seconds since 1970, UTC, and None if
    the log has no times. `source` is the log, `line` the number of the line in it, from 1, and `text` the line.
    """

    user: str
    command: str
    time: float | None
    source: str = ""
    line: int = 0
    text: str = ""


class _Found(NamedTuple):
    """A command line, its user ("" if none is named), and its time: seconds since 1970, None, or an unreadable text."""

    text: str
    user: str = ""
    time: float | str | None = None


SENSELESS = _Found("")  # of a line that is no row of a table, or no object, with a command


def read_events(
    source: str | Path | Iterable[Line],
    *,
    format: str = "auto",
    user: str | None = None,
    whole_lines: bool = False,
    stop: Callable[[], bool] | None = None,
) -> Iterator[Event | None]:
    """Read the commands of a log.

    Parameters
    ----------
    source : str, Path or iterable of str
        A file, ``-`` for standard input, or lines. A None among the lines is passed on.
    format : str, default="auto"
        ``"plain"``, ``"bash"``, ``"zsh"``, ``"csv"``, ``"jsonl"``, or ``"auto"``: recognised by the first 50 lines. A
        warning says how many times, names of users, and lines of ``csv`` and ``jsonl`` cannot be read.
    user : str or None, default=None
        The user where the log names none; None: the name of the file without suffix, or ``"user"``.
    whole_lines : bool, default=False
        Take a whole command line as one symbol, instead of the names of the programs in it.
    stop : callable or None, default=None
        Called before each look at standard input; a true value ends the reading.

    Returns
    -------
    iterator of Event or None
        One event for each program that was run: a pipe of three programs gives three events.

    Raises
    ------
    UnreadableError
        If the file cannot be read, is not text, or is read as ``csv`` and its header has no command column; if the
        first times run backwards; or if its format is to be recognised, and it seems to be a table, a text, or a log of
        another kind, or is a table or JSON that begins in Latin-1.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import read_events
    >>> next(event for event in read_events("ada.txt") if event is not None).command
    'ls'
    """
    check_choice(format, "format", ("auto", *choices.LOG_FORMATS))
    name, where = "the log", ""  # for messages, and for events
    lines: Iterator[Line]
    if isinstance(source, str) and source == STANDARD_INPUT:
        name, where, lines = "standard input", source, standard_input(stop=stop)
    elif isinstance(source, str | Path):
        name = where = str(source)
        path = regular_file(source, "input log")
        check_is_text(path)
        user = user if user is not None else path.stem.lstrip(".")
        lines = file_lines(path)
    else:
        lines = iter(source)
    first, lines = _first_lines(lines)
    if format == "auto":
        format = _recognised(first, name)
        if where not in ("", STANDARD_INPUT) and format in ("csv", "jsonl"):  # which have names of users
            check_is_utf8(Path(where))
    _check_order(first, format, name)
    return _events(lines, _reader(format, name), clean(user or "") or choices.NAMELESS, whole_lines, where, name)


def _events(
    lines: Iterator[Line], read: Callable[[str], _Found | None], user: str, whole: bool, source: str, name: str
) -> Iterator[Event | None]:
    """Yield an event for each program of each line, or with `whole` for each command line; warn of odd ones."""
    number = 0
    odd: dict[str, list[Any]] = {}  # how often parts of lines cannot be read, and the first of them
    for line in lines:
        if line is None:
            yield None
            continue
        number += 1
        if (found := read(line)) is SENSELESS:
            odd.setdefault("command", [0, clean(line.strip())])[0] += 1
        elif found is not None:
            owner, moment = clean(found.user) or user, found.time
            if isinstance(moment, str):
                odd.setdefault("time", [0, clean(moment)])[0] += 1
                moment = None
            if found.user and "\ufffd" in owner:
                odd.setdefault("name of a user", [0, owner])[0] += 1
            for program in programs(found.text, whole):
                yield Event(owner, program, moment, source, number, line)
    for what, (count, first) in odd.items():
        cure = ODD[what]
        lacking = f"the {what} cannot be read in {counted(count, 'line')}, first {first!r}"
        warnings.warn(f"{name}: {lacking}; {cure}", UserWarning, stacklevel=2)


def read_logs(
    paths: Iterable[str],
    source: LogSource,
    *,
    whole_lines: bool = False,
    on_error: Callable[[str], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Iterator[Event | None]:
    """Yield the commands of some logs in turn, and None when standard input has nothing new; see :func:`read_events`.

    A log that cannot be read, or ends without a command although `stop` did not end it, is skipped, and `on_error` gets
    a sentence; without it the error is raised.
    """
    for path in paths:
        empty = True
        try:
            for event in read_events(path, format=source.format, user=source.user, whole_lines=whole_lines, stop=stop):
                empty = empty and event is None
                yield event
            if empty and not (stop is not None and stop()):
                piped = "standard input ended without a command; check the program before the pipe, and the format"
                raise UnreadableError(f"{path}: {piped if path == '-' else 'holds no command; check the format'}")
        except (MediaError, OSError) as error:
            if on_error is None:
                raise
            on_error(str(error))


def _first_lines(lines: Iterator[Line]) -> tuple[list[str], Iterator[Line]]:
    """Return the first lines of a log that are not empty, by which it is judged, and all lines."""
    held: list[str] = []  # the lines that were read for this, and are passed on as well
    n_texts = 0  # lines that are not empty
    for line in lines:
        if line is not None:
            held.append(line)
            n_texts += bool(line.strip())
        # Enough lines were seen, or standard input has nothing new (None) after at least one line.
        if n_texts >= EXAMINED_LINES or len(held) >= 20 * EXAMINED_LINES or (line is None and n_texts):
            break
    return [line for line in held if line.strip()], chain(held, lines)


def _recognised(texts: list[str], name: str) -> str:
    """Return the format that the first lines of the log `name` have."""
    if texts and (texts[0].strip() in ("[", "{") or texts[0].lstrip().startswith("[{")):
        cure = "write one object a line, for instance by: jq -c; or give format='plain'"
        raise UnreadableError(f"{name}: JSON of many lines, or a list; {cure}")
    format = _format_of(texts)
    if texts and format == "plain":
        _check_commands(texts, name)
    return format


def _check_order(texts: list[str], format: str, name: str) -> None:
    """Raise UnreadableError if the times of the first lines run backwards, because pairs of commands would as well."""
    found = filter(None, map(_reader(format, name), texts))
    times = [each.time for each in found if isinstance(each.time, float)]
    steps = [after - before for before, after in pairwise(times) if after != before]
    if len(steps) >= BACKWARDS and sum(step < 0 for step in steps) >= ALIKE * len(steps):
        # a header stays first, and bash writes a line with the time above each command
        cures = {"csv": "(head -n 1 LOG; tail -n +2 LOG | tac)", "bash": r"paste - - < LOG | tac | tr '\t' '\n'"}
        cure = cures.get(format, "tac LOG")
        raise UnreadableError(f"{name}: its times run backwards; sort its lines, oldest first, for instance by: {cure}")


def _format_of(texts: list[str]) -> str:
    """Guess the format of a log from its first non-empty lines; "plain" if nothing else fits."""
    if not texts:
        return "plain"
    tests: dict[str, Callable[[str], object]] = {
        "jsonl": lambda line: line.lstrip().startswith("{") and line.rstrip().endswith("}"),
        "zsh": _ZSH.match,
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
    keys = COMMAND_KEYS if len(columns) > 1 else HEADERS  # a lone "cmd" or "exe" may be a command that somebody typed
    return "csv" if _column(columns, keys) is not None else "plain"


def _check_commands(texts: list[str], name: str) -> None:
    """Raise UnreadableError if the first lines of a log can hardly be commands."""
    cure = "if each line is a command nevertheless, give format='plain'"
    mark = _delimiter("".join(texts[:1]))
    columns = "".join(texts[:1]).split(mark)
    alike = sum(line.count(mark) == len(columns) - 1 for line in texts)
    # a short log is a table if it also begins with names of columns
    likely = len(texts) >= LEAST_LINES or (len(texts) > 1 and all(map(_COLUMN.fullmatch, columns)))
    if len(columns) > 1 and alike >= ALIKE * len(texts) and likely:
        known = ", ".join(COMMAND_KEYS)
        raise UnreadableError(f"{name}: a table without a command column (one must be called {known}); {cure}")
    found = [program for line in texts for program in programs(line, False)[:1]]
    different, what = set(found), ""
    alone = sum(len(line.split()) == 1 for line in texts)  # names without arguments, as lines of other logs seldom are
    if len(different) == len(found) and len(texts) >= LEAST_LINES:
        what = "all different"
    elif len(different) <= FEW_COMMANDS and len(texts) >= EXAMINED_LINES and 2 * alone < len(texts):
        what = f"only {' and '.join(sorted(different))}"
    elif len(found) > FEW_COMMANDS and 2 * sum(bool(_NO_PROGRAM.fullmatch(each)) for each in found) >= len(found):
        what = f"such as {found[0]}"
    if what:
        raise UnreadableError(
            f"{name}: no history of a known format: its first {len(found)} commands would be {what}; {cure}"
        )
    prose = sum(map(_is_prose, texts))
    if len(texts) >= PROSE_LINES and prose >= PROSE_SHARE * len(texts):
        like = f"{prose} of its first {len(texts)} lines look like sentences or Markdown"
        raise UnreadableError(f"{name}: a text, and no history: {like}; {cure}")


def _is_prose(line: str) -> bool:
    """Return whether a line seems to be one of a text: by its beginning, or a mark right after its last word."""
    line = line.strip()
    return bool(_PROSE.match(line)) or (line[-1:] in {*".,:!?"} and line[-2:-1].isalpha())


def _reader(format: str, name: str) -> Callable[[str], _Found | None]:
    """Return a function that reads lines of the log `name` in turn; it returns None for a line without a command."""
    # It is called for one line after the other, and may keep what earlier lines said, such as a time or a header.
    readers: dict[str, Callable[[str], _Found | None]] = {
        "plain": _Found,  # the line itself is a command line, without user and time
        "bash": _BashReader(),
        "zsh": _ZshReader(),
        "csv": _CsvReader(name),
        "jsonl": _read_json,
    }
    return readers[format]


class _BashReader:
    """Reads a bash history, in which a line ``#SECONDS`` gives the time of the commands that follow."""

    def __init__(self) -> None:
        self.time: float | None = None  # of the latest time line, in seconds since 1970

    def __call__(self, line: str) -> _Found | None:
        """Keep the time of a line ``#SECONDS``, which is no command; give any other line the latest time."""
        if match := _BASH.match(line):
            self.time = float(match[1])
            return None
        return _Found(line, time=self.time)


class _ZshReader:
    """Reads an extended zsh history, whose entries give the time before the command."""

    def __init__(self) -> None:
        self.time: float | None = None  # of an entry that goes on in the next line, after a backslash

    def __call__(self, line: str) -> _Found | None:
        """Read ``: SECONDS:DURATION;COMMAND``, the next line of such an entry, or an entry without a time."""
        match = _ZSH.match(line)
        time = float(match[1]) if match else self.time
        self.time = time if line.endswith("\\") else None
        return _Found(line[match.end() if match else 0 :].rstrip("\\"), time=time)


class _CsvReader:
    """Reads a table whose header names the columns of commands (required), users and times."""

    def __init__(self, name: str) -> None:
        """Begin without a header, which also tells the delimiter; errors call the log `name`."""
        self.name = name
        self.header: list[str] = []  # empty until the first line was read
        self.delimiter = ","

    def __call__(self, line: str) -> _Found | None:
        """Read a line: the first one is the header, which sets the positions of the columns; others are a command."""
        if not line.strip():
            return None
        if not self.header:
            self.delimiter = _delimiter(line)
        try:  # each line alone: an unclosed quote must not swallow the rest of the log
            row = next(csv.reader([line], delimiter=self.delimiter), [])
        except csv.Error:
            return SENSELESS
        if not self.header:
            self.header = row
            self.command, self.user, self.time = (_column(row, keys) for keys in (COMMAND_KEYS, USER_KEYS, TIME_KEYS))
            if self.command is None:
                raise UnreadableError(
                    f"{self.name}: the header has no command column; one must be called {', '.join(COMMAND_KEYS)}"
                )
        if row == self.header:  # the header itself, or a repeated one
            return None
        if len(self.header) == 1 and len(row) > 1:  # a separator in a command
            row = [line]
        if self.command is None or self.command >= len(row):
            return SENSELESS
        text, user, moment = (
            row[i].strip() if i is not None and i < len(row) else "" for i in (self.command, self.user, self.time)
        )
        return _Found(text, user, _seconds(moment))


def _read_json(line: str) -> _Found | None:
    """Read a line with a JSON object that has a command and perhaps a user and a time."""
    if not line.strip():
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return SENSELESS
    if not isinstance(record, dict):
        return SENSELESS
    # As in a table, names ignore case, and the first of equal names counts, because it enters the dict last.
    record = {_plain_name(key): value for key, value in reversed(record.items())}
    text, user, moment = (
        next((record[key] for key in keys if record.get(key) is not None), None)
        for keys in (COMMAND_KEYS, USER_KEYS, TIME_KEYS)
    )
    if not isinstance(text, str):
        return SENSELESS
    return _Found(text, str(user).strip() if isinstance(user, str | int) else "", _seconds(moment))


def _delimiter(header: str) -> str:
    """Return the most frequent of comma, semicolon and tab in a header line."""
    return max(",;\t", key=header.count)


def _plain_name(column: str) -> str:
    """Return the name of a column without what differs from tool to tool: capitals, spaces, and marks between words."""
    return re.sub(r"[\W_]+", "", column).lower()


def _column(header: list[str], keys: Iterable[str]) -> int | None:
    """Return the position of the first of `keys` that is a column name, ignoring case, or None."""
    names = [_plain_name(name) for name in header]
    return next((names.index(key) for key in keys if key in names), None)


def _seconds(value: object) -> float | str | None:
    """Return a number or an ISO 8601 time as seconds since 1970, None for nothing, and anything else as text."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return type(value).__name__
    text = str(value)
    try:
        number = float(value)
        parts = number >= LATEST_TIME
        for _ in range(3):
            number /= 1000 if number >= LATEST_TIME else 1
        if parts and number < FIRST_OF_PARTS:  # such as FILETIME of Windows
            return text
    except (ValueError, OverflowError):
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            return text
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        try:
            number = moment.timestamp()
        except (OverflowError, ValueError):
            return text
    return number if 0 <= number < LATEST_TIME else text


# --- the programs that a command line runs ----------------------------------------------------------------------------


def clean(name: str) -> str:
    """Shorten a name, and replace characters that could control a terminal or cannot be encoded."""
    return _printable(name[:NAME_CHARACTERS])


def clean_text(line: str) -> str:
    """Shorten a line, and replace characters that could control a terminal or cannot be encoded."""
    return _printable(line[:TEXT_CHARACTERS].strip())


def _printable(text: str) -> str:
    """Return a text with the replacement character for each character that cannot be printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def programs(line: str, whole: bool) -> list[str]:
    """Return the program of each command on a line, such as ls and wc of ``ls -l | wc``; with `whole` the line."""
    line = line.strip()
    if not line:
        return []
    if whole:
        return [clean(line)]
    if "'" in line or '"' in line:
        line = _QUOTED.sub("_", line)  # separators within quotes do not end a command
    parts = _SEPARATOR.split(line) if not line.isalnum() else (line,)  # a single word needs no splitting
    return [program for program in map(_program, parts) if program]


def _program(command: str) -> str:
    """Return the name of the program that a command runs, without its folder, or an empty text if there is none."""
    for word in command.split():
        if word in _NAMING:
            return ""
        if not _ASSIGNMENT.match(word) and word not in _SHELL:  # such as LANG=C, and words of the shell such as `then`
            program = clean(word.rstrip("/").rsplit("/", 1)[-1])
            return "" if program[:1] in "<>#" else program  # a redirection or a comment: no program follows
    return ""
