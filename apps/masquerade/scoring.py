"""Scoring logs with a model: one result for each session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from visionnmf._checks import check_count
from visionnmf.apps.pool import open_pool
from visionnmf.exceptions import MediaError, ParameterError
from visionnmf.io.text_lines import Line, Place, check_is_text, follow, standard_input

from .log_formats import FIRST_TIME, STANDARD_INPUT, Event, first_lines, read_events, with_commands
from .session_cutter import Origin, Session, sessions
from .session_judging import Judgement, ReadSession, judge, judge_in_rounds
from .session_results import SessionResult, Severity, Verdict
from .settings import Following, Judging, LogSource
from .store import MasqueradeModel, load

__all__ = ["score"]

SEVERITIES: tuple[tuple[Severity, float], ...] = (("high", 3.0), ("medium", 1.0))  # deviations above the threshold
MAX_ORIGINS = 3  # lines named for a reason
MAX_ALARMED = 100_000  # users whose early alarms are remembered


def score(
    model: MasqueradeModel | str | Path,
    logs: Iterable[str | Path],
    *,
    judging: Judging = Judging(),
    following: Following = Following(),
    source: LogSource = LogSource(),
    key: str | None = None,
    stop: Callable[[], bool] | None = None,
    on_error: Callable[[str], None] | None = None,
    n_jobs: int = 1,
) -> Iterator[SessionResult]:
    """Score the sessions of logs.

    Parameters
    ----------
    model : MasqueradeModel, str or Path
        The model of :func:`train`, or its file. It learns on in memory; the file does not change.
    logs : iterable of str or Path
        The logs in the order of time; ``-`` is standard input.
    judging : Judging, optional
        Whether the model learns on, the threshold, and the number of reasons. Learning always follows the users' own
        thresholds.
    following : Following, optional
        Whether and how one log is followed as it grows. Growing sessions of a followed log or of standard input that
        are alarms already are reported too, by the same threshold; the scores of short sessions are shrunk to 0.
    source : LogSource, optional
        The format of the logs, and their user.
    key : str or None, default=None
        The key of hashed commands; see :func:`load`.
    stop : callable or None, default=None
        Called at each look at a log that is followed; a true value ends the work.
    on_error : callable or None, default=None
        Called with a sentence for each log that cannot be read or holds no command. The log is skipped then. With
        None, the error is raised.
    n_jobs : int, default=1
        Number of processes that judge sessions while this one reads. The results are the same. Not for a log that is
        followed, nor for standard input.

    Returns
    -------
    iterator of SessionResult
        Each result as soon as its session is complete; at the end also the rest of each user's last session, which is
        scored but not learnt.

    Raises
    ------
    ParameterError
        If a log is to be followed and `logs` does not hold exactly one, or `n_jobs` is above 1.
    MediaError
        If the model cannot be read; also if a log cannot be read or holds no command and there is no `on_error`.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import LogSource, score
    >>> results = list(score("users.npz", ["ben.txt"], source=LogSource(user="ada")))  # Ben uses Ada's account
    >>> results[0].verdict
    'alarm'
    """
    if not isinstance(model, MasqueradeModel):
        model = load(model, key=key)
    paths = [str(path) for path in logs]
    if following.follow and len(paths) != 1:
        raise ParameterError(f"logs must be one log where it is followed; got {len(paths)}")
    if check_count(n_jobs, "n_jobs") > 1 and (following.follow or STANDARD_INPUT in paths):
        raise ParameterError(f"n_jobs must be 1 where a log is followed, or standard input; got {n_jobs}")
    reader = _Reader(model, paths, following, source, stop, skip_errors=on_error is not None)
    return _results(reader, judging, on_error, n_jobs)


class _Reader:
    """Reads the sessions of logs, and collects a sentence for each log that cannot be read."""

    def __init__(
        self,
        model: MasqueradeModel,
        paths: list[str],
        following: Following,
        source: LogSource,
        stop: Callable[[], bool] | None,
        skip_errors: bool,
    ) -> None:
        self.model, self.paths, self.following, self.source = model, paths, following, source
        self.stop, self.skip_errors = stop, skip_errors
        self.live = following.follow or paths == [STANDARD_INPUT]
        self.place = Place()
        self.failures: list[str] = []  # since the last session

    def read(self, update: bool) -> Iterator[ReadSession]:
        """Yield the sessions of all logs; complete ones are marked to be learnt if `update` is true."""
        found = sessions(
            self._commands(),
            size=self.model.size,
            idle=self.model.idle,
            evict=True,  # names in a log may be made up, and must not end the run
            known=self.model.scorers,
            silence=self.following.silence if self.following.follow else None,
            growing=self.following.early_alarms and self.live,
            now=time.time if self.live else None,
            place=self.place,
        )
        for session in found:
            failures, self.failures = tuple(self.failures), []
            yield ReadSession(session, self.place.source, update and session.complete, failures)

    def _commands(self) -> Iterator[Event | None]:
        """Yield the events of all logs in turn; with `skip_errors` unreadable ones are noted in `failures`."""
        for path in self.paths:
            self.place.source, self.place.number = path, 0
            try:
                events = self._events(path)
                yield from events if self.live else with_commands(events, path)
            except (MediaError, OSError) as error:
                if not self.skip_errors:
                    raise
                self.failures.append(str(error))

    def _events(self, path: str) -> Iterator[Event | None]:
        """Yield the events of one log: standard input, a file that is followed as it grows, or a whole file."""
        lines: str | Iterator[Line] = path
        user, format = self.source.user, self.source.format
        if path == STANDARD_INPUT:
            lines = standard_input(poll=self.following.poll, stop=self.stop)
        elif self.following.follow:
            if Path(path).is_file():
                check_is_text(Path(path))
            format, header = first_lines(path, format)
            lines = chain(header, follow(path, poll=self.following.poll, stop=self.stop, place=self.place))
            user = user if user is not None else Path(path).stem.lstrip(".") or None
        return read_events(lines, format=format, user=user, whole_lines=self.model.whole_lines, place=self.place)


def _results(
    reader: _Reader, judging: Judging, on_error: Callable[[str], None] | None, n_jobs: int
) -> Iterator[SessionResult]:
    """Judge sessions; report growing ones only when they are news."""
    alarmed: dict[str, int] = {}  # number of commands of a user's growing session at its last alarm
    report = on_error or _ignore
    for read, judgement in _judged(reader, judging, n_jobs):
        for sentence in read.failures:
            report(sentence)
        result = _result(read, judgement)
        if not read.session.growing:
            alarmed.pop(result.user, None)
            yield result
        elif result.verdict == "alarm" and _is_news(result, alarmed):
            yield result
    for sentence in reader.failures:
        report(sentence)


def _ignore(sentence: str) -> None:
    """Do nothing: without `on_error`, errors are raised instead."""


def _judged(reader: _Reader, judging: Judging, n_jobs: int) -> Iterator[tuple[ReadSession, Judgement | None]]:
    """Yield each session with its judgement, by one process or several; None for users without a scorer."""
    scorers = reader.model.scorers
    if n_jobs > 1:
        with open_pool(n_jobs) as pool:
            yield from judge_in_rounds(reader.read(judging.update), scorers, judging, pool, n_jobs)
        return
    for read in reader.read(judging.update):
        scorer = scorers.get(read.session.user)
        yield read, None if scorer is None else judge(scorer, read.session.commands, read.learn, judging)


def _is_news(result: SessionResult, alarmed: dict[str, int]) -> bool:
    """Return whether an alarm of a growing session is the first one, or has twice the commands of the last."""
    if result.n_commands < 2 * alarmed.get(result.user, 0):
        return False
    if len(alarmed) >= MAX_ALARMED:
        alarmed.clear()
    alarmed[result.user] = result.n_commands
    return True


def _result(read: ReadSession, judgement: Judgement | None) -> SessionResult:
    """Return the result to report for a session; without a judgement its user is unknown."""
    session, origins = read.session, read.session.origins
    source = origins[-1].source if origins else read.source  # where it ended; it may begin in the log before
    start, end = (None if at is None or at < FIRST_TIME else at for at in (session.start, session.end))
    facts = (source, session.user, session.index, start, end, len(session.commands))
    places: dict[str, Any] = {"growing": session.growing}
    if origins:
        first = next(origin.line for origin in origins if origin.source == source)
        places |= {"first_line": first, "last_line": origins[-1].line}
    if judgement is None:
        return SessionResult(*facts, None, None, "unknown user", [], **places)
    anomaly, threshold = judgement.score, judgement.threshold
    verdict: Verdict = "learning" if judgement.learning else "alarm" if anomaly > threshold else "own"
    if anomaly <= threshold:
        return SessionResult(*facts, anomaly, threshold, verdict, [], **places)
    severity = _severity(anomaly - threshold) if verdict == "alarm" else None
    reasons = [replace(reason, origins=_origins(session, str(reason.command))) for reason in judgement.reasons]
    return SessionResult(
        *facts, anomaly, threshold, verdict, reasons, severity=severity, usual=judgement.usual, **places
    )


def _origins(session: Session, command: str) -> tuple[Origin, ...]:
    """Return the first lines of a session that hold a command, without repeated texts."""
    found: dict[str, Origin] = {}
    for origin, each in zip(session.origins, session.commands, strict=False):
        if each == command:
            found.setdefault(origin.text, origin)
    return tuple(islice(found.values(), MAX_ORIGINS))


def _severity(above: float) -> Severity:
    return next((name for name, low in SEVERITIES if above >= low), "low")
