"""Scoring logs with a model: one result for each session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

from visionnmf._checks import check_count
from visionnmf._text import counted
from visionnmf.apps import cluster_address, is_shared
from visionnmf.apps.pool import open_pool
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import ParameterError
from visionnmf.io.inputs import names_of

from .log_formats import FIRST_TIME, STANDARD_INPUT, read_logs
from .session_cutter import Origin, Session, sessions
from .session_scorer import Reason, SessionScorer
from .settings import Judging, LogSource
from .store import Learnt, MasqueradeModel, load

Verdict = Literal["own", "alarm", "learning", "too short", "unknown user"]
Severity = Literal["low", "medium", "high"]

SEVERITIES: tuple[tuple[Severity, float], ...] = (("high", 3.0), ("medium", 1.0), ("low", 0.0))  # above the threshold
MAX_ORIGINS = 3  # lines named for a reason
# Deviations: the previous session adds at most this to a score (CARRY * CARRY_LIMIT of the scorer is 0.8).
MAX_CARRIED = 1.0
ROUND = 2000  # sessions in a round, which other processes judge while the next one is read


@dataclass(frozen=True)
class SessionResult:
    """One scored session.

    Attributes
    ----------
    source, user, index : str, str, int
        The log, the user, and the number of the session among the user's sessions in this run, from 0.
    start, end : float or None
        Times of its first and last command, in seconds since 1970, UTC; None if the log has no times.
    n_commands : int
        Its length.
    score, threshold : float or None
        The anomaly score in deviations from the user's usual cost, and the threshold; None if it was not judged.
    verdict : {"own", "alarm", "learning", "too short", "unknown user"}
        ``"learning"``: the user has too few sessions for alarms. ``"too short"``: the session has less than a tenth of
        the user's usual length and raises no alarm. It is too short to show that the user typed it, and is not learnt.
        ``"unknown user"``: the model does not have this user; train it, or give ``source=LogSource(user=...)``.
    reasons : list of Reason
        The commands that raised the score, the largest share first.
    severity : {"low", "medium", "high"} or None
        For alarms: less than 1, less than 3, or more deviations above the threshold.
    usual : list of str
        For alarms: the commands that occur in most of the user's sessions.
    first_line, last_line : int
        Its lines in the log.
    read_at : float or None
        When its last command was read from standard input, in seconds since 1970, UTC.
    learnt_before : bool
        Whether the model has learnt this session, or a later one, before this run; then it is not learnt again.
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
    first_line: int | None = None
    last_line: int | None = None
    learnt_before: bool = False
    read_at: float | None = None

    def report(self) -> Report:
        """Return the result for programs, with times as ISO 8601, and in words; an alarm has a line for each reason.

        Returns
        -------
        Report
        """
        reasons = [
            {
                "command": str(r.command),
                "count": r.count,
                "share": r.share,
                "sentence": r.sentence,
                "lines": [{"file": o.source, "line": o.line, "text": o.text} for o in r.origins],
            }
            for r in self.reasons
        ]
        times = {name: iso_time(getattr(self, name)) for name in ("start", "end", "read_at")}
        figures = vars(self) | times | {"reasons": reasons}
        return Report(figures=figures, lines=self._lines(), inputs=[self.source])

    def _lines(self) -> list[str]:
        """Return the result in words."""
        start, end, read_at = map(iso_time, (self.start, self.end, self.read_at))
        when = f", {start} to {end}" if start and end else f", read at {read_at}" if read_at else ""
        head = f"{self.user}, session {self.index}{when}: {self.verdict}"
        if self.score is None:
            return [f"{head} ({counted(self.n_commands, 'command')})"]
        severity = f", {self.severity}" if self.severity else ""
        before = ", learnt before, or older than the last one learnt" if self.learnt_before else ""
        lines = [f"{head}, score {self.score:.1f} (threshold {self.threshold:.1f}{severity}){before}"]
        if self.verdict != "alarm" or not self.reasons:
            return lines
        for reason in self.reasons:
            lines.append(f"  {reason.sentence} [{100 * reason.share:.0f} %]")
            lines += [f"    {origin.source}:{origin.line}: {origin.text}" for origin in reason.origins]
        if self.usual:
            lines.append(f"  usual for {self.user}: {', '.join(self.usual)}")
        return lines


