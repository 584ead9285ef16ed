"""How well the users of some histories can be told apart."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf import choices
from visionnmf._checks import check_number
from visionnmf.apps.report import Report
from visionnmf.exceptions import ParameterError, UnreadableError

from .model import SessionScorer
from .training import Histories, collect_sessions

__all__ = ["Evaluation", "evaluate", "roc_summary"]

INTRUDERS = 50  # sessions of other users against each user in `evaluate`
LEAST_TO_EVALUATE = 4  # sessions of a user


@dataclass(frozen=True)
class Evaluation(Report):
    """How well users can be told apart; with the attributes of :class:`~visionnmf.apps.report.Report`.

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
        return "\n".join([line, *self._ending()])


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
    check_number(training_share, "training_share", 0, 1, without_low=True, without_high=True)
    paths = [str(path) for path in histories]
    found, skipped = collect_sessions(paths, size=size, idle=idle, format=format, user=None, whole_lines=whole_lines)
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
    at = _at_threshold(z, y)
    return Evaluation(
        n_users=len(split),
        n_own=int((~y).sum()),
        n_intruders=int(y.sum()),
        auc=auc,
        missing=missing,
        cost=cost,
        false_alarms=at["false_alarms"],
        missed=at["missed"],
        users=rows,
        inputs=paths,
        skipped=skipped,
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
        raise ParameterError(
            f"labels must have the length of scores, {len(z)}, and both kinds of sessions; got {len(y)}, "
            f"{y.sum()} of them masquerades"
        )
    own, other = np.sort(z[~y]), np.sort(z[y])
    thresholds = np.concatenate([[-np.inf], np.unique(z)])  # flagged: above
    flagged = len(own) - np.searchsorted(own, thresholds, "right")
    missed = 100 * np.searchsorted(other, thresholds, "right") / len(other)
    # compared as integers: 100 * (1 - 95 / 100) is more than 5
    missing = {rate: float(missed[100 * flagged <= rate * len(own)].min()) for rate in (1, 5, 10)}
    return _auc(z, y), missing, float((missed + 600 * flagged / len(own)).min())
