"""Command logs as streams: lines in, events out, sessions out, in bounded memory.

A log from a stranger may hold anything: lines of any length, in any encoding, cut in the middle. No line stops the
reading. What cannot be understood is skipped, what is too long is cut, and characters that could steer a terminal are
replaced. The formats are those of :mod:`visionnmf.apps.masquerade.formats`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from visionnmf import choices
from visionnmf._checks import check_choice, check_count
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import regular_file

from .formats import FORMATS, Event, clean, format_of, read_csv
from .lines import Line, file_lines

__all__ = ["FORMATS", "Event", "Session", "first_lines", "read_events", "sessions", "with_commands"]

PEEKED_LINES = 50  # by which a format is recognised
MAX_USERS = 100_000
LONGEST_SESSION = 1000  # commands; a session by idle time is cut there
SHARED_NAMES = 1 << 16  # of commands that are kept once, however often they are run


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
        ``"plain"``, ``"bash"``, ``"zsh"``, ``"acct"``, ``"audit"``, ``"csv"``, ``"jsonl"``, or ``"auto"``: recognised
        by the first 50 lines.
    user : str or None, default=None
        The user where the log names none; None: the name of the file without suffix, or ``"user"``.
    whole_lines : bool, default=False
        Take a whole command line as one symbol, instead of the names of the programs in it.

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
    check_choice(format, "format", ("auto", *FORMATS))
    name = "the log"
    lines: Iterator[Line]
    if isinstance(source, str | Path):
        name = str(source)
        path = regular_file(source, "input log")
        user = user if user is not None else path.stem.lstrip(".")
        lines = file_lines(path)
    else:
        lines = iter(source)
    if format == "auto":
        format, lines = _recognise(lines)
    user = clean(user or "") or "user"
    if format == "csv":
        return read_csv(lines, user, whole_lines, name)
    return FORMATS[format](lines, user, whole_lines)


def with_commands(events: Iterable[Event | None], name: str) -> Iterator[Event | None]:
    """Hand on the commands of a log, and raise UnreadableError at its end where it had none."""
    some = False
    for event in events:
        some = some or event is not None
        yield event
    if not some:
        raise UnreadableError(f"{name}: holds no command; check the format")


def sessions(
    events: Iterable[Event | None],
    *,
    size: int = choices.SESSION_SIZE,
    idle: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    evict: bool = False,
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
    evict : bool, default=False
        What happens when there are more than 100,000 users: false raises; true forgets the one that has been silent
        for the most commands, so that made-up names in a log that is followed for months end nothing. Its unfinished
        session is yielded, and should it come back, its sessions count from 0.

    Yields
    ------
    Session
        As soon as it is complete; at the end of the events also what is left, with ``complete=False``.

    Raises
    ------
    ParameterError
        If `size` or `idle` has a value that is not allowed.
    UnsupportedError
        If `idle` is asked for and no command has a time, which is known at the end of the events. A single command
        without one takes the time of the user's last command, and is skipped where that has none either.
    TooLargeError
        If there are more than 100,000 users and `evict` is false.
    """
    check_count(size, "size")
    if idle is not None and not idle > 0:
        raise ParameterError(f"idle must be None or a number of seconds > 0; got {idle!r}")
    longest = size if idle is None else max(size, LONGEST_SESSION)
    cut: OrderedDict[str, int] = OrderedDict()  # with `evict`, the longest silent first
    shared: dict[str, str] = {}  # a reader makes a new string, some 60 bytes, for each command
    timeless = timed = False
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
        if idle is not None:
            if moment is None:
                timeless = True
                if user not in growing:
                    continue
                moment = growing[user].end
            timed = True
        if user not in cut:
            if len(cut) >= MAX_USERS:
                if not evict:
                    raise TooLargeError(f"more than {MAX_USERS} users; is the right column taken for the user?")
                silent = next(iter(cut))
                if silent in growing:
                    yield close(silent, False)
                del cut[silent]
            cut[user] = 0
        elif evict:
            cut.move_to_end(user)
        # a log may run backwards, as that of lastcomm does
        if idle is not None and user in growing and abs(moment - (growing[user].end or 0.0)) > idle:  # type: ignore[operator]
            yield close(user, True)
        if user not in growing:
            growing[user] = _Growing(moment)
        g = growing[user]
        if len(shared) >= SHARED_NAMES:
            shared.clear()
        g.commands.append(shared.setdefault(command, command))
        g.end = moment
        if idle is not None:
            g.heard = clock()
            growing.move_to_end(user)
        if len(g.commands) >= longest:
            yield close(user, True)
    if timeless and not timed:
        raise UnsupportedError("idle needs the time of each command, and this log has none; cut sessions by size")
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
        format = format_of(texts)
    return format, texts[:1] if format == "csv" else []


def _recognise(lines: Iterator[Line]) -> tuple[str, Iterator[Line]]:
    """Look at the first lines; return the format and all the lines from the first that is not empty."""
    seen: list[Line] = []
    for line in lines:
        if line and line.strip():
            seen.append(line)
        if len(seen) >= PEEKED_LINES or (line is None and seen):
            break
    return format_of([line for line in seen if line]), chain(seen, lines)
