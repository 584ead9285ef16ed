"""From histories to a model file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visionnmf import choices
from visionnmf._checks import check_count, check_number
from visionnmf.apps.report import Report
from visionnmf.apps.runner import run_parallel
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io import check_outputs

from .logs import Event, read_events, sessions, with_commands
from .model import SessionScorer
from .store import MasqueradeModel, save

__all__ = ["Histories", "Trained", "collect_sessions", "train"]

Histories = Iterable[str | Path]

MAX_SESSIONS = 1000  # a user: older ones are forgotten, and memory is bounded
LEAST_SHARE = 0.5  # of the size: a last, unfinished session shorter than this is not learnt from


@dataclass(frozen=True)
class Trained(Report):
    """What :func:`train` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    model : MasqueradeModel
        The model.
    users : list of dict
        One for each user: ``user``, ``sessions``, ``commands``, ``doubtful`` (sessions unlike all others),
        ``threshold``, ``learning`` (too few sessions for alarms yet).
    """

    model: MasqueradeModel
    users: list[dict[str, Any]]

    def _figures(self) -> dict[str, Any]:
        return {"users": self.users}

    def summary(self) -> str:
        """Say what was learnt.

        Returns
        -------
        str
            One line for each user, then one for each skipped file.
        """
        lines = []
        for row in self.users:
            notes = f", {row['doubtful']} unlike all others" if row["doubtful"] else ""
            notes += "; too few for alarms yet" if row["learning"] else ""
            lines.append(f"{row['user']}: {row['sessions']} sessions, {row['commands']} different commands{notes}")
        return "\n".join([*lines, *self._ending()])


def train(
    histories: Histories,
    model: str | Path | None = None,
    *,
    size: int = choices.SESSION_SIZE,
    idle: float | None = None,
    format: str = "auto",
    user: str | None = None,
    whole_lines: bool = False,
    false_alarm_rate: float = choices.FALSE_ALARM_RATE,
    hash_commands: bool = False,
    key: str | None = None,
    n_jobs: int = 1,
    force: bool = False,
) -> Trained:
    """Learn the habits of every user in the histories.

    Parameters
    ----------
    histories : iterable of str or Path
        Log files, in the order of time. A file that names no users is one user's: `user`, or the file's name without
        suffix. The same user may be in many files.
    model : str, Path or None, default=None
        The file to write; None: none.
    size, idle : int, float or None
        How sessions are cut: see :func:`sessions`.
    format, user, whole_lines : str, str or None, bool
        See :func:`read_events`.
    false_alarm_rate, hash_commands, key : float, bool, str or None
        See :class:`SessionScorer`.
    n_jobs : int, default=1
        Processes that learn users, once all is read.
    force : bool, default=False
        Whether an existing `model` may be replaced.

    Returns
    -------
    Trained
        The model and a report. Each user's last 1000 sessions are learnt.

    Raises
    ------
    ParameterError
        If an argument has a value that is not allowed.
    UnreadableError
        If no history has a session that can be learnt; files that cannot be read are skipped and reported.
    OutputExistsError
        If `model` exists and `force` is false; looked at before the work.
    MediaError
        If `model` cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import train
    >>> len(train(["ada.txt", "ben.txt"], "users.npz", size=20, force=True).users)
    2
    """
    check_count(n_jobs, "n_jobs")
    paths = [str(path) for path in histories]
    if model is not None:
        check_outputs([model], force, inputs=paths)
    learnt, skipped = collect_sessions(paths, size=size, idle=idle, format=format, user=user, whole_lines=whole_lines)
    if not learnt:
        raise UnreadableError("; ".join(skipped) or "there is no history; name one file at least")
    unfitted = SessionScorer(false_alarm_rate=false_alarm_rate, hash_commands=hash_commands, key=key)
    fitted: dict[str, SessionScorer] = {}
    if n_jobs == 1:
        fitted = {name: _fitted(unfitted, list(own)) for name, own in learnt.items()}
    else:
        work = {name: (unfitted, list(own)) for name, own in learnt.items()}
        run_parallel(work, _fitted, n_jobs, fitted.__setitem__)
    result = MasqueradeModel({name: fitted[name] for name in learnt}, size, idle, whole_lines)
    rows = [_row(name, len(own), fitted[name]) for name, own in learnt.items()]
    if model is not None:
        save(result, model, force=force)
    outputs = [] if model is None else [str(model)]
    return Trained(result, rows, inputs=paths, outputs=outputs, skipped=skipped)


def _fitted(scorer: SessionScorer, sessions: list[tuple[str, ...]]) -> SessionScorer:
    return SessionScorer(**scorer.get_params()).fit(sessions)


def _row(name: str, n_sessions: int, scorer: SessionScorer) -> dict[str, Any]:
    return {
        "user": name,
        "sessions": n_sessions,
        "commands": len(scorer.profile_.commands),
        "doubtful": len(scorer.doubtful_),
        "threshold": scorer.threshold_,
        "learning": scorer.learning,
    }


def collect_sessions(
    paths: Sequence[str],
    *,
    size: int,
    idle: float | None,
    format: str,
    user: str | None,
    whole_lines: bool,
) -> tuple[dict[str, deque[tuple[str, ...]]], list[str]]:
    """Read the sessions of each user; a file that cannot be read becomes a sentence."""
    if idle is not None:
        check_number(idle, "idle", without_low=True)
    learnt: dict[str, deque[tuple[str, ...]]] = {}
    skipped: list[str] = []

    def commands() -> Iterator[Event | None]:
        for path in paths:
            try:
                events = read_events(path, format=format, user=user, whole_lines=whole_lines)
                yield from with_commands(events, path)
            except (MediaError, OSError) as error:
                skipped.append(str(error))

    for session in sessions(commands(), size=size, idle=idle):
        own = learnt.setdefault(session.user, deque(maxlen=MAX_SESSIONS))
        # a short rest is learnt only where there is nothing else
        if session.complete or idle is not None or not own or len(session.commands) >= LEAST_SHARE * size:
            own.append(session.commands)
    return learnt, skipped
