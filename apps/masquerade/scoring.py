"""From a model and logs to verdicts, one a session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from visionnmf import choices
from visionnmf._checks import check_count, check_number
from visionnmf.apps.pool import open_pool
from visionnmf.exceptions import MediaError, ParameterError

from .formats import FIRST_TIME
from .judging import How, Judged, Read, judge, judge_in_rounds
from .lines import Line, Place, check_is_log, follow, standard_input
from .logs import STANDARD_INPUT, Event, Origin, Session, first_lines, read_events, sessions, with_commands
from .model import Reason
from .store import MasqueradeModel, load
from .training import Histories

__all__ = ["SessionResult", "score"]

Verdict = Literal["own", "alarm", "learning", "unknown user"]
Severity = Literal["low", "medium", "high"]

SEVERITIES: tuple[tuple[Severity, float], ...] = (("high", 3.0), ("medium", 1.0))  # deviations above the threshold
ORIGINS = 3  # lines named for a reason
MOST_ALARMED = 100_000  # users


@dataclass(frozen=True)
class SessionResult:
    """One scored session.

    Attributes
    ----------
    source : str
        The log.
    user : str
        The user.
    index : int
        The session's place among the user's in this run, from 0.
    start, end : float or None
        Times of its first and last command, in seconds since 1970, UTC; None where the log does not say, or no year.
    n_commands : int
        Its length.
    score, threshold : float or None
        The anomaly score in deviations from the user's usual cost, and the threshold; None for an unknown user.
    verdict : {"own", "alarm", "learning", "unknown user"}
        ``"learning"``: the user has too few sessions for alarms.
    reasons : list of Reason
        The commands that made it so, the largest share first.
    severity : {"low", "medium", "high"} or None
        Of an alarm: less than 1, less than 3, or more deviations above the threshold.
    usual : list of str
        Of an alarm: the commands that most of the user's sessions hold.
    growing : bool
        Whether the session goes on: what was judged is its beginning.
    first_line, last_line : int or None
        Its lines in the log.
    """

    source: str
    user: str
    index: int
    start: float | None
    end: float | None
    n_commands: int
    score: float | None
    threshold: float | None
    verdict: Verdict
    reasons: list[Reason]
    severity: Severity | None = None
    usual: list[str] = field(default_factory=list)
    growing: bool = False
    first_line: int | None = None
    last_line: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON line has.

        Returns
        -------
        dict
            Only what JSON knows; times as ISO 8601.
        """
        reasons = [
            {
                "command": str(r.command),
                "count": r.count,
                "share": round(r.share, 3),
                "sentence": r.sentence,
                "lines": [{"file": o.source, "line": o.line, "text": o.text} for o in r.origins],
            }
            for r in self.reasons
        ]
        row = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return row | {"start": iso(self.start), "end": iso(self.end), "reasons": reasons}

    def summary(self) -> str:
        """Say the result in words.

        Returns
        -------
        str
            One line; of an alarm also one for each reason and the lines of the log that it names.
        """
        when = f", {iso(self.start)} to {iso(self.end)}" if self.start is not None and self.end is not None else ""
        so_far = f" so far ({self.n_commands} commands)" if self.growing else ""
        head = f"{self.user}, session {self.index}{so_far}{when}: {self.verdict}"
        if self.score is None:
            return f"{head} ({self.n_commands} commands; train a model for this user first)"
        severity = f", {self.severity}" if self.severity else ""
        head += f", score {self.score:.1f} (threshold {self.threshold:.1f}{severity})"
        if self.verdict != "alarm" or not self.reasons:
            return head
        lines = [head]
        for reason in self.reasons:
            lines.append(f"  {reason.sentence} [{100 * reason.share:.0f} %]")
            lines += [f"    {origin.source}:{origin.line}: {origin.text}" for origin in reason.origins]
        if self.usual:
            lines.append(f"  usual for {self.user}: {', '.join(self.usual)}")
        return "\n".join(lines)


