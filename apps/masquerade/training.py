"""From histories to a model file."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from visionnmf._checks import check_count
from visionnmf._text import counted
from visionnmf.apps.report import Report
from visionnmf.apps.runner import run_parallel
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import TooLargeError, UnreadableError
from visionnmf.io import check_outputs, check_parents
from visionnmf.io.inputs import names_of

from .log_formats import read_logs
from .profile import SESSIONS_KEPT
from .session_cutter import MAX_USERS, Session, sessions
from .session_scorer import SessionScorer, Symbols, least_sessions
from .settings import LogSource, ScorerSettings, SessionCutting
from .store import Learnt, MasqueradeModel, save

MIN_SHARE = 0.5  # of the size: a shorter unfinished session at the end is not learnt


@takes_records
def train(
    histories: Iterable[str | Path],
    model: str | Path | None = None,
    *,
    cutting: SessionCutting = SessionCutting(),
    source: LogSource = LogSource(),
    scorer: ScorerSettings = ScorerSettings(),
    n_jobs: int = 1,
    force: bool = False,
) -> Report:
    """Learn the habits of every user in the histories.

    Parameters
    ----------
    histories : iterable of str or Path
        Log files, in the order of time. A file without names of users belongs to one user: ``source.user``, or the
        file's name without suffix. Several files may hold commands of the same user.
    model : str, Path or None, default=None
        The file to write; None writes no file.
    cutting : SessionCutting, optional
        How commands are cut into sessions.
    source : LogSource, optional
        The format of the logs, and their user.
    scorer : ScorerSettings, optional
        The false alarm rate, and how habits are described.
    n_jobs : int, default=1
        Number of processes that learn users, once everything was read.
    force : bool, default=False
        Whether an existing `model` may be replaced.

    Returns
    -------
    Report
        With the ``model``. The figure ``users`` has for each user: ``user``, ``sessions``, ``commands``, ``doubtful``
        (number of sessions unlike all others), ``threshold``, ``learning`` (whether there are too few sessions for
        alarms) and ``least`` (the sessions that the false alarm rate takes). The last 1000 sessions of a user are
        learnt.

    Raises
    ------
    MediaError
        If no history has a session that can be learnt, there are more than 100,000 users, or `model` exists or cannot
        be written. Histories that cannot be read are skipped and reported.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import SessionCutting, train
    >>> len(train(["ada.txt", "ben.txt"], "users.npz", cutting=SessionCutting(size=20), force=True).users)
    2
    """
    check_count(n_jobs, "n_jobs")
    paths = names_of(histories, "histories")
    if model is not None:
        check_outputs([model], force, inputs=paths)
        check_parents([model])
    remembered: dict[str, Learnt] = {}
    learnt, skipped = collect_sessions(paths, cutting, source, remembered)
    if not learnt:
        raise UnreadableError("; ".join(skipped) or "there is no history; name one file at least")
    work = {name: (SessionScorer(**asdict(scorer)), [one.commands for one in own]) for name, own in learnt.items()}
    fitted: dict[str, SessionScorer] = {}
    run_parallel(work, fitted_to, n_jobs, fitted.__setitem__)
    known = {name: fitted[name] for name in learnt}
    result = MasqueradeModel(known, cutting.size, cutting.idle, cutting.whole_lines, remembered)
    rows = [_row(name, len(own), fitted[name]) for name, own in learnt.items()]
    if model is not None:
        save(result, model, force=force)
    outputs = [] if model is None else [str(model)]
    return Report(
        figures={"users": rows}, lines=[*map(_line, rows)], model=result, inputs=paths, outputs=outputs, skipped=skipped
    )


def _line(row: dict[str, Any]) -> str:
    """Return a row of :func:`_row` in words."""
    unlike = f", {row['doubtful']} unlike all others" if row["doubtful"] else ""
    few = "; too few for alarms yet" if row["learning"] else ""
    if not few and row["sessions"] < row["least"]:
        few = f"; expect more false alarms than asked for, because that rate needs {row['least']} sessions"
    sessions, commands = counted(row["sessions"], "session"), counted(row["commands"], "different command")
    return f"{row['user']}: {sessions}, {commands}{unlike}{few}"


def fitted_to(detector: Any, sessions: Sequence[Symbols]) -> Any:
    """Return a detector, fitted to one user's sessions without the warning that they are few, which reports say."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"X has \d+ sessions?, and a false alarm rate")
        return detector.fit(sessions)


def _row(name: str, n_sessions: int, scorer: SessionScorer) -> dict[str, Any]:
    """Return what the report says about a user: numbers of sessions, known commands and doubtful sessions."""
    return {
        "user": name,
        "sessions": n_sessions,
        "commands": len(scorer.profile_.commands),
        "doubtful": len(scorer.doubtful_),
        "threshold": scorer.threshold_,
        "learning": scorer.learning,
        "least": least_sessions(scorer.false_alarm_rate),
    }


def collect_sessions(
    paths: Sequence[str], cutting: SessionCutting, source: LogSource, remembered: dict[str, Learnt] | None = None
) -> tuple[dict[str, deque[Session]], list[str]]:
    """Return the last SESSIONS_KEPT sessions of each user, in order of time, and a sentence for each file skipped."""
    learnt: dict[str, deque[Session]] = {}
    skipped: list[str] = []
    commands = read_logs(paths, source, whole_lines=cutting.whole_lines, on_error=skipped.append)
    for session in sessions(commands, size=cutting.size, idle=cutting.idle):
        own = learnt.setdefault(session.user, deque(maxlen=SESSIONS_KEPT))  # which bounds the memory
        # A short rest is learnt only if the user has nothing else.
        long_enough = cutting.idle is not None or len(session.commands) >= MIN_SHARE * cutting.size
        if long_enough or not own:
            own.append(session)
            if remembered is not None:  # also the sessions that `own` forgets
                remembered.setdefault(session.user, Learnt()).add(session)
        if len(learnt) > MAX_USERS:
            raise TooLargeError(f"more than {MAX_USERS} users; is the right column taken for the user?")
    return learnt, skipped