def iso_time(moment: float | None) -> str | None:
    """Return a time in seconds since 1970 as ISO 8601, or None."""
    return None if moment is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


@takes_records
def score(
    model: MasqueradeModel | str | Path,
    logs: Iterable[str | Path],
    *,
    judging: Judging = Judging(),
    source: LogSource = LogSource(),
    stop: Callable[[], bool] | None = None,
    on_error: Callable[[str], None] | None = None,
    n_jobs: int = 1,
) -> Iterator[SessionResult]:
    """Score the sessions of logs.

    Parameters
    ----------
    model : MasqueradeModel, str or Path
        The model of :func:`train`, or its file. It learns on in memory; the file does not change. What it has learnt
        before this call is judged and not learnt again.
    logs : iterable of str or Path
        The logs in the order of time; ``-`` is standard input.
    judging : Judging, optional
        Whether the model learns on, the threshold, and the number of reasons. Learning always follows the users' own
        thresholds.
    source : LogSource, optional
        The format of the logs, and their user.
    stop : callable or None, default=None
        Called before each look at standard input; a true value ends the work.
    on_error : callable or None, default=None
        Called with a sentence for each log that cannot be read or holds no command. The log is skipped then. With
        None, the error is raised.
    n_jobs : int, default=1
        Number of processes that judge sessions while this one reads. The results are the same. Not for
        standard input.

    Returns
    -------
    iterator of SessionResult
        Each result as soon as its session is complete; at the end also the rest of each user's last session, which is
        scored but not learnt.

    Raises
    ------
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
        model = load(model)
    paths = names_of(logs, "logs")
    # Work is shared with other processes if there are several jobs, or with workers if there is a cluster, which has
    # priority. How many users there are is not known yet, so `n_jobs` also stands for the number of tasks.
    if is_shared(check_count(n_jobs, "n_jobs"), n_jobs) and STANDARD_INPUT in paths:
        got = cluster_address() or n_jobs
        raise ParameterError(f"n_jobs must be 1 for standard input; got {got}")
    commands = read_logs(paths, source, whole_lines=model.whole_lines, on_error=on_error, stop=stop)
    found = sessions(
        commands,
        size=model.size,
        idle=model.idle,
        known=model.scorers,  # who are never forgotten
        now=time.time if paths == [STANDARD_INPUT] else None,
        origins=True,
    )
    return _results(_known_sessions(found, model, judging), model.scorers, judging, n_jobs)


class _Judgement(NamedTuple):
    """The score of a session, the threshold, whether its user is still being learnt, reasons, and usual commands."""

    score: float
    threshold: float
    learning: bool
    reasons: list[Reason]
    usual: list[str]


# None: the user is unknown. "too short": the session is too short to clear the user, and raises no alarm.
_Judged = _Judgement | Literal["too short"] | None


def _known_sessions(found: Iterator[Session], model: MasqueradeModel, judging: Judging) -> Iterator[Session]:
    """Yield sessions that know whether they were learnt before this run; remember those that this run learns."""
    before: dict[str, Learnt] = {}  # what the model had learnt when this run came to a user
    for session in found:
        user = session.user
        if user in model.scorers and not model.scorers[user].too_short(session.commands):  # those are never learnt
            learnt = model.learnt.setdefault(user, Learnt())
            if user not in before:
                before[user] = replace(learnt, digests=dict(learnt.digests))
            if before[user].has(session):
                session = replace(session, learnt=True)
            elif session.complete and judging.update:
                learnt.add(session)
        yield session


def _results(
    found: Iterator[Session], scorers: dict[str, SessionScorer], judging: Judging, n_jobs: int
) -> Iterator[SessionResult]:
    """Judge sessions, by one process or several, and yield their results."""
    if is_shared(n_jobs, n_jobs):
        with open_pool(n_jobs) as pool:
            for session, judged in _judged_in_rounds(found, scorers, judging, pool):
                yield _result(session, judged)
        return
    for session in found:
        scorer = scorers.get(session.user)
        yield _result(session, None if scorer is None else _judge(scorer, session, judging))


def _judge(scorer: SessionScorer, session: Session, judging: Judging) -> _Judged:
    """Score one session by its user's scorer, and give reasons if the score may reach the threshold."""
    commands = session.commands
    learning = scorer.learning  # true while the user has too few sessions for an alarm
    alone = float(scorer.anomaly_score([commands])[0])
    threshold = scorer.threshold_ if judging.threshold is None else judging.threshold
    short = scorer.too_short(commands)
    if short and (learning or alone <= threshold):
        return "too short"
    # The reasons must be found before `update` learns the session, when the final score is not known yet. That score is
    # at most `alone + MAX_CARRIED`, so a session further below the threshold raises no alarm and needs no reasons.
    near = alone > threshold - MAX_CARRIED
    reasons = scorer.explain(commands, top=judging.reasons) if near else []
    usual = scorer.usual() if near and not learning else []  # the user's most usual commands, shown with an alarm
    # What was learnt before is rejected: nothing is learnt, but the next session gets its share of the score.
    learns = session.complete and judging.update and not short
    final = scorer.update(commands, accept=False if session.learnt else None) if learns else alone
    return _Judgement(final, threshold, learning, reasons, usual)