def iso(moment: float | None) -> str | None:
    return None if moment is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def score(
    model: MasqueradeModel | str | Path,
    logs: Histories,
    *,
    following: bool = False,
    update: bool = True,
    format: str = "auto",
    user: str | None = None,
    key: str | None = None,
    top: int = 5,
    threshold: float | None = None,
    silence: float | None = choices.SILENCE,
    provisional: bool = False,
    poll: float = 0.5,
    stop: Callable[[], bool] | None = None,
    on_error: Callable[[str], None] | None = None,
    n_jobs: int = 1,
) -> Iterator[SessionResult]:
    """Score the sessions of logs.

    Parameters
    ----------
    model : MasqueradeModel, str or Path
        What :func:`train` made, or its file. It learns on, in memory; the file stays as it is.
    logs : iterable of str or Path
        The logs, in the order of time; ``-`` is standard input.
    following : bool, default=False
        Follow the one log from its end as it grows, instead of reading it as it is.
    update : bool, default=True
        Whether sessions that are complete are learnt. False leaves the model as it is.
    format, user : str, str or None
        See :func:`read_events`.
    key : str or None, default=None
        See :func:`load`.
    top : int, default=5
        Reasons a session, at most.
    threshold : float or None, default=None
        Deviations above which a session is an alarm; None: each user's own. What is learnt depends on the latter alone.
    silence : float > 0 or None, default=600
        With `following`, seconds without a command after which a session cut by count ends.
    provisional : bool, default=False
        Whether sessions of a followed log, or of standard input, that are alarms already while they grow are yielded,
        too: by the same threshold, their scores drawn to 0 as those of all short sessions are.
    poll, stop : float, callable or None
        See :func:`follow`.
    on_error : callable or None, default=None
        Called with a sentence for each log that cannot be read or holds no command, which is then skipped; None: raise.
    n_jobs : int, default=1
        Processes that judge, while this one reads; what comes out is the same. Not for a log that is followed, nor
        standard input.

    Returns
    -------
    iterator of SessionResult
        Each as soon as its session is complete; at the end also what is left of each user's last session, which is
        scored but not learnt.

    Raises
    ------
    ParameterError
        If `following` is asked for with more or less than one log, or with several processes, or `threshold` is no
        number.
    MediaError
        If the model cannot be read; or a log cannot, or holds no command, and there is no `on_error`.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import score
    >>> results = list(score("users.npz", ["ben.txt"], user="ada"))  # what Ben does under the name of Ada
    >>> results[0].verdict
    'alarm'
    """
    if threshold is not None:
        check_number(threshold, "threshold")
    if not isinstance(model, MasqueradeModel):
        model = load(model, key=key)
    paths = [str(path) for path in logs]
    if following and len(paths) != 1:
        raise ParameterError(f"logs must be one log where it is followed; got {len(paths)}")
    live = following or paths == [STANDARD_INPUT]
    if check_count(n_jobs, "n_jobs") > 1 and (following or STANDARD_INPUT in paths):
        raise ParameterError(f"n_jobs must be 1 where a log is followed, or standard input; got {n_jobs}")
    place = Place()
    failures: list[str] = []  # that wait for the sessions before them

    def commands() -> Iterator[Event | None]:
        for path in paths:
            place.source, place.number = path, 0
            lines: str | Iterator[Line] = path
            owner, how = user, format
            if path == STANDARD_INPUT:
                lines = standard_input(poll=poll, stop=stop)
            elif following:
                how, lines = _followed(path, format, place, poll, stop)
                owner = user if user is not None else Path(path).stem.lstrip(".") or None
            try:
                events = read_events(lines, format=how, user=owner, whole_lines=model.whole_lines, place=place)
                yield from events if live else with_commands(events, path)
            except (MediaError, OSError) as error:
                if on_error is None:
                    raise
                if n_jobs == 1:
                    on_error(str(error))
                else:
                    failures.append(str(error))

    found = sessions(
        commands(),
        size=model.size,
        idle=model.idle,
        evict=True,  # names in a log may be made up, and must not end the run
        known=model.scorers,
        silence=silence if following else None,
        growing=provisional and live,
        now=time.time if live else None,
        place=place,
    )

    def read() -> Iterator[Read]:
        for session in found:
            told, failures[:] = tuple(failures), []
            yield Read(session, place.source, update and session.complete, told)

    def judged() -> Iterator[tuple[Read, Judged | None]]:
        how = How(top, threshold)
        if n_jobs > 1:
            with open_pool(n_jobs) as pool:
                yield from judge_in_rounds(read(), model.scorers, how, pool, n_jobs)
            return
        for each in read():
            scorer = model.scorers.get(each.session.user)
            yield each, None if scorer is None else judge(scorer, each.session.commands, each.learn, how)

    def results() -> Iterator[SessionResult]:
        alarmed: dict[str, int] = {}  # commands with which a growing session was an alarm last
        for each, verdict in judged():
            tell(each.failures)
            result = _result(each, verdict)
            if not each.session.growing:
                alarmed.pop(result.user, None)
                yield result
            elif result.verdict == "alarm" and _worse(result, alarmed):
                yield result
        tell(failures)

    def tell(sentences: Iterable[str]) -> None:
        if on_error is not None:
            for sentence in sentences:
                on_error(sentence)

    return results()


