"""How well the users of some histories can be told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visionnmf import choices
from visionnmf._checks import check_choice, check_count, check_number
from visionnmf.apps.report import Report
from visionnmf.apps.runner import run_parallel
from visionnmf.exceptions import ParameterError, UnreadableError

from .baselines import EigenCooccurrence, MexPereraNMF, NaiveBayes, WangNMF
from .draw import check_drawable, draw_roc
from .model import SessionScorer
from .training import Histories, collect_sessions

__all__ = ["METHODS", "Evaluation", "evaluate", "roc_summary"]

Floats = NDArray[np.float64]
Symbols = Sequence[Hashable]

OURS = "scorer"
# By name: makes a detector for a false-alarm rate and a seed.
METHODS: dict[str, Callable[[float, int], Any]] = {
    OURS: lambda rate, _: SessionScorer(false_alarm_rate=rate),
    "mex-perera": lambda _, seed: MexPereraNMF(random_state=seed),
    "mex-perera-literal": lambda _, seed: MexPereraNMF(unseen_distance=0.0, random_state=seed),
    "wang": lambda _, seed: WangNMF(random_state=seed),
    "ecm": lambda _, seed: EigenCooccurrence(),
    "naive-bayes": lambda _, seed: NaiveBayes(),
}

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
    methods : dict of str to dict
        The figures of each method by its name; those above are the first one's.
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
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)

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
        return "\n".join([line, *self._table(), *self._ending()])

    def _table(self) -> list[str]:
        """Return the methods beside each other, where there are several."""
        if len(self.methods) < 2:
            return []
        lines = [f"{'method':20}  AUC   missed % at 1 / 5 / 10 %   least cost   missed / false alarms, own thresholds"]
        for method, found in self.methods.items():
            missing = " / ".join(f"{value:.0f}" for value in found["missing"].values())
            at = f"{found['missed']:.0f} / {found['false_alarms']:.1f}"
            lines.append(f"{method:20} {found['auc']:.3f}  {missing:>24}   {found['cost']:>10.1f}   {at:>14}")
        return lines


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
    methods: Sequence[str] = (OURS,),
    roc: str | Path | None = None,
    n_jobs: int = 1,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
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
        Seed of the choice of sessions, and of the methods that need one.
    methods : sequence of str, default=("scorer",)
        What to compare: "scorer", our :class:`SessionScorer`; "mex-perera" and "mex-perera-literal" (a session of
        unseen commands alone at distance 1, or 0), "wang", "ecm" and "naive-bayes", the baselines of
        :mod:`.baselines`. These have as a user's threshold the quantile of the second half of the training sessions,
        scored by the first, that `false_alarm_rate` gives.
    roc : str, Path or None, default=None
        A PNG file to draw the pooled curves into; needs matplotlib.
    n_jobs : int, default=1
        Processes.
    force : bool, default=False
        Whether `roc` may be replaced.
    progress : callable or None, default=None
        Called as ``progress(done, total)`` after each user and method.

    Returns
    -------
    Evaluation
        The figures; users with fewer than four sessions are left out. Files that cannot be read are skipped and
        reported.

    Raises
    ------
    ParameterError
        If `training_share` is not between 0 and 1, a method is not known, or matplotlib is missing.
    UnreadableError
        If fewer than two users have four sessions.
    OutputExistsError
        If `roc` exists and `force` is false.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import evaluate
    >>> len(evaluate(["ada.txt", "ben.txt"], size=20).users)
    2
    """
    for method in methods:
        check_choice(method, "methods", METHODS)
    if not methods:
        raise ParameterError(f"methods must name one of {sorted(METHODS)}; got none")
    check_count(n_jobs, "n_jobs")
    check_number(training_share, "training_share", 0, 1, without_low=True, without_high=True)
    paths = [str(path) for path in histories]
    if roc is not None:
        check_drawable(roc, force, paths)
    found, skipped = collect_sessions(paths, size=size, idle=idle, format=format, user=None, whole_lines=whole_lines)
    split = {}
    for name, own in found.items():
        if len(own) >= LEAST_TO_EVALUATE:
            n = min(max(1, round(training_share * len(own))), len(own) - 1)
            split[name] = list(own)[:n], list(own)[n:]
    if len(split) < 2:
        message = f"two users with {LEAST_TO_EVALUATE} sessions are needed, found {len(split)}; try a smaller size"
        raise UnreadableError("; ".join([message, *skipped]))
    tasks = _draw_intruders(split, np.random.default_rng(random_state))
    found_by = {method: _Found() for method in methods}
    jobs = {
        f"{method} {number}": (method, task, false_alarm_rate, random_state)
        for method in methods
        for number, task in enumerate(tasks)
    }
    kept: dict[str, tuple[Floats, float]] = {}

    def keep(name: str, scored: tuple[Floats, float]) -> None:
        kept[name] = scored
        if progress is not None:
            progress(len(kept), len(jobs))

    if n_jobs == 1:
        for name, arguments in jobs.items():
            keep(name, _score_user(*arguments))
    else:
        run_parallel(jobs, _score_user, n_jobs, keep)
    for method in methods:
        for number, task in enumerate(tasks):
            anomaly, threshold = kept[f"{method} {number}"]
            found_by[method].add(task, anomaly, threshold, relative=method == OURS)
    table = {method: found.summary() for method, found in found_by.items()}
    if roc is not None:
        draw_roc(roc, {method: found.curve() for method, found in found_by.items()}, force=force)
    first = found_by[methods[0]]
    return Evaluation(
        n_users=len(split),
        n_own=int((~first.y).sum()),
        n_intruders=int(first.y.sum()),
        **table[methods[0]],
        users=first.rows,
        methods=table,
        inputs=paths,
        outputs=[] if roc is None else [str(roc)],
        skipped=skipped,
    )