def _judged_in_rounds(
    found: Iterator[Session], scorers: dict[str, SessionScorer], judging: Judging, pool: Executor
) -> Iterator[tuple[Session, _Judged]]:
    """Yield the sessions found with their judgements, in order; pool processes judge a round while one is read."""
    read: list[Session] = []  # the round that is being judged
    tasks: dict[str, Future[tuple[SessionScorer, list[_Judged]]]] = {}  # of each user in it
    for following in chain(iter(lambda: list(islice(found, ROUND)), []), [[]]):  # up to the first empty round, and one
        judged = {}
        for user, task in tasks.items():
            scorers[user], judgements = task.result()  # the scorer has learnt in the process
            judged[user] = iter(judgements)
        for session in read:
            yield session, next(judged[session.user]) if session.user in judged else None
        # sessions of one user are one task, because each may change the scorer
        by_user: dict[str, list[Session]] = {}
        for session in following:
            if session.user in scorers:
                by_user.setdefault(session.user, []).append(replace(session, origins=()))  # which may be long
        tasks = {user: pool.submit(_judge_user, scorers[user], own, judging) for user, own in by_user.items()}
        read = following


def _judge_user(
    scorer: SessionScorer, sessions: list[Session], judging: Judging
) -> tuple[SessionScorer, list[_Judged]]:
    """Judge successive sessions of one user, and return the scorer as it is afterwards."""
    return scorer, [_judge(scorer, session, judging) for session in sessions]


def _result(session: Session, judgement: _Judged) -> SessionResult:
    """Return the result to report for a session; without a judgement its user is unknown."""
    source = session.origins[-1].source  # where it ended; it may begin in the log before
    result = SessionResult(
        source=source,
        user=session.user,
        index=session.index,
        start=_time_if_known(session.start),
        end=_time_if_known(session.end),
        n_commands=len(session.commands),
        score=None,
        threshold=None,
        verdict="unknown user",
        reasons=[],
        learnt_before=session.learnt,
        read_at=session.read_at,
        first_line=next(origin.line for origin in session.origins if origin.source == source),
        last_line=session.origins[-1].line,
    )
    if judgement is None:
        return result
    if judgement == "too short":
        return replace(result, verdict="too short")
    above = judgement.score - judgement.threshold
    verdict: Verdict = "learning" if judgement.learning else "alarm" if above > 0 else "own"
    result = replace(result, score=judgement.score, threshold=judgement.threshold, verdict=verdict)
    if above <= 0:  # reasons were found for a score that came near the threshold, but are not needed
        return result
    # Reasons are also given while the user is still being learnt; `usual` are commands that the user types most.
    reasons = [replace(reason, origins=_origins(session, str(reason.command))) for reason in judgement.reasons]
    severity = next(name for name, low in SEVERITIES if above >= low) if verdict == "alarm" else None
    return replace(result, reasons=reasons, usual=judgement.usual, severity=severity)


def _time_if_known(moment: float | None) -> float | None:
    """Return a time in seconds since 1970, or None for one that counts from another moment."""
    return None if moment is None or moment < FIRST_TIME else moment


def _origins(session: Session, command: str) -> tuple[Origin, ...]:
    """Return the first lines of a session that hold a command, at most MAX_ORIGINS, without repeated texts."""
    found: dict[str, Origin] = {}
    for origin, each in zip(session.origins, session.commands, strict=False):
        if each == command:
            found.setdefault(origin.text, origin)
    return tuple(islice(found.values(), MAX_ORIGINS))
