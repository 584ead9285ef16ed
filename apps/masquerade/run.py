"""Masquerade scoring from end to end: histories to a model, logs to verdicts, and how well it would work."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf import choices
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError
from visionnmf.io.inputs import check_outputs

from .lines import Line, follow
from .logs import Event, Session, first_lines, read_events, sessions
from .model import Reason, SessionScorer
from .store import MasqueradeModel, load, save

__all__ = ["Evaluation", "SessionResult", "Trained", "evaluate", "roc_summary", "score", "train"]

Histories = Iterable[str | Path]
Verdict = Literal["own", "alarm", "learning", "unknown user"]

MAX_SESSIONS = 1000  # a user: older ones are forgotten, and memory is bounded
LEAST_SHARE = 0.5  # of the size: a last, unfinished session shorter than this is not learnt from
INTRUDERS = 50  # sessions of other users against each user in `evaluate`
LEAST_TO_EVALUATE = 4  # sessions of a user


@dataclass(frozen=True)
class Trained:
    """What :func:`train` did.

    Attributes
    ----------
    model : MasqueradeModel
        The model.
    users : list of dict
        One for each user: ``user``, ``sessions``, ``commands``, ``doubtful`` (sessions unlike all others),
        ``threshold``, ``learning`` (too few sessions for alarms yet).
    skipped : list of str
        A sentence for each file that could not be read.
    """

    model: MasqueradeModel
    users: list[dict[str, Any]]
    skipped: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON report has.

        Returns
        -------
        dict
            Only what JSON knows.
        """
        return {"users": self.users, "skipped": self.skipped}

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
        return "\n".join(lines + [f"skipped: {message}" for message in self.skipped])


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
    """
    paths = [str(path) for path in histories]
    if model is not None:
        check_outputs([model], force, inputs=paths)
    learnt, skipped = _collect(paths, size=size, idle=idle, format=format, user=user, whole_lines=whole_lines)
    if not learnt:
        raise UnreadableError("; ".join(skipped) or "the histories hold no command; check the format")
    result = MasqueradeModel({}, size, idle, whole_lines)
    rows = []
    for name, own in learnt.items():
        scorer = SessionScorer(false_alarm_rate=false_alarm_rate, hash_commands=hash_commands, key=key).fit(list(own))
        result.scorers[name] = scorer
        rows.append(
            {
                "user": name,
                "sessions": len(own),
                "commands": len(scorer.profile_.commands),
                "doubtful": len(scorer.doubtful_),
                "threshold": scorer.threshold_,
                "learning": scorer.learning,
            }
        )
    if model is not None:
        save(result, model, force=force)
    return Trained(result, rows, skipped)


def _collect(
    paths: Sequence[str],
    *,
    size: int,
    idle: float | None,
    format: str,
    user: str | None,
    whole_lines: bool,
) -> tuple[dict[str, deque[tuple[str, ...]]], list[str]]:
    """Read the sessions of each user; a file that cannot be read becomes a sentence."""
    if idle is not None and not 0 < idle < math.inf:
        raise ParameterError(f"idle must be None or a finite number of seconds above 0, got {idle!r}.")
    learnt: dict[str, deque[tuple[str, ...]]] = {}
    skipped: list[str] = []

    def events() -> Iterator[Event | None]:
        for path in paths:
            try:
                yield from read_events(path, format=format, user=user, whole_lines=whole_lines)
            except (MediaError, OSError) as error:
                skipped.append(str(error))

    for session in sessions(events(), size=size, idle=idle):
        own = learnt.setdefault(session.user, deque(maxlen=MAX_SESSIONS))
        # a short rest is learnt only where there is nothing else
        if session.complete or idle is not None or not own or len(session.commands) >= LEAST_SHARE * size:
            own.append(session.commands)
    return learnt, skipped


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
        Called with a sentence for each log that cannot be read, which is then skipped; None: raise.

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
        If the model cannot be read, or a log and there is no `on_error`.
    """
    if not isinstance(model, MasqueradeModel):
        model = load(model, key=key)
    paths = [str(path) for path in logs]
    if following and len(paths) != 1:
        raise ParameterError(f"only one log can be followed at a time, got {len(paths)}.")
    source = ""

    def events() -> Iterator[Event | None]:
        nonlocal source
        for source in paths:
            lines: str | Iterator[Line] = source
            owner, how = user, format
            if following:
                how, header = first_lines(source, format)
                lines = chain(header, follow(source, poll=poll, stop=stop))
                owner = user if user is not None else Path(source).stem.lstrip(".") or None
            try:
                yield from read_events(lines, format=how, user=owner, whole_lines=model.whole_lines)
            except (MediaError, OSError) as error:
                if on_error is None:
                    raise
                on_error(str(error))

    def results() -> Iterator[SessionResult]:
        # evict: names in a log may be made up, and must not end the run
        for session in sessions(events(), size=model.size, idle=model.idle, evict=True):
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


