"""From a model and logs to verdicts, one a session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from visionnmf.exceptions import MediaError, ParameterError

from .lines import Line, follow
from .logs import Event, Session, first_lines, read_events, sessions, with_commands
from .model import Reason, SessionScorer
from .store import MasqueradeModel, load
from .training import Histories

__all__ = ["SessionResult", "score"]

Verdict = Literal["own", "alarm", "learning", "unknown user"]


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
        Times of its first and last command, in seconds since 1970, UTC.
    n_commands : int
        Its length.
    score, threshold : float or None
        The anomaly score in deviations from the user's usual cost, and the threshold; None for an unknown user.
    verdict : {"own", "alarm", "learning", "unknown user"}
        ``"learning"``: the user has too few sessions for alarms.
    reasons : list of Reason
        The commands that made it so, the largest share first.
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

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON line has.

        Returns
        -------
        dict
            Only what JSON knows; times as ISO 8601.
        """
        reasons = [
            {"command": str(r.command), "count": r.count, "share": round(r.share, 3), "sentence": r.sentence}
            for r in self.reasons
        ]
        row = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return row | {"start": _iso(self.start), "end": _iso(self.end), "reasons": reasons}

    def summary(self) -> str:
        """Say the result in words.

        Returns
        -------
        str
            One line.
        """
        when = f", {_iso(self.start)} to {_iso(self.end)}" if self.start is not None and self.end is not None else ""
        head = f"{self.user}, session {self.index}{when}: {self.verdict}"
        if self.score is None:
            return f"{head} ({self.n_commands} commands; train a model for this user first)"
        head += f", score {self.score:.1f} (threshold {self.threshold:.1f})"
        if self.verdict != "alarm" or not self.reasons:
            return head
        return f"{head}: " + "; ".join(f"{r.sentence} [{100 * r.share:.0f} %]" for r in self.reasons)


def _iso(moment: float | None) -> str | None:
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
    poll: float = 0.5,
    stop: Callable[[], bool] | None = None,
    on_error: Callable[[str], None] | None = None,
) -> Iterator[SessionResult]:
    """Score the sessions of logs, one after the other.

    Parameters
    ----------
    model : MasqueradeModel, str or Path
        The model, or its file.
    logs : iterable of str or Path
        Log files, in the order of time. A session may begin in one and end in the next.
    following : bool, default=False
        Follow the one log as it grows (see :func:`follow`), from its end, and never stop.
    update : bool, default=True
        Learn on: see :meth:`SessionScorer.update`. The scorers of a `model` that is not a file change; :func:`save` it
        to keep what was learnt.
    format, user : str, str or None
        See :func:`read_events`.
    key : str or None, default=None
        See :func:`load`.
    top : int, default=5
        Reasons a session, at most; given for sessions above the threshold.
    poll, stop : float, callable or None
        See :func:`follow`.
    on_error : callable or None, default=None
        Called with a sentence for each log that cannot be read or holds no command, which is then skipped; None: raise.

    Returns
    -------
    iterator of SessionResult
        Each as soon as its session is complete; at the end also what is left of each user's last session, which is
        scored but not learnt.

    Raises
    ------
    ParameterError
        If `following` is asked for with more or less than one log.
    MediaError
        If the model cannot be read; or a log cannot, or holds no command, and there is no `on_error`.
    """
    if not isinstance(model, MasqueradeModel):
        model = load(model, key=key)
    paths = [str(path) for path in logs]
    if following and len(paths) != 1:
        raise ParameterError(f"logs must be one log where it is followed; got {len(paths)}")
    source = ""

    def commands() -> Iterator[Event | None]:
        nonlocal source
        for source in paths:
            lines: str | Iterator[Line] = source
            owner, how = user, format
            if following:
                how, header = first_lines(source, format)
                lines = chain(header, follow(source, poll=poll, stop=stop))
                owner = user if user is not None else Path(source).stem.lstrip(".") or None
            try:
                events = read_events(lines, format=how, user=owner, whole_lines=model.whole_lines)
                yield from events if following else with_commands(events, source)
            except (MediaError, OSError) as error:
                if on_error is None:
                    raise
                on_error(str(error))

    def results() -> Iterator[SessionResult]:
        # evict: names in a log may be made up, and must not end the run
        for session in sessions(commands(), size=model.size, idle=model.idle, evict=True):
            if session.complete or not following:
                yield _judge(model.scorers.get(session.user), source, session, update and session.complete, top)

    return results()


def _judge(scorer: SessionScorer | None, source: str, session: Session, learn: bool, top: int) -> SessionResult:
    commands = session.commands
    facts = (source, session.user, session.index, session.start, session.end, len(commands))
    if scorer is None:
        return SessionResult(*facts, None, None, "unknown user", [])
    learning = scorer.learning
    alone = float(scorer.anomaly_score([commands])[0])
    # explained before it is learnt; the previous session can lift a score only so far
    reasons = scorer.explain(commands, top=top) if alone > 0 else []
    anomaly = scorer.update(commands) if learn else alone
    verdict: Verdict = "learning" if learning else "alarm" if anomaly > scorer.threshold_ else "own"
    return SessionResult(*facts, anomaly, scorer.threshold_, verdict, reasons if anomaly > scorer.threshold_ else [])