def _followed(
    path: str, format: str, place: Place, poll: float, stop: Callable[[], bool] | None
) -> tuple[str, Iterator[Line]]:
    if Path(path).is_file():
        check_is_log(Path(path))
    how, header = first_lines(path, format)
    return how, chain(header, follow(path, poll=poll, stop=stop, place=place))


def _worse(result: SessionResult, alarmed: dict[str, int]) -> bool:
    """Say whether an alarm of a growing session is news: the first, or with twice the commands of the last."""
    if result.n_commands < 2 * alarmed.get(result.user, 0):
        return False
    if len(alarmed) >= MOST_ALARMED:
        alarmed.clear()
    alarmed[result.user] = result.n_commands
    return True


def _result(read: Read, judged: Judged | None) -> SessionResult:
    session, origins = read.session, read.session.origins
    source = origins[-1].source if origins else read.source  # as a session may begin in the log before
    start, end = (None if at is None or at < FIRST_TIME else at for at in (session.start, session.end))
    facts = (source, session.user, session.index, start, end, len(session.commands))
    places: dict[str, Any] = {"growing": session.growing}
    if origins:
        first = next(origin.line for origin in origins if origin.source == source)
        places |= {"first_line": first, "last_line": origins[-1].line}
    if judged is None:
        return SessionResult(*facts, None, None, "unknown user", [], **places)
    anomaly, limit = judged.score, judged.limit
    verdict: Verdict = "learning" if judged.learning else "alarm" if anomaly > limit else "own"
    if anomaly <= limit:
        return SessionResult(*facts, anomaly, limit, verdict, [], **places)
    severity = _severity(anomaly - limit) if verdict == "alarm" else None
    reasons = [replace(reason, origins=_origins(session, str(reason.command))) for reason in judged.reasons]
    return SessionResult(*facts, anomaly, limit, verdict, reasons, severity=severity, usual=judged.usual, **places)


def _origins(session: Session, command: str) -> tuple[Origin, ...]:
    """Return the first lines of a session that hold a command, no text twice."""
    found: dict[str, Origin] = {}
    for origin, each in zip(session.origins, session.commands, strict=False):
        if each == command:
            found.setdefault(origin.text, origin)
    return tuple(islice(found.values(), ORIGINS))


def _severity(above: float) -> Severity:
    return next((name for name, least in SEVERITIES if above >= least), "low")