@dataclass(frozen=True)
class Evaluation:
    """How well the users of some histories can be told apart.

    Attributes
    ----------
    n_users, n_own, n_intruders : int
        Users, their held-out sessions, and sessions of other users that were scored against them.
    auc : float
        Area under the pooled ROC curve.
    missing : dict
        False-alarm percentage (1, 5, 10) to the percentage of intruders' sessions missed at it.
    cost : float
        Least missing % + 6 x false-alarm % (Maxion and Townsend).
    false_alarms, missed : float
        Percentages at each user's own threshold.
    users : list of dict
        ``user``, ``auc``, ``false_alarms``, ``missed`` for each.
    skipped : list of str
        A sentence for each file that could not be read.
    """

    n_users: int
    n_own: int
    n_intruders: int
    auc: float
    missing: dict[int, float]
    cost: float
    false_alarms: float
    missed: float
    users: list[dict[str, Any]]
    skipped: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON report has.

        Returns
        -------
        dict
            Only what JSON knows.
        """
        return {key: getattr(self, key) for key in self.__dataclass_fields__}

    def summary(self) -> str:
        """Say the result in words.

        Returns
        -------
        str
            One line, then one for each skipped file.
        """
        at = ", ".join(f"{value:.0f} % at {rate} %" for rate, value in self.missing.items())
        line = (
            f"{self.n_users} users, {self.n_own} own sessions, {self.n_intruders} of other users: AUC {self.auc:.3f}; "
            f"missed {at} false alarms; at the users' own thresholds {self.missed:.0f} % missed, "
            f"{self.false_alarms:.1f} % false alarms"
        )
        return "\n".join([line, *(f"skipped: {message}" for message in self.skipped)])


def evaluate(
    histories: Histories,
    *,
    size: int = choices.SESSION_SIZE,
    idle: float | None = None,
    format: str = "auto",
    whole_lines: bool = False,
    training_share: float = 0.5,
    false_alarm_rate: float = choices.FALSE_ALARM_RATE,
    random_state: int = 0,
) -> Evaluation:
    """Find out how well the users of some histories can be told apart, each one's later sessions against the others'.

    Each user's first sessions train; the others are scored, and so are 50 random later sessions of the other users, as
    if these had used the account. Nothing is learnt on. Real masqueraders may be closer to the user, or farther.

    Parameters
    ----------
    histories : iterable of str or Path
        Logs of at least two users.
    size, idle, format, whole_lines : int, float or None, str, bool
        See :func:`train`.
    training_share : float in (0, 1), default=0.5
        Share of each user's sessions that train.
    false_alarm_rate : float, default=0.02
        See :class:`SessionScorer`.
    random_state : int, default=0
        Seed of the choice of sessions.

    Returns
    -------
    Evaluation
        The figures; users with fewer than four sessions are left out. Files that cannot be read are skipped and
        reported.

    Raises
    ------
    ParameterError
        If `training_share` is not between 0 and 1.
    UnreadableError
        If fewer than two users have four sessions.
    """
    if not 0 < training_share < 1:
        raise ParameterError(f"training_share must be between 0 and 1, got {training_share!r}.")
    paths = [str(path) for path in histories]
    found, skipped = _collect(paths, size=size, idle=idle, format=format, user=None, whole_lines=whole_lines)
    split = {}
    for name, own in found.items():
        if len(own) >= LEAST_TO_EVALUATE:
            n = min(max(1, round(training_share * len(own))), len(own) - 1)
            split[name] = list(own)[:n], list(own)[n:]
    if len(split) < 2:
        message = f"two users with {LEAST_TO_EVALUATE} sessions are needed, found {len(split)}; try a smaller size"
        raise UnreadableError("; ".join([message, *skipped]))
    rng = np.random.default_rng(random_state)
    scores: list[NDArray[np.float64]] = []
    labels: list[NDArray[np.bool_]] = []
    rows = []
    late: list[Sequence[Hashable]] = [session for _, held_out in split.values() for session in held_out]
    start = 0  # of the user's own sessions in `late`: one list for all, so that many users do not take quadratic time
    for name, (training, held_out) in split.items():
        n_others = len(late) - len(held_out)
        chosen = rng.choice(n_others, min(INTRUDERS, n_others), replace=False)
        chosen[chosen >= start] += len(held_out)
        start += len(held_out)
        scorer = SessionScorer(false_alarm_rate=false_alarm_rate).fit(training)
        anomaly = scorer.anomaly_score([*held_out, *(late[i] for i in chosen)]) - scorer.threshold_
        intruder = np.arange(len(anomaly)) >= len(held_out)
        scores.append(anomaly)
        labels.append(intruder)
        rows.append({"user": name, "auc": _auc(anomaly, intruder)} | _at_threshold(anomaly, intruder))
    z, y = np.concatenate(scores), np.concatenate(labels)
    auc, missing, cost = roc_summary(z, y)
    own_threshold = _at_threshold(z, y)
    return Evaluation(
        len(split), int((~y).sum()), int(y.sum()), auc, missing, cost, **own_threshold, users=rows, skipped=skipped
    )


def _at_threshold(margin: NDArray[np.float64], intruder: NDArray[np.bool_]) -> dict[str, float]:
    return {
        "false_alarms": float(100 * (margin[~intruder] > 0).mean()),
        "missed": float(100 * (margin[intruder] <= 0).mean()),
    }


def _auc(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    own, other = np.sort(scores[~labels]), scores[labels]
    below = np.searchsorted(own, other, "left") + np.searchsorted(own, other, "right")
    return float(below.mean() / (2 * len(own)))


def roc_summary(scores: ArrayLike, labels: ArrayLike) -> tuple[float, dict[int, float], float]:
    """Summarise the ROC curve as the masquerade literature does.

    Parameters
    ----------
    scores : array_like [shape=(n,)]
        High means anomalous.
    labels : array_like [shape=(n,), bool]
        True for masquerade sessions; both kinds must be there.

    Returns
    -------
    auc : float
        Area under the curve; ties count half.
    missing : dict of int to float
        False-alarm percentage 1, 5 and 10 to the percentage of masquerade sessions missed when no more than so many of
        the others are flagged.
    cost : float
        The least missing % + 6 x false-alarm % over all thresholds.

    Raises
    ------
    ParameterError
        If one kind is missing, or lengths differ.
    """
    z = np.asarray(scores, np.float64).ravel()
    y = np.asarray(labels).ravel().astype(bool)
    if z.shape != y.shape or y.all() or not y.any():
        raise ParameterError("scores and labels must have one length, and labels both kinds of sessions.")
    own, other = np.sort(z[~y]), np.sort(z[y])
    thresholds = np.concatenate([[-np.inf], np.unique(z)])  # flagged: above
    flagged = len(own) - np.searchsorted(own, thresholds, "right")
    missed = 100 * np.searchsorted(other, thresholds, "right") / len(other)
    # compared as integers: 100 * (1 - 95 / 100) is more than 5
    missing = {rate: float(missed[100 * flagged <= rate * len(own)].min()) for rate in (1, 5, 10)}
    return _auc(z, y), missing, float((missed + 600 * flagged / len(own)).min())
