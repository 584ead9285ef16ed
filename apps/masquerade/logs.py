"""Command logs as streams: lines in, events out, sessions out, in bounded memory.

A log from a stranger may hold anything: lines of any length, in any encoding, cut in the middle. No line stops the
reading. What cannot be understood is skipped, what is too long is cut, and characters that could steer a terminal are
replaced. The formats are those of :mod:`visionnmf.apps.masquerade.formats`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from visionnmf import choices
from visionnmf._checks import check_choice, check_count
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import regular_file

from .command_lines import clean, clean_text, without_here_documents
from .formats import FORMATS, Event, format_of, read_csv
from .lines import Line, Place, check_is_log, file_lines, standard_input

__all__ = ["FORMATS", "Event", "Origin", "Session", "first_lines", "read_events", "sessions", "with_commands"]

STANDARD_INPUT = "-"
PEEKED_LINES = 50  # by which a format is recognised
MAX_USERS = 100_000
LONGEST_SESSION = 1000  # commands; a session by idle time is cut there
LEAST_JUDGED = 5  # commands of a session that is yielded while it grows
MOST_HELD = 1 << 25  # characters of lines that wait to be judged: made-up users have no end
SHARED_NAMES = 1 << 16  # of commands that are kept once, however often they are run


class Origin(NamedTuple):
    """Where a command stands.

    Attributes
    ----------
    source : str
        The log.
    line : int
        The line in it, from 1.
    text : str
        Its first 200 characters; none where too much waits to be judged.
    """

    source: str
    line: int
    text: str


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
    origins : tuple of Origin
        Where each command stands, if the reader knows.
    growing : bool
        Whether the session goes on: it will be yielded again.
    """

    user: str
    index: int
    commands: tuple[str, ...]
    start: float | None
    end: float | None
    complete: bool
    origins: tuple[Origin, ...] = ()
    growing: bool = False


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
        A file, ``-`` for standard input, or lines: those of :func:`follow`, whose None is handed on.
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
        One for each program that was run: a pipe of three is three.

    Raises
    ------
    ParameterError
        If `format` is none of those.
    UnreadableError
        If the file cannot be read, is no text, or is said to be ``csv`` and its header has no command column.

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
        check_is_log(path)
        user = user if user is not None else path.stem.lstrip(".")
        lines = file_lines(path)
    else:
        lines = iter(source)
    if format == "auto":
        format, lines = _recognise(lines)
    user = clean(user or "") or "user"
    if format in ("plain", "bash"):
        lines = without_here_documents(lines)
    if place is not None:
        lines = place.watch(lines)
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
    known: Container[str] = (),
    silence: float | None = None,
    growing: bool = False,
    now: Callable[[], float] | None = None,
    place: Place | None = None,
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
    known : container of str, default=()
        Users who are never forgotten, however many others there are.
    silence : float > 0 or None, default=None
        End a session by `size` also when the user has been silent for so many seconds of `clock`, which is known at
        each None among the events. It is complete with half of its commands.
    growing : bool, default=False
        Whether sessions are yielded while they grow, too: with 5 commands at a None, then with half as many more, and
        with 10, 20, 40, ... in any case.
    now : callable or None, default=None
        The time of commands without one, in seconds since 1970: of a log that is followed.
    place : Place, optional
        Where the events are read; sessions have `origins` then.

    Yields
    ------
    Session
        As soon as it is complete; at the end of the events also what is left, with ``complete=False``.

    Raises
    ------
    ParameterError
        If `size`, `idle` or `silence` has a value that is not allowed.
    UnsupportedError
        If `idle` is asked for and no command has a time, which is known at the end of the events. A single command
        without one takes the time of the user's last command, and is skipped where that has none either.
    TooLargeError
        If there are more than 100,000 users and `evict` is false.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import read_events, sessions
    >>> [len(session.commands) for session in sessions(read_events("ada.txt", user="ada"), size=200)]
    [200, 200]
    """
    check_count(size, "size")
    for value, name in ((idle, "idle"), (silence, "silence")):
        if value is not None and not value > 0:
            raise ParameterError(f"{name} must be None or a number of seconds > 0; got {value!r}")
    cutter = _Cutter(size, idle, clock, place)
    quiet = idle if idle is not None else silence
    timeless = timed = False
    for event in events:
        if event is None:  # nothing new: whoever has been silent for long enough has ended a session
            if quiet is not None:
                yield from cutter.silent(quiet)
            if growing:
                yield from cutter.grown()
            continue
        user, command, moment = event
        if moment is None and now is not None:
            moment = now()
        if idle is not None:
            if moment is None:
                timeless = True
                if user not in cutter.growing:
                    continue
                moment = cutter.growing[user].end
            timed = True
        forgotten = cutter.greet(user, evict, user in known)
        if forgotten is not None:
            yield forgotten
        # a log may run backwards, as that of lastcomm does
        if idle is not None and user in cutter.growing:
            assert moment is not None
            if abs(moment - (cutter.growing[user].end or 0.0)) > idle:
                yield cutter.close(user, True)
        n_commands = cutter.add(user, command, moment)
        if n_commands >= cutter.longest:
            yield cutter.close(user, True)
        elif growing and n_commands >= 2 * LEAST_JUDGED and n_commands >= 2 * cutter.growing[user].judged:
            yield cutter.look(user)
    if timeless and not timed:
        raise UnsupportedError("idle needs the time of each command, and this log has none; cut sessions by size")
    for user in list(cutter.growing):
        yield cutter.close(user, False)


class _Growing:
    """A session that may go on."""

    __slots__ = ("commands", "end", "heard", "judged", "origins", "start")

    def __init__(self, start: float | None) -> None:
        self.commands: list[str] = []
        self.origins: list[Origin] = []
        self.start = start
        self.end = start
        self.heard = 0.0
        self.judged = 0  # commands with which it was yielded while it grew


class _Cutter:
    """The sessions of all users that are growing, the one that has been silent for longest first."""

    def __init__(self, size: int, idle: float | None, clock: Callable[[], float], place: Place | None) -> None:
        self.longest = size if idle is None else max(size, LONGEST_SESSION)
        self.by_time = idle is not None
        self.clock, self.place = clock, place
        self.cut: dict[str, int] = {}  # sessions of each user so far
        self.strangers: OrderedDict[str, None] = OrderedDict()  # who may be forgotten, the longest silent first
        self.growing: OrderedDict[str, _Growing] = OrderedDict()
        self.changed: dict[str, None] = {}  # since the last look
        self.shared: dict[str, str] = {}  # a reader makes a new string, some 60 bytes, for each command
        self.held = 0  # characters of the lines of growing sessions
        self.origin: Origin | None = None  # of the line that was read last; it may hold many commands

    def greet(self, user: str, evict: bool, known: bool) -> Session | None:
        """Make room for a user; returns the session of one who is forgotten for that."""
        if user in self.strangers:
            self.strangers.move_to_end(user)
        if user in self.cut:
            return None
        forgotten = None
        if not known:
            if len(self.strangers) >= MAX_USERS:
                if not evict:
                    raise TooLargeError(f"more than {MAX_USERS} users; is the right column taken for the user?")
                silent = next(iter(self.strangers))
                forgotten = self.close(silent, False) if silent in self.growing else None
                del self.cut[silent], self.strangers[silent]
            self.strangers[user] = None
        self.cut[user] = 0
        return forgotten

    def add(self, user: str, command: str, moment: float | None) -> int:
        """Add a command; returns how many the session has."""
        if user not in self.growing:
            self.growing[user] = _Growing(moment)
        session = self.growing[user]
        if len(self.shared) >= SHARED_NAMES:
            self.shared.clear()
        session.commands.append(self.shared.setdefault(command, command))
        session.end = moment
        session.heard = self.clock()
        self.growing.move_to_end(user)
        self.changed[user] = None
        if self.place is not None:
            session.origins.append(self._origin(self.place))
            self.held += len(session.origins[-1].text)
        return len(session.commands)

    def _origin(self, place: Place) -> Origin:
        origin = self.origin
        if origin is None or (origin.line, origin.source) != (place.number, place.source):
            text = clean_text(place.text) if self.held < MOST_HELD else ""
            origin = self.origin = Origin(place.source, place.number, text)
        return origin

    def silent(self, seconds: float) -> Iterator[Session]:
        """Close the sessions of those who have said nothing for so long."""
        while self.growing:
            user, session = next(iter(self.growing.items()))
            if self.clock() - session.heard <= seconds:
                return
            yield self.close(user, self.by_time or 2 * len(session.commands) >= self.longest)

    def grown(self) -> Iterator[Session]:
        """Yield the sessions that have grown by half since they were last yielded."""
        for user in list(self.changed):
            session = self.growing.get(user)
            if session is not None and len(session.commands) >= max(LEAST_JUDGED, 1.5 * session.judged):
                yield self.look(user)
        self.changed.clear()

    def look(self, user: str) -> Session:
        """Return a session as it is by now."""
        session = self.growing[user]
        session.judged = len(session.commands)
        return self._session(user, session, complete=False, growing=True)

    def close(self, user: str, complete: bool) -> Session:
        """End a session."""
        session = self.growing.pop(user)
        self.changed.pop(user, None)
        self.held -= sum(len(origin.text) for origin in session.origins)
        found = self._session(user, session, complete=complete, growing=False)
        self.cut[user] += 1
        return found

    def _session(self, user: str, session: _Growing, *, complete: bool, growing: bool) -> Session:
        start, end = session.start, session.end
        if start is not None and end is not None and end < start:
            start, end = end, start
        commands, origins = tuple(session.commands), tuple(session.origins)
        return Session(user, self.cut[user], commands, start, end, complete, origins, growing)


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
    held: list[str] = []
    told = 0  # lines that are not empty
    for line in lines:
        if line is not None:
            held.append(line)
            told += bool(line.strip())
        if told >= PEEKED_LINES or len(held) >= 20 * PEEKED_LINES or (line is None and told):
            break
    return format_of([line for line in held if line.strip()]), chain(held, lines)
