"""How the commands of many users are cut into sessions, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from visionnmf import choices
from visionnmf._checks import check_count
from visionnmf.exceptions import ParameterError, UnsupportedError

from .log_formats import FIRST_TIME, Event, clean_text

MAX_USERS = 100_000  # without those that are never forgotten
LONGEST_SESSION = 1000  # commands, for sessions that are cut by silence
SHARED_NAMES = 1 << 16  # names of commands that are stored once, however often they occur
MAX_HELD = 1 << 25  # characters of lines that wait to be judged, because made-up users could be endless


class Origin(NamedTuple):
    """Where a command was read: the log, the line in it, from 1, and the line's first 200 characters.

    The text is empty if too many lines wait to be judged.
    """

    source: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Session:
    """Successive commands of one user.

    `index` is the number of the session among the user's sessions, from 0. `start` and `end` are the times that the log
    gives the first and the last command, in seconds since 1970, UTC; `read_at` is when the last one was read, from
    standard input. A session is `complete` if it has its full length, or a silence after it. `origins` says where each
    command was read, if that is asked for.

    A log that is read again gives the same digests. If its times are dates, a session is `dated`, and its `digest` is
    that of its commands and its end; otherwise it is that of all commands of the user up to its end. `learnt` says, of
    sessions that are scored, whether the model had learnt them before.
    """

    user: str
    index: int
    commands: tuple[str, ...]
    start: float | None
    end: float | None
    complete: bool
    origins: tuple[Origin, ...] = ()
    dated: bool = False
    digest: int = 0
    learnt: bool = False
    read_at: float | None = None


def sessions(
    events: Iterable[Event | None],
    *,
    size: int = choices.SESSION_SIZE,
    idle: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    known: Container[str] = (),
    now: Callable[[], float] | None = None,
    origins: bool = False,
) -> Iterator[Session]:
    """Cut each user's commands into sessions.

    Of more than 100,000 users the one who was silent for longest is forgotten, so that made-up names cannot fill the
    memory. That user's unfinished session is yielded, and sessions count from 0 if the user comes back.

    Parameters
    ----------
    events : iterable of Event or None
        The commands of any number of users, as they come.
    size : int >= 1, default=100
        Commands of a session. With `idle`, sessions longer than ``max(size, 1000)`` are cut.
    idle : float > 0 or None, default=None
        End a session when the user was silent for this many seconds, instead of after `size` commands.
    clock : callable, default=time.monotonic
        Returns the time in seconds. With `idle`, it is looked at for each None among the events.
    known : container of str, default=()
        Users who are never forgotten.
    now : callable or None, default=None
        Returns when a command is read, in seconds since 1970, for standard input; silence is measured by this time if
        the log has none.
    origins : bool, default=False
        Whether sessions say where each command was read.

    Yields
    ------
    Session
        Each session as soon as it is complete; at the end of the events also the rest, with ``complete=False``.

    Raises
    ------
    UnsupportedError
        If `idle` is given and no command has a time. A single command without a time takes the time of the user's last
        command, and is skipped if there is none.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import read_events, sessions
    >>> [len(session.commands) for session in sessions(read_events("ada.txt", user="ada"), size=200)]
    [200, 200]
    """
    check_count(size, "size")
    if idle is not None and not idle > 0:
        raise ParameterError(f"idle must be a number of seconds > 0; got {idle!r}")
    cutter = _Cutter(size, idle, clock, origins, known)
    for event in events:
        if event is None:  # nothing new: sessions of users who have been silent for long enough end
            yield from cutter.silent()
            continue
        yield from cutter.take(event, None if now is None else now())
    if cutter.timeless and not cutter.timed:
        raise UnsupportedError("idle needs the time of each command, and this log has none; cut sessions by size")
    for user in list(cutter.growing):
        yield cutter.close(user, complete=False)


@dataclass(slots=True)
class _Growing:
    """A session that is not at its end: times of its first and latest command, the commands, and where they were."""

    start: float | None
    end: float | None = None
    moment: float | None = None  # by which silence is measured: the time of the latest command, or of its reading
    read_at: float | None = None
    commands: list[str] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    last_heard: float = 0.0  # when the last command came, by the clock


class _Cutter:
    """The growing sessions of all users; the user who was silent for longest comes first."""

    def __init__(
        self, size: int, idle: float | None, clock: Callable[[], float], origins: bool, known: Container[str]
    ) -> None:
        """Begin without users; the arguments are those of :func:`sessions`."""
        self.longest = size if idle is None else max(size, LONGEST_SESSION)  # commands at which a session ends
        self.idle = idle  # seconds of silence by which sessions end instead of by their size, or None
        self.timeless = self.timed = False  # whether, with `idle`, a command had no time, and whether one had a time
        self.clock, self.origins = clock, origins  # time in seconds; whether sessions say where commands were read
        self.known = known  # users who are never forgotten
        self.digests: dict[str, int] = {}  # of each user's last session
        self.cut: dict[str, int] = {}  # number of sessions of each user so far
        # users whom no model knows and who are forgotten if there are too many, the longest silent first
        self.unknown: OrderedDict[str, None] = OrderedDict()
        self.growing: OrderedDict[str, _Growing] = OrderedDict()  # unfinished sessions, the longest silent first
        self.shared: dict[str, str] = {}  # readers make a new string of some 60 bytes for each command
        self.origin: Origin | None = None  # of the last line, which may hold many commands
        # characters of the lines that are kept with unfinished sessions, to bound the memory
        self.held = 0

    def take(self, event: Event, read_at: float | None) -> Iterator[Session]:
        """Add a command, read at a time or None, and yield the sessions that end before it or with it."""
        # with `idle`, a command without a time gets that of the one before, or is left out
        user, moment = event.user, read_at if event.time is None else event.time
        last = self.growing.get(user)
        if self.idle is not None and moment is None:
            self.timeless = True
            if last is None:
                return
            moment = last.moment
        if user not in self.cut:
            yield from self._add_user(user)
        elif user in self.unknown:
            self.unknown.move_to_end(user)  # the longest silent user comes first
        if self.idle is not None:
            self.timed = True
            # Both times are set here. Their difference is absolute, because the lines of a log may be out of order.
            if last is not None and abs((moment or 0.0) - (last.moment or 0.0)) > self.idle:
                yield self.close(user, complete=True)
        if self._add(event, moment, read_at) >= self.longest:
            yield self.close(user, complete=True)

    def _add_user(self, user: str) -> Iterator[Session]:
        """Remember a new user, and yield the unfinished session, if any, of one who is forgotten for that."""
        if user not in self.known:
            if len(self.unknown) >= MAX_USERS:
                silent = next(iter(self.unknown))
                if silent in self.growing:
                    yield self.close(silent, complete=False)
                del self.cut[silent], self.unknown[silent], self.digests[silent]
            self.unknown[user] = None
        self.cut[user] = self.digests[user] = 0

    def _add(self, event: Event, moment: float | None, read_at: float | None) -> int:
        """Add a command, with its `moment` or None, to its user's growing session; return its length."""
        user, time_of_log = event.user, moment if read_at is None else event.time
        if user not in self.growing:
            self.growing[user] = _Growing(time_of_log)
        session = self.growing[user]
        if len(self.shared) >= SHARED_NAMES:  # names are stored once; starting again bounds the memory
            self.shared.clear()
        session.commands.append(self.shared.setdefault(event.command, event.command))
        session.end, session.moment, session.read_at = time_of_log, moment, read_at
        session.last_heard = self.clock()
        self.growing.move_to_end(user)
        if self.origins:
            session.origins.append(self._origin(event))
            self.held += len(session.origins[-1].text)
        return len(session.commands)

    def _origin(self, event: Event) -> Origin:
        """Return where a command was read, without the text of the line if too many texts wait to be judged."""
        origin = self.origin
        if origin is None or (origin.line, origin.source) != (event.line, event.source):
            text = clean_text(event.text) if self.held < MAX_HELD else ""
            origin = self.origin = Origin(event.source, event.line, text)
        return origin

    def silent(self) -> Iterator[Session]:
        """Close, with `idle`, the sessions of users who have been silent for longer than that by the clock."""
        while self.growing and self.idle is not None:
            user, session = next(iter(self.growing.items()))  # the longest silent user comes first
            if self.clock() - session.last_heard <= self.idle:
                return
            yield self.close(user, complete=True)

    def close(self, user: str, *, complete: bool) -> Session:
        """End the growing session of a user and return it; `complete` says whether it has its full length."""
        session = self.growing.pop(user)
        self.held -= sum(len(origin.text) for origin in session.origins)
        start, end = session.start, session.end
        if start is not None and end is not None and end < start:  # the lines of the log may be out of order
            start, end = end, start
        self.cut[user] += 1
        dated = end is not None and end >= FIRST_TIME
        text = repr((end if dated else self.digests[user], session.commands)).encode("utf-8", "backslashreplace")
        digest = int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)
        self.digests[user] = digest
        commands, origins = tuple(session.commands), tuple(session.origins)
        of_log = user, self.cut[user] - 1, commands, start, end, complete, origins, dated, digest
        return Session(*of_log, read_at=session.read_at)