class _Task(NamedTuple):
    """A user: training sessions, and those to judge, own ones first."""

    user: str
    training: Sequence[Symbols]
    judged: Sequence[Symbols]
    n_own: int


def _draw_intruders(
    split: Mapping[str, tuple[Sequence[Symbols], Sequence[Symbols]]], rng: np.random.Generator
) -> list[_Task]:
    tasks = []
    late: list[Symbols] = [session for _, held_out in split.values() for session in held_out]
    start = 0  # of the user's own sessions in `late`: one list for all, so that many users do not take quadratic time
    for name, (training, held_out) in split.items():
        n_others = len(late) - len(held_out)
        chosen = rng.choice(n_others, min(INTRUDERS, n_others), replace=False)
        chosen[chosen >= start] += len(held_out)
        start += len(held_out)
        tasks.append(_Task(name, training, [*held_out, *(late[i] for i in chosen)], len(held_out)))
    return tasks


def _score_user(method: str, task: _Task, rate: float, random_state: int) -> tuple[Floats, float]:
    """Return the scores of a user's task and the user's threshold, from the training sessions alone."""
    model = METHODS[method](rate, random_state).fit(task.training)
    scores = np.asarray(model.anomaly_score(task.judged), np.float64)
    if isinstance(model, SessionScorer):
        return scores, model.threshold_
    half = len(task.training) // 2
    if half == 0:
        return scores, math.inf
    later = METHODS[method](rate, random_state).fit(task.training[:half]).anomaly_score(task.training[half:])
    return scores, float(np.quantile(later, 1 - rate))


class _Found:
    """What a method has found, user by user."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._scores: list[Floats] = []
        self._margins: list[Floats] = []
        self._labels: list[NDArray[np.bool_]] = []

    def add(self, task: _Task, anomaly: Floats, threshold: float, *, relative: bool) -> None:
        """Add a user; where scores are `relative`, the pooled curve takes them less the threshold."""
        intruder = np.arange(len(anomaly)) >= task.n_own
        margin = anomaly - threshold
        self._scores.append(margin if relative else anomaly)
        self._margins.append(margin)
        self._labels.append(intruder)
        self.rows.append({"user": task.user, "auc": _auc(anomaly, intruder)} | _at_threshold(margin, intruder))

    @property
    def y(self) -> NDArray[np.bool_]:
        return np.concatenate(self._labels)

    def summary(self) -> dict[str, Any]:
        """Return the figures of all users together."""
        auc, missing, cost = roc_summary(np.concatenate(self._scores), self.y)
        return {"auc": auc, "missing": missing, "cost": cost} | _at_threshold(np.concatenate(self._margins), self.y)

    def curve(self) -> tuple[Floats, Floats]:
        """Return false-alarm and detection rates over all thresholds."""
        z, y = np.concatenate(self._scores), self.y
        own, other = np.sort(z[~y]), np.sort(z[y])
        thresholds = np.concatenate([[-np.inf], np.unique(z)])
        return tuple(1 - np.searchsorted(part, thresholds, "right") / len(part) for part in (own, other))  # type: ignore[return-value]


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

    Examples
    --------
    >>> from visionnmf.apps.masquerade import roc_summary
    >>> area, missing, cost = roc_summary([0.1, 0.2, 0.9, 0.8], [0, 0, 1, 1])
    >>> area
    1.0
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
