"""How the commands of many users are cut into sessions, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from visionnmf import choices
from visionnmf._checks import check_count
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io.text_lines import CurrentLine

from .command_lines import clean_text
from .log_formats import Event

MAX_USERS = 100_000  # without those that are never forgotten
LONGEST_SESSION = 1000  # commands, for sessions that are cut by silence
MIN_JUDGED = 5  # commands of a session that is yielded while it grows
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

    `index` is the number of the session among the user's sessions, from 0. `start` and `end` are the times of the first
    and the last command, in seconds since 1970, UTC. A session is `complete` if it has its full length, or a silence
    after it, and `growing` if it is not at its end and will be yielded again. `origins` says where each command was
    read, if the reader knows.
    """

    user: str
    index: int
    commands: tuple[str, ...]
    start: float | None
    end: float | None
    complete: bool
    origins: tuple[Origin, ...] = ()
    growing: bool = False


def sessions(
    events: Iterable[Event | None],
    *,
    size: int = choices.SESSION_SIZE,
    idle: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    known: Container[str] = (),
    silence: float | None = None,
    growing: bool = False,
    now: Callable[[], float] | None = None,
    place: CurrentLine | None = None,
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
        Returns the time in seconds while a log is followed.
    known : container of str, default=()
        Users who are never forgotten.
    silence : float > 0 or None, default=None
        Also end a session that is cut by `size` when the user was silent for this many seconds of `clock`, which is
        checked at each None among the events. Such a session is complete if it has half of its commands.
    growing : bool, default=False
        Whether sessions are also yielded while they grow: with 10, 20, 40, ... commands, and at a None with 5
        commands and then each time they have grown by half.
    now : callable or None, default=None
        Returns the time of commands that have none, in seconds since 1970, for a log that is followed.
    place : CurrentLine, optional
        The place of the reader of the events; it gives sessions their `origins`.

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
    for value, name in ((idle, "idle"), (silence, "silence")):
        if value is not None and not value > 0:
            raise ParameterError(f"{name} must be None or a number of seconds > 0; got {value!r}")
    cutter = _Cutter(size, idle, clock, place, known)
    quiet = idle if idle is not None else silence
    for event in events:
        if event is None:  # nothing new: sessions of users who have been silent for long enough end
            if quiet is not None:
                yield from cutter.silent(quiet)
            if growing:
                yield from cutter.grown()
            continue
        user, command, moment = event
        if moment is None and now is not None:
            moment = now()
        yield from cutter.take(user, command, moment)
        # from 10 commands on, to be judged each time that it has doubled since it was last yielded
        session = cutter.growing.get(user)
        if growing and session is not None and len(session.commands) >= 2 * max(MIN_JUDGED, session.judged):
            yield cutter.snapshot(user)
    if cutter.timeless and not cutter.timed:
        raise UnsupportedError("idle needs the time of each command, and this log has none; cut sessions by size")
    for user in list(cutter.growing):
        yield cutter.close(user, complete=False)


class _Growing:
    """A session that is not at its end."""

    __slots__ = ("commands", "end", "judged", "last_heard", "origins", "start")

    def __init__(self, start: float | None) -> None:
        """Begin a session without commands; `start` is None if the log has no times."""
        # `judged` is the number of commands when the session was last yielded while it grew.
        self.commands: list[str] = []
        self.origins: list[Origin] = []  # one for each command, if the reader's place is known
        self.start = start  # time of the first command in the log, in seconds since 1970
        self.end = start  # time of the latest command in the log
        self.last_heard = 0.0  # when the last command came, by the clock
        self.judged = 0


class _Cutter:
    """The growing sessions of all users; the user who was silent for longest comes first."""

    def __init__(
        self,
        size: int,
        idle: float | None,
        clock: Callable[[], float],
        place: CurrentLine | None,
        known: Container[str],
    ) -> None:
        """Begin without users; the arguments are those of :func:`sessions`."""
        self.longest = size if idle is None else max(size, LONGEST_SESSION)  # commands at which a session ends
        self.idle = idle  # seconds of silence by which sessions end instead of by their size, or None
        self.timeless = self.timed = False  # whether, with `idle`, a command had no time, and whether one had a time
        self.clock, self.place = clock, place  # time in seconds while a log is followed; where its reader is
        self.known = known  # users who are never forgotten
        self.cut: dict[str, int] = {}  # number of sessions of each user so far
        # users whom no model knows and who are forgotten if there are too many, the longest silent first
        self.unknown: OrderedDict[str, None] = OrderedDict()
        self.growing: OrderedDict[str, _Growing] = OrderedDict()  # unfinished sessions, the longest silent first
        self.changed: dict[str, None] = {}  # users with new commands since the last call of `grown`
        self.shared: dict[str, str] = {}  # readers make a new string of some 60 bytes for each command
        self.origin: Origin | None = None  # of the last line, which may hold many commands
        # characters of the lines that are kept with unfinished sessions, to bound the memory
        self.held = 0

    def take(self, user: str, command: str, moment: float | None) -> Iterator[Session]:
        """Add a command, with its log time `moment` or None, and yield the sessions that end before it or with it."""
        # `growing` has the unfinished sessions by user. With `idle`, a command without a time gets that of the one
        # before, or is left out; `timeless` and `timed` remember whether there were such commands, and others.
        last = self.growing.get(user)
        if self.idle is not None and moment is None:
            self.timeless = True
            if last is None:
                return
            moment = last.end
        if user not in self.cut:
            yield from self._add_user(user)
        elif user in self.unknown:
            self.unknown.move_to_end(user)  # the longest silent user comes first
        if self.idle is not None:
            self.timed = True
            # Both times are set here. Their difference is absolute, because the lines of a log may be out of order.
            if last is not None and abs((moment or 0.0) - (last.end or 0.0)) > self.idle:
                yield self.close(user, complete=True)
        if self._add(user, command, moment) >= self.longest:
            yield self.close(user, complete=True)

    def _add_user(self, user: str) -> Iterator[Session]:
        """Remember a new user, and yield the unfinished session, if any, of one who is forgotten for that."""
        # `cut` counts the sessions of each remembered user. `unknown` has those who are not `known` and may be
        # forgotten, the longest silent first.
        if user not in self.known:
            if len(self.unknown) >= MAX_USERS:
                silent = next(iter(self.unknown))
                if silent in self.growing:
                    yield self.close(silent, complete=False)
                del self.cut[silent], self.unknown[silent]
            self.unknown[user] = None
        self.cut[user] = 0

    def _add(self, user: str, command: str, moment: float | None) -> int:
        """Add a command, with its log time `moment` or None, to a user's growing session; return its length."""
        # `last_heard` is when the command came by the `clock`, `changed` collects the users with new commands, and
        # `held` counts the characters of lines kept as `origins`. `place` is the reader's position, None if unknown.
        if user not in self.growing:
            self.growing[user] = _Growing(moment)
        session = self.growing[user]
        if len(self.shared) >= SHARED_NAMES:  # names are stored once; starting again bounds the memory
            self.shared.clear()
        session.commands.append(self.shared.setdefault(command, command))
        session.end = moment
        session.last_heard = self.clock()
        self.growing.move_to_end(user)
        self.changed[user] = None
        if self.place is not None:
            session.origins.append(self._origin(self.place))
            self.held += len(session.origins[-1].text)
        return len(session.commands)

    def _origin(self, place: CurrentLine) -> Origin:
        """Return where the reader is, without the text of the line if too many texts wait to be judged."""
        # `origin` is that of the last command, which is used again for further commands of the same line; `held` counts
        # the characters that wait.
        origin = self.origin
        if origin is None or (origin.line, origin.source) != (place.number, place.source):
            text = clean_text(place.text) if self.held < MAX_HELD else ""
            origin = self.origin = Origin(place.source, place.number, text)
        return origin

    def silent(self, seconds: float) -> Iterator[Session]:
        """Close the sessions of users who have been silent for this long, by the clock.

        A session that is cut by time is complete then; one that is cut by size needs half of the `longest` number of
        commands. `growing` is in the order of the latest command, `last_heard` at a time of the `clock`, so the first
        user who is not silent ends the search.
        """
        while self.growing:
            user, session = next(iter(self.growing.items()))
            if self.clock() - session.last_heard <= seconds:
                return
            yield self.close(user, complete=self.idle is not None or 2 * len(session.commands) >= self.longest)

    def grown(self) -> Iterator[Session]:
        """Yield, unfinished, sessions grown by half since they were last yielded, at first MIN_JUDGED commands."""
        # `changed` are the users with commands since the last call, and a session had `judged` commands when it was
        # last yielded.
        for user in list(self.changed):
            session = self.growing.get(user)
            if session is not None and len(session.commands) >= max(MIN_JUDGED, 1.5 * session.judged):
                yield self.snapshot(user)
        self.changed.clear()

    def snapshot(self, user: str) -> Session:
        """Return a session as it is at the moment, marked as `growing`, and remember its length for the next time."""
        # ``self.growing`` has the unfinished sessions by user, and `judged` is that length.
        session = self.growing[user]
        session.judged = len(session.commands)
        return self._session(user, session, complete=False, growing=True)

    def close(self, user: str, *, complete: bool) -> Session:
        """End the growing session of a user and return it; `complete` says whether it has its full length."""
        # `held` counts the characters of the lines of unfinished sessions, `cut` the sessions of each user, and
        # `changed` has the users whose unfinished sessions have new commands.
        session = self.growing.pop(user)
        self.changed.pop(user, None)
        self.held -= sum(len(origin.text) for origin in session.origins)
        found = self._session(user, session, complete=complete, growing=False)
        self.cut[user] += 1
        return found

    def _session(self, user: str, session: _Growing, *, complete: bool, growing: bool) -> Session:
        """Return a session for the caller, with times in order even if the lines of the log are not.

        It is `complete` if it has its full length, and `growing` if it may get more commands; the rest at the end of a
        log, or of a user who is forgotten, is neither.
        """
        # Its `index` is the number of the user's sessions before it, ``cut[user]``. `origins` says for each command
        # where it stands in the log.
        start, end = session.start, session.end
        if start is not None and end is not None and end < start:
            start, end = end, start
        commands, origins = tuple(session.commands), tuple(session.origins)
        return Session(user, self.cut[user], commands, start, end, complete, origins, growing)
